"""`dpicl state`: whether the installation is in order, what may go, a sealed backup and its
restore.

`dpicl model`: a model's files, and whether it can be used, before a run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpicl.cli import options
from dpicl.cli.executors import prefect
from dpicl.cli.options import AsJson, ModelApi, ModelDtype, named_model
from dpicl.cli.terminal import counted, errors, note, number, say, say_json, show, table_of
from dpicl.ground.errors import DpiclError, ModelRefusedError
from dpicl.ground.nouns import many
from dpicl.home.settings import Settings, read_days

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
    from dpicl.cli.answers import StateFinding, answer_of
    from dpicl.installation.check import findings

    found = [
        answer_of(StateFinding, finding, fault=finding.is_fault)
        for finding in findings(Settings.from_environment())
    ]
    found.sort(key=lambda finding: not finding.fault)
    faults = sum(finding.fault for finding in found)
    show(found, [table_of(StateFinding, found)], as_json=as_json)
    if not as_json:
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
    from dpicl.cli.answers import CleanedState, RemovedPath
    from dpicl.installation.clean import clean as clean_home

    settings = Settings.from_environment()
    runs = 0
    days = settings.keep_days if keep is None else read_days("keep", keep)
    done = "would remove" if dry_run else "removed"
    removed: list[RemovedPath] = []
    for path in clean_home(settings, days, dry_run=dry_run):
        removed.append(RemovedPath(str(path.path), path.what, path.size))
        runs += path.is_run
        if not as_json:
            size = "" if path.size is None else f", {path.size:,} bytes"
            say(f"{done} {path.path}: {path.what}{size}")
    prefect = _clean_prefect(settings, days, dry_run=dry_run)
    total = sum(path.bytes or 0 for path in removed)
    if as_json:
        say_json(CleanedState(dry_run, days, removed, total, prefect and prefect[0]))
        return
    if prefect is not None:
        count, freed = prefect
        say(
            f"{done} {many(count, 'flow run')} of "
            f"Prefect{f', {freed:,} bytes of its database' if freed else ''}"
        )
    note(
        f"{many(runs, 'run')} and {many(len(removed) - runs, 'leftover')} "
        f"{'would be removed' if dry_run else 'removed'}, {total:,} bytes without private files; "
        f"ledger, keys and releases stay"
    )


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
    from dpicl.cli.answers import WrittenBackup, answer_of
    from dpicl.installation.restore import back_up

    written = back_up(Settings.from_environment(), file, key)
    made = {"bytes": written.size, "key_made": written.key_made, "missing": written.missing}
    answer = answer_of(WrittenBackup, written.manifest, file=str(file), **made)
    show(answer, answer.lines(), as_json=as_json)
    if as_json:
        return
    for name in written.missing:
        say(f"warning: {name}: its artefact is gone, and is not in the backup", to=errors)
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
    from dpicl.cli.answers import RestoredAccount, RestoredState
    from dpicl.installation.restore import restore as restore_home

    settings = Settings.from_environment()
    done = restore_home(settings, file, key)
    for name, epsilon in done.witnessed:
        say(
            f"{name}: had spent epsilon {number(epsilon)} when this user's witness saw it last",
            to=errors,
        )
    answer = RestoredState(
        home=str(settings.home),
        taken_utc=done.manifest.taken_utc,
        backup_record=done.manifest.record,
        record=done.record,
        in_use=done.in_use,
        accounts=[RestoredAccount(account.name, epsilon) for account, epsilon in done.accounts],
    )
    show(answer, answer.lines(), as_json=as_json)


model_app = typer.Typer(help="Fetch and check models.", no_args_is_help=True)


@model_app.command("fetch")
def fetch(
    model: Annotated[
        str,
        typer.Argument(
            help="`smollm2`, a GGUF file, a hub id org/name[@revision], or a name in "
            "pipelines.yaml."
        ),
    ],
) -> None:
    """Bring a model's files to this machine before a run does. Prints the folder that has them."""
    from dpicl.models.local.gguf_file import gguf_file, is_gguf
    from dpicl.models.local.model_files import find_model_files
    from dpicl.release.pipelines import model_named

    spec = model_named(model, Settings.from_environment())
    if not spec.of_kind.is_fetched:
        raise ModelRefusedError(
            f"model {spec.name!r} is of kind {spec.kind}, of which nothing is fetched; expected "
            f"one of kind transformers"
        )
    if is_gguf(spec.id or ""):
        gguf_file(spec.id or "")  # pip shows how far it is
    with counted(f"model {spec.name}: bringing its files", "files", every=5):
        folder, _ = find_model_files(spec.id or "", spec.revision)
    say(str(folder))


@model_app.command("check")
def model_check(
    model: Annotated[
        str,
        typer.Argument(
            help="`smollm2`, a name in pipelines.yaml, a folder, a GGUF file, a hub id "
            "org/name[@revision], or a server's URL#MODEL.",
            autocompletion=options.models,
        ),
    ],
    dtype: ModelDtype = None,
    api: ModelApi = None,
    as_json: AsJson = False,
) -> None:
    """Check on public text what a run needs of a model. Nothing is charged; exit code 2 if it
    cannot be used.
    """
    from dpicl.cli.answers import CheckedModel, ModelCheck, answer_of
    from dpicl.release.pipelines import model_named
    from dpicl.runs.model_check import check_model

    settings = Settings.from_environment()
    spec = model_named(named_model(model, dtype, api) or model, settings)
    steps = []
    with counted(f"checking {spec.name}", "steps") as count:
        for step in check_model(spec, settings):
            steps.append(step)
            count.detail = f"after: {step.check}"
    *holding, verdict = steps
    checks = [answer_of(ModelCheck, step) for step in holding]
    table = [table_of(ModelCheck, checks)] if checks else []
    show(CheckedModel(spec.name, verdict.holds, verdict.detail, checks), table, as_json=as_json)
    if verdict.holds and not as_json:
        say(verdict.detail)
    elif not verdict.holds and as_json:
        raise typer.Exit(2)
    elif not verdict.holds:
        raise ModelRefusedError(verdict.detail)
