"""Small contracts and tables of one repeated row, of which worst-case neighbours are made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from dpicl.contract import Contract, parse_contract
from dpicl.contract.models import CategoryColumn
from dpicl.types import PrivateTable

CATEGORIES = tuple("abcdef")


def contract_of(columns: Mapping[str, Mapping[str, Any]], *, sampling_rate: str = "1") -> Contract:
    """These columns and a label `bought`; clients report every column in two parts; two shots group by the label."""
    text = "".join(f"{{{name}}}" for name in columns)
    content = {
        "version": 1,
        "name": "audit",
        "description": "Made-up rows.",
        "source": {"title": "none", "licence": "none", "citation": "none", "file": "none.csv"},
        "privacy": {"sampling_rate": sampling_rate, "budget": {"benchmark": True}},
        "split": {"test_fraction": 0.2},
        "columns": {**columns, "bought": {"type": "category", "categories": ["no", "yes"]}},
        "label": {"column": "bought", "parts": [["no"], ["yes"]], "question": "Did they buy?"},
        "groups": {2: ["label"]},
        "local": [_two_parts(name, declared) for name, declared in columns.items()],
        "prompts": {"local": {"text": text}, "central": {"text": text}},
        "checks": [],
    }
    return parse_contract(content, "audit")


def _two_parts(name: str, declared: Mapping[str, Any]) -> dict[str, Any]:
    rule = {"cuts": [0]} if "bounds" in declared else {"parts": [[declared["categories"][0]], "rest"]}
    return {"name": name, "column": name, **rule, "texts": ["low", "high"]}


def numbers(largest: Mapping[str, int]) -> Contract:
    """Whole numbers from -largest to largest, by column."""
    return contract_of({name: {"type": "integer", "bounds": [-bound, bound]} for name, bound in largest.items()})


def category(*, sampling_rate: str = "1") -> Contract:
    """One column of six categories."""
    return contract_of({"kind": {"type": "category", "categories": list(CATEGORIES)}}, sampling_rate=sampling_rate)


def rows(contract: Contract, row: Mapping[str, int | str], row_count: int) -> PrivateTable:
    """One row, many times."""
    columns = {}
    for name, declared in contract.columns.items():
        if isinstance(declared, CategoryColumn):
            codes = np.full(row_count, declared.categories.index(str(row[name])), dtype=np.int16)
            columns[name] = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(declared.categories))
        else:
            columns[name] = pa.array(np.full(row_count, row[name], dtype=np.int64))
    return PrivateTable(pa.table(columns))


def joined(first: PrivateTable, second: PrivateTable) -> PrivateTable:
    """The rows of both."""
    return PrivateTable(pa.concat_tables([first.data, second.data]).combine_chunks())
