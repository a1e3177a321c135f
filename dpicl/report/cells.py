"""Answers of the model to public queries, cell by cell: the prompt, the truth, the answer, and the
score of every label.

Guarantee   none spent: shows what was released, and queries that are public. Cells at epsilon =
            inf, whose prompts hold rows that no mechanism protected, are never read.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby, takewhile
from operator import attrgetter
from pathlib import Path

import pyarrow as pa

from dpicl.engine.artefacts import LOG_PROBABILITY, PREDICTIONS, PROMPTS, stored_prompts
from dpicl.engine.table_files import read_table
from dpicl.errors import RunError
from dpicl.methods.common import ZERO_SHOT
from dpicl.pipeline import BY, asked_by, parts_of

QUERIES, MOST_CHARACTERS = 4, 400_000
"""Queries shown of a cell and seed at most; characters of all prompts that are shown."""


@dataclass(frozen=True)
class Answer:
    """The answer to one query; the prompt without the beginning that all of its cell have, empty
    where it is not shown.
    """

    query: int
    truth: str
    answer: str
    scores: tuple[float, ...]
    prompt: str = ""


@dataclass(frozen=True)
class Answered:
    """One cell of one unit, and some of its answers, wrong ones first; `labels` are those that were
    scored, none where answers are free.
    """

    unit: Path
    key: str
    labels: tuple[str, ...]
    count: int
    right: int
    answers: tuple[Answer, ...]
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

    shown: tuple[Answered, ...] = ()
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
    shown: list[Answered] = []
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


def _answered(unit: Path) -> Iterator[Answered]:
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
            Answer(
                int(row["query"]),
                str(row["truth"]),
                str(row["answer"]),
                tuple(row[scored].dropna()),
            )
            for _, row in first.iterrows()
        )
        yield Answered(unit, str(key), labels, len(cell), int(is_right.sum()), tuple(answers))


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


def _with_prompts(cell: Answered, prompts: dict[str, dict[int, str]], most: int) -> Answered:
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


def _shared(cell: Answered, answers: list[Answer]) -> Answered:
    """With the lines with which all prompts begin apart."""
    lines = zip(*(one.prompt.split("\n")[:-1] for one in answers), strict=False)
    beginning = "".join(f"{same[0]}\n" for same in takewhile(lambda one: len(set(one)) == 1, lines))
    ends = (replace(one, prompt=one.prompt.removeprefix(beginning)) for one in answers)
    return replace(cell, answers=tuple(ends), beginning=beginning)


def _size(cell: Answered) -> int:
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
