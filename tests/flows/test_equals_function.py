"""A flow gives, bit for bit, what the library function gives without any orchestrator."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpicl.contract import Contract, TextContract
from dpicl.data.reading.source import load_source
from dpicl.data.reading.split import fewer, split_table
from dpicl.data.text_files import load_texts, split_texts
from dpicl.home.settings import Settings
from dpicl.models.embedding import open_embedder
from dpicl.models.opening import open_generator, open_scorer
from dpicl.models.spec import ModelSpec
from dpicl.release.pipelines import units_of
from dpicl.release.readers import public_corpus
from dpicl.runs.run_folder import read_plan
from tests.direct import run as run_table
from tests.direct import run_texts
from tests.harness import (
    REAL_DATA,
    SMALL,
    World,
    install,
    install_texts,
    letters,
    rows,
    run_here,
    shop,
    shop_rows,
)
from tests.library.text_contracts import as_extraction, as_free_text, lines, records

TINY = {"epsilons": [20.0], "shots": [2], "seeds": [0], "model": "tiny"}
FINITE = {**SMALL, "epsilons": ["1", "10", "inf"], "seeds": [0, 3]}


def by_function(world: World, run: Path, model: str) -> dict[str, list[dict[str, Any]]]:
    """Results of every unit of a run's plan, from the library alone."""
    with world.entered():
        settings = Settings.from_environment()
        scorer = open_scorer(
            ModelSpec(name=model, kind=model), models_folder=settings.models, corpus=public_corpus()
        )
        writer = open_generator(
            ModelSpec(name=model, kind=model), models_folder=settings.models, corpus=public_corpus()
        )
        found = {}
        for unit in units_of(read_plan(run).pipeline):
            contract = settings.declared(unit.dataset)
            if isinstance(contract, TextContract):
                split = split_texts(load_texts(contract, data_folder=settings.data), contract)
                readers = (scorer, open_embedder(None)) if unit.method == "dp_icl" else (writer,)
                results = run_texts(split, contract, unit, scorer, *readers)
            else:
                assert isinstance(contract, Contract)
                table = load_source(
                    contract, data_folder=settings.data, cache_folder=settings.cache
                )
                split = split_table(table, contract)
                split = replace(
                    split,
                    query_positions=fewer(
                        split.query_positions, read_plan(run).pipeline.queries, contract.name
                    ),
                )
                results = run_table(split, contract, unit, scorer)
            found[unit.key] = [result.as_row() for result in results]
    return found


def by_flow(run: Path) -> dict[str, list[dict[str, Any]]]:
    """What the flow stored; infinity is stored as text."""
    stored = {
        path.parent.name: json.loads(path.read_text())
        for path in sorted(run.glob("units/*/results.json"))
    }
    for row in (row for results in stored.values() for row in results):
        row.update(
            {
                name: float(row[name])
                for name in ("epsilon", "amplified_epsilon")
                if row[name] == "inf"
            }
        )
    return stored


@pytest.fixture(
    scope="module",
    params=[
        *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("breast_cancer", "blood")),
        "shop",
    ],
)
def dataset(request: pytest.FixtureRequest, world: World) -> Iterator[str]:
    if request.param == "blood":
        if not (REAL_DATA / "tabular" / "blood.csv").exists():
            pytest.skip("the published data are not here; set DPICL_DATA")
        (world.root / "data" / "tabular").mkdir(exist_ok=True)
        shutil.copy(REAL_DATA / "tabular" / "blood.csv", world.root / "data" / "tabular")
    if request.param == "shop":
        install(world, shop(), shop_rows(200))
    yield str(request.param)


def test_a_sweep_equals_the_function(world: World, dataset: str) -> None:
    grid = {**FINITE, "datasets": [dataset]}
    if dataset == "shop":  # test_executors.py says that a run on Prefect is the same
        with world.entered():
            run = run_here("equal-shop", **grid)
    else:
        run = world.sweep(f"equal-{dataset}", grid)
    assert by_flow(run) == by_function(world, run, "fake")
    assert len(rows(run / "results.csv")) == sum(map(len, by_flow(run).values()))


@pytest.mark.exhaustive
def test_the_paper_s_own_options_over_sampling_rates_without_baselines_equal_the_function(
    world: World,
) -> None:
    options = {
        "ldp_tabicl": {"encoding": "one-hot", "estimator": "clip"},
        "gdp_tabicl": {"allocation": "all-columns", "sum_origin": "lower"},
    }
    run = world.sweep(
        "equal-printed",
        {**SMALL, "options": options, "sampling_rates": ["1/10", "3/4"], "baselines": False},
    )
    assert by_flow(run) == by_function(world, run, "fake")


@pytest.mark.exhaustive
def test_clients_asked_in_every_way_equal_the_function(world: World) -> None:
    also = {
        "pairs": {"design": "pairs", "estimator": "tree"},
        "subset": {"design": "subset", "estimator": "log-linear"},
        "subset-em": {"design": "subset", "estimator": "em"},
        "model": {"estimator": "log-linear"},
    }
    run = world.sweep(
        "equal-designs",
        {**SMALL, "methods": ["ldp_tabicl"], "options": {"ldp_tabicl": {"variants": also}}},
    )
    assert by_flow(run) == by_function(world, run, "fake")
    systems = {row["system"] for row in rows(run / "results.csv")}
    assert systems >= {f"{system}-{name}" for system in ("icl", "lr", "gnb") for name in also}


@pytest.mark.exhaustive
def test_texts_in_every_way_equal_the_function(world: World) -> None:
    """Labels and open answers, fresh and fixed batches, four mechanisms, two seeds written side by
    side.
    """
    install_texts(world, letters(), lines(records(40)), lines(records(4)))
    open_answers = letters("names")
    as_extraction(open_answers)
    install_texts(world, open_answers, lines(records(40)), lines(records(4)))
    also = {
        "exponential": {"mechanism": "exponential", "candidates": 20},
        "fixed": {"mechanism": "clipped-logits", "batches": "fixed", "candidates": "all"},
        "ink": {"mechanism": "invisible-ink", "batches": "fixed", "voters": 1},
        "sampled": {"temperature": 0.7, "top_p": 0.9},
    }
    changes = {
        **FINITE,
        "datasets": ["letters", "names"],
        "methods": ["few_shot_generation"],
        "shots": [1, 3],
    }
    run = world.sweep(
        "equal-texts", {**changes, "options": {"few_shot_generation": {"variants": also}}}
    )
    assert by_flow(run) == by_function(world, run, "fake")
    assert len(by_flow(run)) == 4


@pytest.mark.exhaustive
def test_texts_with_the_tiny_model_equal_the_function(world: World) -> None:
    install_texts(world, letters(), lines(records(40)), lines(records(4)))
    run = world.sweep(
        "equal-few-shot-generation",
        {**TINY, "datasets": ["letters"]},
        pipeline="few-shot-generation",
    )
    assert by_flow(run) == by_function(world, run, "tiny")


@pytest.mark.exhaustive
def test_ensembles_in_every_way_equal_the_function(world: World) -> None:
    """Labels and texts, every aggregation, two seeds."""
    install_texts(world, letters(), lines(records(40)), lines(records(4)))
    open_answers = letters("heads")
    as_free_text(open_answers)
    install_texts(world, open_answers, lines(records(40)), lines(records(4)))
    labels = {"exponential": {"noise": "exponential"}, "soft": {"aggregation": "soft-votes"}}
    texts = {"ptr": {"aggregation": "keywords-ptr"}, "joint": {"aggregation": "keywords-joint"}}
    for name, also in (("letters", labels), ("heads", texts)):
        changes = {
            **SMALL,
            "seeds": [0, 3],
            "datasets": [name],
            "methods": ["dp_icl"],
            "options": {"dp_icl": {"variants": also}},
        }
        run = world.sweep(f"equal-ensembles-{name}", changes)
        assert by_flow(run) == by_function(world, run, "fake")


@pytest.mark.exhaustive
def test_ensembles_with_the_tiny_model_equal_the_function(world: World) -> None:
    install_texts(world, letters(), lines(records(40)), lines(records(4)))
    run = world.sweep("equal-dp-icl", {**TINY, "datasets": ["letters"]}, pipeline="dp-icl")
    assert by_flow(run) == by_function(world, run, "tiny")


@pytest.mark.exhaustive
@pytest.mark.parametrize("pipeline", ["ldp-tabicl", "gdp-tabicl", "mst-tabicl"])
def test_a_method_s_pipeline_with_the_tiny_model_equals_the_function(
    world: World, pipeline: str
) -> None:
    run = world.sweep(
        f"equal-{pipeline}",
        {**TINY, "datasets": ["breast_cancer"], "epsilons": [1.0]},
        pipeline=pipeline,
    )
    assert by_flow(run) == by_function(world, run, "tiny")


@pytest.mark.exhaustive
def test_fewer_queries_are_the_same_for_every_cell_and_leave_the_baselines_alone(
    world: World,
) -> None:
    whole, few = (
        world.sweep(f"equal-{name}", {**SMALL, **changes})
        for name, changes in (("all", {}), ("few", {"queries": 5}))
    )
    assert by_flow(few) == by_function(world, few, "fake")
    for system, counts in (
        ("icl", {"5"}),
        (
            "lr",
            {row["query_count"] for row in rows(whole / "results.csv") if row["system"] == "lr"},
        ),
    ):
        assert {
            row["query_count"] for row in rows(few / "results.csv") if row["system"] == system
        } == counts


def test_the_amplification_table_asks_no_model(world: World) -> None:
    run = world.sweep("amplification", {"datasets": ["adult", "blood"]}, pipeline="table-5")
    guarantees = json.loads((run / "manifest.json").read_text())["guarantees"]
    assert {row["dataset"] for row in guarantees} == {"adult", "blood"} and not (
        run / "units"
    ).exists()
    assert all(row["amplified_epsilon"] < row["epsilon"] for row in guarantees)
