"""Values of released rows: inside the bins that their codes name, in the contract's types, and the
same codes again.
"""

from __future__ import annotations

from collections.abc import Iterator

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
from tests.library.examples import every_contract
from tests.library.tabular.test_gaps import COLUMNS


def forms(contract: Contract, rows: int) -> Iterator[tuple[RowForm, np.ndarray, pa.Table]]:
    """Central rows and local ones: their form, random codes, and values that these name. Read as a
    source's, the values have the same codes; other columns are filled with anything.
    """
    for form, encode in (
        (central_form(contract), row_bins),
        (local_form(contract, "k-ary"), lambda *read: encode_queries(*read).codes),
    ):
        sizes = form.encoding.bin_counts
        codes = np.random.default_rng(0).integers(sizes, size=(rows, len(sizes)))
        values = form.table(codes, contract, np.random.default_rng(1))
        whole = values
        for name, column in contract.columns.items():
            if name not in values.column_names:
                anything = (getattr(column, "categories", None) or column.bounds)[0]
                whole = whole.append_column(name, pa.array([anything] * rows))
        typed = QueryTable(typed_table(whole, contract, "values"))
        assert np.array_equal(encode(typed, contract), codes)
        yield form, codes, values


@every_contract
def test_values_fall_into_the_bins_they_were_drawn_from(contract: Contract) -> None:
    for form, codes, values in forms(contract, 3000):
        names = values.column_names
        assert names == [name for name in contract.columns if name in names]
        for place, meaning in enumerate((*form.features, form.label)):
            assert np.array_equal(meaning.codes(values.column(meaning.column)), codes[:, place])


def test_a_number_has_no_more_places_than_stated_and_every_multiple_is_as_likely() -> None:
    tenths = Meaning("x", "real", edges=(0.0, 0.3, 0.7, 1.0), digits=1)
    share = np.random.default_rng(0).random(40_000)
    drawn = tenths.drawn(np.ones(40_000, dtype=np.int64), share).to_numpy()
    values, counts = np.unique(drawn, return_counts=True)
    assert values.tolist() == [0.3, 0.4, 0.5, 0.6] and counts.min() > 9_600
    last = np.unique(tenths.drawn(np.full(1000, 2), share[:1000]).to_numpy())
    assert last.tolist() == [0.7, 0.8, 0.9, 1.0], "the last bin ends with the bound"
    narrow = Meaning("x", "real", edges=(0.0, 0.31, 0.38, 1.0), digits=1)
    drawn = narrow.drawn(np.ones(100, dtype=np.int64), share[:100]).to_numpy()
    assert drawn.min() >= 0.31 and drawn.max() < 0.38, "no tenth is in that bin"


def test_what_a_column_cannot_hold_has_no_code() -> None:
    letters = Meaning("x", "category", categories=(("a",), ("b", "c")))
    codes = letters.codes(pa.chunked_array([["c", "d", "a", None]]))
    assert codes.tolist() == [1, UNKNOWN, 0, UNKNOWN]
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
    for form, codes, values in forms(customers(label, columns=COLUMNS), 2000):
        kinds = [pa.int64(), pa.float64(), pa.date32(), pa.timestamp("s"), pa.string()]
        assert values.schema.types == kinds
        assert all(column.null_count for column in values.columns)
        frame = values.to_pandas()
        for place, meaning in enumerate((*form.features, *([form.label] if form.label else []))):
            name = meaning.column
            of_frame = pa.chunked_array([pa.array(frame[name], from_pandas=True)])
            for column in (values.column(name), of_frame):
                assert np.array_equal(meaning.codes(column), codes[:, place])


def test_a_position_says_how_far_in_its_bin_a_number_lies() -> None:
    numbers = Meaning("x", "real", nullable=True, edges=(0.0, 10.0, 40.0), shares=(0.5, 0.5))
    found = numbers.positions(pa.chunked_array([[0.0, 5.0, 10.0, 25.0, 40.0, None]]))
    assert found == pytest.approx([0, 0.5, 1, 1.5, 2, 2]) and found[4] < 2 == found[5]
    whole = Meaning("x", "integer", edges=(0, 3, 3), shares=(0.5, 0.5))
    assert whole.positions(pa.chunked_array([[0, 2, 3]])) == pytest.approx([0, 2 / 3, 1])
    first, last = whole.mean_positions
    assert 0 < first < 1 == last
