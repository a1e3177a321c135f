"""Files of frozen periods keep their form: a horizon that was charged goes on with them."""

from __future__ import annotations

import hashlib
import json
import math
from fractions import Fraction

import numpy as np
import pytest

from dpicl.accounting.guarantee import Neighbours
from dpicl.data.central.exact_counts import ExactCounts
from dpicl.data.reading.split import Entered
from dpicl.ground.types import PrivateCodes
from dpicl.mechanisms.continual_counts import Contribution
from dpicl.mechanisms.noisy_steps import GaussianTotal
from dpicl.methods.gdp_series import GroupSeries
from dpicl.methods.mst_series import Series
from dpicl.release import horizon
from tests.library.series_contracts import series_contract

SIZES = (3, 2, 2)
ENTERED = Entered(np.array([5, 2**63 + 7], dtype=np.uint64), np.array([1, 300]))
TOTAL = GaussianTotal(Fraction(1), 1, Neighbours.ADD_OR_REMOVE_ONE, "person", 1e-6)


def test_counts_of_rows_keep_their_bytes() -> None:
    series = Series(SIZES, 5, Contribution(3, 1), TOTAL, 2)
    counts = ExactCounts.of(
        PrivateCodes(np.array([[0, 1, 0], [2, 0, 1], [2, 1, 1], [1, 0, 0]])), SIZES
    )
    said, flat = series.packed(counts)
    about, content = horizon._packed(flat, ENTERED)
    written = (
        '{"sizes": [3, 2, 2], "scopes": [[0, 2], [1, 2], [0, 1, 2]], "counts": "|i1", "persons": '
        '2, "rows": "<i2"}'
    )
    assert json.dumps({**said, **about}) == written
    assert (
        hashlib.sha256(content).hexdigest()
        == "53b7ced851ce338363aa090978d697cf3c3a4c5e81a52bb762b909851570de9d"
    )
    again, entered = horizon._unpacked(json.loads(written), content)
    read = series.unpacked(json.loads(written), again)
    assert read.sizes == SIZES and all(
        (read.tables[scope] == table).all() for scope, table in counts.tables.items()
    )
    assert (entered.persons == ENTERED.persons).all() and (entered.rows == ENTERED.rows).all()
    assert series.stated == {"sizes": SIZES, "structure": 2}, (
        "what stands with the horizon's charge"
    )


def test_sums_of_groups_are_read_as_they_were_written_and_others_are_refused() -> None:
    series = GroupSeries.of(series_contract(), 2, origin="centre", epsilon=math.inf, delta=1e-6)
    vector = np.arange(series.vectors.size, dtype=np.int64) - 2**40
    said, flat = series.packed(vector)
    about, content = horizon._packed(flat, ENTERED)
    read, _ = horizon._unpacked(json.loads(json.dumps({**said, **about})), content)
    assert (series.unpacked({**said, **about}, read) == vector).all()
    with pytest.raises(ValueError, match="cells"):
        series.unpacked(said, vector[1:])
