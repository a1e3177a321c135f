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
from typing import Annotated, Literal, TypeVar

from pydantic import BeforeValidator, Field, field_validator, model_validator

from dpicl.contract.base import Frozen, Name, Rate, Text
from dpicl.errors import ParameterError
from dpicl.yaml_file import read_yaml, validate

MethodName = Literal["ldp_tabicl", "gdp_tabicl", "few_shot_generation", "dp_icl"]


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


Epsilon = Annotated[float, Field(allow_inf_nan=True), BeforeValidator(parse_epsilon)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]


class Schedule(Frozen):
    """When a deployment runs by itself."""

    cron: Annotated[str, Field(pattern=r"^\S+(\s+\S+){4}$")]
    timezone: str = "UTC"


class LdpOptions(Frozen):
    """Choices of LDP-TabICL; the paper's are `one-hot` and `clip`."""

    encoding: Literal["k-ary", "one-hot"] = "k-ary"
    estimator: Literal["simplex", "clip", "none"] = "simplex"
    also_sampled: tuple[Literal["nested", "shared"], ...] = ()
    """Ways to draw shots beside the paper's; columns of their own in the report."""


class GdpOptions(Frozen):
    """Choices of GDP-TabICL; the paper's are `all-columns` and `lower`."""

    allocation: Literal["paid-columns", "all-columns"] = "paid-columns"
    sum_origin: Literal["lower", "centre"] = "centre"


class FewShotVariant(Frozen):
    """One way of DP few-shot generation; the paper's are `fresh` batches and the first two mechanisms.

    What is None is the contract's.
    """

    mechanism: Literal["gaussian", "exponential", "clipped-logits"] = "gaussian"
    batches: Literal["fresh", "fixed"] = "fresh"
    """`fresh`: new subsets vote on every token. `fixed`: every row votes on all tokens of one text, on its own."""
    voters: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """`fresh`: subsets (M). `fixed`: how many rows vote on a text at the contract's lower bounds; None takes all."""
    examples: Annotated[int, Field(ge=1, le=64)] | None = None
    """Rows in one subset (N), of `fresh` batches."""
    candidates: Annotated[int, Field(ge=2, le=1_000_000)] | Literal["contract", "all"] = "contract"
    """The likeliest tokens without private rows, of which one is elected (K)."""
    max_tokens: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Tokens of a text (T_max), all of which are charged."""
    clip: Annotated[float, Field(gt=0, le=1000)] = 10.0
    """Of `clipped-logits`: how far below the largest a logit counts."""
    elections: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Of `fixed` batches: rows elect at most so many tokens of a text, and are asked otherwise whether the model's own will do."""
    agreement: Annotated[float, Field(gt=0, lt=1)] | None = None
    """With `elections`: the share of the votes of `voters` rows that the model's own next token must have to do.

    None is 0.5; of clipped logits, which vote in part for everything, 0.95.
    """

    @model_validator(mode="after")
    def _fits_batches(self) -> FewShotVariant:
        if self.batches == "fixed" and self.examples is not None:
            raise ValueError("fixed batches with examples; expected none: every row votes on its own")
        if self.batches == "fresh" and self.mechanism == "clipped-logits":
            raise ValueError("clipped-logits with fresh batches; expected `batches: fixed`, where every row votes on its own")
        if self.elections is not None and (self.batches == "fresh" or self.mechanism == "gaussian"):
            raise ValueError("elections with fresh batches or gaussian noise; expected `batches: fixed` and another mechanism")
        return self


VariantName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,19}$")]
Variant = TypeVar("Variant", bound=Frozen)


def variant_of(options: Variant, also: Mapping[str, Variant], kind: type[Variant], system: str) -> Variant:
    """The way that a system stands for: `icl`, or `icl-NAME` of `also`."""
    chosen = also[system.removeprefix("icl-")] if system.startswith("icl-") else options
    return kind.model_validate({name: getattr(chosen, name) for name in kind.model_fields})


class FewShotOptions(FewShotVariant):
    """Choices of DP few-shot generation: one way, and others beside it."""

    also: dict[VariantName, FewShotVariant] = {}
    """More ways by name, each a row of its own in the report and a release of its own."""

    def variant(self, system: str) -> FewShotVariant:
        """The way that a system stands for: `icl`, or `icl-NAME` of `also`."""
        return variant_of(self, self.also, FewShotVariant, system)


class EnsembleVariant(Frozen):
    """One way of DP-ICL; the paper's are `votes` with gaussian noise, `embedding` and the two of `keywords`.

    What is None is the contract's.
    """

    aggregation: Literal["votes", "soft-votes", "embedding", "keywords-ptr", "keywords-joint"] | None = None
    """How answers become one: None is `votes` where the contract lists labels, else `embedding`.

    `soft-votes`: every row is asked with for itself, and its clipped log-probabilities add up.
    """
    noise: Literal["gaussian", "exponential"] = "gaussian"
    """Of `votes`; all others have one noise only."""
    subsets: Annotated[int, Field(ge=2, le=10_000)] | None = None
    """Disjoint prompts for each query (M), of `shots` rows each on average."""
    clip: Annotated[float, Field(gt=0, le=1000)] = 5.0
    """Of `soft-votes`: how far below the largest a log-probability counts, in nats."""


class EnsembleOptions(EnsembleVariant):
    """Choices of DP-ICL: one way, and others beside it."""

    also: dict[VariantName, EnsembleVariant] = {}
    """More ways by name, each a row of its own in the report and a release of its own."""

    def variant(self, system: str) -> EnsembleVariant:
        """The way that a system stands for: `icl`, or `icl-NAME` of `also`."""
        return variant_of(self, self.also, EnsembleVariant, system)


class Options(Frozen):
    """Choices by method, and for all of them."""

    ldp_tabicl: LdpOptions = LdpOptions()
    gdp_tabicl: GdpOptions = GdpOptions()
    few_shot_generation: FewShotOptions = FewShotOptions()
    dp_icl: EnsembleOptions = EnsembleOptions()
    calibrate: bool = False
    """Also answer with contextual calibration: what the model says without content is taken off."""


class Pipeline(Frozen):
    """A grid of runs, or (`kind: amplification`) a table of costs that asks no model."""

    title: Text
    kind: Literal["grid", "amplification"] = "grid"
    methods: tuple[MethodName, ...] = ()
    datasets: Annotated[tuple[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")], ...], Field(min_length=1)]
    epsilons: Annotated[tuple[Epsilon, ...], Field(min_length=1)]
    shots: tuple[Annotated[int, Field(ge=1, le=64)], ...] = ()
    seeds: tuple[Seed, ...] = (0,)
    sampling_rates: tuple[Rate, ...] = ()
    """Rates to compare; empty takes each contract's own."""
    model: Annotated[str, Field(min_length=1, max_length=300)] = "tiny"
    writer: Annotated[str, Field(min_length=1, max_length=300)] | None = None
    """The model that reads private texts, always one that may see them; None takes `model`."""
    baselines: bool = True
    options: Options = Options()
    schedule: Schedule | None = None

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
        for name in ("methods", "datasets", "epsilons", "shots", "seeds", "sampling_rates"):
            values = getattr(self, name)
            if len(set(values)) != len(values):
                raise ValueError(f"{name} lists a value twice; expected distinct values")
        return self


class Pipelines(Frozen):
    """The whole of pipelines.yaml; models are validated by the language-model layer."""

    version: Literal[1]
    models: dict[Name, dict[str, object]] = {}
    pipelines: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")], Pipeline]


def load_pipelines(path: Path) -> Pipelines:
    """Read pipelines.yaml.

    Raises:
        DeclarationError: names file, key, rule and expected shape.
    """
    return validate(Pipelines, read_yaml(path), path.name)


def override(pipeline: Pipeline, changes: dict[str, object]) -> Pipeline:
    """The pipeline with some fields replaced, checked as the file is.

    Raises:
        DeclarationError: as for the file, with the command line named as its source.
    """
    content = {**pipeline.model_dump(mode="json"), **changes}
    content["sampling_rates"] = [str(rate) for rate in changes.get("sampling_rates", pipeline.sampling_rates)]  # type: ignore[attr-defined]
    content["epsilons"] = list(changes.get("epsilons", pipeline.epsilons))  # type: ignore[call-overload]
    return validate(Pipeline, content, "command line")


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
        calibration = ("content-free",) if self.options.calibrate else ()
        if self.method == "few_shot_generation":
            return ("icl", *(f"icl-{name}" for name in self.options.few_shot_generation.also), "random-rows")
        if self.method == "dp_icl":
            return ("icl", *(f"icl-{name}" for name in self.options.dp_icl.also), "few-shot")
        if self.method == "gdp_tabicl":
            return ("icl", *calibration)
        return ("icl", "raw-rows", *(f"icl-{scheme}" for scheme in self.options.ldp_tabicl.also_sampled), *calibration)

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
