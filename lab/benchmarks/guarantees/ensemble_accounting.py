"""What the published noise of DP-ICL costs under the sensitivity that it assumes and under the true
one.
"""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

from dpicl.accounting.accountant import bracket, price
from dpicl.accounting.calibration import subsampled_gaussian
from dpicl.accounting.guarantee import Neighbours
from lab.benchmarks.figures import Figures

RATE, QUERIES, DELTA = Fraction(400, 14_732), 100, 5e-5
PUBLISHED = {1: 1.272, 3: 0.787, 8: 0.548}
"""Noise by the epsilon that it is said to cost (SAMSum)."""
TRUE = {1: 5.3, 3: 19.8, 8: 51.4}
"""What it costs where one answer moves a sum of unit vectors by 2."""


def cost(sigma: float, sensitivity: float) -> float:
    """Epsilon of all queries together, where one row moves the sum by `sensitivity`."""
    event = subsampled_gaussian(sigma / sensitivity, RATE, QUERIES)
    return price(event, neighbours=Neighbours.ADD_OR_REMOVE_ONE, unit="row", delta=DELTA).epsilon


def measure(figures: Figures) -> None:
    """Three sensitivities, and a second accountant."""
    print(
        f"{'said to cost':>14}{'sigma':>8}{'sensitivity 1':>15}{'sqrt 2':>9}{'2':>9}   "
        f"prv-accountant at 1"
    )
    deviations: list[float] = []
    for epsilon, sigma in PUBLISHED.items():
        one, root, two = (cost(sigma, sensitivity) for sensitivity in (1, sqrt(2), 2))
        priced = price(
            subsampled_gaussian(sigma, RATE, QUERIES),
            neighbours=Neighbours.ADD_OR_REMOVE_ONE,
            unit="row",
            delta=DELTA,
        )
        bounds = bracket([priced], delta=DELTA)
        print(
            f"{epsilon:14}{sigma:8}{one:15.3f}{root:9.3f}{two:9.3f}   {bounds.low:.3f} to "
            f"{bounds.high:.3f}"
        )
        deviations += [abs(one / epsilon - 1), abs(two / TRUE[epsilon] - 1)]
    figures.at_most("published-accounting-deviation", 100 * max(deviations), 1, " %")
