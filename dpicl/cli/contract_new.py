"""`dpicl contract new`: a first contract from a schema, from answers, or from a look at the
rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dpicl.cli.contract_ask import ask_contract
from dpicl.cli.terminal import note, say
from dpicl.contract import Contract
from dpicl.contract.draft import Draft, assemble
from dpicl.contract.draft_rows import columns_of_rows, missing_marker, person_of_rows
from dpicl.contract.draft_schema import columns_of_schema
from dpicl.engine.files import PRIVATE_MODE, PUBLIC_MODE, write_text
from dpicl.engine.settings import Settings
from dpicl.errors import DataError, ParameterError
from dpicl.files.bounded import read_bytes, read_parquet
from dpicl.methods import DEFAULTS, Options, unit_of
from dpicl.pipeline import read_epsilon
from dpicl.planning.noise import NoisyRelease, noisy_releases
from dpicl.tabular.reading.arrow_types import check_taken
from dpicl.tabular.reading.header import check_commas, check_distinct
from dpicl.tabular.reading.parse import as_text
from dpicl.tabular.reading.read import read_text_table

_EPSILONS = (1, 2, 3, 5, 10)


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
    ask: bool


def write_contract(wanted: NewContract, settings: Settings) -> None:
    """Write a first contract into the folder of contracts, and print what to do with it.

    Raises:
        DpiclError: a file cannot be read, a name or value breaks a rule, or the contract exists.
        typer.Abort: the questions were not answered to their end; nothing is written.
    """
    plain = re.sub("[^a-z0-9]+", "_", wanted.file.name.split(".")[0].lower()).strip("_")
    name = wanted.name or (plain if plain[:1].isalpha() else f"table_{plain}".rstrip("_"))[:40]
    if name in settings.contract_files():  # one that replaces a shipped contract is written by hand
        raise ParameterError(
            "name", name, "another name: this contract exists; give one with --name"
        )
    draft = _draft(wanted, name, settings)
    contract = draft.contract()
    out = settings.contracts / f"{name}.yaml"
    # a draft from the rows discloses some of them
    mode = PRIVATE_MODE if draft.looked else PUBLIC_MODE
    write_text(out, draft.text, mode=mode)
    kind, count = "draft" if draft.looked or draft.open_count else "contract", len(draft.ignored)
    ignored = (
        f"; {count} {'column is' if count == 1 else 'columns are'} left out under `ignore`"
        if count
        else ""
    )
    say(
        f"{out}: a {kind} of {len(draft.columns)} columns{ignored}",
        *(f"left out: {line}" for line in draft.left_out),
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
        columns = "1 column" if draft.open_count == 1 else f"{draft.open_count} columns"
        advice = f"No row of {wanted.file.name} was looked at. Bounds "
        advice += (
            f"or categories of {columns} are not known yet: write what is publicly known in every "
            f"line marked FILL IN; until then the "
            "contract is refused."
            if draft.open_count
            else f"and categories are those of {draft.origin}: replace any that were read off rows "
            f"by what is publicly known."
        )
    note(advice, *(f"warning: {one.sentence}" for one in _noise(contract, draft.epsilon)))
    shots = contract.shots[min(1, len(contract.shots) - 1)]
    plan = f"dpicl plan {name}; " if draft.population else ""
    note(
        f"next: dpicl contract check {name}; {plan}dpicl protect {name} --epsilon "
        f"{draft.epsilon:g} --shots {shots} --out demos.jsonl"
    )


def _first_epsilon(draft: Draft) -> float:
    """The least of a few epsilons at which noise is no notable part of a release at the stated
    number of rows.
    """
    if draft.population is None:
        return draft.epsilon
    contract = draft.contract()
    return next((one for one in _EPSILONS if not _noise(contract, one)), _EPSILONS[-1])


def _noise(contract: Contract, epsilon: float) -> list[NoisyRelease]:
    """The release that is made where no method is named, if noise is a notable part of it."""
    unit = unit_of(DEFAULTS["central"], contract.name, 0, (epsilon,), (1,), (), False, Options())
    return list(noisy_releases(contract, unit))


def _draft(wanted: NewContract, name: str, settings: Settings) -> Draft:
    if settings.data is None or not (
        place := (settings.data / wanted.file).resolve()
    ).is_relative_to(settings.data.resolve()):
        raise ParameterError(
            "file", wanted.file.name, "a file below the folder that DPICL_DATA names"
        )
    others: dict[str, Any] = {
        "name": name,
        "file": place.relative_to(settings.data.resolve()).as_posix(),
    }
    others["origin"] = " and ".join(
        [*([wanted.schema.name] if wanted.schema else []), *(["answers"] if wanted.ask else [])]
    )
    columns, others["ignored"] = (
        columns_of_schema(wanted.schema, wanted.file.name) if wanted.schema else ([], {})
    )
    if wanted.ask:
        positive = ",".join(wanted.positive) or None
        others |= {"population": wanted.population, "suggest": _first_epsilon}
        return ask_contract(
            columns, label=wanted.label, positive=positive, epsilon=wanted.epsilon, **others
        )
    if not wanted.schema:
        rows, unread = _rows(place)
        if (marker := missing_marker(rows)) is not None:
            others["missing"] = marker
            filled = [pc.if_else(pc.equal(column, marker), "", column) for column in rows.columns]
            rows = pa.table(filled, names=rows.column_names)
        others["person"] = person = person_of_rows(rows, wanted.label)
        if person is not None:
            rows = rows.drop_columns([person[0]])
        columns, ignored = columns_of_rows(
            rows, wanted.label, bool(wanted.positive), wanted.file.name
        )
        others["ignored"] = {**unread, **ignored}
    draft = assemble(
        columns,
        wanted.label,
        wanted.positive,
        (wanted.schema or wanted.file).name,
        population=wanted.population,
        **others,
    )
    return replace(
        draft,
        epsilon=_first_epsilon(draft) if wanted.epsilon is None else read_epsilon(wanted.epsilon),
    )


def _rows(place: Path) -> tuple[pa.Table, dict[str, str]]:
    """All columns as text, and {column of Parquet that holds something else: why it is left out}.

    Raises:
        DataError: the file cannot be read, or holds no table.
    """
    if place.suffix != ".parquet":
        table = read_text_table(place)
        check_commas(table.column_names, place.name)
        return table, {}
    table = read_parquet(read_bytes(place), lambda names: names, place.name)
    check_distinct(table.column_names, place.name)
    texts, unread = {}, {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        floating = pa.types.is_floating(column.type)
        try:
            check_taken(column.type, "categories", name, place.name)
            texts[name] = as_text(
                pc.if_else(pc.is_nan(column), None, column) if floating else column,
                name,
                place.name,
            )
        except DataError as error:
            unread[name] = error.rule
    return pa.table(texts), unread
