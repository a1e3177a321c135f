"""What ten releases of one account cost under its filter, beside the sum of their epsilons,
zero-concentrated DP, the best fixed Rényi order and the best theorem of all for these releases.

    python -m lab.benchmarks.composition       prints the table of docs/guarantee.md

The filter lets every release be chosen after the ones before it were seen, and stops at any time.
A fixed order does so too [FZ21] if the order is chosen before the first release: which one is the
best is known only after the last. Sums of mu^2 of Gaussian releases do so exactly [ST22].
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize_scalar

from dpicl.accounting.accountant import price
from dpicl.accounting.calibration import calibrate
from dpicl.accounting.events import gaussian, number, pure
from dpicl.accounting.filters import Spent
from dpicl.accounting.guarantee import Guarantee, Neighbours
from dpicl.accounting.renyi import ORDERS, curve_of
from lab.benchmarks.figures import Figures, bench

DELTA, OWN_DELTA = 1e-5, 1e-6
"""Of the account, and of each release with Gaussian noise."""
ADD = Neighbours.ADD_OR_REMOVE_ONE
MOST = 1.1


def pure_release(epsilon: float) -> Guarantee:
    """With Laplace noise."""
    return price(pure(epsilon), neighbours=ADD, unit="row", delta=0)


def gaussian_release(epsilon: float) -> Guarantee:
    """With Gaussian noise that costs (epsilon, 1e-6)."""
    sigma = calibrate(
        lambda sigma: gaussian(sigma=sigma), epsilon=epsilon, delta=OWN_DELTA, neighbours=ADD
    )
    return price(gaussian(sigma=sigma), neighbours=ADD, unit="row", delta=OWN_DELTA)


ACCOUNTS = {
    "ten at ε = 0.1, pure": [pure_release(0.1)] * 10,
    "ten at ε = 1, pure": [pure_release(1.0)] * 10,
    "a hundred at ε = 0.05, pure": [pure_release(0.05)] * 100,
    "ten at ε = 0.3, Gaussian": [gaussian_release(0.3)] * 10,
    "ten at ε = 1, Gaussian": [gaussian_release(1.0)] * 10,
    "ten at ε = 0.1 to 1, Gaussian": [gaussian_release(n / 10) for n in range(1, 11)],
    "five at ε = 0.5, Gaussian, and five at 0.2, pure": [
        *[gaussian_release(0.5)] * 5,
        *[pure_release(0.2)] * 5,
    ],
    "one at ε = 1, Gaussian, and nine at 0.1, pure": [
        gaussian_release(1.0),
        *[pure_release(0.1)] * 9,
    ],
}


def zero_concentrated(entries: Sequence[Guarantee]) -> float:
    """By rho, the sum of mu^2 / 2 and epsilon^2 / 2, and the best order for the sum."""
    rho = sum(
        entry.epsilon**2 / 2 if entry.delta == 0 else 0.5 / number(entry.event, "sigma") ** 2
        for entry in entries
    )
    return float(minimize_scalar(lambda z: _at(1 + math.exp(z), rho * (1 + math.exp(z)))).fun)


def best_order(entries: Sequence[Guarantee]) -> float:
    """By sums of Rényi bounds at the order that turns out to be the best."""
    sums = np.sum([curve_of(entry.event, ADD).renyi for entry in entries], axis=0)
    return min(_at(order, total) for order, total in zip(ORDERS, sums.tolist(), strict=True))


def _at(order: float, renyi: float) -> float:
    """[CKS20], proposition 12."""
    tail = math.log(DELTA) + math.log(order)
    return max(0.0, renyi + math.log1p(-1 / order) - tail / (order - 1))


def best_theorem(entries: Sequence[Guarantee]) -> float:
    """The least of what holds for releases that are chosen one after another."""
    costs = [best_order(entries)]
    if all(entry.delta == 0 for entry in entries):
        costs.append(sum(entry.epsilon for entry in entries))
    if all(entry.event.kind == "gaussian" for entry in entries):
        sigma = sum(number(entry.event, "sigma") ** -2 for entry in entries) ** -0.5
        one = price(gaussian(sigma=sigma), neighbours=ADD, unit="row", delta=DELTA)
        costs.append(one.epsilon)
    return min(costs)


def filtered(entries: Sequence[Guarantee]) -> float:
    """What an account has spent."""
    spent = Spent.nothing()
    for entry in entries:
        spent = spent.plus(entry)
    return spent.cost(DELTA).epsilon


def measure(figures: Figures) -> None:
    """Every account; the worst ratio is the figure."""
    print("| releases | filter | sum of ε | zCDP | best fixed order | best theorem | ratio |")
    print("|---|---|---|---|---|---|---|")
    ratios = []
    for name, entries in ACCOUNTS.items():
        ours, best = filtered(entries), best_theorem(entries)
        ratios.append(ours / best)
        sums = sum(entry.epsilon for entry in entries)
        columns = (ours, sums, zero_concentrated(entries), best_order(entries), best)
        shown = " | ".join(f"{cost:.2f}" for cost in columns)
        print(f"| {name} | {shown} | {ours / best:.2f} |")
    figures.at_most("the filter over the best theorem, worst account", max(ratios), MOST)


PARTS = (measure,)

if __name__ == "__main__":
    bench(PARTS)
