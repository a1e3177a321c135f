"""Answers of models to public queries, as units stored them: by cell with prompt, truth, answer and
the score of every label; the first queries as models were asked them, with and without
demonstrations; and what a model does with the labels whatever the question.

    (1)  mass of a prompt = sum_y p(y),  y its labels: what is left to other words, before the
         labels are compared

Guarantee   none spent: shows what was released, and queries that are public. Cells at epsilon =
            inf, whose prompts hold rows that no mechanism protected, are never shown.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby, takewhile
from operator import attrgetter
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from dpicl.contract.pipeline import BY, asked_by, parts_of
from dpicl.ground.errors import RunError
from dpicl.methods.base import ZERO_SHOT
from dpicl.methods.tabular_answers import AVERAGED, masses
from dpicl.release.table_files import read_table
from dpicl.runs.artefacts import LOG_PROBABILITY, PREDICTIONS, PROMPTS, stored_prompts

QUERIES = 4
MOST_CHARACTERS = 400_000
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
        return frozenset(cell.anchor for cell in self.shown)


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


@dataclass(frozen=True)
class Predictions:
    """What a unit's models answered to public queries: columns `cell`, `query`, `truth` and
    `answer`, those with the log-probabilities of labels that were `scored`, if any were.
    """

    unit: Path
    rows: pd.DataFrame
    scored: tuple[str, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """Without the beginning of their columns' names."""
        return tuple(name.removeprefix(LOG_PROBABILITY) for name in self.scored)

    def cells(self) -> Iterator[tuple[str, pd.DataFrame]]:
        """By key, in order: of one draw of demonstrations none, as they are averaged."""
        for key, rows in self.rows.groupby("cell", sort=False, observed=True):
            if not str(key).startswith("content-free") and "draw" not in stated_of(str(key)):
                yield str(key), rows


def predictions(units: Iterable[Path], is_public: Callable[[str], bool]) -> Iterator[Predictions]:
    """Of units whose queries are public and that stored the truth. Raises RunError: a file is
    damaged.
    """
    for unit in units:
        if is_public(unit_of(unit)[1]) and (unit / PREDICTIONS).exists():
            table = read_stored(unit, PREDICTIONS)
            scored = tuple(name for name in table.column_names if name.startswith(LOG_PROBABILITY))
            if {"cell", "query", "truth", "answer"} <= {*table.column_names}:
                text = {"cell": str, "truth": str, "answer": str}
                yield Predictions(unit, table.to_pandas().astype(text), scored)


def read_cells(units: Iterable[Path], is_public: Callable[[str], bool]) -> Cells:
    """Cells of data sets whose queries are public, as far as `MOST_CHARACTERS` go: of every cell of
    a seed alike, then of the next seed.

    Raises:
        RunError: a file is not what its name says.
    """
    answered = [cell for unit in predictions(units, is_public) for cell in _answered(unit)]
    answered.sort(key=lambda cell: (len(cell.where[2]), cell.where[2]))  # seed 2 before seed 10
    shown: list[AnsweredCell] = []
    left = MOST_CHARACTERS
    for _, of_seed in groupby(answered, key=lambda cell: cell.where[2]):
        cells = list(of_seed)
        most = left // len(cells)
        for unit, of_unit in groupby(cells, key=attrgetter("unit")):
            if left <= 0:
                break
            of_this = list(of_unit)
            queries = {answer.query for cell in of_this for answer in cell.answers}
            prompts = read_prompts(unit, queries)
            for cell in of_this:
                if left > 0:
                    shown.append(_with_prompts(cell, prompts, most))
                    left -= _size(shown[-1])
    return Cells(tuple(shown), len(answered))


def _answered(unit: Predictions) -> Iterator[AnsweredCell]:
    """Of released cells, without prompts."""
    for key, cell in unit.cells():
        if is_released(key):
            is_right = cell["truth"] == cell["answer"]
            first = cell.assign(is_right=is_right).sort_values("is_right", kind="stable")
            answers = tuple(
                QueryAnswer(
                    int(row["query"]),
                    row["truth"],
                    row["answer"],
                    tuple(row[[*unit.scored]].dropna()),
                )
                for _, row in first.head(QUERIES).iterrows()
            )
            yield AnsweredCell(unit.unit, key, unit.labels, len(cell), int(is_right.sum()), answers)


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
    answers = [replace(answer, prompt=stored.get(answer.query, "")) for answer in cell.answers]
    while len(answers) > 1 and _size(_shared(cell, answers)) > most:
        answers.pop()
    return replace(_shared(cell, answers), is_query_alone=is_query_alone)


def _shared(cell: AnsweredCell, answers: list[QueryAnswer]) -> AnsweredCell:
    """With the lines with which all prompts begin apart."""
    lines = zip(*(answer.prompt.split("\n")[:-1] for answer in answers), strict=False)
    same = takewhile(lambda line: len(set(line)) == 1, lines)
    beginning = "".join(f"{line}\n" for line, *_ in same)
    ends = (replace(answer, prompt=answer.prompt.removeprefix(beginning)) for answer in answers)
    return replace(cell, answers=tuple(ends), beginning=beginning)


def _size(cell: AnsweredCell) -> int:
    return len(cell.beginning) + sum(
        len(answer.prompt) + len(answer.truth) + len(answer.answer) for answer in cell.answers
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


MOST_FIRST = 3
"""Queries that are shown first, at most."""


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
    found = (_first(unit) for unit in predictions(units, is_public) if unit.scored)
    return next(filter(None, found), None)


def _first(unit: Predictions) -> FirstAnswers | None:
    # of each true answer, whatever was answered: a model that always says the same is wrong on one
    chosen = unit.rows.sort_values("query").drop_duplicates("truth")["query"][:MOST_FIRST].tolist()
    rows = unit.rows[unit.rows["query"].isin(chosen)]
    keys = [key for key, _ in unit.cells()]
    shown = [key for key in keys if key.startswith("icl,") and is_released(key)]
    prompts = read_prompts(unit.unit, chosen) if shown else {}
    key = min(shown, key=lambda key: (place_of(key)[1], -place_of(key)[2]), default="")
    bare = prompts.get(ZERO_SHOT.key, {})
    full = prompts.get(key, {})
    if not bare or any(not full.get(query, "").endswith(text) for query, text in bare.items()):
        return None
    answers = rows.set_index(["cell", "query"])["answer"].to_dict()
    truth = rows.drop_duplicates("query").set_index("query")["truth"]
    asked = (asked_by(place_of(key)[0]) for key in keys)
    models = dict.fromkeys(model for system, model in asked if system == "icl")

    def of_model(base: str, query: int, model: str) -> str:
        system, comma, rest = base.partition(",")
        return answers.get((f"{system}{BY}{model}{comma}{rest}" if model else base, query), "")

    queries = tuple(
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
    before = full[min(bare)].removesuffix(bare[min(bare)]).strip("\n")
    return FirstAnswers(unit_of(unit.unit)[0], epsilon, int(shots), before, queries)


@dataclass(frozen=True)
class LabelCounts:
    """The answers of one cell of one unit: how many there are of each label, of how many each is
    right, and the mean of (1).

    The place is as `place_of` has it; the mass is NaN where labels were not scored; `label_count`
    is how many labels an answer is chosen from.
    """

    method: str
    dataset: str
    place: tuple[str, float, float, float]
    given: Counter[str]
    truth: Counter[str]
    mass: float
    label_count: int


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
    for unit in predictions(units, is_public):
        method, dataset, _ = unit_of(unit.unit)
        for key, cell in unit.cells() if unit.scored else ():
            place = place_of(key)
            hidden = math.isinf(place[1]) and not is_benchmark(dataset)
            if not hidden and not key.startswith(AVERAGED):
                scores = cell[[*unit.scored]].to_numpy(np.float64)
                mass = float(masses(scores).mean()) if with_mass else math.nan
                answers = Counter(cell["answer"]), Counter(cell["truth"])
                found.append(LabelCounts(method, dataset, place, *answers, mass, len(unit.labels)))
    return tuple(found)
