"""`dpicl audit`: mechanisms, whole commands, and attacks on releases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpicl.cli import options
from dpicl.cli.terminal import check_state, waiting, when_stopped
from dpicl.ground.errors import ParameterError
from dpicl.home.settings import Settings


def audit(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="AUDIT",
            help="A mechanism's audit (without AUDIT all are listed); or end-to-end, from "
            "neighbouring files to all public bytes; or transcripts, exact log-ratios of "
            "whole draws; or membership, attacks on releases; or attackers, those of other "
            "packages; or suites, public tests on dpicl's mechanisms.",
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Argument(help="transcripts: of this method only.", autocompletion=options.methods),
    ] = None,
    all_audits: Annotated[
        bool, typer.Option("--all", help="Run the audits of all mechanisms.")
    ] = False,
    runs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Runs on each of two neighbours. Default: 100,000; end-to-end 4,000, membership "
            "2,000, attackers 300, transcripts 200 of each kind. More runs detect smaller leaks.",
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(min=0, help="Seed of the bounds; end-to-end draws from the operating system."),
    ] = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the results. Default: `audit` in the state folder."),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            help="membership: a public table to plant a record in, in place of made-up rows.",
            autocompletion=options.contracts,
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="In place of AUDIT: another library, or all; its mechanisms at the epsilon that "
            "it states. Known faults must be found.",
        ),
    ] = None,
) -> None:
    """Check that mechanisms leak no more than they state. Their epsilon is bounded from below, and
    mutants must be caught; exit code 1 if not.
    """
    when_stopped("dpicl: interrupted; an audit charges nothing, and begins anew when repeated")
    with waiting("loading the audits"):
        from dpicl.methods.audited import FOLDER
        from lab.audit.others.attackers import audit_attackers
        from lab.audit.others.report import audit_targets
        from lab.audit.others.suites import audit_suites
        from lab.audit.results import audit_end_to_end, audit_mechanisms, audit_membership
        from lab.audit.transcripts.report import audit_by_transcripts

    if method is not None and name != "transcripts":
        raise ParameterError(
            "METHOD", method, "none: `dpicl audit transcripts METHOD` alone has one"
        )
    folder = out or Settings.from_environment().own("audit")
    if target is not None:
        if name is not None or all_audits or table is not None:
            raise ParameterError("target", target, "no AUDIT, --all or --table beside it")
        passed = audit_targets(target, runs=runs, seed=seed, folder=folder)
    elif name == "suites" and not all_audits:
        passed = audit_suites(runs=runs, seed=seed, folder=folder)
    elif name == "attackers" and not all_audits:
        passed = audit_attackers(runs=runs, seed=seed, folder=folder)
    elif name == "end-to-end" and not all_audits:
        check_state()
        passed = audit_end_to_end(runs=runs, folder=folder)
    elif name == "transcripts" and not all_audits:
        notes = Settings.from_environment().home / FOLDER
        passed = audit_by_transcripts(method, runs=runs, seed=seed, folder=folder, notes=notes)
    elif name == "membership" and not all_audits:
        passed = audit_membership(table, runs=runs, seed=seed, folder=folder)
    else:
        passed = audit_mechanisms(name, all_cases=all_audits, runs=runs, seed=seed, folder=folder)
    if not passed:
        raise typer.Exit(1)
