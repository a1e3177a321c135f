"""Which model a run uses: a name in the registry, a folder, a hub id, or a server's address."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from dpicl.errors import ModelError, ModelRefusedError, PrivacyError
from dpicl.lm.endpoint import address
from dpicl.lm.local.model_files import HUB_ID, Dtype, find_model_files, is_model_folder, model_digest
from dpicl.lm.requests import HashScorer, Scorer, Trust
from dpicl.lm.votes.echo import EchoWriter
from dpicl.lm.votes.voting import Writer

BUNDLED = Path(__file__).with_name("bundled")
"""The model in the box: `tools.training` makes it, its own README.md tells what it can do."""
_one_at_a_time = Lock()
Wanted = Literal["scores", "text"]
_opened: dict[tuple[ModelSpec, Path, tuple[str, ...], Wanted], Scorer] = {}
"""At most one entry: the scorer opened last."""


class ModelSpec(BaseModel):
    """One model that a run may use.

    `bundled` is the small trained one in this package; `tiny` is built on the spot, with random
    weights; `fake` answers with hashes;
    `transformers` is a folder or a hub id; `endpoint` is a model of an OpenAI-compatible server.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    """How reports call it; an entry of `models` has its key as its name, and leaves this out."""
    kind: Literal["bundled", "tiny", "transformers", "endpoint", "fake"]
    """Where it runs."""
    id: str | None = None
    """Folder with config.json or `org/name` on the hub; for an endpoint, the server's name of the model."""
    revision: str | None = None
    """Branch, tag or commit on the hub."""
    dtype: Dtype = "float32"
    """Of a local model's weights; one that reads private texts needs float32."""
    device: Annotated[str, StringConstraints(pattern=r"^(auto|cpu|cuda(:\d+)?)$")] = "auto"
    """Of a local model; `auto` is a GPU where there is one."""
    trust: Trust = "local"
    """Of an endpoint `remote`, unless its entry says otherwise."""
    url: Annotated[str, StringConstraints(max_length=300)] | None = None
    """Of an endpoint: what `/completions` is appended to."""
    api: Literal["auto", "completions", "chat"] = "auto"
    """Of an endpoint: which of its two interfaces is asked; `auto` finds out."""
    key_env: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")] | None = None
    """Name of the environment variable that holds the endpoint's key."""
    max_connections: Annotated[int, Field(ge=1, le=1024)] = 32
    """Most requests at once, of each process."""
    deadline_seconds: Annotated[float, Field(gt=0, le=86_400)] = 600.0
    """For one answer, repeated attempts included."""
    price_per_million_tokens: Annotated[float, Field(ge=0, le=1e6)] | None = None
    """Of an endpoint, prompt and answer alike, in any currency: reports then say what a run cost."""
    allow_fallback: bool = False
    """Whether the endpoint's text may be parsed where it gives no log-probabilities."""

    @model_validator(mode="before")
    @classmethod
    def _endpoints_are_remote(cls, given: Any) -> Any:
        return {"trust": "remote", **given} if isinstance(given, dict) and given.get("kind") == "endpoint" else given

    @model_validator(mode="after")
    def _fits_kind(self) -> ModelSpec:
        if bool(self.id) != (self.kind in ("transformers", "endpoint")):
            raise ValueError(
                f"kind {self.kind} with id {self.id!r}; expected an id for kinds transformers and endpoint, and none for the others"
            )
        if (self.url is not None) != (self.kind == "endpoint"):
            raise ValueError(f"kind {self.kind} {'without' if self.url is None else 'with'} url; expected a url for kind endpoint only")
        if self.url is not None:
            address.check_address(self.url, key=self.key_env is not None, private=self.trust == "local")
        return self


def resolve_model(name: str, registry: Mapping[str, ModelSpec]) -> ModelSpec:
    """The model that a user means by `name`: a registry name, a folder, `org/name[@revision]`, or `URL#MODEL`.

    Raises:
        ModelRefusedError: it is none of them; lists the registry.
        ModelError: it is the path of a folder that is not there, perhaps for now.
    """
    if name in registry:
        return registry[name]
    if address.is_endpoint(name):
        return _endpoint(name)
    if is_model_folder(name):
        folder = Path(name).expanduser().resolve()
        return ModelSpec(name=folder.name, kind="transformers", id=str(folder))
    hub_id, _, revision = name.partition("@")
    if HUB_ID.fullmatch(hub_id):
        return ModelSpec(name=hub_id, kind="transformers", id=hub_id, revision=revision or None)
    known = ", ".join(sorted(registry)) or "no name, because the registry is empty"
    kind = ModelError if os.sep in name else ModelRefusedError
    raise kind(f"model {name!r} is unknown; expected {known}, a folder with config.json, a hub id org/name[@revision], or {address.FORM}")


def _endpoint(name: str) -> ModelSpec:
    """What `URL#MODEL` means: no key, and not trusted with private rows; an entry of the registry may say more."""
    url, model = address.split_endpoint(name)
    try:
        return ModelSpec(name=model, kind="endpoint", id=model, url=url)
    except ValidationError as error:
        rule = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ").partition("; expected ")[0]
        rule = rule if model else "no model is named"
        raise ModelRefusedError(f"model endpoint: {rule}; expected {address.FORM}") from None


def open_scorer(spec: ModelSpec, *, models_folder: Path, corpus: Sequence[str], wanted: Wanted = "scores") -> Scorer:
    """The scorer for a model; it stays loaded for all threads until another one is opened.

    Args:
        spec: which model.
        models_folder: where the tiny model is kept; created if missing.
        corpus: public texts for the tiny model's tokenizer.
        wanted: what a server must be able to do; all others score and write.

    Raises:
        ModelError: the model cannot be loaded.
    """
    key = (spec, models_folder, tuple(corpus) if spec.kind == "tiny" else (), wanted if spec.kind == "endpoint" else "scores")
    with _one_at_a_time:  # two threads must not load the same model twice
        if key not in _opened:
            _opened.clear()  # first, so that two models never fill the memory together
            _opened[key] = _open(*key)
        return _opened[key]


def open_writer(spec: ModelSpec, *, models_folder: Path, corpus: Sequence[str]) -> Writer:
    """The writer for a model that runs here; it is the same loaded model that `open_scorer` gives.

    Args:
        spec, models_folder, corpus: as of `open_scorer`.

    Raises:
        PrivacyError: the model is one that others run, or a server's.
        ModelError: the model cannot be loaded.
    """
    if spec.kind == "endpoint" or spec.trust != "local":
        raise PrivacyError(
            f"model {spec.name!r} has kind {spec.kind!r} and trust {spec.trust!r}; raw rows stay local: expected a local model"
        )
    if spec.kind == "fake":
        return EchoWriter(spec.name)
    return cast(Writer, open_scorer(spec, models_folder=models_folder, corpus=corpus))


def fingerprint_of(spec: ModelSpec, *, corpus: Sequence[str]) -> str:
    """What names a model's weights, found without loading them: another value, another model.

    Raises:
        ModelError: the model's files are missing.
    """
    if spec.kind in ("transformers", "bundled"):
        return f"{model_digest(*find_model_files(_path_or_id(spec), spec.revision))} {spec.dtype}"
    made_of = json.dumps([spec.kind, spec.url, spec.id, *(corpus if spec.kind == "tiny" else ())])
    return hashlib.sha256(made_of.encode()).hexdigest()


def _path_or_id(spec: ModelSpec) -> str:
    return str(BUNDLED) if spec.id is None else spec.id


def import_backend() -> None:
    """Import the local back end ahead of time, if it is installed; whoever opens a scorer meanwhile waits.

    Two threads that import `transformers` at once get halves of it.
    """
    with _one_at_a_time, suppress(ImportError):
        importlib.import_module("dpicl.lm.local.tiny")
        importlib.import_module("dpicl.lm.local.transformers_backend")


def _open(spec: ModelSpec, models_folder: Path, corpus: tuple[str, ...], wanted: Wanted) -> Scorer:
    if spec.kind == "fake":
        return HashScorer(spec.name, spec.trust)
    if spec.kind == "endpoint":
        return _open_endpoint(spec, wanted)
    try:
        from dpicl.lm.local.tiny import build_tiny_model
        from dpicl.lm.local.transformers_backend import TransformersScorer
    except ImportError:
        raise ModelError(f"model {spec.name!r} needs torch and transformers; type `pip install 'dpicl[local]'`") from None
    return TransformersScorer(
        str(build_tiny_model(models_folder, corpus)) if spec.kind == "tiny" else _path_or_id(spec),
        revision=spec.revision,
        dtype=spec.dtype,
        device=spec.device,
        name=spec.name,
        kind=spec.kind,
        trust=spec.trust,
    )


def _open_endpoint(spec: ModelSpec, wanted: Wanted) -> Scorer:
    try:
        from dpicl.lm.endpoint.scorer import EndpointScorer
    except ImportError:
        raise ModelError(f"model {spec.name!r} needs httpx; type `pip install 'dpicl[endpoint]'`") from None
    return EndpointScorer(spec, wanted=wanted)
