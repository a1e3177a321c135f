"""`dpicl contract new`: from a file to a draft of its contract."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
from rich.console import Console

from dpicl.contract import parse_contract
from dpicl.contract.draft import draft
from dpicl.errors import ParameterError
from dpicl.files.bounded import read_bytes, read_parquet
from dpicl.pipeline import read_epsilon
from dpicl.tabular.parse import as_text
from dpicl.tabular.read import read_text_table
from dpicl.yaml_file import parse_yaml
from tasks.files import PRIVATE_MODE, publish
from tasks.settings import Settings


def print_draft(file: Path, label: str, positive: list[str], epsilon: str, name: str | None, settings: Settings, console: Console) -> None:
    """Write the draft into the folder of contracts, and say what to do with it.

    Raises:
        DpiclError: the file cannot be read, a name or value breaks a rule, or there is such a contract.
    """
    named = name or re.sub("[^a-z0-9]+", "_", file.name.split(".")[0].lower()).strip("_")
    if named in settings.contract_names():
        raise ParameterError("name", named, "another name: there is such a contract; give one with --name")
    place = settings.data / file if settings.data and not file.is_absolute() else file
    if settings.data is None or not place.resolve().is_relative_to(settings.data.resolve()):
        raise ParameterError("file", file.name, "a file below the folder that DPICL_DATA names")
    below = place.resolve().relative_to(settings.data.resolve()).as_posix()
    found = draft(_columns(place), named, below, label=label, positive=positive, epsilon=read_epsilon(epsilon))
    parse_contract(parse_yaml(found.text.encode(), f"{named}.yaml"), f"{named}.yaml")
    out = settings.own_contracts() / f"{named}.yaml"
    publish(out, lambda file: file.write(found.text.encode()), mode=PRIVATE_MODE)  # it tells of rows
    ignored = f"; {len(found.ignored)} columns are left out under `ignore`" if found.ignored else ""
    advice = (
        f"It was made by looking at the rows of {file.name}. Replace every line marked LOOKED by what is publicly known, and take "
        "`draft: true` out; until then nothing is released by it."
    )
    for line in (
        f"{out}: a draft of {found.column_count} columns{ignored}",
        advice,
        f"next: dpicl contract check {out}; dpicl protect {named} --epsilon {epsilon} --shots 2 --out demos.jsonl",
    ):
        console.print(line, highlight=False, soft_wrap=True)


def _columns(path: Path) -> pa.Table:
    """Every column as text."""
    if path.suffix != ".parquet":
        return read_text_table(path)
    table = read_parquet(read_bytes(path), lambda names: names, path.name)
    return pa.table({name: as_text(table.column(name), name, path.name) for name in table.column_names})
