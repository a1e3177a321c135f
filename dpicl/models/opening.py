"""Opening a model: the scorer or the generator model of an entry; at most one stays loaded beside
those that need hardly any memory.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import cast

from dpicl.ground.cache import checked
from dpicl.ground.errors import ModelError, ModelRefusedError, PrivacyError
from dpicl.ground.installed import extra_of, importing
from dpicl.models.local.gguf_file import is_gguf
from dpicl.models.local.model_files import (
    Dtype,
    files_digest,
    find_checkpoint,
    find_model_files,
    kept_dtype,
    quantisation,
    read_config,
    weights_digest,
)
from dpicl.models.requests import HashScorer, Scorer, TabularModel
from dpicl.models.spec import ModelSpec, Wanted
from dpicl.models.votes import EchoGenerator, GeneratorModel

BUNDLED = Path(__file__).with_name("bundled")
"""The model in the box: `lab.training` makes it, its own README.md says what it can do."""
_one_at_a_time = Lock()
_WITH_TEMPLATE = ("transformers", "bundled", "tiny")
"""Kinds that are loaded once, whether they are asked by a chat template or not."""
_LITTLE = ("bundled", "tiny")
"""Kinds of a few megabytes."""
_opened: dict[tuple[ModelSpec, Path, tuple[str, ...], Wanted], Scorer] = {}
"""At most one entry of each of `_LITTLE`, and one of all others: the scorer opened last."""


def open_scorer(
    spec: ModelSpec, *, models_folder: Path, corpus: Sequence[str], wanted: Wanted = "scores"
) -> Scorer:
    """The scorer for a model; it stays loaded for all threads until another one is opened.

    Args:
        spec: which model.
        models_folder: where the tiny model is kept; created if missing.
        corpus: public texts for the tiny model's tokenizer.
        wanted: what a server must be able to do; all others score and write.

    Raises:
        ModelError: the model cannot be loaded.
    """
    is_server, is_chat = spec.kind == "endpoint", spec.kind in _WITH_TEMPLATE and spec.api == "chat"
    loaded = spec.model_copy(update={"api": "auto"}) if spec.kind in _WITH_TEMPLATE else spec
    key = (
        loaded,
        models_folder,
        tuple(corpus) if spec.kind == "tiny" else (),
        wanted if is_server else "scores",
    )
    with _one_at_a_time:  # two threads must not load the same model twice
        if key not in _opened:
            little = spec.kind in _LITTLE
            for other in [
                one
                for one in _opened
                if (one[0].kind == spec.kind if little else one[0].kind not in _LITTLE)
            ]:
                del _opened[other]  # first, so that two models never fill the memory together
            _opened[key] = _open(*key)
        opened = _opened[key]
        return opened.by_template if is_chat else opened  # type: ignore[attr-defined]


def close_scorers() -> None:
    """Let go of the scorer that is open, and of the GPU memory that it took: other processes are
    about to open it.
    """
    with _one_at_a_time:
        _opened.clear()
    if (torch := sys.modules.get("torch")) is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def open_generator(
    spec: ModelSpec, *, models_folder: Path, corpus: Sequence[str]
) -> GeneratorModel:
    """The same for a model that runs here and may read private texts; it is loaded once for both.

    Raises:
        PrivacyError: the model is one that others run, or a server's.
        ModelError: the model cannot be loaded.
    """
    if spec.kind == "endpoint" or spec.trust != "local":
        raise PrivacyError(
            f"model {spec.name!r} has kind {spec.kind!r} and trust {spec.trust!r}; raw rows stay "
            f"local: expected a local model"
        )
    if spec.kind == "fake":
        return EchoGenerator(spec.name)
    return cast(GeneratorModel, open_scorer(spec, models_folder=models_folder, corpus=corpus))


def open_tabular(spec: ModelSpec) -> TabularModel:
    """A model of tables; no text is scored by it. Raises ModelError: the model cannot be loaded, or
    is none of tables.
    """
    try:
        from dpicl.models.local.tabular import TabularFile
    except ImportError as error:
        raise ModelError(f"model {spec.name!r}: {extra_of(error) or error}") from None
    with _one_at_a_time:
        _opened.clear()
    return TabularFile(spec)


def fingerprint_of(spec: ModelSpec, *, corpus: Sequence[str]) -> str:
    """What names a model's weights, found without loading them: another value, another model.

    Raises:
        ModelError: the model's files are missing.
    """
    if spec.kind in ("transformers", "bundled"):
        digest = weights_digest(spec.id or str(checked("models/bundled", BUNDLED)), spec.revision)
        return " ".join([digest, number_format(spec), *(["chat"] if spec.api == "chat" else [])])
    if spec.kind == "tabular":
        return files_digest([find_checkpoint(str(spec.id))], "")
    asked = ["chat"] if spec.kind == "endpoint" and spec.api == "chat" else []
    made_of = json.dumps(
        [spec.kind, spec.url, spec.id, *asked, *(corpus if spec.kind == "tiny" else ())]
    )
    return hashlib.sha256(made_of.encode()).hexdigest()


def make_ready(spec: ModelSpec) -> None:
    """Get a model that is one file, and write it out, where that was not done yet: in this process,
    which shows it. Raises ModelError: it fails.
    """
    if spec.kind == "transformers" and is_gguf(spec.id or ""):
        find_model_files(spec.id or "", spec.revision)


def number_format(spec: ModelSpec) -> str:
    """What a local model counts in: `float32`, or another type, of a quantised one with the method.
    `auto` is what its checkpoint says.

    Raises:
        ModelError: its config is missing.
    """
    if spec.kind != "transformers" or is_gguf(spec.id or ""):
        return "float32" if spec.dtype == "auto" else spec.dtype
    config = read_config(spec.id or "", spec.revision)
    return " ".join(
        [
            kept_dtype(config) if spec.dtype == "auto" else spec.dtype,
            *filter(None, [quantisation(config)]),
        ]
    )


def estimated_memory(spec: ModelSpec) -> str:
    """What a model's weights need beside what is free, before it is loaded, in words; its files are
    fetched for it.

    Raises:
        ModelError: it does not fit, or its files are missing.
    """
    if spec.kind not in ("transformers", "bundled"):
        return "made here"
    folder, _ = find_model_files(spec.id or str(checked("models/bundled", BUNDLED)), spec.revision)
    try:
        from dpicl.models.local.loading import described
    except ImportError as error:
        raise ModelError(f"model {spec.name!r}: {extra_of(error) or error}") from None
    return described(folder, spec.name, cast(Dtype, number_format(spec).split()[0]), spec.device)


def import_backend() -> None:
    """Import the local back end ahead of time, if it is installed; a scorer that is opened
    meanwhile waits.

    Two threads that import `transformers` at once get halves of it.
    """
    with _one_at_a_time, suppress(ImportError), importing():
        from dpicl.models.local import (
            tiny,  # noqa: F401 - the import is it
            transformers_backend,  # noqa: F401 - the import is it
        )


def _open(spec: ModelSpec, models_folder: Path, corpus: tuple[str, ...], wanted: Wanted) -> Scorer:
    if spec.kind == "tabular":
        raise ModelRefusedError(
            f"model {spec.name!r} is of kind tabular: it reads rows of numbers, and neither texts "
            f"nor demonstrations; expected a language model"
        )
    if spec.kind == "fake":
        return HashScorer(spec.name, spec.trust)
    if spec.kind == "endpoint":
        try:
            from dpicl.models.endpoint.scorer import EndpointScorer
        except ImportError as error:
            raise ModelError(f"model {spec.name!r}: {extra_of(error) or error}") from None
        return EndpointScorer(spec, wanted=wanted)
    try:
        with importing():
            from dpicl.models.local.tiny import build_tiny_model
            from dpicl.models.local.transformers_backend import TransformersScorer
    except ImportError as error:
        raise ModelError(f"model {spec.name!r}: {extra_of(error) or error}") from None
    return TransformersScorer(
        str(
            build_tiny_model(models_folder, corpus)
            if spec.kind == "tiny"
            else spec.id or checked("models/bundled", BUNDLED)
        ),
        revision=spec.revision,
        dtype=cast(Dtype, number_format(spec).split()[0]),
        device=spec.device,
        name=spec.name,
        kind=spec.kind,
        trust=spec.trust,
    )
