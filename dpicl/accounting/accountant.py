"""The accountant: what several guarantees cost together, and by which rule.

Trust       none: pure bookkeeping over public parameters.
Unit        one for all parts; others are refused.
Neighbours  one relation for all parts; others are refused.
Guarantee   (epsilon, delta) of everything composed, an upper bound. The rule is chosen so:

    all parts have delta = 0    exact sum of their epsilons, delta = 0     `pure sum`
    otherwise                   privacy loss distributions at `delta`      `PLD, interval ...`
    otherwise, delta = 0        infinite: such events have no pure cost    `no delta to spend`

Paper       [DR14] sums; `pld` for the rest. `prv` gives an independent bracket.
Symbols     epsilon in nats.
Not covered a tighter price for many pure events at delta > 0: their sum is exact at delta = 0, and
with a delta to spend it is an upper
            bound, which `pure sum` says. The first part with delta > 0 is composed with all others
            more tightly and may lower a total.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from dpicl.accounting.events import leaves
from dpicl.accounting.guarantee import Event, Guarantee, Neighbours, relation_of
from dpicl.accounting.pure import pure_epsilon
from dpicl.errors import PrivacyError

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
