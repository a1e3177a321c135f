"""What methods have in common that a curator runs and whose rows differ by the contract's public
bins of every column (`bins`).

Guarantee   none spent: post-processing of released rows, and public queries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Generic

import numpy as np

from dpicl.contract.models import Contract
from dpicl.methods.base import Trust
from dpicl.methods.options import CentralOptions
from dpicl.methods.row_method import SHOWN, Pool, RowMethod
from dpicl.methods.tabular_method import Drawn
from dpicl.pipeline import Cell, Unit
from dpicl.tabular.central.bins import row_bins
from dpicl.tabular.prompts.rows import longest_demonstration, row_demonstrations
from dpicl.tabular.prompts.serialize import central_queries
from dpicl.tabular.values import RowForm, central_form
from dpicl.types import QueryTable, Table


class CentralRows(RowMethod[Drawn], Generic[Drawn], abstract=True):
    """Rows of bins, which read as queries do: a number is drawn inside its bin, for each released
    row once.
    """

    trust: ClassVar[Trust] = "central"
    options: ClassVar[type[CentralOptions]]

    def systems(self, unit: Unit) -> tuple[str, ...]:
        """See `Method`."""
        return tuple(f"icl-{name}" for name in unit.chosen(self.options).shot_selection)

    def default_options(
        self, contract: Contract, stated: Mapping[str, Any], epsilon: float
    ) -> dict[str, Any]:
        """Prototypes of each label in turn demonstrate."""
        return {"shot_selection": SHOWN}

    def form(self, contract: Contract, unit: Unit, cell: Cell) -> RowForm:
        """See `TabularMethod`."""
        return central_form(contract)

    def bins(self, table: Table, contract: Contract, unit: Unit, cell: Cell) -> np.ndarray:
        """See `TabularMethod`."""
        return row_bins(table, contract)

    def demonstrations(
        self, pool: Pool, places: np.ndarray, contract: Contract, chance: np.random.Generator
    ) -> list[str]:
        """See `RowMethod`."""
        shares = chance.random((len(pool.codes), pool.codes.shape[1] - 1))
        return row_demonstrations(pool.codes[places], shares[places], contract)

    def longest_demonstration(self, contract: Contract, unit: Unit) -> str:
        """See `TabularMethod`."""
        return longest_demonstration(contract)

    def query_texts(self, queries: QueryTable, contract: Contract) -> list[str]:
        """See `RowMethod`."""
        return central_queries(queries, contract)
