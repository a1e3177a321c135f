"""The shape of a contract over labelled texts, as frozen types.

As in a table's contract, everything is public knowledge: the fields of a text, the labels, lower
bounds on numbers of rows, lengths and prompts. None of it is read from the private texts.

Paper       DP few-shot generation (arXiv 2309.11765): prompts of tables 5 to 8, sizes of table 9.
            DP-ICL (arXiv 2305.01639): sizes of ensembles.

Where texts come from: files at hand, a set as it was published and stated slices of it, or texts
that come with a package.
"""

from __future__ import annotations

import hashlib
import re
import string
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    Field,
    PrivateAttr,
    StringConstraints,
    field_validator,
    model_validator,
)

from dpicl.contract.base import Category, Frozen, Rate
from dpicl.contract.declared import Declared, Evaluation, FilePath, Origin, Sha256

FIELD = r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)*"
FieldPath = Annotated[str, StringConstraints(pattern=f"^{FIELD}$", max_length=200)]
"""A field of a record; `a.b` is field b inside field a."""
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
Template = Annotated[str, StringConstraints(min_length=1, max_length=2000)]


def _delta(value: Fraction) -> Fraction:
    if not 0 < value < 1:
        raise ValueError(f"got {value}; expected a delta in (0, 1)")
    return value


Delta = Annotated[Rate, AfterValidator(_delta)]


class TextFile(Frozen):
    """JSON (lines, or one list) or CSV, gzipped or not, or Parquet."""

    file: FilePath
    """Path relative to the data folder; texts are read from disk only."""
    sha256: Sha256 | None = None
    """Public texts only: SHA-256 of the file. Of sets whose contracts come with dpicl the same rows
    in another order or form are accepted too.
    """


class PublishedFile(Frozen):
    """A file of a published set, as its publisher offers it."""

    file: FilePath
    """Path in the hub's repository, or below `url`."""
    sha256: Sha256 | None = None
    """SHA-256 of the file; of a hub's file whose digest nobody has stated it may be left out: it is
    pinned by the first download.
    """
    rows: Count | None = None
    """Number of records, which a download must have."""


class Published(Frozen):
    """A public set of texts, where anyone can download it. It is read as it was published; labels
    are replaced while it is read.
    """

    unsaid = ("form",)

    hub: (
        Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w.-]*/[\w.-]+$", max_length=200)]
        | None
    ) = None
    """Data set on the Hugging Face hub, `org/name`."""
    revision: Annotated[str, StringConstraints(pattern="^[0-9a-f]{40}$")] | None = None
    """With `hub`: the commit."""
    url: (
        Annotated[str, StringConstraints(pattern=r"^https://[^\s?#]+[^\s?#/]$", max_length=300)]
        | None
    ) = None
    """In place of `hub`: the address that the files lie below; each then needs its `sha256`."""
    train: PublishedFile
    """Texts to protect."""
    test: PublishedFile
    """Held-out texts, the queries."""
    text: Template | None = None
    """The text of a record, where the published fields differ from the contract's."""
    field: FieldPath | None = None
    """The field of the answer, where it differs."""
    labels: dict[Category, Category] = {}
    """{label in the published files: label in the contract}; all others stay as they are."""
    form: Literal["tagged"] | None = None
    """`tagged`: lines of words with their slots, such as `a:O comedy:B-Genre film:O`; if left out,
    what a file's name ends in says its form.
    """

    @model_validator(mode="after")
    def _one_place(self) -> Published:
        if (self.hub is None) == (self.url is None) or (self.hub is None) != (
            self.revision is None
        ):
            raise ValueError("the place is unclear; expected `hub` with `revision`, or `url`")
        if self.url is not None and None in (self.train.sha256, self.test.sha256):
            raise ValueError(
                "an address may serve another file tomorrow; expected the `sha256` of `train` and "
                "of `test`"
            )
        return self

    @property
    def version(self) -> str:
        """What names this state of the set in the cache."""
        if self.revision:
            return self.revision[:12]
        return hashlib.sha256(str(self.url).encode()).hexdigest()[:12]


class Deltas(Frozen):
    """Deltas for fewer texts than were published, in place of the contract's."""

    budget: Annotated[float, Field(ge=0, lt=1)] | None = None
    """In place of `privacy.budget.delta`."""
    generation: Delta | None = None
    """In place of `generation.delta`."""
    ensemble: Delta | None = None
    """In place of `ensemble.delta`."""


class Slice(Frozen):
    """A stated part of a published set that may stand for it, with bounds of its own: fewer texts
    need more noise.
    """

    train: TextFile
    """Texts to protect; `sha256` is required."""
    test: TextFile
    """Held-out texts, the queries; `sha256` is required."""
    bounds: Count | dict[Category, Count]
    """Lower bound on the texts with each label, or with an answer, in place of `min_rows`; one
    number holds for every label.
    """
    deltas: Deltas = Deltas()
    """Deltas for this many texts."""

    @model_validator(mode="after")
    def _pinned(self) -> Slice:
        if None in (self.train.sha256, self.test.sha256):
            raise ValueError(
                "a slice is known by its digest; expected the `sha256` of `train` and of `test`"
            )
        return self


PUBLISHED = "published"
"""In the place of a slice's name: the whole set."""
SliceName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,39}$")]


class TextSource(Origin):
    """Files of private texts and of queries, a published set with its slices, or texts that are
    shipped with a package.
    """

    unsaid = (
        *Origin.unsaid,
        "queries",
        "published",
        "slices",
        "labels",
        "deliveries",
        "undelivered",
    )

    train: TextFile | None = None
    """Private texts."""
    deliveries: FilePath | None = None
    """Private texts with a horizon (`releases.horizon`), in place of `train`: a folder, relative to
    the data folder, with a file for each period, named by it, such as 2027-01.jsonl. Each is read
    for the demonstrations of its period alone. A period without texts has an empty file.
    """
    undelivered: Literal["refused", "empty"] = "refused"
    """With `deliveries`: what a period that is over and has no file means: that its texts are yet
    to come, so that nothing is released; or, with `empty`, that nothing arrived in it.
    """
    test: TextFile | None = None
    """Held-out texts: a benchmark's queries. In any other contract they are private, and not
    used.
    """
    queries: TextFile | None = None
    """For private texts: public, labelled texts that serve as queries."""
    bundled: Literal["docstrings"] | None = None
    """Texts that are shipped with an installed package, in place of files."""
    published: Published | None = None
    """Benchmarks only: the whole set as it was published, in place of files; the contract's bounds
    are its own.
    """
    slices: dict[SliceName, Slice] = {}
    """Parts of the published set that may be used in its place, by name. The first that is at hand
    is used, the published set before them.
    """
    labels: dict[Category, Category] = {}
    """{label in the files: label in the contract}; all others stay as they are."""

    @model_validator(mode="after")
    def _one_way(self) -> TextSource:
        files = (self.train, self.test, self.queries)
        ways = [
            bool(self.train),
            self.deliveries is not None,
            self.bundled is not None,
            self.published is not None,
        ]
        if sum(ways) != 1 or (any(files) != bool(self.train) and self.deliveries is None):
            raise ValueError(
                "the source is unclear; expected `train` with `test` or `queries`, `deliveries`, "
                "`published`, or `bundled`"
            )
        if self.slices and self.published is None:
            raise ValueError("slices of no published set; expected `published` beside them")
        places = [part.train.file for part in self.slices.values()]
        if len(set(places)) != len(places) or PUBLISHED in self.slices:
            raise ValueError(
                "slices share a file or are named like the whole; expected a file and a name of "
                "its own for every slice"
            )
        return self


Form = Literal["question", "sentence"]
"""What every text of a set is."""
Line = Annotated[str, StringConstraints(pattern=r"^[^\s](.*[^\s])?$", max_length=2000)]
"""Text that keeps to one line of a prompt, without blanks at its ends."""


class LabelText(Frozen):
    """A label's wording in prompts, and a public lower bound on its number of private texts."""

    text: Line
    """Wording of the label in prompts."""
    min_rows: Count = Field(serialization_alias="rows")
    """Lower bound on the number of private texts with this label, from public knowledge."""


class Classification(Frozen):
    """Every text has one label of a public list, in the order of the prompts."""

    kind: Literal["classification"]
    """The answer is a label."""
    field: FieldPath
    """Field of a record that holds the label."""
    labels: Annotated[dict[Category, LabelText], Field(min_length=2, max_length=256)]
    """{value in the records: wording and lower bound}; 2 to 256."""

    @model_validator(mode="after")
    def _distinct(self) -> Classification:
        if len({label.text for label in self.labels.values()}) != len(self.labels):
            raise ValueError("two labels have one text; expected a text of its own for every label")
        return self


class Extraction(Frozen):
    """The answer is a phrase of the text; records without one are skipped.

    Several phrases in a field are joined by spaces.
    """

    kind: Literal["extraction"]
    """The answer is a phrase of the text."""
    field: FieldPath
    """Field of a record that holds the answer."""
    min_rows: Count = Field(serialization_alias="rows")
    """Public lower bound on the number of private texts with an answer."""
    labels: Annotated[tuple[Line, ...], Field(min_length=1, max_length=256)]
    """Answers to generate demonstrations for: from general knowledge, not from private texts."""
    answer_tokens: Annotated[int, Field(ge=1, le=1000)]
    """Maximum number of tokens of an answer."""

    @field_validator("labels")
    @classmethod
    def _distinct(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) != len(value):
            raise ValueError("a label is repeated; expected distinct labels")
        return value


class FreeText(Frozen):
    """The answer is free text, such as a summary; records without one, or without a text, are
    skipped.
    """

    kind: Literal["generation"]
    """The answer is free text."""
    field: FieldPath
    """Field of a record that holds the answer."""
    min_rows: Count = Field(serialization_alias="rows")
    """Public lower bound on the number of private texts with an answer."""
    answer_tokens: Annotated[int, Field(ge=1, le=1000)]
    """Maximum number of tokens of an answer."""


class GenerationPrompt(Frozen):
    """The prompt that generates a demonstration: the instruction, and the words before a label and
    before a text.
    """

    instruction: Line
    """Instruction above the examples."""
    label: Line
    """Word before a label; a colon is added."""
    text: Line
    """Word before a text; a colon is added."""


class AnsweringPrompt(Frozen):
    """The prompt that answers a query: an instruction or none, and the words before a text and
    before its answer.
    """

    instruction: Line | None = None
    """Instruction above the demonstrations; none if left out."""
    text: Line
    """Word before a text; a colon is added."""
    answer: Line
    """Word before its answer; a colon is added."""
    keywords: Line | None = None
    """Free text only: word before the released keywords, above the answer."""


class TextPrompts(Frozen):
    """The prompt that answers queries, and the one that generates demonstrations where a method
    does so.
    """

    generation: GenerationPrompt | None = None
    """For method few_shot_generation."""
    answering: AnsweringPrompt = Field(serialization_alias="asking")
    """For every method."""


class Generation(Frozen):
    """Public sizes for DP few-shot generation."""

    subsets: Count
    """M: number of disjoint subsets of private texts; each votes on the next token."""
    examples: Count
    """N: number of texts per subset."""
    candidates: Annotated[int, Field(ge=2)] | None
    """K: size of the candidate set; null means the whole vocabulary."""
    max_tokens: Count
    """T_max: maximum number of tokens of a demonstration; all of them are charged."""
    delta: Delta
    """Delta of a whole release, in (0, 1); should be below 1 / (number of texts with the rarest
    label).
    """


class Ensemble(Frozen):
    """Public sizes for DP-ICL; each prompt holds as many private texts as the run has shots."""

    subsets: Annotated[int, Field(ge=2, le=10_000)]
    """M: number of disjoint prompts; each answers every query."""
    delta: Delta
    """Delta of a whole release, over all of its queries."""
    candidates: Annotated[int, Field(ge=2, le=10_000)] = 100
    """Free text only: number of answers generated without private texts, of which one is
    selected.
    """
    keywords: Annotated[int, Field(ge=1, le=100)] = 10
    """Free text only: maximum number of keywords that the answer is generated from."""


class TextContract(Declared):
    """Everything that is publicly known about one set of labelled texts."""

    kind: Literal["text"]
    """Marks a contract of texts."""
    source: TextSource
    """Where the texts are, who published them, and under which licence."""
    text: Template
    """The text of a record, with `{field}` placeholders."""
    max_characters: Annotated[int, Field(ge=1, le=100_000)]
    """Longer texts are truncated, each on its own."""
    task: Annotated[Classification | Extraction | FreeText, Field(discriminator="kind")]
    """What to predict."""
    query_count: Count
    """Number of held-out texts that serve as queries; the same in every run."""
    prompts: TextPrompts
    """The prompts."""
    calibrate: bool = False
    """Contextual calibration of Zhao et al. (2021): of answers to released demonstrations, and of
    every voter of DP-ICL by its own texts alone.
    """
    form: Form | None = None
    """What is publicly known of every text: it ends as a question does, or as a sentence. Reports
    say of how many generated texts that holds; nothing else depends on it.
    """
    generation: Generation | None = None
    """For method few_shot_generation."""
    ensemble: Ensemble | None = None
    """For method dp_icl."""
    unsaid = (*Declared.unsaid, "form")

    _edition_of: EditionOf | None = PrivateAttr(None)

    @field_validator("text")
    @classmethod
    def _places(cls, value: str) -> str:
        fields = [field for _, field in template_pieces(value) if field is not None]
        if not fields:
            raise ValueError("names no field; expected at least one place written {field}")
        return value

    @property
    def edition_of(self) -> EditionOf | None:
        """Which edition of a published set this contract's files are, once that was chosen; None of
        texts that are not published.
        """
        return self._edition_of

    @property
    def evaluation(self) -> Evaluation:
        """What answers are measured on."""
        return "public" if self.is_benchmark or self.source.queries else "none"

    @property
    def tells_row_count(self) -> bool:
        """See `Declared`: not where a text may be left out for what it holds."""
        return super().tells_row_count and (self.is_benchmark or not self.leaves_out)

    @property
    def is_delivered(self) -> bool:
        """See `Declared`."""
        return self.source.deliveries is not None

    @property
    def text_fields(self) -> tuple[str, ...]:
        """Fields that make a text, each once."""
        return tuple(
            dict.fromkeys(field for _, field in template_pieces(self.text) if field is not None)
        )

    @property
    def formula_warning(self) -> str:
        """See `Contract`: a model may write anything."""
        return "; a spreadsheet may take texts for formulas: import them as text"

    @property
    def is_classification(self) -> bool:
        """Whether answers come from a public list; else they are written."""
        return isinstance(self.task, Classification)

    @property
    def demonstrated(self) -> tuple[str, ...]:
        """Labels that demonstrations are written for, in the contract's order; of texts there are
        none.
        """
        return () if isinstance(self.task, FreeText) else tuple(self.task.labels)

    @property
    def row_bounds(self) -> Mapping[str, int]:
        """Public lower bound on the private rows of each label; where answers are written, one for
        all under `""`.
        """
        if not isinstance(self.task, Classification):
            return {"": self.task.min_rows}
        return {label: words.min_rows for label, words in self.task.labels.items()}

    def label_text(self, label: str) -> str:
        """A label's wording in prompts; free text stays as it is.

        Raises:
            KeyError: classification knows no such label.
        """
        return self.task.labels[label].text if isinstance(self.task, Classification) else label


@dataclass(frozen=True)
class EditionOf:
    """An edition of a published set: the contract that states all of them, and its name."""

    stated: TextContract
    name: str
    """A slice's, or `published`."""


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
        if name is not None and (spec or conversion or not re.fullmatch(FIELD, name)):
            raise ValueError(
                "has a place that is no field; expected places written {field} or {field.inner}"
            )
    return tuple((literal, name) for literal, name, _, _ in pieces)
