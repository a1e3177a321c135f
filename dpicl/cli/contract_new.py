"""`dpicl contract new`: a first contract from a schema, from answers, or from a look at the rows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from dpicl.cli.contract_ask import ask_contract
from dpicl.cli.terminal import say
from dpicl.contract.draft import Draft, assemble
from dpicl.contract.draft_rows import columns_of_rows
from dpicl.contract.draft_schema import columns_of_schema
from dpicl.engine.files import PRIVATE_MODE, PUBLIC_MODE, publish
from dpicl.engine.settings import Settings
from dpicl.errors import DpiclError, ParameterError
from dpicl.files.bounded import read_bytes, read_parquet
from dpicl.pipeline import read_epsilon
from dpicl.tabular.reading.parse import as_text
from dpicl.tabular.reading.read import read_text_table


@dataclass(frozen=True)
class NewContract:
    """The command line of `contract new`; with `ask`, `label` and `positive` may be empty."""

    file: Path
    name: str | None
    label: str | None
    positive: tuple[str, ...]
    epsilon: str
    schema: Path | None
    ask: bool


def write_contract(wanted: NewContract, settings: Settings) -> None:
    """Write a first contract into the folder of contracts, and print what to do with it.

    Raises:
        DpiclError: a file cannot be read, a name or value breaks a rule, or the contract exists.
        typer.Abort: the questions were not answered to their end; nothing is written.
    """
    name = wanted.name or re.sub("[^a-z0-9]+", "_", wanted.file.name.split(".")[0].lower()).strip("_")
    if name in settings.contract_names():
        raise ParameterError("name", name, "another name: this contract exists; give one with --name")
    draft = _draft(wanted, name, settings)
    draft.check()
    out = settings.own_contracts() / f"{name}.yaml"
    mode = PRIVATE_MODE if draft.looked else PUBLIC_MODE  # a draft from the rows discloses some of them
    publish(out, lambda file: file.write(draft.text.encode()), mode=mode)
    kind, count = "draft" if draft.looked or draft.open_count else "contract", len(draft.ignored)
    ignored = f"; {count} {'column is' if count == 1 else 'columns are'} left out under `ignore`" if count else ""
    say(f"{out}: a {kind} of {len(draft.columns)} columns{ignored}", _advice(draft, wanted.file.name))
    say(f"next: dpicl contract check {out}; dpicl protect {name} --epsilon {draft.epsilon:g} --shots 2 --out demos.jsonl")


def _draft(wanted: NewContract, name: str, settings: Settings) -> Draft:
    if settings.data is None or not (place := (settings.data / wanted.file).resolve()).is_relative_to(settings.data.resolve()):
        raise ParameterError("file", wanted.file.name, "a file below the folder that DPICL_DATA names")
    file = place.relative_to(settings.data.resolve()).as_posix()
    columns, ignored = columns_of_schema(wanted.schema, wanted.file.name) if wanted.schema else ([], ())
    origin = " and ".join([*([wanted.schema.name] if wanted.schema else []), *(["answers"] if wanted.ask else [])])
    if wanted.ask:
        positive = ",".join(wanted.positive) or None
        return ask_contract(
            columns, ignored, label=wanted.label, positive=positive, epsilon=wanted.epsilon, name=name, file=file, origin=origin
        )
    if wanted.label is None or not wanted.positive:
        raise DpiclError(
            "name the column to predict by --label and its values that count as Yes by --positive, or answer questions with --ask"
        )
    if not wanted.schema:
        if place.suffix == ".parquet":
            table = read_parquet(read_bytes(place), lambda names: names, place.name)
            rows = pa.table({name: as_text(table.column(name), name, place.name) for name in table.column_names})
        else:
            rows = read_text_table(place)
        columns, ignored = columns_of_rows(rows, wanted.label, file)
    others = {"name": name, "file": file, "epsilon": read_epsilon(wanted.epsilon), "origin": origin, "ignored": ignored}
    return assemble(columns, wanted.label, wanted.positive, (wanted.schema or wanted.file).name, **others)


def _advice(draft: Draft, file: str) -> str:
    """Whether rows were looked at, and what is to be replaced by public knowledge."""
    if draft.looked:
        return (
            f"It was made by looking at the rows of {file}. Replace every line marked LOOKED by what is publicly known, and "
            "take `draft: true` out; until then nothing is released by it."
        )
    unseen = f"No row of {file} was looked at."
    if draft.open_count:
        columns = "1 column" if draft.open_count == 1 else f"{draft.open_count} columns"
        return (
            f"{unseen} Bounds or categories of {columns} are not known yet: write what is publicly known in every line "
            "marked FILL IN; until then the contract is refused."
        )
    return f"{unseen} Bounds and categories are those of {draft.origin}: replace any that were read off rows by what is publicly known."
