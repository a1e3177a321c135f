"""Which model a run uses: a name in the registry, a folder, or a hub id."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints, model_validator

from dpicl.errors import ModelError
from dpicl.lm.model_files import HUB_ID, Dtype, is_model_folder
from dpicl.lm.requests import HashScorer, Scorer, Trust

_one_at_a_time = Lock()
_opened: dict[tuple[ModelSpec, Path, tuple[str, ...]], Scorer] = {}
"""At most one entry: the scorer opened last."""


class ModelSpec(BaseModel):
    """One model that a run may use.

    `tiny` is built on the spot and needs nothing; `fake` answers with hashes;
    `transformers` is a folder or a hub id.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    kind: Literal["tiny", "transformers", "fake"]
    id: str | None = None
    """Folder with config.json, or `org/name` on the hub; for kind transformers only."""
    revision: str | None = None
    """Branch, tag or commit on the hub."""
    dtype: Dtype = "float32"
    device: Annotated[str, StringConstraints(pattern=r"^(auto|cpu|cuda(:\d+)?)$")] = "auto"
    trust: Trust = "local"

    @model_validator(mode="after")
    def _id_fits_kind(self) -> ModelSpec:
        if (self.id is not None) != (self.kind == "transformers"):
            raise ValueError(f"kind {self.kind} with id {self.id!r}; expected an id for kind transformers, and none for the others")
        return self


def resolve_model(name: str, registry: Mapping[str, ModelSpec]) -> ModelSpec:
    """The model that a user means by `name`: a registry name, a folder, or `org/name[@revision]`.

    Raises:
        ModelError: it is none of them; lists the registry.
    """
    if name in registry:
        return registry[name]
    if is_model_folder(name):
        folder = Path(name).expanduser().resolve()
        return ModelSpec(name=folder.name, kind="transformers", id=str(folder))
    hub_id, _, revision = name.partition("@")
    if HUB_ID.fullmatch(hub_id):
        return ModelSpec(name=hub_id, kind="transformers", id=hub_id, revision=revision or None)
    known = ", ".join(sorted(registry)) or "no name, because the registry is empty"
    raise ModelError(f"model {name!r} is unknown; expected {known}, a folder with config.json, or a hub id org/name[@revision]")


def open_scorer(spec: ModelSpec, *, models_folder: Path, corpus: Sequence[str]) -> Scorer:
    """The scorer for a model; it stays loaded for all threads until another one is opened.

    Args:
        spec: which model.
        models_folder: where the tiny model is kept; created if missing.
        corpus: public texts for the tiny model's tokenizer.

    Raises:
        ModelError: the model cannot be loaded.
    """
    key = (spec, models_folder, tuple(corpus) if spec.kind == "tiny" else ())
    with _one_at_a_time:  # two threads must not load the same model twice
        if key not in _opened:
            _opened.clear()  # first, so that two models never fill the memory together
            _opened[key] = _open(*key)
        return _opened[key]


def import_backend() -> None:
    """Import the local back end ahead of time, if it is installed; whoever opens a scorer meanwhile waits.

    Two threads that import `transformers` at once get halves of it.
    """
    with _one_at_a_time, suppress(ImportError):
        importlib.import_module("dpicl.lm.tiny")
        importlib.import_module("dpicl.lm.transformers_backend")


def _open(spec: ModelSpec, models_folder: Path, corpus: tuple[str, ...]) -> Scorer:
    if spec.kind == "fake":
        return HashScorer(spec.name, spec.trust)
    try:
        from dpicl.lm.tiny import build_tiny_model
        from dpicl.lm.transformers_backend import TransformersScorer
    except ImportError:
        raise ModelError(f"model {spec.name!r} needs torch and transformers; type `pip install 'dpicl[local]'`") from None
    path_or_id = str(build_tiny_model(models_folder, corpus)) if spec.id is None else spec.id
    return TransformersScorer(
        path_or_id,
        revision=spec.revision,
        dtype=spec.dtype,
        device=spec.device,
        name=spec.name,
        kind=spec.kind,
        trust=spec.trust,
    )
