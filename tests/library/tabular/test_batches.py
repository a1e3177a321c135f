"""However rows are cut into batches: the same facts, the same digest, the same exact sums, the same
release for the same draws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl.contract.models import Check
from dpicl.contract.pipeline import Unit
from dpicl.data.local.questions import Tally
from dpicl.data.reading.batches import Facts, compact, held_out, merged_violations, prepare
from dpicl.data.reading.checks import rules_of, violations
from dpicl.ground.errors import DataError
from dpicl.ground.randomness import Draws
from dpicl.ground.types import PrivateTable
from dpicl.mechanisms.noisy_mean import Grid
from dpicl.methods import Options, gdp_tabicl, grid, ldp_tabicl, tabular, unit_of
from dpicl.methods.collection import merged
from dpicl.methods.options import LdpVariant
from lab import in_memory
from tests.library.examples import random_table, small_contract

CONTRACT = small_contract()
GDP = tabular("gdp_tabicl")
ROWS = 90
cuts = st.lists(st.integers(0, ROWS), max_size=6).map(sorted)
DRAWS = Draws(0, "shop", simulated=True)


def parts(table: pa.Table, at: Sequence[int]) -> list[pa.Table]:
    return [table.slice(start, stop - start) for start, stop in pairwise([0, *at, table.num_rows])]


def table(seed: int = 0, beyond: float = 0.3) -> pa.Table:
    return random_table(CONTRACT, ROWS, seed, beyond=beyond)


def unit(epsilons: tuple[float, ...], shots: tuple[int, ...], rate: Fraction) -> Unit:
    return unit_of("gdp_tabicl", "shop", 0, epsilons, shots, (rate,), False, Options())


@given(cuts, st.integers(0, 50))
def test_facts_of_any_batches_are_those_of_the_table(at: list[int], seed: int) -> None:
    rows = table(seed)
    whole = prepare(rows, CONTRACT).facts
    added = Facts.added(prepare(part, CONTRACT).facts for part in parts(rows, at))
    assert added == Facts.added([whole]) and added.digest(CONTRACT) == whole.digest(CONTRACT)
    assert merged_violations(added, CONTRACT) == violations(rows, CONTRACT)


@given(st.permutations(range(ROWS)), cuts)
@settings(max_examples=25)
def test_a_row_s_part_depends_on_no_other_row_and_on_no_order(
    order: list[int], at: list[int]
) -> None:
    rows = table()
    whole = prepare(rows, CONTRACT)
    made = [prepare(part, CONTRACT) for part in parts(rows.take(order), at)]
    assert Facts.added(one.facts for one in made).digest(CONTRACT) == whole.facts.digest(CONTRACT)
    for kind in ("train", "test"):
        found = [row for one in made for row in getattr(one, kind).to_pylist()]
        assert sorted(map(str, found)) == sorted(map(str, getattr(whole, kind).to_pylist()))


def test_about_the_stated_part_is_held_out() -> None:
    rows = random_table(CONTRACT, 20_000, 0)
    made = prepare(rows, CONTRACT)
    assert made.train.num_rows + made.test.num_rows == 20_000
    assert abs(made.test.num_rows / 20_000 - 0.2) < 0.015


def test_a_published_split_is_the_contract_s() -> None:
    def published(content: dict[str, Any]) -> None:
        content["split"] = {"column": "member", "train": "yes", "test": "no"}
        content["groups"] = {2: ["label"]}
        content["prompts"]["central"] = {"text": "Aged {age}."}

    made = prepare(table(), small_contract(published))
    found = [set(part.column("member").to_pylist()) for part in (made.train, made.test)]
    assert found == [{"yes"}, {"no"}]


@given(cuts, st.integers(0, 20))
def test_a_release_does_not_depend_on_the_batches(at: list[int], seed: int) -> None:
    """Where every row enters, so that all that is drawn is the noise."""
    rows, wanted = table(seed), unit((1.0, math.inf), (1, 2, 8), Fraction(1))
    batches = [PrivateTable(compact(part, CONTRACT)) for part in parts(rows, at)]
    whole = in_memory.of_table(GDP, PrivateTable(rows), CONTRACT, wanted, DRAWS)
    for cell, asked in grid.points(GDP, wanted).items():
        counted = [GDP.count(batch, CONTRACT, asked, DRAWS) for batch in batches]
        assert GDP.merge(counted, CONTRACT, asked, DRAWS) == whole.draws[cell]


def test_a_subsample_is_drawn_by_the_batch_s_own_stream_and_grouped_as_ever() -> None:
    rows = PrivateTable(table())
    (asked,) = grid.points(GDP, unit((math.inf,), (8,), Fraction(1, 3))).values()
    first, again, other = (
        GDP.count(rows, CONTRACT, asked, DRAWS.of_batch(number)) for number in (4, 4, 5)
    )
    assert all((first[name] == values).all() for name, values in again.items())
    assert (first["rows"] != other["rows"]).any()
    members = GDP.prepare(rows, CONTRACT, asked, DRAWS.of_batch(4))
    assert first["rows"].tolist() == [np.count_nonzero(members == group) for group in range(8)]


def test_blocks_of_a_batch_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = PrivateTable(table())
    (asked,) = grid.points(GDP, unit((1.0,), (8,), Fraction(1, 2))).values()
    whole = GDP.count(rows, CONTRACT, asked, DRAWS)
    monkeypatch.setattr(gdp_tabicl, "_ROWS_PER_BLOCK", 7)
    blocks = GDP.count(rows, CONTRACT, asked, DRAWS)
    assert GDP.merge([blocks], CONTRACT, asked, DRAWS) == GDP.merge([whole], CONTRACT, asked, DRAWS)


@pytest.mark.parametrize("design", ["all-columns", "one-column", "pairs", "subset"])
def test_what_clients_of_all_batches_sent_is_gathered_exactly(design: str) -> None:
    chosen = LdpVariant.model_validate({"design": design, "estimator": "log-linear"})
    made = [
        ldp_tabicl.collect(
            PrivateTable(compact(part, CONTRACT)), CONTRACT, chosen, 1.0, DRAWS.of_batch(number)
        )
        for number, part in enumerate(parts(table(), [20, 55]))
    ]
    whole, stored = merged(made), [one.stored for one in made]
    expected = sum(stored) if isinstance(whole, Tally) else np.concatenate(stored)
    assert (whole.stored == expected).all() and whole.clients == ROWS


@given(
    st.sampled_from([np.int8, np.int16, np.int32, np.int64, np.uint8]),
    st.integers(-300, 300),
    st.integers(1, 400),
    st.sampled_from(["lower", "centre"]),
    st.lists(st.integers(0, 2**32), max_size=8),
)
def test_totals_of_short_types_are_those_of_doubles(
    dtype: Any, low: int, width: int, origin: Any, raw: list[int]
) -> None:
    values = np.array(raw, dtype=np.uint64).astype(dtype)
    grid = Grid(low, low + width, 1, origin)
    assert grid.total(values) == sum(grid.units(values.astype(np.float64)).tolist())


@given(st.integers(0, 30))
@settings(max_examples=10)
def test_short_types_hold_the_same_values(seed: int) -> None:
    rows = table(seed, beyond=seed / 10)
    short = compact(rows, CONTRACT)
    assert short.to_pylist() == rows.to_pylist() and short.column_names == rows.column_names
    assert short.schema.field("colour").type.index_type == pa.int8()
    assert short.schema.field("age").type in (pa.int8(), pa.int64())


def test_a_split_that_leaves_nothing_is_refused() -> None:
    made = prepare(table(), CONTRACT)
    test, asked = held_out([made.test, made.test], 5, CONTRACT, key=None, most=None, queries=None)
    assert test.num_rows == 2 * made.test.num_rows == len(asked)
    for train_rows, held in ((0, made.test), (5, made.test.slice(0, 0))):
        with pytest.raises(DataError, match="shop: the split leaves"):
            held_out([held], train_rows, CONTRACT, key=None, most=None, queries=None)


def test_every_rule_is_merged() -> None:
    """A table that breaks all rules but those that need it whole."""
    checks = Check(rule="row_count", at_least=10**6), Check(rule="both_labels")
    contract = CONTRACT.model_copy(update={"checks": checks})
    broken = table(beyond=2.0)
    one_label = pa.DictionaryArray.from_arrays(np.zeros(ROWS, np.int16), ["no", "yes", "twice"])
    rows = broken.set_column(4, "bought", one_label)
    facts = Facts.added(prepare(part, contract).facts for part in parts(rows, [1, 40]))
    assert merged_violations(facts, contract) == violations(rows, contract)
    stated = {rule.rule for rule in rules_of(contract)}
    assert stated == {one.rule.rule for one in violations(rows, contract)} | {
        "no_missing",
        "known_categories",
    }
