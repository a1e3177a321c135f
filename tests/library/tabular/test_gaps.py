"""Missing values, dates and times, from every kind of source: of one row they tell the same
whatever the other rows hold.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpicl.contract import Contract
from dpicl.data.central.exact_counts import row_bins
from dpicl.data.reading.batches import Facts, merged_violations, prepare
from dpicl.data.reading.checks import violations
from dpicl.data.reading.parse import as_text, typed_table
from dpicl.data.reading.split import holds_out, row_hashes
from dpicl.ground.errors import DataError
from dpicl.ground.types import Table
from tests.library.contract.test_derived import customers

MOMENT = {"type": "datetime", "bounds": ["2020-01-01T00:00:00", "2025-12-31"], "nullable": True}
COLUMNS: dict[str, Any] = {
    "visits": {"type": "integer", "bounds": [0, 100], "nullable": True},
    "weight": {"type": "real", "bounds": [0, 200], "nullable": True},
    "since": {"type": "date", "bounds": ["1960-01-01", "2025-12-31"], "nullable": True},
    "seen": MOMENT,
    "plan": {"type": "category", "categories": ["basic", "plus"], "nullable": True},
}


def visits(**changes: Any) -> Contract:
    return customers(None, columns=COLUMNS, **changes)


def as_csv() -> pa.Table:
    return pa.table(
        {
            "visits": ["3", "", "7.0"],
            "weight": ["", "70.5", "1e2"],
            "since": ["2024-02-29", "", "1969-12-31"],
            "seen": ["2024-05-01 12:30:15", "2024-05-01T12:30:15.9+02:00", ""],
            "plan": ["plus", "", "basic"],
        }
    )


def as_typed() -> pa.Table:
    stamps = [datetime(2024, 5, 1, 12, 30, 15), datetime(2024, 5, 1, 10, 30, 15, 900_000), None]
    return pa.table(
        {
            "visits": pa.array([3, None, 7]),
            "weight": pa.array([np.nan, 70.5, 100.0]),
            "since": pa.array([date(2024, 2, 29), None, date(1969, 12, 31)]),
            "seen": pa.array(stamps, pa.timestamp("us")),
            "plan": pa.array(["plus", None, "basic"]).dictionary_encode(),
        }
    )


def as_of_a_frame() -> pa.Table:
    """As pandas holds them: whole numbers with gaps are floats, dates are timestamps at
    midnight.
    """
    midnight = [datetime(2024, 2, 29), None, datetime(1969, 12, 31)]
    return (
        as_typed()
        .set_column(0, "visits", pa.array([3.0, np.nan, 7.0]))
        .set_column(2, "since", pa.array(midnight, pa.timestamp("ns")))
    )


@pytest.mark.parametrize("rows", [as_csv, as_typed, as_of_a_frame])
def test_gaps_and_dates_read_the_same_from_every_source(rows: Any) -> None:
    typed = typed_table(rows(), visits(), "rows")
    assert typed.to_pydict() == {
        "visits": [3, None, 7],
        "weight": [None, 70.5, 100.0],
        "since": [19782, None, -1],
        "seen": [1714566615, 1714559415, None],
        "plan": ["plus", "(missing)", "basic"],
    }
    assert row_bins(Table(typed), visits())[:, 0].tolist() == [0, 8, 0]
    assert not violations(typed, visits())


def test_a_marker_is_a_gap_where_a_column_is_nullable() -> None:
    contract = visits(source={"file": "c.csv", "missing": "?"})
    marked = pa.table(
        {
            name: ["?" if one == "" else one for one in values]
            for name, values in as_csv().to_pydict().items()
        }
    )
    assert typed_table(marked, contract, "rows").equals(typed_table(as_csv(), visits(), "rows"))


def test_where_a_row_stands_does_not_depend_on_gaps_of_others() -> None:
    contract = visits(split={"test_fraction": 0.5})
    typed = typed_table(as_typed(), contract, "rows")
    alone = [typed.slice(place, 1) for place in range(3)]
    hashes = row_hashes(typed, contract)
    assert (hashes == np.concatenate([row_hashes(one, contract) for one in alone])).all()
    assert len(np.unique(hashes, axis=0)) == 3
    held = [holds_out(one, contract, key=bytes(32)) for one in alone]
    assert (holds_out(typed, contract, key=bytes(32)) == np.concatenate(held)).all()


@pytest.mark.parametrize(
    ("column", "values", "sentence"),
    [
        ("since", ["2024-02-30", "", ""], "is no date such as 2026-11-25"),
        ("seen", ["noon", "", ""], "is no datetime such as 2026-11-25T12:30:00"),
        ("visits", ["3.5", "", ""], "is not a whole number"),
        ("plan", ["gold", "", ""], "is not one of the 3 categories"),
    ],
)
def test_a_wrong_value_beside_gaps_is_told_by_column_and_count(
    column: str, values: list[str], sentence: str
) -> None:
    rows = as_csv().set_column(as_csv().column_names.index(column), column, pa.array(values))
    with pytest.raises(DataError) as caught:
        typed_table(rows, visits(), "rows")
    told = caught.value.details()
    assert column in told and sentence in told and told.endswith("(1 value)")
    assert values[0] not in told


def test_a_gap_in_a_column_that_is_not_nullable_is_refused() -> None:
    columns = {**COLUMNS, "visits": {"type": "integer", "bounds": [0, 100]}}
    with pytest.raises(DataError, match="is empty"):
        typed_table(as_typed(), customers(None, columns=columns), "rows")


def test_the_least_whole_number_is_no_value_where_one_may_be_missing() -> None:
    rows = as_typed().set_column(0, "visits", pa.array([-(2**63), None, 7]))
    with pytest.raises(DataError, match="is beyond 64 bits"):
        typed_table(rows, visits(), "rows")


def test_a_double_is_written_by_itself() -> None:
    for others in ([0.0, 1.0], [0.5, 1.0], [float("nan"), 2.0**70]):
        texts = as_text(pa.chunked_array([[1e15, -0.0, 7.0, *others]]), "x", "rows")
        assert texts.to_pylist()[:3] == ["1000000000000000", "0", "7"]


@pytest.mark.parametrize("label", [None, "plan", "visits"])
def test_facts_of_batches_add_up_whatever_is_predicted(label: str | None) -> None:
    contract = customers(label, columns=COLUMNS, checks=[{"rule": "both_labels"}] if label else [])
    typed = typed_table(as_typed(), contract, "rows")
    added = Facts.added(prepare(typed.slice(place, 1), contract).facts for place in range(3))
    assert added == Facts.added([prepare(typed, contract).facts])
    assert len(added.labels) == contract.target.count
    assert merged_violations(added, contract) == violations(typed, contract)
