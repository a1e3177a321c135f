"""The accountant: what several guarantees cost together, and by which rule.

Trust       none: pure bookkeeping over public parameters.
Unit        one for all parts; others are refused.
Neighbours  one relation for all parts; others are refused.
Guarantee   (epsilon, delta) of everything composed, an upper bound. The rule is chosen so:

    all parts have delta = 0    exact sum of their epsilons, delta = 0     `pure sum`
    otherwise                   privacy loss distributions at `delta`      `PLD, interval ...`
    otherwise, delta = 0        infinite: such events have no pure cost    `no delta to spend`

Paper       [DR14] sums; `pld` for the rest. `bracket` is an independent one.
Symbols     epsilon in nats.
Not covered a tighter price for many pure events at delta > 0: their sum is exact at delta = 0, and
with a delta to spend it is an upper
            bound, which `pure sum` says. The first part with delta > 0 is composed with all others
            more tightly and may lower a total.

From `bracket` on: an independent bracket around an epsilon: privacy random variables, a second
implementation.

Trust       none: pure bookkeeping over public parameters.
Unit        as the guarantees composed.
Neighbours  ADD_OR_REMOVE_ONE; replace-one without subsampling, at twice the sensitivity.
Guarantee   low <= epsilon <= high at the given delta; a budget would be charged `high`.
Paper       [GLW21] Gopi, Lee and Wutschitz, numerical composition (arXiv 2106.02848), as
            implemented in Microsoft's prv_accountant.
Symbols     epsilon in nats.
Not covered subsampling under replace-one, parallel and approximate events; large costs,
            whose mesh would not fit into memory; large rates at large costs, whose mesh it rejects
            itself.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpicl.accounting.events import leaves, number, sampling_rate
from dpicl.accounting.guarantee import Event, Guarantee, Neighbours, relation_of
from dpicl.accounting.pure import pure_epsilon
from dpicl.ground.errors import PrivacyError

_SLACK = 5e-3
"""Other tight accountants differ from ours by less; a misstatement is larger."""
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Cost:
    """What was composed costs (epsilon, delta), computed by `method`."""

    epsilon: float
    delta: float
    method: str


def compose(guarantees: Iterable[Guarantee], *, delta: float) -> Cost:
    """The cost of all together; `delta` is spent only if a part needs it.
    Raises PrivacyError: units or relations differ, an event is unknown, or a guarantee states less
    than its event costs.
    """
    counts = Counter(guarantees)
    for guarantee in counts:
        check(guarantee)
    return compose_checked(counts, delta=delta)


def compose_checked(counts: Mapping[Guarantee, int], *, delta: float) -> Cost:
    """`compose` for guarantees that were checked before, with how often each occurs."""
    neighbours = relation_of(counts)[0] if counts else None
    if neighbours is None or all(guarantee.delta == 0 for guarantee in counts):
        return pure_sum((guarantee.epsilon, count) for guarantee, count in counts.items())
    events: Counter[Event] = Counter()
    for guarantee, count in counts.items():
        events.update(leaves(guarantee.event, count))
    return _by_distribution(events, neighbours, delta)


def pure_sum(parts: Iterable[tuple[float, int]]) -> Cost:
    """The sum of epsilons, each with its count: exact, then rounded once."""
    total = Fraction(0)
    for epsilon, count in parts:
        if math.isinf(epsilon):
            return Cost(math.inf, 0.0, "pure sum")
        total += Fraction(epsilon) * count
    return Cost(float(total), 0.0, "pure sum")


def price(event: Event, *, neighbours: Neighbours, unit: str, delta: float = 0.0) -> Guarantee:
    """The guarantee of an event: pure if it has one, else at `delta`.
    Raises PrivacyError: the event is unknown, not priced under this relation, or needs a delta.
    """
    epsilon = pure_epsilon(event, neighbours)
    if epsilon is not None:
        return Guarantee(epsilon, 0.0, neighbours, unit, event)
    if not 0 < delta < 1:
        raise PrivacyError(
            f"event {event.kind!r} has no cost at delta={delta}; expected a delta in (0, 1)"
        )
    # at one delta the largest curve has the largest epsilon
    if event.kind == "parallel" and neighbours is Neighbours.ADD_OR_REMOVE_ONE:
        parts = [
            price(part, neighbours=neighbours, unit=unit, delta=delta).epsilon
            for part in dict.fromkeys(event.parts)
        ]
        return Guarantee(max(parts), delta, neighbours, unit, event)
    return Guarantee(
        _by_distribution(leaves(event), neighbours, delta).epsilon, delta, neighbours, unit, event
    )


def check(guarantee: Guarantee) -> None:
    """Compare a statement with what its event costs at the same delta.
    Raises PrivacyError: the event is unknown, or costs more than stated.
    """
    least = price(
        guarantee.event, neighbours=guarantee.neighbours, unit=guarantee.unit, delta=guarantee.delta
    )
    slack = _SLACK if least.delta else _ROUNDING
    if guarantee.epsilon < least.epsilon * (1 - slack):
        raise PrivacyError(
            f"a guarantee states epsilon={guarantee.epsilon:.6g} at delta={guarantee.delta:g}, "
            f"but its event "
            f"{guarantee.event.kind!r} costs {least.epsilon:.6g} under {guarantee.neighbours}"
        )


def _by_distribution(events: Counter[Event], neighbours: Neighbours, delta: float) -> Cost:
    if delta == 0:
        return Cost(math.inf, 0.0, "no delta to spend")
    if not 0 < delta < 1:
        raise PrivacyError(f"events are composed at a delta in [0, 1), got delta={delta}")
    from dpicl.accounting.pld import epsilon_at

    epsilon, interval = epsilon_at(frozenset(events.items()), neighbours, delta)
    return Cost(epsilon, delta, f"PLD, interval {interval:.2g}")


_MOST_POINTS = 1_000_000
"""prv_accountant has no guard of its own: 10,000 steps at noise 1/2 took 9 GB and then failed."""


@dataclass(frozen=True)
class Bracket:
    """Bounds on epsilon, and the estimate between them."""

    low: float
    estimate: float
    high: float


def bracket(
    guarantees: Iterable[Guarantee], *, delta: float, epsilon_error: float = 0.01
) -> Bracket:
    """Bounds at `delta`, `2 * epsilon_error` apart.
    Raises PrivacyError: an event is outside this accountant's reach, its mesh too large, or too
    coarse for its own check.
    """
    from prv_accountant import PRVAccountant
    from prv_accountant.accountant import compute_safe_domain_size

    counts: Counter[tuple[Event, Neighbours]] = Counter()
    for guarantee in guarantees:
        counts.update(
            {
                (event, guarantee.neighbours): count
                for event, count in leaves(guarantee.event).items()
            }
        )
    variables = [_variable(*key) for key in counts]
    times = list(counts.values())
    delta_error = delta * 1e-3
    half_width = compute_safe_domain_size(variables, times, epsilon_error, delta_error)
    points = (
        2 * half_width / (epsilon_error / math.sqrt(sum(times) / 2 * math.log(12 / delta_error)))
    )
    if points > _MOST_POINTS:
        raise PrivacyError(
            f"the PRV mesh would have {points:.0f} points; expected at most {_MOST_POINTS}"
        )
    try:
        accountant = PRVAccountant(
            prvs=variables,
            max_self_compositions=times,
            eps_error=epsilon_error,
            delta_error=delta_error,
        )
    except RuntimeError:
        raise PrivacyError(
            "the PRV mesh does not keep the mean of these losses; expected smaller rates or costs"
        ) from None
    low, estimate, high = accountant.compute_epsilon(delta=delta, num_self_compositions=times)
    return Bracket(max(0.0, float(low)), max(0.0, float(estimate)), max(0.0, float(high)))


def _variable(event: Event, neighbours: Neighbours) -> Any:
    from prv_accountant import (
        GaussianMechanism,
        PoissonSubsampledGaussianMechanism,
        PureDPMechanism,
    )

    pure = pure_epsilon(event, neighbours)
    if pure is not None:
        return PureDPMechanism(pure)
    if event.kind == "gaussian":
        doubling = 2 if neighbours is Neighbours.REPLACE_ONE else 1
        return GaussianMechanism(number(event, "sigma") / (doubling * number(event, "sensitivity")))
    sampled_gaussian = event.kind == "poisson-sampled" and event.parts[0].kind == "gaussian"
    if not sampled_gaussian or neighbours is Neighbours.REPLACE_ONE:
        raise PrivacyError(
            f"the PRV bracket covers no {event.kind!r} event under {neighbours} neighbours"
        )
    multiplier = number(event.parts[0], "sigma") / number(event.parts[0], "sensitivity")
    return PoissonSubsampledGaussianMechanism(
        sampling_probability=float(sampling_rate(event)), noise_multiplier=multiplier
    )
