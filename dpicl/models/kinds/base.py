"""What a kind of model is: which keys its entry has, what may be known of a model before it is
opened, and how it is opened.

A new kind is a file beside this one, of a class that states what differs, and its name in `KINDS`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from dpicl.ground.errors import ModelError
from dpicl.ground.files import sha256_of
from dpicl.ground.installed import extra_of
from dpicl.models.requests import Scorer, TabularModel, Trust
from dpicl.models.votes import GeneratorModel

if TYPE_CHECKING:  # an entry asks its kind
    from dpicl.models.embedding import Embedder
    from dpicl.models.spec import ModelSpec, Wanted

Opened = tuple["ModelSpec", tuple[str, ...], "Wanted"]
"""All that an opened model depends on, but for where models are kept: its entry, the texts that it
is made from, and what it is opened for.
"""


class ModelKind:
    """A kind of model; of one that this program does not know nothing is assumed."""

    name: ClassVar[str] = ""
    """As entries of `models` state it."""
    keys: ClassVar[frozenset[str]] = frozenset()
    """Which of `id` and `url` an entry needs, and which of `api`, `dtype` and `rows` it may have;
    the others are refused.
    """
    trust: ClassVar[Trust] = "local"
    """Where an entry states none."""
    most_rows: ClassVar[int | None] = None
    """Most released rows in context where an entry states no `rows`; None where texts are read."""
    is_exact: ClassVar[bool] = False
    """Whether scores are exact up to rounding, whatever is asked beside."""
    is_served: ClassVar[bool] = False
    """Whether another program runs the model, which is sent its prompts."""
    is_fetched: ClassVar[bool] = False
    """Whether its files are a user's or the hub's; they may hold a chat template."""
    is_templated: ClassVar[bool] = False
    """Whether it is loaded once, to be asked by its chat template or to complete prompts."""
    is_made: ClassVar[bool] = False
    """Whether it is made from public texts."""
    is_little: ClassVar[bool] = False
    """Whether it takes a few megabytes, and has room beside another model."""
    is_encoder: ClassVar[bool] = False
    """Whether texts can be placed by it, see `embedding`."""

    def check(self, spec: ModelSpec) -> None:
        """Raises ValueError: an entry breaks a rule of this kind; says which."""

    def open(self, opened: Opened, models_folder: Path, mode: str = "") -> Scorer:
        """The model itself; for `mode` and errors see `opening.open_scorer`."""
        raise NotImplementedError

    def open_generator(self, spec: ModelSpec) -> GeneratorModel | None:
        """What writes from private texts, where that is not the scorer."""
        return None

    def open_tabular(self, spec: ModelSpec) -> TabularModel:
        """A model of rows; for errors see `opening.open_tabular`."""
        raise ModelError(
            f"model {spec.name!r} is of kind {self.name}, which reads texts; expected one of kind "
            f"tabular"
        )

    def fingerprint(self, spec: ModelSpec, corpus: Sequence[str]) -> str:
        """What names a model's weights, found without loading them: another value, another model.

        Raises:
            ModelError: the model's files are missing.
        """
        raise NotImplementedError

    def make_ready(self, spec: ModelSpec) -> None:
        """Get a model that is one file, and write it out, where that was not done yet: in this
        process, which shows it. Raises ModelError: it fails.
        """

    def number_format(self, spec: ModelSpec) -> str:
        """What a local model counts in: `float32`, or another type, of a quantised one with the
        method; `auto` is what its checkpoint says. Empty where it is not known.

        Raises:
            ModelError: its config is missing.
        """
        return ""

    def memory(self, spec: ModelSpec) -> str | None:
        """What a model's weights need beside what is free, before it is loaded, in words; its files
        are fetched for it. None where it has none here.

        Raises:
            ModelError: it does not fit, or its files are missing.
        """
        return None

    def has_mass(self, outcomes: Mapping[str, float]) -> bool:
        """Whether scores of labels are probabilities among all that the model could say.

        Args:
            outcomes: of a served model, how many answers came about in which way.
        """
        return False

    def open_embedder(self, spec: ModelSpec) -> Embedder:
        """See `embedding.open_embedder`."""
        raise NotImplementedError

    def embedder_fingerprint(self, spec: ModelSpec) -> str:
        """See `embedding.embedder_fingerprint`."""
        raise NotImplementedError


@contextmanager
def imported_for(what: str) -> Iterator[None]:
    """Imports of what `what` needs. Raises ModelError: it is not installed; says what to type."""
    try:
        yield
    except ImportError as error:
        raise ModelError(f"{what}: {extra_of(error) or error}") from None


def text_digest(spec: ModelSpec, *more: str) -> str:
    """Names a model without files: by where its entry says it is, and what else decides answers."""
    return sha256_of(json.dumps([spec.kind, spec.url, spec.id, *more]))
