"""`dpicl audit membership`: what attacks on releases infer, as a table and in membership.json and membership.svg."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dpicl.audit.membership import Inference, Target, allowed, attack, made_up, of_benchmark
from dpicl.audit.membership.attacks import SURE
from dpicl.audit.membership.targets import check_public
from dpicl.cli.audit import BOUND, MUTANT, STATED, write_json
from dpicl.cli.terminal import console, new_table, say
from dpicl.engine.benchmarks import check_published, content_digest
from dpicl.engine.settings import Settings
from dpicl.processes import ONE_THREAD, fork_server
from dpicl.tabular.reading.source import load_source

RUNS = 2000
"""Releases of each of the two tables, by default."""
_STEPS = 100


def audit_membership(table: str | None, *, runs: int, seed: int, folder: Path) -> bool:
    """Attack every method and its mutants on made-up rows, or the methods on those of a public table; print and write the results; whether all passed.

    Raises:
        PrivacyError: the table is private.
    """
    target = made_up() if table is None else _public(table)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # Processes are forked from one without threads.
    with (
        Progress(*columns, console=console) as progress,
        ProcessPoolExecutor(os.cpu_count(), fork_server(["dpicl.audit.membership"], ONE_THREAD)) as pool,
    ):
        bar = progress.add_task("attacks", total=None)
        found = attack(
            target,
            runs=runs,
            seed=seed,
            mutants=table is None,
            spread=pool.map,
            progress=lambda done, total: progress.update(bar, completed=done, total=total),
        )
    shown = new_table("method and its mutants", "charged epsilon", "allowed", "at least", "", "best attack")
    for one in sorted(found, key=lambda one: (bool(one.mutant), [other.way for other in found].index(one.way), one.nominal)):
        verdict = ("caught" if one.passed else "NOT CAUGHT") if one.mutant else ("holds" if one.passed else "EXCEEDED")
        name = f"  {one.way}: {one.mutant}" if one.mutant else one.way
        shown.add_row(name, f"{one.epsilon:.3f}", f"{one.allowed:.3f}", f"{max(0.0, one.at_least):.3f}", verdict, one.best.attack)
    console.print(shown)
    write_json(
        folder / "membership.json", {"table": target.contract.name, "runs": runs, "seed": seed, "wrong": SURE, "attacks": _records(found)}
    )
    _plot(found, folder / "membership.svg")
    say(f"written: {folder / 'membership.svg'}")
    return all(one.passed for one in found)


def _public(name: str) -> Target:
    settings = Settings.from_environment()
    contract = settings.contract(name)
    check_public(contract)
    rows = load_source(contract, data_folder=settings.data, cache_folder=settings.cache)
    check_published(contract, partial(content_digest, contract, rows), settings)
    return of_benchmark(contract, rows)


def _records(found: Sequence[Inference]) -> list[dict[str, Any]]:
    """Advantages: as seen on the second half of the releases, bounded from below, and allowed."""
    return [
        {
            **{name: value for name, value in asdict(one).items() if name != "attacks"},
            **{name: getattr(one, name) for name in ("allowed", "at_least", "passed")},
            "attacks": [{**asdict(each), "seen": each.seen, "at_least": each.at_least(one.tried)} for each in one.attacks],
        }
        for one in found
    ]


def _plot(found: Sequence[Inference], path: Path) -> None:
    """What epsilon allows as a line; of every method the bound as a dot below what is seen; mutants as crosses."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    most = max(one.epsilon for one in found) * 1.05
    places = [most * step / _STEPS for step in range(_STEPS + 1)]
    axes.plot(places, [allowed(place) for place in places], color=STATED, label="(e^ε − 1) / (e^ε + 1)")
    honest, mutants = ([one for one in found if bool(one.mutant) is broken] for broken in (False, True))
    axes.vlines(
        [one.epsilon for one in honest],
        [max(0.0, one.at_least) for one in honest],
        [one.best.seen for one in honest],
        color=BOUND,
        alpha=0.4,
    )
    axes.scatter(
        [one.epsilon for one in honest], [max(0.0, one.at_least) for one in honest], color=BOUND, label="at least, as it is", zorder=3
    )
    axes.scatter(
        [one.epsilon for one in mutants], [one.at_least for one in mutants], marker="x", color=MUTANT, label="at least, mutants", zorder=3
    )
    axes.set_xlim(0, most)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("charged ε (nats)")
    axes.set_ylabel("membership advantage, TPR − FPR")
    axes.grid(linewidth=0.5)
    axes.set_axisbelow(True)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(path, metadata={"Date": None})
