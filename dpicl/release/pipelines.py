"""pipelines.yaml as frozen types, and the grid of units that a pipeline spans."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    field_validator,
    model_validator,
)

from dpicl.contract import TextContract
from dpicl.contract.base import Frozen, Key, Rate, Text
from dpicl.contract.declared import Declared
from dpicl.contract.pipeline import MOST_TEXTS, Unit, parse_epsilon
from dpicl.data.prompts import MOST_SHOTS
from dpicl.ground.errors import DeclarationError, ParameterError, one_of
from dpicl.ground.validation import validate
from dpicl.ground.yaml_file import read_yaml
from dpicl.home.settings import SHIPPED_PIPELINES, Settings
from dpicl.methods import METHODS, Options, unit_of
from dpicl.models.local.model_files import is_model_folder
from dpicl.models.spec import ModelSpec, resolve_model

Replaceable = Literal[
    "datasets",
    "methods",
    "epsilons",
    "shots",
    "seeds",
    "sampling_rates",
    "queries",
    "draws",
    "window",
    "within_hours",
    "reports",
    "model",
    "generator",
    "embedder",
    "anyway",
]
"""Keys of a pipeline that one run may override, as the options of `dpicl run` do.
"""


def _registered(name: str) -> str:
    if name not in METHODS:
        raise ValueError(f"got {name[:40]!r}; expected {one_of(name, METHODS)}")
    return name


MethodName = Annotated[str, AfterValidator(_registered)]
Epsilon = Annotated[float, Field(allow_inf_nan=True), BeforeValidator(parse_epsilon)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]


class Schedule(Frozen):
    """When and where a deployment runs, with which parameters and for how long."""

    cron: Annotated[str, Field(pattern=r"^\S+(\s+\S+){4}$")]
    """Minute, hour, day of the month, month and day of the week, e.g. `0 6 * * 1`."""
    timezone: str = "UTC"
    """Time zone of `cron`, e.g. Europe/Paris."""
    horizon_days: Annotated[int, Field(ge=1, le=3660)] = 365
    """A warning is given if the budget will not last this long, with every run on new data."""
    parameters: dict[Replaceable, Any] = {}
    """Keys of the pipeline that scheduled runs override, e.g. `{seeds: [1, 2], model: tiny}`."""
    work_pool: Key | None = None
    """Prefect work pool that runs it, set up by `dpicl deploy`; `dpicl serve` runs it if left
    out.
    """
    concurrency_limit: Annotated[int, Field(ge=1, le=100)] = 1
    """Maximum number of simultaneous runs; further runs wait."""
    timeout_hours: Annotated[float, Field(gt=0, le=8760)] | None = None
    """A run that takes longer is killed, and resumed in its folder like any killed run; no limit if
    left out.
    """

    @field_validator("parameters")
    @classmethod
    def _as_json(cls, value: dict[Replaceable, Any]) -> dict[Replaceable, Any]:
        """JSON, in which servers keep them, has no infinity: it is written as text, which means the
        same.
        """
        return {
            name: ["inf" if value == math.inf else value for value in values]
            if isinstance(values, list)
            else values
            for name, values in value.items()
        }


PlaceText = Annotated[str, Field(pattern=r"\S", max_length=1000)]


class Reports(Frozen):
    """Reports of real clients, which stand in the place of rows, and the words that clients were
    given with the contract.
    """

    unsaid = ("label_alone",)

    at: PlaceText
    """A folder of files of reports, one such file, or an address `s3://…`; a relative path begins
    at the folder of pipelines.yaml. Neither private rows nor a folder of them.
    """
    design: Literal["one-column", "pairs", "subset", "agreement"] = "subset"
    """Which columns a client reports, `--design` of clients."""
    columns: Annotated[int, Field(ge=1, le=64)] | None = None
    """`subset` only: number of columns per report beside the label, `--columns` of clients."""
    about: tuple[str, ...] = ()
    """Attributes that clients are asked for beside the label, `--about` of clients; all if
    empty.
    """
    label_alone: bool = False
    """Whether about one client in eight is asked for the label alone, `--label-alone` of
    clients.
    """
    sending_epsilon: Annotated[float, Field(gt=0)] | None = None
    """Privacy parameter of one sending, where clients add noise anew for each period."""
    close: PlaceText | None = None
    """A folder in which each period that is counted is closed by a file: its counts stand, and
    further reports for it are late. If left out, each run counts what is there.
    """


def _at(value: Any) -> Any:
    """A place alone."""
    return {"at": value} if isinstance(value, str) else value


class Pipeline(Frozen):
    """A grid of runs, or (`kind: amplification`) a table of privacy costs that needs no model."""

    title: Text = ""
    """Title in lists and reports; the entry's name if left out."""
    group: Annotated[Literal["try", "protect", "reproduce"] | None, Field(exclude=True)] = None
    """What it is for: to try dpicl, to protect data of your own, or to reproduce results. Like
    `takes` and `needs` it is for `dpicl list`, and no part of a run.
    """
    takes: Annotated[Text | None, Field(exclude=True)] = None
    """About how long it takes."""
    needs: Annotated[Text | None, Field(exclude=True)] = None
    """What it needs that does not come with dpicl: a model, data, a GPU."""
    kind: Literal["grid", "amplification"] = "grid"
    """A grid of runs, or a table of amplification by subsampling."""
    methods: tuple[MethodName, ...] = ()
    """Methods, each run on every data set with every seed; a grid needs at least one."""
    datasets: Annotated[
        tuple[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")], ...], Field(min_length=1)
    ]
    """Names of contracts."""
    epsilons: Annotated[tuple[Epsilon, ...], Field(min_length=1, max_length=100)]
    """Privacy parameters in nats, at most 100; `inf` adds no noise and is for benchmarks only."""
    shots: tuple[Annotated[int, Field(ge=1, le=MOST_TEXTS)], ...] = ()
    """Numbers of demonstrations; a grid needs at least one."""
    seeds: tuple[Seed, ...] = (0,)
    """Repetitions; each is a release of its own. All of them use the same held-out rows and
    queries.
    """
    sampling_rates: tuple[Rate, ...] = ()
    """Subsampling rates to compare; each contract's own if empty."""
    queries: Annotated[int, Field(ge=1)] | None = None
    """Maximum number of held-out rows or texts that serve as queries, the same in every cell; the
    contract's share or number if left out. Where answers are what is released, fewer queries are
    another release, and cost less noise.
    """
    draws: Annotated[int, Field(ge=1, le=64)] | None = None
    """How often each query is asked, each time with shots drawn anew from the same released rows:
    so many times the prompts, and free of charge where queries are public. Probabilities of the
    answers are averaged, and shown beside those of the first draw. If left out: 4 where that is
    free and a language model answers, else 1. Methods that release no rows ask once.
    """
    window: Annotated[int, Field(ge=1)] | None = None
    """Of tables with a horizon (`releases.horizon`): the number of last periods that rows are made
    of, free of charge; all if left out.
    """
    within_hours: Annotated[float, Field(gt=0, le=8760)] | None = None
    """Of benchmarks alone: a run begins no further seed of a data set once it has been worked on
    for so long, in all its sittings, and ends with what has begun. The first seed of every data set
    comes first, then the others; what was left out is named in the report.
    """
    reports: Annotated[
        Reports | None, BeforeValidator(_at, json_schema_input_type=str | Reports | None)
    ] = None
    """Clients' reports to count in the place of rows, or where they are: of one data set, whose
    `source` is not read. No account is charged. Where the contract releases `every` period, a run
    counts the last one that is over, or that of `--period`.
    """
    model: Annotated[str, Field(min_length=1, max_length=300)] = "tiny"
    """The model that answers: a name of `models`, a folder, a hub id, or a server's URL#MODEL."""
    beside: tuple[Annotated[str, Field(pattern=r"^[\w.-]{1,60}$")], ...] = ()
    """Further models, by names of `models`, that are asked the very same prompts: of tables whose
    queries are public. Their answers have rows of their own in tables and pictures, named by model.
    `model` among them is left out.
    """
    generator: Annotated[str, Field(min_length=1, max_length=300)] | None = None
    """The model that reads private texts, which must be trusted with them; `model` if left out."""
    embedder: Annotated[str, Field(min_length=1, max_length=300)] | None = None
    """What places texts, for `aggregation: embedding` and `similarity`: a folder or hub id of a
    sentence encoder, or an entry of `models` of kind endpoint with `trust: local`; hashed n-grams
    if left out, which need no model.
    """
    api: Literal["auto", "completions"] = "auto"
    """How a local model with a chat template is queried whose entry or `--api` leaves it open: as
    public questions decide, or by completions as the papers do. What is decided stands in the run's
    plan.
    """
    baselines: bool = True
    """Whether baseline classifiers are fitted too. Those that would read private rows, which no
    account pays for, are left out of data sets that are no benchmark or protect persons; asked for
    there by `true` they are refused.
    """
    anyway: bool = False
    """Whether a release that would be little but noise at the contract's `population` is made all
    the same.
    """
    options: Options = Options()
    """Options of the methods."""
    schedule: Schedule | None = None
    """When it runs by itself; never if left out."""

    @property
    def draw_count(self) -> int:
        """`draws` as they are planned: 1 where none are stated."""
        return self.draws or 1

    @field_validator("sampling_rates")
    @classmethod
    def _rates(cls, value: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
        wrong = [rate for rate in value if not 0 < rate <= 1]
        if wrong:
            raise ValueError(f"got {wrong[0]}; expected rates in (0, 1]")
        return value

    @model_validator(mode="after")
    def _reports_are_taken(self) -> Pipeline:
        if self.reports is None:
            return self
        if self.kind != "grid":
            raise ValueError(
                f"reports with kind {self.kind}, a table that reads neither rows nor reports; "
                f"expected `kind: grid`"
            )
        taking = [name for name, method in METHODS.items() if method.takes_reports]
        if not {*self.methods} <= {*taking}:
            raise ValueError(
                f"reports with methods {', '.join(self.methods)}; expected {', '.join(taking)} "
                f"alone, whose clients randomise"
            )
        if len(self.datasets) > 1:
            raise ValueError(
                f"reports with {len(self.datasets)} data sets; expected one: reports are made for "
                f"one contract"
            )
        return self

    @model_validator(mode="after")
    def _grid_is_whole(self) -> Pipeline:
        if self.kind == "grid" and not (self.methods and self.shots and self.seeds):
            raise ValueError("a grid lacks methods, shots or seeds; expected at least one of each")
        if self.draw_count > 1 and not any(METHODS[name].draws_shots for name in self.methods):
            having = ", ".join(name for name, method in METHODS.items() if method.draws_shots)
            raise ValueError(
                f"draws is for methods that draw shots from released rows; expected one of "
                f"{having}, or no draws"
            )
        most = min((METHODS[name].most_shots for name in self.methods), default=MOST_SHOTS)
        if too_many := [shots for shots in self.shots if shots > most]:
            raise ValueError(
                f"shots lists {too_many[0]}; expected at most {most} with these methods"
            )
        for name in ("methods", "datasets", "epsilons", "shots", "seeds", "sampling_rates"):
            values = getattr(self, name)
            if len(set(values)) != len(values):
                raise ValueError(f"{name} lists a value twice; expected distinct values")
        return self


class Pipelines(Frozen):
    """The content of pipelines.yaml; models are validated by the language-model layer."""

    version: Literal[1] = 1
    """Version of this file format: 1, the only one so far, which is meant where it is left out."""
    models: dict[Key, dict[str, object]] = {}
    """Models by name, each a [ModelSpec](#modelspec) without its `name`."""
    pipelines: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")], Pipeline] = {}
    """Pipelines by name."""

    @field_validator("pipelines", mode="before")
    @classmethod
    def _titled(cls, entries: Any) -> Any:
        if not isinstance(entries, dict):
            return entries
        return {
            name: {"title": name, **entry} if isinstance(entry, dict) else entry
            for name, entry in entries.items()
        }


def load_pipelines(path: Path, *, models_alone: bool = False) -> Pipelines:
    """Read one file, without the shipped one behind it. Raises DeclarationError: names file, key,
    rule and expected shape.

    Args:
        models_alone: for who runs no pipeline, whom none of them concerns.
    """
    content = read_yaml(path)
    if models_alone and isinstance(content, dict):
        content = {key: value for key, value in content.items() if key != "pipelines"}
    pipelines = validate(Pipelines, content, path.name, all_by="dpicl list")
    for name, pipeline in pipelines.pipelines.items():
        # an override that breaks a rule is refused now, and not when the first scheduled run starts
        if pipeline.schedule:
            override(
                pipeline,
                pipeline.schedule.parameters,
                f"{path.name}: pipelines.{name}.schedule.parameters",
            )
    return pipelines


def declared_pipelines(settings: Settings, *, models_alone: bool = False) -> Pipelines:
    """Everything that can be run: the user's own pipelines and models, and behind them the shipped
    ones. One of the user's replaces a shipped one of its name entirely, with keys such as `trust`
    and `baselines`; a folder of the user's with a model is one of his too. A shipped one has
    no schedule behind a file of the user's, which says what runs by itself. Raises
    DeclarationError: as `load_pipelines`.
    """
    own = load_pipelines(settings.pipelines, models_alone=models_alone)
    if not settings.own_pipelines:
        return own
    shipped = load_pipelines(SHIPPED_PIPELINES, models_alone=models_alone)
    behind = {
        name: pipeline.model_copy(update={"schedule": None})
        for name, pipeline in shipped.pipelines.items()
    }
    # where a file hid the shipped models, `--model tiny` has always meant such a folder
    models = {name: model for name, model in shipped.models.items() if not is_model_folder(name)}
    return own.model_copy(
        update={
            # named twice: the user's own come first where they are listed, and replace the others
            "models": {**own.models, **models, **own.models},
            "pipelines": {**own.pipelines, **behind, **own.pipelines},
        }
    )


def asks_a_model(contract: Declared) -> bool:
    """Whether a run of this data set asks a model: of a table where there is something to ask, of
    texts always.
    """
    return isinstance(contract, TextContract) or contract.evaluation != "none"


def asks_models(datasets: Iterable[str], settings: Settings) -> bool:
    """Whether a run of one of these data sets does. Raises DpiclError: a contract breaks a rule."""
    return any(asks_a_model(settings.declared(name)) for name in datasets)


def scheduled_pipelines(settings: Settings) -> dict[str, Pipeline]:
    """Those that run by themselves: of the user's own file alone. Raises DeclarationError: as
    `load_pipelines`.
    """
    if not settings.states_pipelines:
        return {}
    declared = load_pipelines(settings.pipelines).pipelines
    return {name: pipeline for name, pipeline in declared.items() if pipeline.schedule}


def override(
    pipeline: Pipeline, changes: Mapping[Any, object], source: str = "command line"
) -> Pipeline:
    """The pipeline with some keys overridden, validated like the file. Raises DeclarationError,
    which names the `source` of the changes.
    """
    unchanged = {
        name: getattr(pipeline, name)
        for name, field in Pipeline.model_fields.items()
        if not field.exclude and name not in changes
    }
    if pipeline.reports is not None and "reports" in changes:
        place = changes["reports"]
        if place is None:  # rows would be read, and an account charged
            raise DeclarationError(
                source,
                "reports",
                "is null, of a pipeline that counts clients' reports",
                "another place, or no such key",
            )
        if isinstance(place, str):  # another place, and the same collection
            changes = {**changes, "reports": {**pipeline.reports.model_dump(), "at": place}}
    return validate(Pipeline, {**unchanged, **changes}, source)


def units_of(pipeline: Pipeline) -> tuple[Unit, ...]:
    """Every unit of a grid, seeds outermost so that early results cover all data sets."""
    grid = pipeline.epsilons, pipeline.shots, pipeline.sampling_rates
    return tuple(
        unit_of(
            method, dataset, seed, *grid, pipeline.baselines, pipeline.options, pipeline.draw_count
        )
        for seed, dataset, method in product(pipeline.seeds, pipeline.datasets, pipeline.methods)
    )


def find_pipeline(pipelines: Pipelines, name: str) -> Pipeline:
    """The pipeline of that name. Raises ParameterError: there is none; the message lists the
    names.
    """
    if name not in pipelines.pipelines:
        raise ParameterError("pipeline", name[:60], one_of(name, pipelines.pipelines))
    return pipelines.pipelines[name]


def registry(pipelines: Pipelines, file: str) -> dict[str, ModelSpec]:
    """The models that pipelines.yaml names. Raises DeclarationError: an entry breaks a rule."""
    models = {}
    for name, entry in pipelines.models.items():
        try:
            models[name] = validate(ModelSpec, {**entry, "name": name}, file)
        except DeclarationError as error:
            key = ".".join(filter(None, ["models", name, error.key]))
            raise DeclarationError(file, key, error.rule, error.expected) from None
    return models


def model_named(name: str, settings: Settings) -> ModelSpec:
    """A model of pipelines.yaml, a folder, a hub id or a server's address. Raises DpiclError: it
    means nothing here.
    """
    declared = declared_pipelines(settings, models_alone=True)
    return resolve_model(name, registry(declared, settings.pipelines.name))
