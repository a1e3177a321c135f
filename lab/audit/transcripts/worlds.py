"""What a transcript is made of: a draw on two neighbours, and what it may tell at most."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lab.audit.transcripts.record import Open


class Drawn(Protocol):
    """A method's draw on one of two neighbours."""

    def __call__(self, which: bool, opened: Open) -> bytes:
        """What is published of the rows, or of those of the neighbour."""
        ...


@dataclass(frozen=True)
class Price:
    """What all steps may tell together, as the method's cost states it; infinite where something
    else is stated.

    Attributes:
        epsilon: of all log-ratios.
        squared: mu^2 of all Gaussian noise and choices.
        rows: how many rows a unit moves: so many times may each step tell what it states of one.
        movement: |x - x'|^2 of one step of Gaussian noise on votes.
        variance: of that noise, at least.
        step: epsilon of one step.
        steps: how many steps may tell anything.
        failed: probability of outputs that the neighbour never has.
    """

    epsilon: float = math.inf
    squared: float = math.inf
    rows: int = 1
    movement: float = math.inf
    variance: float = 0.0
    step: float = math.inf
    steps: float = math.inf
    failed: float = 0.0


@dataclass(frozen=True)
class World:
    """Two neighbours, of which at most so many rows differ, and a draw on each; of a `stranger`,
    a method of another package, less is taken for granted.
    """

    draw: Drawn
    price: Price
    rows: int
    stranger: bool = False


@dataclass(frozen=True)
class Case:
    """A kind of worlds.

    Attributes:
        method: by its name in pipelines.
        make: a world from a generator of public choices.
        stranger: whether the method is of another package.
    """

    name: str
    method: str
    make: Callable[[np.random.Generator], World]
    stranger: bool = False
