"""The commands on contracts and data sets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dpicl.cli.options import MANY, split_values
from dpicl.cli.terminal import INTERRUPTED, console
from dpicl.engine.settings import Settings
from dpicl.errors import DpiclError

contract_app = typer.Typer(help="Check and show contracts: what is publicly known about a data set.", no_args_is_help=True)
data_app = typer.Typer(help="List, fetch and publish the data sets that the contracts name.", no_args_is_help=True)


@contract_app.command("new")
def new_contract(
    file: Annotated[Path, typer.Argument(help="A CSV or Parquet file below DPICL_DATA; with --schema or --ask it is not opened.")],
    schema: Annotated[
        Path | None, typer.Option(help="Take columns from this Table Schema, Data Package or JSON Schema, or a .parquet file's types.")
    ] = None,
    ask: Annotated[bool, typer.Option("--ask", help="Ask for columns, bounds and categories; with --schema, for what it lacks.")] = False,
    label: Annotated[str | None, typer.Option(help="The column to predict; --ask asks for it.")] = None,
    positive: Annotated[str | None, typer.Option(help=f"Its values that count as Yes: {MANY}; --ask asks for them.")] = None,
    epsilon: Annotated[str, typer.Option(help="What all releases of these rows together may cost.")] = "1",
    name: Annotated[str | None, typer.Option(help="Name of the contract; the file's if left out.")] = None,
) -> None:
    """Write a first contract for a table, from a schema or from answers; with neither it looks at the rows, and is a draft only."""
    from dpicl.cli.contract_new import Wanted, print_new

    wanted = Wanted(file, name, label, tuple(split_values(positive or "")), epsilon, schema, ask)
    try:
        print_new(wanted, Settings.from_environment(), console)
    except typer.Abort as stopped:
        if isinstance(stopped.__context__, EOFError):
            raise DpiclError("the answers end before the questions do; nothing is written") from None
        sys.stderr.write("\ndpicl: interrupted; nothing is written\n")
        raise SystemExit(INTERRUPTED) from None


@contract_app.command("check")
def check(file: Annotated[Path, typer.Argument(help="A contract file.")]) -> None:
    """Check one contract file."""
    from dpicl.cli.contract_view import contract_line
    from dpicl.contract import load_contract

    console.print(f"{file.name}: ok: {contract_line(load_contract(file))}", highlight=False)


@contract_app.command("show")
def show(name: Annotated[str, typer.Argument(help="Name of a data set.")]) -> None:
    """Show what a contract says about a data set."""
    from dpicl.cli.contract_view import contract_table

    contract_table(Settings.from_environment().declared(name), console)


@data_app.command("list")
def list_data() -> None:
    """Show the data sets, and which of them are at hand."""
    from dpicl.cli.contract_view import data_table

    data_table(Settings.from_environment(), console)


@data_app.command("fetch")
def fetch(name: Annotated[str, typer.Argument(help="Name of a data set.")]) -> None:
    """Fetch a data set from OpenML or UCI into the cache, checked against its digest."""
    from dpicl.contract import Contract
    from dpicl.tabular.reading.source import fetch as fetch_source

    settings = Settings.from_environment()
    contract = settings.declared(name)
    if not isinstance(contract, Contract):
        raise DpiclError(f"{name}: texts are not fetched; put the files that its contract names below DPICL_DATA")
    path = fetch_source(contract, settings.own("cache"))
    console.print(f"{name}: {path}", highlight=False, soft_wrap=True)


@data_app.command("publish")
def publish(
    name: Annotated[str, typer.Argument(help="Name of a data set whose contract says `benchmark: true`.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Declare that a table or set of texts is public: no budget, exact metrics."""
    from dpicl.engine.benchmarks import declare, read_content

    settings = Settings.from_environment()
    found = read_content(settings.declared(name), settings)
    told = "Anyone may learn them: runs on them have no budget, seeded noise and exact metrics. Once they change they are no longer public."
    console.print(f"{name}: {found.rows} rows of {settings.declared(name).source.title}\n{told}", highlight=False, soft_wrap=True)
    if not yes and not sys.stdin.isatty():
        raise DpiclError(f"{name}: nothing is published, as nobody can be asked here; expected --yes")
    if not yes and not typer.confirm("Publish them?"):
        raise DpiclError(f"{name}: nothing is published")
    declare(name, found, settings)
    console.print(f"{name}: published, digest {found.digest[:12]}", highlight=False)
