"""Claims about how a run's models are asked: decided on public questions before a charge, kept, and
never decided anew for what was charged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpicl.accounting.accountant import price
from dpicl.accounting.events import gaussian
from dpicl.accounting.guarantee import Neighbours
from dpicl.ground.files import read_json, write_json
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.ledger import Account, ReleaseCharge
from dpicl.models.asking import public_questions
from dpicl.models.local.tiny import build_tiny_model
from dpicl.models.opening import close_scorers
from dpicl.models.spec import ModelSpec
from dpicl.release.query_session import QuerySession, request_of
from dpicl.release.readers import fingerprint, public_corpus, settled_model
from dpicl.runs.plan import ASKED, make_plan, plan_for, settled_plan
from dpicl.runs.run_folder import PLAN, read_plan
from tests.harness import (
    REPOSITORY,
    Place,
    grid_of,
    install,
    install_texts,
    letters,
    new_place,
    shop,
)
from tests.library.lm.test_local_chat import TEMPLATE
from tests.library.served_model import taught, with_template


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models with a template: one was taught to answer a chat, one to go on with a prompt."""
    root, questions = tmp_path_factory.mktemp("asked"), public_questions()
    plain = build_tiny_model(root, (*public_corpus(), *(one.prompt for one in questions)))
    lessons = {
        "chat": [f"[assistant]\n{one.labels[one.right]}" for one in questions],
        "completions": [f"{one.prompt} {one.labels[one.right]}" for one in questions],
    }
    return {
        api: with_template(
            taught(plain, texts, root / f"{api}-taught", steps=4 * len(texts)), root / api, TEMPLATE
        )
        for api, texts in lessons.items()
    }


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Place]:
    place = new_place(tmp_path / "place")
    install(place, shop())
    with place.entered():
        yield place
    close_scorers()


def spec_of(folder: Path, **more: Any) -> ModelSpec:
    return ModelSpec(name="m", kind="transformers", id=str(folder), **more)


def notes(settings: Settings) -> list[Path]:
    return sorted((settings.models / "asked").glob("*.json"))


def changed(settings: Settings, api: str) -> None:
    """Every note decides otherwise, as another program, package or machine might."""
    for note in notes(settings):
        write_json(note, {**read_json(note), "api": api}, replace=True)


GRID: dict[str, Any] = {
    "datasets": ["shop"],
    "methods": ["gdp_tabicl"],
    "epsilons": [1.0],
    "shots": [1],
    "seeds": [0],
}


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_a_plan_states_what_public_questions_decide_and_why(
    here: Place, folders: dict[str, Path], api: str
) -> None:
    run = make_plan("private", {**GRID, "model": str(folders[api])}, "first")
    told = read_json(run / ASKED)[api]
    assert read_plan(run).model.api == told["api"] == api and told["questions"] == 24
    other = {"chat": "completions", "completions": "chat"}[api]
    # the lesson was learned in this form alone
    assert told[api] > told[other] + 0.5


def test_a_run_that_has_begun_is_asked_as_it_began_whatever_is_decided_later(
    here: Place, folders: dict[str, Path]
) -> None:
    changes = {**GRID, "model": str(folders["chat"])}
    run, settings = make_plan("private", changes, "first"), Settings.current()
    before = (run / PLAN).read_bytes()
    changed(settings, "completions")
    assert (
        make_plan("private", changes, "first")
        == run
        == make_plan("private", changes, "first", resume=True)
    )
    assert (run / PLAN).read_bytes() == before and read_plan(run).model.api == "chat"
    # a run of its own goes by the note of its day
    assert read_plan(make_plan("private", changes, "second")).model.api == "completions"


def test_a_decision_is_measured_once_for_a_template_and_again_for_another(
    here: Place, folders: dict[str, Path], tmp_path: Path
) -> None:
    settings = Settings.current()
    spec = spec_of(folders["chat"])
    first = settled_model(spec, settings)
    assert first == settled_model(spec, settings) and len(notes(settings)) == 1
    retold = with_template(
        folders["chat"].parent / "chat-taught",
        tmp_path / "retold",
        "<s>{{ messages[0].content }}: ",
    )
    _, found = settled_model(spec.model_copy(update={"id": str(retold)}), settings)
    assert len(notes(settings)) == 2 and found != first[1]


def test_what_is_said_is_not_measured(here: Place, folders: dict[str, Path]) -> None:
    settings = Settings.current()
    for api in ("chat", "completions"):
        said = spec_of(folders["chat"], api=api)
        assert settled_model(said, settings) == (said, None)
    for kind in ("bundled", "tiny", "fake"):
        assert settled_model(ModelSpec(name=kind, kind=kind), settings)[0].api == "auto"
    assert not notes(settings)


def test_the_papers_pipelines_complete_and_their_plans_are_as_before(
    here: Place, folders: dict[str, Path]
) -> None:
    shipped = yaml.safe_load((REPOSITORY / "pipelines.yaml").read_text())["pipelines"]
    papers = [
        name
        for name, one in shipped.items()
        if one["group"] == "reproduce" and one.get("kind") != "amplification"
    ]
    assert len(papers) > 10 and all(shipped[name].get("api") == "completions" for name in papers)
    # it says what was decided of its model
    assert [name for name, one in shipped.items() if "api" in one and name not in papers] == [
        "demo"
    ]
    run = make_plan("table-3", {**GRID, "model": str(folders["chat"])}, "paper")
    stored = json.loads((run / PLAN).read_text())
    assert stored["model"]["api"] == "auto"
    assert "api" not in stored["pipeline"]
    assert not (run / ASKED).exists()
    assert not notes(Settings.current())


def test_the_model_that_votes_on_tokens_keeps_its_name(
    here: Place, folders: dict[str, Path]
) -> None:
    install_texts(here, letters())
    model = {"model": str(folders["chat"])}
    texts = {"datasets": ["letters"], "epsilons": [1.0], "shots": [1], "seeds": [0]}
    for pipeline, name in (
        ("few-shot-generation", fingerprint),
        ("dp-icl", lambda spec: f"{fingerprint(spec)} chat"),
    ):
        plan = read_plan(make_plan(pipeline, {**texts, **model}, pipeline))
        before = plan.model.model_copy(update={"api": "auto"})
        assert plan.model.api == "chat" and fingerprint(plan.writing_model) == name(before)


def test_what_was_charged_is_asked_as_it_was_and_nothing_is_charged_again(
    here: Place, folders: dict[str, Path]
) -> None:
    install_texts(here, letters(privacy={"budget": {"epsilon": 5, "delta": 0.01}}))
    settings = Settings.current()
    how: dict[str, Any] = {
        "epsilon": 2,
        "shots": 1,
        "count": 2,
        "options": {},
        "settings": settings,
        "period": None,
    }

    def ask(model: str) -> tuple[str, bool, str]:
        request = request_of("letters", model=model, **how)
        (answered,) = QuerySession(request, settings).answer(["who is there?"])
        return answered.answer, answered.charged, request.model.api

    answer, charged, _ = ask(f"{folders['chat']}?api=completions")
    assert charged
    # public questions, which say chat, come too late
    assert ask(str(folders["chat"])) == (answer, False, "completions")
    # and are not asked
    assert not notes(settings)
    grid = grid_of("letters", shots=[1], model=str(folders["chat"]))
    drafted = plan_for("dp-icl", grid, settings)
    assert settled_plan(drafted, settings)[0].model.api == "completions"


def test_charges_that_no_registered_method_made_decide_nothing(
    here: Place, folders: dict[str, Path]
) -> None:
    settings = Settings.current()
    account = Account("shop", "row", Neighbours.ADD_OR_REMOVE_ONE, 5.0, 1e-5)
    guarantee = price(
        gaussian(sigma=20.0), neighbours=Neighbours.ADD_OR_REMOVE_ONE, unit="row", delta=1e-6
    )
    with open_ledger(settings) as ledger:
        ledger.ensure_account(account)
        for digit, method in enumerate(("evaluation", "no-longer-installed")):
            parameters = {"model": "another"}
            ledger.reserve(ReleaseCharge(f"{digit}" * 64, "shop", method, parameters, guarantee))
    spec = spec_of(folders["chat"])
    settled, asked_by = settled_model(spec, settings, lambda: [account])
    assert asked_by is not None and settled.api == "chat"


def test_a_model_that_is_on_another_machine_stays_open(here: Place) -> None:
    spec = spec_of(here.root / "nowhere")
    assert settled_model(spec, Settings.current()) == (spec, None)
