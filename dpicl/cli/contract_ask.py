"""Questions whose answers make a contract: no row is read, and a wrong answer gets one sentence and the question again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

import typer

from dpicl.cli.terminal import split_values
from dpicl.contract.declared import Budget, Person
from dpicl.contract.draft import Draft, DraftColumn, assemble, can_be_named, sentences
from dpicl.contract.models import CategoryColumn, IntegerColumn, RealColumn
from dpicl.errors import DeclarationError, DpiclError
from dpicl.yaml_file import validate

Answer = TypeVar("Answer")
_NUMBERS: dict[str, type[IntegerColumn | RealColumn]] = {"integer": IntegerColumn, "real": RealColumn}
_TYPES = ("category", *_NUMBERS, "ignored")
_NAMES = "letters, digits and . _ -"


def ask_contract(
    known: Sequence[DraftColumn], ignored: Sequence[str], *, label: str | None, positive: str | None, epsilon: str, **others: Any
) -> Draft:
    """Ask for the contents of a contract.

    Args:
        known: columns of a schema, of which only open bounds and categories are asked; if there are none, columns are asked for.
        ignored: columns of the schema that a contract cannot describe.
        label: the default answer, as `positive` and `epsilon` are.
        others: other fields of the draft: `name`, `file` and `origin`.

    Raises:
        typer.Abort: interrupted, or there are no more answers.
    """
    columns: dict[str, DraftColumn | None] = dict.fromkeys(ignored)
    columns |= {column.name: _ask_column(column.name, column) if column.is_open else column for column in known}
    while not known and (name := _ask_name(columns)):
        columns[name] = _ask_column(name)
    described = {name: column for name, column in columns.items() if column is not None}
    label = _ask("column to predict", lambda text: _one_of(text, described), label)
    if described[label].type != "category":
        described[label] = _ask_values(DraftColumn(label, "category"))
    categories = described[label].categories

    def some_categories(text: str) -> tuple[str, ...]:
        chosen = tuple(split_values(text))
        if not chosen or not set(chosen) < set(categories):
            raise typer.BadParameter(f"expected some, but not all, of {', '.join(categories)}")
        return chosen

    def id_column(text: str) -> str:
        if text in described or (text and not can_be_named(text)):
            raise typer.BadParameter(f"expected nothing, or a column that is not described above, named by {_NAMES}")
        return text

    def row_count(text: str) -> int:
        return validate(Person, {"id_column": "who", "max_rows": text}, "person").max_rows

    values = _ask("its values that count as Yes, comma-separated", some_categories, positive)
    cap = _ask(
        "epsilon that all releases of these rows together may cost",
        lambda text: cast(float, validate(Budget, {"epsilon": text}, "budget").epsilon),
        epsilon,
    )
    person = _ask("column that identifies a person, if a person may have several rows; else empty", id_column, "")
    rows = _ask("maximum rows of one person in a release", row_count, "1") if person else 0
    ignored = tuple(name for name in columns if name not in described and name != person)
    others |= {"epsilon": cap, "ignored": ignored, "person": (person, rows) if person else None}
    draft = assemble(list(described.values()), label, values, "the answers", **others)

    def with_sentence(text: str) -> Draft:
        finished = replace(draft, sentence=text)
        finished.check()
        return finished

    return _ask("a row as a sentence", with_sentence, sentences(draft.features))


def _ask(question: str, read: Callable[[str], Answer], default: str | None = None) -> Answer:
    """An answer that can be read; an empty one means the default."""

    def value(text: str) -> Answer:
        try:
            return read(text.strip())
        except DeclarationError as error:  # of a contract that is not written yet, so that its file and key mean nothing here
            raise typer.BadParameter(f"{error.rule}; expected {error.expected}") from None
        except DpiclError as error:
            raise typer.BadParameter(str(error)) from None

    return cast(Answer, typer.prompt(question, default=default, value_proc=value, show_default=bool(default)))


def _ask_name(columns: Collection[str]) -> str:
    """The next column; empty once all are named."""

    def read(name: str) -> str:
        if name in columns:
            raise typer.BadParameter("this column was named before; expected another")
        if not name and len(columns) < 2:
            raise typer.BadParameter("a contract has a column to predict and at least one feature; expected a name")
        return name

    return _ask(f"column {len(columns) + 1}" + (", or empty to finish" if len(columns) > 1 else ""), read, "")


def _ask_column(name: str, stated: DraftColumn | None = None) -> DraftColumn | None:
    """Type and values of a column, of which a schema may have stated some; None if it is ignored."""

    def read(text: str) -> Any:
        if _one_of(text, _TYPES) != "ignored" and not can_be_named(name):
            raise typer.BadParameter(f"a contract names columns by {_NAMES}; expected ignored, or such a name in the file")
        return text

    described = f"{name} ({stated.note})" if stated and stated.note else name
    kind = _ask(f"{described}: {', '.join(_TYPES[:-1])} or ignored", read, stated.type if stated else None)
    return None if kind == "ignored" else _ask_values(DraftColumn(name, kind))


def _ask_values(column: DraftColumn) -> DraftColumn:
    """The column with its public bounds or categories."""

    def categories(text: str) -> DraftColumn:
        read = validate(CategoryColumn, {"type": "category", "categories": split_values(text)}, column.name)
        return replace(column, categories=read.categories)

    def bounds(text: str) -> DraftColumn:
        stated = split_values(text)
        if len(stated) != 2:
            raise typer.BadParameter("expected two comma-separated numbers, the lowest first")
        read = validate(_NUMBERS[column.type], {"type": column.type, "bounds": stated}, column.name)
        return replace(column, bounds=read.bounds)

    if column.type == "category":
        return _ask(f"{column.name}: all possible categories, comma-separated", categories)
    return _ask(f"{column.name}: lowest and highest value possible, comma-separated", bounds)


def _one_of(text: str, known: Collection[str]) -> str:
    if text not in known:
        raise typer.BadParameter(f"expected one of {', '.join(known)}")
    return text
