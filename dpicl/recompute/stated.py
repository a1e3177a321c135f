"""What a certificate states, as frozen types: the priced event, and each privacy loss with the
relation that it is for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

ADD, REPLACE = "add-or-remove-one", "replace-one"
"""Neighbouring tables: one unit more or less, or one replaced by another."""

_DIGITS = r"\d{1,1000}"
_NUMBER = re.compile(
    rf"-?{_DIGITS}(/{_DIGITS}|(\.{_DIGITS})?(e[+-]?\d{{1,3}})?)", re.ASCII | re.IGNORECASE
)
"""What Fraction reads in no time: it would write out every digit of 1e999999999."""
_SHOWN = 40
"""Characters of a wrong value that a message quotes."""


class NotRecomputed(Exception):
    """There is no second price of this; the message says why."""


class Malformed(Exception):
    """This is no certificate; the message says which key is not as expected."""


@dataclass(frozen=True)
class Step:
    """An event of the certificate: what was done to the rows, with its public parameters."""

    kind: str
    parameters: tuple[tuple[str, float | int | str], ...]
    parts: tuple[Step, ...]

    def text(self, name: str) -> str:
        """A parameter as text. Raises NotRecomputed: the certificate does not state it."""
        for known, value in self.parameters:
            if known == name:
                return str(value)
        raise NotRecomputed(f"a {self.kind!r} event states no {name}")

    def exact(self, name: str) -> Fraction:
        """A finite parameter that is at least 0, exactly. Raises NotRecomputed: it is something
        else.
        """
        text = self.text(name)
        try:
            value = Fraction(text) if _NUMBER.fullmatch(text) else Fraction(-1)
        except ZeroDivisionError:
            value = Fraction(-1)
        if value < 0:
            raise NotRecomputed(
                f"a {self.kind!r} event states {name}={text[:_SHOWN]}; expected a finite number "
                f">= 0 of at most 1,000 digits, with an exponent of at most 999"
            )
        return value

    def whole(self, name: str) -> int:
        """A parameter that is a whole number >= 1. Raises NotRecomputed: it is something else."""
        value = self.exact(name)
        if value < 1 or value.denominator != 1:
            raise NotRecomputed(
                f"a {self.kind!r} event states {name}={self.text(name)[:_SHOWN]}; expected a whole "
                f"number >= 1"
            )
        return int(value)

    def rate(self) -> Fraction:
        """The sampling rate, in (0, 1]. Raises NotRecomputed: it is something else."""
        value = self.exact("sampling_rate")
        if not 0 < value <= 1:
            raise NotRecomputed(
                f"a sample has the rate {self.text('sampling_rate')[:_SHOWN]}; expected a number "
                f"in (0, 1]"
            )
        return value

    def check(self) -> None:
        """Refuse an event that says more, or has other parts, than the prices here go by.
        Raises NotRecomputed: it does, or its kind is not known here.
        """
        if self.kind not in _KNOWN:
            raise NotRecomputed(f"events of the kind {self.kind!r} are not known here")
        parameters, parts = _KNOWN[self.kind]
        if more := {name for name, _ in self.parameters}.difference(parameters.split()):
            raise NotRecomputed(
                f"a {self.kind!r} event states {', '.join(sorted(more))}, which is not known here"
            )
        if parts is not None and len(self.parts) != parts:
            raise NotRecomputed(
                f"a {self.kind!r} event has {len(self.parts)} parts; expected {parts}"
            )
        for part in self.parts:
            part.check()


_KNOWN: dict[str, tuple[str, int | None]] = {
    "pure": ("epsilon", 0),
    "public-key": ("", 0),
    "discrete-laplace": ("epsilon sensitivity", 0),
    "noisy-sum": ("epsilon sum_sensitivity", 0),
    "noisy-mean": ("epsilon sum_sensitivity count_sensitivity", 0),
    "noisy-max": ("epsilon spread neighbours", 0),
    "joint-exponential": ("epsilon sensitivity neighbours", 0),
    "sparse-vector": ("epsilon spread neighbours", 0),
    "randomised-response": ("categories bits keep lie", 0),
    "unary-encoding": ("categories weight total", 0),
    "gaussian": ("sigma sensitivity", 0),
    "discrete-gaussian": ("variance squared_sensitivity neighbours", 0),
    "approximate": ("epsilon delta", 0),
    "bounded-range": ("range neighbours", 0),
    "sequential": ("", None),
    "parallel": ("", None),
    "repeated": ("count", 1),
    "grouped": ("rows", 1),
    "poisson-sampled": ("sampling_rate", 1),
    "replaced": ("", 1),
}
"""By kind, the parameters that there may be, and how many parts (None: any number)."""


@dataclass(frozen=True)
class Loss:
    """A stated privacy loss: epsilon in nats, infinite where nothing is promised, and delta."""

    epsilon: float
    delta: float


@dataclass(frozen=True)
class Stated:
    """A certificate's statements that have a price.

    Attributes:
        release: as charged: the promise.
        nominal: before amplification by a secret subsample, where there is one.
        before, after: of the account, where they are stated.
        rule: how the account's total was composed.
    """

    event: Step
    neighbours: str
    release: Loss
    nominal: Loss | None
    before: Loss | None
    after: Loss | None
    rule: str


def stated_of(content: object) -> Stated:
    """What this certificate states; its signature is not looked at. Raises Malformed: `content` is
    no certificate.
    """
    try:
        if not isinstance(content, Mapping) or content["format"] != "dpicl certificate":
            raise Malformed("format: expected 'dpicl certificate'")
        loss, account = content["privacy_loss"], content["accounting"]
        return Stated(
            _step(content["implementation"]["mechanisms"]),
            _neighbours(loss["neighbours"]),
            _loss(loss["privacy_parameters"]),
            _optional(loss["nominal_parameters"]),
            _optional(account["spent_before"]),
            _optional(account["spent_after"]),
            str(account["composition_rule"]),
        )
    except KeyError as missing:
        raise Malformed(f"{missing.args[0]}: expected this key") from None
    except (TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        raise Malformed("a value has another type; expected the file as dpicl wrote it") from None


def _neighbours(content: object) -> str:
    if content not in (ADD, REPLACE):
        raise Malformed(f"neighbours={str(content)[:_SHOWN]}: expected {ADD} or {REPLACE}")
    return str(content)


def _step(content: Mapping[str, Any]) -> Step:
    kind, parts = content["kind"], content["parts"]
    if not isinstance(kind, str):
        raise Malformed(f"kind={str(kind)[:_SHOWN]}: expected a text")
    if not isinstance(parts, list):
        raise Malformed(f"parts={str(parts)[:_SHOWN]}: expected a list of events")
    parameters = sorted(content["parameters"].items())
    for name, value in parameters:
        if isinstance(value, bool) or not isinstance(value, float | int | str):
            raise Malformed(f"{name}={str(value)[:_SHOWN]}: expected a number or a text")
    return Step(kind, tuple(parameters), tuple(map(_step, parts)))


def _loss(content: Mapping[str, Any]) -> Loss:
    epsilon, delta = content["epsilon"], content["delta"]
    for value in (0 if epsilon is None else epsilon, delta):
        if isinstance(value, bool) or not isinstance(value, float | int):
            raise Malformed(f"privacy loss {str(value)[:_SHOWN]}: expected a number")
    loss = Loss(math.inf if epsilon is None else float(epsilon), float(delta))
    if not (loss.epsilon >= 0 and 0 <= loss.delta < 1):
        raise Malformed(
            f"epsilon={loss.epsilon:g}, delta={loss.delta:g}: expected epsilon >= 0 and delta in "
            f"[0, 1)"
        )
    return loss


def _optional(content: Mapping[str, Any] | None) -> Loss | None:
    return None if content is None else _loss(content)
