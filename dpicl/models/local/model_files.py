"""A model's files: a folder, or a snapshot fetched from the hub; the digest that names them; and
what the config says before weights are there, their type and whether they are quantised.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from dpicl.ground.errors import ModelError, ModelRefusedError
from dpicl.models.local.gguf_file import gguf_digest, gguf_folder, is_gguf

Dtype = Literal["float32", "tf32", "bfloat16", "float16"]
"""Number format of a model's weights; `tf32` is float32 whose products a GPU rounds to ten bits,
and float32 elsewhere.
"""
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
FETCHED = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"]
_NOT_FETCHED = ["consolidated*", "original/*", "onnx/*"]
_DIGESTED = (".json", ".safetensors", ".model")
_CHECKPOINTS = (".ckpt", ".safetensors")
"""Files of a tabular model's weights."""
_DIGEST_CONTENT_BYTES = 64 << 20
_HUB_SECONDS = 5.0
_SAMPLED_HEAD = 1 << 20
_SAMPLED_BLOCKS = 64
_SAMPLED_BYTES = 1 << 14


def is_model_folder(path_or_id: str) -> bool:
    """True for an existing folder that holds a config.json."""
    return (Path(path_or_id).expanduser() / "config.json").is_file()


def is_checkpoint(path: str) -> bool:
    """True for an existing file of a tabular model's weights."""
    return Path(path).suffix in _CHECKPOINTS and Path(path).expanduser().is_file()


def find_checkpoint(path: str) -> Path:
    """A tabular model's file of weights, by its path or that of a folder in which it is the only
    one.

    Raises:
        ModelError: it is not there, or there are several.
    """
    place = Path(path).expanduser()
    found = (
        sorted(file for file in place.iterdir() if is_checkpoint(str(file)))
        if place.is_dir()
        else [place]
    )
    if len(found) != 1 or not is_checkpoint(str(found[0])):
        what = f"a folder with {len(found)} of them" if place.is_dir() else "no such file"
        raise ModelError(
            f"tabular model {path!r} is {what}; expected a file of weights, "
            f"{' or '.join(_CHECKPOINTS)}, or a folder with one"
        )
    return found[0]


def find_model_files(
    path_or_id: str, revision: str | None, only: Sequence[str] = FETCHED
) -> tuple[Path, str]:
    """The folder with the model's files, and its revision.

    A hub id is fetched once and then read from the hub's cache; its revision is the
    commit. A folder has the revision that the caller gives it, or none. A GGUF file is written out
    as one.

    Args:
        only: patterns of the files that are needed.

    Raises:
        ModelRefusedError: the hub has it not, or not for us; says what to type.
        ModelError: the folder is not there, or the hub cannot be reached.
    """
    if is_model_folder(path_or_id):
        return Path(path_or_id).expanduser(), revision or ""
    if is_gguf(path_or_id):
        return gguf_folder(path_or_id), revision or ""
    if not HUB_ID.fullmatch(path_or_id):
        raise ModelError(
            f"model folder {path_or_id!r} holds no config.json; expected a model folder, a GGUF "
            f"file or a hub id such as org/name"
        )
    from huggingface_hub import HfApi, errors, snapshot_download

    kind: type[ModelError] = ModelRefusedError
    fetch = partial(
        snapshot_download,
        path_or_id,
        revision=revision,
        allow_patterns=list(only),
        ignore_patterns=_NOT_FETCHED,
    )
    try:
        reached = _answers(
            lambda: HfApi().model_info(
                path_or_id, revision=revision or "main", timeout=_HUB_SECONDS
            ),
            errors,
        )
        snapshot = Path(fetch(local_files_only=not reached))
        return snapshot, snapshot.name
    except errors.GatedRepoError:
        advice = (
            f"is gated; accept its licence at https://huggingface.co/{path_or_id}, then type `hf "
            f"auth login`"
        )
    except errors.RevisionNotFoundError:
        advice = f"has no revision {revision!r}; type {path_or_id} for its main branch"
    except errors.RepositoryNotFoundError:
        advice = "is not on the hub, or is private; check the name, or type `hf auth login`"
    except Exception:  # noqa: BLE001 - a hang-up is an error of whichever HTTP client the hub's library uses
        kind = ModelError
        advice = (
            f"is not in the local cache and the hub cannot be reached; type `hf download "
            f"{path_or_id}` where there is a connection"
        )
    raise kind(f"model {path_or_id!r} {advice}, or give the folder of a local copy")


def _answers(ask: Callable[[], object], errors: Any) -> bool:
    """Whether the hub can be reached, which its own library finds out in minutes. Raises
    HfHubHTTPError: it is, and refuses.
    """
    try:
        ask()
    except errors.OfflineModeIsEnabled:
        return False
    except errors.HfHubHTTPError as error:
        if isinstance(
            error,
            errors.RepositoryNotFoundError | errors.RevisionNotFoundError | errors.GatedRepoError,
        ):
            raise
        return False
    except Exception:  # noqa: BLE001 - a hang-up is an error of whichever HTTP client the hub's library uses
        return False
    return True


def weights_digest(path_or_id: str, revision: str | None) -> str:
    """What names a model's weights: sha256 of a GGUF file, else `model_digest`. Raises ModelError:
    its files are missing.
    """
    if is_gguf(path_or_id):
        return gguf_digest(path_or_id)
    return model_digest(*find_model_files(path_or_id, revision))


def chat_template(folder: Path) -> str:
    """The chat template that a model's folder states, as its file has it; empty where there is
    none. Nothing is loaded.
    """
    if (own := folder / "chat_template.jinja").is_file():
        return own.read_text("utf-8", errors="replace")
    try:
        stated = json.loads((folder / "tokenizer_config.json").read_text("utf-8")).get(
            "chat_template"
        )
    except (OSError, ValueError, AttributeError):
        return ""
    return json.dumps(stated) if stated else ""


def model_digest(folder: Path, revision: str) -> str:
    """sha256 over the revision and the model's files, as hexadecimal text.

    Content counts for all files of a model below 64 MiB; of a larger one's weights, whose
    reading would take minutes, name and size and a sample: a megabyte and 64 blocks at even
    distances, all of which any training moves.
    """
    return files_digest(
        sorted(path for path in folder.iterdir() if path.suffix in _DIGESTED), revision
    )


def encoder_digest(folder: Path, revision: str) -> str:
    """The same of a sentence encoder, whose parts may have folders of their own, weights in them
    too.
    """
    inner = (path for path in folder.glob("*/*") if path.parent.name[:1].isdigit())
    return files_digest(
        sorted(path for path in (*folder.iterdir(), *inner) if path.suffix in (*_DIGESTED, ".txt")),
        revision,
    )


def files_digest(files: Sequence[Path], revision: str) -> str:
    """The same of these files."""
    whole = sum(path.stat().st_size for path in files) < _DIGEST_CONTENT_BYTES
    digest = hashlib.sha256(revision.encode())
    for path in files:
        digest.update(f"\n{path.name} {path.stat().st_size}\n".encode())
        if whole or path.suffix == ".json":
            digest.update(path.read_bytes())
            continue
        with path.open("rb") as file:
            digest.update(file.read(_SAMPLED_HEAD))
            for block in range(_SAMPLED_BLOCKS):
                file.seek(path.stat().st_size * block // _SAMPLED_BLOCKS)
                digest.update(file.read(_SAMPLED_BYTES))
    return digest.hexdigest()


_KEPT: dict[str, Dtype] = {"float32": "float32", "float16": "float16", "bfloat16": "bfloat16"}
_PACKAGES = {
    "aqlm": "aqlm",
    "auto-round": "auto_round",
    "awq": "gptqmodel",
    "bitsandbytes": "bitsandbytes",
    "compressed-tensors": "compressed_tensors",
    "eetq": "kernels",
    "fbgemm_fp8": "fbgemm_gpu",
    "fp_quant": "fp_quant",
    "gptq": "gptqmodel",
    "higgs": "flute",
    "hqq": "hqq",
    "quanto": "optimum",
    "quark": "quark",
    "sinq": "sinq",
    "spqr": "spqr_quant",
    "torchao": "torchao",
    "vptq": "vptq",
}
"""What transformers loads a quantised checkpoint with, by the method that its config names."""


def read_config(path_or_id: str, revision: str | None) -> dict[str, Any]:
    """A model's config.json; of a model on the hub it is fetched alone, before its weights.

    Raises:
        ModelError: it is not there, or not of this form.
    """
    if is_model_folder(path_or_id):
        file = Path(path_or_id).expanduser() / "config.json"
    else:
        folder, _ = find_model_files(path_or_id, revision, only=["config.json"])
        file = folder / "config.json"
    try:
        config = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        config = None
    if not isinstance(config, dict):
        raise ModelError(
            f"model {path_or_id!r} cannot be loaded (config.json is not readable); expected a "
            f"model in the usual layout"
        )
    return config


def kept_dtype(config: dict[str, Any]) -> Dtype:
    """The type that a checkpoint's weights are kept in; float32 where it says none, bfloat16 where
    it is one that nothing is computed in.
    """
    text = config.get("text_config")
    stated = next(
        (
            part[key]
            for part in (config, text if isinstance(text, dict) else {})
            for key in ("dtype", "torch_dtype")
            if part.get(key)
        ),
        "float32",
    )
    return _KEPT.get(str(stated).removeprefix("torch."), "bfloat16")


def quantisation(config: dict[str, Any]) -> str | None:
    """The method by which a checkpoint is quantised, if it is."""
    text = config.get("text_config")
    stated = config.get("quantization_config") or (
        text.get("quantization_config") if isinstance(text, dict) else None
    )
    return str(stated.get("quant_method") or "bitsandbytes") if isinstance(stated, dict) else None


def package_of(method: str) -> str | None:
    """The package without which a checkpoint that is quantised so cannot be loaded, by the name
    that it is imported by.
    """
    return _PACKAGES.get(method)
