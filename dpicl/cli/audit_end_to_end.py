"""`dpicl audit end-to-end`: claims, mutants and bounds as a table, and in end-to-end.json."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from dpicl.audit.end_to_end.bounds import WRONG, Bound, named_bound
from dpicl.audit.end_to_end.draws import cells
from dpicl.audit.end_to_end.mutants import MUTANTS, caught
from dpicl.audit.end_to_end.suite import CLAIMS
from dpicl.cli.audit import write_json
from dpicl.cli.terminal import console, new_table, say
from dpicl.processes import fork_server

RUNS = 4000
"""On each side of a cell, by default."""
_SHOWN = 3
"""Counterexamples of a broken claim."""


@dataclass(frozen=True)
class Checked:
    """A claim with its counterexamples, or a mutant with the evidence against it."""

    name: str
    evidence: tuple[str, ...]
    seconds: float


@contextmanager
def bounds(runs: int) -> Iterator[Iterable[Bound]]:
    """The bound of every cell, as they come: on all processors."""
    names = [cell.name for cell in cells()]
    with ProcessPoolExecutor(os.cpu_count(), fork_server(["dpicl.audit.end_to_end.bounds"])) as pool:
        yield pool.map(partial(named_bound, runs=runs), names)


def audit_end_to_end(*, runs: int, folder: Path) -> bool:
    """Check all claims and mutants, bound every cell, print and write the results; whether all passed."""
    claims, mutants = [], []
    for name, claim in CLAIMS.items():
        claims.append(_check(name, claim, "BROKEN", "holds"))
        say(*(f"  {counterexample}" for counterexample in claims[-1].evidence[:_SHOWN]))
    for name, mutant in MUTANTS.items():
        mutants.append(_check(name, partial(caught, mutant), "caught", "NOT CAUGHT"))
    with bounds(runs) as bounded_cells:
        bounded = list(bounded_cells)
    sure = f"at least, {1 - WRONG:.0%} sure of all"
    table = new_table("method and neighbours", "stated epsilon", "delta", sure, "", "runs a side", "ms a run")
    for bound in bounded:
        verdict, each = "holds" if bound.holds else "EXCEEDED", f"{500 * bound.seconds / bound.runs:.1f}"
        table.add_row(bound.cell, f"{bound.stated:.3f}", f"{bound.delta:.2g}", f"{bound.at_least:.3f}", verdict, f"{bound.runs}", each)
    console.print(table)
    results: dict[str, list[Checked] | list[Bound]] = {"claims": claims, "mutants": mutants, "bounds": bounded}
    write_json(folder / "end-to-end.json", {"wrong": WRONG, **{name: [asdict(one) for one in some] for name, some in results.items()}})
    return not any(claim.evidence for claim in claims) and all(mutant.evidence for mutant in mutants) and all(one.holds for one in bounded)


def _check(name: str, check: Callable[[], list[str]], with_evidence: str, without: str) -> Checked:
    started = time.monotonic()
    checked = Checked(name, tuple(check()), round(time.monotonic() - started, 3))
    say(f"{name}: {with_evidence if checked.evidence else without}, {checked.seconds:.1f} s")
    return checked
