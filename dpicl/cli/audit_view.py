"""What `dpicl audit` shows and writes: a progress bar, a table, audit.json and audit.svg."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from dpicl.audit import CASES, AuditResult, find_case, run_audits
from dpicl.errors import ParameterError
from dpicl.processes import fork_server

_LEVEL, _BOUND, _MUTANT = "#555555", "#1f6fb4", "#c2410c"


def audit_all(name: str | None, every: bool, *, runs: int, seed: int, folder: Path, console: Console) -> bool:
    """Run one audit or all, show and write what they found; whether all passed.

    Raises:
        ParameterError: no audit has this name, or not exactly one of name and `every` is given.
    """
    if (name is not None) == every:
        raise ParameterError("audit", name or "", "--all, or one of end-to-end, " + ", ".join(CASES))
    cases = tuple(CASES.values()) if name is None else (find_case(name),)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as shown, _processes() as pool:
        bar = shown.add_task("audits", total=None)
        results = run_audits(
            cases, runs=runs, seed=seed, spread=pool.map, progress=lambda done, total: shown.update(bar, completed=done, total=total)
        )
    console.print(_table(results))
    _write(results, folder)
    console.print(f"written: {folder / 'audit.json'}\nwritten: {folder / 'audit.svg'}", highlight=False, soft_wrap=True)
    return all(result.passed for result in results)


def _processes() -> ProcessPoolExecutor:
    """One for each processor, forked from a process without threads."""
    return ProcessPoolExecutor(os.cpu_count(), fork_server(["dpicl.audit"]))


def _table(results: Sequence[AuditResult]) -> Table:
    table = Table("audit and its mutants", "stated epsilon", "at least", "", "processor seconds", box=None, header_style="bold")
    for result in results:
        stated, verdict = f"{result.case.stated_epsilon:.3f}", "holds" if result.holds else "EXCEEDED"
        table.add_row(result.case.name, stated, f"{result.epsilon_at_least:.3f}", verdict, f"{result.seconds:.1f}")
        for mutant in result.mutants:
            table.add_row(f"  {mutant.name}", "", f"{mutant.epsilon_at_least:.3f}", "caught" if mutant.caught else "NOT CAUGHT", "")
    return table


def _write(results: Sequence[AuditResult], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "audit.json").write_text(json.dumps([_record(result) for result in results], indent=2) + "\n", "utf-8")
    _plot(results, folder / "audit.svg")


def _record(result: AuditResult) -> dict[str, Any]:
    """Epsilons in nats; `runs` on each neighbour."""
    case = result.case
    return {
        "audit": case.name,
        "mechanism": case.mechanism,
        "neighbours": case.neighbours.value,
        "unit": case.unit,
        "stated_epsilon": case.stated_epsilon,
        "epsilon_at_least": result.epsilon_at_least,
        "holds": result.holds,
        "passed": result.passed,
        "runs": result.runs,
        "seed": result.seed,
        "seconds": round(result.seconds, 3),
        "mutants": [
            {
                "name": mutant.name,
                "what_is_wrong": mutant.what_is_wrong,
                "epsilon_at_least": mutant.epsilon_at_least,
                "caught": mutant.caught,
            }
            for mutant in result.mutants
        ],
    }


def _plot(results: Sequence[AuditResult], path: Path) -> None:
    """One line per audit: the stated epsilon as a tick, the bound as a dot, mutants as crosses."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 1.3 + 0.32 * len(results)), layout="constrained")
    axes = figure.subplots()
    places = range(len(results))
    mutants = [(mutant.epsilon_at_least, i) for i, result in enumerate(results) for mutant in result.mutants]
    axes.scatter([result.case.stated_epsilon for result in results], places, marker="|", s=220, color=_LEVEL, label="stated")
    axes.scatter([result.epsilon_at_least for result in results], places, color=_BOUND, label="at least, as it is")
    axes.scatter([bound for bound, _ in mutants], [i for _, i in mutants], marker="x", color=_MUTANT, label="at least, mutants")
    axes.set_yticks(list(places), [result.case.name for result in results])
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel("ε (nats)")
    axes.grid(axis="x", linewidth=0.5)
    axes.set_axisbelow(True)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(path, metadata={"Date": None})
