"""What the published noise of DP-ICL costs under the sensitivity that it assumes and under the true
one, and what audits catch.
"""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

from dpicl.accounting.accountant import bracket, price
from dpicl.accounting.calibration import subsampled_gaussian
from dpicl.accounting.guarantee import Neighbours
from lab.audit import CASES, run_audits
from lab.benchmarks.figures import Figures, sized

RATE, QUERIES, DELTA = Fraction(400, 14_732), 100, 5e-5
PUBLISHED = {1: 1.272, 3: 0.787, 8: 0.548}
"""Noise by the epsilon that it is said to cost (SAMSum)."""
TRUE = {1: 5.3, 3: 19.8, 8: 51.4}
"""What it costs where one answer moves a sum of unit vectors by 2."""
AUDITS, RUNS = (
    (
        "ensemble-votes",
        "calibrated-votes",
        "ensemble-embedding",
        "keyword-test",
        "keyword-joint",
        "keyed-subsets",
    ),
    sized(200_000, 2_000),
)


def cost(sigma: float, sensitivity: float) -> float:
    """Epsilon of all queries together, where one row moves the sum by `sensitivity`."""
    event = subsampled_gaussian(sigma / sensitivity, RATE, QUERIES)
    return price(event, neighbours=Neighbours.ADD_OR_REMOVE_ONE, unit="row", delta=DELTA).epsilon


def measure(figures: Figures) -> None:
    """Three sensitivities, a second accountant, and the audits with their mutants."""
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
    results = run_audits([CASES[name] for name in AUDITS], runs=RUNS, seed=0)
    for result in results:
        print(
            f"{result.case.name}: at least {result.epsilon_at_least:.3f} of "
            f"{result.case.stated_epsilon:.3f} stated"
        )
    figures.exactly(
        "audits-above-the-stated-epsilon", sum(not result.holds for result in results), 0
    )
    caught = [mutant.caught for result in results for mutant in result.mutants]
    figures.exactly(
        "audit-mutants-caught", f"{sum(caught)} of {len(caught)}", f"{len(caught)} of {len(caught)}"
    )
