"""The commands on the form of the ledger; what it holds is shown by `dpicl budget`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpicl.cli.terminal import console
from dpicl.engine.settings import Settings

ledger_app = typer.Typer(
    help="Bring the ledger to this program's form, back to an older one's, or to another folder.", no_args_is_help=True
)


@ledger_app.command("upgrade")
def upgrade() -> None:
    """Bring the ledger to the newest form and check its chain; every other command does so too."""
    from dpicl.engine.releases import open_ledger

    with open_ledger(Settings.from_environment()) as ledger:
        console.print(f"schema {ledger.schema}, {ledger.verify()} records, chain intact", highlight=False)


@ledger_app.command("affected")
def affected_releases() -> None:
    """Name the releases of before that the advisory is about: by the ledger and the contracts, without reading rows."""
    from dpicl.engine.affected import affected

    for hole, sentences in affected(Settings.from_environment()).items():
        console.print(f"{hole}: {'none' if not sentences else len(sentences)}", highlight=False)
        for sentence in sentences:
            console.print(f"  {sentence}", highlight=False, soft_wrap=True)


@ledger_app.command("adopt")
def adopt_releases() -> None:
    """Make a lost ledger anew from the receipts of the releases that stand; accounts that they do not prove are exhausted."""
    from dpicl.engine.adopt import adopt

    count, unproved = adopt(Settings.from_environment())
    console.print(f"{count} releases are charged again as they were", highlight=False)
    for name in unproved:
        console.print(
            f"account {name}: something stands in released/ without a receipt, so that nothing more can be charged; "
            f"`dpicl budget {name} --cap` is a person's decision",
            highlight=False,
            soft_wrap=True,
        )


@ledger_app.command("downgrade")
def downgrade(revision: Annotated[str, typer.Argument(help="The schema that the older program knows; it says so itself.")]) -> None:
    """Take the ledger back for an older program; refused where the older form cannot hold what is there."""
    from dpicl.engine.releases import open_ledger

    with open_ledger(Settings.from_environment()) as ledger:
        ledger.take_back(revision)
        console.print(
            f"schema {ledger.schema}, {ledger.verify()} records, chain intact; go on with the older program, "
            f"this one would bring it to the newest form again",
            highlight=False,
            soft_wrap=True,
        )


@ledger_app.command("move")
def move(origin: Annotated[Path, typer.Argument(help="A state folder with a ledger, such as the .dpicl of a working directory.")]) -> None:
    """Move ledger, keys, releases and private files of a folder into the state folder; its runs stay, and must have ended."""
    from dpicl.engine.move_home import move_home
    from dpicl.engine.releases import open_ledger

    settings = Settings.from_environment()
    move_home(origin, settings)
    with open_ledger(settings) as ledger:
        told = f"{ledger.place}: schema {ledger.schema}, {ledger.verify()} records, chain intact"
        console.print(told, highlight=False, soft_wrap=True)
