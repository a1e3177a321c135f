"""What pure events cost, derived from their public parameters.

Trust       none: pure bookkeeping over public parameters.
Unit        as the guarantee that carries the event.
Neighbours  every kind states the relation that it is priced for; another one is refused.
Guarantee   epsilon with delta = 0.
Paper       [DR14] composition; [LQS12] amplification; [KBR16] randomised response.

    (1)  sequential   sum of epsilon_i              (2)  repeated   n epsilon
    (3)  parallel     max of epsilon_i              (4)  sampled    ln(1 + q (e^epsilon - 1))
    (5)  replaced     2 epsilon                     (6)  response   ln(p / p')
    (7)  grouped      m epsilon                     (8)  unary      ln((1 - q) / q), one half for the truth

Symbols     p, p' the weights of the truth and of one lie; q the sampling rate; m the
            most rows of one person.
Not covered events with delta > 0: `pld` prices them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dpicl.accounting.amplification import amplified_epsilon
from dpicl.accounting.events import number, sampling_rate
from dpicl.accounting.guarantee import Event, Neighbours
from dpicl.errors import PrivacyError

ADD, REPLACE = Neighbours.ADD_OR_REMOVE_ONE, Neighbours.REPLACE_ONE


def _stated(event: Event) -> float:
    return number(event, "epsilon")


def _response(event: Event) -> float:
    """Equation (6)."""
    keep, lie = number(event, "keep"), number(event, "lie")
    if number(event, "categories") == 1:
        return 0.0
    return math.log(keep / lie) if lie and keep else math.inf


def _unary(event: Event) -> float:
    """Equation (8)."""
    if number(event, "categories") == 1:
        return 0.0
    return math.log((number(event, "total") - number(event, "weight")) / number(event, "weight"))


LEAVES: dict[str, tuple[Neighbours | None, Callable[[Event], float]]] = {
    "pure": (None, _stated),
    "public-key": (None, lambda event: 0.0),
    "discrete-laplace": (ADD, _stated),
    "noisy-mean": (ADD, _stated),
    "noisy-sum": (ADD, _stated),
    "noisy-max": (None, _stated),
    "joint-exponential": (None, _stated),
    "sparse-vector": (ADD, _stated),
    "randomised-response": (REPLACE, _response),
    "unary-encoding": (REPLACE, _unary),
}
"""Pure kinds: the relation that each is stated for (None: the event's own, else the guarantee's), and its cost."""

_APPROXIMATE = ("gaussian", "discrete-gaussian", "approximate")
_MULTIPLES = {"sequential": None, "repeated": "count", "grouped": "rows"}
"""Sums of the parts under any relation, and the parameter that says how many times."""
_COMPOSITE = {"parallel": ADD, "poisson-sampled": ADD, "replaced": REPLACE}


def pure_epsilon(event: Event, neighbours: Neighbours) -> float | None:
    """The cost of an event with delta = 0; None for an event that has no such cost.

    Raises:
        PrivacyError: the kind is unknown, or is not priced for this relation.
    """
    if event.kind in _APPROXIMATE:
        return None
    if event.kind in _MULTIPLES:
        parts, times = _parts(event, neighbours), _MULTIPLES[event.kind]
        return None if parts is None else math.fsum(parts) * (number(event, times) if times else 1)
    if event.kind in LEAVES:
        relation, cost = LEAVES[event.kind]
        _check_relation(event, relation or dict(event.parameters).get("neighbours"), neighbours)
        return cost(event)
    if event.kind in _COMPOSITE:
        return _composite(event, neighbours)
    known = ", ".join((*LEAVES, *_APPROXIMATE, *_MULTIPLES, *_COMPOSITE))
    raise PrivacyError(f"event {event.kind!r} is unknown to the accountant; expected one of {known}")


def _composite(event: Event, neighbours: Neighbours) -> float | None:
    parts = _parts(event, ADD)
    if parts is None and event.kind == "poisson-sampled":
        return None  # the one composite that `pld` prices under both relations
    _check_relation(event, _COMPOSITE[event.kind], neighbours)
    if parts is None:
        return None
    if event.kind == "parallel":
        return max(parts, default=0.0)
    if event.kind == "replaced":
        return 2 * math.fsum(parts)
    return amplified_epsilon(math.fsum(parts), sampling_rate(event))


def _parts(event: Event, neighbours: Neighbours) -> list[float] | None:
    costs = [pure_epsilon(part, neighbours) for part in event.parts]
    known = [cost for cost in costs if cost is not None]
    return known if len(known) == len(costs) else None


def _check_relation(event: Event, stated: object, requested: Neighbours) -> None:
    if stated not in (None, requested):
        raise PrivacyError(f"event {event.kind!r} is priced for {stated} neighbours, not for {requested}")
