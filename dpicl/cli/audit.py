"""`dpicl audit`: what audits of mechanisms find, as a table and in audit.json and audit.svg."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dpicl.audit import CASES, AuditResult, find_case, run_audits
from dpicl.cli.terminal import console, new_table, say
from dpicl.errors import ParameterError
from dpicl.processes import fork_server

RUNS = 100_000
"""On each of two neighbours, by default."""
STATED, BOUND, MUTANT = "#555555", "#1f6fb4", "#c2410c"
"""Colours of figures."""


def audit_mechanisms(name: str | None, *, all_cases: bool, runs: int, seed: int, folder: Path) -> bool:
    """Run one audit or all, print and write the results; whether all passed.

    Raises:
        ParameterError: no audit has this name, or not exactly one of name and `all_cases` is given.
    """
    if (name is not None) == all_cases:
        raise ParameterError("audit", name or "", "--all, or one of end-to-end, membership, " + ", ".join(CASES))
    cases = tuple(CASES.values()) if name is None else (find_case(name),)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # Processes are forked from one without threads.
    with Progress(*columns, console=console) as progress, ProcessPoolExecutor(os.cpu_count(), fork_server(["dpicl.audit"])) as pool:
        bar = progress.add_task("audits", total=None)
        results = run_audits(
            cases, runs=runs, seed=seed, spread=pool.map, progress=lambda done, total: progress.update(bar, completed=done, total=total)
        )
    table = new_table("audit and its mutants", "stated epsilon", "at least", "", "processor seconds")
    for result in results:
        stated, verdict = f"{result.case.stated_epsilon:.3f}", "holds" if result.holds else "EXCEEDED"
        table.add_row(result.case.name, stated, f"{result.epsilon_at_least:.3f}", verdict, f"{result.seconds:.1f}")
        for mutant in result.mutants:
            table.add_row(f"  {mutant.name}", "", f"{mutant.epsilon_at_least:.3f}", "caught" if mutant.caught else "NOT CAUGHT", "")
    console.print(table)
    write_json(folder / "audit.json", [_record(result) for result in results])
    _plot(results, folder / "audit.svg")
    say(f"written: {folder / 'audit.svg'}")
    return all(result.passed for result in results)


def _record(result: AuditResult) -> dict[str, Any]:
    """Epsilons in nats; `runs` on each neighbour."""
    case = result.case
    return {
        "audit": case.name,
        "mechanism": case.mechanism,
        "neighbours": case.neighbours.value,
        "unit": case.unit,
        "stated_epsilon": case.stated_epsilon,
        **{name: getattr(result, name) for name in ("epsilon_at_least", "holds", "passed", "runs", "seed")},
        "seconds": round(result.seconds, 3),
        "mutants": [
            {name: getattr(mutant, name) for name in ("name", "what_is_wrong", "epsilon_at_least", "caught")} for mutant in result.mutants
        ],
    }


def _plot(results: Sequence[AuditResult], path: Path) -> None:
    """One line per audit: the stated epsilon as a tick, the bound as a dot, mutants as crosses."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 1.3 + 0.32 * len(results)), layout="constrained")
    axes = figure.subplots()
    places = range(len(results))
    mutants = [(mutant.epsilon_at_least, i) for i, result in enumerate(results) for mutant in result.mutants]
    axes.scatter([result.case.stated_epsilon for result in results], places, marker="|", s=220, color=STATED, label="stated")
    axes.scatter([result.epsilon_at_least for result in results], places, color=BOUND, label="at least, as it is")
    axes.scatter([bound for bound, _ in mutants], [i for _, i in mutants], marker="x", color=MUTANT, label="at least, mutants")
    axes.set_yticks(list(places), [result.case.name for result in results])
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel("ε (nats)")
    axes.grid(axis="x", linewidth=0.5)
    axes.set_axisbelow(True)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(path, metadata={"Date": None})


def write_json(path: Path, content: Any) -> None:
    """Write a file of results, and print where."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    say(f"written: {path}")
