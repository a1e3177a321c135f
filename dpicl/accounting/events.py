"""Events: what was done to the private rows, as values that can be stored and read back.

Trust       none: public parameters only.
Unit        stated by the guarantee that carries the event.
Neighbours  stated by the guarantee that carries the event. The sensitivity of a Gaussian is
            always what one added or removed row moves (l2); replacing a row moves twice that.
Guarantee   none by itself: `pure`, `pld` and `accountant` price events.

Mechanisms name their own pure events (`discrete-laplace`, `noisy-mean`, ...); the kinds below are
the ones that accounting itself understands. A new pure kind is added to `pure.LEAVES`; until then
the accountant refuses it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from dpicl.accounting.guarantee import Event, Guarantee, Neighbours
from dpicl.ground.errors import ParameterError, PrivacyError

HORIZON_PART, PERIODS = "horizon-part", "horizon"
"""Kind of a part's event; and the parameter of a horizon's release that says how many periods it
has.
"""
_INFINITY = "inf"
"""JSON has no infinity."""


def pure(epsilon: float) -> Event:
    """Any mechanism that is epsilon-DP with delta = 0."""
    _at_least_zero("epsilon", epsilon)
    return Event("pure", (("epsilon", epsilon),))


def approximate(epsilon: float, delta: float) -> Event:
    """Any mechanism of which only (epsilon, delta) is known."""
    _at_least_zero("epsilon", epsilon)
    if not 0 <= delta < 1:
        raise ParameterError("delta", delta, "a number in [0, 1)")
    return Event("approximate", (("epsilon", epsilon), ("delta", delta)))


def gaussian(*, sigma: float, sensitivity: float = 1.0) -> Event:
    """Noise of standard deviation `sigma` on a sum in which one row has an l2 norm of at most
    `sensitivity`.
    """
    for name, value in (("sigma", sigma), ("sensitivity", sensitivity)):
        if not 0 < value < math.inf:
            raise ParameterError(name, value, "a finite number > 0")
    return Event("gaussian", (("sigma", sigma), ("sensitivity", sensitivity)))


def poisson_sampled(rate: Fraction | float, event: Event) -> Event:
    """An event on a secret sample that every row enters on its own with probability `rate`."""
    if not 0 < rate <= 1:
        raise ParameterError("sampling_rate", rate, "a number in (0, 1]")
    return Event("poisson-sampled", (("sampling_rate", str(rate)),), (event,))


def repeated(event: Event, count: int) -> Event:
    """The same event `count` times on the same rows."""
    if not (isinstance(count, int) and count >= 1):
        raise ParameterError("count", count, "an integer >= 1")
    return Event("repeated", (("count", count),), (event,))


def sequential(events: Iterable[Event]) -> Event:
    """Several events on the same rows."""
    return Event("sequential", parts=tuple(events))


def parallel(events: Iterable[Event]) -> Event:
    """Events on disjoint rows, split by a public predicate; add-or-remove-one only."""
    return Event("parallel", parts=tuple(events))


def horizon_part(horizon: str, index: int) -> Event:
    """Period `index`, counted from 1, of a horizon that is charged under this release id with all
    its periods: costs nothing by itself.
    """
    return Event(HORIZON_PART, (("horizon", horizon), ("index", index)))


def holds_part(event: Event) -> bool:
    """Whether an event is a part of a horizon, or has one in it."""
    return event.kind == HORIZON_PART or any(map(holds_part, event.parts))


def leaves(event: Event, count: int = 1) -> Counter[Event]:
    """The events that compose in sequence, each with how often it happened."""
    if event.kind not in ("sequential", "repeated"):
        return Counter({event: count})
    times = int(number(event, "count")) if event.kind == "repeated" else 1
    counts: Counter[Event] = Counter()
    for part in event.parts:
        counts.update(leaves(part, count * times))
    return counts


def number(event: Event, name: str) -> float:
    """A parameter that must be there as a number. Raises PrivacyError: it is not, or it is negative
    or NaN.
    """
    value = dict(event.parameters).get(name)
    if not (isinstance(value, int | float) and value >= 0):
        raise PrivacyError(f"event {event.kind!r} states {name}={value}; expected a number >= 0")
    return value


def rational(
    event: Event,
    name: str,
    expected: str,
    *,
    least: Fraction = Fraction(0),
    most: Fraction | None = None,
) -> Fraction:
    """A positive parameter that must be there as an exact number between these bounds; `expected`
    says so in words. Raises PrivacyError: it is not.
    """
    text = dict(event.parameters).get(name)
    try:
        value = Fraction(str(text))
    except (ValueError, ZeroDivisionError):
        value = Fraction(0)
    if not value > 0 or value < least or (most is not None and value > most):
        raise PrivacyError(f"event {event.kind!r} states {name}={text}; expected {expected}")
    return value


def sampling_rate(event: Event) -> Fraction:
    """The rate of a `poisson-sampled` event, which must be in (0, 1]."""
    return rational(event, "sampling_rate", "a number in (0, 1]", most=Fraction(1))


def event_as_json(event: Event) -> dict[str, Any]:
    """A dictionary that JSON can hold."""
    parameters = [
        [name, _INFINITY if value == math.inf else value] for name, value in event.parameters
    ]
    return {
        "kind": event.kind,
        "parameters": parameters,
        "parts": [event_as_json(part) for part in event.parts],
    }


def event_from_json(content: Mapping[str, Any]) -> Event:
    """The inverse of `event_as_json`."""
    parameters = tuple(
        (name, math.inf if value == _INFINITY else value) for name, value in content["parameters"]
    )
    return Event(
        content["kind"], parameters, tuple(event_from_json(part) for part in content["parts"])
    )


def guarantee_as_json(guarantee: Guarantee) -> dict[str, Any]:
    """A dictionary that JSON can hold."""
    return {
        "epsilon": _INFINITY if guarantee.epsilon == math.inf else guarantee.epsilon,
        "delta": guarantee.delta,
        "neighbours": guarantee.neighbours.value,
        "unit": guarantee.unit,
        "event": event_as_json(guarantee.event),
    }


def guarantee_from_json(content: Mapping[str, Any]) -> Guarantee:
    """The inverse of `guarantee_as_json`."""
    epsilon = float(content["epsilon"])
    return Guarantee(
        epsilon,
        content["delta"],
        Neighbours(content["neighbours"]),
        content["unit"],
        event_from_json(content["event"]),
    )


def _at_least_zero(name: str, value: float) -> None:
    if not value >= 0:
        raise ParameterError(name, value, "a number >= 0, or inf")
