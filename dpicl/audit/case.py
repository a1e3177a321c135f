"""What an audit is: a mechanism, what is stated of it, and mutants that must be caught."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpicl.accounting.guarantee import Neighbours
from dpicl.audit.bounds import Trial

LESS_NOISE = Fraction(5, 4)
"""A mechanism given this many times its epsilon has 0.8 times its noise."""


@dataclass(frozen=True)
class Mutant:
    """The mechanism with one mistake."""

    name: str
    what_is_wrong: str
    trial: Trial


@dataclass(frozen=True)
class AuditCase:
    """One mechanism on two worst-case neighbours; epsilon in nats."""

    name: str
    mechanism: str
    stated_epsilon: float
    neighbours: Neighbours
    unit: str
    trial: Trial
    mutants: tuple[Mutant, ...]
    share: int = 1
    """One of so many runs is made, where a run takes long."""
    near: float = 0.75
    """The part of the stated epsilon that a hundred thousand runs find at least; less where few of them are made."""


def less_noise(trial: Trial) -> Mutant:
    """The mutant that every mechanism has."""
    return Mutant("less-noise", "noise of 0.8 times the scale", trial)
