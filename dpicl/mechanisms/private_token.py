"""One token, selected by whole-number votes of language-model prompts, each of which holds a few
private rows.

Trust       Central: the curator reads exact sums of votes; only the selected token leaves.
Unit        One row.
Neighbours  ADD_OR_REMOVE_ONE.
Guarantee   `gaussian`: that of a Gaussian of multiplier sigma, priced by the accountant at a delta.
            `exponential` and `clipped-logits`: epsilon-DP, delta = 0.
Paper       [T24] DP few-shot generation (arXiv 2309.11765), algorithm 1 and appendix A: (1) and
            (2). [A24] Amin et al., private prediction (arXiv 2407.12108): (3). In place of their
            softmax stands permute-and-flip, which is as private and loses at most as much.

    (1)  argmax_j sum_i v_ij + Z_j,    v_i = p_i S,            Z of variance sigma^2 D
    (2)  noisy max of sum_i v_ij,      v_i = p_i / max p_i S,  at epsilon and spread R
    (3)  noisy max of sum_i v_ij,      v_i = (1 + max(z_i - max z_i, -c) / c) S

Votes are whole numbers. In (1) they are >= 0 with sum <= S, else in 0..S. A row that changes the
vote of one voter moves the sums by an l2 norm of at most sqrt(2) S, and the difference of two
candidates by at most 2 S. A row that is a voter of its own adds its vote: at most S in both.

Symbols     p_i next-token probabilities of voter i, z_i its logits, S `UNITS`, D the squared l2
            norm and R the spread of what one row moves.
Not covered what the votes were computed from: they must be what is stated above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from dpicl.accounting.guarantee import Event, Neighbours
from dpicl.accounting.pure import discrete_gaussian
from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import Stream
from dpicl.mechanisms.discrete_gaussian import noisy_sums
from dpicl.mechanisms.noisy_max import exponential_guarantee, exponential_max, gaussian_max

UNITS = 1 << 20
"""S: a whole vote is cut into so many units, each voter's rounded down on its own."""
NoiseKind = Literal["gaussian", "exponential", "clipped-logits"]


@dataclass(frozen=True)
class TokenNoise:
    """How one token is selected.

    Args:
        amount: sigma for `gaussian`, else epsilon of one token; None for no noise at all.
        row_is_voter: whether a row is a voter of its own, or changes the vote of one that is always
            there.
    """

    kind: NoiseKind
    amount: Fraction | None
    row_is_voter: bool = False

    def __post_init__(self) -> None:
        if self.amount is not None and not self.amount > 0:
            raise ParameterError("amount", self.amount, "a rational > 0, or None for no noise")

    @property
    def squared_movement(self) -> int:
        """D."""
        return UNITS**2 * (1 if self.row_is_voter else 2)

    @property
    def spread(self) -> int:
        """R."""
        return UNITS * (1 if self.row_is_voter else 2)

    @property
    def _variance(self) -> Fraction | None:
        return None if self.amount is None else self.amount**2 * self.squared_movement

    def noisy(self, sums: Sequence[int] | np.ndarray, stream: Stream) -> list[int]:
        """All sums of (1) with their noise: that they leave is what the event is for. Raises
        ParameterError: the noise is not Gaussian.
        """
        if self.kind != "gaussian":
            raise ParameterError(
                "kind", self.kind, "gaussian, where noisy sums leave and not the largest alone"
            )
        return noisy_sums(sums, variance=self._variance, stream=stream)

    def select(self, sums: Sequence[int] | np.ndarray, stream: Stream) -> int:
        """Place of the selected candidate; `sums` are exact, shape (candidates,). Raises
        ParameterError: there is no candidate.
        """
        if self.kind == "gaussian":
            return gaussian_max(sums, variance=self._variance, stream=stream)
        return exponential_max(sums, epsilon=self.amount, spread=self.spread, stream=stream)

    def event(self) -> Event:
        """What one token costs, before sampling and composition. Raises ParameterError: without
        noise there is no price.
        """
        if self.amount is None:
            raise ParameterError("amount", "None", "noise, where a cost is stated")
        if self.kind == "gaussian":
            return discrete_gaussian(
                variance=self.amount**2 * self.squared_movement,
                squared_sensitivity=self.squared_movement,
                neighbours=Neighbours.ADD_OR_REMOVE_ONE,
            )
        return exponential_guarantee(
            self.amount, spread=self.spread, neighbours=Neighbours.ADD_OR_REMOVE_ONE
        ).event
