"""`dpicl state`: whether the installation is in order, what may go, a sealed backup and its
restore.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpicl.cli.executors import prefect
from dpicl.cli.options import AsJson
from dpicl.cli.terminal import console, errors, new_table, note, number, say, say_json
from dpicl.engine.settings import Settings, read_days
from dpicl.errors import DpiclError

state_app = typer.Typer(
    help="Check, clean, back up and restore the state folder.", no_args_is_help=True
)
_Key = Annotated[
    Path,
    typer.Option(
        "--key", help="File with the key that backups are sealed with; the first backup makes it."
    ),
]


@state_app.command("check")
def check(as_json: AsJson = False) -> None:
    """Check modes, ledger, leftovers, versions and free space. Nothing is changed; exit code 1 if
    something is at fault.
    """
    from dpicl.cli.json_output.states import StateFinding
    from dpicl.engine.state.check import findings

    found = sorted(findings(Settings.from_environment()), key=lambda one: not one.is_fault)
    faults = sum(one.is_fault for one in found)
    if as_json:
        say_json([StateFinding(one.is_fault, one.path, one.rule, one.do) for one in found])
    else:
        table = new_table("", "path", "rule", "what to do")
        for one in found:
            table.add_row("fault" if one.is_fault else "note", one.path, one.rule, one.do)
        console.print(table)
        note(f"{faults or 'no'} {'fault' if faults == 1 else 'faults'}; nothing was changed")
    if faults:
        raise typer.Exit(1)


@state_app.command("clean")
def clean(
    keep: Annotated[
        str | None,
        typer.Option(
            help="Remove runs whose last change is older than this; `never` keeps all. Default: "
            "DPICL_KEEP, else 90d."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be removed, and remove nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remove old runs and what killed processes left. Never budgets, keys or releases. A removed
    run can no longer be resumed.
    """
    from dpicl.cli.json_output.states import CleanedState, RemovedPath
    from dpicl.engine.state.clean import Removed
    from dpicl.engine.state.clean import clean as clean_home

    settings = Settings.from_environment()
    days = settings.keep_days if keep is None else read_days("keep", keep)
    removed: list[Removed] = []
    for one in clean_home(settings, days, dry_run=dry_run):
        removed.append(one)
        if not as_json:
            size = "" if one.size is None else f", {one.size:,} bytes"
            say(f"{'would remove' if dry_run else 'removed'} {one.path}: {one.what}{size}")
    prefect = _clean_prefect(settings, days, dry_run=dry_run)
    total = sum(one.size or 0 for one in removed)
    if as_json:
        listed = [RemovedPath(str(one.path), one.what, one.size) for one in removed]
        say_json(CleanedState(dry_run, days, listed, total, prefect and prefect[0]))
        return
    if prefect is not None:
        count, freed = prefect
        say(
            f"{'would remove' if dry_run else 'removed'} {_counted(count, 'flow run')} of "
            f"Prefect{f', {freed:,} bytes of its database' if freed else ''}"
        )
    runs = sum(one.is_run for one in removed)
    done = "would be removed" if dry_run else "removed"
    note(
        f"{_counted(runs, 'run')} and {_counted(len(removed) - runs, 'leftover')} {done}, "
        f"{total:,} bytes without private files; ledger, keys and releases stay"
    )


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _clean_prefect(
    settings: Settings, days: int | None, *, dry_run: bool
) -> tuple[int, int] | None:
    """Flow runs that are old enough; None where Prefect is not here, or keeps none."""
    if days is None:
        return None
    try:
        orchestrator = prefect()
    except (DpiclError, ModuleNotFoundError):
        return None
    return orchestrator.clean(settings, days, dry_run=dry_run)


@state_app.command("backup")
def backup(
    file: Annotated[Path, typer.Argument(help="A new file, best on another disk.")],
    key: _Key,
    as_json: AsJson = False,
) -> None:
    """Write a sealed backup of ledger, keys and releases. It holds no private row and no run; the
    key has to be kept apart from it.
    """
    from dpicl.cli.json_output.states import WrittenBackup
    from dpicl.engine.state.backup import back_up

    written = back_up(Settings.from_environment(), file, key)
    about = written.manifest
    if as_json:
        what = about.taken_utc, about.record, about.releases, about.ledger
        say_json(WrittenBackup(str(file), written.size, *what, written.key_made, written.missing))
        return
    say(
        f"{file}: {_counted(about.releases, 'release')}, up to record {about.record} of the "
        f"ledger, {about.taken_utc}"
    )
    if about.ledger == "server":
        say(
            "The ledger itself is kept in PostgreSQL: back it up with its own tools, such as "
            "pg_dump, after this."
        )
    if written.missing:
        say(
            *(
                f"warning: {name}: its artefact is gone, and is not in the backup"
                for name in written.missing
            ),
            to=errors,
        )
    if written.key_made:
        say(
            f"{key}: made; without it no backup can be read, and whoever has both has all keys of "
            f"this installation"
        )


@state_app.command("restore")
def restore(
    file: Annotated[Path, typer.Argument(help="A file that `dpicl state backup` wrote.")],
    key: _Key,
    as_json: AsJson = False,
) -> None:
    """Restore a backup into a state folder without a ledger. Nothing is charged then until
    `dpicl budget NAME --cap` states caps again.
    """
    from dpicl.cli.json_output.states import RestoredAccount, RestoredState
    from dpicl.engine.state.restore import restore as restore_home

    settings = Settings.from_environment()
    done = restore_home(settings, file, key)
    about = done.manifest
    for name, epsilon in done.witnessed:
        say(
            f"{name}: had spent epsilon {number(epsilon)} when this user's witness saw it last",
            to=errors,
        )
    if as_json:
        spent = [RestoredAccount(account.name, epsilon) for account, epsilon in done.accounts]
        say_json(
            RestoredState(str(settings.home), about.taken_utc, about.record, done.record, spent)
        )
        return
    say(
        f"{settings.home}: restored from the backup of {about.taken_utc}, record {about.record}; "
        f"record {done.record} of the ledger says so"
    )
    table = new_table("account", "spent by then")
    for account, epsilon in done.accounts:
        table.add_row(account.name, number(epsilon))
    console.print(table)
    say(
        f"What was released after {about.taken_utc} is not in it, and nobody here can know all of "
        f"it. So every cap is 0 now, also of an account that is "
        "opened later, until you state it: `dpicl budget NAME --cap CAP`.",
        "Count first what was released since: files with their certificates, reports and "
        "manifests of runs, whoever received them. Subtract its "
        "epsilon from the cap that you state. Such a release, requested again, is drawn anew and "
        "charged again.",
    )
