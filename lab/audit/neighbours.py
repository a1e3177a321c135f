"""Small contracts and tables of one repeated row, of which worst-case neighbours are made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from dpicl.contract import Contract, parse_contract
from dpicl.data.reading.parse import typed_column
from dpicl.ground.types import PrivateTable

CATEGORIES = tuple("abcdef")
LABELS = ("no", "yes")
PLACES = 64
SHOTS = PLACES * len(LABELS)
"""Groups of one release: each is an audit's run of its own, since groups get noise of their own."""


def declared(
    name: str,
    columns: Mapping[str, Mapping[str, Any]],
    label: str,
    *,
    sampling_rate: str = "1",
    **more: Any,
) -> Contract:
    """A contract on made-up rows."""
    content = {
        "version": 2,
        "name": name,
        "source": {"file": "none.csv"},
        "privacy": {"sampling_rate": sampling_rate, "budget": {"benchmark": True}},
        "split": {"test_fraction": 0.2},
        "columns": columns,
        "label": label,
    }
    contract = parse_contract(content | more, name)
    assert isinstance(contract, Contract)
    return contract


def contract_of(columns: Mapping[str, Mapping[str, Any]], *, sampling_rate: str = "1") -> Contract:
    """These columns, a place and a label `bought`; groups by place and label."""
    place, label = (
        {"type": "integer", "bounds": [0, PLACES - 1]},
        {"type": "category", "categories": list(LABELS)},
    )
    groups = {SHOTS: ["label", {"column": "place", "cuts": list(range(1, PLACES))}]}
    return declared(
        "audit",
        {**columns, "place": place, "bought": label},
        "bought",
        sampling_rate=sampling_rate,
        groups=groups,
    )


def numbers(largest: Mapping[str, int]) -> Contract:
    """Whole numbers from -largest to largest, by column."""
    return contract_of(
        {name: {"type": "integer", "bounds": [-bound, bound]} for name, bound in largest.items()}
    )


def category(*, sampling_rate: str = "1") -> Contract:
    """One column of six categories."""
    return contract_of(
        {"kind": {"type": "category", "categories": list(CATEGORIES)}}, sampling_rate=sampling_rate
    )


def typed(contract: Contract, values: Mapping[str, Any]) -> PrivateTable:
    """Values by column as a table has them, whatever their bounds."""
    table = pa.table(dict(values))
    return PrivateTable(
        pa.table(
            {
                name: typed_column(table.column(name), column, name, "audit")
                for name, column in contract.columns.items()
            }
        )
    )


def rows(contract: Contract, row: Mapping[str, int | str], row_count: int) -> PrivateTable:
    """One row, many times."""
    return typed(contract, {name: pa.repeat(row[name], row_count) for name in contract.columns})


def in_every_group(
    contract: Contract, row: Mapping[str, int | str], row_count: int
) -> PrivateTable:
    """So many rows in every group, alike but for place and label."""
    return joined(
        *(
            rows(contract, {**row, "place": place, "bought": label}, row_count)
            for label in LABELS
            for place in range(PLACES)
        )
    )


def joined(*tables: PrivateTable) -> PrivateTable:
    """The rows of all."""
    return PrivateTable(pa.concat_tables([table.data for table in tables]).combine_chunks())
