"""The commands on contracts and data sets, and the one that rebuilds a ledger."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dpicl.cli import options
from dpicl.cli.options import MANY, AsJson, ContractName
from dpicl.cli.terminal import say, split_values
from dpicl.ground.errors import DpiclError, ParameterError
from dpicl.ground.nouns import many
from dpicl.ground.shutdown import INTERRUPTED
from dpicl.home.settings import Settings

contract_app = typer.Typer(
    help="Write, check and show contracts. A contract says what is publicly known about a data set.",  # noqa: E501
    no_args_is_help=True,
)
data_app = typer.Typer(help="List, fetch and publish data sets.", no_args_is_help=True)
ledger_app = typer.Typer(help="Rebuild the ledger.", no_args_is_help=True)


@contract_app.command("new")
def new_contract(
    file: Annotated[
        Path,
        typer.Argument(
            help="A file below DPICL_DATA, of CSV, TSV, JSON lines, Excel or Parquet; with "
            "--schema or --ask only its header line is read."
        ),
    ],
    schema: Annotated[
        Path | None,
        typer.Option(
            help="Take columns from this Table Schema, Data Package, JSON Schema, dbt schema.yml "
            "or ODCS data contract, or a .parquet file's types."
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            help="With --schema of several tables: which of them. Default: the file's name."
        ),
    ] = None,
    ask: Annotated[
        bool,
        typer.Option(
            "--ask",
            help="Ask for columns, bounds and categories; with --schema, for what it lacks.",
        ),
    ] = False,
    label: Annotated[
        str | None,
        typer.Option(help="The column to predict. Default: none; with --ask, what is answered."),
    ] = None,
    positive: Annotated[
        str | None,
        typer.Option(
            help=f"Values of the label that count as positive, {MANY}. Default: each value is a "
            "class of its own, and a number is predicted as a number."
        ),
    ] = None,
    epsilon: Annotated[
        str | None,
        typer.Option(
            help="Privacy budget: epsilon of all releases of these rows together. Default: by "
            "--population, or 3."
        ),
    ] = None,
    population: Annotated[
        int | None,
        typer.Option(
            min=1, help="About how many rows there are, as publicly stated; they are never counted."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the contract. Default: the file's name.")
    ] = None,
    decimal: Annotated[
        str | None, typer.Option(help="Decimal mark of the file's numbers: , if they are as 3,5.")
    ] = None,
    dates: Annotated[
        str | None,
        typer.Option(help="Form of the file's dates: %d.%m.%Y if they are as 25.11.2026."),
    ] = None,
) -> None:
    """Write a first contract for a table. It is made from a schema or from answers; else from the
    rows, as a draft that releases nothing.
    """
    from dpicl.cli.contract_new import NewContract, write_contract

    wanted = NewContract(
        file=file,
        name=name,
        label=label,
        positive=tuple(split_values(positive or "")),
        epsilon=epsilon,
        population=population,
        schema=schema,
        table=table,
        ask=ask,
        decimal=decimal,
        dates=dates,
    )
    try:
        write_contract(wanted, Settings.from_environment())
    except typer.Abort as stopped:
        if isinstance(stopped.__context__, EOFError):
            raise DpiclError(
                "the answers end before the questions do; nothing was written"
            ) from None
        sys.stderr.write("\ndpicl: interrupted; nothing was written\n")
        raise SystemExit(INTERRUPTED) from None


@contract_app.command("check")
def check(
    contract: Annotated[
        str,
        typer.Argument(help="Name of a contract, or its file.", autocompletion=options.contracts),
    ],
    as_json: AsJson = False,
) -> None:
    """Check a contract. Shows which lines nobody has replaced yet, what is derived from its
    columns, and what to think over.
    """
    from dpicl.cli.contract_view import print_checked

    print_checked(contract, Settings.from_environment(), as_json=as_json)


@contract_app.command("show")
def show(
    contract: ContractName,
    form: Annotated[
        str | None,
        typer.Option(
            "--as",
            help="odcs: as an Open Data Contract Standard data contract, of a table. Default: a "
            "page for people.",
        ),
    ] = None,
) -> None:
    """Show what a contract says about a data set."""
    from dpicl.cli.contract_view import print_contract, print_odcs

    settings = Settings.from_environment()
    if form is None:
        replaced = settings.replaces_shipped(contract)
        print_contract(settings.declared(contract), replaces_shipped=replaced)
    elif form == "odcs":
        print_odcs(settings.contract(contract))
    else:
        raise ParameterError("as", form, "odcs")


@data_app.command("list")
def list_data() -> None:
    """List the data sets, and which of them are on this machine."""
    from dpicl.cli.contract_view import print_data_sets

    print_data_sets(Settings.from_environment())


@data_app.command("fetch")
def fetch(contract: ContractName) -> None:
    """Download a published data set, and check its digests.

    A table comes from OpenML or UCI, texts from the hub (HF_ENDPOINT names a mirror) or their
    address; a broken download of texts is continued.
    """
    from dpicl.contract import TextContract
    from dpicl.data.reading.source import fetch as fetch_source
    from dpicl.home.benchmarks import fetch_published

    settings = Settings.from_environment()
    declared = settings.declared(contract)
    if isinstance(declared, TextContract):
        fetched = fetch_published(declared, settings)
        say(*(f"{contract}: {path}" for path in fetched.paths.values()))
        assert declared.edition_of is not None
        published = declared.edition_of.stated.source.published
        assert published is not None
        for file in (published.train, published.test):
            if file.sha256 is None:
                say(
                    f"{contract}: {file.file}: no digest of it is stated: it is pinned by its "
                    f"revision, its numbers of texts, and from now on by "
                    f"the sha256 of this download, {fetched.digests[file.file]}"
                )
        return
    path = fetch_source(declared, settings.own("cache"))
    say(f"{contract}: {path}")


@data_app.command("convert")
def convert(
    contract: ContractName,
    folder: Annotated[
        Path,
        typer.Argument(
            help="The folder as it is published: for `sroie`, with box/*.csv and key/*.json."
        ),
    ],
) -> None:
    """Make a contract's files from a published folder.

    They are written below DPICL_DATA, once their rows are the published ones.
    """
    from dpicl.contract import TextContract
    from dpicl.home.benchmarks import convert as convert_folder

    settings = Settings.from_environment()
    declared = settings.declared(contract)
    if not isinstance(declared, TextContract):
        raise DpiclError(
            f"{contract}: is a table, which is read as it was published; expected a set of texts"
        )
    say(*(f"{contract}: {path}" for path in convert_folder(declared, folder, settings)))


@data_app.command("publish")
def publish(
    contract: Annotated[
        str,
        typer.Argument(
            help="Name of a contract that says `benchmark: true`.", autocompletion=options.contracts
        ),
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Declare a table or set of texts public. It has no budget then, and exact metrics."""
    from dpicl.home.benchmarks import declare, read_content

    settings = Settings.from_environment()
    declared = settings.declared(contract)
    content = read_content(declared, settings)
    titled = f" of {declared.source.title}" * ("title" in declared.source.model_fields_set)
    say(f"{contract}: {many(content.rows, 'row')}{titled}")
    say(
        "They become public: runs on them have no budget, seeded noise and exact metrics. If they "
        "change, they are no longer public."
    )
    if not yes and not sys.stdin.isatty():
        raise DpiclError(
            f"{contract}: nothing was published; without a terminal to confirm on, expected --yes"
        )
    if not yes and not typer.confirm("Publish them?"):
        raise DpiclError(f"{contract}: nothing was published")
    declare(contract, content, settings)
    say(f"{contract}: published, digest {content.digest[:12]}")


@ledger_app.command("adopt")
def adopt_releases() -> None:
    """Rebuild a lost ledger from the receipts of releases. Accounts without complete receipts count
    as exhausted.
    """
    from dpicl.installation.restore import adopt

    count, unproved = adopt(Settings.from_environment())
    say(f"charged as before: {many(count, 'release')}")
    for name in unproved:
        say(
            f"account {name}: the receipts do not prove all that it spent, so nothing more can be "
            f"charged; `dpicl budget {name} --cap` is yours to decide"
        )
