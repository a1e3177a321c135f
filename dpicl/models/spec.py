"""Which model a run uses, by its entry or by what a user types, and what may be sent to it:
released demonstrations to any model, true rows to local ones only.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from dpicl.contract.declared import Declared
from dpicl.contract.pipeline import Cell, Unit
from dpicl.ground.errors import ModelError, ModelRefusedError, PrivacyError, one_of
from dpicl.ground.types import PrivatePrompts, ReleasedPrompts
from dpicl.models.kinds import KINDS, KindName, kinds_with
from dpicl.models.kinds.base import ModelKind
from dpicl.models.local.gguf_file import PACKAGED, checked_gguf, is_gguf
from dpicl.models.local.model_files import HUB_ID, is_checkpoint, is_model_folder
from dpicl.models.requests import ModelDescription, Progress, Sampling, Scorer, TextGenerator, Trust

ENDPOINT_FORM = "an endpoint such as http://127.0.0.1:8000/v1#MODEL"
Wanted = Literal["scores", "text"]
"""What a model is opened for."""
_CHANGES = re.compile(r"(.+)\?((?:dtype|api)=\w+(?:&(?:dtype|api)=\w+)*)")


class ModelSpec(BaseModel):
    """One model that a run may use.

    `bundled` is the small trained model in this package, `tiny` has random weights, `fake` answers
    with hashes, `transformers` is a folder or a hub id, `endpoint` a model on an OpenAI-compatible
    server, and `tabular` no language model but one of tables: TabICL or TabPFN, which reads
    released rows as they are.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    name: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    """Name in reports; an entry of `models` omits it and is named by its key."""
    kind: KindName
    """What kind of model it is."""
    id: str | None = None
    """A folder with config.json, a GGUF file, or `org/name` on the hub; for an endpoint, the
    server's name for the model; for a tabular model, the file of its weights, or a folder that
    holds this one.
    """
    revision: str | None = None
    """Branch, tag or commit on the hub."""
    dtype: Literal["auto", "float32", "tf32", "bfloat16", "float16"] = "auto"
    """Local models only: type of the weights, `auto` for the checkpoint's own; a model that reads
    private texts needs float32.
    """
    device: Annotated[str, StringConstraints(pattern=r"^(auto|cpu|cuda(:\d+)?)$")] = "auto"
    """Local models only; `auto` uses a GPU if there is one, and several where one does not hold the
    model.
    """
    trust: Trust = "local"
    """Whether it may see private rows; `remote` for an endpoint unless its entry says otherwise."""
    url: Annotated[str, StringConstraints(max_length=300)] | None = None
    """Endpoints only: base URL, to which `/completions` is appended."""
    api: Literal["auto", "completions", "chat"] = "auto"
    """How the model is queried: it completes a prompt, or answers a chat by its template. `auto`
    probes an endpoint; a local model with a template is asked by it where it then answers public
    questions no worse, which a run decides before anything is charged.
    """
    key_env: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")] | None = (
        None
    )
    """Name of the environment variable with the endpoint's API key."""
    max_connections: Annotated[int, Field(ge=1, le=1024)] = 32
    """Maximum number of concurrent requests per process."""
    deadline_seconds: Annotated[float, Field(gt=0, le=86_400)] = 600.0
    """Time limit for one answer, retries included."""
    price_per_million_tokens: Annotated[float, Field(ge=0, le=1e6)] | None = None
    """Endpoints only: price of prompt and answer tokens, in any currency, for the cost in
    reports.
    """
    allow_fallback: bool = False
    """Whether to parse the endpoint's text if it returns no log-probabilities."""
    rows: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Tabular models only: most released rows in context, drawn at random where there are more;
    2,048 if left out.
    """

    @model_validator(mode="before")
    @classmethod
    def _trusted_as_its_kind(cls, entry: Any) -> Any:
        kind = KINDS.get(str(entry.get("kind"))) if isinstance(entry, dict) else None
        return {"trust": kind.trust, **entry} if kind else entry

    @model_validator(mode="after")
    def _fits_kind(self) -> ModelSpec:
        keys = self.of_kind.keys
        if bool(self.id) != ("id" in keys):
            raise ValueError(
                f"kind {self.kind} with id {self.id!r}; expected an id for kinds "
                f"{kinds_with('id')}, and none for the others"
            )
        if self.rows is not None and "rows" not in keys:
            raise ValueError(
                f"kind {self.kind} with rows; expected rows for kind {kinds_with('rows')} only"
            )
        if (self.url is not None) != ("url" in keys):
            raise ValueError(
                f"kind {self.kind} {'without' if self.url is None else 'with'} url; expected a "
                f"url for kind {kinds_with('url')} only"
            )
        if self.dtype != "auto" and "dtype" not in keys:
            raise ValueError(
                f"kind {self.kind} with dtype; expected one for local language models only: a "
                f"server has its own"
            )
        if self.api != "auto" and "api" not in keys:
            raise ValueError(f"kind {self.kind} with api; expected one for language models only")
        self.of_kind.check(self)
        return self

    @property
    def of_kind(self) -> ModelKind:
        """What its kind says of it."""
        return KINDS[self.kind]

    @property
    def most_rows(self) -> int | None:
        """Most released rows in the context of a tabular model; None of others, which read
        demonstrations.
        """
        return self.of_kind.most_rows and (self.rows or self.of_kind.most_rows)

    @property
    def number_format(self) -> str:
        """See `ModelKind.number_format`."""
        return self.of_kind.number_format(self)

    def fingerprint(self, corpus: Sequence[str]) -> str:
        """See `ModelKind.fingerprint`."""
        return self.of_kind.fingerprint(self, corpus)

    def as_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return self.model_dump(mode="json")


def with_changes(name: str, dtype: str | None, api: str | None) -> str:
    """A model's name with what `--dtype` and `--api` say of it."""
    changes = "&".join(
        f"{key}={value}" for key, value in (("dtype", dtype), ("api", api)) if value is not None
    )
    return f"{name}?{changes}" if changes else name


def resolve_model(name: str, registry: Mapping[str, ModelSpec]) -> ModelSpec:
    """The model that a user means by `name`: a registry name, a packaged one, a folder, a GGUF
    file, a tabular model's file, `org/name[@revision]`, or `URL#MODEL`; each may end in changes of
    its entry, such as `?dtype=bfloat16&api=chat`.

    Raises:
        ModelRefusedError: a change is not one of these two, or not of this kind of model.
        ModelRefusedError: it is none of them; lists the registry. Or a file named .gguf is none.
        ModelError: it is the path of a folder that is not there, perhaps for now.
    """
    if changed := _CHANGES.fullmatch(name):
        changes = dict(change.split("=") for change in changed[2].split("&"))
        spec = resolve_model(changed[1], registry)
        try:
            return ModelSpec.model_validate(spec.model_dump() | changes)
        except ValidationError as error:
            place, rule = _first_of(error)
        raise ModelRefusedError(f"model {spec.name!r}: {place}: {rule}")
    named = {
        **{
            model.name: ModelSpec(name=model.name, kind="transformers", id=model.id)
            for model in PACKAGED.values()
        },
        **registry,
    }
    if name in named:
        return named[name]
    if name.lower().startswith(("http://", "https://")):
        return _at(name)
    if is_model_folder(name):
        folder = Path(name).expanduser().resolve()
        return ModelSpec(name=folder.name, kind="transformers", id=str(folder))
    if is_gguf(name):
        file = checked_gguf(name).resolve()
        return ModelSpec(name=file.stem, kind="transformers", id=str(file))
    if is_checkpoint(name):
        file = Path(name).expanduser().resolve()
        return ModelSpec(name=file.stem, kind="tabular", id=str(file))
    hub_id, _, revision = name.partition("@")
    if HUB_ID.fullmatch(hub_id):
        return ModelSpec(name=hub_id, kind="transformers", id=hub_id, revision=revision or None)
    raise _unknown(name, sorted(named))


def _unknown(name: str, names: Sequence[str]) -> ModelError:
    """Why a name is no model: a mount may bring a path back, and nothing another name."""
    place = Path(name).expanduser()
    is_path = os.sep in name or place.suffix.lower() == ".gguf" or (name != "" and place.exists())
    if not is_path:
        wrong = " is unknown"
    elif place.is_dir():
        wrong = " is a folder without config.json"
    else:
        wrong = " is a file of another kind" if place.exists() else ": no such file or folder"
    return (ModelError if is_path else ModelRefusedError)(
        f"model {name!r}{wrong}; expected a folder with config.json, a GGUF file, a hub id "
        f"org/name[@revision], {ENDPOINT_FORM}, or {one_of(name, names)}"
    )


def _at(address: str) -> ModelSpec:
    """The model of `URL#MODEL`: no key goes with it, and it is not trusted with private rows; an
    entry of the registry may allow more.
    """
    url, _, model = address.partition("#")
    try:
        return ModelSpec(name=model, kind="endpoint", id=model, url=url.rstrip("/"))
    except ValidationError as error:
        rule = _first_of(error)[1].partition("; expected ")[0]
    raise ModelRefusedError(
        f"model endpoint: {rule if model else 'no model is named'}; expected {ENDPOINT_FORM}"
    )


def _first_of(error: ValidationError) -> tuple[str, str]:
    """The key and the rule that it breaks, of the first that is wrong."""
    first = error.errors(include_url=False)[0]
    return ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")


def prompts_of(
    texts: Sequence[str], contract: Declared, cell: Cell
) -> ReleasedPrompts | PrivatePrompts:
    """Texts with their trust: those of a noiseless cell are private unless the table is public,
    those that ask held-out private rows always.
    """
    noiseless = cell.epsilon is not None and math.isinf(cell.epsilon)
    private = (
        noiseless and not contract.privacy.budget.benchmark
    ) or contract.evaluation == "charged"
    kind = PrivatePrompts if private else ReleasedPrompts
    return kind(tuple(texts))


def check_egress(contract: Declared, unit: Unit, model: ModelSpec) -> None:
    """Refuse a unit that would send private rows to a model that others run.

    Raises:
        PrivacyError: names the table and the model; nothing was read, nothing was opened.
    """
    if contract.evaluation == "charged" and model.trust != "local":
        raise PrivacyError(
            f"{contract.name}: model {model.name!r} has trust {model.trust!r}, and "
            f"`split.evaluation_epsilon` asks it held-out private rows; "
            f"expected a local model, or public rows to ask: `queries`"
        )
    private = sum(
        isinstance(prompts_of((), contract, cell), PrivatePrompts) for cell in unit.cells("icl")
    )
    if private and model.trust != "local":
        raise PrivacyError(
            f"{contract.name}: model {model.name!r} has trust {model.trust!r}, and epsilon=inf "
            f"sends it rows without noise ({private} cells); expected a finite epsilon, a local "
            "model, or a contract with `benchmark: true`"
        )


def score_prompts(
    scorer: Scorer,
    prompts: ReleasedPrompts | PrivatePrompts,
    continuations: Sequence[str],
    *,
    progress: Progress | None = None,
) -> np.ndarray:
    """`Scorer.score` for prompts with their trust; shape (prompts, continuations), in nats.

    Raises:
        PrivacyError: the texts hold private rows and the model is not local, or they have no trust
            type.
    """
    _check_trust(scorer.description, prompts)
    return scorer.score(prompts.texts, continuations, progress=progress)


def generate_texts(
    generator: TextGenerator, prompts: ReleasedPrompts | PrivatePrompts, sampling: Sampling
) -> list[str]:
    """`TextGenerator.generate` for prompts with their trust.

    A text is as private as the prompt that it follows.

    Raises:
        PrivacyError: as `score_prompts`.
    """
    _check_trust(generator.description, prompts)
    return generator.generate(prompts.texts, sampling)


def _check_trust(model: ModelDescription, prompts: ReleasedPrompts | PrivatePrompts) -> None:
    allowed = ReleasedPrompts | PrivatePrompts if model.trust == "local" else ReleasedPrompts
    if not isinstance(prompts, allowed):
        raise PrivacyError(
            f"model {model.name!r} has trust {model.trust!r} and may not be sent "
            f"{type(prompts).__name__}; "
            f"expected released prompts, or private ones for a local model"
        )
