"""Several draws of shots from one release: independent, free, averaged, and of any query what they
would be if it were the only one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpicl.contract import Contract
from dpicl.contract.models import Split
from dpicl.contract.pipeline import Cell, Unit
from dpicl.ground.errors import DeclarationError
from dpicl.ground.types import QueryTable
from dpicl.methods import METHODS, grid, tabular, tabular_method
from dpicl.methods.base import draws_for
from dpicl.methods.tabular_answers import averaged, is_drawn, mean_of_draws
from dpicl.models.kinds.fake import HashScorer
from dpicl.release.names import parameters_of
from tests.direct import point, release, run
from tests.library.examples import random_table, small_contract
from tests.methods.examples import contract_for, rows_for, unit_for

ROW_METHODS = [name for name, method in METHODS.items() if method.draws_shots]
RULES = ("nested", "shared", "prototype", "diverse", "near")
every_row_method = pytest.mark.parametrize("name", ROW_METHODS)


def drawn(name: str, draws: int, **how: Any) -> Unit:
    unit = unit_for(name, **{"shots": (2,), "epsilons": (5.0,), **how})
    again = replace(unit, draws=draws)
    return replace(again, evaluated_cells=tuple(METHODS[name].evaluated_cells(again)))


def prompts(
    unit: Unit, queries: int = 12, contract: Contract | None = None, seed: int = 7
) -> dict[Cell, list[str]]:
    contract = contract or small_contract()
    released = release(rows_for(400), small_contract(), unit)
    asked = QueryTable(random_table(small_contract(), queries, seed))
    return tabular(unit.method).prompts(
        released, asked, contract, unit, draws_for(contract, unit.seed)
    )


def charged() -> Contract:
    split = Split.model_validate({"test_fraction": 0.5, "evaluation_epsilon": 3})
    contract = contract_for("mst_tabicl", private=True).model_copy(
        update={"split": split, "queries": None}
    )
    assert contract.evaluation == "charged"
    return contract


@every_row_method
def test_further_draws_leave_the_first_as_it_is_and_differ_from_it_and_each_other(
    name: str,
) -> None:
    one, three = (prompts(drawn(name, draws, shot_selection=RULES)) for draws in (1, 3))
    assert {cell: texts for cell, texts in three.items() if cell.draw is None} == one
    assert {cell.draw for cell in three} == {None, 2, 3}
    for cell in filter(is_drawn, one):
        texts = [three[replace(cell, draw=draw)] for draw in (None, 2, 3)]
        queries = [{text.rpartition("\n")[2] for text in some} for some in texts]
        assert queries[0] == queries[1] == queries[2]
        if cell.system in ("icl", "icl-nested", "icl-shared"):
            assert texts[0] != texts[1] != texts[2] != texts[0]


@every_row_method
def test_the_same_shots_of_all_queries_are_those_of_the_first_and_change_no_release(
    name: str,
) -> None:
    unit = drawn(name, 2)
    same = replace(unit, options=unit.options.model_copy(update={"same_shots": True}))
    own, shared = prompts(unit), prompts(same)
    shots = {
        cell: {text.rpartition("\n")[0] for text in texts}
        for cell, texts in shared.items()
        if is_drawn(cell)
    }
    assert len(shots) == 2 and all(
        one == {own[cell][0].rpartition("\n")[0]} for cell, one in shots.items()
    )
    assert len({shown for one in shots.values() for shown in one}) == 2
    assert [text.rpartition("\n")[2] for text in shared[Cell("icl", 5.0, 2)]] == [
        text.rpartition("\n")[2] for text in own[Cell("icl", 5.0, 2)]
    ]
    contract, method = small_contract(), METHODS[name]
    for cell in grid.prices(method, contract, unit):
        assert method.identity(contract, point(same, cell)) == method.identity(
            contract, point(unit, cell)
        )


@every_row_method
def test_the_average_is_the_mean_probability_of_the_parts(name: str) -> None:
    unit, scorer, contract = drawn(name, 4), HashScorer(), small_contract()
    method = tabular(name)
    scores = {
        cell: method.answers.ask_cell(scorer, texts, contract, cell)
        for cell, texts in prompts(unit).items()
    }
    shares = []
    for draw in (None, 2, 3, 4):
        odds = np.exp(scores[Cell("icl", 5.0, 2, None, draw)])
        shares.append(odds / odds.sum(axis=1, keepdims=True))
    mean = averaged(scores)[Cell("averaged", 5.0, 2)]
    assert np.allclose(np.exp(mean), np.mean(shares, axis=0)) and np.allclose(
        np.exp(mean).sum(axis=1), 1
    )
    queries = QueryTable(random_table(contract, 12, 7))
    assert set(method.answers.metrics_of(scores, queries, contract)) >= {
        Cell("averaged", 5.0, 2),
        Cell("icl", 5.0, 2),
    }
    assert all(cell.draw is None for cell in method.answers.metrics_of(scores, queries, contract))


def test_draws_that_were_declined_leave_a_tie_and_move_no_other() -> None:
    tie, sure = np.full((1, 2), -np.log(2)), np.array([[-900.0, -1.0]])
    assert np.ptp(mean_of_draws([tie, tie])) == 0
    assert np.exp(mean_of_draws([tie, sure])) == pytest.approx(np.array([[0.25, 0.75]]))
    assert np.isfinite(mean_of_draws([sure, sure])).all()


@every_row_method
def test_results_of_averaged_draws_cost_what_their_release_does(
    name: str, small_split: Any
) -> None:
    unit, contract = drawn(name, 2, baselines=True, shot_selection=("near",)), small_contract()
    costs = grid.costs(METHODS[name], contract, unit)
    (paid,) = {cost.nominal.epsilon for cost in grid.prices(METHODS[name], contract, unit).values()}
    for system in ("averaged", "averaged-near", "icl"):
        assert costs[Cell(system, 5.0, 2)].nominal.epsilon == paid
    results = run(small_split(), contract, unit, HashScorer())
    assert {"icl", "averaged", "averaged-near", "lr", "gb"} <= {result.system for result in results}
    assert costs[Cell("gb", 5.0)].nominal.epsilon == paid


@every_row_method
def test_draws_are_no_part_of_a_release_s_name_but_of_what_measures_its_answers(name: str) -> None:
    contract = contract_for(name)
    one, eight = drawn(name, 1), drawn(name, 8)
    assert grid.prices(METHODS[name], contract, one) == grid.prices(METHODS[name], contract, eight)
    for cell in grid.prices(METHODS[name], contract, one):
        assert parameters_of(contract, one.method, point(one, cell)) == parameters_of(
            contract, eight.method, point(eight, cell)
        )
    counted = tabular_method.measured_cells(eight)
    assert Cell("averaged", 5.0, 2) in counted and all(cell.draw is None for cell in counted)
    assert tabular_method.measured_cells(drawn(name, 4)) == counted


@every_row_method
@pytest.mark.parametrize("draws", [1, 3])
def test_where_measuring_is_charged_a_query_gets_the_demonstrations_that_it_would_get_alone(
    name: str, draws: int
) -> None:
    unit, contract = drawn(name, draws, shot_selection=RULES), charged()
    queries = QueryTable(random_table(small_contract(), 5, 7))
    released = release(rows_for(400), small_contract(), unit)

    def asked(places: list[int]) -> dict[Cell, list[str]]:
        return tabular(name).prompts(
            released, QueryTable(queries.data.take(places)), contract, unit, draws_for(contract, 0)
        )

    together, alone = asked([3, 0, 4, 1, 2]), [asked([place]) for place in (3, 0, 4, 1, 2)]
    for cell, texts in together.items():
        assert texts == [one[cell][0] for one in alone]


def test_draws_are_refused_where_no_method_draws() -> None:
    from dpicl.ground.validation import validate
    from dpicl.release.pipelines import Pipeline

    grid = {"title": "t", "datasets": ["adult"], "epsilons": [1], "shots": [2], "draws": 2}
    assert validate(Pipeline, {**grid, "methods": ["gdp_tabicl", "mst_tabicl"]}, "file").draws == 2
    with pytest.raises(
        DeclarationError, match="draws is for methods that draw shots from released rows"
    ):
        validate(Pipeline, {**grid, "methods": ["gdp_tabicl"]}, "file")
