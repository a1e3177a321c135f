"""Ten thousand files changed at random, and the nasties: no planted value shows, nothing hangs,
nothing crashes.

Cases run in processes that are killed when one takes too long; a case that did is tried once more,
with the time that others take on a busy machine added.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import resource
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from lab.benchmarks.figures import Figures, bench, sized
from lab.benchmarks.hostile_input.cases import CANARIES, Outcome, attempt
from lab.benchmarks.hostile_input.mutations import mutated
from lab.benchmarks.hostile_input.nasties import nasties

CASES, HANG_SECONDS = sized(10_000, 40), 5
_START_SECONDS, _MEMORY_BYTES = 120, 6 << 30
_CONTEXT = multiprocessing.get_context("spawn")


def measure(figures: Figures, cases: int = CASES) -> None:
    """Record how many cases showed a planted value, hung or crashed: none may."""
    names = [*range(cases), *(-1 - number for number in range(len(nasties())))]
    workers = os.cpu_count() or 1
    with ThreadPoolExecutor(workers) as pool:
        parts = pool.map(_watch, [names[number::workers] for number in range(workers)])
    outcomes = [outcome for part in parts for outcome in part]
    verdicts = Counter(
        (outcome.name.split()[0].strip(":"), outcome.verdict) for outcome in outcomes
    )
    print(
        ", ".join(
            f"{kind} {verdict}: {count}" for (kind, verdict), count in sorted(verdicts.items())
        )
    )
    for outcome in outcomes:
        if outcome.leaks or outcome.verdict not in ("accepted", "refused"):
            print(f"{outcome.name!a}: {outcome.verdict}, {outcome.leaks} leaks: {outcome.told!a}")
    figures.at_least("hostile-cases", sum(name >= 0 for name in names), cases)
    figures.at_least("hostile-nasties", sum(name < 0 for name in names), 100)
    figures.exactly("hostile-values-in-messages", sum(outcome.leaks for outcome in outcomes), 0)
    figures.exactly(
        f"hostile-hangs-over-{HANG_SECONDS}-s",
        sum(outcome.verdict == "hang" for outcome in outcomes),
        0,
    )
    figures.exactly(
        "hostile-tracebacks",
        sum(outcome.verdict in ("traceback", "died") for outcome in outcomes),
        0,
    )


def _watch(numbers: list[int]) -> list[Outcome]:
    """The outcomes of these cases; negative numbers are nasties."""
    outcomes, waiting = [], [(number, False) for number in reversed(numbers)]
    while waiting:
        with _worker() as pipe:
            while waiting:
                number, again = waiting.pop()
                outcome = _ask(pipe, number, HANG_SECONDS * (_crowd() if again else 1))
                if outcome.verdict == "hang" and not again:
                    waiting.append((number, True))
                else:
                    outcomes.append(outcome)
                if outcome.verdict in ("hang", "died"):
                    break
    return outcomes


def _crowd() -> float:
    """Processes that want a core, per core; at least one."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def _ask(pipe: Connection, number: int, seconds: float) -> Outcome:
    try:
        pipe.send(number)
        if pipe.poll(seconds):
            return pipe.recv()
    except (EOFError, ConnectionError):
        return Outcome(f"case {number}", "died", 0, "")
    return Outcome(f"case {number}", "hang", 0, "")


@contextmanager
def _worker() -> Iterator[Connection]:
    ours, theirs = _CONTEXT.Pipe()
    process = _CONTEXT.Process(target=_work, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(_START_SECONDS):
            raise TimeoutError("a worker does not start")
        ours.recv()
        yield ours
    finally:
        process.kill()
        process.join()
        ours.close()


def _work(pipe: Connection) -> None:
    """Answer numbers with outcomes; what libraries print by themselves is searched too."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    logging.captureWarnings(True)
    known = nasties()
    with tempfile.TemporaryFile() as printed:
        for stream in (1, 2):
            os.dup2(printed.fileno(), stream)
        pipe.send("ready")
        while True:
            number = pipe.recv()
            with tempfile.TemporaryDirectory() as folder:
                outcome = attempt(
                    mutated(number) if number >= 0 else known[-1 - number], Path(folder)
                )
            printed.seek(0)
            text = printed.read()
            printed.seek(0)
            printed.truncate()
            shown = any(canary.encode() in text for canary in CANARIES)
            pipe.send(Outcome(outcome.name, outcome.verdict, outcome.leaks + shown, outcome.told))


PARTS = (measure,)

if __name__ == "__main__":
    bench(PARTS)
