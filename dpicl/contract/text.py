"""The shape of a contract over labelled texts, as frozen types.

As in a table's contract, everything in here is public: what stands in a record's text, the
labels, least numbers of rows, lengths and prompts. None of it is read from the private texts.

Paper       DP few-shot generation (arXiv 2309.11765): prompts of tables 5 to 8, sizes of table 9.
            DP-ICL (arXiv 2305.01639): sizes of ensembles.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from dpicl.contract.base import Category, Frozen, Grown, Rate
from dpicl.contract.declared import Declared
from dpicl.contract.sources import Evaluation, FilePath, Origin, Sha256

_FIELD = r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)*"
FieldPath = Annotated[str, StringConstraints(pattern=f"^{_FIELD}$", max_length=200)]
"""A field of a record; `a.b` is field b inside field a."""
Line = Annotated[str, StringConstraints(pattern=r"^[^\s](.*[^\s])?$", max_length=2000)]
"""Text that keeps to one line of a prompt, without blanks at its ends."""
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]


def _delta(value: Fraction) -> Fraction:
    if not 0 < value < 1:
        raise ValueError(f"got {value}; expected a delta in (0, 1)")
    return value


Delta = Annotated[Rate, AfterValidator(_delta)]


class TextFile(Frozen):
    """JSON Lines, CSV or Parquet, the first two also gzipped; a relative path is looked up below the data folder."""

    file: FilePath
    """Below the data folder; texts are read from a disk only."""
    sha256: Sha256 | None = None
    """Of public texts only: digest of the file as it stands there."""


class TextSource(Origin, Grown):
    """Files of private texts, and of texts to ask; or texts that come with a package."""

    later: ClassVar[tuple[str, ...]] = ("queries",)

    train: TextFile | None = None
    """Private texts."""
    test: TextFile | None = None
    """Held-out texts, of which a benchmark's queries are taken; of texts with something at stake they are private too, and not asked."""
    queries: TextFile | None = None
    """Of texts with something at stake: texts declared public, with their labels, of which queries are taken."""
    bundled: Literal["docstrings"] | None = None
    """Texts that come with an installed package, in place of files."""

    @model_validator(mode="after")
    def _one_way(self) -> TextSource:
        files = (self.train, self.test, self.queries)
        if bool(self.train) == (self.bundled is not None) or any(files) != bool(self.train):
            raise ValueError("the source is unclear; expected `train` with `test` or `queries`, or `bundled`")
        return self


class LabelText(Frozen):
    """How prompts put a label, and a public lower bound on how many private rows have it."""

    text: Line
    """How prompts put the label."""
    rows: Count
    """Fewest private texts that have it, from public knowledge."""


class Classification(Frozen):
    """Every text has one of a public list of labels, in the order of the prompts."""

    kind: Literal["classification"]
    """The answer is a label."""
    field: FieldPath
    """Where a record's label stands."""
    labels: Annotated[dict[Category, LabelText], Field(min_length=2, max_length=256)]
    """{value in the records: how it is put, and its fewest rows}; 2 to 256."""

    @model_validator(mode="after")
    def _distinct(self) -> Classification:
        if len({label.text for label in self.labels.values()}) != len(self.labels):
            raise ValueError("two labels have one text; expected a text of its own for every label")
        return self


class Extraction(Frozen):
    """The answer is a phrase of the text; a record without one is left out.

    Several phrases in a field are joined by blanks.
    """

    kind: Literal["extraction"]
    """The answer is a phrase of the text."""
    field: FieldPath
    """Where a record's answer stands."""
    rows: Count
    """Public lower bound on how many private rows have an answer."""
    labels: Annotated[tuple[Line, ...], Field(min_length=1, max_length=256)]
    """Answers that demonstrations are written for: general knowledge, not the private rows'."""
    answer_tokens: Annotated[int, Field(ge=1, le=1000)]
    """Most tokens of an answer."""

    @field_validator("labels")
    @classmethod
    def _distinct(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) != len(value):
            raise ValueError("a label stands twice; expected distinct labels")
        return value


class FreeText(Frozen):
    """The answer is a text of its own, such as a summary; a record without one, or without a text, is left out."""

    kind: Literal["generation"]
    """The answer is written."""
    field: FieldPath
    """Where a record's answer stands."""
    rows: Count
    """Public lower bound on how many private rows have an answer."""
    answer_tokens: Annotated[int, Field(ge=1, le=1000)]
    """Most tokens of an answer."""


class GenerationPrompt(Frozen):
    """What a demonstration is written from: the instruction, and the words before a label and before a text."""

    instruction: Line
    """What a model is told to do with a label, before the examples."""
    label: Line
    """Written before a label, with a colon after it."""
    text: Line
    """Written before a text, with a colon after it."""


class AskingPrompt(Frozen):
    """What the model is asked with: an instruction or none, and the words before a text and before its answer."""

    instruction: Line | None = None
    """What stands above the demonstrations; nothing if left out."""
    text: Line
    """Written before a text, with a colon after it."""
    answer: Line
    """Written before its answer, with a colon after it."""
    keywords: Line | None = None
    """Of answers that are texts: what is written before released keywords, above the answer."""


class TextPrompts(Frozen):
    """One layout for asking queries, and one for writing demonstrations where that is done."""

    generation: GenerationPrompt | None = None
    """For method few_shot_generation."""
    asking: AskingPrompt
    """For every method."""


class Generation(Frozen):
    """Public sizes of DP few-shot generation."""

    subsets: Count
    """M: disjoint subsets of private rows; each votes on the next token."""
    examples: Count
    """N: rows in one subset."""
    candidates: Annotated[int, Field(ge=2)] | None
    """K: tokens that can be elected; null is the whole vocabulary."""
    max_tokens: Count
    """T_max: most tokens of a demonstration, all of which are charged."""
    delta: Delta
    """Of a whole release, in (0, 1): should be less than one by the number of rows of the rarest label."""


class Ensemble(Frozen):
    """Public sizes of DP-ICL; a prompt has as many private rows as the run has shots."""

    subsets: Annotated[int, Field(ge=2, le=10_000)]
    """M: disjoint prompts, each of which answers every query."""
    delta: Delta
    """Of a whole release, all its queries together."""
    candidates: Annotated[int, Field(ge=2, le=10_000)] = 100
    """Of answers that are texts: how many are written without private rows, of which one is taken."""
    keywords: Annotated[int, Field(ge=1, le=100)] = 10
    """Of answers that are texts: most keywords that a new answer is written from."""


class TextContract(Declared):
    """All public knowledge on one set of labelled texts."""

    kind: Literal["text"]
    """Tells a contract of texts from one of a table."""
    source: TextSource
    """Where the texts are, who published them, and on what terms."""
    text: Annotated[str, StringConstraints(min_length=1, max_length=2000)]
    """How a record's fields make its text, in `{field}` places."""
    max_characters: Annotated[int, Field(ge=1, le=100_000)]
    """A longer text is cut here, each on its own."""
    task: Annotated[Classification | Extraction | FreeText, Field(discriminator="kind")]
    """What an answer is."""
    query_count: Count
    """Of the held-out texts, this many are put to the model: the same in every run."""
    prompts: TextPrompts
    """What stands around texts, labels and answers."""
    calibrate: bool = False
    """Contextual calibration of Zhao et al. (2021)."""
    generation: Generation | None = None
    """For method few_shot_generation."""
    ensemble: Ensemble | None = None
    """For method dp_icl."""

    @field_validator("text")
    @classmethod
    def _places(cls, value: str) -> str:
        fields = [field for _, field in template_pieces(value) if field is not None]
        if not fields:
            raise ValueError("names no field; expected at least one place written {field}")
        return value

    @property
    def evaluation(self) -> Evaluation:
        """What answers are measured on."""
        return "public" if self.privacy.budget.benchmark or self.source.queries else "none"

    @property
    def text_fields(self) -> tuple[str, ...]:
        """Fields that make a text, each once."""
        return tuple(dict.fromkeys(field for _, field in template_pieces(self.text) if field is not None))

    @property
    def is_classification(self) -> bool:
        """Whether answers come from a public list; else they are written."""
        return isinstance(self.task, Classification)

    @property
    def demonstrated(self) -> tuple[str, ...]:
        """Labels that demonstrations are written for, in the contract's order; of texts there are none."""
        return () if isinstance(self.task, FreeText) else tuple(self.task.labels)

    @property
    def row_bounds(self) -> Mapping[str, int]:
        """Public lower bound on the private rows of each label; where answers are written, one for all under `""`."""
        if not isinstance(self.task, Classification):
            return {"": self.task.rows}
        return {label: words.rows for label, words in self.task.labels.items()}

    def label_text(self, label: str) -> str:
        """How prompts put a label; an answer that was written stands for itself.

        Raises:
            KeyError: classification knows no such label.
        """
        return self.task.labels[label].text if isinstance(self.task, Classification) else label


def template_pieces(template: str) -> tuple[tuple[str, str | None], ...]:
    """A template as pairs of literal text and the field that follows it, None where none does.

    Raises:
        ValueError: braces do not match, or a place is more than the name of a field.
    """
    try:
        pieces = list(string.Formatter().parse(template))
    except ValueError:
        raise ValueError("has an unmatched brace; expected places written {field}") from None
    for _, name, spec, conversion in pieces:
        if name is not None and (spec or conversion or not re.fullmatch(_FIELD, name)):
            raise ValueError("has a place that is no field; expected places written {field} or {field.inner}")
    return tuple((literal, name) for literal, name, _, _ in pieces)
