"""Claims about what is known of a local model before its weights are read: number format,
quantisation, memory.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from socket import create_server
from typing import Any

import pytest
import torch

from dpicl.ground.errors import ModelError, ModelRefusedError
from dpicl.models.kinds.local import BUNDLED
from dpicl.models.local.loading import needed_bytes
from dpicl.models.local.model_files import find_model_files, kept_dtype, quantisation
from dpicl.models.local.tiny import build_tiny_model
from dpicl.models.local.transformers_backend import TransformersScorer
from dpicl.models.spec import ModelSpec, resolve_model, with_changes

torch.set_num_threads(1)  # small batches on a busy machine

PROMPTS = ["Is it so? Yes or No? Answer:"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(build_tiny_model(tmp_path / "models", PROMPTS), tmp_path / "model"))


def change_config(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(
        json.dumps({key: value for key, value in config.items() if value is not None})
    )


@pytest.mark.parametrize(
    "config, dtype",
    [
        ({}, "float32"),
        ({"dtype": "bfloat16"}, "bfloat16"),
        ({"torch_dtype": "float16"}, "float16"),
        ({"torch_dtype": "torch.float32"}, "float32"),
        ({"text_config": {"dtype": "bfloat16"}}, "bfloat16"),
        ({"dtype": "float8_e4m3fn"}, "bfloat16"),
    ],
)
def test_a_checkpoints_own_type_is_what_its_config_says(config: dict[str, Any], dtype: str) -> None:
    assert kept_dtype(config) == dtype


def test_a_folders_own_type_is_the_default_and_can_be_changed(folder: Path) -> None:
    change_config(folder, dtype="bfloat16")
    spec = resolve_model(str(folder), {})
    assert spec.number_format == "bfloat16"
    assert resolve_model(with_changes(str(folder), "float32", None), {}).number_format == "float32"
    model = TransformersScorer(str(folder), device="cpu", dtype="bfloat16")
    assert model._model.dtype == torch.bfloat16
    assert model.description.mode == "completions in bfloat16"


def test_models_of_our_own_stay_what_they_were() -> None:
    digest = ModelSpec(name="bundled", kind="bundled").fingerprint(())
    assert digest.endswith(" float32")
    assert ModelSpec(name="bundled", kind="bundled", dtype="float32").fingerprint(()) == digest
    assert BUNDLED.is_dir() and ModelSpec(name="tiny", kind="tiny").number_format == "float32"


def test_a_chat_is_another_model_than_a_completion(folder: Path) -> None:
    names = {
        resolve_model(with_changes(str(folder), None, api), {}).fingerprint(())
        for api in (None, "chat")
    }
    assert len(names) == 2


@pytest.mark.parametrize(
    "name, told",
    [
        ("tiny?dtype=int4", "model 'tiny': dtype"),
        ("http://127.0.0.1:1/v1#m?dtype=float16", "a server has its own"),
    ],
)
def test_a_change_that_means_nothing_is_refused(name: str, told: str) -> None:
    with pytest.raises(ModelRefusedError, match=told):
        resolve_model(name, {"tiny": ModelSpec(name="tiny", kind="tiny")})


def test_a_name_with_a_question_mark_stays_a_name() -> None:
    assert resolve_model("http://127.0.0.1:1/v1#m?x=1", {}).id == "m?x=1"
    assert resolve_model("http://127.0.0.1:1/v1#m?api=chat", {}).api == "chat"


def test_a_quantised_checkpoint_names_the_package_that_is_missing(folder: Path) -> None:
    change_config(folder, quantization_config={"quant_method": "gptq", "bits": 4})
    assert quantisation(json.loads((folder / "config.json").read_text())) == "gptq"
    with pytest.raises(
        ModelError,
        match="is quantised by gptq; type `pip install gptqmodel`, or expected a checkpoint that is "  # noqa: E501
        "not",
    ):
        TransformersScorer(str(folder), device="cpu")
    assert resolve_model(str(folder), {}).number_format == "float32 gptq"


def test_what_a_model_needs_is_counted_before_it_is_loaded(folder: Path) -> None:
    weights = sum(
        weight.numel()
        for weight in TransformersScorer(str(folder), device="cpu")._model.state_dict().values()
    )
    assert needed_bytes(folder, "float32") == 4 * weights
    assert needed_bytes(folder, "bfloat16") == 2 * weights


def test_files_that_an_index_does_not_name_are_not_counted(folder: Path) -> None:
    alone = needed_bytes(folder, "float32")
    (weights,) = folder.glob("*.safetensors")
    shutil.copy(weights, folder / "consolidated.safetensors")
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"w": weights.name}})
    )
    assert needed_bytes(folder, "float32") == alone


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A hub that takes connections and never says a word."""
    with closing(create_server(("127.0.0.1", 0))) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
        monkeypatch.setattr(
            "huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE",
            address + "/{repo_id}/resolve/{revision}/{filename}",
        )
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
        yield


@pytest.mark.exhaustive
def test_a_silent_hub_is_one_sentence_within_ten_seconds(silent: None) -> None:
    started = time.monotonic()
    with pytest.raises(ModelError, match="is not in the local cache and the hub cannot be reached"):
        find_model_files("org/model", None)
    assert time.monotonic() - started < 10
