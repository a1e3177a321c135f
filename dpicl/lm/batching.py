"""Laying token sequences out for a model: rows, batches and padding. Pure, no model needed.

A *row* is one sequence that the model reads: a prompt and the forced part of one or more
continuations. Continuations of one token force nothing, so they all share the prompt's
row; a longer one forces all its tokens but the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """One sequence to read, and the continuations whose tokens it scores.

    `targets` pairs the index of a continuation with its tokens; the row's last
    `len(tokens)` positions predict them.
    """

    prompt: int
    tokens: Tokens
    targets: tuple[tuple[int, Tokens], ...]


def rows_of(prompt: int, prompt_tokens: Tokens, continuations: Sequence[Tokens]) -> list[Row]:
    """The rows that score these continuations: one per distinct forced part."""
    targets: dict[Tokens, list[tuple[int, Tokens]]] = {}
    for index, tokens in enumerate(continuations):
        targets.setdefault(tokens[:-1], []).append((index, tokens))
    return [Row(prompt, prompt_tokens + forced, tuple(group)) for forced, group in targets.items()]


def plan_batches(lengths: Sequence[int], token_budget: int) -> list[list[int]]:
    """Group indices so that count x longest stays within the budget, padding included.

    Longest first, so that memory that does not suffice shows at once; equal lengths keep
    their order. An item that is longer than the budget stands alone.
    """
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda item: -lengths[item]):
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= token_budget:
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


def pad_left(rows: Sequence[Row]) -> PaddedBatch:
    """Pad rows on the left; which token fills the gap is irrelevant, because it is masked."""
    width = max(len(row.tokens) for row in rows)
    tokens = np.zeros((len(rows), width), dtype=np.int64)
    mask = np.zeros((len(rows), width), dtype=np.int64)
    for line, row in enumerate(rows):
        tokens[line, width - len(row.tokens) :] = row.tokens
        mask[line, width - len(row.tokens) :] = 1
    return PaddedBatch(tokens, mask, (mask.cumsum(axis=1) - 1).clip(0))


@dataclass(frozen=True)
class Steps:
    """Every single prediction that a batch is asked for: four int64 arrays of shape (steps,).

    `line` counts rows of the batch, `back` counts positions from the end (-1 is the last),
    `token` is the predicted token, `owner` holds (prompt, continuation), shape (2, steps).
    """

    line: np.ndarray
    back: np.ndarray
    token: np.ndarray
    owner: np.ndarray

    @property
    def depth(self) -> int:
        """How many positions from the end are needed."""
        return int(-self.back.min())


def steps_of(rows: Sequence[Row]) -> Steps:
    """The predictions that score all targets of these rows."""
    steps = [
        (line, place - len(tokens), token, row.prompt, continuation)
        for line, row in enumerate(rows)
        for continuation, tokens in row.targets
        for place, token in enumerate(tokens)
    ]
    columns = np.array(steps, dtype=np.int64).T
    return Steps(columns[0], columns[1], columns[2], columns[3:])
