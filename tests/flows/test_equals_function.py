"""A run gives, bit for bit, what the library function gives without any stage."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpicl.contract import TextContract
from dpicl.data.reading.source import load_source
from dpicl.data.reading.split import split_table
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
    SMALL,
    Place,
    install,
    install_texts,
    letters,
    new_place,
    rows,
    run_here,
    shop,
    shop_rows,
)
from tests.library.text_contracts import as_extraction, as_free_text


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """That runs on a pool and on Prefect are the same is what tests/net shows."""
    place = new_place(tmp_path_factory.mktemp("equal") / "place")
    with place.entered():
        yield place


def equals(run_id: str, **changes: Any) -> Path:
    """A run whose results are those of the library's functions alone; gives its folder."""
    run, settings = run_here(run_id, **{**SMALL, **changes}), Settings.current()
    fake, found = ModelSpec(name="fake", kind="fake"), {}
    scorer, writer = (
        opening(fake, models_folder=settings.models, corpus=public_corpus())
        for opening in (open_scorer, open_generator)
    )
    for unit in units_of(read_plan(run).pipeline):
        contract = settings.declared(unit.dataset)
        if isinstance(contract, TextContract):
            texts = split_texts(load_texts(contract, data_folder=settings.data), contract)
            readers = (scorer, open_embedder(None)) if unit.method == "dp_icl" else (writer,)
            results = run_texts(texts, contract, unit, scorer, *readers)
        else:
            table = load_source(contract, data_folder=settings.data, cache_folder=settings.cache)
            results = run_table(split_table(table, contract), contract, unit, scorer)
        found[unit.key] = [result.as_row() for result in results]
    stored = {
        path.parent.name: json.loads(path.read_text())
        for path in sorted(run.glob("units/*/results.json"))
    }
    for row in (row for rows_of in stored.values() for row in rows_of):
        row |= {  # infinity is stored as text
            name: float(row[name])
            for name in ("epsilon", "amplified_epsilon")
            if row[name] == "inf"
        }
    assert stored == found
    assert len(rows(run / "results.csv")) == sum(map(len, stored.values()))
    return run


def test_a_run_equals_the_function(place: Place) -> None:
    install(place, shop(), shop_rows(200))
    equals("shop", datasets=["shop"], epsilons=["1", "10", "inf"], seeds=[0, 3])


@pytest.mark.exhaustive
def test_clients_asked_in_every_way_equal_the_function() -> None:
    also = {
        "pairs": {"design": "pairs", "estimator": "tree"},
        "subset": {"design": "subset", "estimator": "log-linear"},
        "subset-em": {"design": "subset", "estimator": "em"},
        "model": {"estimator": "log-linear"},
    }
    run = equals("designs", methods=["ldp_tabicl"], options={"ldp_tabicl": {"variants": also}})
    systems = {row["system"] for row in rows(run / "results.csv")}
    assert systems >= {f"{system}-{name}" for system in ("icl", "lr", "gnb") for name in also}


@pytest.mark.exhaustive
def test_texts_in_every_way_equal_the_function(place: Place) -> None:
    """Labels and open answers, fresh and fixed batches, four mechanisms, two seeds written side by
    side.
    """
    install_texts(place, letters())
    open_answers = letters("names")
    as_extraction(open_answers)
    install_texts(place, open_answers)
    also = {
        "exponential": {"mechanism": "exponential", "candidates": 20},
        "fixed": {"mechanism": "clipped-logits", "batches": "fixed", "candidates": "all"},
        "ink": {"mechanism": "invisible-ink", "batches": "fixed", "voters": 1},
        "sampled": {"temperature": 0.7, "top_p": 0.9},
    }
    equals(
        "texts",
        epsilons=["1", "10", "inf"],
        seeds=[0, 3],
        datasets=["letters", "names"],
        methods=["few_shot_generation"],
        shots=[1, 3],
        options={"few_shot_generation": {"variants": also}},
    )


LABELS = {"exponential": {"noise": "exponential"}, "soft": {"aggregation": "soft-votes"}}
TEXTS = {"ptr": {"aggregation": "keywords-ptr"}, "joint": {"aggregation": "keywords-joint"}}


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "variants"), [("letters", LABELS), ("heads", TEXTS)])
def test_ensembles_in_every_way_equal_the_function(
    place: Place, name: str, variants: dict[str, Any]
) -> None:
    """Labels and texts, every aggregation, two seeds."""
    content = letters(name)
    if variants is TEXTS:
        as_free_text(content)
    install_texts(place, content)
    options = {"dp_icl": {"variants": variants}}
    equals(name, seeds=[0, 3], datasets=[name], methods=["dp_icl"], options=options)


def test_the_amplification_table_asks_no_model() -> None:
    run = run_here("amplification", "table-5", datasets=["adult", "blood"])
    guarantees = json.loads((run / "manifest.json").read_text())["guarantees"]
    assert {row["dataset"] for row in guarantees} == {"adult", "blood"}
    assert not (run / "units").exists()
    assert all(row["amplified_epsilon"] < row["epsilon"] for row in guarantees)
