"""The shape of a contract over labelled texts, as frozen types.

As in a table's contract, everything is public knowledge: the fields of a text, the labels, lower
bounds on numbers of rows, lengths and prompts. None of it is read from the private texts.

Paper       DP few-shot generation (arXiv 2309.11765): prompts of tables 5 to 8, sizes of table 9.
            DP-ICL (arXiv 2305.01639): sizes of ensembles.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PrivateAttr, StringConstraints, field_validator, model_validator

from dpicl.contract.base import Category, Frozen
from dpicl.contract.declared import Declared
from dpicl.contract.sources import Evaluation
from dpicl.contract.text_source import FIELD, Count, Delta, FieldPath, Template, TextSource

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


@dataclass(frozen=True)
class EditionOf:
    """An edition of a published set: the contract that states all of them, and its name."""

    stated: TextContract
    name: str
    """A slice's, or `published`."""


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
    unsaid: ClassVar[tuple[str, ...]] = (*Declared.unsaid, "form")

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
        return "public" if self.privacy.budget.benchmark or self.source.queries else "none"

    @property
    def tells_row_count(self) -> bool:
        """See `Declared`: not where a text may be left out for what it holds."""
        return super().tells_row_count and (self.privacy.budget.benchmark or not self.leaves_out)

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
