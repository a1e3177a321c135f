"""Laying token sequences out for a model: rows, batches and padding. Pure, no model needed.

A *row* is one sequence that the model reads: a prompt and the forced part of one or more
continuations. Continuations of one token force nothing, so they all share the prompt's
row; a longer one forces all its tokens but the last. What is forced for one and begins what is
forced for another is read in the other's row.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpicl.lm.requests import Tokens


@dataclass(frozen=True)
class Row:
    """One sequence to read, and what it predicts.

    `predicted` has, for every position whose prediction is needed, pairs of a continuation's
    index and the token that it puts next.
    """

    prompt: int
    tokens: Tokens
    predicted: Mapping[int, tuple[tuple[int, int], ...]]


def rows_of(prompt: int, prompt_tokens: Tokens, continuations: Sequence[Tokens]) -> list[Row]:
    """The rows that score these continuations: one per distinct forced part that begins no
    other.
    """
    longest: dict[Tokens, Tokens] = {}
    for forced in sorted({tokens[:-1] for tokens in continuations}, reverse=True):
        # what a part begins stands after it in this order's reverse
        following = next(reversed(longest.values()), ())
        longest[forced] = following if following[: len(forced)] == forced else forced
    predicted: dict[Tokens, dict[int, tuple[tuple[int, int], ...]]] = {}
    last = len(prompt_tokens) - 1
    for index, tokens in enumerate(continuations):
        places = predicted.setdefault(longest[tokens[:-1]], {})
        for step, token in enumerate(tokens):
            places[last + step] = (*places.get(last + step, ()), (index, token))
    return [Row(prompt, prompt_tokens + forced, places) for forced, places in predicted.items()]


def plan_batches(
    lengths: Sequence[int], token_budget: int, alike: Callable[[int], Hashable] = lambda length: 0
) -> list[list[int]]:
    """Group indices so that count x longest stays within the budget, padding included.

    Longest first, so that memory that does not suffice shows at once; equal lengths keep
    their order. An item that is longer than the budget stands alone.

    Args:
        alike: lengths for which it is equal may stand together.
    """
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda item: -lengths[item]):
        longest = lengths[batches[-1][0]] if batches else 0
        if (
            batches
            and (len(batches[-1]) + 1) * longest <= token_budget
            and alike(lengths[index]) == alike(longest)
        ):
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches


@dataclass(frozen=True)
class PaddedBatch:
    """Rows padded on the left to the same width: three int64 arrays of shape (rows, width).

    Padding has token 0, mask 0 and position 0; the last column is every row's last token.
    """

    tokens: np.ndarray
    mask: np.ndarray
    positions: np.ndarray


def pad_left(rows: Sequence[Tokens]) -> PaddedBatch:
    """Pad rows on the left; which token fills the gap is irrelevant, because it is masked."""
    width = max(map(len, rows))
    tokens = np.zeros((len(rows), width), dtype=np.int64)
    mask = np.zeros((len(rows), width), dtype=np.int64)
    for line, row in enumerate(rows):
        tokens[line, width - len(row) :] = row
        mask[line, width - len(row) :] = 1
    return PaddedBatch(tokens, mask, (mask.cumsum(axis=1) - 1).clip(0))
