"""What a release would be if it had no noise: rows by a contract, coded and decoded; a second for
what takes ten with a ledger.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dpicl.contract import Contract
from dpicl.data.central.exact_counts import row_bins
from dpicl.data.reading.parse import typed_table
from dpicl.data.reading.typed_columns import as_arrow
from dpicl.data.values import RowForm, central_form
from dpicl.ground.types import PrivateTable, ReleasedRows
from dpicl.release.door import schema_contract
from dpicl.release.predictor import Predictor, fitted


@dataclass(frozen=True)
class Plain:
    """Rows in their codes."""

    contract: Contract
    form: RowForm
    codes: np.ndarray

    @staticmethod
    def of(rows: Any, columns: dict[str, Any], label: Any = "y") -> Plain:
        """Read as any source is."""
        contract = schema_contract({"columns": columns, **({"label": label} if label else {})})
        table = typed_table(as_arrow(rows), contract, "rows")
        return Plain(contract, central_form(contract), row_bins(PrivateTable(table), contract))

    def table(self) -> pa.Table:
        """Its values, row by row."""
        return self.form.table(self.codes, self.contract, np.random.default_rng(0))

    def predictor(self) -> Predictor:
        """Fitted on these rows."""
        return fitted(ReleasedRows(self.codes), self.form, self.contract)
