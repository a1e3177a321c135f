"""Claims about naming a model and opening it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from dpicl.ground.errors import ModelError, ModelRefusedError, PrivacyError
from dpicl.models.local.tiny import build_tiny_model
from dpicl.models.opening import open_generator, open_scorer
from dpicl.models.spec import ModelSpec, resolve_model

CORPUS = ["Does this person earn more? Yes or No? Answer: No"]
REGISTRY = {
    "tiny": ModelSpec(name="tiny", kind="tiny"),
    "fake": ModelSpec(name="fake", kind="fake"),
    "llama-2-13b": ModelSpec(
        name="llama-2-13b", kind="transformers", id="meta-llama/Llama-2-13b-hf", dtype="bfloat16"
    ),
}


def test_private_texts_are_read_by_trusted_models_only(tmp_path: Path) -> None:
    for trust in ("local", "remote"):
        spec = ModelSpec(name="fake", kind="fake", trust=trust)
        with nullcontext() if trust == "local" else pytest.raises(PrivacyError, match="stay local"):
            open_generator(spec, models_folder=tmp_path, corpus=[])


@pytest.mark.parametrize("name", ["llama-2-13b", "smollm2", "http://127.0.0.1:8000/v1#m"])
def test_a_registry_name_wins(name: str) -> None:
    own = REGISTRY["llama-2-13b"]
    assert resolve_model(name, {name: own}) is own


def test_a_folder_is_a_model_and_its_path_is_not_its_name(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text("{}")
    spec = resolve_model(str(tmp_path / "mine"), REGISTRY)
    assert (spec.name, spec.kind, spec.id) == (
        "mine",
        "transformers",
        str((tmp_path / "mine").resolve()),
    )


@pytest.mark.parametrize(
    "name, hub_id, revision",
    [
        ("org/model-7b", "org/model-7b", None),
        ("org/model-7b@v1.0", "org/model-7b", "v1.0"),
        ("org/m@refs/pr/1", "org/m", "refs/pr/1"),
    ],
)
def test_a_hub_id_may_carry_a_revision(name: str, hub_id: str, revision: str | None) -> None:
    spec = resolve_model(name, REGISTRY)
    assert (spec.name, spec.kind, spec.id, spec.revision) == (
        hub_id,
        "transformers",
        hub_id,
        revision,
    )


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("gpt", " is unknown"),
        ("", " is unknown"),
        ("@main", " is unknown"),
        ("./no/such", ": no such file or folder"),
        ("/no/such", ": no such file or folder"),
        ("a/b/c", ": no such file or folder"),
        ("no.gguf", ": no such file or folder"),
        ("empty", " is a folder without config.json"),
        ("./empty", " is a folder without config.json"),
        ("./letter.txt", " is a file of another kind"),
    ],
)
def test_a_name_that_is_no_model_says_why_and_lists_the_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, wrong: str
) -> None:
    """All of them were `unknown`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "letter.txt").write_text("A letter to a ward.\n")
    with pytest.raises(ModelError) as error:
        resolve_model(name, REGISTRY)
    assert str(error.value) == (
        f"model {name!r}{wrong}; expected a folder with config.json, a GGUF file, a hub id "
        "org/name[@revision], an endpoint such as http://127.0.0.1:8000/v1#MODEL, or one of fake, "
        "llama-2-13b, smollm2, tiny"
    )


@pytest.mark.parametrize(
    "name, stays", [("gpt", True), ("no/such/folder", False), ("http://127.0.0.1:1/v1#", True)]
)
def test_only_a_name_that_no_mount_brings_back_is_refused_for_good(name: str, stays: bool) -> None:
    with pytest.raises(ModelError) as error:
        resolve_model(name, REGISTRY)
    assert isinstance(error.value, ModelRefusedError) == stays


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "transformers"},
        {"kind": "tiny", "id": "a/b"},
        {"kind": "tiny", "dtype": "int8"},
        {"kind": "fake", "device": "tpu"},
        {"kind": "fake", "x": 1},
        {"kind": "fake", "rows": 5},
        {"kind": "tabular"},
        {"kind": "tabular", "id": "a", "trust": "remote"},
    ],
)
def test_a_spec_that_makes_no_sense_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        ModelSpec.model_validate({"name": "m", **wrong})


def test_threads_share_one_open_model(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        scorers = list(
            pool.map(
                lambda _: open_scorer(REGISTRY["tiny"], models_folder=tmp_path, corpus=CORPUS),
                range(4),
            )
        )
        prompts = [f"He is {age}. Answer:" for age in range(40)]
        scores = list(pool.map(lambda scorer: scorer.score(prompts, [" No", " Yes"]), scorers))
    assert len({id(scorer) for scorer in scorers}) == 1
    assert all(np.array_equal(scores[0], other) for other in scores)


def test_another_model_replaces_the_open_one(tmp_path: Path) -> None:
    first = open_scorer(REGISTRY["tiny"], models_folder=tmp_path, corpus=CORPUS)
    open_scorer(REGISTRY["fake"], models_folder=tmp_path, corpus=CORPUS)
    assert open_scorer(REGISTRY["tiny"], models_folder=tmp_path, corpus=CORPUS) is first, (
        "of a few megabytes, beside which another one has room"
    )
    folder = ModelSpec(
        name="folder", kind="transformers", id=str(build_tiny_model(tmp_path, CORPUS))
    )
    large = open_scorer(folder, models_folder=tmp_path, corpus=CORPUS)
    open_scorer(
        folder.model_copy(update={"name": "another"}), models_folder=tmp_path, corpus=CORPUS
    )
    assert open_scorer(folder, models_folder=tmp_path, corpus=CORPUS) is not large
    assert open_scorer(REGISTRY["tiny"], models_folder=tmp_path, corpus=CORPUS) is first
