"""What was shown to the model, and how much better it answers than without: a line a condition,
with intervals over queries and draws.

condition    what demonstrates on one data set, at one epsilon, with k shots; at epsilon = infinity
             nothing is protected
gain         the mean over queries, draws and seeds of right or wrong (1 or 0), less that without
             demonstrations, of the same query
lead         the same, less that of always giving the most frequent label
direction    of true data: over the better of both, as another label given to every query is no
             reading of data; shows where the interval of a mean difference lies above 0, is
             reversed where it lies below, and is not seen else
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpicl.report.decision import Gain, gain_of
from lab.benchmarks.real_model.results import BUNDLED, FITTED, TRUTH, Answered

ZERO, AVERAGED = "zero-shot", "averaged"
TRUE = {"few_shot_generation": "random-rows", "dp_icl": "few-shot"}
"""By method the system that shows real texts; of tables that is `icl` at epsilon = infinity."""
_ORDER = ("ldp_tabicl", "gdp_tabicl", "aim_tabicl", "few_shot_generation", "dp_icl")
SHOWS, REVERSED, UNSEEN = "shows", "reversed", "not seen"
WITHOUT = "true data above zero-shot and majority"


@dataclass(frozen=True)
class Place:
    """Which condition."""

    dataset: str
    method: str
    system: str
    shots: float
    epsilon: float

    @property
    def is_private(self) -> bool:
        """Whether rows are protected, and noise is what tells it from none."""
        return 0 < self.epsilon < math.inf

    @property
    def is_true(self) -> bool:
        """Whether true rows or texts are shown."""
        return self.epsilon == math.inf and self.system == TRUE.get(self.method, "icl")


@dataclass(frozen=True)
class Condition:
    """One line: `right` of shape (seeds, draws, queries), `zero` and `usual` of shape (queries,):
    whether it is right without demonstrations, and the most frequent label; the others are shares,
    NaN where there are none.
    """

    place: Place
    right: np.ndarray
    zero: np.ndarray
    usual: np.ndarray
    averaged: float
    auc: float
    constant: float
    """Share of answers that are the most frequent one."""
    beside: Mapping[str, float]
    """Of other models on the same prompts, and of classifiers on what was released."""

    @property
    def majority(self) -> float:
        """Share of the most frequent label."""
        return float(self.usual.mean())

    @property
    def lead(self) -> Gain:
        """Over always giving that label."""
        return gain_of_draws(self.right - self.usual)

    @property
    def accuracy(self) -> Gain:
        """Share of right answers."""
        return gain_of_draws(self.right)

    @property
    def gain(self) -> Gain:
        """Over no demonstrations."""
        return gain_of_draws(self.right - self.zero)

    @property
    def over_both(self) -> Gain:
        """Over the better of no demonstrations and always giving the most frequent label: that from
        which less is surely gained.
        """
        return min(self.gain, self.lead, key=lambda one: one.mean - one.half)

    @property
    def is_better(self) -> bool:
        """Than both, beyond noise."""
        return self.over_both.sign == 1


@dataclass(frozen=True)
class Direction:
    """One comparison that the papers make: `what` of a place."""

    place: Place
    what: str
    gain: Gain

    @property
    def verdict(self) -> str:
        """Whether it shows."""
        return {1: SHOWS, 0: UNSEEN, -1: REVERSED}[self.gain.sign]


def conditions(lines: Sequence[Answered], model: str) -> list[Condition]:
    """Of what `model` answered with demonstrations, in the page's order: sets as they come, then
    methods, shots, systems and epsilons.
    """
    truth = {line.dataset: _digits(line) for line in lines if line.model == TRUTH}
    places: dict[tuple[str, Place], list[Answered]] = {}
    fitted: dict[tuple[str, str, str, float], list[float]] = {}
    for line in lines:
        if line.system in FITTED and not line.model:
            fitted.setdefault((line.dataset, line.method, line.system, line.epsilon), []).append(
                line.accuracy
            )
        elif line.model != TRUTH:
            place = Place(
                line.dataset,
                line.method,
                line.system,
                math.nan if line.system == ZERO else line.shots,
                line.epsilon,
            )
            places.setdefault((line.model, _named(place)), []).append(line)
    others = list(
        dict.fromkeys(line.model for line in lines if line.model not in (model, TRUTH, ""))
    )
    found = []
    for (asked, place), some in places.items():
        if asked != model or place.system == ZERO or place.system.startswith(AVERAGED):
            continue
        right, zero = (
            _right(some, truth[place.dataset]),
            places[model, _named(Place(place.dataset, place.method, ZERO, math.nan, math.nan))],
        )
        mean = places.get((model, _named(_averaged(place))), [])
        same = {name: places[name, place] for name in others if (name, place) in places}
        digits = np.array([_digits(line) for line in some])
        found.append(
            Condition(
                place,
                right,
                _right(zero[:1], truth[place.dataset])[0, 0],
                (truth[place.dataset] == np.bincount(truth[place.dataset]).argmax()).astype(float),
                _mean(line.accuracy for line in mean),
                _mean(line.auc for line in some),
                float(np.bincount(digits.ravel()).max() / digits.size),
                {
                    **{
                        name: _mean(line.accuracy for line in of_other)
                        for name, of_other in same.items()
                    },
                    **{
                        name: _mean(
                            fitted.get((place.dataset, place.method, name, place.epsilon), ())
                        )
                        for name in FITTED
                    },
                },
            )
        )
    sets = list(dict.fromkeys(one.place.dataset for one in found))
    return sorted(found, key=lambda one: (sets.index(one.place.dataset), *_order(one.place)))


def directions(found: Sequence[Condition]) -> list[Direction]:
    """What the papers find: true rows or texts above what needs none; and the largest finite
    epsilon above the least, of each way to release.
    """
    said = [Direction(one.place, WITHOUT, one.over_both) for one in found if one.place.is_true]
    for one in found:
        of_way = [
            other
            for other in found
            if _way(other.place) == _way(one.place) and other.place.is_private
        ]
        if len(of_way) > 1 and one is of_way[0]:
            least, most = of_way[0], of_way[-1]
            what = f"ε = {most.place.epsilon:g} above ε = {least.place.epsilon:g}"
            said.append(Direction(most.place, what, gain_of_draws(most.right - least.right)))
    return sorted(
        said, key=lambda one: [other.place.dataset for other in found].index(one.place.dataset)
    )


def other_models(lines: Iterable[Answered], model: str) -> list[str]:
    """Columns beside `model`, the bundled one first."""
    return sorted(
        {line.model for line in lines} - {model, TRUTH, ""},
        key=lambda name: (name != BUNDLED, name),
    )


def _way(place: Place) -> tuple[str, str, str, float]:
    return place.dataset, place.method, place.system, place.shots


def _order(place: Place) -> tuple[object, ...]:
    return (_ORDER.index(place.method), place.shots, not place.is_true, place.system, place.epsilon)


def _named(place: Place) -> Place:
    """Without NaN, which is not equal to itself."""
    shots, epsilon = (-1.0 if math.isnan(one) else one for one in (place.shots, place.epsilon))
    return Place(place.dataset, place.method, place.system, shots, epsilon)


def _averaged(place: Place) -> Place:
    return Place(
        place.dataset,
        place.method,
        AVERAGED + place.system.removeprefix("icl"),
        place.shots,
        place.epsilon,
    )


def _digits(line: Answered) -> np.ndarray:
    return np.array([int(answer) for answer in line.answers[1:]])


def _right(lines: Sequence[Answered], truth: np.ndarray) -> np.ndarray:
    seeds: dict[int, list[np.ndarray]] = {}
    for line in sorted(lines, key=lambda line: (line.seed, line.draw)):
        seeds.setdefault(line.seed, []).append((_digits(line) == truth).astype(np.float64))
    return np.array(list(seeds.values()))


def _mean(values: Iterable[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return float(np.mean(known)) if known else math.nan


def gain_of_draws(differences: np.ndarray, *, scale: float = 1.0) -> Gain:
    """`gain_of` of shape (seeds, draws, queries): the draws of a seed are of one release, whose
    noise they share, so that only their mean is a seed's. Of one seed the draws stand for seeds:
    such an interval knows nothing of another release.
    """
    return gain_of(
        differences[0] if len(differences) == 1 else differences.mean(axis=1), scale=scale
    )
