"""An event taken apart into pieces with one loss distribution each, with how often each happens.

Unit        as the certificate states it.
Neighbours  as the certificate states them. The sensitivity of a Gaussian is what one row that comes
            or goes moves; a row that is replaced moves twice that.
Paper       [CKS20] Canonne, Kamath and Steinke, discrete Gaussian; [P10] Peikert's convolution.

Discrete Gaussian noise of variance s^2 on sums that move by whole numbers:

    (1)  s^2 <= 10,000 and squared movement <= 16, on all rows: its own law
    (2)  else, s^2 > 4: a Gaussian of variance s^2 - 4. To continuous noise of that variance add
         discrete Gaussian rounding of variance 4: what comes out is the discrete Gaussian of
         variance s^2 up to a factor of 1 + 1e-30, and rounding afterwards costs nothing

By its own law noise costs less than by (2), but only where what is summed was fixed beforehand.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

from dpicl.recompute.stated import ADD, REPLACE, NotRecomputed, Step
from dpicl.recompute.sums import has_pure_price, of_sample, pure_price

_OWN_VARIANCE, _OWN_MOVEMENT = 10_000, 16
_ROUNDING_VARIANCE = 4


@dataclass(frozen=True)
class Normal:
    """Gaussian noise of standard deviation `noise` times what one row that comes or goes moves, on
    a secret sample of this rate.
    """

    noise: float
    rate: float


@dataclass(frozen=True)
class TwoPoints:
    """Anything that is (epsilon, delta)-DP: the worst is an answer of two values, and a part of
    delta that tells all.
    """

    epsilon: float
    delta: float


@dataclass(frozen=True)
class WholeNormal:
    """Discrete Gaussian noise on sums whose movement has this square."""

    variance: Fraction
    squared_movement: int


@dataclass(frozen=True)
class Choices:
    """So many choices one after another, whose log-ratios lie within `reach` nats of each other, on
    a secret sample of this rate.
    """

    reach: float
    count: int
    rate: float


Piece = Normal | TwoPoints | WholeNormal | Choices


def pieces_of(event: Step, neighbours: str) -> Counter[Piece]:
    """What the event consists of.
    Raises NotRecomputed: a part is of a kind, or under neighbours, that no route here prices.
    """
    pieces: Counter[Piece] = Counter()
    choices: Counter[float] = Counter()
    for step, count in _flat(event).items():
        if step.kind == "bounded-range":
            choices[_reach(step, neighbours)] += count
        else:
            pieces[_piece(step, neighbours)] += count
    if len(choices) == 1:  # of several ranges it matters which is left; each is priced by itself
        ((reach, count),) = choices.items()
        pieces[Choices(reach, count, 1.0)] += 1
    else:
        pieces.update({Choices(reach, 1, 1.0): count for reach, count in choices.items()})
    return pieces


def _flat(event: Step, times: int = 1) -> Counter[Step]:
    """Steps one after another on the same rows."""
    if event.kind == "repeated":
        times *= event.whole("count")
    elif event.kind != "sequential":
        return Counter({event: times})
    steps: Counter[Step] = Counter()
    for part in event.parts:
        steps.update(_flat(part, times))
    return steps


def _piece(step: Step, neighbours: str) -> Piece:
    if has_pure_price(step):
        return TwoPoints(pure_price(step, neighbours), 0.0)
    if step.kind == "approximate":
        return TwoPoints(float(step.exact("epsilon")), float(step.exact("delta")))
    if step.kind == "gaussian":
        return Normal(_noise(step), 1.0)
    if step.kind == "discrete-gaussian":
        variance, squares = step.exact("variance"), _squared_movement(step, neighbours)
        if variance <= _OWN_VARIANCE and squares <= _OWN_MOVEMENT:
            return WholeNormal(variance, squares)
        # a replaced row is counted by `Normal` itself
        return Normal(_bound(variance, squares) * (2 if neighbours == REPLACE else 1), 1.0)
    if step.kind == "poisson-sampled":
        return _sampled(step.parts[0], step.rate(), neighbours)
    raise NotRecomputed(f"no price with a delta is known here of a {step.kind!r} event")


def _sampled(part: Step, rate: Fraction, neighbours: str) -> Piece:
    if part.kind == "gaussian":
        return Normal(_noise(part), float(rate))
    if part.kind == "discrete-gaussian":
        noise = _bound(part.exact("variance"), _squared_movement(part, ADD))
        return Normal(noise, float(rate))
    if neighbours != ADD:
        raise NotRecomputed(
            f"a sample of a {part.kind!r} event is priced for {ADD} neighbours, and the "
            f"certificate is for {neighbours}"
        )
    if part.kind == "approximate":
        epsilon = of_sample(float(part.exact("epsilon")), float(rate))
        return TwoPoints(epsilon, float(rate * part.exact("delta")))
    steps = _flat(part)
    reaches = {_reach(step, neighbours) for step in steps if step.kind == "bounded-range"}
    if len(reaches) == 1 and all(step.kind == "bounded-range" for step in steps):
        return Choices(reaches.pop(), steps.total(), float(rate))
    raise NotRecomputed(f"no price is known here of a sample of a {part.kind!r} event")


def _noise(step: Step) -> float:
    sigma, movement = step.exact("sigma"), step.exact("sensitivity")
    if not (sigma and movement):
        raise NotRecomputed(f"a {step.kind!r} event has no noise, or nothing that it is for")
    return float(sigma / movement)


def _bound(variance: Fraction, squares: int) -> float:
    """Equation (2)."""
    if variance <= _ROUNDING_VARIANCE:
        raise NotRecomputed(
            f"discrete Gaussian noise of variance {variance} on sums that move by "
            f"sqrt({squares}) has no price here; expected a variance above {_ROUNDING_VARIANCE}"
        )
    return math.sqrt((variance - _ROUNDING_VARIANCE) / squares)


def _squared_movement(step: Step, neighbours: str) -> int:
    return step.whole("squared_sensitivity") * _moves(step, neighbours) ** 2


def _reach(step: Step, neighbours: str) -> float:
    return float(step.exact("range")) * _moves(step, neighbours)


def _moves(step: Step, neighbours: str) -> int:
    """How often a unit moves what the event states for one row."""
    stated = step.text("neighbours")
    if stated == neighbours:
        return 1
    if (stated, neighbours) == (ADD, REPLACE):
        return 2
    raise NotRecomputed(
        f"a {step.kind!r} event is stated for {stated} neighbours, and the certificate is for "
        f"{neighbours}"
    )
