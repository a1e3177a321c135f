"""Answers of the model to public queries, cell by cell: the prompt, the truth, the answer, and the
score of every label.

Guarantee   none spent: shows what was released, and queries that are public. Cells at epsilon =
            inf, whose prompts hold rows that no mechanism protected, are never read.

The first queries of a run as models were asked them, with and without demonstrations: for whoever
has not yet seen what a model reads.

What a model does with the labels, whatever the question: one answer to all queries, and how much of
its probability the labels have.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby, takewhile
from operator import attrgetter
from pathlib import Path

import numpy as np
import pyarrow as pa

from dpicl.contract.pipeline import BY, asked_by, parts_of
from dpicl.ground.errors import RunError
from dpicl.methods.base import ZERO_SHOT
from dpicl.methods.tabular_answers import AVERAGED
from dpicl.release.table_files import read_table
from dpicl.runs.artefacts import LOG_PROBABILITY, PREDICTIONS, PROMPTS, stored_prompts

QUERIES, MOST_CHARACTERS = 4, 400_000
"""Queries shown of a cell and seed at most; characters of all prompts that are shown."""


@dataclass(frozen=True)
class QueryAnswer:
    """The answer to one query; the prompt without the beginning that all of its cell have, empty
    where it is not shown.
    """

    query: int
    truth: str
    answer: str
    scores: tuple[float, ...]
    prompt: str = ""


@dataclass(frozen=True)
class AnsweredCell:
    """One cell of one unit, and some of its answers, wrong ones first; `labels` are those that were
    scored, none where answers are free.
    """

    unit: Path
    key: str
    labels: tuple[str, ...]
    count: int
    right: int
    answers: tuple[QueryAnswer, ...]
    beginning: str = ""
    is_query_alone: bool = False
    """Whether the prompts are shown without demonstrations: those were private, or several draws of
    them.
    """

    @property
    def where(self) -> tuple[str, str, str]:
        """Method, data set and seed."""
        return unit_of(self.unit)

    @property
    def place(self) -> tuple[str, float, float, float]:
        """As `place_of` has it."""
        return place_of(self.key)

    @property
    def anchor(self) -> str:
        """Of the cell, all of its seeds together."""
        method, dataset, _ = self.where
        return anchor(method, dataset, *self.place)


@dataclass(frozen=True)
class Cells:
    """The cells that a report shows, those of the first seed first, and how many there are."""

    shown: tuple[AnsweredCell, ...] = ()
    count: int = 0

    @property
    def anchors(self) -> frozenset[str]:
        """What numbers of tables can link to."""
        return frozenset(one.anchor for one in self.shown)


def anchor(
    method: str, dataset: str, system: str, epsilon: float, shots: float, rate: float
) -> str:
    """The name of a cell in the page; shots and rate may be not a number."""
    return re.sub(
        r"[^\w.-]",
        "-",
        f"cell-{method}-{dataset}-{system}-{epsilon:g}-{shots:g}-{rate:g}".replace("-nan", ""),
    )


def unit_of(folder: Path) -> tuple[str, str, str]:
    """Method, data set and seed of a unit's folder. Raises RunError: it is named otherwise."""
    if (parts := parts_of(folder.name)) is None:
        raise RunError(
            f"units/{folder.name[:80]}: expected a folder named METHOD__DATASET__seedNUMBER"
        )
    method, dataset, seed = parts
    return method, dataset, str(seed)


def stated_of(key: str) -> dict[str, float]:
    """The numbers of a cell's key, such as `icl,epsilon=1.0,shots=2,rate=1/20`."""
    stated = {}
    for name, _, value in (part.partition("=") for part in key.split(",")):
        above, _, below = value.partition("/")
        try:
            stated[name] = float(above) / float(below or 1)
        except (ValueError, ZeroDivisionError):
            continue
    return stated


def place_of(key: str) -> tuple[str, float, float, float]:
    """System, epsilon, shots and rate of a cell; not a number where it has none."""
    epsilon, shots, rate = map(stated_of(key).get, ("epsilon", "shots", "rate"), (math.nan,) * 3)
    return key.partition(",")[0], epsilon, shots, rate


def is_released(key: str) -> bool:
    """Only a cell that states a finite epsilon."""
    return math.isfinite(place_of(key)[1])


def read_cells(units: Iterable[Path], public: Container[str]) -> Cells:
    """Cells of data sets whose queries are public, as far as `MOST_CHARACTERS` go: of every cell of
    a seed alike, then of the next seed.

    Raises:
        RunError: a file is not what its name says.
    """
    answered = [
        cell
        for unit in units
        if unit_of(unit)[1] in public and (unit / PREDICTIONS).exists()
        for cell in _answered(unit)
    ]
    answered.sort(key=lambda cell: (len(cell.where[2]), cell.where[2]))  # seed 2 before seed 10
    shown: list[AnsweredCell] = []
    left = MOST_CHARACTERS
    for _, of_seed in groupby(answered, key=lambda cell: cell.where[2]):
        cells = list(of_seed)
        most = left // len(cells)
        for unit, of_unit in groupby(cells, key=attrgetter("unit")):
            of_this = list(of_unit)
            prompts = (
                read_prompts(unit, {one.query for cell in of_this for one in cell.answers})
                if left > 0
                else {}
            )
            for cell in of_this:
                if left > 0:
                    shown.append(_with_prompts(cell, prompts, most))
                    left -= _size(shown[-1])
    return Cells(tuple(shown), len(answered))


def _answered(unit: Path) -> Iterator[AnsweredCell]:
    """Of released cells, without prompts; none of runs that did not store the truth."""
    table = read_stored(unit, PREDICTIONS)
    if not {"cell", "query", "truth", "answer"} <= set(table.column_names):
        return
    scored = [name for name in table.column_names if name.startswith(LOG_PROBABILITY)]
    labels = tuple(name.removeprefix(LOG_PROBABILITY) for name in scored)
    rows = table.to_pandas()
    for key, cell in rows.groupby("cell", sort=False, observed=True):
        if (
            not is_released(str(key))
            or str(key).startswith("content-free")
            or "draw" in stated_of(str(key))
        ):
            continue
        is_right = cell["truth"].astype(str) == cell["answer"].astype(str)
        first = cell.assign(is_right=is_right).sort_values("is_right", kind="stable").head(QUERIES)
        answers = (
            QueryAnswer(
                int(row["query"]),
                str(row["truth"]),
                str(row["answer"]),
                tuple(row[scored].dropna()),
            )
            for _, row in first.iterrows()
        )
        yield AnsweredCell(unit, str(key), labels, len(cell), int(is_right.sum()), tuple(answers))


def read_prompts(unit: Path, queries: Collection[int]) -> dict[str, dict[int, str]]:
    """Prompts of these queries by cell key."""
    prompts: dict[str, dict[int, str]] = {}
    counts: Counter[str] = Counter()
    with _readable(unit, PROMPTS):
        for key, texts in stored_prompts(unit / PROMPTS):
            start, counts[key] = counts[key], counts[key] + len(texts)
            here = {
                query: str(texts[query - start])
                for query in queries
                if start <= query < counts[key]
            }
            prompts.setdefault(key, {}).update(here)
    return prompts


def _with_prompts(
    cell: AnsweredCell, prompts: dict[str, dict[int, str]], most: int
) -> AnsweredCell:
    """As many answers as have prompts of `most` characters together, at least one; of answers of an
    ensemble, or of averaged draws, which have several prompts, the queries alone.
    """
    _, model = asked_by(cell.place[0])
    # another model was asked the same
    key = cell.key.replace(f"{BY}{model}", "", 1) if model else cell.key
    is_query_alone = key not in prompts
    stored = prompts.get(ZERO_SHOT.key if is_query_alone else key, {})
    answers = [replace(one, prompt=stored.get(one.query, "")) for one in cell.answers]
    while len(answers) > 1 and _size(_shared(cell, answers)) > most:
        answers.pop()
    return replace(_shared(cell, answers), is_query_alone=is_query_alone)


def _shared(cell: AnsweredCell, answers: list[QueryAnswer]) -> AnsweredCell:
    """With the lines with which all prompts begin apart."""
    lines = zip(*(one.prompt.split("\n")[:-1] for one in answers), strict=False)
    beginning = "".join(f"{same[0]}\n" for same in takewhile(lambda one: len(set(one)) == 1, lines))
    ends = (replace(one, prompt=one.prompt.removeprefix(beginning)) for one in answers)
    return replace(cell, answers=tuple(ends), beginning=beginning)


def _size(cell: AnsweredCell) -> int:
    return len(cell.beginning) + sum(
        len(one.prompt) + len(one.truth) + len(one.answer) for one in cell.answers
    )


def read_stored(unit: Path, name: str) -> pa.Table:
    """A table that a unit stored. Raises RunError: it cannot be read."""
    with _readable(unit, name):
        return read_table(unit / name)


@contextmanager
def _readable(unit: Path, name: str) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException):
        raise RunError(f"{unit.name}/{name}: cannot be read as Parquet") from None


FIRST_ANSWERS_QUERIES = 2
"""The first of the run, whatever was answered."""


@dataclass(frozen=True)
class Asked:
    """One query, its truth, and what was answered: by model, empty of the run's own, without
    demonstrations and with them.
    """

    text: str
    truth: str
    answers: Mapping[str, tuple[str, str]]


@dataclass(frozen=True)
class FirstAnswers:
    """Queries of one unit, and the demonstrations of the least epsilon and the most shots, as
    released.
    """

    method: str
    epsilon: float
    shots: int
    demonstrations: str
    queries: tuple[Asked, ...]


def first_answers(units: Iterable[Path], is_public: Callable[[str], bool]) -> FirstAnswers | None:
    """Of the first unit, in this order, whose model was shown demonstrations and chose among
    labels. Raises RunError: a file is damaged.
    """
    for unit in units:
        method, dataset, _ = unit_of(unit)
        if (
            is_public(dataset)
            and (unit / PREDICTIONS).exists()
            and (found := _of(unit, method)) is not None
        ):
            return found
    return None


def _of(unit: Path, method: str) -> FirstAnswers | None:
    table = read_stored(unit, PREDICTIONS)
    if not any(name.startswith(LOG_PROBABILITY) for name in table.column_names) or not {
        "truth",
        "answer",
    } <= {*table.column_names}:
        return None
    rows = table.select(["cell", "query", "truth", "answer"]).to_pandas()
    rows = rows[rows["query"] < FIRST_ANSWERS_QUERIES].astype(
        {"cell": str, "truth": str, "answer": str}
    )
    shown = [
        key
        for key in rows["cell"].unique()
        if key.startswith("icl,") and is_released(key) and "draw" not in stated_of(key)
    ]
    if not shown:
        return None
    key = min(shown, key=lambda one: (place_of(one)[1], -place_of(one)[2]))
    prompts = read_prompts(unit, range(FIRST_ANSWERS_QUERIES))
    bare, full = prompts.get(ZERO_SHOT.key, {}), prompts.get(key, {})
    if not bare or any(not full.get(query, "").endswith(text) for query, text in bare.items()):
        return None
    given = {
        (cell, query): answer
        for cell, query, answer in rows[["cell", "query", "answer"]].itertuples(
            index=False, name=None
        )
    }
    truth = rows.drop_duplicates("query").set_index("query")["truth"]
    models = dict.fromkeys(
        model
        for asked, model in map(asked_by, (place_of(one)[0] for one in rows["cell"].unique()))
        if asked == "icl"
    )

    def of_model(base: str, query: int, model: str) -> str:
        system, comma, rest = base.partition(",")
        return str(given.get((f"{system}{BY}{model}{comma}{rest}" if model else base, query), ""))

    queries = (
        Asked(
            text,
            truth[query],
            {
                model: (of_model(ZERO_SHOT.key, query, model), of_model(key, query, model))
                for model in models
            },
        )
        for query, text in sorted(bare.items())
    )
    _, epsilon, shots, _ = place_of(key)
    return FirstAnswers(
        method,
        epsilon,
        int(shots),
        full[min(bare)].removesuffix(bare[min(bare)]).strip("\n"),
        tuple(queries),
    )


LEAST_QUERIES, SHARE = 10, 0.95
"""Answers are constant where at least this share of at least so many queries gets one label, which
is right for a smaller share of them.
"""


@dataclass(frozen=True)
class LabelCounts:
    """The answers of one cell of one unit: how many there are of each label, of how many each is
    right, and the mean of (1).

    The place is as `place_of` has it; the mass is NaN where labels were not scored.
    """

    method: str
    dataset: str
    place: tuple[str, float, float, float]
    given: Counter[str]
    truth: Counter[str]
    mass: float


def constant(given: Counter[str], truth: Counter[str] | None = None) -> str | None:
    """The label that is the answer to all, or nearly all, queries; None where there is none, or
    where it is right as often.
    """
    count = given.total()
    label, often = given.most_common(1)[0] if given else ("", 0)
    is_right = truth is not None and truth[label] >= SHARE * count
    return label if count >= LEAST_QUERIES and often >= SHARE * count and not is_right else None


def constant_sentence(given: Counter[str], label: str) -> str:
    """In plain words."""
    return (
        f"the model answers ‘{label}’ to {given[label]:,} of {given.total():,} queries, whatever "
        f"it is asked"
    )


def masses(scores: np.ndarray) -> np.ndarray:
    """(1) of log-probabilities of shape (prompts, labels): shape (prompts,); at most 1 but for
    rounding.
    """
    return np.asarray(np.exp(scores).sum(axis=1))


def read_labelled(
    units: Iterable[Path],
    is_public: Callable[[str], bool],
    is_benchmark: Callable[[str], bool],
    *,
    with_mass: bool,
) -> tuple[LabelCounts, ...]:
    """Cells of data sets with labels whose queries are public; at epsilon = inf of benchmarks
    alone. Raises RunError: a file is damaged.
    """
    found: list[LabelCounts] = []
    for unit in units:
        method, dataset, _ = unit_of(unit)
        if is_public(dataset) and (unit / PREDICTIONS).exists():
            cells = _cells(unit, method, dataset, with_mass=with_mass)
            found += (one for one in cells if is_benchmark(dataset) or not math.isinf(one.place[1]))
    return tuple(found)


def _cells(unit: Path, method: str, dataset: str, *, with_mass: bool) -> Iterator[LabelCounts]:
    rows = read_stored(unit, PREDICTIONS).to_pandas()
    scored = [name for name in rows if name.startswith(LOG_PROBABILITY)]
    # open answers, or a run of an early version
    if not scored or not {"cell", "truth", "answer"} <= {*rows}:
        return
    for key, cell in rows.groupby("cell", sort=False, observed=True):
        place = place_of(str(key))
        if place[0].startswith(("content-free", AVERAGED)) or "draw" in stated_of(str(key)):
            continue
        mass = float(masses(cell[scored].to_numpy(np.float64)).mean()) if with_mass else math.nan
        yield LabelCounts(
            method,
            dataset,
            place,
            Counter(map(str, cell["answer"])),
            Counter(map(str, cell["truth"])),
            mass,
        )
