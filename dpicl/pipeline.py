"""What runs: pipelines.yaml as frozen types, and the grid of units that a pipeline spans.

A *cell* is one entry of a table of results: a system at one epsilon and number of shots.
A *unit* is one method on one data set with one seed, with all its cells: big enough that
scheduling it costs nothing next to running it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BeforeValidator, Field, field_validator, model_validator

from dpicl.contract.base import Frozen, Grown, Name, Rate, Text
from dpicl.errors import ParameterError, PrivacyError
from dpicl.options import Options
from dpicl.yaml_file import read_yaml, validate

MethodName = Literal["ldp_tabicl", "gdp_tabicl", "mst_tabicl", "few_shot_generation", "dp_icl"]
Wired = TypeVar("Wired")
Replaceable = Literal["datasets", "methods", "epsilons", "shots", "seeds", "sampling_rates", "queries", "model", "writer"]
"""Fields of a pipeline that one run may replace, as the options of `dpicl run` do."""


def parse_epsilon(value: object) -> float:
    """A privacy parameter: a positive number, or `inf` for no noise at all.

    Raises:
        ValueError: anything else.
    """
    try:
        epsilon = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        epsilon = math.nan
    if not epsilon > 0:
        raise ValueError(f"got {str(value)[:40]!r}; expected a number > 0, or inf")
    return epsilon


def read_epsilon(text: str) -> float:
    """A privacy parameter of the command line.

    Raises:
        ParameterError: it is no positive number, nor `inf`.
    """
    try:
        return parse_epsilon(text)
    except ValueError as error:
        raise ParameterError("epsilon", text[:40], str(error).partition("; expected ")[2]) from None


Epsilon = Annotated[float, Field(allow_inf_nan=True), BeforeValidator(parse_epsilon)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]


class Schedule(Grown):
    """When a deployment runs by itself, with what, where and for how long."""

    later: ClassVar[tuple[str, ...]] = ("parameters", "work_pool", "concurrency_limit", "timeout_hours")

    cron: Annotated[str, Field(pattern=r"^\S+(\s+\S+){4}$")]
    """Minute, hour, day of the month, month and day of the week, as `0 6 * * 1`."""
    timezone: str = "UTC"
    """In which the times are meant, a name such as Europe/Paris."""
    horizon_days: Annotated[int, Field(ge=1, le=3660)] = 365
    """How long the budget should last, if every run meets new data; a warning is given where it will not."""
    parameters: dict[Replaceable, Any] = {}
    """Fields of the pipeline that its runs replace, as options of `dpicl run` do: `{seeds: [1, 2], model: tiny}`."""
    work_pool: Name | None = None
    """Prefect's work pool whose workers run it, by `dpicl deploy`; `dpicl serve` runs those that name none."""
    concurrency_limit: Annotated[int, Field(ge=1, le=100)] = 1
    """How many runs of it there may be at once; more wait."""
    timeout_hours: Annotated[float, Field(gt=0, le=8760)] | None = None
    """A run that works longer is killed, and goes on in its folder as other killed ones do; None lets it."""

    @field_validator("parameters")
    @classmethod
    def _as_json(cls, value: dict[Replaceable, Any]) -> dict[Replaceable, Any]:
        """JSON, in which servers keep them, has no infinity: it is written as text, which means the same."""
        return {
            name: ["inf" if one == math.inf else one for one in given] if isinstance(given, list) else given
            for name, given in value.items()
        }


class Pipeline(Frozen):
    """A grid of runs, or (`kind: amplification`) a table of costs that asks no model."""

    title: Text
    """One sentence for lists and reports."""
    kind: Literal["grid", "amplification"] = "grid"
    """A grid of runs, or a table of what subsampling saves."""
    methods: tuple[MethodName, ...] = ()
    """Each on every data set and seed; of a grid one at least."""
    datasets: Annotated[tuple[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")], ...], Field(min_length=1)]
    """Names of contracts."""
    epsilons: Annotated[tuple[Epsilon, ...], Field(min_length=1, max_length=100)]
    """What a release may cost, in nats, 100 values at most; `inf` is without noise, on benchmarks only."""
    shots: tuple[Annotated[int, Field(ge=1, le=64)], ...] = ()
    """Numbers of demonstrations; of a grid one at least."""
    seeds: tuple[Seed, ...] = (0,)
    """Repetitions: each is a release of its own; the same rows are held out and asked about in all of them."""
    sampling_rates: tuple[Rate, ...] = ()
    """Rates to compare; empty takes each contract's own."""
    queries: Annotated[int, Field(ge=1)] | None = None
    """At most so many held-out rows of a table are put to the model, the same ones in every cell; None takes the contract's share."""
    model: Annotated[str, Field(min_length=1, max_length=300)] = "tiny"
    """Which model answers: a name of `models`, a folder, a hub id, or a server's URL#MODEL."""
    writer: Annotated[str, Field(min_length=1, max_length=300)] | None = None
    """The model that reads private texts, always one that may see them; None takes `model`."""
    baselines: bool = True
    """Whether classifiers are fitted beside the model, some of them on private rows: off for a table that is no benchmark."""
    options: Options = Options()
    """Choices of the methods."""
    schedule: Schedule | None = None
    """When `dpicl serve` runs it; never by itself if left out."""

    @field_validator("sampling_rates")
    @classmethod
    def _rates(cls, value: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
        wrong = [rate for rate in value if not 0 < rate <= 1]
        if wrong:
            raise ValueError(f"got {wrong[0]}; expected rates in (0, 1]")
        return value

    @model_validator(mode="after")
    def _grid_is_whole(self) -> Pipeline:
        if self.kind == "grid" and not (self.methods and self.shots and self.seeds):
            raise ValueError("a grid lacks methods, shots or seeds; expected at least one of each")
        if self.queries is not None and set(self.methods) & {"few_shot_generation", "dp_icl"}:
            raise ValueError("queries is for methods on tables; expected none, since a contract of texts states its own")
        for name in ("methods", "datasets", "epsilons", "shots", "seeds", "sampling_rates"):
            values = getattr(self, name)
            if len(set(values)) != len(values):
                raise ValueError(f"{name} lists a value twice; expected distinct values")
        return self


class Pipelines(Frozen):
    """The whole of pipelines.yaml; models are validated by the language-model layer."""

    version: Literal[1]
    """Of the form of this file."""
    models: dict[Name, dict[str, object]] = {}
    """Models by the names that pipelines and commands call them, each a [ModelSpec](#modelspec) without its name."""
    pipelines: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")], Pipeline]
    """Pipelines by name."""


def load_pipelines(path: Path) -> Pipelines:
    """Read pipelines.yaml.

    Raises:
        DeclarationError: names file, key, rule and expected shape.
    """
    found = validate(Pipelines, read_yaml(path), path.name)
    for name, pipeline in found.pipelines.items():
        if pipeline.schedule:  # what it replaces breaks a rule today, and not in the night of its first run
            override(pipeline, pipeline.schedule.parameters, f"{path.name}: pipelines.{name}.schedule.parameters")
    return found


def override(pipeline: Pipeline, changes: Mapping[Any, object], source: str = "command line") -> Pipeline:
    """The pipeline with some fields replaced, checked as the file is.

    Args:
        source: who replaces them, for messages.

    Raises:
        DeclarationError: as for the file.
    """
    exact = {"sampling_rates": [str(rate) for rate in pipeline.sampling_rates], "epsilons": list(pipeline.epsilons)}
    return validate(Pipeline, {**pipeline.model_dump(mode="json"), **exact, **changes}, source)


@dataclass(frozen=True)
class Cell:
    """One entry of a table: which system answers, at what epsilon, with how many shots."""

    system: str
    epsilon: float | None = None
    shots: int | None = None
    sampling_rate: Fraction | None = None

    @property
    def key(self) -> str:
        """A stable name, e.g. `icl,epsilon=1.0,shots=2`."""
        parts = (("epsilon", self.epsilon), ("shots", self.shots), ("rate", self.sampling_rate))
        return ",".join([self.system, *(f"{name}={value}" for name, value in parts if value is not None)])


@dataclass(frozen=True)
class Unit:
    """One method on one data set with one seed: everything that is scheduled together."""

    method: MethodName
    dataset: str
    seed: int
    epsilons: tuple[float, ...]
    shots: tuple[int, ...]
    sampling_rates: tuple[Fraction, ...]
    baselines: bool
    options: Options

    @property
    def key(self) -> str:
        """Folder name below `units/`."""
        return f"{self.method}__{self.dataset}__seed{self.seed}"

    @property
    def systems(self) -> tuple[str, ...]:
        """Every way in which this unit asks the model with demonstrations."""
        options, local = self.options, self.options.ldp_tabicl
        calibration = ("content-free",) if options.calibrate else ()
        raw = ("raw-rows",) if local.design == "all-columns" else ()
        systems = {
            "ldp_tabicl": (*raw, *(f"icl-{name}" for name in (*local.also_sampled, *local.also)), *calibration),
            "gdp_tabicl": calibration,
            "mst_tabicl": (*(f"icl-{name}" for name in options.mst_tabicl.also_sampled), *calibration),
            "few_shot_generation": (*(f"icl-{name}" for name in options.few_shot_generation.also), "random-rows"),
            "dp_icl": (*(f"icl-{name}" for name in options.dp_icl.also), "few-shot"),
        }
        return ("icl", *wired(systems, self.method, "dpicl.pipeline.Unit.systems"))

    def asked_cells(self) -> Iterator[Cell]:
        """The cells of all systems."""
        for system in self.systems:
            yield from self.cells(system)
        if self.method == "few_shot_generation":
            yield from (Cell("icl", 0.0, shots) for shots in self.shots)

    def cells(self, system: str) -> Iterator[Cell]:
        """The private cells of this unit, rates outermost."""
        rates = self.sampling_rates or (None,)
        for rate, epsilon, shots in product(rates, self.epsilons, self.shots):
            yield Cell(system, epsilon, shots, rate)


def wired(places: Mapping[str, Wired], method: str, where: str) -> Wired:
    """What a place in the program holds for a method: of one that it does not know nothing is guessed.

    Raises:
        PrivacyError: the place does not know the method.
    """
    if method not in places:
        raise PrivacyError(f"method {method[:60]!r}: {where} does not know it; expected one of {', '.join(places)}")
    return places[method]


def units_of(pipeline: Pipeline) -> tuple[Unit, ...]:
    """Every unit of a grid, seeds outermost so that early results cover all data sets."""
    return tuple(
        Unit(method, dataset, seed, pipeline.epsilons, pipeline.shots, pipeline.sampling_rates, pipeline.baselines, pipeline.options)
        for seed, dataset, method in product(pipeline.seeds, pipeline.datasets, pipeline.methods)
    )


def find_pipeline(pipelines: Pipelines, name: str) -> Pipeline:
    """The pipeline of that name.

    Raises:
        ParameterError: there is none; the message lists the names.
    """
    if name not in pipelines.pipelines:
        raise ParameterError("pipeline", name[:60], "one of " + ", ".join(pipelines.pipelines))
    return pipelines.pipelines[name]
