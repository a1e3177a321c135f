"""Small contracts and tables of one repeated row, of which worst-case neighbours are made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from dpicl.contract import Contract, parse_contract
from dpicl.contract.columns import CategoryColumn
from dpicl.types import PrivateTable

CATEGORIES = tuple("abcdef")
LABELS = ("no", "yes")
PLACES = 64
SHOTS = PLACES * len(LABELS)
"""Groups of one release: each is an audit's run of its own, since groups get noise of their own."""


def contract_of(columns: Mapping[str, Mapping[str, Any]], *, sampling_rate: str = "1") -> Contract:
    """These columns, a place and a label `bought`; clients report every column in two parts; groups by place and label."""
    text = "".join(f"{{{name}}}" for name in columns)
    parts = {
        name: {"cuts": [0]} if "bounds" in declared else {"parts": [[declared["categories"][0]], "rest"]}
        for name, declared in columns.items()
    }
    content = {
        "version": 1,
        "name": "audit",
        "description": "Made-up rows.",
        "source": {"title": "none", "licence": "none", "citation": "none", "file": "none.csv"},
        "privacy": {"sampling_rate": sampling_rate, "budget": {"benchmark": True}},
        "split": {"test_fraction": 0.2},
        "columns": {
            **columns,
            "place": {"type": "integer", "bounds": [0, PLACES - 1]},
            "bought": {"type": "category", "categories": list(LABELS)},
        },
        "label": {"column": "bought", "parts": [[label] for label in LABELS], "question": "Did they buy?"},
        "groups": {SHOTS: ["label", {"column": "place", "cuts": list(range(1, PLACES))}]},
        "local": [{"name": name, "column": name, **rule, "texts": ["low", "high"]} for name, rule in parts.items()],
        "prompts": {"local": {"text": text}, "central": {"text": text}},
        "checks": [],
    }
    contract = parse_contract(content, "audit")
    assert isinstance(contract, Contract)
    return contract


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


def in_every_group(contract: Contract, row: Mapping[str, int | str], row_count: int) -> PrivateTable:
    """So many rows in every group, alike but for place and label."""
    return joined(*(rows(contract, {**row, "place": place, "bought": label}, row_count) for label in LABELS for place in range(PLACES)))


def joined(*tables: PrivateTable) -> PrivateTable:
    """The rows of all."""
    return PrivateTable(pa.concat_tables([table.data for table in tables]).combine_chunks())
