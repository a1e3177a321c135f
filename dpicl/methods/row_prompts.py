"""Prompts of released rows: which of them demonstrate for which query, and how they read.

Guarantee   none spent: post-processing of released rows, and public queries.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dpicl.contract.models import Contract
from dpicl.lm.layout import prompt
from dpicl.methods.common import ZERO_SHOT
from dpicl.pipeline import Cell
from dpicl.randomness import Draws
from dpicl.tabular.encode import LocalEncoding, encode_queries
from dpicl.tabular.serialize import local_demonstrations, local_queries
from dpicl.tabular.shots import picked_rows
from dpicl.types import QueryTable, ReleasedRows


def row_prompts(
    pools: Mapping[Cell, tuple[np.ndarray, LocalEncoding]], queries: QueryTable, contract: Contract, draws: Draws
) -> dict[Cell, list[str]]:
    """One prompt per query and cell, and the zero-shot ones.

    Args:
        pools: codes of the rows to pick from by cell, shape (rows, answers), and their encoding.
    """
    encoded = encode_queries(queries, contract)
    asked = local_queries(encoded, contract)
    prompts: dict[Cell, list[str]] = {ZERO_SHOT: asked}
    for cell, (codes, encoding) in pools.items():
        assert cell.shots is not None
        picked = picked_rows(encoding.decode(codes), encoded.codes, cell, draws)
        texts = local_demonstrations(ReleasedRows(codes[picked.ravel()]), encoding.decode, contract)
        prompts[cell] = [prompt(texts[i * cell.shots : (i + 1) * cell.shots], query) for i, query in enumerate(asked)]
    return prompts


def truth_of(queries: QueryTable, contract: Contract) -> np.ndarray:
    """Labels of the queries, shape (queries,)."""
    return np.asarray(encode_queries(queries, contract).codes[:, -1])
