"""What pure events cost, derived from their public parameters.

Trust       none: pure bookkeeping over public parameters.
Unit        as the guarantee that carries the event.
Neighbours  every kind states the relation that it is priced for; another one is refused.
Guarantee   epsilon with delta = 0.
Paper       [DR14] composition; [LQS12] amplification; [KBR16] randomised response.

    (1)  sequential   sum of epsilon_i              (2)  repeated   n epsilon
    (3)  parallel     max of epsilon_i              (4)  sampled    ln(1 + q (e^epsilon - 1))
    (5)  replaced     2 epsilon                     (6)  response   ln(p / p')
    (7)  grouped      m epsilon                     (8)  unary      ln((1 - q) / q), one half for
         the truth

Symbols     p, p' the weights of the truth and of one lie; q the sampling rate; m the most rows of
            one person.
Not covered events with delta > 0: `pld` prices them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dpicl.accounting.amplification import amplified_epsilon
from dpicl.accounting.events import HORIZON_PART, number, sampling_rate
from dpicl.accounting.guarantee import Event, Neighbours
from dpicl.errors import PrivacyError

ADD, REPLACE = Neighbours.ADD_OR_REMOVE_ONE, Neighbours.REPLACE_ONE


def _stated(event: Event) -> float:
    return number(event, "epsilon")


def _response(event: Event) -> float:
    """Equations (6) and (8)."""
    if event.kind == "unary-encoding":
        keep, lie = number(event, "total") - number(event, "weight"), number(event, "weight")
    else:
        keep, lie = number(event, "keep"), number(event, "lie")
    if number(event, "categories") == 1:
        return 0.0
    return math.log(keep / lie) if lie and keep else math.inf


LEAVES: dict[str, tuple[Neighbours | None, Callable[[Event], float]]] = {
    "pure": (None, _stated),
    "public-key": (None, lambda event: 0.0),
    # paid with its horizon: `ledger.horizons` accepts no other
    HORIZON_PART: (
        None,
        lambda event: 0.0,
    ),
    "discrete-laplace": (ADD, _stated),
    "noisy-mean": (ADD, _stated),
    "noisy-sum": (ADD, _stated),
    "noisy-max": (None, _stated),
    "joint-exponential": (None, _stated),
    "sparse-vector": (ADD, _stated),
    "randomised-response": (REPLACE, _response),
    "unary-encoding": (REPLACE, _response),
}
"""Pure kinds: the relation that each is stated for (None: the event's own, else the guarantee's),
and its cost.
"""

_APPROXIMATE = ("gaussian", "discrete-gaussian", "approximate", "bounded-range")
_COMPOSITE = {
    "sequential": None,
    "repeated": None,
    "grouped": None,
    "parallel": ADD,
    "poisson-sampled": ADD,
    "replaced": REPLACE,
}
"""The relation that each is priced for, with parts that are stated for added rows; None: any, which
is that of the parts.
"""
_TIMES = {"repeated": "count", "grouped": "rows"}
"""The parameter that says how many times."""


def pure_epsilon(event: Event, neighbours: Neighbours) -> float | None:
    """The cost of an event with delta = 0; None for an event that has no such cost.
    Raises PrivacyError: the kind is unknown, or is not priced for this relation.
    """
    if event.kind in _APPROXIMATE:
        return None
    if event.kind in LEAVES:
        relation, cost = LEAVES[event.kind]
        _check_relation(event, relation or dict(event.parameters).get("neighbours"), neighbours)
        return cost(event)
    if event.kind not in _COMPOSITE:
        known = ", ".join((*LEAVES, *_APPROXIMATE, *_COMPOSITE))
        raise PrivacyError(
            f"event {event.kind!r} is unknown to the accountant; expected one of {known}"
        )
    costs = [
        pure_epsilon(part, ADD if _COMPOSITE[event.kind] else neighbours) for part in event.parts
    ]
    parts = [cost for cost in costs if cost is not None]
    is_pure = len(parts) == len(costs)
    # the one composite that `pld` prices under both relations
    if is_pure or event.kind != "poisson-sampled":
        _check_relation(event, _COMPOSITE[event.kind], neighbours)
    if not is_pure:
        return None
    if event.kind == "parallel":
        return max(parts, default=0.0)
    total = math.fsum(parts)
    if event.kind == "poisson-sampled":
        return amplified_epsilon(total, sampling_rate(event))
    return total * (
        2
        if event.kind == "replaced"
        else number(event, _TIMES[event.kind])
        if event.kind in _TIMES
        else 1
    )


def _check_relation(event: Event, stated: object, requested: Neighbours) -> None:
    if stated not in (None, requested):
        raise PrivacyError(
            f"event {event.kind!r} is priced for {stated} neighbours, not for {requested}"
        )
