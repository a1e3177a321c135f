"""`dpicl audit transcripts`: what transcripts of one method or of all find, as a table and in JSON;
of a method of another package a note that an audit passed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path

from dpicl.cli.terminal import console, counted, new_table, note, say
from dpicl.ground.files import publish
from dpicl.ground.nouns import many
from dpicl.ground.processes import ONE_THREAD, fork_server
from dpicl.methods import METHODS
from dpicl.methods.audited import FEWEST, is_ours, note_of
from lab.audit.transcripts.cases import cases_of, every_case
from lab.audit.transcripts.mutants import MUTANTS, Mutant
from lab.audit.transcripts.run import Tally, audit_transcripts

_MOST_OF_MUTANTS = 1000
"""Transcripts of each, at most; nearly all are found by one of the first hundred."""


def audit_by_transcripts(
    method: str | None, *, runs: int | None, seed: int, folder: Path, notes: Path
) -> bool:
    """Draw transcripts of one method or of all, print and write what they tell; whether none told
    more than is stated, and all mutants were found.

    Args:
        runs: transcripts of each kind of worlds.
        notes: where it is noted that a method of another package passed.

    Raises:
        ParameterError: there is no such method, or there are no transcripts of it.
    """
    cases = every_case() if method is None else cases_of(method)
    count = runs or FEWEST
    mutants = [mutant for mutant in MUTANTS if mutant.case in {case.name for case in cases}]
    jobs = [*(case.name for case in cases), *(mutant.name for mutant in mutants)]
    tallies: dict[str, Tally] = {}
    with (
        counted("auditing", "kinds of worlds") as shown,
        ProcessPoolExecutor(
            os.cpu_count(), fork_server(["lab.audit.transcripts.report"], ONE_THREAD)
        ) as pool,
    ):
        for tally in pool.map(partial(tally_of, seed=seed, count=count), jobs):
            tallies[jobs[len(tallies)]] = tally
            shown.update(len(tallies), len(jobs))
    honest = [tallies[case.name] for case in cases]
    show_tallies(honest, [(mutant, tallies[mutant.name]) for mutant in mutants])
    held = all(tally.holds for tally in honest)
    found = all(not tallies[mutant.name].holds for mutant in mutants)
    content = {
        "seed": seed,
        "runs": count,
        "cases": [asdict(tally) for tally in honest],
        "mutants": [
            {
                "name": mutant.name,
                "what_is_wrong": mutant.what_is_wrong,
                **asdict(tallies[mutant.name]),
            }
            for mutant in mutants
        ],
    }
    publish(
        folder / "transcripts.json", (json.dumps(content, indent=2) + "\n").encode(), replace=True
    )
    note(f"written: {folder / 'transcripts.json'}")
    if method is not None and not is_ours(METHODS[method]) and held:
        if count >= FEWEST:
            publish(
                note_of(METHODS[method], notes), (json.dumps(content) + "\n").encode(), replace=True
            )
            say(f"{method} may draw from private data: this program passed.")
        else:
            say(f"{method} is not noted as audited: expected at least {FEWEST} runs.")
    return held and found


def tally_of(name: str, *, seed: int, count: int) -> Tally:
    """Of a kind of worlds, or of a mutant, by name."""
    for mutant in MUTANTS:
        if mutant.name == name:
            return mutant.tally(seed=seed, count=_MOST_OF_MUTANTS)
    method = name.partition(":")[0]
    (case,) = (case for case in cases_of(method) if case.name == name)
    return audit_transcripts(case, seed=seed, count=count)


def broken_sentences(tallies: Sequence[Tally]) -> list[str]:
    """Of each method that does not keep what it states: in how many kinds of worlds, and by how
    much in the first.
    """
    by_method: dict[str, list[Tally]] = {}
    for tally in tallies:
        by_method.setdefault(tally.case.partition(":")[0], []).append(tally)
    told = []
    for method, some in by_method.items():
        if broken := [tally for tally in some if not tally.holds]:
            first = broken[0]
            world, what = first.case.partition(": ")[2], first.broken.partition(": ")[2]
            told.append(
                f"{method} does not keep what it states in {len(broken)} of "
                f"{many(len(some), 'kind')} of worlds (first {world!r}: {what})"
            )
    return told


def show_tallies(honest: Sequence[Tally], mutants: Sequence[tuple[Mutant, Tally]]) -> None:
    """Print the answer in one line, and a table of all."""
    worst = max(max(tally.sum, tally.step) for tally in honest)
    broken = broken_sentences(honest)
    total = sum(tally.transcripts for tally in honest)
    say(
        f"{total:,} transcripts, {sum(tally.steps for tally in honest):,} noisy steps: "
        + (
            f"{'; '.join(broken)}."
            if broken
            else f"none told more than stated, the most {worst:.4f} of it."
        )
    )
    table = new_table("method and worlds", "transcripts", "in sum", "one step", "", "ms each")
    for tally in honest:
        table.add_row(
            tally.case,
            f"{tally.transcripts}",
            # before the transcript that breaks it little or nothing was told
            f"{tally.sum:.4f}" if tally.holds else "",
            f"{tally.step:.4f}" if tally.holds else "",
            tally.broken or "holds",
            f"{1000 * tally.seconds / max(1, tally.transcripts):.1f}",
        )
    for mutant, tally in mutants:
        table.add_row(
            f"  {mutant.name}",
            f"{tally.transcripts}",
            "",
            "",
            f"caught: {mutant.what_is_wrong}" if tally.broken else "NOT CAUGHT",
            f"{1000 * tally.seconds / max(1, tally.transcripts):.1f}",
        )
    console.print(table)
