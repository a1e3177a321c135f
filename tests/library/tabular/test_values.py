"""Values of released rows: inside the bins that their codes name, in the contract's types, and the
same codes again.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from dpicl.contract import Contract
from dpicl.data.central.exact_counts import row_bins
from dpicl.data.reading.encode import UNKNOWN, encode_queries
from dpicl.data.reading.parse import typed_table
from dpicl.data.values import Meaning, RowForm, central_form, local_form
from dpicl.ground.types import QueryTable
from tests.library.contract.test_derived import customers
from tests.library.tabular.test_gaps import COLUMNS

SHIPPED = (
    "adult",
    "bank",
    "blood",
    "breast_cancer",
    "calhousing",
    "car",
    "diabetes",
    "heart",
    "jungle",
)


def random_codes(form: RowForm, rows: int) -> np.ndarray:
    chance = np.random.default_rng(0)
    return np.stack(
        [chance.integers(count, size=rows) for count in form.encoding.bin_counts], axis=1
    )


def _local(table: QueryTable, contract: Contract) -> np.ndarray:
    return encode_queries(table, contract).codes


def typed(values: pa.Table, contract: Contract) -> QueryTable:
    """As a source of these values would be read; columns that rows do not have are filled with
    anything.
    """
    absent = [name for name in contract.columns if name not in values.column_names]
    filled = {
        name: [
            getattr(contract.columns[name], "categories", None) or contract.columns[name].bounds
        ][0][0]  # type: ignore[union-attr]
        for name in absent
    }
    whole = pa.table(
        {
            **{name: values.column(name) for name in values.column_names},
            **{n: [v] * len(values) for n, v in filled.items()},
        }
    )
    return QueryTable(typed_table(whole, contract, "values"))


@pytest.mark.parametrize("name", SHIPPED)
def test_values_fall_into_the_bins_they_were_drawn_from(
    contracts: dict[str, Contract], name: str
) -> None:
    contract = contracts[name]
    for form, encode in (
        (central_form(contract), row_bins),
        (local_form(contract, "k-ary"), _local),
    ):
        codes = random_codes(form, 3000)
        values = form.table(codes, contract, np.random.default_rng(1))
        assert values.column_names == [
            column for column in contract.columns if column in values.column_names
        ]
        assert np.array_equal(encode(typed(values, contract), contract), codes)
        assert form.label is not None
        for place, meaning in enumerate((*form.features, form.label)):
            assert np.array_equal(meaning.codes(values.column(meaning.column)), codes[:, place])


def test_a_number_has_no_more_places_than_stated_and_every_multiple_is_as_likely() -> None:
    tenths = Meaning("x", "real", edges=(0.0, 0.3, 0.7, 1.0), digits=1)
    drawn = tenths.drawn(np.ones(40_000, dtype=np.int64), np.random.default_rng(0)).to_numpy()
    values, counts = np.unique(drawn, return_counts=True)
    assert values.tolist() == [0.3, 0.4, 0.5, 0.6] and counts.min() > 9_600
    last = np.unique(tenths.drawn(np.full(1000, 2), np.random.default_rng(0)).to_numpy())
    assert last.tolist() == [0.7, 0.8, 0.9, 1.0], "the last bin ends with the bound"
    narrow = Meaning("x", "real", edges=(0.0, 0.31, 0.38, 1.0), digits=1)
    drawn = narrow.drawn(np.ones(100, dtype=np.int64), np.random.default_rng(0)).to_numpy()
    assert drawn.min() >= 0.31 and drawn.max() < 0.38, "no tenth is in that bin"


def test_what_a_column_cannot_hold_has_no_code() -> None:
    letters = Meaning("x", "category", categories=(("a",), ("b", "c")))
    assert letters.codes(pa.chunked_array([["c", "d", "a", None]])).tolist() == [
        1,
        UNKNOWN,
        0,
        UNKNOWN,
    ]
    numbers = Meaning("x", "real", edges=(0.0, 1.0, 2.0))
    assert numbers.codes(pa.chunked_array([[-5, 1.0, 9, np.nan]])).tolist() == [0, 1, 1, UNKNOWN]


@pytest.mark.parametrize(
    "label",
    [
        None,
        "plan",
        "visits",
        {"column": "weight", "cuts": [70], "missing": True, "answers": ["a", "b", "?"]},
    ],
)
def test_gaps_dates_and_every_kind_of_label_come_back_as_they_were_read(label: object) -> None:
    contract = customers(label, columns=COLUMNS)
    for form, encode in (
        (central_form(contract), row_bins),
        (local_form(contract, "k-ary"), _local),
    ):
        codes = random_codes(form, 2000)
        values = form.table(codes, contract, np.random.default_rng(1))
        assert values.schema.types == [
            pa.int64(),
            pa.float64(),
            pa.date32(),
            pa.timestamp("s"),
            pa.string(),
        ]
        assert all(column.null_count for column in values.columns)
        assert np.array_equal(encode(typed(values, contract), contract), codes)
        frame = values.to_pandas()
        for place, meaning in enumerate((*form.features, *([form.label] if form.label else []))):
            for column in (
                values.column(meaning.column),
                pa.chunked_array([pa.array(frame[meaning.column], from_pandas=True)]),
            ):
                assert np.array_equal(meaning.codes(column), codes[:, place])
