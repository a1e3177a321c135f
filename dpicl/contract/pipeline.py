"""What runs: a *point* is what one release is asked for; a *cell* is one entry of a table of
results, a system at one epsilon and number of shots; a *unit* is one method on one data set with
one seed, with all its cells: big enough that scheduling it costs nothing next to running it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from itertools import product
from numbers import Real
from typing import Generic, TypeVar

from dpicl.contract.base import Frozen
from dpicl.ground.errors import ParameterError, PrivacyError
from dpicl.ground.yaml_file import is_number

MOST_TEXTS = 10_000
"""Of one release: where texts by the thousand are released at once, no prompt holds them all."""
Chosen = TypeVar("Chosen", bound=Frozen)


class CommonOptions(Frozen):
    """Options of all methods."""

    same_shots: bool = False
    """Whether all queries of a draw are shown the same shots, which a model reads once, where each
    would have shots of its own; of tables.
    """


LEAST_EPSILON = 1e-6
"""Below it a release would be noise alone, and noise would leave the whole numbers that a machine
counts in.
"""


def parse_epsilon(value: object) -> float:
    """A privacy parameter: a number of at least `LEAST_EPSILON`, as JSON writes it, or `inf` for no
    noise at all.

    Raises:
        ValueError: anything else.
    """
    is_written = is_number(value) or value == "inf" if isinstance(value, str) else is_real(value)
    try:
        epsilon = float(value) if is_written else math.nan  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        epsilon = math.nan
    # more than a float holds is no infinity that anybody has asked for
    if math.isinf(epsilon) and value not in ("inf", math.inf):
        epsilon = math.nan
    if not epsilon >= LEAST_EPSILON:
        expected = f"a number >= {LEAST_EPSILON}{_json_hint(value)}, or inf"
        raise ValueError(f"got {str(value)[:40]!r}; expected {expected}")
    return epsilon


def _json_hint(value: object) -> str:
    """How to write the number, where the text is one to Python and none to JSON."""
    try:
        is_number_of_python = isinstance(value, str) and LEAST_EPSILON <= float(value) < math.inf
    except ValueError:
        return ""
    return " as JSON writes it, such as 0.5 or 10" if is_number_of_python else ""


def is_real(value: object) -> bool:
    """Whether a program's value is a number, `numpy`'s among them, and no truth value, array or
    text.
    """
    return isinstance(value, Real | Decimal) and not isinstance(value, bool)


def read_epsilon(value: object) -> float:
    """A privacy parameter of the command line, or of a program.

    Raises:
        ParameterError: it is no such number, nor `inf`.
    """
    try:
        return parse_epsilon(value)
    except ValueError as error:
        raise ParameterError(
            "epsilon", str(value)[:40], str(error).partition("; expected ")[2]
        ) from None


BY = "@"
"""In the name of a system before a model that is asked beside the run's."""


def asked_by(system: str) -> tuple[str, str]:
    """A system, and the model that is asked beside the run's, if it is one of those: `icl`,
    `bundled` of `icl@bundled`.
    """
    asked, _, model = system.partition(BY)
    return asked, model


@dataclass(frozen=True)
class Point(Generic[Chosen]):
    """What one release is asked for besides its contract, in public facts.

    Attributes:
        key: what its streams are named by, e.g. `icl,epsilon=1.0,shots=2`.
        options: what is chosen of the method, or of one of its variants.
        shots, sampling_rate: None where a release is of any number, or the rate is the contract's.
    """

    key: str
    epsilon: float
    options: Chosen
    shots: int | None
    sampling_rate: Fraction | None
    seed: int


@dataclass(frozen=True)
class Cell:
    """One entry of a table: which system answers, at what epsilon, with how many shots."""

    system: str
    epsilon: float | None = None
    shots: int | None = None
    sampling_rate: Fraction | None = None
    draw: int | None = None
    """Of several draws of demonstrations from one release the further ones, from 2 on: they are
    asked, and measured together.
    """

    def answered_by(self, model: str) -> Cell:
        """The same prompts, answered by a model that is asked beside the run's: a system of its
        own, `icl@bundled`.
        """
        return replace(self, system=f"{self.system}{BY}{model}")

    @property
    def prompts(self) -> Cell:
        """The cell whose prompts are asked here: this one, or the same of the run's model."""
        return replace(self, system=asked_by(self.system)[0])

    @property
    def key(self) -> str:
        """A stable name, e.g. `icl,epsilon=1.0,shots=2`."""
        parts = (
            ("epsilon", self.epsilon),
            ("shots", self.shots),
            ("rate", self.sampling_rate),
            ("draw", self.draw),
        )
        return ",".join(
            [self.system, *(f"{name}={value}" for name, value in parts if value is not None)]
        )


@dataclass(frozen=True)
class Unit:
    """One method on one data set with one seed: everything that is scheduled together.
    `dpicl.methods.unit_of` makes it.
    """

    method: str
    dataset: str
    seed: int
    epsilons: tuple[float, ...]
    shots: tuple[int, ...]
    sampling_rates: tuple[Fraction, ...]
    baselines: bool
    options: CommonOptions
    evaluated_cells: tuple[Cell, ...]
    """Every cell in which the model is asked with demonstrations."""
    draws: int = 1
    """How often each query is asked with demonstrations drawn anew from the same release, of
    methods that draw them.
    """

    @property
    def key(self) -> str:
        """Folder name below `units/`."""
        return unit_key(self.method, self.dataset, self.seed)

    @property
    def systems(self) -> tuple[str, ...]:
        """Every way in which this unit asks the model with demonstrations."""
        return tuple(dict.fromkeys(cell.system for cell in self.evaluated_cells))

    def cells(self, system: str) -> Iterator[Cell]:
        """The private cells of this unit, rates outermost."""
        rates = self.sampling_rates or (None,)
        for rate, epsilon, shots in product(rates, self.epsilons, self.shots):
            yield Cell(system, epsilon, shots, rate)

    def chosen(self, kind: type[Chosen]) -> Chosen:
        """The choices of this unit's method.

        Raises:
            PrivacyError: they are of another type.
        """
        found = getattr(self.options, self.method, None)
        if not isinstance(found, kind):
            raise PrivacyError(f"method {self.method!r}: has no choices of type {kind.__name__}")
        return found


def unit_key(method: str, dataset: str, seed: int) -> str:
    """What everything of a method on a data set with a seed is called; `parts_of` reads it."""
    return f"{method}__{dataset}__seed{seed}"


def parts_of(key: str) -> tuple[str, str, int] | None:
    """Method, data set and seed of a unit's key; None of any other text."""
    method, _, rest = key.partition("__")
    dataset, _, seed = rest.rpartition("__seed")
    return (method, dataset, int(seed)) if dataset and seed.isdigit() else None
