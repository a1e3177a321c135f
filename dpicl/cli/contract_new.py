"""`dpicl contract new`: a first contract from a schema, from answers, or from a look at the
rows.

Questions whose answers make a contract: no row is read, and a wrong answer gets one sentence and
the question again.
"""

from __future__ import annotations

import gzip
import json
import re
from bisect import bisect_left
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from math import floor, log10
from pathlib import Path
from typing import Any, TypeVar, cast

import pyarrow as pa
import pyarrow.parquet as pq
import typer

from dpicl.cli.terminal import note, say, split_values
from dpicl.contract import Contract
from dpicl.contract.columns import TYPES
from dpicl.contract.columns.category import FALSE, TRUE, CategoryColumn, written_type
from dpicl.contract.declared import CSV, TSV, Budget, Person, Source
from dpicl.contract.draft import UNNAMED, Draft, DraftColumn, assembled, can_be_named
from dpicl.contract.draft_columns import DATES_OTHERWISE, NUMBERS_OTHERWISE
from dpicl.contract.draft_schema import ODCS, PublishedSchema, read_schema
from dpicl.contract.pipeline import read_epsilon
from dpicl.data.reading.look import looked_at, texts_of
from dpicl.data.reading.parse import check_distinct
from dpicl.data.reading.written import all_columns, looks_rewritten, written_as
from dpicl.ground.errors import DeclarationError, DpiclError, ParameterError
from dpicl.ground.files import PRIVATE_MODE, PUBLIC_MODE, write_text
from dpicl.ground.nouns import many
from dpicl.ground.printable import tell_holder
from dpicl.ground.records import read_bytes, read_parquet
from dpicl.ground.validation import validate
from dpicl.ground.yaml_file import typed_value
from dpicl.home.settings import Settings
from dpicl.methods import DEFAULTS, Options, tabular, unit_of
from dpicl.methods.grid import points
from dpicl.quality import Quality
from dpicl.quality.gate import doubtful
from dpicl.quality.worth import ReleasePoint

_WAYS = {
    DATES_OTHERWISE: "of 25.11.2026 say --dates %d.%m.%Y",
    NUMBERS_OTHERWISE: "of 3,5 say --decimal ,",
}
"""Why a column is left out, and what to do about it."""
_EPSILONS = (1, 2, 3, 5, 10)
_LONGEST_LINE, _LONGEST_NAME = 1 << 20, 60


@dataclass(frozen=True)
class NewContract:
    """The command line of `contract new`."""

    file: Path
    name: str | None
    label: str | None
    positive: tuple[str, ...]
    epsilon: str | None
    population: int | None
    schema: Path | None
    table: str | None
    ask: bool
    decimal: str | None = None
    dates: str | None = None


def write_contract(wanted: NewContract, settings: Settings) -> None:
    """Write a first contract into the folder of contracts, and print what to do with it.

    Raises:
        DpiclError: a file cannot be read, a name or value breaks a rule, or the contract exists.
        typer.Abort: the questions were not answered to their end; nothing is written.
    """
    plain = re.sub("[^a-z0-9]+", "_", wanted.file.name.split(".")[0].lower()).strip("_")
    name = wanted.name or (plain if plain[:1].isalpha() else f"table_{plain}".rstrip("_"))[:40]
    if name in settings.contract_files():  # one that replaces a shipped contract is written by hand
        exists = settings.contract_files()[name]
        or_remove = ", or remove that file" * (exists.parent == settings.contracts)
        raise ParameterError(
            "name", name, f"another one by --name: this contract exists, in {exists}{or_remove}"
        )
    draft = _draft(wanted, name, settings)
    contract = draft.contract()
    out = settings.contracts / f"{name}.yaml"
    # a draft from the rows discloses some of them
    write_text(out, draft.text, mode=PRIVATE_MODE if draft.looked else PUBLIC_MODE)
    kind = "draft" if draft.looked or draft.open_count else "contract"
    count = len(draft.ignored)
    ignored = (
        f"; {count} {'column is' if count == 1 else 'columns are'} left out under `ignore`"
        if count
        else ""
    )
    say(
        f"{out}: a {kind} of {many(len(draft.columns), 'column')}{ignored}",
        *(f"left out: {line}" for line in draft.left_out),
    )
    for column in draft.columns:
        if column.missing:  # which are values of rows
            words = json.dumps(list(column.missing), ensure_ascii=False)
            tell_holder(
                f"{column.name}: numbers but for these words, which the draft takes for missing "
                f"values: `missing: {words}`"
            )
    if draft.looked and draft.person is not None:
        say(
            f"{draft.person[0]} repeats: the draft protects persons, with at most "
            f"{draft.person[1]} rows of each"
        )
    if draft.looked:
        advice = (
            f"It was made by looking at the rows of {wanted.file.name}. Replace every line marked "
            f"LOOKED by what is publicly known, and "
            "take `draft: true` out; until then nothing is released by it."
        )
    else:
        columns = many(draft.open_count, "column")
        advice = f"No row of {wanted.file.name} was looked at. Bounds "
        advice += (
            f"or categories of {columns} are not known yet from {draft.origin}: write what is "
            "publicly known in every line marked FILL IN; until then the contract is refused."
            if draft.open_count
            else f"and categories are those of {draft.origin}: replace any that were read off rows "
            f"by what is publicly known."
        )
    release = _doubtful(contract, draft.epsilon)
    if draft.stated:
        cap = "no cap, since it says that the rows are public," if contract.is_benchmark else "cap"
        advice += f" Unit, neighbours, {cap} and all else are those of {draft.origin}."
    elif draft.origin.startswith(ODCS):
        lacking = f"unit {contract.privacy.unit}, neighbours {contract.privacy.neighbours}"
        lacking += f", sampling rate {contract.privacy.sampling_rate}"
        cap = f" and cap epsilon {draft.epsilon:g}" if wanted.epsilon is None else ""
        advice += (
            f" It states no privacy: {lacking}{cap} are defaults of `contract new`; check them in "
            f"{out.name}."
        )
    note(advice, *([f"warning: {release.warning}"] if release else []))
    if draft.written.get("delimiter") == ";" and "decimal" not in draft.written:
        note(
            f"The columns of {wanted.file.name} are separated by `;`. If its numbers are written "
            "as 3,5 or its dates as 25.11.2026, say so: --decimal , --dates %d.%m.%Y"
        )
    shots = contract.shots[min(1, len(contract.shots) - 1)]
    plan = f"dpicl plan {name}; " if draft.population else ""
    note(
        f"next: dpicl contract check {name}; {plan}dpicl protect {name} --epsilon "
        f"{_part(draft.epsilon):g} --shots {shots} --out demos.jsonl"
    )


def _part(cap: float) -> float:
    """What a first release may cost, so that at least half of the cap is left: 1, 2 or 5 times a
    power of ten.
    """
    power = floor(log10(cap / 2))
    return max(
        part
        for exponent in (power, power - 1)
        for digit in "125"
        if (part := float(f"{digit}e{exponent}")) <= cap / 2
    )


def _first_epsilon(draft: Draft) -> float:
    """The least of a few epsilons whose release needs no warning at the stated number of rows: each
    that is tried takes seconds.
    """
    if draft.population is None:
        return draft.epsilon
    contract = draft.contract()
    first = bisect_left(_EPSILONS, True, key=lambda epsilon: _doubtful(contract, epsilon) is None)
    return _EPSILONS[min(first, len(_EPSILONS) - 1)]


def _doubtful(contract: Contract, epsilon: float) -> Quality | None:
    """The release that is made where no method is named, if it needs a warning."""
    method = tabular(DEFAULTS["central"])
    unit = unit_of(method.name, contract.name, 0, (epsilon,), (1,), (), False, Options())
    asked = points(method, unit).values()
    return doubtful(ReleasePoint(contract, method, point) for point in asked)


def _draft(wanted: NewContract, name: str, settings: Settings) -> Draft:
    if settings.data is None or not (
        place := (settings.data / wanted.file).resolve()
    ).is_relative_to(settings.data.resolve()):
        here = "; say `export DPICL_DATA=$PWD`" if wanted.file.is_file() else ""
        raise ParameterError(
            "file",
            wanted.file.name,
            "a file below the folder that DPICL_DATA names: "
            + ("it is not set" if settings.data is None else str(settings.data.resolve()))
            + here,
        )
    if wanted.table is not None and wanted.schema is None:
        raise ParameterError("table", wanted.table, "--schema beside it")
    file = place.relative_to(settings.data.resolve()).as_posix()
    told = {"decimal": wanted.decimal, "dates": wanted.dates}
    written = {key: value for key, value in told.items() if value is not None}
    if place.is_file():  # how the file is written is told by its first line, in which no row is
        written = written_as(_first_line(place), place.name) | written
    source = validate(Source, {"file": file, **written}, f"{name}.yaml")
    schema = None
    if wanted.schema:
        schema = read_schema(wanted.schema, place.name, wanted.table, written)
        of_schema = dict(schema.written)
        if place.is_file():  # its first line says that, and of a comma nothing
            of_schema.pop("delimiter", None)
        written = {**of_schema, **written}
    if schema and schema.stated:
        blank = Draft(name, file, schema.columns, None, ())
        return _without_others(_as_stated(schema, wanted, blank, written), place)
    stated = Draft(
        name,
        file,
        schema.columns if schema else (),
        wanted.label,
        tuple(wanted.positive),
        population=wanted.population,
        origin=" and ".join(
            [*([schema.origin] if schema else []), *(["answers"] if wanted.ask else [])]
        ),
        ignored=schema.ignored if schema else {},
        written=written,
    )
    if wanted.ask:
        return _without_others(ask_contract(stated, wanted.epsilon), place)
    if not wanted.schema:
        rows, unread, written = _rows(place, source, written)
        stated = replace(stated, ignored=unread, written=written)
        stated = looked_at(rows, stated, wanted.file.name, _WAYS)
    draft = assembled(stated, (wanted.schema or wanted.file).name)
    if wanted.schema:
        draft = _without_others(draft, place)
    return replace(
        draft,
        epsilon=_first_epsilon(draft) if wanted.epsilon is None else read_epsilon(wanted.epsilon),
    )


def _without_others(draft: Draft, place: Path) -> Draft:
    """The same, with columns that its file has besides under `ignore`. They are known by the names
    in the file's first line, or in the footer of Parquet; no row is read. A first line in which
    a described column is missing may be a row, and is told of by the release's refusal.
    """
    contract = draft.contract()
    source = contract.source
    try:
        if place.suffix == ".parquet":
            names = pq.read_schema(place).names
        elif place.name.endswith((*CSV, *TSV)):
            names = all_columns(_first_line(place), place.name, source).column_names
        else:
            return draft
    except (DpiclError, OSError, pa.ArrowException):
        return draft  # as the file is read, that is said
    names = [source.rename.get(name, name) for name in names]
    if not set(contract.read_columns) <= set(names):
        return draft
    known = {*contract.read_columns, *source.ignore}
    others = {name: f"not in {draft.origin}" for name in names if name not in known}
    return replace(draft, ignored={**draft.ignored, **others})


def _as_stated(
    schema: PublishedSchema, wanted: NewContract, draft: Draft, written: dict[str, Any]
) -> Draft:
    """The contract that a data contract states whole, of the rows at hand.

    Raises:
        ParameterError: an option would say something else beside it.
    """
    options = ("label", "positive", "epsilon", "population", "ask")
    for option in options:
        if value := getattr(wanted, option):
            assert wanted.schema is not None
            raise ParameterError(
                option,
                value,
                f"no such option beside {wanted.schema.name}, which states a whole contract; "
                "change the contract that is made of it",
            )
    return replace(
        draft,
        epsilon=schema.stated["privacy"]["budget"].get("epsilon", draft.epsilon),
        population=schema.stated.get("population"),
        origin=schema.origin,
        ignored=schema.ignored,
        written=written,
        stated=schema.stated,
    )


def _first_line(place: Path) -> bytes:
    try:
        with gzip.open(place) if place.suffix == ".gz" else place.open("rb") as file:
            return file.readline(_LONGEST_LINE)
    except (OSError, EOFError):
        return b""  # as the file is read, that is said


def _rows(
    place: Path, source: Source, written: dict[str, Any]
) -> tuple[pa.Table, dict[str, str], dict[str, Any]]:
    """All columns as text, by names that a contract can write; {column of Parquet that holds
    something else: why it is left out}; and how the file is written, with these names.

    Raises:
        DataError: the file cannot be read, or holds no table.
    """
    table, unread = _of_parquet(place) if place.suffix == ".parquet" else (None, {})
    if table is None:
        data = read_bytes(place)
        written = written_as(data, place.name) | written  # letters of rows tell an encoding too
        source = source.model_copy(update=written)
        table = all_columns(data, place.name, source)
        looks = [looks_rewritten(column, source) for column in table.columns]
        table = pa.table(looks, names=table.column_names)
    rename: dict[str, str] = {}
    for name in table.column_names:
        short = " ".join(name.split())[:_LONGEST_NAME].strip()
        is_free = short not in (*table.column_names, *rename.values())
        if not can_be_named(name) and can_be_named(short) and is_free:
            rename[name] = short
    table = table.rename_columns([rename.get(name, name) for name in table.column_names])
    return table, unread, {**written, **({"rename": rename} if rename else {})}


def _of_parquet(place: Path) -> tuple[pa.Table, dict[str, str]]:
    table = read_parquet(read_bytes(place), lambda names: names, place.name)
    check_distinct(table.column_names, place.name)
    return texts_of(table, place.name)


Answer = TypeVar("Answer")
_TYPES = (*sorted(TYPES, key=lambda name: TYPES[name].stated_in == "bounds"), "ignored")
_GAPS = "?"


def ask_contract(stated: Draft, epsilon: str | None) -> Draft:
    """Ask for the contents of a contract.

    Args:
        stated: with the columns of a schema, of which only open bounds and categories are asked, or
            none, so that columns are asked for. Its label, its values and its population are what
            an empty answer stands for, as `epsilon` is.

    Raises:
        typer.Abort: interrupted, or there are no more answers.
    """
    columns: dict[str, DraftColumn | None] = dict.fromkeys(stated.ignored)
    columns |= {
        column.name: _ask_column(column.name, column) if column.is_open else column
        for column in stated.columns
    }
    while not stated.columns and (name := _ask_name(columns)):
        columns[name] = _ask_column(name)
    described = {name: column for name, column in columns.items() if column is not None}
    outcome, values = _ask_label(described, stated.label, ",".join(stated.positive) or None)

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
        str(stated.population or ""),
    )
    draft = assembled(
        replace(
            stated,
            columns=tuple(described.values()),
            label=outcome,
            positive=tuple(values),
            population=total,
            ignored={},
        ),
        "the answers",
    )
    cap = _ask(
        "epsilon that all releases of these rows together may cost",
        lambda text: cast(
            float, validate(Budget, {"epsilon": typed_value(text)}, "budget").epsilon
        ),
        epsilon or f"{_first_epsilon(draft):g}",
    )
    person = _ask(
        "column that identifies a person, if a person may have several rows; else empty",
        id_column,
        "",
    )
    rows = _ask("maximum rows of one person in a release", row_count, "1") if person else 0
    dropped = {
        name: stated.ignored.get(name, "as answered")
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
        values = [typed_value(value) for value in stated] if kind.plain else stated
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
