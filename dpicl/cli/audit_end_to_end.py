"""`dpicl audit end-to-end`: claims, mutants and bounds as a table, and end-to-end.json."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from dpicl.audit.end_to_end.bounds import WRONG, Bound, named_bound
from dpicl.audit.end_to_end.draws import cells
from dpicl.audit.end_to_end.mutants import MUTANTS, caught
from dpicl.audit.end_to_end.suite import CLAIMS
from dpicl.processes import fork_server

RUNS = 4000
"""On each side of a cell, where nobody says otherwise."""
_SHOWN = 3
"""Sentences of a broken claim."""


@dataclass(frozen=True)
class Checked:
    """A claim with what breaks it, or a mutant with what gives it away."""

    name: str
    told: tuple[str, ...]
    seconds: float

    @staticmethod
    def of(name: str, check: Callable[[], list[str]]) -> Checked:
        """Check it now."""
        started = time.monotonic()
        return Checked(name, tuple(check()), round(time.monotonic() - started, 3))


def checked_claims() -> Iterator[Checked]:
    """Every exact claim."""
    return (Checked.of(name, claim) for name, claim in CLAIMS.items())


def checked_mutants() -> Iterator[Checked]:
    """Every mutant, by the claim that has to catch it."""
    return (Checked.of(name, partial(caught, mutant)) for name, mutant in MUTANTS.items())


@contextmanager
def bounds(runs: int) -> Iterator[Iterable[Bound]]:
    """The bound of every cell, as they come: on all processors."""
    names = [cell.name for cell in cells()]
    with ProcessPoolExecutor(os.cpu_count(), fork_server(["dpicl.audit.end_to_end.bounds"])) as pool:
        yield pool.map(partial(named_bound, runs=runs), names)


def audit_end_to_end(*, runs: int, folder: Path, console: Console) -> bool:
    """Check all claims and mutants, bound every cell, show and write what was found; whether all passed."""
    claims = [_show(found, "holds", "BROKEN", console) for found in checked_claims()]
    mutants = [_show(found, "NOT CAUGHT", "caught", console) for found in checked_mutants()]
    with bounds(runs) as found:
        bounded = list(found)
    console.print(_table(bounded))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "end-to-end.json"
    content = {"wrong": WRONG, **{name: [asdict(one) for one in some] for name, some in _named(claims, mutants, bounded).items()}}
    path.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    console.print(f"written: {path}", highlight=False, soft_wrap=True)
    return not any(claim.told for claim in claims) and all(mutant.told for mutant in mutants) and all(one.holds for one in bounded)


def _named(claims: list[Checked], mutants: list[Checked], bounded: list[Bound]) -> dict[str, list[Checked] | list[Bound]]:
    return {"claims": claims, "mutants": mutants, "bounds": bounded}


def _show(found: Checked, quiet: str, told: str, console: Console) -> Checked:
    verdict, broken = (told, found.told[:_SHOWN]) if found.told else (quiet, ())
    console.print(f"{found.name}: {verdict}, {found.seconds:.1f} s", highlight=False, soft_wrap=True)
    for sentence in broken if told == "BROKEN" else ():
        console.print(f"  {sentence}", highlight=False, markup=False, soft_wrap=True)
    return found


def _table(bounded: list[Bound]) -> Table:
    sure = f"at least, {1 - WRONG:.0%} sure of all"
    table = Table("method and neighbours", "stated epsilon", "delta", sure, "", "runs a side", "ms a run", box=None, header_style="bold")
    for one in bounded:
        verdict, each = "holds" if one.holds else "EXCEEDED", f"{500 * one.seconds / one.runs:.1f}"
        table.add_row(one.cell, f"{one.stated:.3f}", f"{one.delta:.2g}", f"{one.at_least:.3f}", verdict, f"{one.runs}", each)
    return table
