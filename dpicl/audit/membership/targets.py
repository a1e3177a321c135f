"""Tables with and without a planted record: made up, or rows of a public table.

central   the table has the record, or it has not                     ADD_OR_REMOVE_ONE
local     what one client sends: the record, or another one           REPLACE_ONE
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dpicl.contract import Contract, parse_contract
from dpicl.contract.columns import CategoryColumn
from dpicl.errors import PrivacyError
from dpicl.randomness import stream
from dpicl.tabular.central.bins import row_bins
from dpicl.types import PrivateTable

OTHERS = 12
"""Rows beside the planted one in a made-up table; one of a public table has those of `MOST_ROWS`."""
MOST_ROWS = 200
_KINDS = ("a", "b", "c", "d")


@dataclass(frozen=True)
class Target:
    """Rows that are not in question, the planted record, and another one for it: tables of a row each."""

    contract: Contract
    others: PrivateTable
    canary: PrivateTable
    other: PrivateTable

    def tables(self, *, local: bool) -> dict[bool, PrivateTable]:
        """What is released where the record is in, and where it is not."""
        if local:
            return {True: self.canary, False: self.other}
        return {True: PrivateTable(pa.concat_tables([self.others.data, self.canary.data]).combine_chunks()), False: self.others}

    def of_columns(self, count: int) -> Target:
        """The first so many columns, and the label."""
        assert self.contract.label is not None
        names = [*self.contract.features[:count], self.contract.label.column]
        contract = self.contract.model_copy(update={"columns": {name: self.contract.columns[name] for name in names}})
        return Target(contract, *(PrivateTable(table.data.select(names)) for table in (self.others, self.canary, self.other)))


def made_up() -> Target:
    """Twelve ordinary rows, and one that has nothing in common with them."""
    columns = {
        "kind": {"type": "category", "categories": list(_KINDS)},
        "size": {"type": "integer", "bounds": [0, 9]},
        "member": {"type": "category", "categories": ["no", "yes"]},
        "bought": {"type": "category", "categories": ["no", "yes"]},
    }
    content = {
        "version": 2,
        "name": "made_up",
        "source": {"file": "none.csv"},
        "privacy": {"sampling_rate": "1", "budget": {"benchmark": True}},
        "split": {"test_fraction": 0.2},
        "columns": columns,
        "label": "bought",
    }
    contract = parse_contract(content, "made_up.yaml")
    assert isinstance(contract, Contract)
    place = np.arange(OTHERS)
    ordinary = {"kind": place % 2, "size": place % 4, "member": np.zeros(OTHERS, int), "bought": place // 2 % 2}
    one = {"kind": [3], "size": [9], "member": [1], "bought": [1]}
    another = {"kind": [0], "size": [0], "member": [0], "bought": [0]}
    return Target(contract, *(_table(contract, rows) for rows in (ordinary, one, another)))


def _table(contract: Contract, codes: Mapping[str, Sequence[int] | np.ndarray]) -> PrivateTable:
    columns = {}
    for name, column in contract.columns.items():
        values = np.asarray(codes[name])
        if isinstance(column, CategoryColumn):
            columns[name] = pa.DictionaryArray.from_arrays(pa.array(values.astype(np.int16)), pa.array(column.categories))
        else:
            columns[name] = pa.array(values.astype(np.int64))
    return PrivateTable(pa.table(columns))


def of_benchmark(contract: Contract, table: pa.Table) -> Target:
    """Some rows of a public table; its most unusual one is planted, and the other is the one that differs from it most.

    Raises:
        PrivacyError: the table is no benchmark.
    """
    check_public(contract)
    some = stream(0, "membership", contract.name, "").generator().permutation(table.num_rows)[: MOST_ROWS + 1]
    rows = PrivateTable(table.select(list(contract.columns)).take(np.sort(some)))
    bins = row_bins(rows, contract)
    rare = np.sum([-np.log(np.bincount(column)[column] / len(column)) for column in bins.T], axis=0)
    canary = int(rare.argmax())
    apart = int((bins != bins[canary]).sum(axis=1).argmax())
    one, other = (PrivateTable(rows.data.slice(place, 1)) for place in (canary, apart))
    return Target(contract, PrivateTable(rows.data.take(np.delete(np.arange(rows.row_count), canary))), one, other)


def check_public(contract: Contract) -> None:
    """Refuse a private table.

    Raises:
        PrivacyError: the contract has a budget.
    """
    if not contract.privacy.budget.benchmark:
        raise PrivacyError(
            f"{contract.name}: what an attack finds out about private rows is released and charged to no budget; expected made-up rows "
            "(without `--table`), or a contract with `benchmark: true`"
        )
