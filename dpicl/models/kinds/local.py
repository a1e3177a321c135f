"""Models that run in this process: language models in the layout of transformers, and models of
tables. Torch is imported when one is opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from dpicl.ground.cache import checked
from dpicl.ground.errors import ModelRefusedError
from dpicl.ground.installed import importing
from dpicl.models.kinds.base import ModelKind, Opened, imported_for, text_digest
from dpicl.models.local.gguf_file import is_gguf
from dpicl.models.local.model_files import (
    Dtype,
    encoder_digest,
    files_digest,
    find_checkpoint,
    find_model_files,
    kept_dtype,
    quantisation,
    read_config,
    weights_digest,
)
from dpicl.models.requests import Scorer, TabularModel

if TYPE_CHECKING:
    from dpicl.models.embedding import Embedder
    from dpicl.models.spec import ModelSpec

BUNDLED = Path(__file__).parents[1] / "bundled"
"""The model in the box: `lab.training` makes it, its own README.md says what it can do."""


class LanguageModel(ModelKind):
    """A folder of a causal language model."""

    keys = frozenset({"dtype", "api"})
    is_exact = True
    is_templated = True

    def place(self, spec: ModelSpec) -> str:
        """Where the files are: a folder, a GGUF file or a hub id."""
        raise NotImplementedError

    def open(self, opened: Opened, models_folder: Path, mode: str = "") -> Scorer:
        """See `ModelKind.open`."""
        spec, corpus, _ = opened
        with imported_for(f"model {spec.name!r}"), importing():
            from dpicl.models.local.transformers_backend import TransformersScorer
        return TransformersScorer(
            self.made(spec, models_folder, corpus),
            revision=spec.revision,
            dtype=_dtype(self.number_format(spec)),
            device=spec.device,
            name=spec.name,
            kind=spec.kind,
            trust=spec.trust,
            quiet=self.is_little,
        )

    def made(self, spec: ModelSpec, models_folder: Path, corpus: Sequence[str]) -> str:
        """`place`, where it is made first if need be."""
        return self.place(spec)

    def fingerprint(self, spec: ModelSpec, corpus: Sequence[str]) -> str:
        """See `ModelKind.fingerprint`."""
        digest = weights_digest(self.place(spec), spec.revision)
        return " ".join(
            [digest, self.number_format(spec), *(["chat"] if spec.api == "chat" else [])]
        )

    def number_format(self, spec: ModelSpec) -> str:
        """See `ModelKind.number_format`."""
        return "float32" if spec.dtype == "auto" else spec.dtype

    def memory(self, spec: ModelSpec) -> str | None:
        """See `ModelKind.memory`."""
        folder, _ = find_model_files(self.place(spec), spec.revision)
        with imported_for(f"model {spec.name!r}"):
            from dpicl.models.local.loading import described
        return described(folder, spec.name, _dtype(self.number_format(spec)), spec.device)

    def has_mass(self, outcomes: Mapping[str, float]) -> bool:
        """Scores are log-probabilities among all tokens."""
        return True


class Bundled(LanguageModel):
    """The small trained model in this package."""

    name = "bundled"
    is_little = True

    def place(self, spec: ModelSpec) -> str:
        """See `LanguageModel.place`."""
        return str(checked("models/bundled", BUNDLED))


class Tiny(LanguageModel):
    """A model with random weights, which is made here from public texts."""

    name = "tiny"
    is_little = True
    is_made = True

    def made(self, spec: ModelSpec, models_folder: Path, corpus: Sequence[str]) -> str:
        """See `tiny.build_tiny_model`."""
        from dpicl.models.local.tiny import build_tiny_model

        return str(build_tiny_model(models_folder, corpus))

    def fingerprint(self, spec: ModelSpec, corpus: Sequence[str]) -> str:
        """Of what it is made from."""
        return text_digest(spec, *corpus)

    def memory(self, spec: ModelSpec) -> str | None:
        """So little that nobody asks."""
        return "made here"


class Transformers(LanguageModel):
    """A folder, a GGUF file, or a model of the hub."""

    name = "transformers"
    keys = LanguageModel.keys | {"id"}
    is_fetched = True
    is_encoder = True

    def place(self, spec: ModelSpec) -> str:
        """See `LanguageModel.place`."""
        return str(spec.id)

    def make_ready(self, spec: ModelSpec) -> None:
        """See `ModelKind.make_ready`."""
        if is_gguf(self.place(spec)):
            find_model_files(self.place(spec), spec.revision)

    def number_format(self, spec: ModelSpec) -> str:
        """Of a checkpoint as its config says."""
        if is_gguf(self.place(spec)):
            return super().number_format(spec)
        config = read_config(self.place(spec), spec.revision)
        return " ".join(
            [
                kept_dtype(config) if spec.dtype == "auto" else spec.dtype,
                *filter(None, [quantisation(config)]),
            ]
        )

    def open_embedder(self, spec: ModelSpec) -> Embedder:
        """See `ModelKind.open_embedder`."""
        with imported_for(f"embedder {spec.name!r}"):
            from dpicl.models.local.loading import SentenceEncoder

            return SentenceEncoder(spec)

    def embedder_fingerprint(self, spec: ModelSpec) -> str:
        """See `ModelKind.embedder_fingerprint`."""
        return encoder_digest(*find_model_files(self.place(spec), spec.revision))


class Tabular(ModelKind):
    """No language model but one of tables, TabICL or TabPFN, which reads released rows as they
    are.
    """

    name = "tabular"
    keys = frozenset({"id", "rows"})
    most_rows: ClassVar[int | None] = 2048
    is_exact = True

    def check(self, spec: ModelSpec) -> None:
        """See `ModelKind.check`."""
        if spec.trust != "local":
            raise ValueError(
                "kind tabular with trust remote; expected trust local: it runs in this process"
            )

    def open(self, opened: Opened, models_folder: Path, mode: str = "") -> Scorer:
        """Nothing scores texts."""
        raise ModelRefusedError(
            f"model {opened[0].name!r} is of kind tabular: it reads rows of numbers, and neither "
            f"texts nor demonstrations; expected a language model"
        )

    def open_tabular(self, spec: ModelSpec) -> TabularModel:
        """See `ModelKind.open_tabular`."""
        with imported_for(f"model {spec.name!r}"):
            from dpicl.models.local.tabular import TabularFile
        return TabularFile(spec)

    def fingerprint(self, spec: ModelSpec, corpus: Sequence[str]) -> str:
        """See `ModelKind.fingerprint`."""
        return files_digest([find_checkpoint(str(spec.id))], "")

    def number_format(self, spec: ModelSpec) -> str:
        """See `tabular.TabularFile`."""
        return "float32"


def _dtype(number_format: str) -> Dtype:
    """Of a number format, which may name a way of quantising too."""
    return cast(Dtype, number_format.split()[0])
