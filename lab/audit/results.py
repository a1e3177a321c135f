"""`dpicl audit`: what audits of mechanisms, claims on whole commands and attacks on releases find,
as tables, in JSON and as figures.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dpicl.cli.terminal import console, counted, errors, new_table, note, say
from dpicl.data.reading.source import load_source
from dpicl.ground.errors import ParameterError
from dpicl.ground.processes import ONE_THREAD, fork_server
from dpicl.home.benchmarks import check_published, content_digest
from dpicl.home.settings import Settings
from lab.audit import CASES, OTHERS, AuditResult, find_case, run_audits
from lab.audit.end_to_end.bounds import WRONG, Bound, named_bound
from lab.audit.end_to_end.draws import cells
from lab.audit.end_to_end.mutants import MUTANTS, caught
from lab.audit.end_to_end.suite import CLAIMS
from lab.audit.membership import Inference, allowed, attack, made_up, made_up_texts, of_benchmark
from lab.audit.membership.attacks import SURE, most_area
from lab.audit.membership.targets import check_public

_RUNS, _END_TO_END_RUNS, _MEMBERSHIP_RUNS = 100_000, 4000, 2000
"""By default: on each of two neighbours, on each side of a cell, and of releases of each of two
tables.
"""
_SHOWN, _STEPS = 3, 100
"""Counterexamples of a broken claim, and steps of a curve."""
_STATED, _BOUND, _MUTANT = "#555555", "#1f6fb4", "#c2410c"
"""Colours of figures."""


def audit_mechanisms(
    name: str | None, *, all_cases: bool, runs: int | None, seed: int, folder: Path
) -> bool:
    """Run one audit or all, print and write the results; whether all passed.

    Raises:
        ParameterError: no audit has this name, or not exactly one of name and `all_cases` is given.
    """
    if name is not None and all_cases:
        raise ParameterError("audit", name, "a name or --all, not both")
    if name is None and not all_cases:
        say(*OTHERS, *CASES)
        note("expected one of these, or --all", to=errors)
        return True
    cases = tuple(CASES.values()) if name is None else (find_case(name),)
    # Processes are forked from one without threads.
    with (
        counted("auditing", "parts") as count,
        ProcessPoolExecutor(os.cpu_count(), fork_server(["lab.audit"])) as pool,
    ):
        results = run_audits(
            cases, runs=runs or _RUNS, seed=seed, spread=pool.map, progress=count.update
        )
    table = new_table(
        "audit and its mutants", "stated epsilon", "at least", "", "processor seconds"
    )
    for result in results:
        stated, verdict = (
            f"{result.case.stated_epsilon:.3f}",
            "holds" if result.holds else "EXCEEDED",
        )
        table.add_row(
            result.case.name,
            stated,
            f"{result.epsilon_at_least:.3f}",
            verdict,
            f"{result.seconds:.1f}",
        )
        for mutant in result.mutants:
            table.add_row(
                f"  {mutant.name}",
                "",
                f"{mutant.epsilon_at_least:.3f}",
                "caught" if mutant.caught else "NOT CAUGHT",
                "",
            )
    console.print(table)
    records = [  # epsilons in nats; `runs` on each neighbour
        {
            "audit": result.case.name,
            **{
                name: getattr(result.case, name)
                for name in ("mechanism", "neighbours", "unit", "stated_epsilon")
            },
            **{
                name: getattr(result, name)
                for name in ("epsilon_at_least", "holds", "passed", "runs", "seed")
            },
            "seconds": round(result.seconds, 3),
            "mutants": [
                {
                    name: getattr(mutant, name)
                    for name in ("name", "what_is_wrong", "epsilon_at_least", "caught")
                }
                for mutant in result.mutants
            ],
        }
        for result in results
    ]
    write_json(folder / "audit.json", records)
    _plot(results, folder / "audit.svg")
    return all(result.passed for result in results)


def _plot(results: Sequence[AuditResult], path: Path) -> None:
    """One line per audit: the stated epsilon as a tick, the bound as a dot, mutants as crosses."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 1.3 + 0.32 * len(results)), layout="constrained")
    axes = figure.subplots()
    places = range(len(results))
    mutants = [
        (mutant.epsilon_at_least, i)
        for i, result in enumerate(results)
        for mutant in result.mutants
    ]
    axes.scatter(
        [result.case.stated_epsilon for result in results],
        places,
        marker="|",
        s=220,
        color=_STATED,
        label="stated",
    )
    axes.scatter(
        [result.epsilon_at_least for result in results],
        places,
        color=_BOUND,
        label="at least, as it is",
    )
    axes.scatter(
        [bound for bound, _ in mutants],
        [i for _, i in mutants],
        marker="x",
        color=_MUTANT,
        label="at least, mutants",
    )
    axes.set_yticks(list(places), [result.case.name for result in results])
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel("ε (nats)")
    _save(axes, path, grid="x")


@dataclass(frozen=True)
class _Checked:
    """A claim with its counterexamples, or a mutant with the evidence against it."""

    name: str
    evidence: tuple[str, ...]
    seconds: float


@contextmanager
def bounds(runs: int) -> Iterator[Iterable[Bound]]:
    """The bound of every cell, as they come: on all processors."""
    names = [cell.name for cell in cells()]
    with ProcessPoolExecutor(os.cpu_count(), fork_server(["lab.audit.end_to_end.bounds"])) as pool:
        yield pool.map(partial(named_bound, runs=runs), names)


def audit_end_to_end(*, runs: int | None, folder: Path) -> bool:
    """Check all claims and mutants, bound every cell, print and write the results; whether all
    passed.
    """
    claims, mutants = list[_Checked](), list[_Checked]()
    most, total = len(CLAIMS) + len(MUTANTS), len(cells())
    note(
        f"{most} checks, which usually take five to ten minutes; then {total} bounds by "
        f"{runs or _END_TO_END_RUNS:,} runs a side"
    )
    for name, claim in CLAIMS.items():
        place = f"{len(claims) + 1} of {most}"
        claims.append(_check(name, claim, "BROKEN", "holds", place))
        say(*(f"  {counterexample}" for counterexample in claims[-1].evidence[:_SHOWN]))
    for name, mutant in MUTANTS.items():
        place = f"{len(claims) + len(mutants) + 1} of {most}"
        mutants.append(_check(name, partial(caught, mutant), "caught", "NOT CAUGHT", place))
    bounded = list[Bound]()
    with counted("bounding", "cells") as count, bounds(runs or _END_TO_END_RUNS) as bounded_cells:
        for bound in bounded_cells:
            bounded.append(bound)
            count.update(len(bounded), total)
    sure = f"at least, {1 - WRONG:.0%} sure of all"
    table = new_table(
        "method and neighbours", "stated epsilon", "delta", sure, "", "runs a side", "ms a run"
    )
    for bound in bounded:
        verdict, each = (
            "holds" if bound.holds else "EXCEEDED",
            f"{500 * bound.seconds / bound.runs:.1f}",
        )
        table.add_row(
            bound.cell,
            f"{bound.stated:.3f}",
            f"{bound.delta:.2g}",
            f"{bound.at_least:.3f}",
            verdict,
            f"{bound.runs}",
            each,
        )
    console.print(table)
    results: dict[str, list[_Checked] | list[Bound]] = {
        "claims": claims,
        "mutants": mutants,
        "bounds": bounded,
    }
    write_json(
        folder / "end-to-end.json",
        {"wrong": WRONG, **{name: [asdict(one) for one in some] for name, some in results.items()}},
    )
    return (
        not any(claim.evidence for claim in claims)
        and all(mutant.evidence for mutant in mutants)
        and all(one.holds for one in bounded)
    )


def _check(
    name: str, check: Callable[[], list[str]], with_evidence: str, without: str, place: str
) -> _Checked:
    started = time.monotonic()
    checked = _Checked(name, tuple(check()), round(time.monotonic() - started, 3))
    verdict = with_evidence if checked.evidence else without
    say(f"{place}: {name}: {verdict}, {checked.seconds:.1f} s")
    return checked


def audit_membership(table: str | None, *, runs: int | None, seed: int, folder: Path) -> bool:
    """Attack every method and its mutants on made-up rows and texts, or the methods on tables on
    the rows of a public one; print and write the results; whether all passed.

    Raises:
        PrivacyError: the table is private.
    """
    target, runs = made_up(), runs or _MEMBERSHIP_RUNS
    if table is not None:
        settings = Settings.from_environment()
        contract = settings.contract(table)
        check_public(contract)
        rows = load_source(contract, data_folder=settings.data, cache_folder=settings.cache)
        check_published(contract, partial(content_digest, contract, rows), settings)
        target = of_benchmark(contract, rows)
    # whose processes are forked from one without threads
    context = fork_server(["lab.audit.membership"], ONE_THREAD)
    with (
        counted("attacking", "parts") as count,
        ProcessPoolExecutor(os.cpu_count(), context) as pool,
    ):
        how: dict[str, Any] = {
            "mutants": table is None,
            "texts": made_up_texts() if table is None else None,
        }
        found = attack(target, runs=runs, seed=seed, **how, spread=pool.map, progress=count.update)
    shown = new_table(
        "method and its mutants", "charged epsilon", "allowed", "at least", "", "best attack"
    )
    for one in sorted(
        found,
        key=lambda one: (
            bool(one.mutant),
            [other.way for other in found].index(one.way),
            one.nominal,
        ),
    ):
        verdict = (
            ("caught" if one.passed else "NOT CAUGHT")
            if one.mutant
            else ("holds" if one.passed else "EXCEEDED")
        )
        name = f"  {one.way}: {one.mutant}" if one.mutant else one.way
        shown.add_row(
            name,
            f"{one.epsilon:.3f}",
            f"{one.allowed:.3f}",
            f"{max(0.0, one.at_least):.3f}",
            verdict,
            one.best.attack,
        )
    console.print(shown)
    # advantages, areas and positives: as seen on the second half of the releases, bounded, and
    # allowed
    attacks = [
        {
            **{name: value for name, value in asdict(one).items() if name != "attacks"},
            **{name: getattr(one, name) for name in ("allowed", "at_least", "passed")},
            "area_allowed": most_area(one.epsilon, one.delta),
            "attacks": [
                {
                    **asdict(each),
                    "seen": each.seen,
                    **{
                        key: getattr(each, key)(one.tried)
                        for key in ("at_least", "area_at_least", "sharp_at_least")
                    },
                }
                for each in one.attacks
            ],
        }
        for one in found
    ]
    content = {
        "table": target.contract.name,
        "runs": runs,
        "seed": seed,
        "wrong": SURE,
        "attacks": attacks,
    }
    write_json(folder / "membership.json", content)
    _plot_membership(found, folder / "membership.svg")
    return all(one.passed for one in found)


def _plot_membership(found: Sequence[Inference], path: Path) -> None:
    """What epsilon allows as a line; of every method the bound as a dot below what is seen; mutants
    as crosses.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    most = max(one.epsilon for one in found) * 1.05
    places = [most * step / _STEPS for step in range(_STEPS + 1)]
    axes.plot(
        places, [allowed(place) for place in places], color=_STATED, label="(e^ε − 1) / (e^ε + 1)"
    )
    honest, mutants = (
        [one for one in found if bool(one.mutant) is broken] for broken in (False, True)
    )
    at, bounds = [one.epsilon for one in honest], [max(0.0, one.at_least) for one in honest]
    axes.vlines(at, bounds, [one.best.seen for one in honest], color=_BOUND, alpha=0.4)
    axes.scatter(at, bounds, color=_BOUND, label="at least, as it is", zorder=3)
    at, bounds = [mutant.epsilon for mutant in mutants], [mutant.at_least for mutant in mutants]
    axes.scatter(at, bounds, marker="x", color=_MUTANT, label="at least, mutants", zorder=3)
    axes.set_xlim(0, most)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("charged ε (nats)")
    axes.set_ylabel("membership advantage, TPR − FPR")
    _save(axes, path, grid="both")


def _save(axes: Any, path: Path, grid: Any) -> None:
    axes.grid(axis=grid, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.figure.legend(loc="outside upper center", ncols=3, frameon=False)
    axes.figure.savefig(path, metadata={"Date": None})
    note(f"written: {path}")


def write_json(path: Path, content: Any) -> None:
    """Write results for programs, and say where."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    note(f"written: {path}")
