"""Prices without a delta: the worst loss of each event, and their sums.

Unit        as the certificate states it.
Neighbours  as the certificate states them; an event that is stated for others has no price here.
Guarantee   epsilon with delta = 0.
Paper       [DR14] Dwork and Roth: sums and group privacy; [LQS12] Li, Qardaji and Su: samples.

    (1)  one after another     sum of epsilons; n times the same: n epsilon
    (2)  on disjoint rows      the largest, where a row comes or goes
    (3)  secret sample q       ln(1 + q (e^epsilon - 1)), where a row comes or goes
    (4)  m rows of a person    m epsilon;  a row replaced: one goes and one comes, 2 epsilon

Noise whose law dp-accounting knows is priced by its loss distribution: on a grid of multiples of
epsilon itself the distribution is exact, and its largest loss is what is summed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

from dp_accounting.pld import (  # type: ignore[import-untyped]
    privacy_loss_distribution as distributions,
)

from dpicl.recompute.stated import ADD, REPLACE, NotRecomputed, Step

_ABOVE = 1 + 1e-12
"""The grid's interval over epsilon, so that rounding reaches no second multiple."""
_LARGEST_WHOLE = 1_000
"""Sensitivity up to which discrete noise is priced on whole numbers; beyond, the continuous law has
the same worst loss in less time.
"""


def _largest_loss(expected: float, law: Callable[[float], Any]) -> float:
    """Of a law of dp-accounting, which is `expected` if the formula is right."""
    return float(law(expected * _ABOVE).get_epsilon_for_delta(0.0)) / _ABOVE


def _laplace(epsilon: float, sensitivity: int) -> float:
    """Noise of law exp(-|z| epsilon / sensitivity) on whole numbers."""
    if epsilon == 0:
        return 0.0
    if sensitivity <= _LARGEST_WHOLE:
        return _largest_loss(
            epsilon,
            lambda interval: distributions.from_discrete_laplace_mechanism(
                epsilon / sensitivity, sensitivity, value_discretization_interval=interval
            ),
        )
    return _largest_loss(
        epsilon,
        lambda interval: distributions.from_laplace_mechanism(
            1 / epsilon, value_discretization_interval=interval
        ),
    )


def _count(step: Step) -> float:
    return _laplace(float(step.exact("epsilon")), step.whole("sensitivity"))


def _sum(step: Step) -> float:
    return _laplace(float(step.exact("epsilon")), step.whole("sum_sensitivity"))


def _mean(step: Step) -> float:
    """Half of epsilon for the sum, half for the count."""
    half = float(step.exact("epsilon")) / 2
    return _laplace(half, step.whole("sum_sensitivity")) + _laplace(
        half, step.whole("count_sensitivity")
    )


def _response(step: Step) -> float:
    """Truth with weight `keep`, each other category with `lie`, out of all of them."""
    categories, keep, lie = step.whole("categories"), step.whole("keep"), step.exact("lie")
    total = keep + (categories - 1) * lie
    if not (lie.denominator == 1 and _is_power_of_two(int(total), step.whole("bits"))):
        raise NotRecomputed(
            f"a {step.kind!r} event states weights that add up to {float(total):g}; expected 2 to "
            f"the power of bits={step.text('bits')}"
        )
    if categories == 1 or keep == lie:
        return 0.0
    if lie == 0:
        return math.inf
    share = categories * lie / total
    return _largest_loss(
        abs(math.log(keep / lie)),
        lambda interval: distributions.from_randomized_response(
            float(share), categories, value_discretization_interval=interval
        ),
    )


def _unary(step: Step) -> float:
    """Two bits differ between categories: one is the truth's, reported by a fair coin, the other
    is set with weight `weight` out of `total`.
    """
    weight, total = step.exact("weight"), step.whole("total")
    bits = total.bit_length() - 1
    if not (weight.denominator == 1 and weight <= total and _is_power_of_two(total, bits)):
        raise NotRecomputed(
            f"a {step.kind!r} event states weight={float(weight):g} of total={float(total):g}; "
            f"expected a whole number of at most the total, and a power of 2 as the total"
        )
    if step.whole("categories") == 1 or 2 * weight == total:
        return 0.0
    if weight in (0, total):
        return math.inf
    lie = math.log(weight / total)
    silent = math.log((total - weight) / total)
    # outcomes: (bit of one category, bit of the other)
    upper = {"10": silent, "01": lie, "11": lie, "00": silent}
    lower = {"10": lie, "01": silent, "11": lie, "00": silent}
    return _largest_loss(
        abs(silent - lie),
        lambda interval: distributions.from_two_probability_mass_functions(
            {bits: mass - math.log(2) for bits, mass in lower.items()},
            {bits: mass - math.log(2) for bits, mass in upper.items()},
            value_discretization_interval=interval,
        ),
    )


def _is_power_of_two(total: int, bits: int) -> bool:
    return total.bit_length() == bits + 1 and not total & (total - 1)


def _as_stated(step: Step) -> float:
    """A choice whose law has its epsilon as the only parameter of noise."""
    return math.inf if step.text("epsilon") == "inf" else float(step.exact("epsilon"))


def _nothing(_: Step) -> float:
    return 0.0


_LAWS: dict[str, tuple[str | None, Callable[[Step], float]]] = {
    "pure": (None, _as_stated),
    "public-key": (None, _nothing),
    "discrete-laplace": (ADD, _count),
    "noisy-sum": (ADD, _sum),
    "noisy-mean": (ADD, _mean),
    "noisy-max": ("stated", _as_stated),
    "joint-exponential": ("stated", _as_stated),
    "sparse-vector": (ADD, _as_stated),
    "randomised-response": (REPLACE, _response),
    "unary-encoding": (REPLACE, _unary),
}
"""Kinds with a price at delta = 0, each with the neighbours that it is for: any (None), or those
that the event states.
"""
_COMPOSED = {
    "sequential": None,
    "repeated": None,
    "grouped": None,
    "parallel": ADD,
    "poisson-sampled": ADD,
    "replaced": REPLACE,
}
"""Kinds made of parts, each with the neighbours that it is for: any (None), or these."""
_TIMES = {"repeated": "count", "grouped": "rows"}
"""The parameter that says how many times."""


def has_pure_price(step: Step) -> bool:
    """Whether all that it consists of has a price at delta = 0."""
    return step.kind in _LAWS or (step.kind in _COMPOSED and all(map(has_pure_price, step.parts)))


@cache
def pure_price(step: Step, neighbours: str) -> float:
    """Epsilon at delta = 0, in nats; equations (1) to (4).
    Raises NotRecomputed: the event has none under these neighbours.
    """
    if step.kind in _LAWS:
        stated, law = _LAWS[step.kind]
        _check(step, step.text("neighbours") if stated == "stated" else stated, neighbours)
        if dict(step.parameters).get("epsilon") == "inf":
            return math.inf
        return law(step)
    _check(step, _COMPOSED[step.kind], neighbours)
    of_parts = ADD if step.kind == "replaced" else neighbours
    parts = [pure_price(part, of_parts) for part in step.parts]
    if step.kind == "parallel":
        return max(parts, default=0.0)
    total = math.fsum(parts)
    if step.kind == "poisson-sampled":
        return of_sample(total, float(step.rate()))
    if step.kind in _TIMES:
        return total * step.whole(_TIMES[step.kind])
    return 2 * total if step.kind == "replaced" else total


def of_sample(epsilon: float, rate: float) -> float:
    """Equation (3), where e^epsilon may be no double."""
    if rate == 1 or math.isinf(epsilon):
        return epsilon
    # ln(q e^epsilon + 1 - q), with the larger term outside
    return epsilon + math.log(rate) + math.log1p((1 - rate) / rate * math.exp(-epsilon))


def _check(step: Step, stated: str | None, neighbours: str) -> None:
    if stated not in (None, neighbours):
        raise NotRecomputed(
            f"a {step.kind!r} event is priced for {stated} neighbours, and the certificate is for "
            f"{neighbours}"
        )
