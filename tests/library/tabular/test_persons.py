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
from dpicl.accounting.events import approximate
from dpicl.accounting.guarantee import Guarantee, Neighbours, amplified_epsilon, to_person
from dpicl.contract import Contract
from dpicl.contract.pipeline import Unit
from dpicl.data.reading.files import read_table, rows_digest
from dpicl.data.reading.split import contributing_rows, reporting_rows, split_table
from dpicl.ground.errors import DataError, DeclarationError, PrivacyError
from dpicl.ground.randomness import Draws
from dpicl.ground.types import PrivateTable
from dpicl.methods import METHODS, Options, gdp_tabicl, grid, ldp_tabicl, tabular, unit_of
from dpicl.methods.base import draws_for
from dpicl.methods.options import LdpVariant
from dpicl.models.kinds.fake import HashScorer
from tests.direct import run as run_method
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
    known: dict[str, Any] = {
        "seed": 0,
        "epsilons": (1.0,),
        "shots": (1, 2, 4),
        "sampling_rates": (),
        "baselines": False,
        "options": Options(),
    }
    return unit_of(method, "shop", **{**known, **changes})


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


def test_every_row_of_a_person_is_as_likely_as_the_others() -> None:
    chosen = Counter(
        row
        for seed in range(3000)
        for row in contributing_rows(_owned([7] * 6), CONTRACT, Draws(seed, "s", simulated=True))
    )
    assert set(chosen) == set(range(6)) and all(
        abs(count - 1500) < 5 * 28 for count in chosen.values()
    )


def test_where_rows_are_protected_every_row_enters_once() -> None:
    draws = Draws(0, "shop", simulated=True)
    for rows in (
        contributing_rows(_owned([1] * 9), small_contract(), draws),
        reporting_rows(_owned([1] * 9), small_contract(), draws),
    ):
        assert rows.tolist() == list(range(9))


def test_a_subsample_holds_no_more_than_the_most_of_anybody() -> None:
    train = PrivateTable(_table(500))
    unit, method = _unit("gdp_tabicl", sampling_rates=(Fraction(1),)), METHODS["gdp_tabicl"]
    for groups in grid.prepare(
        method, train, CONTRACT, grid.points(method, unit), draws_for(CONTRACT, 0)
    ).values():
        counted = Counter(train.numbers("who")[groups != gdp_tabicl.LEFT_OUT].tolist())
        assert max(counted.values()) == MOST


@pytest.mark.parametrize("name", ["mst_tabicl", "aim_tabicl", "tab_pe"])
def test_counts_hold_no_more_than_the_most_of_anybody(name: str) -> None:
    train, method = PrivateTable(_table(500)), tabular(name)
    unit = _unit(name, epsilons=(math.inf,))
    drawn = grid.draw(
        method, train, CONTRACT, grid.points(method, unit), draws_for(CONTRACT, 0), {}
    )
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
def test_a_person_costs_as_many_rows_as_may_enter(neighbours: str, times: int) -> None:
    contract = persons_contract(neighbours=neighbours)
    for cost in grid.costs(METHODS["gdp_tabicl"], contract, _unit("gdp_tabicl")).values():
        assert cost.amplified is not None
        assert cost.nominal.epsilon == pytest.approx(times, rel=1e-9)
        assert cost.amplified.epsilon == pytest.approx(
            times * amplified_epsilon(1.0, Fraction(1, 2)), rel=1e-9
        )
        for guarantee in (cost.nominal, cost.amplified):
            assert (guarantee.unit, guarantee.neighbours, guarantee.delta) == (
                "person",
                Neighbours(neighbours),
                0,
            )
            check(guarantee)
    of_all = Options.model_validate({"gdp_tabicl": {"epsilon_is": "amplified"}})
    for cost in grid.costs(
        METHODS["gdp_tabicl"], contract, _unit("gdp_tabicl", options=of_all)
    ).values():
        assert cost.charged.epsilon == pytest.approx(1.0, rel=1e-9)


def test_a_client_who_is_a_person_pays_for_every_report() -> None:
    (cost,) = set(grid.prices(METHODS["ldp_tabicl"], CONTRACT, _unit("ldp_tabicl")).values())
    (single,) = set(
        grid.prices(METHODS["ldp_tabicl"], small_contract(), _unit("ldp_tabicl")).values()
    )
    assert (
        cost.charged.epsilon == pytest.approx(MOST * single.charged.epsilon, rel=1e-9)
        and cost.charged.unit == "client"
    )
    check(cost.charged)


def test_an_approximate_guarantee_is_not_multiplied() -> None:
    rows = Guarantee(1.0, 1e-5, Neighbours.ADD_OR_REMOVE_ONE, "row", approximate(1.0, 1e-5))
    with pytest.raises(PrivacyError, match="is not multiplied into one for persons"):
        to_person(rows, MOST)


def test_a_person_stands_in_one_part_whatever_the_others_do() -> None:
    table = _table(600)
    whole = split_table(table, CONTRACT)
    train = set(whole.train.numbers("who").tolist())
    assert (
        whole.train.row_count + whole.test.row_count == 600
        and "who" not in whole.test.data.column_names
    )
    persons = table.column("who").to_numpy()
    fewer = split_table(table.filter(pa.array(persons != min(train))), CONTRACT)
    assert set(fewer.train.numbers("who").tolist()) == train - {min(train)}


def test_a_published_split_must_not_part_a_person() -> None:
    split = {"column": "member", "train": "no", "test": "yes"}
    contract = small_contract(
        lambda content: (
            content["privacy"].update(unit="person", person={"id_column": "who", "max_rows": 1}),
            content.update(split=split),
            content["groups"].pop(8),
            content["prompts"]["central"].update(text="Aged {age}."),
        )
    )
    with pytest.raises(
        DataError, match=r"persons have rows in both parts of the split; expected each in one$"
    ):
        split_table(_table(300), contract)


def test_central_baselines_protect_rows_only() -> None:
    results = run_method(
        split_table(_table(400), CONTRACT),
        CONTRACT,
        _unit("gdp_tabicl", baselines=True),
        HashScorer(),
    )
    assert {result.system for result in results} == {"icl", "zero-shot", "majority"}
    left_out = METHODS["gdp_tabicl"].without_baselines(CONTRACT)
    assert left_out is not None and left_out.endswith(
        "are left out: they protect rows, and the contract protects persons."
    )


def _csv(tmp_path: Any, *rows: str) -> Any:
    path = tmp_path / "shop.csv"
    path.write_text("\n".join(["who,age,spent,colour,member,bought", *rows]) + "\n")
    return path


def test_ids_are_kept_as_numbers_that_depend_on_nothing_else(tmp_path: Any) -> None:
    rows = [
        "anna@example.org,30,1.5,red,no,yes",
        "0017,40,2.5,blue,yes,no",
        "anna@example.org,31,3,green,no,no",
    ]
    table = read_table(_csv(tmp_path, *rows), CONTRACT)
    persons = table.column("who").to_pylist()
    assert persons[0] == persons[2] != persons[1] and table.column("who").type == pa.int64()
    again = read_table(_csv(tmp_path, *reversed(rows)), CONTRACT)
    assert again.column("who").to_pylist() == persons[::-1] and rows_digest(again) == rows_digest(
        table
    )
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
            "who,age,spent,colour,member,bought",
            ",30,1.5,red,no,yes",
            r"column 'who': is empty; expected an id in every row$",
        ),
    ],
)
def test_rows_without_a_person_are_refused(
    tmp_path: Any, header: str, row: str, sentence: str
) -> None:
    path = tmp_path / "shop.csv"
    path.write_text(f"{header}\n{row}\n")
    with pytest.raises(DataError, match=sentence):
        read_table(path, CONTRACT)


def test_an_id_that_is_also_a_column_is_refused() -> None:
    with pytest.raises(DeclarationError, match="privacy.person.id_column"):
        persons_contract(person={"id_column": "age", "max_rows": 3})
