"""Epsilon from below, given how often events occurred on each of two neighbours.

Paper       Clopper and Pearson 1934; [JUO20] Jagielski, Ullman and Oprea 2020, section 3.

    (1)  epsilon >= ln( low(P[event | one neighbour]) / high(P[event | the other]) )

Not covered delta > 0: every mechanism here is pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from scipy import stats

from dpicl.randomness import Stream

SURE = 1e-6
"""How often a right mechanism would be called wrong, if streams were named afresh."""
_BLOCK = 1 << 14

Draw = Callable[[bool, int, Stream], np.ndarray]
"""Outputs of some runs on one neighbour (`True`: the one with the row more), one per row of the array."""
Event = Callable[[np.ndarray], np.ndarray]
"""Which outputs are in an event: shape (runs,), bool."""
Run = Callable[[int, Stream], float]
"""A lower bound on epsilon from so many runs on each neighbour."""


def epsilon_at_least(seen_with: int, seen_without: int, runs: int, *, sure: float = SURE) -> float:
    """Equation (1), one way; both Clopper-Pearson bounds hold at once except with probability `sure`."""
    if seen_with == 0:
        return -math.inf
    low = stats.beta.ppf(sure / 2, seen_with, runs - seen_with + 1)
    high = 1.0 if seen_without == runs else stats.beta.ppf(1 - sure / 2, seen_without + 1, runs - seen_without)
    return float(math.log(low / high))


def bound(draw: Draw, events: Mapping[str, Event], *, per_run: int = 1) -> Run:
    """The best of equation (1) over all events and both ways, never below 0.

    `SURE` is shared among all that are tried, so that the best of them is as sure as one.

    Args:
        per_run: draws that one run stands for, where they are cheap.
    """

    def run(runs: int, stream: Stream) -> float:
        count = runs * per_run
        with_row, without = (_seen(draw, events, which, count, stream) for which in (True, False))
        sure = SURE / (2 * len(events))
        ways = [*zip(with_row, without, strict=True), *zip(without, with_row, strict=True)]
        return max(0.0, *(epsilon_at_least(int(one), int(other), count, sure=sure) for one, other in ways))

    return run


def _seen(draw: Draw, events: Mapping[str, Event], which: bool, count: int, stream: Stream) -> np.ndarray:
    """How often each event occurs; in blocks, so that memory does not grow with the runs."""
    seen = np.zeros(len(events), dtype=np.int64)
    for start in range(0, count, _BLOCK):
        outputs = draw(which, min(_BLOCK, count - start), stream)
        seen += [int(np.count_nonzero(event(outputs))) for event in events.values()]
    return seen


def low_bits(outputs: np.ndarray) -> np.ndarray:
    """The last bit of every output, whole number or double: noise that leaves it alone leaks it."""
    whole = outputs.view(np.int64) if outputs.dtype == np.float64 else outputs
    return (whole & 1).astype(bool)
