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
from dpicl.methods import METHODS, Options, grid, tabular, unit_of
from dpicl.methods.base import draws_for
from dpicl.methods.evaluation import Result
from dpicl.methods.options import LdpOptions
from dpicl.models.kinds.fake import HashScorer
from lab import in_memory
from tests.direct import run
from tests.library.examples import private_contract, small_contract

CONTRACT, PRIVATE = small_contract(), private_contract()
GDP, LDP = tabular("gdp_tabicl"), tabular("ldp_tabicl")
every_method = pytest.mark.parametrize("method", ["ldp_tabicl", "gdp_tabicl"])
Splitter = Callable[..., SplitTable]


def _unit(method: str, **changes: Any) -> Unit:
    known: dict[str, Any] = {
        "seed": 0,
        "epsilons": (1.0, math.inf),
        "shots": (1, 2, 4),
        "sampling_rates": (),
        "baselines": True,
        "options": Options(),
        **changes,
    }
    return unit_of(method, "shop", **known)  # type: ignore[arg-type]


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
    for result in _run("gdp_tabicl", small_split(), baselines=False):
        amplified = (
            None
            if result.system != "icl"
            else math.log1p(math.expm1(1) / 2)
            if result.epsilon == 1
            else math.inf
        )
        assert result.amplified_epsilon == (None if amplified is None else pytest.approx(amplified))
    assert all(
        result.amplified_epsilon is None
        for result in _run("ldp_tabicl", small_split(), baselines=False)
    )


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


def _reports(contract: Contract, split: SplitTable) -> np.ndarray:
    unit = _unit("ldp_tabicl", epsilons=(1.0,))
    cell = Cell("reports", 1.0)
    return grid.draw(
        LDP, split.train, contract, grid.points(LDP, unit), draws_for(contract, 0), {}
    )[cell].stored


def _averages(contract: Contract, split: SplitTable) -> tuple[Any, Any]:
    unit, draws = _unit("gdp_tabicl", epsilons=(1.0,)), draws_for(contract, 0)
    members = grid.prepare(GDP, split.train, contract, grid.points(GDP, unit), draws)
    return grid.draw(GDP, split.train, contract, grid.points(GDP, unit), draws, members), {
        cell.key: rows.tolist() for cell, rows in members.items()
    }


def test_real_releases_draw_fresh_noise_every_time(small_split: Splitter) -> None:
    split = small_split()
    assert (_reports(CONTRACT, split) == _reports(CONTRACT, split)).all()
    assert (_reports(PRIVATE, split) != _reports(PRIVATE, split)).any()
    assert _averages(CONTRACT, split) == _averages(CONTRACT, split)
    one, other = _averages(PRIVATE, split), _averages(PRIVATE, split)
    assert one[0] != other[0] and one[1] != other[1]


def test_cells_draw_independent_subsamples(small_split: Splitter) -> None:
    _, members = _averages(CONTRACT, small_split())
    kept = {key: tuple(number >= 0 for number in rows) for key, rows in members.items()}
    assert len(set(kept.values())) == len(kept) == 3
    assert all(0.3 < np.mean(rows) < 0.7 for rows in kept.values())


@pytest.mark.parametrize("encoding", ["k-ary", "one-hot"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 50.0])
def test_all_reports_of_a_client_cost_no_more_than_epsilon(encoding: Any, epsilon: float) -> None:
    unit = _unit(
        "ldp_tabicl", epsilons=(epsilon,), options=Options(ldp_tabicl=LdpOptions(encoding=encoding))
    )
    for cost in grid.costs(METHODS["ldp_tabicl"], CONTRACT, unit).values():
        assert 0.9 * epsilon < cost.nominal.epsilon <= epsilon and cost.amplified is None
        assert cost.nominal.unit == "client"


def test_local_prompts_hold_k_distinct_rows_and_then_the_query(small_split: Splitter) -> None:
    split, unit = small_split(), _unit("ldp_tabicl")
    draws = draws_for(CONTRACT, 0)
    prompts = LDP.prompts(
        in_memory.of_table(LDP, split.train, CONTRACT, unit, draws),
        split.queries,
        CONTRACT,
        unit,
        draws,
    )
    asked = next(texts for cell, texts in prompts.items() if cell.system == "zero-shot")
    for cell, texts in prompts.items():
        lines = [text.split("\n") for text in texts]
        assert [prompt[-1] for prompt in lines] == asked
        assert {len(prompt) for prompt in lines} == {(cell.shots or 0) + 1}
        assert all(line.endswith((" Yes", " No")) for prompt in lines for line in prompt[:-1])
        if cell.shots == 4 and cell.epsilon == math.inf:
            assert len({tuple(prompt[:-1]) for prompt in lines}) > 30


def test_central_prompts_share_one_set_of_demonstrations(small_split: Splitter) -> None:
    split, unit, draws = small_split(), _unit("gdp_tabicl"), draws_for(CONTRACT, 0)
    released = in_memory.of_table(GDP, split.train, CONTRACT, unit, draws)
    for cell, texts in GDP.prompts(released, split.queries, CONTRACT, unit, draws).items():
        heads = {text.rpartition("\n")[0] for text in texts}
        assert len(heads) == 1 and len(heads.pop().splitlines()) == cell.shots


def _demonstrated(system: str, small_split: Splitter) -> dict[int, list[list[str]]]:
    """The demonstrations of every query, by number of shots."""
    split, draws = small_split(row_count=400), draws_for(CONTRACT, 0)
    unit = _unit(
        "ldp_tabicl",
        epsilons=(5.0,),
        options=Options(ldp_tabicl=LdpOptions(shot_selection=("nested", "shared"))),
    )
    prompts = LDP.prompts(
        in_memory.of_table(LDP, split.train, CONTRACT, unit, draws),
        split.queries,
        CONTRACT,
        unit,
        draws,
    )
    return {
        cell.shots or 0: [text.split("\n")[:-1] for text in texts]
        for cell, texts in prompts.items()
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
