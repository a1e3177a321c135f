"""How a benchmark reports: one line per figure, exit code 1 if one is short."""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass
class Figures:
    """Collected figures of one topic."""

    lines: list[tuple[str, str, str, bool]] = field(default_factory=list)

    def at_least(self, name: str, value: float, goal: float, unit: str = "") -> None:
        """A figure that is good when large."""
        self.lines.append((name, f"{_shown(value)}{unit}", f">= {goal:,g}{unit}", value >= goal))

    def at_most(self, name: str, value: float, goal: float, unit: str = "") -> None:
        """A figure that is good when small."""
        self.lines.append((name, f"{_shown(value)}{unit}", f"<= {goal:,g}{unit}", value <= goal))

    def exactly(self, name: str, value: object, goal: object) -> None:
        """A figure that has one right value."""
        self.lines.append((name, str(value), str(goal), value == goal))

    def finish(self) -> None:
        """Print every figure and leave with 1 if one is short."""
        print()
        for name, value, goal, good in self.lines:
            print(f"figure {name}: {value} (goal {goal}) {'ok' if good else 'short'}")
        sys.exit(0 if all(good for *_, good in self.lines) else 1)


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


def best_of(functions: Sequence[Callable[[], object]], rounds: int, clock: Callable[[], float] = time.perf_counter) -> list[float]:
    """Least time of each call, on the wall or by another clock, taken in turn: what else the machine does meets all of them."""
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
