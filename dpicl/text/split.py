"""Splitting texts into demonstrations (private) and queries (public), and cutting each to its
longest.

The files determine which are which: one more private text moves no other. The queries are chosen
with a constant seed, not the run's: every cell of a table of results answers the same ones.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpicl.contract.text import TextContract
from dpicl.errors import DataError
from dpicl.randomness import stream
from dpicl.text.parse import PERSON
from dpicl.text.read import TEST, TRAIN
from dpicl.types import PrivateTable, QueryTable, SplitTable

_SPLIT_SEED = 0


def split_texts(table: pa.Table, contract: TextContract, *, most: int | None = None) -> SplitTable:
    """Private texts, those that may be asked, and the `query_count` of these that are; columns
    `label` and `text`.

    Protected texts answer public queries, or none.

    Args:
        table: as `load_texts` returns it.
        most: no more queries than these, the first of the contract's.

    Raises:
        DataError: there are too few texts to ask; or, in a benchmark, none to protect.
    """
    train, test = _part(table, TRAIN, contract), _part(table, TEST, contract)
    # a file that is merely shuffled has the same content version: its rows must then have the same
    # places
    train = train.sort_by([(name, "ascending") for name in train.column_names])
    if contract.privacy.budget.benchmark and PERSON in train.column_names:
        both = len(set(train.column(PERSON).to_pylist()) & set(test.column(PERSON).to_pylist()))
        if both:  # held-out texts are not protected
            raise DataError(
                contract.name, "persons have texts in both files; expected each in one", count=both
            )
    stated = contract.query_count if contract.evaluation == "public" else 0
    query_count = stated if most is None else min(stated, most)
    if test.num_rows < query_count or (contract.privacy.budget.benchmark and not train.num_rows):
        raise DataError(
            contract.name,
            f"has {test.num_rows} texts to ask; expected {query_count}, and at least one to "
            f"protect",
        )
    generator = stream(_SPLIT_SEED, "split", contract.name, "").generator()
    queries = np.sort(generator.permutation(test.num_rows)[:query_count])
    return SplitTable(PrivateTable(train), QueryTable(test.select(["label", "text"])), queries)


def _part(table: pa.Table, part: str, contract: TextContract) -> pa.Table:
    rows = table.filter(pc.equal(table.column("part"), part))
    texts = [text[: contract.max_characters].rstrip() for text in rows.column("text").to_pylist()]
    persons = {PERSON: rows.column(PERSON)} if PERSON in rows.column_names else {}
    return pa.table(
        {"label": rows.column("label"), "text": pa.array(texts, pa.string()), **persons}
    )
