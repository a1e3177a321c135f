"""What goes into the ledger and what it answers.

Unit        stated by every account, and checked against every entry.
Neighbours  stated by every account, and checked against every entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dpicl.accounting.accountant import Cost
from dpicl.accounting.guarantee import Guarantee, Neighbours
from dpicl.errors import ParameterError

ReleaseState = Literal["reserved", "published"]


@dataclass(frozen=True)
class Account:
    """The budget of one data set's privacy unit: caps, or none for public benchmark data.

    `delta_cap` is also where the cost of Gaussian events is read, on benchmarks too; with 0 they
    have no finite cost.
    """

    name: str
    unit: str
    neighbours: Neighbours
    epsilon_cap: float | None = None
    delta_cap: float = 0.0
    benchmark: bool = False

    def __post_init__(self) -> None:
        if self.benchmark != (self.epsilon_cap is None):
            raise ParameterError(
                "epsilon_cap", self.epsilon_cap, "a cap, or benchmark=True, not both"
            )
        check_caps(self.epsilon_cap, self.delta_cap)


def check_caps(epsilon_cap: float | None, delta_cap: float) -> None:
    """Refuse caps that cap nothing. Raises ParameterError: epsilon is negative, NaN or infinite, or
    delta outside [0, 1).
    """
    if epsilon_cap is not None and not 0 <= epsilon_cap < float("inf"):
        raise ParameterError("epsilon_cap", epsilon_cap, "a finite number >= 0")
    if not 0 <= delta_cap < 1:
        raise ParameterError("delta_cap", delta_cap, "a number in [0, 1)")


@dataclass(frozen=True)
class Release:
    """One output to be: its name, who pays, what it is drawn by, and its guarantee.

    `parameters` are public and plain JSON.
    """

    release_id: str
    account: str
    mechanism: str
    parameters: Mapping[str, Any]
    guarantee: Guarantee


@dataclass(frozen=True)
class Reservation:
    """The state of a release whose cost is charged; `is_new` for the call that charged it."""

    state: ReleaseState
    artefact_sha256: str | None
    is_new: bool


@dataclass(frozen=True)
class Entry:
    """A release in the ledger: what it was charged, and when."""

    release: Release
    reserved_utc: str
    artefact_sha256: str | None = None
    published_utc: str | None = None

    @property
    def state(self) -> ReleaseState:
        """`published` once an artefact has won."""
        return "reserved" if self.artefact_sha256 is None else "published"


@dataclass(frozen=True)
class Quote:
    """What releases would cost: alone, what is spent now, and the total after them.

    `cap` and `left` are None on a benchmark account. `closed_by` is the end of a sentence that says
    why a cap is 0 that nobody has set.
    """

    cost: Cost
    before: Cost
    after: Cost
    cap: float | None
    closed_by: str = ""

    @property
    def allowed(self) -> bool:
        """Whether `reserve` would accept them; where nothing new is to be charged, whatever the
        cap. One of 0 admits nothing else.
        """
        is_free = not (self.cost.epsilon or self.cost.delta)
        return is_free or self.cap is None or (self.cap > 0 and self.after.epsilon <= self.cap)

    @property
    def left(self) -> float | None:
        """Epsilon left after them; None without a cap, negative if they are refused."""
        return None if self.cap is None else self.cap - self.after.epsilon


@dataclass(frozen=True)
class OdometerReading:
    """The odometer after one entry."""

    entry: Entry
    total: Cost
