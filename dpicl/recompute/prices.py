"""A second price of everything that a certificate states: the release, what it was before
amplification, and the account's total.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from importlib.metadata import version

from dpicl.recompute import losses, second
from dpicl.recompute.losses import TOLERANCE
from dpicl.recompute.pieces import pieces_of
from dpicl.recompute.stated import ADD, Loss, NotRecomputed, Stated, Step
from dpicl.recompute.sums import has_pure_price, pure_price

LIBRARY = f"dp-accounting {version('dp-accounting')}"
RELEASE, NOMINAL, ACCOUNT = "release", "release before amplification", "account with this release"
_WITHOUT_NOISE = ("pure", "approximate")
_SUMS = ("sequential", "parallel", "grouped", "replaced")
"""Events that cost a sum, a largest part or a multiple of what is stated below them."""
_NO_BOUND = "the certificate states no bound"
_NO_NOISE = (
    "no noise is stated that ε could be computed from; AIM-TabICL and MST-TabICL state theirs "
    "with `--option noise=gaussian`"
)


@dataclass(frozen=True)
class Price:
    """One stated privacy loss beside its second price; epsilons in nats, infinite without a bound.

    Attributes:
        what: which of the certificate's statements.
        recomputed: None where there is no second price; `reason` says why.
        by: the library, and how it was used.
        as_stated: kinds of events in it of which the certificate states epsilon (and delta) and no
            noise that they could be computed from.
        low, high: bounds of prv-accountant, where it has some.
        holds: whether the stated epsilon is at least the recomputed one; None without one.
    """

    what: str
    stated: Loss
    recomputed: float | None = None
    by: str = ""
    as_stated: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    holds: bool | None = None
    reason: str = ""


def prices(stated: Stated) -> list[Price]:
    """Of all that is stated, the release first."""
    release = _price(RELEASE, stated.event, stated.neighbours, stated.release)
    found = [(release, stated.event)]
    if stated.nominal is not None:
        whole = _on_all_rows(stated.event)
        found.append((_price(NOMINAL, whole, stated.neighbours, stated.nominal), whole))
    if stated.before is not None and stated.after is not None:
        account = _of_account(stated, release, stated.before, stated.after)
        found.append((account, stated.event))
    return [_without_noise(price) if _is_bare(event) else price for price, event in found]


def _is_bare(event: Step) -> bool:
    """Whether it is nothing but epsilons that somebody states, so that any price of it is these
    again.
    """
    if event.kind in _SUMS:
        return bool(event.parts) and all(map(_is_bare, event.parts))
    return event.kind in _WITHOUT_NOISE


def _without_noise(price: Price) -> Price:
    """Less than the event's own epsilon is too small all the same; more has no second price."""
    if not price.holds:
        return price
    return Price(price.what, price.stated, as_stated=price.as_stated, reason=_NO_NOISE)


def _price(what: str, event: Step, neighbours: str, stated: Loss) -> Price:
    opaque = sorted(kind for kind in _kinds(event) if kind in _WITHOUT_NOISE)
    price = Price(what, stated, as_stated=tuple(opaque))
    if math.isinf(stated.epsilon):
        return replace(price, reason=_NO_BOUND)
    try:
        event.check()
        if has_pure_price(event):
            epsilon = pure_price(event, neighbours)
            return _compared(price, epsilon, f"{LIBRARY}, sum of largest losses")
        if event.kind == "parallel" and neighbours == ADD:
            # at one delta the most expensive of disjoint parts is the price of all
            parts = [_price(what, part, neighbours, stated) for part in event.parts]
            return max(parts, key=_order)
        return _at_delta(price, event, neighbours)
    except NotRecomputed as error:
        return replace(price, reason=str(error))
    except (ArithmeticError, ValueError, MemoryError) as error:
        return replace(price, reason=f"the libraries have no price of it: {error}")


def _kinds(event: Step) -> set[str]:
    return {event.kind}.union(*map(_kinds, event.parts))


def _order(price: Price) -> float:
    return math.inf if price.recomputed is None else price.recomputed


def _at_delta(price: Price, event: Step, neighbours: str) -> Price:
    stated = price.stated
    pieces = pieces_of(event, neighbours)
    epsilon, interval = losses.price(pieces, neighbours, stated.delta, stated.epsilon)
    bounds = second.bounds(pieces, neighbours, stated.delta, stated.epsilon)
    how = f"{LIBRARY}, loss distribution on a grid of {interval:.2g}"
    compared = _compared(price, epsilon, how)
    if bounds is None:
        return compared
    low, high = bounds
    holds = bool(compared.holds) and low <= stated.epsilon + TOLERANCE
    return replace(compared, low=low, high=high, holds=holds)


def _compared(price: Price, epsilon: float, by: str) -> Price:
    holds = epsilon <= price.stated.epsilon + TOLERANCE
    return replace(price, recomputed=epsilon, by=by, holds=holds)


def _on_all_rows(event: Step) -> Step:
    """The same without its secret samples."""
    if event.kind == "poisson-sampled" and event.parts:
        return _on_all_rows(event.parts[0])
    return replace(event, parts=tuple(map(_on_all_rows, event.parts)))


def _of_account(stated: Stated, release: Price, before: Loss, after: Loss) -> Price:
    """The total is known where earlier releases cost nothing, or costs are summed."""
    price = Price(ACCOUNT, after)
    if math.isinf(after.epsilon):
        return replace(price, reason=_NO_BOUND)
    if stated.rule == "pure sum" and not before.delta and release.recomputed is not None:
        if has_pure_price(stated.event):
            total = before.epsilon + release.recomputed
            return replace(
                _compared(price, total, "sum with what was spent before"),
                as_stated=release.as_stated,
            )
    elif before == Loss(0.0, 0.0):
        return _price(ACCOUNT, stated.event, stated.neighbours, after)
    return replace(
        price,
        reason="it is composed of earlier releases, whose events are in their own certificates",
    )
