"""A model that cannot answer costs nothing: it is opened and asked publicly before anything is
charged.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from transformers import GPT2Config

from dpicl.ground.errors import ModelError, ModelRefusedError, RunError
from dpicl.ground.files import read_json
from dpicl.home.settings import Settings
from dpicl.methods.evaluation import scorers
from dpicl.models.spec import ModelSpec
from dpicl.release.query_session import QuerySession
from dpicl.runs.plan import draft_plan
from dpicl.runs.probe import PROBE
from dpicl.runs.run_folder import read_plan
from tasks.stages import probe
from tests.harness import Place, charged, free_port, install, install_texts, letters, shop
from tests.library.endpoint_server import Habits, serving
from tests.library.text_contracts import as_free_text, lines, records
from tests.library.vote_models import made, tiny_model
from tests.tasks.stages import make_plan, steps
from tests.tasks.test_asking import wish

TABLES = {
    "methods": ["gdp_tabicl"],
    "datasets": ["shop"],
    "epsilons": ["5"],
    "shots": [2],
    "seeds": [0],
}
WRITTEN = {**TABLES, "methods": ["few_shot_generation"], "datasets": ["letters"]}
ASKED = {**TABLES, "methods": ["dp_icl"], "datasets": ["letters"]}


@pytest.fixture
def place(place: Place) -> Place:
    install(place, shop(private=True))
    install_texts(place, letters(private=True))
    return place


def short_model(folder: Path, tokens: int) -> Path:
    """One that reads no more than so many."""

    def config(vocabulary: int) -> GPT2Config:
        return GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=vocabulary, n_positions=tokens)

    return made(tiny_model(folder), folder / "short", config)


def install_open_answers(place: Place) -> None:
    content = letters("written", private=True)
    as_free_text(content)
    install_texts(place, content)


def planned(changes: dict[str, Any], run_id: str = "a", pipeline: str = "private") -> str:
    return str(make_plan(pipeline, changes, run_id))


def refused(changes: dict[str, Any]) -> str:
    """Why the models of a run are refused, with no release reserved, and within seconds."""
    begun = time.monotonic()
    with pytest.raises(ModelError) as told:
        probe.fn(planned(changes))
    assert not charged() and time.monotonic() - begun < 30
    assert "\n" not in str(told.value)
    return str(told.value)


@pytest.mark.quick("grid0")
@pytest.mark.parametrize("grid", [TABLES, WRITTEN, ASKED])
def test_a_model_that_the_hub_does_not_have_is_refused(place: Place, grid: dict[str, Any]) -> None:
    assert "model 'nosuch/model-7b'" in refused(
        {**grid, "model": "nosuch/model-7b", "generator": "fake"}
    )


@pytest.mark.quick("grid1")
@pytest.mark.parametrize("grid", [TABLES, WRITTEN, ASKED])
def test_a_server_that_gives_no_log_probabilities_is_refused(
    place: Place, grid: dict[str, Any]
) -> None:
    with serving(Habits(logprobs="none")) as server:
        assert "expected a server that gives log-probabilities" in refused(
            {**grid, "model": f"{server.url}#m", "generator": "fake"}
        )


def test_a_server_that_is_not_there_is_refused(place: Place) -> None:
    url = f"http://127.0.0.1:{free_port()}/v1"
    told = refused({**TABLES, "model": f"{url}#m"})
    assert f"nothing answers at {url}: " in told and "(no connection)" in told


@pytest.mark.quick("grid0")
@pytest.mark.parametrize("grid", [WRITTEN, ASKED])
def test_a_reader_is_asked_as_well_as_the_model_that_answers(
    place: Place, grid: dict[str, Any], tmp_path: Path
) -> None:
    short = short_model(tmp_path, 12)
    told = refused({**grid, "model": "fake", "generator": str(short)})
    assert "reads 12 tokens" in told or "reads at most 12" in told


@pytest.mark.quick("ldp_tabicl-600-512")
@pytest.mark.parametrize(
    ("method", "tokens", "shots"),
    [("ldp_tabicl", 600, 512), ("mst_tabicl", 600, 512), ("gdp_tabicl", 250, 4)],
)
def test_prompts_longer_than_a_model_reads_are_refused_before_anything_is_charged(
    place: Place, method: str, tokens: int, shots: int, tmp_path: Path
) -> None:
    short = short_model(tmp_path, tokens)
    grid = {**TABLES, "methods": [method], "model": str(short), "shots": [1]}
    assert probe.fn(planned(grid, "fits")) == "1 model answers"
    told = refused({**grid, "shots": [shots]})
    assert f"shop, prompts of {shots} shots" in told
    assert f"reads at most {tokens}" in told
    assert "expected fewer demonstrations" in told


def test_what_was_answered_is_kept_and_not_asked_again(place: Place) -> None:
    with serving(Habits()) as server:
        run = planned({**TABLES, "model": f"{server.url}#m"})
        assert probe.fn(run) == "1 model answers" and not charged()
        asked = len(server.requests)
        assert probe.fn(run) == "already answered" and len(server.requests) == asked
    assert (Path(run) / PROBE).exists() and read_plan(Path(run)).model.name == "m"


def test_nothing_that_stands_in_a_row_is_asked(place: Place) -> None:
    with serving(Habits()) as server:
        probe.fn(planned({**WRITTEN, "model": f"{server.url}#m", "generator": "fake"}))
        assert server.requests and not any("ann" in str(asked) for asked in server.requests)


@pytest.mark.parametrize(
    "habits", [Habits(logprobs="none"), Habits(model="other"), Habits(key="k")]
)
def test_asking_refuses_a_model_before_its_release_is_opened(place: Place, habits: Habits) -> None:
    with serving(habits) as server:
        spec = ModelSpec.model_validate(
            {"name": "far", "kind": "endpoint", "id": "m", "url": server.url, "trust": "local"}
        )
        asked = wish()
        with pytest.raises(ModelError):
            list(
                QuerySession(replace(asked, model=spec), Settings.from_environment()).answer(
                    ["one"]
                )
            )
    assert not charged() and not list((place.home / "private").rglob("opened.json"))


def test_open_answers_are_asked_for_as_texts(place: Place) -> None:
    install_open_answers(place)
    with serving(Habits(apis=("chat",), logprobs="none", writes=True)) as server:
        fine = {**ASKED, "datasets": ["written"], "generator": "fake"}
        assert probe.fn(planned({**fine, "model": f"{server.url}#m"})) == "2 models answer"
        server.habits = Habits(apis=())
        with pytest.raises(ModelError, match="cannot write"):
            probe.fn(planned({**fine, "model": f"{server.url}/#m"}, "b"))


def test_open_answers_are_not_asked_for_where_nothing_can_measure_them(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_open_answers(place)
    for name in ("rouge_score", "rouge_score.rouge_scorer"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    scorers.cache_clear()
    with pytest.raises(
        RunError, match=r"^rouge_score is not installed; .* `pip install '\./dpicl\[evaluation\]'`$"
    ):
        probe.fn(planned({**ASKED, "datasets": ["written"], "generator": "fake", "model": "fake"}))


@pytest.mark.parametrize("grid", [WRITTEN, ASKED])
def test_texts_under_a_cap_are_answered_by_a_model_that_was_named(
    place: Place, grid: dict[str, Any]
) -> None:
    settings = Settings.from_environment()
    unnamed = "few-shot-demo" if grid is WRITTEN else "dp-icl-demo"
    with pytest.raises(
        ModelRefusedError, match="letters: no model is named, .* expected --model NAME"
    ):
        draft_plan(unnamed, {"datasets": ["letters"]}, settings)
    assert (
        draft_plan(unnamed, {"datasets": ["letters"], "model": "tiny"}, settings).model.kind
        == "tiny"
    )
    # a benchmark's budget is nobody's
    assert draft_plan(unnamed, {}, settings).model.kind == "tiny"
    assert not charged()


@pytest.mark.exhaustive
def test_what_a_server_counted_of_private_prompts_is_in_no_public_count(place: Place) -> None:
    install_texts(
        place,
        letters("longer", private=True),
        lines([{**one, "body": one["body"] + " of bob" * 5} for one in records(43)]),
        lines(records(4)),
    )
    pipelines = yaml.safe_load((place.root / "pipelines.yaml").read_text())
    counts = []
    with serving(Habits(echo="ignores")) as server:
        pipelines["models"]["far"] = {
            "kind": "endpoint",
            "id": "m",
            "url": server.url,
            "trust": "local",
        }
        (place.root / "pipelines.yaml").write_text(yaml.safe_dump(pipelines))
        for dataset in ("letters", "letters", "longer"):
            run = planned(
                {**ASKED, "datasets": [dataset], "model": "far", "seeds": [len(counts)]},
                f"{dataset}{len(counts)}",
            )
            for stage, references in steps(run):
                stage(*references)
            counts.append(
                [read_json(path) for path in sorted(Path(run).glob("units/*/scored/*.json"))]
            )
    assert counts[1] == counts[2] and counts[1]
