"""A privacy guarantee as a value: what was done, to whom it applies, and what it costs.

Trust       none: pure bookkeeping over public parameters.
Unit        carried by every guarantee: `row`, `person` or `client`.
Neighbours  carried by every guarantee; two relations are never combined silently.
Guarantee   the epsilon (in nats) and delta stated here are upper bounds for the event.
Paper       [DR14] Dwork and Roth 2014: sequential and parallel composition.

    (1)  sequential   epsilon = sum epsilon_i        same rows, several mechanisms
    (2)  parallel     epsilon = max epsilon_i        disjoint rows by a public predicate,
                                                     add-or-remove-one only

Symbols     epsilon_i cost of part i.
Not covered adaptive composition beyond pure sums; Gaussian events (see the accountants).

From `amplified_epsilon` on: privacy amplification by Poisson subsampling.

Trust       central: the curator draws the subsample and keeps it secret.
Unit        as the amplified guarantee's.
Neighbours  ADD_OR_REMOVE_ONE; the theorem is refused for replace-one.
Guarantee   equation (1), pure; delta scales by q.
Paper       [LQS12] Li, Qardaji and Su 2012; DP-TabICL theorem 3 (arXiv 2403.05681).

    (1)  epsilon' = ln(1 + q (e^epsilon - 1)),   delta' = q delta

Symbols     q the public rate at which every row enters the sample on its own.
Not covered samples of a fixed size; rates that depend on the data.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any

from dpicl.ground.errors import ParameterError, PrivacyError


class Neighbours(StrEnum):
    """Which pairs of tables must be hard to tell apart."""

    ADD_OR_REMOVE_ONE = "add-or-remove-one"
    REPLACE_ONE = "replace-one"


@dataclass(frozen=True)
class Event:
    """What a mechanism did, with its public parameters; parts are nested events."""

    kind: str
    parameters: tuple[tuple[str, float | int | str], ...] = ()
    parts: tuple[Event, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """A plain dictionary for a manifest."""
        return {
            "kind": self.kind,
            **dict(self.parameters),
            **({"parts": [part.as_json() for part in self.parts]} if self.parts else {}),
        }


@dataclass(frozen=True)
class Guarantee:
    """(epsilon, delta)-differential privacy of one event for one unit and relation."""

    epsilon: float
    delta: float
    neighbours: Neighbours
    unit: str
    event: Event

    def __post_init__(self) -> None:
        if not (self.epsilon >= 0 and 0 <= self.delta < 1):
            raise PrivacyError(
                f"a guarantee needs epsilon >= 0 and 0 <= delta < 1, got epsilon={self.epsilon}, "
                f"delta={self.delta}"
            )


def pure_guarantee(
    kind: str,
    epsilon: Fraction | None,
    *parameters: tuple[str, float | int | str],
    neighbours: Neighbours,
) -> Guarantee:
    """Of one event of a row at delta = 0, with its further parameters; epsilon None is infinite."""
    cost = math.inf if epsilon is None else float(epsilon)
    return Guarantee(cost, 0.0, neighbours, "row", Event(kind, (("epsilon", cost), *parameters)))


def relation_of(guarantees: Iterable[Guarantee]) -> tuple[Neighbours, str]:
    """The one relation and unit of guarantees that compose.
    Raises PrivacyError: nothing to compose, or the parts protect different units or relations.
    """
    relations = {(part.neighbours, part.unit) for part in guarantees}
    if len(relations) != 1:
        stated = (
            ", ".join(sorted(f"{neighbours} of one {unit}" for neighbours, unit in relations))
            or "nothing"
        )
        raise PrivacyError(f"guarantees compose only under one unit and one relation, got {stated}")
    return relations.pop()


def compose_sequential(guarantees: Sequence[Guarantee]) -> Guarantee:
    """Cost of several releases on the same rows, of one unit and relation; equation (1)."""
    neighbours, unit = relation_of(guarantees)
    # equal events once, so that a manifest stays readable
    counts = Counter(part.event for part in guarantees)
    parts = tuple(
        event if count == 1 else Event("repeated", (("count", count),), (event,))
        for event, count in counts.items()
    )
    epsilon, delta = (
        math.fsum(ones)
        for ones in zip(*((part.epsilon, part.delta) for part in guarantees), strict=True)
    )
    return Guarantee(epsilon, delta, neighbours, unit, Event("sequential", parts=parts))


def compose_parallel(guarantees: Sequence[Guarantee]) -> Guarantee:
    """Cost of releases on disjoint rows, split by a public predicate; equation (2).

    Equal parts are written once: on disjoint rows their number costs nothing.
    Raises PrivacyError: also under replace-one, where one row may leave one part and enter another.
    """
    neighbours, unit = relation_of(guarantees)
    if neighbours is not Neighbours.ADD_OR_REMOVE_ONE:
        raise PrivacyError(
            "parallel composition needs add-or-remove-one: a replaced row touches two parts"
        )
    return Guarantee(
        max(part.epsilon for part in guarantees),
        max(part.delta for part in guarantees),
        neighbours,
        unit,
        Event("parallel", parts=tuple(dict.fromkeys(part.event for part in guarantees))),
    )


def to_replace_one(guarantee: Guarantee) -> Guarantee:
    """The same release under replace-one: a removal and an addition, so twice the cost.
    Raises PrivacyError: delta > 0, where group privacy needs more than doubling.
    """
    if guarantee.neighbours is Neighbours.REPLACE_ONE:
        return guarantee
    if guarantee.delta > 0:
        raise PrivacyError("an approximate guarantee is not converted to replace-one by doubling")
    return Guarantee(
        2 * guarantee.epsilon,
        0.0,
        Neighbours.REPLACE_ONE,
        guarantee.unit,
        Event("replaced", parts=(guarantee.event,)),
    )


def to_person(guarantee: Guarantee, max_rows: int) -> Guarantee:
    """A release on rows, stated for a person who holds at most `max_rows` of them: group privacy.
    Raises PrivacyError: delta > 0, where group privacy needs more than a factor.
    """
    if guarantee.delta > 0:
        raise PrivacyError(
            "an approximate guarantee for rows is not multiplied into one for persons"
        )
    event = Event("grouped", (("rows", max_rows),), (guarantee.event,))
    return Guarantee(max_rows * guarantee.epsilon, 0.0, guarantee.neighbours, "person", event)


def each_of(epsilon: float, count: int) -> float:
    """The largest that so many parts may cost, which cost at most `epsilon` together."""
    each = epsilon / count
    while math.isfinite(each) and each * count > epsilon:
        each = math.nextafter(each, 0)
    return each


_LARGEST_EXPONENT = 700.0
"""e to this power is still a double; the other form of (1) would cancel at small rates."""


def amplified_epsilon(epsilon: float, sampling_rate: float | Fraction) -> float:
    """Equation (1), stable for large epsilon. Raises ParameterError: epsilon is negative or NaN, or
    the rate is outside (0, 1].
    """
    q = float(sampling_rate)
    if not epsilon >= 0:
        raise ParameterError("epsilon", epsilon, "a number >= 0, or inf")
    if not 0 < q <= 1:
        raise ParameterError("sampling_rate", sampling_rate, "a number in (0, 1]")
    if q == 1 or math.isinf(epsilon):
        return epsilon
    if epsilon < _LARGEST_EXPONENT:
        return math.log1p(q * math.expm1(epsilon))
    return epsilon + math.log(q + (1 - q) * math.exp(-epsilon))


def epsilon_before(amplified: float, sampling_rate: float | Fraction) -> float:
    """The epsilon that equation (1) brings down to `amplified`; never one that it brings down to
    more. Raises ParameterError: epsilon is negative or NaN, or the rate is outside (0, 1].
    """
    amplified_epsilon(amplified, sampling_rate)  # refuses parameters out of range
    q = float(sampling_rate)
    small = amplified < _LARGEST_EXPONENT
    before = (
        math.log1p(math.expm1(amplified) / q)
        if small
        else amplified - math.log(q) + math.log1p((q - 1) * math.exp(-amplified))
    )
    while math.isfinite(before) and amplified_epsilon(before, q) > amplified:
        before = math.nextafter(before, 0)
    return before


def amplify(guarantee: Guarantee, sampling_rate: Fraction) -> Guarantee:
    """The guarantee of the same mechanism run on a Poisson subsample.
    Raises PrivacyError: the guarantee is not stated for add-or-remove-one; ParameterError: the rate
    is outside (0, 1].
    """
    if guarantee.neighbours is not Neighbours.ADD_OR_REMOVE_ONE:
        raise PrivacyError(
            "amplification by Poisson subsampling is stated for add-or-remove-one neighbours only"
        )
    event = Event("poisson-sampled", (("sampling_rate", str(sampling_rate)),), (guarantee.event,))
    epsilon = amplified_epsilon(guarantee.epsilon, sampling_rate)
    return Guarantee(
        epsilon, float(sampling_rate) * guarantee.delta, guarantee.neighbours, guarantee.unit, event
    )
