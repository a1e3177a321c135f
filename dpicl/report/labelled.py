"""What a model does with the labels, whatever the question: one answer to all queries, and how much
of its probability the labels have.

Guarantee   none spent: answers to public queries, by released or no demonstrations; of queries that
            are private rows nothing is read.

    (1)  mass of a prompt = sum_y p(y),  y its labels: what is left to other words, before the
         labels are compared
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpicl.engine.artefacts import LOG_PROBABILITY, PREDICTIONS
from dpicl.methods.tabular_answers import AVERAGED
from dpicl.report.cells import place_of, read_stored, stated_of, unit_of

LEAST_QUERIES, SHARE = 10, 0.95
"""Answers are constant where at least this share of at least so many queries gets one label, which
is right for a smaller share of them.
"""
_IN_PROCESS = ("bundled", "tiny", "transformers")
"""Kinds of models whose scores of labels are log-probabilities among all that a model could say."""
_NO_MASS = ("one-label", "no-label", "parsed", "unparsed", "filtered", "refused", "rejected")
"""Outcomes of a served model's answers whose scores are bounds or fixed."""


@dataclass(frozen=True)
class Labelled:
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


def has_mass(kind: str, outcomes: Mapping[str, float]) -> bool:
    """Whether scores of a kind of model are probabilities among all that it could say; of a server
    by how its answers came about.
    """
    return kind in _IN_PROCESS or (
        kind == "endpoint"
        and outcomes.get("scored", 0) > 0
        and not any(map(outcomes.get, _NO_MASS))
    )


def read_labelled(
    units: Iterable[Path],
    is_public: Callable[[str], bool],
    is_benchmark: Callable[[str], bool],
    *,
    with_mass: bool,
) -> tuple[Labelled, ...]:
    """Cells of data sets with labels whose queries are public; at epsilon = inf of benchmarks
    alone. Raises RunError: a file is damaged.
    """
    found: list[Labelled] = []
    for unit in units:
        method, dataset, _ = unit_of(unit)
        if is_public(dataset) and (unit / PREDICTIONS).exists():
            cells = _cells(unit, method, dataset, with_mass=with_mass)
            found += (one for one in cells if is_benchmark(dataset) or not math.isinf(one.place[1]))
    return tuple(found)


def _cells(unit: Path, method: str, dataset: str, *, with_mass: bool) -> Iterator[Labelled]:
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
        yield Labelled(
            method,
            dataset,
            place,
            Counter(map(str, cell["answer"])),
            Counter(map(str, cell["truth"])),
            mass,
        )
