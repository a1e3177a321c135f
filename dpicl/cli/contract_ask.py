"""Questions whose answers make a contract: no row is read, and a wrong answer gets one sentence and
the question again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

import typer

from dpicl.cli.terminal import split_values
from dpicl.contract.columns import TYPES
from dpicl.contract.columns.category import FALSE, TRUE, CategoryColumn, written_type
from dpicl.contract.declared import Budget, Person
from dpicl.contract.draft import UNNAMED, Draft, DraftColumn, assemble, can_be_named
from dpicl.errors import DeclarationError, DpiclError
from dpicl.yaml_file import typed_value, validate

Answer = TypeVar("Answer")
_TYPES = (*sorted(TYPES, key=lambda name: TYPES[name].stated_in == "bounds"), "ignored")
_GAPS = "?"


def ask_contract(
    known: Sequence[DraftColumn],
    *,
    ignored: Mapping[str, str],
    label: str | None,
    positive: str | None,
    epsilon: str | None,
    population: int | None,
    suggest: Callable[[Draft], float],
    **others: Any,
) -> Draft:
    """Ask for the contents of a contract.

    Args:
        known: columns of a schema, of which only open bounds and categories are asked; if there are
            none, columns are asked for.
        ignored: columns of the schema that a contract cannot describe, and why.
        label: the default answer, as `positive`, `epsilon` and `population` are.
        suggest: which epsilon to begin with.
        others: other fields of the draft: `name`, `file` and `origin`.

    Raises:
        typer.Abort: interrupted, or there are no more answers.
    """
    columns: dict[str, DraftColumn | None] = dict.fromkeys(ignored)
    columns |= {
        column.name: _ask_column(column.name, column) if column.is_open else column
        for column in known
    }
    while not known and (name := _ask_name(columns)):
        columns[name] = _ask_column(name)
    described = {name: column for name, column in columns.items() if column is not None}
    outcome, values = _ask_label(described, label, positive)

    def id_column(text: str) -> str:
        if text in described or (text and not can_be_named(text)):
            raise typer.BadParameter(
                f"expected nothing, or a column that is not described above; this is {UNNAMED}"
            )
        return text

    def row_count(text: str) -> int:
        return validate(
            Person, {"id_column": "who", "max_rows": typed_value(text)}, "person"
        ).max_rows

    def rows_in_all(text: str) -> int | None:
        if text and not (text.isascii() and text.isdecimal() and int(text)):
            raise typer.BadParameter("expected a whole number above 0, or nothing")
        return int(text) if text else None

    total = _ask(
        "about how many rows there are, as publicly known, or empty",
        rows_in_all,
        str(population or ""),
    )
    draft = assemble(
        list(described.values()), outcome, values, "the answers", population=total, **others
    )
    cap = _ask(
        "epsilon that all releases of these rows together may cost",
        lambda text: cast(
            float, validate(Budget, {"epsilon": typed_value(text)}, "budget").epsilon
        ),
        epsilon or f"{suggest(draft):g}",
    )
    person = _ask(
        "column that identifies a person, if a person may have several rows; else empty",
        id_column,
        "",
    )
    rows = _ask("maximum rows of one person in a release", row_count, "1") if person else 0
    dropped = {
        name: ignored.get(name, "as answered")
        for name in columns
        if name not in described and name != person
    }
    return replace(draft, epsilon=cap, ignored=dropped, person=(person, rows) if person else None)


def _ask_label(
    described: dict[str, DraftColumn], label: str | None, positive: str | None
) -> tuple[str | None, tuple[str, ...]]:
    """The column to predict, if one is, and its values that count as Yes, if some do."""

    def outcome(text: str) -> str | None:
        if text and len(described) == 1:
            raise typer.BadParameter("one column alone is predicted from nothing; expected nothing")
        return _one_of(text, described) if text else None

    label = _ask("column to predict, or empty for none", outcome, label or "")
    if label is not None and positive and not described[label].is_listed:
        described[label] = _ask_values(
            DraftColumn(label, "category", nullable=described[label].nullable)
        )
    if label is None or not described[label].is_listed:
        return label, ()
    categories = described[label].categories

    def some_categories(text: str) -> tuple[str, ...]:
        chosen = tuple(split_values(text))
        if chosen and not set(chosen) < set(categories):
            raise typer.BadParameter(
                f"expected some, but not all, of {', '.join(categories)}; or nothing"
            )
        return chosen

    question = "its values that count as Yes, comma-separated, or empty: each is an answer"
    return label, _ask(question, some_categories, positive or "")


def _ask(question: str, read: Callable[[str], Answer], default: str | None = None) -> Answer:
    """An answer that can be read; an empty one means the default."""

    def value(text: str) -> Answer:
        try:
            return read(text.strip())
        except DeclarationError as error:
            # of a contract that is not written yet, so that its file and key mean nothing here
            raise typer.BadParameter(f"{error.rule}; expected {error.expected}") from None
        except DpiclError as error:
            raise typer.BadParameter(str(error)) from None

    return cast(
        Answer,
        typer.prompt(question, default=default, value_proc=value, show_default=bool(default)),
    )


def _ask_name(columns: Collection[str]) -> str:
    def read(name: str) -> str:
        if name in columns:
            raise typer.BadParameter("this column was named before; expected another")
        if not name and not columns:
            raise typer.BadParameter("a contract has at least one column; expected a name")
        return name

    return _ask(
        f"column {len(columns) + 1}" + (", or empty to finish" if columns else ""), read, ""
    )


def _ask_column(name: str, stated: DraftColumn | None = None) -> DraftColumn | None:
    """Type and values of a column, of which a schema may have stated some; None if it is
    ignored.
    """

    def read(text: str) -> str:
        if _one_of(text.removesuffix(_GAPS), _TYPES) != "ignored" and not can_be_named(name):
            raise typer.BadParameter(f"the column has {UNNAMED}, or answer ignored")
        return text

    described = f"{name} ({stated.note})" if stated and stated.note else name
    suggested = f"{stated.type}{_GAPS if stated.nullable else ''}" if stated else None
    kind = _ask(
        f"{described}: {', '.join(_TYPES[:-1])} (with {_GAPS} if values may be missing) or ignored",
        read,
        suggested,
    )
    if kind.startswith("ignored"):
        return None
    return _ask_values(DraftColumn(name, kind.removesuffix(_GAPS), nullable=kind.endswith(_GAPS)))


def _ask_values(column: DraftColumn) -> DraftColumn:
    kind: Any = TYPES[column.type]

    def categories(text: str) -> DraftColumn:
        read = validate(
            CategoryColumn, {"type": "category", "categories": split_values(text)}, column.name
        )
        return replace(column, categories=read.categories, value_type=written_type(read.categories))

    def bounds(text: str) -> DraftColumn:
        stated = split_values(text)
        if len(stated) != 2:
            raise typer.BadParameter(f"expected two comma-separated {kind.takes}, the lowest first")
        values = [typed_value(one) for one in stated] if kind.plain else stated
        read = validate(kind, {"type": column.type, "bounds": values}, column.name)
        return replace(column, bounds=read.bounds if kind.plain else (stated[0], stated[1]))

    if column.type == "boolean":
        return replace(column, categories=(FALSE, TRUE))
    if column.type == "category":
        return _ask(f"{column.name}: all possible categories, comma-separated", categories)
    return _ask(f"{column.name}: lowest and highest value possible, comma-separated", bounds)


def _one_of(text: str, known: Collection[str]) -> str:
    if text not in known:
        raise typer.BadParameter(f"expected one of {', '.join(known)}")
    return text
