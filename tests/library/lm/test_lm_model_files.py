"""Claims about finding a model's files: on disk, on the hub, and what is said when they are not
there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpicl.ground.errors import ModelError, ModelRefusedError
from dpicl.models.local.model_files import find_model_files, is_model_folder, model_digest
from tests.library.lm_hub_server import COMMIT, hub_serving


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    home = tmp_path / "model"
    home.mkdir()
    for name, content in {
        "config.json": "{}",
        "model.safetensors": "weights",
        "tokenizer.json": "{}",
        "pytorch_model.bin": "pickle",
    }.items():
        (home / name).write_text(content)
    return home


@pytest.fixture
def served(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A real HTTP hub with an empty cache in front of it; the names of the files it hands out."""
    with hub_serving(folder) as (address, names):
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
        monkeypatch.setattr(
            "huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE",
            address + "/{repo_id}/resolve/{revision}/{filename}",
        )
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
        yield names


def test_a_folder_is_used_where_it_stands(folder: Path) -> None:
    assert is_model_folder(str(folder))
    assert find_model_files(str(folder), None) == (folder, "")


@pytest.mark.parametrize("name", ["no/such/folder", "./none", "/nowhere/at/all", "just-a-word"])
def test_a_missing_folder_is_named_with_what_is_expected(name: str) -> None:
    with pytest.raises(ModelError) as error:
        find_model_files(name, None)
    assert (
        str(error.value)
        == f"model folder {name!r} holds no config.json; expected a model folder, a GGUF file or "
        f"a hub id such as org/name"
    )


def test_a_hub_model_is_fetched_once_and_its_revision_is_the_commit(served: list[str]) -> None:
    snapshot, revision = find_model_files("org/model", None)
    assert revision == COMMIT
    assert sorted(path.name for path in snapshot.iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    ]
    fetched = len(served)
    assert find_model_files("org/model", COMMIT) == (snapshot, COMMIT)
    assert len(served) == fetched and "pytorch_model.bin" not in served, "pickled weights never are"


@pytest.mark.parametrize(
    "name, revision, advice",
    [
        (
            "org/gated",
            None,
            (
                "is gated; accept its licence at https://huggingface.co/org/gated, then type `hf "
                "auth "
                "login`"
            ),
        ),
        (
            "org/absent",
            None,
            "is not on the hub, or is private; check the name, or type `hf auth login`",
        ),
        ("org/model", "v9", "has no revision 'v9'; type org/model for its main branch"),
    ],
)
def test_a_refusal_by_the_hub_says_what_to_type(
    served: list[str], name: str, revision: str | None, advice: str
) -> None:
    with pytest.raises(ModelRefusedError) as error:
        find_model_files(name, revision)
    assert str(error.value) == f"model {name!r} {advice}, or give the folder of a local copy"


def test_an_unreachable_hub_says_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(
        ModelError, match=r"hub cannot be reached; type `hf download org/model`"
    ) as error:
        find_model_files("org/model", None)
    assert not isinstance(error.value, ModelRefusedError), "it may be reached later"


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_the_digest_changes_with_every_file_that_decides_an_answer(folder: Path, name: str) -> None:
    before = model_digest(folder, "")
    assert before == model_digest(folder, "")
    (folder / name).write_text("weighty"[: len((folder / name).read_text())])
    assert model_digest(folder, "") != before


def test_the_digest_changes_with_the_revision_and_not_with_unread_files(folder: Path) -> None:
    before = model_digest(folder, "a")
    assert model_digest(folder, "b") != before
    (folder / "pytorch_model.bin").write_text("other")
    assert model_digest(folder, "a") == before


def test_big_weights_count_by_name_size_and_a_sample(folder: Path) -> None:
    """A sparse file of 64 MiB, because the weights of a real model are not read twice: training
    moves them all, a few bytes are missed.
    """
    weights = folder / "model.safetensors"
    with weights.open("wb") as stream:
        stream.truncate(64 << 20)
    before = model_digest(folder, "")
    for place, noticed in ((0, True), ((48 << 20) + 5, True), ((1 << 20) + (1 << 15), False)):
        with weights.open("r+b") as stream:
            stream.seek(place)
            stream.write(b"other")
        assert (model_digest(folder, "") != before) == noticed, place
        with weights.open("r+b") as stream:
            stream.seek(place)
            stream.write(bytes(5))
    weights.rename(folder / "renamed.safetensors")
    assert model_digest(folder, "") != before
