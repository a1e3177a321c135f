"""`dpicl contract new`: a first contract from a schema, from answers, or from a look at the rows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from rich.console import Console

from dpicl.cli.contract_ask import Defaults, ask_contract
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
class Wanted:
    """What the command line says of a new contract; `label` and `positive` may be left to the questions."""

    file: Path
    name: str | None
    label: str | None
    positive: tuple[str, ...]
    epsilon: str
    schema: Path | None
    ask: bool

    @property
    def origin(self) -> str:
        """What says bounds and categories; the rows themselves if empty."""
        return " and ".join([*([self.schema.name] if self.schema else []), *(["answers"] if self.ask else [])])


def print_new(wanted: Wanted, settings: Settings, console: Console) -> None:
    """Write a first contract into the folder of contracts, and say what to do with it.

    Raises:
        DpiclError: a file cannot be read, a name or value breaks a rule, or there is such a contract.
        typer.Abort: the questions were not answered to their end; nothing is written.
    """
    name = wanted.name or re.sub("[^a-z0-9]+", "_", wanted.file.name.split(".")[0].lower()).strip("_")
    if name in settings.contract_names():
        raise ParameterError("name", name, "another name: there is such a contract; give one with --name")
    below = _below_data(wanted.file, settings)
    made = _asked(wanted, name, below) if wanted.ask else _drafted(wanted, name, below, settings)
    made.check()
    out = settings.own_contracts() / f"{name}.yaml"
    mode = PRIVATE_MODE if made.looked else PUBLIC_MODE  # a draft by a look tells of rows
    publish(out, lambda file: file.write(made.text.encode()), mode=mode)
    for line in (_counted(made, out), _advice(made, wanted), _next(made, out)):
        console.print(line, highlight=False, soft_wrap=True)


def _below_data(file: Path, settings: Settings) -> str:
    """Where the rows are, as a contract says it; the file is not opened."""
    place = settings.data / file if settings.data and not file.is_absolute() else file
    if settings.data is None or not place.resolve().is_relative_to(settings.data.resolve()):
        raise ParameterError("file", file.name, "a file below the folder that DPICL_DATA names")
    return place.resolve().relative_to(settings.data.resolve()).as_posix()


def _asked(wanted: Wanted, name: str, below: str) -> Draft:
    known, ignored = columns_of_schema(wanted.schema, wanted.file.name) if wanted.schema else ([], ())
    defaults = Defaults(wanted.label, ",".join(wanted.positive) or None, wanted.epsilon)
    return ask_contract(known, ignored, defaults, name=name, file=below, origin=wanted.origin)


def _drafted(wanted: Wanted, name: str, below: str, settings: Settings) -> Draft:
    if wanted.label is None or not wanted.positive:
        raise DpiclError(
            "name the column to predict by --label and its values that count as Yes by --positive, or answer questions with --ask"
        )
    if wanted.schema:
        columns, ignored = columns_of_schema(wanted.schema, wanted.file.name)
    else:
        columns, ignored = columns_of_rows(_rows(Path(settings.data or "", below)), wanted.label, below)
    others = {"name": name, "file": below, "epsilon": read_epsilon(wanted.epsilon), "origin": wanted.origin, "ignored": ignored}
    return assemble(columns, wanted.label, wanted.positive, (wanted.schema or wanted.file).name, **others)


def _rows(path: Path) -> pa.Table:
    """Every column as text."""
    if path.suffix != ".parquet":
        return read_text_table(path)
    table = read_parquet(read_bytes(path), lambda names: names, path.name)
    return pa.table({name: as_text(table.column(name), name, path.name) for name in table.column_names})


def _counted(made: Draft, out: Path) -> str:
    kind = "draft" if made.looked or made.open_count else "contract"
    ignored = (
        f"; {len(made.ignored)} {'column is' if len(made.ignored) == 1 else 'columns are'} left out under `ignore`" if made.ignored else ""
    )
    return f"{out}: a {kind} of {len(made.columns)} columns{ignored}"


def _advice(made: Draft, wanted: Wanted) -> str:
    """Whether rows were looked at, and what is to be replaced by public knowledge."""
    if made.looked:
        return (
            f"It was made by looking at the rows of {wanted.file.name}. Replace every line marked LOOKED by what is publicly known, and "
            "take `draft: true` out; until then nothing is released by it."
        )
    unseen = f"No row of {wanted.file.name} was looked at."
    if made.open_count:
        return (
            f"{unseen} What {made.open_count} of the columns may hold is not known yet: write what is publicly known in every line "
            f"marked FILL IN; until then the contract is refused."
        )
    return f"{unseen} Bounds and categories are those of {made.origin}: replace what somebody read off rows by what is publicly known."


def _next(made: Draft, out: Path) -> str:
    return f"next: dpicl contract check {out}; dpicl protect {made.name} --epsilon {made.epsilon:g} --shots 2 --out demos.jsonl"
