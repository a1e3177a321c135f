"""Persons as the unit: whoever holds many rows moves no more than the contract's share of them."""

from __future__ import annotations

import io
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.accounting.accountant import check
from dpicl.accounting.guarantee import amplified_epsilon
from dpicl.contract import Contract
from dpicl.contract.persons import person_rows
from dpicl.contract.pipeline import Unit
from dpicl.data.reading.files import read_table, rows_digest
from dpicl.data.reading.split import contributing_rows, reporting_rows, split_table
from dpicl.ground.errors import DataError, DeclarationError
from dpicl.ground.randomness import Draws
from dpicl.ground.types import PrivateTable
from dpicl.methods import METHODS, Options, gdp_tabicl, grid, ldp_tabicl, tabular, unit_of
from dpicl.methods.base import draws_for
from dpicl.methods.options import LdpVariant
from tests.library.examples import random_table, small_contract

MOST = 3
owners = st.lists(st.integers(-3, 12), min_size=1, max_size=60)


def persons_contract(**privacy: Any) -> Contract:
    """The made-up shop, where customers come back."""
    settings = {"unit": "person", "person": {"id_column": "who", "max_rows": MOST}, **privacy}
    return small_contract(lambda content: content["privacy"].update(settings))


CONTRACT = persons_contract()


def _owned(persons: Any) -> PrivateTable:
    return PrivateTable(pa.table({"who": pa.array(np.asarray(persons, dtype=np.int64))}))


def _table(row_count: int, seed: int = 0) -> pa.Table:
    """Random rows of a few customers; some hold very many."""
    hashes = np.random.default_rng(1).integers(-(2**63), 2**63, 40)
    persons = hashes[np.minimum(np.random.default_rng(seed).geometric(0.1, row_count), 40) - 1]
    return random_table(CONTRACT, row_count, seed).append_column("who", pa.array(persons))


def _unit(method: str, **changes: Any) -> Unit:
    known: dict[str, Any] = {"epsilons": (1.0,), "sampling_rates": (), "options": Options()}
    known |= changes
    return unit_of(method, "shop", seed=0, shots=(1, 2, 4), baselines=False, **known)


@given(owners, st.integers(0, 5))
def test_nobody_contributes_more_than_the_most(persons: list[int], seed: int) -> None:
    rows = contributing_rows(_owned(persons), CONTRACT, Draws(seed, "shop", simulated=True))
    assert len(set(rows.tolist())) == len(rows) and (np.diff(rows) > 0).all()
    held = Counter(persons)
    assert Counter(persons[row] for row in rows) == {
        person: min(count, MOST) for person, count in held.items()
    }


@given(owners, st.integers(0, 5))
def test_everybody_reports_equally_often_and_as_evenly_as_possible(
    persons: list[int], seed: int
) -> None:
    rows = reporting_rows(_owned(persons), CONTRACT, Draws(seed, "shop", simulated=True))
    held, times = Counter(persons), Counter(rows.tolist())
    assert Counter(persons[row] for row in rows) == dict.fromkeys(held, MOST)
    for row, count in times.items():
        assert MOST // held[persons[row]] <= count <= -(-MOST // held[persons[row]])


def test_how_many_rows_of_a_person_enter_is_said_by_who_draws_them() -> None:
    assert person_rows(CONTRACT, is_local=False) == (
        "At most 3 rows of each person entered, drawn at random: who has more weighs less in the "
        "release than in the table."
    )
    assert person_rows(CONTRACT, is_local=True) == (
        "Each person reported 3 rows, drawn at random, some of them again where there are fewer: "
        "all persons weigh alike."
    )
    assert person_rows(small_contract(), is_local=True) == ""


def test_every_row_of_a_person_is_as_likely_as_the_others() -> None:
    chosen = Counter(
        row
        for seed in range(3000)
        for row in contributing_rows(_owned([7] * 6), CONTRACT, Draws(seed, "s", simulated=True))
    )
    assert [abs(chosen[row] - 1500) < 5 * 28 for row in range(6)] == [True] * 6


def test_where_rows_are_protected_every_row_enters_once() -> None:
    for entering in (contributing_rows, reporting_rows):
        rows = entering(_owned([1] * 9), small_contract(), Draws(0, "shop", simulated=True))
        assert rows.tolist() == [*range(9)]


def test_a_subsample_holds_no_more_than_the_most_of_anybody() -> None:
    train = PrivateTable(_table(500))
    method = METHODS["gdp_tabicl"]
    asked = grid.points(method, _unit(method.name, sampling_rates=(Fraction(1),)))
    for groups in grid.prepare(method, train, CONTRACT, asked, draws_for(CONTRACT, 0)).values():
        counted = Counter(train.numbers("who")[groups != gdp_tabicl.LEFT_OUT].tolist())
        assert max(counted.values()) == MOST


@pytest.mark.parametrize("name", ["mst_tabicl", "aim_tabicl", "tab_pe"])
def test_counts_hold_no_more_than_the_most_of_anybody(name: str) -> None:
    train, method = PrivateTable(_table(500)), tabular(name)
    asked = grid.points(method, _unit(name, epsilons=(math.inf,)))
    drawn = grid.draw(method, train, CONTRACT, asked, draws_for(CONTRACT, 0), {})
    held = Counter(train.numbers("who").tolist()).values()
    for one in drawn.values():
        assert method.row_count(one) == pytest.approx(sum(min(rows, MOST) for rows in held))


def test_clients_report_as_often_as_the_contract_says() -> None:
    train = PrivateTable(_table(500))
    collected = ldp_tabicl.collect(train, CONTRACT, LdpVariant(), 1.0, draws_for(CONTRACT, 0))
    assert len(collected.stored) == MOST * len(np.unique(train.numbers("who")))


@pytest.mark.parametrize(
    ("neighbours", "times"), [("add-or-remove-one", MOST), ("replace-one", 2 * MOST)]
)
def test_a_person_costs_what_is_typed_however_many_rows_enter(neighbours: str, times: int) -> None:
    contract, method = persons_contract(neighbours=neighbours), METHODS["gdp_tabicl"]
    amplified = amplified_epsilon(1 / times, Fraction(1, 2))
    nominal = Options.model_validate({"gdp_tabicl": {"epsilon_is": "nominal"}})
    for cost in grid.costs(method, contract, _unit(method.name, options=nominal)).values():
        for stated, expected in ((cost.nominal, 1 / times), (cost.amplified, amplified)):
            assert stated.epsilon == pytest.approx(times * expected, rel=1e-9)
            assert (stated.unit, stated.neighbours, stated.delta) == ("person", neighbours, 0)
            check(stated)
    for cost in grid.costs(method, contract, _unit(method.name)).values():
        assert cost.charged.epsilon == pytest.approx(1.0, rel=1e-9)


def test_a_person_stands_in_one_part_whatever_the_others_do() -> None:
    table = _table(600)
    whole = split_table(table, CONTRACT)
    train = set(whole.train.numbers("who").tolist())
    assert whole.train.row_count + whole.test.row_count == 600
    assert "who" not in whole.test.data.column_names
    persons = table.column("who").to_numpy()
    fewer = split_table(table.filter(pa.array(persons != min(train))), CONTRACT)
    assert set(fewer.train.numbers("who").tolist()) == train - {min(train)}


def test_a_published_split_must_not_part_a_person() -> None:
    split = {"column": "member", "train": "no", "test": "yes"}
    persons = {"unit": "person", "person": {"id_column": "who", "max_rows": 1}}
    contract = small_contract(
        lambda content: (
            content["privacy"].update(persons),
            content.update(split=split, groups={2: ["label"]}),
            content["prompts"]["central"].update(text="Aged {age}."),
        )
    )
    with pytest.raises(DataError, match=r"persons have rows in both parts .*expected each in one$"):
        split_table(_table(300), contract)


HEADER = "who,age,spent,colour,member,bought"


def _csv(tmp_path: Any, *lines: str) -> Any:
    path = tmp_path / "shop.csv"
    path.write_text("\n".join([*lines, ""]))
    return path


def test_ids_are_kept_as_numbers_that_depend_on_nothing_else(tmp_path: Any) -> None:
    rows = [
        "anna@example.org,30,1.5,red,no,yes",
        "0017,40,2.5,blue,yes,no",
        "anna@example.org,31,3,green,no,no",
    ]
    table = read_table(_csv(tmp_path, HEADER, *rows), CONTRACT)
    persons = table.column("who").to_pylist()
    assert persons[0] == persons[2] != persons[1] and table.column("who").type == pa.int64()
    again = read_table(_csv(tmp_path, HEADER, *reversed(rows)), CONTRACT)
    assert again.column("who").to_pylist() == persons[::-1]
    assert rows_digest(again) == rows_digest(table)
    buffer = io.BytesIO()
    pa.ipc.new_file(buffer, table.schema).write_table(table)
    assert b"anna" not in buffer.getvalue()


@pytest.mark.parametrize(
    ("header", "row", "sentence"),
    [
        (
            "age,spent,colour,member,bought",
            "30,1.5,red,no,yes",
            r"column 'who': is not among the columns",
        ),
        (
            HEADER,
            ",30,1.5,red,no,yes",
            r"column 'who': is empty; expected an id in every row$",
        ),
    ],
)
def test_rows_without_a_person_are_refused(
    tmp_path: Any, header: str, row: str, sentence: str
) -> None:
    with pytest.raises(DataError, match=sentence):
        read_table(_csv(tmp_path, header, row), CONTRACT)


def test_an_id_that_is_also_a_column_is_refused() -> None:
    with pytest.raises(DeclarationError, match="privacy.person.id_column"):
        persons_contract(person={"id_column": "age", "max_rows": 3})
