"""Whether a release would be little but noise: known from the contract, epsilon and the stated
number of rows, in no time.

Guarantee   none needed: nothing private is looked at.

    (1)  error of a column   what noise alone does to it, a share of all rows or of the column's
         bounds (`TabularMethod.column_errors`)
    (2)  error of a release  the median of (1)

Not covered how well a classifier does on what is released: `plan`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import attrgetter
from statistics import median
from typing import Any

from dpicl.contract.models import Contract
from dpicl.contract.pipeline import Point, Unit
from dpicl.ground.errors import ParameterError, PrivacyError
from dpicl.methods import METHODS
from dpicl.methods.grid import points
from dpicl.methods.tabular_method import TabularMethod

log = logging.getLogger(__name__)
NOTABLE, HOPELESS = 0.1, 0.4
"""Errors of a release: from the one on a warning, from the other on a refusal."""
_MOST = 1e6


@dataclass(frozen=True)
class NoisyRelease:
    """A release of which noise would be a notable part.

    Attributes:
        error: equation (2); `HOPELESS` or more is refused.
        enough: one of the least epsilons at which it is below `NOTABLE`; infinity if a million is
            not.
    """

    contract: str
    method: str
    epsilon: float
    rows: int
    error: float
    enough: float
    given: bool
    """Whether a program holds the rows, so that no contract has a file."""

    @property
    def hopeless(self) -> bool:
        """Whether it says next to nothing of the rows."""
        return self.error >= HOPELESS

    @property
    def sentence(self) -> str:
        """What is wrong, and what would be better."""
        share = "all" if self.error >= 1 else f"about {self.error:.0%}"
        better = f"epsilon {self.enough:.3g} or more, " if self.enough < math.inf else ""
        compared = "`session.plan(schema)`" if self.given else f"`dpicl plan {self.contract}`"
        return (
            f"{self.contract}: at {self.rows:,} rows and epsilon {self.epsilon:g}, {share} of "
            f"what {self.method} releases of a typical column "
            f"would be noise; expected {better}fewer columns or bins, more rows, or another "
            f"method ({compared} compares them)"
        )


def noisy_releases(
    contract: Contract, unit: Unit, rows: int | None = None
) -> Iterator[NoisyRelease]:
    """The releases of a unit that are notably noisy at this number of rows, or the one that the
    contract states; none if it states none.

    Raises:
        DpiclError: a release has no price.
    """
    method, count = METHODS[unit.method], rows or contract.population
    if count is None or not isinstance(method, TabularMethod):
        return
    for point in points(method, unit).values():
        method.cost(contract, point)
        error = _error(method, contract, point, count)
        if error >= NOTABLE:
            enough = _enough(method, contract, point, count)
            yield NoisyRelease(
                contract.name,
                method.title,
                point.epsilon,
                count,
                error,
                enough,
                contract.source.frame,
            )


def _enough(method: TabularMethod[Any], contract: Contract, point: Point[Any], rows: int) -> float:
    """One of the least epsilons at which noise is no notable part; infinity where none is that the
    method takes.
    """
    enough = point.epsilon
    while enough < _MOST:
        try:
            error = _error(method, contract, replace(point, epsilon=enough), rows)
        except ParameterError:  # with Gaussian noise there is a largest one
            break
        if error < NOTABLE:
            return enough
        enough *= 1.25
    return math.inf


def _error(method: TabularMethod[Any], contract: Contract, point: Point[Any], rows: int) -> float:
    """Equation (2); 0 where nothing is known beforehand."""
    return median(method.column_errors(contract, point, rows).values() or [0.0])


def check_noise(contract: Contract, unit: Unit, *, anyway: bool) -> None:
    """Refuse a unit with a hopeless release, and log a warning of a notably noisy one.

    Args:
        anyway: pass it all the same.

    Raises:
        PrivacyError: what would be released, and what to do instead.
    """
    worst = max(noisy_releases(contract, unit), key=attrgetter("error"), default=None)
    if worst is not None and worst.hopeless and not anyway:
        raise PrivacyError(f"{worst.sentence}; `--anyway` (`anyway=True`) releases it all the same")
    if worst is not None:
        log.warning("%s", worst.sentence)
