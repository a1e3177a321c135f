"""Above threshold: is a sum smaller than a public threshold? Queried again and again, charged once,
until it is.

Trust       Central: the curator reads exact sums; only the answers leave.
Unit        One row.
Neighbours  ADD_OR_REMOVE_ONE, where a row more moves no sum down and none up by more than R.
Guarantee   epsilon-DP, delta = 0, for all answers up to and with the first "yes": however many "no"
            came before.
Paper       [DNRRV09] sparse vector; [LSL17] Lyu, Su and Li 2017 (arXiv 1603.01699), theorem 5 for
            sums that all move one way: (2) needs no factor of 2. Used as in [A24] (arXiv
            2407.12108).

    (1)  rho  of law exp(-|z| epsilon_1 / R),  once
    (2)  yes, if sum_t + nu_t < threshold + rho,  nu_t of law exp(-|z| epsilon_2 / R), for every sum
    (3)  epsilon = epsilon_1 + epsilon_2,  halves of it

A row more: shift rho by R where sums before the "yes" moved, and nu of the last one by at most R.

Symbols     R a whole number, rho and nu whole: both discrete Laplace.
Not covered further queries after a "yes" with the same rho: they need a new one, and are charged
again.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpicl.accounting.guarantee import Event, Neighbours
from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import Stream
from dpicl.mechanisms.samplers import discrete_laplaces


@dataclass(frozen=True)
class SparseVector:
    """One threshold under one budget; epsilon None is no noise."""

    epsilon: Fraction | None
    spread: int

    def __post_init__(self) -> None:
        if self.epsilon is not None and not self.epsilon > 0:
            raise ParameterError("epsilon", self.epsilon, "a rational > 0, or None for no noise")
        if self.spread < 1:
            raise ParameterError("spread", self.spread, "a whole number >= 1")

    def threshold_noises(self, count: int, stream: Stream) -> np.ndarray:
        """Equation (1) for so many thresholds: shape (count,), secret, and the same for all sums up
        to the first "yes".
        """
        noises = ThresholdNoises(self)
        return noises.draw(count, stream) if self.epsilon is None else stream.passes(noises, count)

    def are_below(
        self, totals: Sequence[int] | np.ndarray, threshold: int, noises: np.ndarray, stream: Stream
    ) -> np.ndarray:
        """Equation (2) for one sum under each threshold's noise: shapes (thresholds,) and
        (thresholds,), bool.
        """
        exact = np.array([operator.index(total) for total in totals], dtype=object)
        law = AreBelow(self, threshold)
        inputs = exact, noises
        return law.draw(inputs, stream) if self.epsilon is None else stream.passes(law, inputs)

    def event(self) -> Event:
        """What all answers up to the first "yes" cost. Raises ParameterError: without noise there
        is no price.
        """
        if self.epsilon is None:
            raise ParameterError("epsilon", "None", "noise, where a cost is stated")
        stated = (
            ("epsilon", float(self.epsilon)),
            ("spread", self.spread),
            ("neighbours", Neighbours.ADD_OR_REMOVE_ONE.value),
        )
        return Event("sparse-vector", stated)


@dataclass(frozen=True)
class ThresholdNoises:
    """Equation (1): what is drawn stays secret, and depends on no row."""

    vector: SparseVector

    def draw(self, exact: int, stream: Stream) -> np.ndarray:
        """So many, shape (exact,)."""
        epsilon = self.vector.epsilon
        drawn = (
            [0] * exact
            if epsilon is None
            else discrete_laplaces(2 * self.vector.spread / epsilon, exact, stream)
        )
        return np.array(drawn, dtype=object)


@dataclass(frozen=True)
class AreBelow:
    """Equation (2), of sums and of the noises of their thresholds."""

    vector: SparseVector
    threshold: int

    def draw(self, exact: tuple[np.ndarray, np.ndarray], stream: Stream) -> np.ndarray:
        """Shape (thresholds,), bool."""
        totals, noises = exact
        fresh = ThresholdNoises(self.vector).draw(len(totals), stream)
        return np.asarray(totals + fresh < self.threshold + noises, dtype=bool)
