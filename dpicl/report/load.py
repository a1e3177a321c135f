"""Reading and checking a run folder, before anything is computed from it."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, TypeVar

import pandas as pd
from pydantic import BaseModel, BeforeValidator, ConfigDict, TypeAdapter, ValidationError

from dpicl.data.text_files import Formed
from dpicl.ground.errors import DataError, RunError
from dpicl.ground.validation import validate
from dpicl.methods import METHODS
from dpicl.methods.evaluation import results_frame_columns
from dpicl.models.asking import AskedBy
from dpicl.models.kinds import kind_named
from dpicl.quality.shown import Worth
from dpicl.report.cells import (
    Cells,
    FirstAnswers,
    LabelCounts,
    first_answers,
    place_of,
    read_cells,
    read_labelled,
    read_stored,
    unit_of,
)
from dpicl.runs.artefacts import FORMS, VALUES
from dpicl.runs.client_reports import Counted
from dpicl.runs.results import TIMING_COLUMNS
from dpicl.runs.worth import WORTH

DEMONSTRATIONS = "demonstrations.json"
TEXT_NUMBERS = ("rouge1", "rouge2", "rougeL", "bleu", "levenshtein")
RESULT_NUMBERS = (
    "seed",
    "epsilon",
    "shots",
    "sampling_rate",
    "amplified_epsilon",
    "query_count",
    "accuracy",
    "balanced_accuracy",
    "auc",
    *TEXT_NUMBERS,
    "absolute_error",
)
Rate = Annotated[float, BeforeValidator(lambda rate: float(Fraction(str(rate))))]
"""A sampling rate, also as the exact fraction of a contract: `1/10`."""
Content = TypeVar("Content")


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Model(_Part):
    """The language model that answered; `trained` is false for random weights."""

    name: str
    trained: bool
    kind: str = ""
    revision: str | None = None
    digest: str | None = None
    trust: str | None = None
    note: str | None = None
    mode: str | None = None


class RunGrid(_Part):
    """What was crossed with what."""

    methods: list[str] = []
    datasets: list[str] = []
    epsilons: list[float] = []
    shots: list[int] = []
    seeds: list[int] = []
    sampling_rates: list[Rate] = []
    queries: int | None = None
    draws: int = 1


class UsedContract(_Part):
    """Which public knowledge about a data set was used."""

    digest: str
    title: str = ""
    licence: str | None = None
    benchmark: bool = False
    sampling_rate: str | None = None
    positive_rate_note: str | None = None


class StatedGuarantee(_Part):
    """One guarantee of the run; `amplified_epsilon` is None where nothing amplifies.

    `epsilon` is what the release costs, `nominal_epsilon` the grid's, if not the same.
    """

    method: str
    system: str = "icl"
    dataset: str
    epsilon: float
    nominal_epsilon: float | None = None
    amplified_epsilon: float | None = None
    sampling_rate: Rate | None = None
    delta: float
    neighbours: str
    unit: str
    statement: str

    @property
    def grid_epsilon(self) -> float:
        """The epsilon of the run's grid."""
        return self.epsilon if self.nominal_epsilon is None else self.nominal_epsilon

    @property
    def total(self) -> float:
        """What a release costs: under replace-one more than the grid's epsilon, amplified less."""
        return self.epsilon if self.amplified_epsilon is None else self.amplified_epsilon


class EvaluationNoise(_Part):
    """Of noisy counts of right answers on held-out private rows: standard deviation in rows, and
    what a unit's counts are charged.
    """

    method: str
    dataset: str
    deviation: float
    epsilon: float


class EpsilonNoise(_Part):
    """What one epsilon takes on the texts at hand, and on the published set."""

    method: str
    epsilon: float
    here: str
    published: str


class Smaller(_Part):
    """A slice that is smaller than the published set: bounds on texts, of each label where there
    are labels.
    """

    dataset: str
    slice: str
    of_label: bool = True
    here: int
    published: int
    noise: list[EpsilonNoise] = []


class Energy(_Part):
    """The assumptions of equation (2) of DP-TabICL."""

    power_watts: float
    kg_co2_per_kwh: float


class Manifest(_Part):
    """What the run was; the parts without a default are required."""

    run_id: str
    pipeline: str
    title: str
    created_utc: str
    dpicl_version: str
    simulated: bool
    model: Model | None = None
    writer: str | None = None
    beside: list[Model] = []
    """Models that were asked the same prompts."""
    asked: dict[str, AskedBy] = {}
    """By model, where it was decided on public questions."""
    grid: RunGrid = RunGrid()
    contracts: dict[str, UsedContract] = {}
    guarantees: list[StatedGuarantee] = []
    options: dict[str, dict[str, Any]] = {}
    versions: dict[str, str | None] = {}
    methods: dict[str, dict[str, int]] = {}
    """By method the versions of what it draws, and of what it derives from a draw."""
    machine: dict[str, Any] = {}
    energy: Energy | None = None
    not_protected: list[str] = []
    majority: dict[str, float] = {}
    """By data set, on all of its held-out rows."""
    evaluation: dict[str, str] = {}
    """By data set that is no benchmark, or has no label: what answers were measured on."""
    evaluation_noise: list[EvaluationNoise] = []
    smaller_than_published: list[Smaller] = []
    """By data set of texts of which a slice was at hand."""
    reports: list[Counted] = []
    """What was counted of clients' reports, by collection; nothing where rows were read."""
    left_out: list[str] = []
    """Sentences on baselines that nobody pays for."""
    budget: list[str] = []
    command: str | None = None

    @property
    def model_name(self) -> str:
        """Of the model that answers; empty where none does."""
        return self.model.name if self.model else ""

    @property
    def is_unprotected(self) -> bool:
        """Whether something was asked or drawn without privacy too."""
        return math.inf in self.grid.epsilons or any(
            math.isinf(stated.grid_epsilon) for stated in self.guarantees
        )

    def is_public(self, dataset: str) -> bool:
        """Whether a data set's queries, and what is answered to them, are public: not of one that
        is not known here.
        """
        used = self.contracts.get(dataset)
        return used is not None and (used.benchmark or self.evaluation.get(dataset) == "public")

    def is_benchmark(self, dataset: str) -> bool:
        """Whether a data set's rows are public."""
        return self.contracts[dataset].benchmark


@dataclass(frozen=True)
class ReleasedExamples:
    """Released examples of one unit of work, by cell: `epsilon=1.0,shots=2` to texts."""

    method: str
    dataset: str
    seed: str
    cells: dict[str, list[str]]

    @property
    def file(self) -> str:
        """Where all of them are, in the run's folder."""
        return f"units/{self.method}__{self.dataset}__seed{self.seed}/{DEMONSTRATIONS}"


def demonstration_files(units: Sequence[ReleasedExamples]) -> str:
    """The file in the run's folder, or the form of the names of several; empty without one."""
    if len(units) > 1:
        return f"units/*/{DEMONSTRATIONS}"
    return "".join(unit.file for unit in units)


@dataclass(frozen=True)
class Forms:
    """How many released texts of one unit have their contract's form, by cell."""

    method: str
    dataset: str
    seed: str
    cells: dict[str, Formed]


@dataclass(frozen=True)
class ReleasedWorth:
    """What releases of one unit on private rows are worth, by cell."""

    method: str
    dataset: str
    seed: str
    cells: dict[str, Worth]


@dataclass(frozen=True)
class Run:
    """A run folder, read and checked; missing tables are empty frames."""

    manifest: Manifest
    results: pd.DataFrame
    timings: pd.DataFrame
    demonstrations: tuple[ReleasedExamples, ...]
    values: pd.DataFrame
    """How good single answers are: columns `method`, `dataset`, `seed`, those of a cell, `query`
    and `value`; no rows where nobody may know.
    """
    forms: tuple[Forms, ...] = ()
    answers: Mapping[str, float] = field(default_factory=dict)
    """How a served model's answers came about, and what they took; empty for other models."""
    labelled: tuple[LabelCounts, ...] = ()
    """Answers to public queries that are labels, cell by cell."""
    first: FirstAnswers | None = None
    """What was asked first, and answered."""
    worth: tuple[ReleasedWorth, ...] = ()

    @property
    def is_model_used(self) -> bool:
        """Whether the run's model answered queries, or wrote what was released."""
        return len(self.results) > 0 or any(
            METHODS[name].model_reads_rows for name in self.manifest.grid.methods if name in METHODS
        )


def load_run(folder: Path) -> Run:
    """Read manifest, results, timings and example demonstrations.

    Raises:
        RunError: the manifest is missing or a file is not what its name says.
        DeclarationError: the manifest breaks its schema.
        DataError: a column should hold numbers and does not; gives the count.
    """
    manifest = validate(Manifest, _read_json(folder / "manifest.json"), "manifest.json")
    results = _read_frame(folder / "results.csv", results_frame_columns(), RESULT_NUMBERS)
    timings = _read_frame(folder / "timings.csv", TIMING_COLUMNS, ("seed", "seconds"))
    texts = TypeAdapter(dict[str, list[str]])
    counted = TypeAdapter(dict[str, Formed])
    demonstrations = tuple(
        ReleasedExamples(*unit, cells)
        for unit, cells in _by_unit(folder, DEMONSTRATIONS, texts, "lists of texts")
    )
    forms = tuple(
        Forms(*unit, cells) for unit, cells in _by_unit(folder, FORMS, counted, "counts of texts")
    )
    counts: Counter[str] = Counter()
    for path in sorted((folder / "units").glob("*/scored/[0-9]*.json")):
        counts.update(
            _checked(
                TypeAdapter(dict[str, float]),
                path,
                f"{path.parents[1].name}/{path.name}",
                "counts by name",
            )
        )
    with_mass = manifest.model is not None and kind_named(
        manifest.model.kind or manifest.model.name
    ).has_mass(counts)
    units = sorted((folder / "units").glob("*"))
    labelled = read_labelled(units, manifest.is_public, manifest.is_benchmark, with_mass=with_mass)
    methods = [*results["method"].unique()]
    in_order = sorted(
        units,
        key=lambda unit: (
            methods.index(name) if (name := unit_of(unit)[0]) in methods else len(methods)
        ),
    )
    first = first_answers(in_order, manifest.is_public)
    return Run(
        manifest,
        results,
        timings,
        demonstrations,
        read_values(folder),
        forms,
        dict(counts),
        labelled,
        first,
        tuple(
            ReleasedWorth(*unit, cells)
            for unit, cells in _by_unit(folder, WORTH, TypeAdapter(dict[str, Worth]), "releases")
        ),
    )


def _by_unit(
    folder: Path, name: str, shape: TypeAdapter[dict[str, Content]], what: str
) -> Iterator[tuple[tuple[str, str, str], dict[str, Content]]]:
    """Content of a file by cell key, of every unit that has it; seed2 before seed10."""
    files = sorted(
        (folder / "units").glob(f"*/{name}"),
        key=lambda path: [
            (int(part), "") if part.isdigit() else (-1, part)
            for part in re.split(r"(\d+)", path.parent.name)
        ],
    )
    for path in files:
        yield (
            unit_of(path.parent),
            _checked(shape, path, f"{path.parent.name}/{path.name}", f"{what} by cell key"),
        )


def load_cells(folder: Path, run: Run) -> Cells:
    """Answers to public queries, in the order of the results. Raises RunError: a file is not what
    its name says.
    """
    pairs = zip(run.results["method"], run.results["dataset"], strict=True)
    order = {pair: place for place, pair in enumerate(dict.fromkeys(pairs))}
    units = sorted(
        (folder / "units").glob("*"), key=lambda unit: order.get(unit_of(unit)[:2], len(order))
    )
    return read_cells(units, run.manifest.is_public)


def read_values(folder: Path) -> pd.DataFrame:
    """How good single answers to public queries are, as `Run.values` has them. Raises RunError: a
    file is not what its name says.
    """
    values = [_values_of(path) for path in sorted((folder / "units").glob(f"*/{VALUES}"))]
    empty = pd.DataFrame(
        columns=[
            "method",
            "dataset",
            "seed",
            "system",
            "epsilon",
            "shots",
            "sampling_rate",
            "query",
            "value",
        ]
    )
    return pd.concat(values) if values else empty


def _values_of(path: Path) -> pd.DataFrame:
    columns = read_stored(path.parent, path.name).to_pandas()
    method, dataset, seed = unit_of(path.parent)
    frames = []
    for key in map(str, columns):
        system, epsilon, shots, rate = place_of(key)
        named = {
            "system": system,
            "epsilon": epsilon,
            "shots": shots,
            "sampling_rate": rate,
            "query": range(len(columns)),
        }
        frames.append(columns[[key]].set_axis(["value"], axis=1).assign(**named))
    return pd.concat(frames).assign(method=method, dataset=dataset, seed=float(seed))


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise RunError(
            f"{path.name}: cannot be read ({error.strerror}); expected a run folder with a "
            f"{path.name}"
        ) from None
    except ValueError:
        raise RunError(f"{path.name}: is not valid JSON") from None


def _read_frame(path: Path, columns: Sequence[str], numbers: Sequence[str]) -> pd.DataFrame:
    """A CSV as text, its number columns converted; empty means not defined. No file, no rows."""
    if not path.exists():
        return pd.DataFrame(columns=list(columns))
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise RunError(f"{path.name}: cannot be read as CSV ({type(error).__name__})") from None
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        raise RunError(
            f"{path.name}: lacks {len(missing)} columns: {', '.join(missing)}; expected "
            f"{', '.join(columns)}"
        )
    for column in numbers:
        values = pd.to_numeric(frame[column], errors="coerce")
        wrong = int((values.isna() & ~frame[column].str.lower().isin(["", "nan"])).sum())
        if wrong:
            raise DataError(
                path.name, "holds text where a number belongs", column=column, count=wrong
            )
        frame[column] = values.astype(float)
    return frame


def _checked(shape: TypeAdapter[Content], path: Path, name: str, expected: str) -> Content:
    try:
        return shape.validate_python(_read_json(path))
    except ValidationError:
        raise RunError(f"{name}: expected {expected}") from None
