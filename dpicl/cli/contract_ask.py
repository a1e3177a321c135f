"""Questions whose answers make a contract: no row is read, and a wrong answer is asked again with one sentence."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import typer

from dpicl.cli.options import split_values
from dpicl.contract.declared import Budget, Person
from dpicl.contract.draft import Draft, DraftColumn, assemble, can_be_named, sentences
from dpicl.contract.models import CategoryColumn, IntegerColumn, RealColumn
from dpicl.errors import DeclarationError, DpiclError
from dpicl.yaml_file import validate

Answer = TypeVar("Answer")
_NUMBERS: dict[str, type[IntegerColumn | RealColumn]] = {"integer": IntegerColumn, "real": RealColumn}
_KINDS = ("category", *_NUMBERS, "ignored")


@dataclass(frozen=True)
class Defaults:
    """Answers that options have given before."""

    label: str | None
    positive: str | None
    epsilon: str


def ask_contract(known: Sequence[DraftColumn], ignored: Sequence[str], defaults: Defaults, **others: Any) -> Draft:
    """Ask for what a contract says.

    Args:
        known: columns of a schema, of which only what it leaves open is asked; if there are none, columns are asked for.
        ignored: columns of the schema that a contract cannot describe.
        defaults: what an empty answer means.
        others: what else a draft has: `name`, `file` and `origin`.

    Raises:
        typer.Abort: interrupted, or there are no more answers.
    """
    columns: dict[str, DraftColumn | None] = dict.fromkeys(ignored)
    columns |= {one.name: _column(one.name, one) if one.is_open else one for one in known}
    while not known and (name := _new_name(columns)):
        columns[name] = _column(name)
    described = {name: one for name, one in columns.items() if one is not None}
    label = _ask("column to predict", lambda text: _one_of(text, described), defaults.label)
    if described[label].type != "category":
        described[label] = _values(DraftColumn(label, "category"))
    positive = _ask("its values that count as Yes, parted by commas", lambda text: _some(text, described[label]), defaults.positive)
    epsilon = _ask("epsilon that all releases of these rows together may cost", _epsilon, defaults.epsilon)
    person = _ask("column that names a person, if one may have several rows, else nothing", lambda text: _id_column(text, described), "")
    rows = _ask("most rows of one person that enter a release", _row_count, "1") if person else 0
    ignored = tuple(name for name in columns if name not in described and name != person)
    others |= {"epsilon": epsilon, "ignored": ignored, "person": (person, rows) if person else None}
    draft = assemble(list(described.values()), label, positive, "the answers", **others)
    return _ask("a row in words", lambda text: _in_words(draft, text), sentences(draft.features))


def _ask(question: str, read: Callable[[str], Answer], default: str | None = None) -> Answer:
    """An answer that can be read; no answer means the default."""

    def value(text: str) -> Answer:
        try:
            return read(text.strip())
        except DeclarationError as error:  # of a contract that is not written yet: its file says nothing here
            raise typer.BadParameter(f"{error.rule}; expected {error.expected}") from None
        except DpiclError as error:
            raise typer.BadParameter(str(error)) from None

    return cast(Answer, typer.prompt(question, default=default, value_proc=value, show_default=bool(default)))


def _new_name(columns: Collection[str]) -> str:
    """The next column; nothing once all are named."""

    def read(name: str) -> str:
        if name in columns:
            raise typer.BadParameter("this column was named before; expected another")
        if not name and len(columns) < 2:
            raise typer.BadParameter("a contract has a column to predict and one to tell it by; expected a name")
        return name

    return _ask(f"column {len(columns) + 1}" + (", or nothing if that was all" if len(columns) > 1 else ""), read, "")


def _column(name: str, stated: DraftColumn | None = None) -> DraftColumn | None:
    """Kind and values of a column of which a schema may have stated something; None if it is ignored."""
    named = f"{name} ({stated.note})" if stated and stated.note else name
    kind: Any = _ask(f"{named}: {', '.join(_KINDS[:-1])} or ignored", lambda text: _kind(text, name), stated.type if stated else None)
    return None if kind == "ignored" else _values(DraftColumn(name, kind))


def _kind(text: str, name: str) -> str:
    if _one_of(text, _KINDS) != "ignored" and not can_be_named(name):
        raise typer.BadParameter("a contract names columns by letters, digits and . _ -; expected ignored, or such a name in the file")
    return text


def _values(column: DraftColumn) -> DraftColumn:
    """With what is publicly known of its values."""
    if column.type == "category":
        return _ask(f"{column.name}: all categories that there may be, parted by commas", lambda text: _categories(text, column))
    return _ask(f"{column.name}: lowest and highest value that there may be, parted by a comma", lambda text: _bounds(text, column))


def _categories(text: str, column: DraftColumn) -> DraftColumn:
    found = validate(CategoryColumn, {"type": "category", "categories": split_values(text)}, column.name)
    return replace(column, categories=found.categories)


def _bounds(text: str, column: DraftColumn) -> DraftColumn:
    bounds = split_values(text)
    if len(bounds) != 2:
        raise typer.BadParameter("expected two numbers parted by a comma, the lowest first")
    found = validate(_NUMBERS[column.type], {"type": column.type, "bounds": bounds}, column.name)
    return replace(column, bounds=found.bounds)


def _one_of(text: str, known: Collection[str]) -> str:
    if text not in known:
        raise typer.BadParameter(f"expected one of {', '.join(known)}")
    return text


def _some(text: str, label: DraftColumn) -> tuple[str, ...]:
    chosen = tuple(split_values(text))
    if not chosen or not set(chosen) < set(label.categories):
        raise typer.BadParameter(f"expected some, but not all, of {', '.join(label.categories)}")
    return chosen


def _epsilon(text: str) -> float:
    return cast(float, validate(Budget, {"epsilon": text}, "budget").epsilon)


def _id_column(text: str, described: Collection[str]) -> str:
    if text in described or (text and not can_be_named(text)):
        raise typer.BadParameter("expected nothing, or a column that is none of those described, named by letters, digits and . _ -")
    return text


def _row_count(text: str) -> int:
    return validate(Person, {"id_column": "who", "max_rows": text}, "person").max_rows


def _in_words(draft: Draft, text: str) -> Draft:
    """The draft with this sentence, if its places are columns."""
    found = replace(draft, sentence=text)
    found.check()
    return found
