"""Methods: a benchmark run repeats bit for bit, a real one never does, and what cannot be
guaranteed is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpicl.contract import Contract
from dpicl.contract.pipeline import Cell, Unit
from dpicl.data.prompts import SHARED_SETS
from dpicl.ground.errors import PrivacyError
from dpicl.ground.types import SplitTable
from dpicl.methods import METHODS, grid, tabular
from dpicl.methods.base import draws_for
from dpicl.methods.evaluation import Result
from dpicl.models.kinds.fake import HashScorer
from lab import in_memory
from tests.direct import points_of, release, run
from tests.library.examples import private_contract, small_contract
from tests.library.units import drawn, unit_for

CONTRACT, PRIVATE = small_contract(), private_contract()
GDP = tabular("gdp_tabicl")
every_method = pytest.mark.parametrize("method", ["ldp_tabicl", "gdp_tabicl"])
Splitter = Callable[..., SplitTable]


def _unit(method: str, **changes: Any) -> Unit:
    known = {"epsilons": (1.0, math.inf), "shots": (1, 2, 4), "baselines": True}
    return unit_for(method, **{**known, **changes})


def _run(
    method: str, split: SplitTable, contract: Contract = CONTRACT, **changes: Any
) -> list[Result]:
    return run(split, contract, _unit(method, **changes), HashScorer())


@every_method
def test_cells_do_not_depend_on_which_others_are_run(method: str, small_split: Splitter) -> None:
    every = _run(method, small_split())
    for epsilons, shots in (((math.inf,), (2,)), ((1.0,), (4, 1))):
        few = _run(method, small_split(), epsilons=epsilons, shots=shots)
        assert all(result in every for result in few)


@every_method
def test_every_cell_and_what_it_is_compared_with_has_a_result(
    method: str, small_split: Splitter
) -> None:
    results = _run(method, small_split())
    systems = {(result.system, result.epsilon, result.shots) for result in results}
    assert len(systems) == len(results)
    expected = {("icl", epsilon, shots) for epsilon in (1.0, math.inf) for shots in (1, 2, 4)} | {
        ("zero-shot", None, 0),
        ("majority", None, None),
    }
    names = {
        "ldp_tabicl": ("lr", "gnb", "gb"),
        "gdp_tabicl": ("lr", "gnb", "lr-naive", "gnb-naive"),
    }[method]
    expected |= {(name, epsilon, None) for name in names for epsilon in (1.0, math.inf)}
    if method == "ldp_tabicl":
        expected |= {("raw-rows", 1.0, shots) for shots in (1, 2, 4)}
    assert systems == expected
    assert all(0 <= result.accuracy <= 1 and result.method == method for result in results)


def test_central_cells_state_both_epsilons(small_split: Splitter) -> None:
    charged = {1.0: pytest.approx(1.0), math.inf: math.inf}
    for method in ("gdp_tabicl", "ldp_tabicl"):
        for result in _run(method, small_split(), baselines=False):
            is_sampled = result.system == "icl" and method == "gdp_tabicl"
            expected = charged[result.epsilon] if is_sampled else None
            assert result.amplified_epsilon == expected


@pytest.mark.parametrize("method", METHODS)
def test_what_charges_nothing_is_refused_where_something_is_at_stake(method: str) -> None:
    """Before a row is looked at: there is none here."""
    unit = _unit(method, epsilons=(1.0,), baselines=False)
    with pytest.raises(
        PrivacyError,
        match=r"shop: `run` charges no ledger.*; expected a contract with `benchmark: true`, or "
        r"`dpicl protect`",
    ):
        in_memory.check_free(METHODS[method], PRIVATE, unit)


@every_method
def test_real_releases_draw_fresh_noise_every_time(method: str, small_split: Splitter) -> None:
    unit, train = _unit(method, epsilons=(1.0,)), small_split().train
    again = [drawn(unit, contract, train) for contract in (CONTRACT, CONTRACT, PRIVATE, PRIVATE)]
    one, same, fresh, other = (
        [METHODS[method].encode(each) for each in draw.values()] for draw in again
    )
    assert one == same and fresh != other


def test_cells_draw_independent_subsamples(small_split: Splitter) -> None:
    train, points = small_split().train, points_of(_unit("gdp_tabicl", epsilons=(1.0,)))

    def members(contract: Contract) -> list[tuple[bool, ...]]:
        marks = grid.prepare(GDP, train, contract, points, draws_for(contract, 0))
        return [tuple(number >= 0 for number in rows) for rows in marks.values()]

    kept = members(CONTRACT)
    assert len(kept) == len({*kept}) == 3 and kept == members(CONTRACT)
    assert all(0.3 < np.mean(rows) < 0.7 for rows in kept)
    assert members(PRIVATE) != members(PRIVATE), "real ones are drawn afresh too"


@pytest.mark.parametrize("encoding", ["k-ary", "one-hot"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 50.0])
def test_all_reports_of_a_client_cost_no_more_than_epsilon(encoding: Any, epsilon: float) -> None:
    unit = _unit("ldp_tabicl", epsilons=(epsilon,), encoding=encoding)
    for cost in grid.costs(METHODS["ldp_tabicl"], CONTRACT, unit).values():
        assert 0.9 * epsilon < cost.nominal.epsilon <= epsilon and cost.amplified is None
        assert cost.nominal.unit == "client"


def prompts(split: SplitTable, unit: Unit) -> dict[Cell, list[list[str]]]:
    """The lines of every query's prompt."""
    released = release(split.train, CONTRACT, unit)
    written = tabular(unit.method).prompts(
        released, split.queries, CONTRACT, unit, draws_for(CONTRACT, 0)
    )
    return {cell: [text.split("\n") for text in texts] for cell, texts in written.items()}


def test_local_prompts_hold_k_distinct_rows_and_then_the_query(small_split: Splitter) -> None:
    found = prompts(small_split(), _unit("ldp_tabicl"))
    asked = [
        line for cell, texts in found.items() if cell.system == "zero-shot" for (line,) in texts
    ]
    for cell, lines in found.items():
        assert [prompt[-1] for prompt in lines] == asked
        assert {len(prompt) for prompt in lines} == {(cell.shots or 0) + 1}
        assert all(line.endswith((" Yes", " No")) for prompt in lines for line in prompt[:-1])
        if cell.shots == 4 and cell.epsilon == math.inf:
            assert len({tuple(prompt[:-1]) for prompt in lines}) > 30


def test_central_prompts_share_one_set_of_demonstrations(small_split: Splitter) -> None:
    for cell, lines in prompts(small_split(), _unit("gdp_tabicl")).items():
        (shown,) = {tuple(prompt[:-1]) for prompt in lines}
        assert len(shown) == cell.shots


def _demonstrated(system: str, small_split: Splitter) -> dict[int, list[list[str]]]:
    """The demonstrations of every query, by number of shots."""
    unit = _unit("ldp_tabicl", epsilons=(5.0,), shot_selection=("nested", "shared"))
    return {
        cell.shots or 0: [lines[:-1] for lines in texts]
        for cell, texts in prompts(small_split(row_count=400), unit).items()
        if cell.system == system
    }


def test_nested_shots_begin_with_the_fewer_ones(small_split: Splitter) -> None:
    nested = _demonstrated("icl-nested", small_split)
    for few, many in ((1, 2), (2, 4)):
        assert nested[few] == [demonstrations[:few] for demonstrations in nested[many]]
    assert len({tuple(demonstrations) for demonstrations in nested[4]}) > SHARED_SETS


def test_shared_shots_are_few_draws_taken_in_turn(small_split: Splitter) -> None:
    shared = _demonstrated("icl-shared", small_split)
    for shots, texts in shared.items():
        assert texts[SHARED_SETS:] == texts[: len(texts) - SHARED_SETS] and {
            len(demonstrations) for demonstrations in texts
        } == {shots}
    assert len({tuple(demonstrations) for demonstrations in shared[4]}) > SHARED_SETS / 2
