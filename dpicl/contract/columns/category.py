"""Columns of categories: their public list, of which type their values are, and the texts by which
a value comes.

A category is known by its text. The type of its values follows from how the list is written, and
from nothing else: of `[0, 1]` they are whole numbers, of `[0.5, 1]` real ones, of `[false, true]`
and of `type: boolean` booleans, of `["0", "1"]` and `[red, blue]` texts. Names of releases are made
of the texts, so that they are the same whatever leaves.

Codes that are too many to list (ICD-10, SOC, postcodes) come as their group, by a map that is
public as a list is (`groups`). A cell's category follows from that cell and the contract alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SerializationInfo,
    field_serializer,
    model_validator,
)
from pydantic.json_schema import WithJsonSchema

from dpicl.contract.base import IN_FULL, Category, CategoryName, Problems, Text, as_written
from dpicl.contract.columns.base import MISSING, AnyColumn, Extent, Refuse, is_text
from dpicl.contract.parts import Attribute, GroupKey, Rule, Word

if TYPE_CHECKING:
    import pyarrow as pa

ValueType = Literal["category", "boolean", "integer", "real"]
"""Of the values of a column of categories; `category` is text."""
_Listed = Annotated[
    Category,
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1, "maxLength": 200},
                {"type": "number"},
                {"type": "boolean"},
            ]
        }
    ),
]
MOST_CATEGORIES = 256
"""Of a column: codes are bytes where rows are counted and reported."""
FALSE, TRUE = "false", "true"
_SPELLED = {
    FALSE: ("false", "False", "FALSE", "0", "0.0"),
    TRUE: ("true", "True", "TRUE", "1", "1.0"),
}
BOOLEANS = {spelled: truth for truth, some in _SPELLED.items() for spelled in some}
"""{text by which a boolean comes: its category}."""
_FEW = 5
_AS_INTEGER = re.compile(r"0|-?[1-9]\d*", re.ASCII)
_WHOLE = re.compile(r"(-?(?:0|[1-9]\d*))(?:\.0*)?", re.ASCII)
_ZERO_OF_EXPONENT = re.compile(r"(?<=e)([+-]?)0(?=\d)")
"""Which Python writes in 1e-07, and Arrow does not."""
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(\.\d*?[1-9])?(?:\.?0*)", re.ASCII)
NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d*)?(?:[eE][+-]?\d+)?", re.ASCII)


class CategoryColumn(AnyColumn):
    """Categories from a public list; `texts` gives their wording in prompts."""

    unsaid = (*AnyColumn.unsaid, "nullable", "groups")
    takes: ClassVar[str] = "categories"
    rule: ClassVar[str] = "known_categories"
    rule_text: ClassVar[str] = "holds only categories of the contract"
    stated_in: ClassVar[str] = "categories"
    gap = MISSING
    target: ClassVar[Literal["classes"]] = "classes"

    type: Literal["category"]
    """Categories."""
    nullable: bool = False
    """Whether a value may be missing: the last category is then `(missing)`, and reads as `unknown`
    unless `texts` words it.
    """
    categories: Annotated[tuple[_Listed, ...], Field(min_length=1, max_length=MOST_CATEGORIES)]
    """All possible values, at most 256, from public knowledge: including those that no row has.
    Released values are of the type in which these are written: numbers, booleans, or texts. Left
    out, they are the groups of `groups`.
    """
    groups: dict[CategoryName, CategoryName] = {}
    """{code: its group}, of codes that are too many to list: a public map, never made from rows.
    `I2*` stands for every code that begins with I2, of which the longest beginning counts, and
    `"*"` for any other value; without it, a code that has no group is no value of this column.
    Groups are the categories: they are what is counted and released.
    """
    texts: dict[CategoryName, Text] = {}
    """{category: its wording in prompts}; the category itself where none is given."""
    _value_type: ValueType = PrivateAttr("category")

    @property
    def value_type(self) -> ValueType:
        """Of the values."""
        return self._value_type

    @model_validator(mode="wrap")
    @classmethod
    def _of_a_type(cls, content: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """A list of one type as texts, and the type beside it."""
        kind: ValueType = "category"
        if isinstance(content, dict) and isinstance(groups := content.get("groups"), dict):
            listed = {
                as_written(group): group
                for group in groups.values()
                if not isinstance(group, dict | list)
            }
            content = {"categories": list(listed.values()), **content}
        if isinstance(content, dict) and isinstance(
            stated := content.get("categories"), list | tuple
        ):
            values = [value for value in stated if value != MISSING]
            if len(stated) > MOST_CATEGORIES:
                raise ValueError(
                    f"categories has {len(stated)} values; expected at most {MOST_CATEGORIES}, or "
                    "`groups`, a map of codes to fewer categories"
                )
            kind = type_of(values)
            if not all(_is_exact(value, kind) for value in values):
                raise ValueError(
                    "categories holds a whole number that has too many digits for a number of 64 "
                    "bits; expected texts, in quotes"
                )
            if kind != "category":
                content = {**content, "categories": [as_written(value) for value in stated]}
        column = handler(content)
        if isinstance(content, dict):
            column._value_type = kind
        return column

    @model_validator(mode="before")
    @classmethod
    def _with_missing(cls, content: Any) -> Any:
        """`(missing)` after the categories of a nullable column."""
        if (
            isinstance(content, dict)
            and content.get("nullable") is True
            and isinstance(stated := content.get("categories"), list | tuple)
        ):
            texts = content.get("texts") or {}
            worded = {MISSING: "unknown", **texts} if isinstance(texts, dict) else texts
            return {
                **content,
                "categories": [*(value for value in stated if value != MISSING), MISSING],
                "texts": worded,
            }
        return content

    @model_validator(mode="after")
    def _consistent(self) -> CategoryColumn:
        if MISSING in self.categories and not self.nullable:
            raise ValueError(
                f"{MISSING!r} stands for a missing value; expected `nullable: true`, or another "
                f"category"
            )
        if len(set(self.categories)) != len(self.categories):
            raise ValueError("a category is repeated; expected distinct categories")
        unknown = sorted(set(self.texts) - set(self.categories))
        if unknown:
            raise ValueError(f"texts names {unknown[0]!r}; expected only listed categories")
        unknown = sorted({*self.groups.values()} - ({*self.categories} - {MISSING}))
        if unknown:
            raise ValueError(f"groups names {unknown[0]!r}; expected only listed categories")
        if (code := next((code for code in self.groups if "*" in code[:-1]), None)) is not None:
            raise ValueError(f"groups has {code!r}; expected a code, or its beginning and one `*`")
        stated = self._stated_groups
        for category in self.categories:
            if group_of(category, stated) not in (None, category):
                raise ValueError(
                    f"groups has the category {category!r} among codes of another one; expected "
                    "other names of groups, each of which is in itself"
                )
        return self

    @property
    def _stated_groups(self) -> dict[str, str]:
        """Without what stands for any other value."""
        return {code: group for code, group in self.groups.items() if code != "*"}

    @field_serializer("categories")
    def _as_stated(self, categories: tuple[str, ...], info: SerializationInfo) -> tuple[Any, ...]:
        """As texts, of which names are made; for people in their type."""
        if info.context != IN_FULL:
            return categories
        return tuple(
            category if category == MISSING else value_of(category, self.value_type)
            for category in categories
        )

    # cells

    def holds(self, word: str) -> bool:
        """Whether a word is a value."""
        listed = self.categories
        return word != MISSING and (
            word in listed
            or category_of(word, listed, self.value_type) is not None
            or group_of(word, self._stated_groups) is not None
        )

    def marked(
        self, text: pa.ChunkedArray, words: tuple[str, ...], read: Callable[[], pa.ChunkedArray]
    ) -> pa.ChunkedArray:
        """Which texts are one of the words for a missing value; numbers in any way of writing
        them, in a column of texts too.
        """
        import pyarrow.compute as pc

        marked = is_word(text, words, self.value_type)
        return pc.or_(marked, is_number_word(text, words))

    def mended(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """Values with `(missing)`, or else the first category, in the place of null."""
        import pyarrow as pa

        code = pa.scalar(len(self.categories) - 1 if self.nullable else 0, pa.int16())
        return pa.chunked_array(
            [
                pa.DictionaryArray.from_arrays(chunk.indices.fill_null(code), chunk.dictionary)
                for chunk in values.chunks
            ]
        )

    @property
    def any_value(self) -> str:
        """The first category."""
        return self.categories[0]

    def quick(self, values: pa.ChunkedArray, refuse: Refuse) -> pa.ChunkedArray | None:
        """Codes of a dictionary's texts, looked up once for each, then for every row; None where
        only text can tell.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        if not (pa.types.is_dictionary(values.type) and is_text(values.type.value_type)):
            return None
        categories = pa.array(self.categories)
        chunks = []
        for chunk in values.chunks:
            texts = chunk.dictionary.cast(pa.string())
            codes = pc.index_in(texts, value_set=categories).cast(pa.int16()).take(chunk.indices)
            if self.nullable:
                codes = pc.if_else(
                    chunk.indices.is_null(), pa.scalar(len(categories) - 1, codes.type), codes
                )
            if codes.null_count:
                return None
            chunks.append(pa.DictionaryArray.from_arrays(codes, categories))
        return pa.chunked_array(chunks, pa.dictionary(pa.int16(), pa.string()))

    def _from_text(self, text: pa.ChunkedArray, refuse: Refuse) -> pa.ChunkedArray:
        import pyarrow as pa

        codes = category_codes(text, self.categories, self.value_type, self.groups)
        what = "groups, and no code of one" if self.groups else "categories"
        refuse(codes.is_null(), not_listed(what, self.categories))
        return pa.chunked_array(
            [pa.DictionaryArray.from_arrays(codes.cast(pa.int16()), pa.array(self.categories))]
        )

    def compact(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """Codes in a byte where the list allows it."""
        import pyarrow as pa

        if len(self.categories) > 128:
            return values
        return values.cast(pa.dictionary(pa.int8(), pa.string()))

    def unlisted(self, values: pa.ChunkedArray) -> int:
        """How many values are no category: every text of the dictionary is looked up once."""
        import pyarrow as pa
        import pyarrow.compute as pc

        categories = pa.array(self.categories)
        count = 0
        for chunk in values.chunks:
            known = pc.is_in(chunk.dictionary, categories)
            if not pc.all(known).as_py():
                of_rows = known.take(chunk.indices.drop_null())
                count += len(of_rows) - (pc.sum(of_rows).as_py() or 0)
        return count

    # codes

    def codes(self, codes: np.ndarray, stated: Sequence[float] = ()) -> np.ndarray:
        """As they are."""
        return codes

    def count(self, stated: Sequence[float] = ()) -> int:
        """How many categories there are."""
        return len(self.categories)

    def part_codes(self, codes: np.ndarray, rule: Rule | Word) -> np.ndarray:
        """The part of a rule that every code falls into: shape (rows,), whole numbers."""
        parts = self.resolve_parts(rule.parts)
        part_of = {category: index for index, part in enumerate(parts) for category in part}
        places = [part_of[category] for category in self.categories]
        if places == list(range(len(places))):
            return codes
        return np.array(places, dtype=np.uint8 if len(parts) <= 256 else np.int64)[codes]

    # groups and averages

    @property
    def extent(self) -> Extent:
        """All categories."""
        return self.categories

    def part(self, rule: Rule, place: int, name: str) -> tuple[Extent, str]:
        """The categories of one part of a rule, and the predicate in words."""
        categories = self.resolve_parts(rule.parts)[place]
        return categories, f"{name} in {{{', '.join(categories)}}}"

    def only(self, extent: Extent) -> float | str | None:
        """The one category that an extent allows; None where it allows several."""
        return extent[0] if len(extent) == 1 else None

    def coded(self, values: Sequence[float | str]) -> np.ndarray:
        """Released values as a table has them."""
        return np.array([self.categories.index(str(value)) for value in values])

    def distance(self, codes: np.ndarray, others: np.ndarray) -> np.ndarray:
        """0 between equal ones, else 1."""
        return (codes != others).astype(float)

    def design(
        self, codes: np.ndarray, *, one_hot: bool
    ) -> tuple[np.ndarray, list[float], list[float]]:
        """Features of a linear model, shape (rows, features), and their bounds: indicators
        (`one_hot`), else codes.
        """
        column = codes[:, np.newaxis]
        size = len(self.categories)
        if one_hot:
            return column == np.arange(size), [0] * size, [1] * size
        return column, [0], [max(size - 1, 1)]

    # words

    def worded(self, value: float | str) -> str:
        """A category as a prompt has it."""
        return self.texts.get(str(value), str(value))

    def values(self, codes: np.ndarray) -> list[float | str]:
        """Of rows that are put to a model."""
        return [self.categories[code] for code in codes.tolist()]

    def shown(self, value: float | str) -> float | str:
        """A released value as tables for people have it."""
        return value

    @property
    def answers(self) -> tuple[str, ...]:
        """Of a label: the categories."""
        return tuple(map(self.worded, self.categories))

    @property
    def described(self) -> str:
        """The list, for people."""
        return ", ".join(self.categories)

    def attribute(self, column: str, name: str) -> Attribute:
        """What clients report where nothing is stated: the category."""
        return Attribute(
            name=name,
            column=column,
            parts=tuple((category,) for category in self.categories),
            texts=self.answers,
        )

    def halves(self, column: str) -> GroupKey | None:
        """The first and the last half of the list; not of a single category."""
        half = len(self.categories) // 2
        return GroupKey(column=column, parts=(self.categories[:half], "rest")) if half else None

    # checks

    @property
    def expectation(self) -> tuple[str, dict[str, Any]]:
        """Its own check for Great Expectations."""
        return "expect_column_values_to_be_in_set", {"value_set": list(self.categories)}

    def check_rule(self, rule: Rule | Word, key: str) -> Problems:
        """A rule parts these categories."""
        if rule.missing:
            yield f"{key}.missing", "is of categories", f"a part with {MISSING!r}"
        if rule.cuts:
            yield f"{key}.cuts", "cuts a category column", "`parts` with lists of categories"
        try:
            self.resolve_parts(rule.parts)
        except ValueError as error:
            wrong, expected = error.args
            yield f"{key}.parts", wrong, expected

    def resolve_parts(
        self, parts: tuple[tuple[str, ...] | str, ...]
    ) -> tuple[tuple[str, ...], ...]:
        """The categories of every part, with `rest` filled in.

        Raises:
            ValueError: they do not partition the column's, as those of a checked contract do; with
                what is wrong and what is expected.
        """
        categories = self.categories
        named = [category for part in parts if part != "rest" for category in part]
        unknown = [category for category in named if category not in categories]
        if unknown:
            raise ValueError(
                f"names {unknown[0]!r}, which is not a category", "one of: " + ", ".join(categories)
            )
        if len(set(named)) != len(named):
            raise ValueError("a category is in two parts", "disjoint parts")
        rest = tuple(category for category in categories if category not in named)
        if rest and "rest" not in parts:
            raise ValueError(
                f"leaves out {rest[0]!r}", "every category in a part, or a part `rest`"
            )
        if parts.count("rest") > 1 or ("rest" in parts and not rest) or () in parts:
            raise ValueError("has an empty part", "at least one category in every part")
        return tuple(rest if part == "rest" else tuple(part) for part in parts)


def type_of(stated: Sequence[Any]) -> ValueType:
    """That in which all of them are written; text where there are several."""
    kinds = {type(value) for value in stated}
    if kinds == {bool}:
        return "boolean"
    if kinds == {int}:
        return "integer"
    return "real" if kinds and kinds <= {int, float} else "category"


def _is_exact(value: Any, kind: ValueType) -> bool:
    """Whether a value that is stated is one of its column's type."""
    if not isinstance(value, int) or isinstance(value, bool):
        return True
    if kind == "integer":
        return -(2**63) <= value < 2**63
    return kind != "real" or (abs(value) < 2**1023 and int(float(value)) == value)


def not_listed(what: str, listed: Sequence[str]) -> str:
    """The rule that a value is one of some public ones, of which a few are named."""
    few = ", ".join(as_text[:40] for as_text in listed[:_FEW])
    more = f" and {len(listed) - _FEW} more" if len(listed) > _FEW else ""
    return f"is not one of the {len(listed)} {what}; expected one of {few}{more}"


def written_type(texts: Sequence[str]) -> ValueType:
    """Of a list that nobody has written yet: whole numbers, where each text is one of 64 bits and
    stays as it is; else text.
    """
    is_whole = texts and all(
        _AS_INTEGER.fullmatch(text) and _is_exact(int(text), "integer") for text in texts
    )
    return "integer" if is_whole else "category"


def value_of(category: str, kind: ValueType) -> str | bool | int | float:
    """A category, by its text, in the type of its values."""
    if kind == "boolean":
        return category == TRUE
    return (
        category if kind == "category" else int(category) if kind == "integer" else float(category)
    )


def category_of(text: str, categories: tuple[str, ...], kind: ValueType) -> str | None:
    """The category that is meant by another text than its own; None if none is.

    A number is meant by every way of writing it, but for leading zeros, which a number loses; a day
    by its midnight, as a column of times has it. A boolean is meant by `true`, `True`, `TRUE`, 1
    and the same of false; and so are two categories that are such words, one for true and one for
    false.
    """
    if kind == "boolean":
        return BOOLEANS.get(text)
    if kind == "integer" and (whole := _WHOLE.fullmatch(text)):
        return as_category("0" if whole[1] == "-0" else whole[1], categories)
    if kind == "real" and NUMBER.fullmatch(text):
        number = as_written(float(text))
        return as_category(number, categories) or _others(categories).get(number)
    # of which a column of times has zeros, however many
    if kind == "category" and (time := _TIME.fullmatch(text)):
        spelled = (f"{time[1]}{between}{time[2]}{time[3] or ''}" for between in (" ", "T"))
        day = time[1] if time[2] == "00:00:00" and not time[3] else None
        return next((spelling for spelling in (*spelled, day) if spelling in categories), None)
    return _others(categories).get(text)


def group_of(text: str, groups: Mapping[str, str]) -> str | None:
    """That of a code (80331.0 is 80331, too), or of its longest beginning; None if it has none."""
    whole = _WHOLE.fullmatch(text)
    beginnings = (f"{text[:end]}*" for end in range(min(len(text), 199), -1, -1))
    keys = (text, *([whole[1]] if whole else []), *(beginnings if groups else ()))
    return next((groups[key] for key in keys if key in groups), None)


def as_category(text: str, categories: tuple[str, ...]) -> str | None:
    """The text, if it is a category."""
    return text if text in categories else None


def _of_32_bits(number: str) -> str:
    """As a column of 32 bits has a number, and still has it where a row has made it one of 64:
    0.10000000149011612 of 0.1.
    """
    with np.errstate(over="ignore"):
        narrow = float(np.float32(float(number)))
    # neither beyond 32 bits nor too small for them
    return str(as_written(narrow)) if narrow and isfinite(narrow) else number


@lru_cache(maxsize=1024)
def _others(categories: tuple[str, ...]) -> Mapping[str, str]:
    """{what a column of numbers or booleans has for a category that is written otherwise: the
    category}.
    """
    stated = [category for category in categories if category != MISSING]
    truths = {BOOLEANS[text]: text for text in stated if text in BOOLEANS}
    meant = (
        {text: truths[truth] for text, truth in BOOLEANS.items()}
        if len(stated) == len(truths) == 2
        else {}
    )
    floats = [(as_written(float(number)), number) for number in stated if NUMBER.fullmatch(number)]
    floats += [
        (text, number)
        for number in stated
        if NUMBER.fullmatch(number) and (text := _of_32_bits(number)) != as_written(float(number))
    ]
    numbers = floats + [
        (short, number)
        for text, number in floats
        if (short := _ZERO_OF_EXPONENT.sub(r"\1", text)) != text
    ]
    for text, category in numbers:
        if text not in categories and [other for other, _ in numbers].count(text) == 1:
            meant[text] = category
    return {text: category for text, category in meant.items() if text not in categories}


def category_codes(
    text: pa.ChunkedArray,
    categories: tuple[str, ...],
    kind: ValueType,
    groups: Mapping[str, str] = MappingProxyType({}),
) -> pa.Array:
    """The place of each text's category, null where it is none: int32 of shape (rows,). Another
    text than a category's is read once, by `groups` first.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    listed = pa.array(categories, pa.string())
    codes = pc.index_in(text, value_set=listed).combine_chunks()
    if codes.null_count:
        others = pc.unique(text.filter(codes.is_null()))
        meant = pc.index_in(
            pa.array(
                [
                    None
                    if value is None
                    else group_of(value, groups) or category_of(value, categories, kind)
                    for value in others.to_pylist()
                ],
                pa.string(),
            ),
            value_set=listed,
        )
        codes = pc.coalesce(codes, meant.take(pc.index_in(text, value_set=others).combine_chunks()))
    return codes


def is_number_word(text: pa.ChunkedArray, words: Sequence[str]) -> pa.Array:
    """Which texts are a number that is one of the words, in any way of writing it: -9.0 for -9."""
    import pyarrow as pa

    numbers = tuple(word for word in words if NUMBER.fullmatch(word))
    return is_word(text, numbers, "real") if numbers else pa.repeat(False, len(text))


def is_word(text: pa.ChunkedArray, words: tuple[str, ...], kind: ValueType) -> pa.Array:
    """Which texts of a column of categories are one of the words, in any way of writing it: bool of
    shape (rows,).
    """
    return category_codes(text, words, "integer" if kind == "boolean" else kind).is_valid()
