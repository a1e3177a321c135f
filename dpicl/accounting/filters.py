"""The privacy filter of an account: whether one more release, chosen after earlier ones were seen,
still fits.

Trust       none: pure bookkeeping over public parameters.
Unit        one for all entries; another is refused.
Neighbours  one relation for all entries; another is refused.
Guarantee   if every entry was accepted at a cost of at most `epsilon`, all of them together are
            (epsilon, delta)-DP, however an adversary chose them, their parameters and their number.
            Were the cap raised, this holds for the largest value that it could have been raised to.
Paper       theorem, pure sums: [RRUV16] Rogers, Roth, Ullman and Vadhan (arXiv 1605.08294).
            Theorem, Rényi sums at one fixed order: [FZ21] Feldman and Zrnic (2008.11193), [L21]
            Lécuyer (2103.01379); [H+23] also for interleaved sessions (2309.05901). Theorem, sums
            of mu^2: [ST22] Smith and Thakurta (2210.17520). Tail of one order: [M17], [CKS20].
            Ours: all orders at once by a mixture, its reserve for deltas,
            and entries that are all alike.

    (1)  all entries pure: the sum of their epsilons, delta 0
    (2)  mixture: (1 - e^(-z)) <= delta_B  sum_i w_i e^((a_i - 1) (epsilon + z - S(a_i)))   for
         every z > 0; with r_i = epsilon (a_i - 1) / max(2, ln(1 / delta_B)) a tenth of w_i is
         g_i / r_i^2, without the orders where r_i < 1, and nine tenths are normal in ln r_i,
         around ln 2 with deviation s
    (3)  all entries multiples of one event: privacy loss distribution of their number, at delta_A;
         all entries Gaussian: that of the one Gaussian whose mu^2 is the sum of theirs
    (4)  one entry: privacy loss distribution at delta

Proofs: docs/proofs.md, lemma D of (2) and its reserve, lemma E of (3), (4) and all rules together.
No order is chosen in (2), and none is given up; a union bound over the orders is the special case
in which one summand carries it alone. No term of (2) falls while epsilon grows, so that the least
epsilon of (2) is at most the cap just where (2) holds at the cap. Most entries are far from pure:
S(a) = a rho, and the order at which such a sum exhausts the cap has r near 2. The reserve is fixed,
not what the tail left over: traded against each other by an adversary, the two would add up to more
than delta.

Symbols     S(a) sum of Rényi bounds at order a; g_i constants; delta_A, delta_B and reserve are the
            shares below of delta.
Not covered outcomes that are thrown away to spend again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from dpicl.accounting.accountant import Cost, check
from dpicl.accounting.events import (
    HORIZON_PART,
    event_as_json,
    event_from_json,
    gaussian,
    leaves,
    number,
    repeated,
    sequential,
)
from dpicl.accounting.guarantee import Event, Guarantee, Neighbours
from dpicl.accounting.renyi import ORDERS, curve_of
from dpicl.ground.errors import PrivacyError

__all__ = ["ALIKE", "MIXTURE", "ORDERS", "RESERVE", "Alike", "Spent"]
ALIKE, MIXTURE, RESERVE = Fraction(1, 4), Fraction(5, 8), Fraction(1, 8)
"""Shares of delta: of equation (3), of the tail in (2), and of the deltas of approximate parts."""
_QUANTUM, _MOST = 2.0**-40, 2.0**12
"""Bounds are multiples of the one and at most the other, else infinite: so sums are exact, in any
order.
"""
_LEAST_GAUSSIAN = gaussian(sigma=_QUANTUM**-0.5)
_LAMBDAS = np.array(ORDERS) - 1
_SPACING = np.gradient(np.log(_LAMBDAS))
_SHARES = np.log(
    _SPACING
    / max(
        float(np.sum(_SPACING[i:] * (_LAMBDAS[i] / _LAMBDAS[i:]) ** 2)) for i in range(len(ORDERS))
    )
)
"""ln g_i: so large that the weights of (2) sum to at most 1, whichever order is the first of
them.
"""
_WIDEST, _USUAL = 0.4, 0.9
"""s, where L is not small, and the part of the weights that is normal."""
_PLACES = np.linspace(-12, 12, 2401)
"""Of ln(epsilon / L), at which the normal weights are summed: between two of them the sum moves by
less than `_MARGIN`."""
_MARGIN = 1e-3
_ENOUGH = 0.95
"""Of a pure sum, whose delta is 0: another way must cost so much less."""
_LEAST, _LARGEST = 1e-6, 2.0**16
"""Epsilons between which (2) is solved."""
_PRECISION = 1e-9


@dataclass(frozen=True)
class Alike:
    """Entries that are together `times` one event: Gaussian ones that of the smallest mu."""

    event: Event
    times: int

    @staticmethod
    @lru_cache(maxsize=1024)
    def of(event: Event) -> Alike:
        """An event as a multiple of the smallest bundle of leaves that it repeats; of Gaussian
        leaves the sum of mu^2, rounded up to a multiple of 2^-40.
        """
        counts = leaves(event)
        if counts and all(leaf.kind == "gaussian" for leaf in counts):
            times = sum(
                math.ceil(
                    count * (number(leaf, "sensitivity") / number(leaf, "sigma")) ** 2 / _QUANTUM
                )
                for leaf, count in counts.items()
            )
            return Alike(_LEAST_GAUSSIAN, times)
        times = math.gcd(*counts.values())
        parts = sorted((repeated(leaf, count // times) for leaf, count in counts.items()), key=repr)
        return Alike(sequential(parts), times)

    @property
    def leaves(self) -> dict[Event, int]:
        """Of all of them; of Gaussian ones the one that costs what they do."""
        if self.event == _LEAST_GAUSSIAN:
            return {gaussian(sigma=1 / math.sqrt(self.times * _QUANTUM)): 1}
        return leaves(self.event, self.times)


@dataclass(frozen=True)
class Spent:
    """What an account has spent so far, as the privacy filter sees it: small, additive, exact where
    it can be.

    Attributes:
        count: Entries.
        epsilon: Exact sum of the epsilons of pure entries; None once an entry is not pure.
        delta: Sum of the deltas of approximate parts.
        renyi: Sums of the Rényi bounds at `ORDERS`, each entry's rounded up to a multiple of 2^-40.
        sole: What all entries are multiples of; None once they differ, or without any.
        relation: Neighbours and unit of all entries.
    """

    count: int
    epsilon: Fraction | None
    delta: Fraction
    renyi: tuple[float, ...]
    sole: Alike | None
    relation: tuple[Neighbours, str] | None

    @staticmethod
    def nothing() -> Spent:
        """No entry yet."""
        return Spent(0, Fraction(0), Fraction(0), (0.0,) * len(ORDERS), None, None)

    def plus(self, guarantee: Guarantee) -> Spent:
        """With one entry more. Raises PrivacyError: another unit or relation, an unknown event, or
        one without a curve.
        """
        relation = (guarantee.neighbours, guarantee.unit)
        if self.relation not in (None, relation):
            raise PrivacyError(
                f"an account protects one relation and one unit, {self.relation}; got a guarantee "
                f"for {relation}"
            )
        if guarantee.event.kind == HORIZON_PART:  # no entry of its own: paid with its horizon
            return self
        is_pure = guarantee.delta == 0 and math.isfinite(guarantee.epsilon)
        if is_pure:
            check(guarantee)
        bounds, delta = _bounds(guarantee.event, guarantee.neighbours)
        sums = [spent + more for spent, more in zip(self.renyi, bounds, strict=True)]
        alike = Alike.of(guarantee.event) if self.sole or not self.count else None
        if alike and self.sole:
            alike = (
                Alike(alike.event, self.sole.times + alike.times)
                if alike.event == self.sole.event
                else None
            )
        return Spent(
            self.count + 1,
            self.epsilon + Fraction(guarantee.epsilon)
            if self.epsilon is not None and is_pure
            else None,
            self.delta + delta,
            tuple(bound if bound <= _MOST else math.inf for bound in sums),
            alike,
            relation,
        )

    def cost(self, delta: float) -> Cost:
        """An epsilon that fits as long as it is at most the cap; equations (1) to (4).
        Raises PrivacyError: delta is outside [0, 1), or the one event of all entries has no price.
        """
        if not 0 <= delta < 1:
            raise PrivacyError(f"a filter needs a delta in [0, 1), got delta={delta}")
        pure = None if self.epsilon is None else Cost(float(self.epsilon), 0.0, "pure sum")
        if pure and (delta == 0 or self.count <= 1):
            return pure
        if delta == 0:
            return Cost(math.inf, 0.0, "no delta to spend")
        least = self._least(delta)
        return pure if pure and least.epsilon >= _ENOUGH * pure.epsilon else least

    def _least(self, delta: float) -> Cost:
        """Equations (2) to (4)."""
        if self.count == 1:
            return self._by_distribution(delta, delta, "PLD")
        mixture = Cost(mixture_epsilon(self.renyi, self.delta, delta), delta, "Rényi filter")
        alike = self._by_distribution(float(ALIKE) * delta, delta, "filter of equal entries, PLD")
        return min(mixture, alike, key=lambda cost: cost.epsilon)

    def as_json(self) -> dict[str, Any]:
        """A dictionary that JSON can hold; `from_json` gives the same value back."""
        return {
            "count": self.count,
            "epsilon": None if self.epsilon is None else str(self.epsilon),
            "delta": str(self.delta),
            "renyi": ["inf" if math.isinf(bound) else bound for bound in self.renyi],
            "sole": None
            if self.sole is None
            else {"event": event_as_json(self.sole.event), "times": self.sole.times},
            "relation": None
            if self.relation is None
            else [self.relation[0].value, self.relation[1]],
        }

    @staticmethod
    def from_json(content: dict[str, Any]) -> Spent:
        """The value of `as_json`. Raises PrivacyError: it was written for another grid of
        orders.
        """
        renyi = tuple(float(bound) for bound in content["renyi"])
        if len(renyi) != len(ORDERS):
            raise PrivacyError(
                f"an account's Rényi sums have {len(renyi)} orders; expected {len(ORDERS)}"
            )
        epsilon = content["epsilon"]
        sole = content["sole"]
        relation = content["relation"]
        return Spent(
            content["count"],
            None if epsilon is None else Fraction(epsilon),
            Fraction(content["delta"]),
            renyi,
            None
            if sole is None
            else Alike.of(repeated(event_from_json(sole["event"]), sole["times"])),
            None if relation is None else (Neighbours(relation[0]), relation[1]),
        )

    def _by_distribution(self, share: float, delta: float, method: str) -> Cost:
        if self.sole is None or self.relation is None:
            return Cost(math.inf, delta, method)
        from dpicl.accounting.pld import epsilon_at

        counts = frozenset(self.sole.leaves.items())
        epsilon, interval = epsilon_at(counts, self.relation[0], share)
        return Cost(epsilon, delta, f"{method}, interval {interval:.2g}")


@lru_cache(maxsize=1024)
def _bounds(event: Event, neighbours: Neighbours) -> tuple[tuple[float, ...], Fraction]:
    """Of an entry: Rényi bounds at `ORDERS`, rounded up, and delta."""
    curve = curve_of(event, neighbours)
    # a margin for the sums of a few floats that led here
    raised = (bound * (1 + _QUANTUM) for bound in curve.renyi)
    bounds = (
        math.ceil(bound / _QUANTUM) * _QUANTUM if bound < _MOST else math.inf for bound in raised
    )
    return tuple(bounds), curve.delta


@lru_cache(maxsize=1024)
def mixture_epsilon(renyi: tuple[float, ...], spent_delta: Fraction, delta: float) -> float:
    """The least epsilon of equation (2), rounded up."""
    if spent_delta > RESERVE * Fraction(delta) or all(math.isinf(bound) for bound in renyi):
        return math.inf
    sums = np.array(renyi)
    tail = float(MIXTURE) * delta
    low, high = _LEAST, 1.0
    if _excess(low, sums, tail) <= 0:
        return low
    while _excess(high, sums, tail) > 0:
        low, high = high, 2 * high
        if high > _LARGEST:
            return math.inf
    while high > low * (1 + _PRECISION):
        middle = (low + high) / 2
        low, high = (low, middle) if _excess(middle, sums, tail) <= 0 else (middle, high)
    return high * (1 + _PRECISION)


def log_weights(epsilon: float, delta: float) -> np.ndarray:
    """ln w_i of equation (2), by order; they sum to at most 1."""
    large = max(2.0, -math.log(delta))
    logs = np.log(_LAMBDAS) + math.log(epsilon / large)
    falling = np.where(logs >= 0, _SHARES - 2 * logs, -math.inf)
    width = max(_WIDEST, 1 / math.sqrt(2 * math.e * large))
    normal = np.log(_SPACING) + _log_normal(logs, width) - _most(width)
    return np.logaddexp(math.log(_USUAL) + normal, math.log(1 - _USUAL) + falling)


def _log_normal(logs: np.ndarray, width: float) -> np.ndarray:
    return np.asarray(-0.5 * ((logs - math.log(2)) / width) ** 2)


@lru_cache(maxsize=64)
def _most(width: float) -> float:
    """ln of the most that the normal weights of all orders sum to, whatever the cap."""
    logs = np.log(_LAMBDAS) + _PLACES[:, np.newaxis]
    sums = np.exp(np.log(_SPACING) + _log_normal(logs, width)).sum(axis=1)
    return math.log(float(sums.max()) * (1 + _MARGIN))


def _excess(epsilon: float, sums: np.ndarray, delta: float) -> float:
    """The largest ln(left / right) of (2) over z, which is concave in z; its place is where  e^z -
    1  is a mean of 1 / (a - 1).
    """
    weights = log_weights(epsilon, delta)
    used = np.isfinite(weights) & np.isfinite(sums)
    if not used.any():
        return math.inf
    lambdas = _LAMBDAS[used]
    terms = weights[used] + lambdas * (epsilon - sums[used])

    def right(z: float) -> float:
        return float(np.logaddexp.reduce(terms + lambdas * z))

    # a third of a second to import: only where it is called
    from scipy.optimize import (
        minimize_scalar,
    )

    bounds = math.log1p(1 / lambdas[-1]), math.log1p(1 / lambdas[0]) * (1 + _PRECISION)
    lowest = minimize_scalar(
        lambda z: right(z) - math.log(-math.expm1(-z)),
        bounds=bounds,
        method="bounded",
        options={"xatol": 1e-10},
    )
    return -float(lowest.fun) - math.log(delta)
