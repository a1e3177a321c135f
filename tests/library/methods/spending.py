"""What the steps of a mechanism spend, one after another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import pytest

from dpicl.mechanisms import noisy_count, noisy_max


@contextmanager
def spending(*modules: str) -> Iterator[tuple[list[Fraction], list[int]]]:
    """Inside, the epsilon of every noisy count and choice, and the spread of every choice, as they are made; also in modules that name
    `noisy_counts` themselves.
    """
    spent, spreads = list[Fraction](), list[int]()
    plain_counts, plain_max = noisy_count.noisy_counts, noisy_max.exponential_max

    def counted(exact: Any, *, epsilon: Fraction, stream: Any) -> Any:
        spent.append(epsilon)
        return plain_counts(exact, epsilon=epsilon, stream=stream)

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
