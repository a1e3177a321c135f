"""The commands on contracts and data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpicl.errors import DpiclError
from flows.terminal import console
from tasks.settings import Settings

contract_app = typer.Typer(help="Check and show contracts: what is publicly known about a data set.", no_args_is_help=True)
data_app = typer.Typer(help="List and fetch the data sets that the contracts name.", no_args_is_help=True)

MANY = "several values parted by commas"


def split_values(text: str) -> list[str]:
    """The values of an option that takes several."""
    return [part.strip() for part in text.split(",") if part.strip()]


@contract_app.command("new")
def new_contract(
    file: Annotated[Path, typer.Argument(help="A CSV or Parquet file below DPICL_DATA.")],
    label: Annotated[str, typer.Option(help="The column to predict.")],
    positive: Annotated[str, typer.Option(help=f"Its values that count as Yes: {MANY}.")],
    epsilon: Annotated[str, typer.Option(help="What all releases of these rows together may cost.")] = "1",
    name: Annotated[str | None, typer.Option(help="Name of the contract; the file's if left out.")] = None,
) -> None:
    """Write a first contract for a table: a draft, which releases nothing until public knowledge stands in it."""
    from flows.contract_new import print_draft

    print_draft(file, label, split_values(positive), epsilon, name, Settings.from_environment(), console)


@contract_app.command("check")
def check(file: Annotated[Path, typer.Argument(help="A contract file.")]) -> None:
    """Check one contract file."""
    from dpicl.contract import load_contract
    from flows.contract_view import contract_line

    console.print(f"{file.name}: ok: {contract_line(load_contract(file))}", highlight=False)


@contract_app.command("show")
def show(name: Annotated[str, typer.Argument(help="Name of a data set.")]) -> None:
    """Show what a contract says about a data set."""
    from flows.contract_view import contract_table

    contract_table(Settings.from_environment().declared(name), console)


@data_app.command("list")
def list_data() -> None:
    """Show the data sets, and which of them are at hand."""
    from flows.contract_view import data_table

    data_table(Settings.from_environment(), console)


@data_app.command("fetch")
def fetch(name: Annotated[str, typer.Argument(help="Name of a data set.")]) -> None:
    """Fetch a data set from OpenML or UCI into the cache, checked against its digest."""
    from dpicl.contract import Contract
    from dpicl.tabular.source import fetch as fetch_source

    settings = Settings.from_environment()
    contract = settings.declared(name)
    if not isinstance(contract, Contract):
        raise DpiclError(f"{name}: texts are not fetched; put the files that its contract names below DPICL_DATA")
    path = fetch_source(contract, settings.cache)
    console.print(f"{name}: {path}", highlight=False, soft_wrap=True)
