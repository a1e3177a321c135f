"""How a benchmark reports: one line per figure, exit code 1 if one is short.

A topic is a module with `PARTS` and `bench(PARTS)` at its end: `make bench TOPIC=main`, or
`python -m lab.benchmarks.main table_5` for one part. With BENCH_SIZE=smoke each number that `sized`
gives is its small one, and a figure that is short fails nothing: what is seen is whether a topic
runs to its end.

Of a topic that times (`bench(PARTS, alone=True)`) a part says what share of the machine others used
meanwhile; its figures have no verdict, `disturbed`, where that is more than a tenth, and fail.
"""

from __future__ import annotations

import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import psutil

SMOKE = os.environ.get("BENCH_SIZE") == "smoke"
_Size = TypeVar("_Size")
_MOST_OF_OTHERS = 0.1


def sized(whole: _Size, smoke: _Size) -> _Size:
    """How much of something is measured: all of it, or enough to see that the bench runs."""
    return smoke if SMOKE else whole


@dataclass
class Figures:
    """Collected figures of one topic."""

    lines: list[tuple[str, str, str, bool]] = field(default_factory=list)
    disturbed: set[str] = field(default_factory=set)
    """Names of figures that were taken beside other work."""

    def at_least(self, name: str, value: float, goal: float, unit: str = "") -> None:
        """A figure that is good when large."""
        self.lines.append((name, f"{_shown(value)}{unit}", f">= {goal:,g}{unit}", value >= goal))

    def at_most(self, name: str, value: float, goal: float, unit: str = "") -> None:
        """A figure that is good when small."""
        self.lines.append((name, f"{_shown(value)}{unit}", f"<= {goal:,g}{unit}", value <= goal))

    def within(self, name: str, value: float, low: float, high: float, unit: str = "") -> None:
        """A figure that is good between two bounds."""
        goal = f"{low:,g} to {high:,g}{unit}"
        self.lines.append((name, f"{_shown(value)}{unit}", goal, low <= value <= high))

    def exactly(self, name: str, value: object, goal: object, beside: str = "") -> None:
        """A figure that has one right value; `beside` is shown after it and not compared."""
        self.lines.append((name, f"{value}{beside}", str(goal), value == goal))

    def finish(self) -> None:
        """Print every figure and leave with 1 if one is short; in smoke size none counts as
        short.
        """
        print()
        for name, value, goal, good in self.lines:
            verdict = "ok" if good else "short"
            verdict = "disturbed" if name in self.disturbed else verdict
            print(f"figure {name}: {value} (goal {goal}) {verdict}")
        good = all(good for *_, good in self.lines) and not self.disturbed
        sys.exit(0 if SMOKE or good else 1)


Part = Callable[[Figures], None]


def name_of(part: Part) -> str:
    """A part's name: its function's, or its module's where the function is `measure`."""
    spec = part.__globals__["__spec__"]  # the module's own name, also where it is the program
    return part.__name__ if part.__name__ != "measure" else spec.name.rpartition(".")[2]


def bench(parts: Sequence[Part], after: Part | None = None, *, alone: bool = False) -> None:
    """Measure the parts that the command line names, or all of them in their order; then do what
    goes by all their figures.

    Args:
        alone: a part beside which others used more than a tenth of the machine has no verdict.
    """
    known, figures = {name_of(part): part for part in parts}, Figures()
    if unknown := [name for name in sys.argv[1:] if name not in known]:
        sys.exit(f"{', '.join(unknown)}: no part; expected some of {', '.join(known)}")
    for name in sys.argv[1:] or known:
        started, before, others = time.perf_counter(), len(figures.lines), _others()
        print(f"measuring {name} …", flush=True)
        known[name](figures)
        wall = time.perf_counter() - started
        share = max(0.0, (_others() - others) / (wall * (os.cpu_count() or 1)))
        beside = f", beside others that used {share:.0%} of the machine" if alone else ""
        print(f"{name}: {wall:.0f} s{beside}", flush=True)
        if alone and share > _MOST_OF_OTHERS:
            figures.disturbed |= {line[0] for line in figures.lines[before:]}
    if after is not None:
        after(figures)
    figures.finish()


def _others() -> float:
    """A clock: processor seconds of all that is not this process or one that it has waited for,
    other machines of this host among them.
    """
    of_all = psutil.cpu_times()
    busy = sum(of_all) - of_all.idle - getattr(of_all, "iowait", 0.0)
    return float(busy - sum(os.times()[:4]))


def _shown(value: float) -> str:
    return f"{value:,d}" if isinstance(value, int) else f"{value:,.4g}"


def seconds(function: Callable[[], object], repeats: int = 5) -> float:
    """Median wall time of a call, after one that is not counted."""
    function()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def best_of(
    functions: Sequence[Callable[[], object]],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Least time of each call, on the wall or by another clock, taken in turn: what else the
    machine does meets all of them.
    """
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(rounds):
        for function, taken in zip(functions, times, strict=True):
            started = clock()
            function()
            taken.append(clock() - started)
    return [min(taken) for taken in times]


def children() -> float:
    """A clock: processor seconds of all processes that this one has started and waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
