"""The commands that migrate, rebuild and move the ledger; `dpicl budget` shows what it holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpicl.cli.terminal import say
from dpicl.engine.settings import Settings

ledger_app = typer.Typer(help="Migrate the ledger schema; rebuild or move the ledger.", no_args_is_help=True)


@ledger_app.command("upgrade")
def upgrade() -> None:
    """Migrate the ledger to the newest schema and verify its chain; every other command does so too."""
    from dpicl.engine.releases import open_ledger

    with open_ledger(Settings.from_environment()) as ledger:
        say(f"schema {ledger.schema}, {ledger.verify()} records, chain intact")


@ledger_app.command("affected")
def affected_releases() -> None:
    """List earlier releases that the security advisory concerns, from the ledger and the contracts; reads no rows."""
    from dpicl.engine.affected import affected

    for hole, releases in affected(Settings.from_environment()).items():
        say(f"{hole}: {len(releases) or 'none'}", *(f"  {release}" for release in releases))


@ledger_app.command("adopt")
def adopt_releases() -> None:
    """Rebuild a lost ledger from the receipts of releases; accounts without complete receipts count as exhausted."""
    from dpicl.engine.adopt import adopt

    count, unproved = adopt(Settings.from_environment())
    say(f"{count} releases are charged as before")
    for name in unproved:
        say(
            f"account {name}: released/ holds an artefact without a receipt, so nothing more can be charged; "
            f"`dpicl budget {name} --cap` is yours to decide"
        )


@ledger_app.command("downgrade")
def downgrade(revision: Annotated[str, typer.Argument(help="The schema that the older version supports, as its error says.")]) -> None:
    """Migrate the ledger back for an older version; refused if the older schema cannot hold its records."""
    from dpicl.engine.releases import open_ledger

    with open_ledger(Settings.from_environment()) as ledger:
        ledger.take_back(revision)
        say(
            f"schema {ledger.schema}, {ledger.verify()} records, chain intact; continue with the older version: "
            "any command of this one migrates the ledger forward again"
        )


@ledger_app.command("move")
def move(origin: Annotated[Path, typer.Argument(help="A state folder with a ledger, such as the .dpicl of a working directory.")]) -> None:
    """Move a folder's ledger, keys, releases and private files into the state folder; its runs stay and must have ended."""
    from dpicl.engine.move_home import move_home
    from dpicl.engine.releases import open_ledger

    settings = Settings.from_environment()
    move_home(origin, settings)
    with open_ledger(settings) as ledger:
        say(f"{ledger.place}: schema {ledger.schema}, {ledger.verify()} records, chain intact")
