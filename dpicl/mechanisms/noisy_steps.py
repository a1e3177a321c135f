"""Noisy counts and choices of a mechanism of many steps, by what is left of a budget: pure, or
Gaussian at a delta.

Trust       Central: the curator reads exact counts and scores; only noisy counts and what was
            chosen leave.
Unit        One row; or one person, of whom at most m rows enter.
Neighbours  ADD_OR_REMOVE_ONE: one row adds 1 to one cell of what is counted at once, and moves the
            difference of two scores by at most the spread. A Gaussian budget is calibrated for
            REPLACE_ONE too: one row removed and one added.
Guarantee   `PureBudget`: epsilon-DP, delta = 0; `GaussianBudget`: mu-GDP, which is exactly what one
            Gaussian of deviation 1 / mu costs. Both for all steps in sequence, where what a step
            does depends on earlier answers, its part of the budget on what is left, and the parts
            add up to the whole whatever is chosen.
Paper       [RRUV16] Rogers, Roth, Ullman and Vadhan (arXiv 1605.08294), pure sums; [DRS19] Dong,
            Roth and Su, Gaussian DP (1905.02383); [ST22] Smith and Thakurta, its fully adaptive
            composition (2210.17520); [DDR20] Dong, Durfee and Rogers, bounded range.

                 counts, by a part b of the budget                    a choice
                 whole
    (1)  pure      discrete Laplace of scale 1 / b                      `exponential_max` at b
         epsilon, the sum of all b
    (2)  Gaussian  discrete Gaussian of variance 1 / b + 4 / k^2, on     `bounded_range_max` at
         mu^2, the sum of all b
                   multiples of 1 / k                                    2 logit F(sqrt(b) / 2)
    (3)  m rows cost what a Gaussian does that they move by m; a row replaced by another, what it
         does that is moved by 2

Why (2): counts are the post-processing of continuous Gaussian ones of variance 1 / b
(docs/proofs.md, lemma G). A choice of that range tells no more than a Gaussian of mu = sqrt(b), and
steps whose parts depend on earlier answers are together one of the sum of all b (lemma C). (3):
[DRS19] theorem 6.

Symbols     F, f the normal distribution function and density, k the least power of two with k^2 / b
            >= 400.
Not covered what the steps cost by zero-concentrated DP (rho = b / 2 of counts, r^2 / 8 of a
choice): it charges a choice
            36 % less, but its best known conversion to (epsilon, delta) loses 10 to 18 % of the
            whole budget.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Self

from dpicl.accounting.accountant import price
from dpicl.accounting.calibration import calibrate, rational_above, rational_below
from dpicl.accounting.events import gaussian, pure
from dpicl.accounting.guarantee import Guarantee, Neighbours
from dpicl.accounting.pure import SMOOTHED
from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import Stream
from dpicl.mechanisms import discrete_gaussian, noisy_count, noisy_max

_FINE = 400
"""Least variance on whole numbers: then at most a hundredth of it is more."""
_MEAN = math.sqrt(2 / math.pi)
"""Of the size of normal noise, in deviations."""
MOST_EPSILON = 500
"""Of a Gaussian budget: beyond it there is next to no noise, and grids of losses do not hold it."""
_FARTHEST, _ROUNDING = 36.0, 2.0**-40


@dataclass(frozen=True)
class StepBudget(ABC):
    """What a step may spend, or all of them; parts of one budget add up. None stands for infinity,
    whose parts are infinite too.
    """

    amount: Fraction | None

    def times(self, share: Fraction) -> Self:
        """A part, or a sum of equal ones."""
        return self if self.amount is None else replace(self, amount=self.amount * share)

    def plus(self, other: Self) -> Self:
        """Both together."""
        if self.amount is None or other.amount is None:
            return self
        return replace(self, amount=self.amount + other.amount)

    def less(self, other: Self) -> Self:
        """What is left of this."""
        if self.amount is None or other.amount is None:
            return self
        return replace(self, amount=self.amount - other.amount)

    @abstractmethod
    def counts(self, exact: Sequence[int], stream: Stream) -> list[int] | list[float]:
        """Noisy counts: the exact ones of a table of which one row is in one cell, by equation (1)
        or (2).
        """

    @abstractmethod
    def chosen(self, scores: Iterable[int], *, spread: int, stream: Stream) -> int:
        """The place of a large score, by equation (1) or (2)."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """Of the noise in every count: of equation (1), or the standard deviation of (2); 0 without
        noise.
        """

    @property
    def deviation(self) -> float:
        """Of the noise in every count: of Gaussian noise the scale."""
        return self.scale

    @property
    def choice_scale(self) -> float:
        """By how much, of every unit of spread, a score may be below the largest one that is e
        times as likely chosen: by an exponential choice the scale.
        """
        return self.scale

    @property
    def noise(self) -> float:
        """The mean size of the noise in every count, about: of Laplace noise the scale."""
        return self.scale

    @abstractmethod
    def noise_of_each(self, tables: int) -> float:
        """The same where so many tables share the budget."""

    @abstractmethod
    def tables(self, cell: float, share: float) -> float:
        """How many tables can be counted whose noise has this share of so many rows as its mean
        size.
        """


@dataclass(frozen=True)
class PureBudget(StepBudget):
    """Equation (1): `amount` is epsilon."""

    @staticmethod
    def of(epsilon: float | Fraction) -> PureBudget:
        """Of a whole mechanism. Raises ParameterError: epsilon is NaN or not positive."""
        return PureBudget(noisy_count.exact_epsilon(epsilon))

    def guarantee(self) -> Guarantee:
        """What steps that spend this cost: one event, since which steps there are depends on the
        rows.
        """
        cost = math.inf if self.amount is None else float(self.amount)
        return Guarantee(cost, 0.0, Neighbours.ADD_OR_REMOVE_ONE, "row", pure(cost))

    def counts(self, exact: Sequence[int], stream: Stream) -> list[int]:
        """See `StepBudget`."""
        return noisy_count.noisy_counts(exact, epsilon=self.amount, stream=stream)

    def chosen(self, scores: Iterable[int], *, spread: int, stream: Stream) -> int:
        """See `StepBudget`."""
        return noisy_max.exponential_max(scores, epsilon=self.amount, spread=spread, stream=stream)

    @property
    def scale(self) -> float:
        """See `StepBudget`."""
        return 0.0 if self.amount is None else float(1 / self.amount)

    @property
    def deviation(self) -> float:
        """See `StepBudget`."""
        return math.sqrt(2) * self.scale

    def noise_of_each(self, tables: int) -> float:
        """See `StepBudget`."""
        return 0.0 if self.amount is None else tables / float(self.amount)

    def tables(self, cell: float, share: float) -> float:
        """See `StepBudget`."""
        return math.inf if self.amount is None else float(self.amount) * cell * share


@dataclass(frozen=True)
class GaussianBudget(StepBudget):
    """Equation (2): `amount` is mu^2."""

    def counts(self, exact: Sequence[int], stream: Stream) -> list[int] | list[float]:
        """See `StepBudget`; multiples of 1 / k."""
        if self.amount is None:
            return list(exact)
        sums = discrete_gaussian.noisy_sums(
            [self._fine * total for total in exact], variance=self._variance, stream=stream
        )
        return sums if self._fine == 1 else [total / self._fine for total in sums]

    def chosen(self, scores: Iterable[int], *, spread: int, stream: Stream) -> int:
        """See `StepBudget`."""
        return noisy_max.bounded_range_max(scores, epsilon=self.range, spread=spread, stream=stream)

    @property
    def range(self) -> Fraction | None:
        """Of a choice, rounded down."""
        if self.amount is None:
            return None
        place = min(math.sqrt(self.amount) / 2, _FARTHEST) / math.sqrt(2)
        return rational_below(2 * math.log(math.erfc(-place) / math.erfc(place)) * (1 - _ROUNDING))

    @property
    def scale(self) -> float:
        """See `StepBudget`."""
        return 0.0 if self.amount is None else math.sqrt(self._variance) / self._fine

    @property
    def choice_scale(self) -> float:
        """See `StepBudget`."""
        return 0.0 if self.range is None else float(1 / self.range)

    @property
    def noise(self) -> float:
        """See `StepBudget`."""
        return _MEAN * self.scale

    def noise_of_each(self, tables: int) -> float:
        """See `StepBudget`."""
        return self.times(Fraction(1, tables)).noise

    def tables(self, cell: float, share: float) -> float:
        """See `StepBudget`."""
        return math.inf if self.amount is None else float(self.amount) * (cell * share / _MEAN) ** 2

    @property
    def _fine(self) -> int:
        """k."""
        assert self.amount is not None
        fine = 1
        while fine**2 < _FINE * self.amount:
            fine *= 2
        return fine

    @property
    def _variance(self) -> Fraction:
        """Of the noise on whole numbers, counts times k; rounded up."""
        assert self.amount is not None
        return rational_above(self._fine**2 / self.amount + SMOOTHED)


@dataclass(frozen=True)
class GaussianTotal:
    """A whole mechanism's Gaussian budget: `sigma` is 1 / mu of one row, `rows` are moved by a unit
    of protection; no sigma: no noise.
    """

    sigma: Fraction | None
    rows: int
    neighbours: Neighbours
    unit: str
    delta: float

    @staticmethod
    def of(
        epsilon: float, *, delta: float, neighbours: Neighbours, unit: str = "row", rows: int = 1
    ) -> GaussianTotal:
        """The largest that costs at most (epsilon, delta) for a unit of at most so many rows, under
        these neighbours; equation (3). Raises ParameterError: epsilon is outside (0, 500] and not
        infinite, or delta outside (0, 1); PrivacyError: no noise costs this much.
        """
        exact = noisy_count.exact_epsilon(epsilon)
        if exact is not None and exact > MOST_EPSILON:
            raise ParameterError(
                "epsilon", epsilon, f"a number in (0, {MOST_EPSILON}] with gaussian noise, or inf"
            )
        sigma = (
            None if exact is None else rows * Fraction(_multiplier(float(exact), delta, neighbours))
        )
        return GaussianTotal(sigma, rows, neighbours, unit, delta)

    @property
    def budget(self) -> GaussianBudget:
        """For the steps."""
        return GaussianBudget(None if self.sigma is None else 1 / self.sigma**2)

    def guarantee(self) -> Guarantee:
        """What steps that spend this budget cost: one event, since which steps there are depends on
        the rows.
        """
        if self.sigma is None:
            return Guarantee(math.inf, 0.0, self.neighbours, self.unit, pure(math.inf))
        event = gaussian(sigma=float(self.sigma), sensitivity=float(self.rows))
        return price(event, neighbours=self.neighbours, unit=self.unit, delta=self.delta)


@lru_cache(maxsize=1024)
def _multiplier(epsilon: float, delta: float, neighbours: Neighbours) -> float:
    return calibrate(
        lambda sigma: gaussian(sigma=sigma), epsilon=epsilon, delta=delta, neighbours=neighbours
    )
