"""Texts that a run was charged for are exported by `protect`: the same bytes as published, for
nothing, or one sentence says what makes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpicl
from dpicl.data.text_files import has_form
from dpicl.ground.errors import DpiclError, ParameterError
from dpicl.report.load import load_run
from dpicl.report.opening import story
from tests.cli.conftest import Cli
from tests.harness import Place, charged, install_texts, letters, new_place, run_here

PROTECT = "protect notes --epsilon 4 --shots 2 --out"


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Private texts, of which a run has made a release."""
    place = new_place(tmp_path_factory.mktemp("texts") / "place")
    content = letters("notes", private=True) | {"form": "sentence"}
    install_texts(place, content)
    with place.entered():
        run_here(
            "made",
            "few-shot-generation",
            datasets=["notes"],
            epsilons=[4],
            shots=[2],
            seeds=[0],
            model="fake",
        )
        yield place


def published(place: Place) -> list[dict[str, str]]:
    """What the run published."""
    (path,) = place.run("made").glob("units/*/released_texts.json")
    (texts,) = json.loads(path.read_text()).values()
    return list(texts)


def test_a_report_and_a_terminal_say_how_many_texts_have_the_form_that_the_contract_states(
    released: Place, cli: Cli, tmp_path: Path
) -> None:
    having = sum(has_form(text["text"], "sentence") for text in published(released))
    told = (
        f"released texts that are a whole sentence, as all texts of the contract are: {having} of "
        f"2 at ε = 4"
    )
    assert told in (released.run("made") / "report.md").read_text().replace("\u00a0", " ")
    assert any(told in sentence for sentence in story(load_run(released.run("made"))))
    words = cli(f"{PROTECT} {tmp_path / 'formed'} --as text")
    assert f"{having} of 2 texts {'is' if having == 1 else 'are'} a whole sentence." in words


def test_a_session_gives_a_release_of_texts(released: Place) -> None:
    release = dpicl.Session(released.home, contracts=released.root / "contracts").protect(
        "notes", epsilon=4, shots=2
    )
    assert isinstance(release, dpicl.Release)
    assert release.method == "few_shot_generation"
    assert len(release.demonstrations()) == 2
    assert release.certificate.product.name == "notes"
    assert release.statement
    assert "notes" in release._repr_html_()
    assert release.table().columns.tolist() == ["label", "text"] and len(release.table()) == 2
    with pytest.raises(
        ParameterError,
        match="method=few_shot_generation: expected one that releases a model of rows",
    ):
        release.predictor()
    with pytest.raises(ParameterError, match="k=3: expected 2"):
        release.demonstrations(3)


MISSING = {
    "another epsilon": (
        "--epsilon 2",
        "--epsilons 2 --shots 2 --seeds 0 --generator MODEL` makes them and asks with them",
    ),
    "another number": (
        "--shots 3",
        "--epsilons 4 --shots 3 --seeds 0 --generator MODEL` makes them",
    ),
    "another period": (
        "--period 2026-12",
        "--seeds 0 --period 2026-12 --generator MODEL` makes them",
    ),
    "other options": (
        "--option max_tokens=2",
        "expected --generator MODEL, with which this command makes them",
    ),
}


@pytest.mark.parametrize("name", MISSING)
def test_texts_that_do_not_stand_are_one_sentence_with_the_command(
    released: Place, cli: Cli, tmp_path: Path, name: str
) -> None:
    options, phrase = MISSING[name]
    before = charged()
    sentence = cli.refused(f"{PROTECT} {tmp_path / 'out'} {options}")
    assert sentence.startswith("notes: no such texts were released; ") and phrase in sentence
    if name != "other options":
        assert "`dpicl run few-shot-generation --datasets notes " in sentence
    assert charged() == before and not (tmp_path / "out").exists()


def test_the_command_that_is_named_is_one_that_a_dry_run_takes(
    released: Place, cli: Cli, tmp_path: Path
) -> None:
    sentence = cli.refused(f"{PROTECT} {tmp_path / 'out'} --epsilon 2")
    _, line = sentence.split("`")[1].replace("MODEL", "fake").split(maxsplit=1)
    assert "notes" in cli(f"{line} --model fake --dry-run")


WRONG = {
    "a method on tables": (
        "--method mst_tabicl",
        "method=mst_tabicl: expected one of few_shot_generation on texts",
    ),
    "local trust": ("--trust local", "trust=local: expected central"),
    "a wrong option": (
        "--option voters=none",
        "options of the release: options.few_shot_generation.voters",
    ),
    "no noise": ("--epsilon inf", "epsilon=inf releases rows without noise"),
    "no model": ("--generator gpt", "model 'gpt' is unknown"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_fits_no_texts_is_one_sentence(
    released: Place, cli: Cli, tmp_path: Path, name: str
) -> None:
    options, phrase = WRONG[name]
    assert phrase in cli.refused(f"{PROTECT} {tmp_path / 'out'} {options}")


def test_texts_that_are_not_those_that_were_published_are_refused(
    released: Place, cli: Cli, tmp_path: Path
) -> None:
    texts = json.dumps(published(released), ensure_ascii=False).encode()
    (stored,) = (
        path for path in released.home.glob("released/notes/*") if path.read_bytes() == texts
    )
    stored.write_bytes(texts[:-1] + b" ]")
    try:
        assert "the artefact is not the one that was published" in cli.refused(
            f"{PROTECT} {tmp_path / 'out'}"
        )
    finally:
        stored.write_bytes(texts)


def test_a_table_has_no_generator(released: Place) -> None:
    with pytest.raises(
        DpiclError, match="generator=fake: expected none: no model reads the rows of heart"
    ):
        dpicl.Session(released.home, contracts=released.root / "contracts").protect(
            "heart", epsilon=1, generator="fake"
        )
