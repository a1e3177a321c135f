"""Tables with and without a planted record: made up, or rows of a public table.

central   the table has the record, or it has not                     ADD_OR_REMOVE_ONE
local     what one client sends: the record, or another one           REPLACE_ONE
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from dpicl.contract import Contract
from dpicl.data.central.exact_counts import row_bins
from dpicl.data.reading.encode import label_codes
from dpicl.ground.errors import PrivacyError
from dpicl.ground.randomness import stream
from dpicl.ground.types import PrivateTable
from lab.audit.neighbours import declared, joined, typed

OTHERS = 12
"""Rows beside the planted one in a made-up table; one of a public table has those of
`MOST_ROWS`.
"""
MOST_ROWS = 200


@dataclass(frozen=True)
class Target:
    """Rows that are not in question, the planted record, and another one for it: tables of a row
    each.
    """

    contract: Contract
    others: PrivateTable
    canary: PrivateTable
    other: PrivateTable

    def tables(self, *, local: bool) -> dict[bool, PrivateTable]:
        """What is released where the record is in, and where it is not."""
        return (
            {True: self.canary, False: self.other}
            if local
            else {True: joined(self.others, self.canary), False: self.others}
        )

    def of_columns(self, count: int) -> Target:
        """The first so many columns, and the label."""
        assert self.contract.label is not None
        names = [*self.contract.features[:count], self.contract.label.column]
        contract = self.contract.model_copy(
            update={"columns": {name: self.contract.columns[name] for name in names}}
        )
        return Target(
            contract,
            *(
                PrivateTable(table.data.select(names))
                for table in (self.others, self.canary, self.other)
            ),
        )

    def of_label(self) -> Target:
        """In place of the other record one that is the planted one in all but its label, which is
        in the other half of the labels, or else the one furthest from it; the same target where no
        other label is known.
        """
        assert self.contract.label is not None
        known, label, half = (
            joined(self.others, self.other),
            self.contract.label.column,
            self.contract.target.count // 2,
        )
        codes, mine = (
            label_codes(known, self.contract),
            int(label_codes(self.canary, self.contract)[0]),
        )
        apart = np.abs(codes - mine) + self.contract.target.count * (
            (codes >= half) != (mine >= half)
        )
        if not apart.any():
            return self
        other = known.data.column(label).slice(int(apart.argmax()), 1)
        return replace(
            self,
            other=PrivateTable(
                self.canary.data.set_column(
                    self.canary.data.column_names.index(label), label, other
                )
            ),
        )


def made_up() -> Target:
    """Twelve ordinary rows, and one that has nothing in common with them."""
    answer = {"type": "category", "categories": ["no", "yes"]}
    kinds, sizes = (
        {"type": "category", "categories": list("abcd")},
        {"type": "integer", "bounds": [0, 9]},
    )
    contract = declared(
        "made_up", {"kind": kinds, "size": sizes, "member": answer, "bought": answer}, "bought"
    )
    place, bought = np.arange(OTHERS), np.array(["no", "yes"])
    ordinary = {
        "kind": ["a", "b"] * (OTHERS // 2),
        "size": place % 4,
        "member": ["no"] * OTHERS,
        "bought": bought[place // 2 % 2],
    }
    one = {"kind": ["d"], "size": [9], "member": ["yes"], "bought": ["yes"]}
    another = {"kind": ["a"], "size": [0], "member": ["no"], "bought": ["no"]}
    return Target(contract, *(typed(contract, rows) for rows in (ordinary, one, another)))


def of_benchmark(contract: Contract, table: pa.Table) -> Target:
    """Some rows of a public table; its most unusual one is planted, and the other is the one that
    differs from it most.

    Raises:
        PrivacyError: the table is no benchmark.
    """
    check_public(contract)
    some = (
        stream(0, "membership", contract.name, "")
        .generator()
        .permutation(table.num_rows)[: MOST_ROWS + 1]
    )
    rows = PrivateTable(table.select(list(contract.columns)).take(np.sort(some)))
    bins = row_bins(rows, contract)
    rare = np.sum([-np.log(np.bincount(column)[column] / len(column)) for column in bins.T], axis=0)
    canary = int(rare.argmax())
    apart = int((bins != bins[canary]).sum(axis=1).argmax())
    one, other = (PrivateTable(rows.data.slice(place, 1)) for place in (canary, apart))
    return Target(
        contract,
        PrivateTable(rows.data.take(np.delete(np.arange(rows.row_count), canary))),
        one,
        other,
    )


def check_public(contract: Contract) -> None:
    """Refuse a private table.

    Raises:
        PrivacyError: the contract has a budget.
    """
    if not contract.privacy.budget.benchmark:
        raise PrivacyError(
            f"{contract.name}: what an attack finds out about private rows is released and "
            f"charged to no budget; expected made-up rows "
            "(without `--table`), or a contract with `benchmark: true`"
        )
