"""What a method gives that counts its horizon: exact counts of a period's rows, noisy sums of them,
and what any window of these is.

Guarantee   none spent: this is about programs, not about rows. A method's own page says what its
            sums cost (`mst_series`, `gdp_series`).

    counted    the rows of a period that enter, as whole numbers: private, frozen before anything is
               drawn from them
    draw       noisy sums of a period, from what is frozen of all periods until then: the only draw
               of noise
    window     what the method releases, of the rows of any window of published periods
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from dpicl.accounting.events import PERIODS
from dpicl.accounting.guarantee import Guarantee, Neighbours
from dpicl.contract.models import Contract
from dpicl.data.central.exact_counts import ExactCounts
from dpicl.ground.errors import ParameterError, PrivacyError
from dpicl.ground.randomness import Stream
from dpicl.ground.types import PrivateTable
from dpicl.mechanisms.continual_counts import ContinualCounts, Contribution, Windows
from dpicl.mechanisms.noisy_steps import GaussianBudget, GaussianTotal
from dpicl.mechanisms.samplers import LARGEST_VARIANCE

Arrays = Mapping[str, np.ndarray]
"""What is published of a period, int64."""
Exact = TypeVar("Exact", ExactCounts, np.ndarray)
"""Exact counts of a period; those of two batches of its rows add up, and what is taken back is
subtracted.
"""
Drawn = TypeVar("Drawn")
SURE = 5
"""Deviations of its noise that a window's number of rows must be above, for its shares to mean
something.
"""


@dataclass(frozen=True)
class WindowRows:
    """By window: the estimate of least variance of how many rows it has, and its deviation; and
    that of the noise in every cell.
    """

    rows: np.ndarray
    deviations: np.ndarray
    of_counts: np.ndarray


@dataclass(frozen=True)
class Compared:
    """Noisy counts of one column in two windows and more, to tell whether its shares differ.

    Attributes:
        column: its place among the contract's features, or after them where it is none.
        counts: shape (windows, cells), in rows.
        noise: of the noise between cells, where that of a counter is 1: shape (cells, cells).
    """

    column: int
    counts: np.ndarray
    noise: np.ndarray


class CountedHorizon(ABC, Generic[Exact, Drawn]):
    """One horizon: its counters, and what they cost together."""

    periods: int
    contribution: Contribution
    total: GaussianTotal
    error_is: ClassVar[str]
    """What `errors` are of, as a sentence for people."""

    @property
    def guarantee(self) -> Guarantee:
        """What all periods cost together."""
        return self.total.guarantee()

    @property
    def budget(self) -> GaussianBudget:
        """mu^2: under REPLACE_ONE a Gaussian's price is of twice what one row moves, and the
        counters' movement is stated as it is.
        """
        return self.total.budget.times(
            Fraction(4 if self.total.neighbours is Neighbours.REPLACE_ONE else 1)
        )

    @property
    @abstractmethod
    def counters(self) -> ContinualCounts:
        """Those that count from the first period on, of which `window_rows` and `compared` are."""

    @abstractmethod
    def largest(self) -> list[ContinualCounts]:
        """Of each kind of counters that may draw in some period, those with the most noise."""

    @property
    @abstractmethod
    def stated(self) -> dict[str, Any]:
        """What is published of the horizon itself beside its periods: public."""

    @abstractmethod
    def counted(self, rows: PrivateTable, contract: Contract, places: np.ndarray) -> Exact:
        """Exact counts of the rows at these positions."""

    def deviations(self, windows: Windows) -> np.ndarray:
        """Of the noise in every cell of `counters`, by window."""
        return np.sqrt(np.diagonal(self.counters.covariance(windows)))

    def needed(self, counts: Exact, released: Sequence[Arrays]) -> Exact:
        """Of a period's exact counts those that later periods need; `released` is what the periods
        before it published.
        """
        return counts

    @abstractmethod
    def packed(self, counts: Exact) -> tuple[dict[str, Any], np.ndarray]:
        """Exact counts for a file: what they are, and signed whole numbers one after another."""

    @abstractmethod
    def unpacked(self, about: Mapping[str, Any], flat: np.ndarray) -> Exact:
        """The counts that `packed` gave."""

    @abstractmethod
    def draw(
        self, history: Sequence[Exact], released: Sequence[Arrays], stream: Stream
    ) -> dict[str, np.ndarray]:
        """What is published in the last period of `history`, whose periods before published
        `released`: the only draw of noise.
        """

    @abstractmethod
    def window(self, released: Sequence[Arrays], first: int, last: int) -> Drawn:
        """The release of the rows of the periods `first` to `last`; `released` is what periods 1 to
        `last` published. Raises ParameterError: there are no such periods.
        """

    @abstractmethod
    def window_rows(self, released: Sequence[Arrays], windows: Windows) -> WindowRows:
        """How many rows windows (first, last) of published periods have."""

    @abstractmethod
    def errors(self, released: Sequence[Arrays], windows: Windows) -> list[np.ndarray]:
        """Of each window, what noise is expected to do to every feature: `error_is`."""

    @abstractmethod
    def compared(self, released: Sequence[Arrays], windows: Windows) -> Iterator[Compared]:
        """Columns of these windows; those that are counted in several parts one part after
        another.
        """


def contribution_of(contract: Contract, *, signed: Fraction | int = 0) -> Contribution:
    """What a unit of a contract with a horizon may put in; `signed` as `Contribution` has it, where
    no row takes another back.
    """
    person = contract.person
    bounds = (person.rows_in_horizon, person.max_rows) if person else (1, 1)
    return Contribution(*bounds, signed=1 if contract.takes_back else signed)


def total_of(contract: Contract, *, epsilon: float, delta: float) -> GaussianTotal:
    """The budget of a horizon, for the contract's unit and neighbours."""
    privacy = contract.privacy
    return GaussianTotal.of(
        epsilon, delta=delta, neighbours=Neighbours(privacy.neighbours), unit=privacy.unit
    )


Made = TypeVar("Made", bound=CountedHorizon[Any, Any])


def drawable(series: Made, contract: Contract, epsilon: float) -> Made:
    """The same horizon, all of whose periods can be drawn: looked at before one is charged, as no
    later night could mend it. Raises ParameterError: there is no noise so large.
    """
    try:
        series.largest()
    except ParameterError as error:
        if error.name != "variance":
            raise
        unit = series.contribution
        person = contract.person
        expected = "a larger one"
        asking = "a row asks"
        if person:
            expected = f"{expected}, or fewer rows"
            asking = (
                f"max_rows={unit.per_period} and {unit.rows} rows of a person in the horizon ask"
            )
        expected += (
            f": {asking} for a deviation above 2^{LARGEST_VARIANCE.bit_length() // 2} of the "
            f"noise of {contract.name}, which is never drawn"
        )
        raise ParameterError("epsilon", f"{epsilon:g}", expected) from None
    return series


def no_whole_table(contract: Contract) -> PrivacyError:
    """What the draw of a whole table is refused by, where its method counts the contract's
    horizon.
    """
    return PrivacyError(
        f"{contract.name}: has a horizon, whose periods are counted one by one; no release of the "
        f"whole table is charged"
    )


def horizon_facts(contract: Contract) -> dict[str, object]:
    """The part of a horizon's name that every method's has."""
    periods = contract.periods
    return {PERIODS: len(periods), "first": periods[0], "last": periods[-1]}


def charged_together(contract: Contract, cost: Guarantee) -> str:
    """What is promised of a horizon, as the beginning of a sentence."""
    periods = contract.periods
    back = ", corrections included" if contract.takes_back else ""
    return (
        f"All {len(periods)} periods from {periods[0]} to {periods[-1]} together are "
        f"({cost.epsilon:.4g}, {cost.delta:.2g})-DP, charged once{back}"
    )
