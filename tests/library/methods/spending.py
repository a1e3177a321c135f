"""What the steps of a mechanism spend, one after another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest

from dpicl.mechanisms import discrete_gaussian, noisy_count, noisy_max
from dpicl.mechanisms.noisy_steps import GaussianBudget


@contextmanager
def spending(*modules: str) -> Iterator[tuple[list[Fraction], list[int]]]:
    """Inside, the epsilon of every noisy count that one row moves by 1, and of every choice, and
    the spread of every choice, as they are made; also in modules that name `noisy_counts`
    themselves.
    """
    spent, spreads = list[Fraction](), list[int]()
    plain_counts, plain_max = noisy_count.noisy_counts, noisy_max.exponential_max

    def counted(exact: Any, *, epsilon: Fraction, stream: Any, sensitivity: int = 1) -> Any:
        spent.append(epsilon / sensitivity)
        return plain_counts(exact, epsilon=epsilon, stream=stream, sensitivity=sensitivity)

    def chosen(votes: Any, *, epsilon: Fraction, spread: int, stream: Any) -> Any:
        spent.append(epsilon)
        spreads.append(spread)
        return plain_max(votes, epsilon=epsilon, spread=spread, stream=stream)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noisy_count, "noisy_counts", counted)
        for module in modules:
            patch.setattr(f"{module}.noisy_counts", counted)
        patch.setattr(noisy_max, "exponential_max", chosen)
        yield spent, spreads


@dataclass(frozen=True)
class Step:
    """One Gaussian step as it was made: noise of this variance on counts times `fine`, or a choice
    of this range; and its part of mu^2.
    """

    amount: Fraction
    fine: int = 1
    variance: Fraction | None = None
    chosen_at: Fraction | None = None


@contextmanager
def gaussian_steps() -> Iterator[list[Step]]:
    """Inside, the steps that spend a Gaussian budget, as they are made."""
    steps = list[Step]()
    parts, exact = list[Fraction](), list[int]()
    plain_sums, plain_max = discrete_gaussian.noisy_sums, noisy_max.bounded_range_max
    plain_counts, plain_chosen = GaussianBudget.counts, GaussianBudget.chosen

    def counts(self: Any, counted: Any, stream: Any) -> Any:
        parts[:], exact[:] = [self.amount], counted
        return plain_counts(self, counted, stream)

    def sums(whole: Any, *, variance: Fraction, stream: Any) -> Any:
        steps.append(Step(parts[0], sum(whole) // sum(exact) if sum(exact) else 1, variance))
        return plain_sums(whole, variance=variance, stream=stream)

    def chosen(self: Any, scores: Any, *, spread: int, stream: Any) -> Any:
        parts[:] = [self.amount]
        return plain_chosen(self, scores, spread=spread, stream=stream)

    def chosen_max(votes: Any, *, epsilon: Fraction, spread: int, stream: Any) -> Any:
        steps.append(Step(parts[0], chosen_at=epsilon))
        return plain_max(votes, epsilon=epsilon, spread=spread, stream=stream)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(discrete_gaussian, "noisy_sums", sums)
        patch.setattr(noisy_max, "bounded_range_max", chosen_max)
        patch.setattr(GaussianBudget, "counts", counts)
        patch.setattr(GaussianBudget, "chosen", chosen)
        yield steps
