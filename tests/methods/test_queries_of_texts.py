"""A run may ask fewer texts than their contract states: what is generated stays the same release,
answers become another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.report.load import load_run
from dpicl.runs.plan import charges, plan_for, quote_plan
from tests.harness import Place, new_place, run_here

GRID = {"datasets": ["docstrings"], "epsilons": [4], "shots": [2], "seeds": [0], "model": "fake"}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = new_place(tmp_path_factory.mktemp("queries"))
    with Place.entered(place):
        yield place


def _names(pipeline: str, **changes: object) -> set[str]:
    settings = Settings.from_environment()
    plan = plan_for(pipeline, {**GRID, **changes}, settings)
    with open_ledger(settings) as ledger:
        return {name for _, releases in charges(ledger, plan, settings) for name in releases}


def test_demonstrations_are_the_same_release_whatever_is_asked(here: Place) -> None:
    assert _names("few-shot-generation", queries=3) == _names("few-shot-generation")


def test_answers_to_fewer_queries_are_another_release(here: Place) -> None:
    assert not _names("dp-icl", queries=3) & _names("dp-icl")
    assert _names("dp-icl", queries=10**6) == _names("dp-icl"), "no more than the contract's"


@pytest.mark.quick("dp-icl")
@pytest.mark.parametrize("pipeline", ["few-shot-generation", "dp-icl"])
def test_so_many_are_asked_and_the_report_says_so(here: Place, pipeline: str) -> None:
    run = load_run(_made(pipeline))
    asked = run.results.loc[run.results["system"].isin(["icl", "zero-shot"]), "query_count"]
    assert len(asked) and set(asked) == {3}
    promised = " ".join(one.statement for one in run.manifest.guarantees)
    assert pipeline != "dp-icl" or "all 3 queries" in promised
    assert pd.notna(run.results["accuracy"]).any()


@pytest.mark.quick("3-1")
@pytest.mark.parametrize("queries, before", [(3, 1), (4, 0), (None, 0)])
def test_a_quote_tells_answers_to_fewer_queries_from_those_that_were_charged(
    here: Place, queries: int | None, before: int
) -> None:
    _made("dp-icl")
    settings = Settings.from_environment()
    (line,) = quote_plan(plan_for("dp-icl", {**GRID, "queries": queries}, settings), settings)
    assert (line.releases, line.charged_before) == (1, before)


def _made(pipeline: str) -> Path:
    return run_here(f"{pipeline}-few", pipeline, queries=3, **GRID)
