"""Prompts of released rows: which of them demonstrate for which query, and how they read.

Guarantee   none spent: post-processing of released rows, and public queries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpicl.lm.requests import prompt
from dpicl.methods.common import ZERO_SHOT, shots_of
from dpicl.pipeline import Cell, Unit
from dpicl.randomness import Draws
from dpicl.tabular.prompts.shots import MOST_SHOTS, SAME_FOR_ALL, picked_rows
from dpicl.tabular.reading.encode import LocalEncoding
from dpicl.types import LABEL

SHOWN = ["prototype"]
"""How shots are selected where no pipeline says it: one draw at random may be the same row over and over, or all of one label."""


@dataclass(frozen=True)
class Pool:
    """Codes of released rows, shape (rows, answers), and what they stand for."""

    codes: np.ndarray
    encoding: LocalEncoding


def handed_out(shot_selection: Sequence[str], unit: Unit) -> str:
    """The system whose demonstrations suit any query: of the first rule that looks at none, or at random for more than a prompt takes."""
    rules = (f"icl-{rule}" for rule in shot_selection)
    return next((rule for rule in rules if rule in SAME_FOR_ALL and max(unit.shots) <= MOST_SHOTS), "icl")


def row_examples(pools: Mapping[Cell, Pool], demonstrations_of: Callable[[Pool], list[str]], draws: Draws) -> dict[Cell, list[str]]:
    """The demonstrations of every in-context cell for one query: what `row_prompts` puts before its first one, without any."""
    examples = {}
    for cell, pool in pools.items():
        if cell.system in ("icl", *SAME_FOR_ALL):
            bins = pool.encoding.decode(pool.codes)
            picked = picked_rows(bins, np.zeros((1, bins.shape[1]), dtype=np.int64), cell, draws)
            examples[cell] = demonstrations_of(replace(pool, codes=pool.codes[picked[0]]))
    return examples


def row_prompts(
    pools: Mapping[Cell, Pool],
    queries: np.ndarray,
    query_texts: list[str],
    demonstrations_of: Callable[[Pool], list[str]],
    draws: Draws,
    *,
    alone: bool = False,
) -> dict[Cell, list[str]]:
    """One prompt per query and cell, and the zero-shot ones.

    Args:
        alone: whether every query gets the demonstrations that it would get if it were the only one, so that its place does not matter.
        pools: the rows to pick from by cell.
        queries: bins of the queries, shape (queries, columns), and how they read: `query_texts`.
        demonstrations_of: how rows read as demonstrations.
    """
    prompts: dict[Cell, list[str]] = {ZERO_SHOT: query_texts}
    for cell, pool in pools.items():
        shots, bins = shots_of(cell), pool.encoding.decode(pool.codes)
        if not alone:
            picked = picked_rows(bins, queries, cell, draws)
        else:
            distinct = queries if cell.system == "icl-near" else queries[:1]  # only the nearest rows depend on which query it is
            each = [picked_rows(bins, distinct[place : place + 1], cell, draws) for place in range(len(distinct))]
            picked = np.resize(np.concatenate([np.empty((0, shots), dtype=np.int64), *each]), (len(queries), shots))
        texts = demonstrations_of(replace(pool, codes=pool.codes[picked.ravel()]))
        prompts[cell] = [prompt(texts[i * shots : (i + 1) * shots], query) for i, query in enumerate(query_texts)]
    return prompts


def shares(pools: Mapping[Cell, Pool]) -> list[dict[str, Any]]:
    """Share of every level among released rows, as a table for people; nothing of a label that is none."""
    return [
        {"cell": cell.key, "attribute": name, "level": level, "share": round(float((bins[:, i] == level).mean()), 4)}
        for cell, pool in pools.items()
        for bins in [pool.encoding.decode(pool.codes)]
        for i, (name, count) in enumerate(zip(pool.encoding.names, pool.encoding.bin_counts, strict=True))
        if count > 1 or name != LABEL
        for level in range(count)
    ]
