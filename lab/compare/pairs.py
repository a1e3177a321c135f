"""Two runs cell by cell: what the second is better by, with an interval, and a test over data sets.

Guarantee   none spent: computed from what both runs released, and from answers to public queries.
Paper       DP-TabICL, Table IV: a paired t-test between two models.

    (1)  d_ij = what the answer of the second run is better by than that of the first, of query i
         and seed j that both have
    (2)  the mean of d_ij, its interval by `gains.gain_of`
    (3)  where single answers are not known, the mean of the seeds' differences, by
         `gains.gain_of_means`: as of independent answers, whose interval is wider than that of the
         same queries. What are no shares, as errors of numbers, have no interval then: all seeds
         have the same draw of queries, so that they do not tell what another one would have given
    (4)  t = m / (s / sqrt(D)),   degrees of freedom D - 1,   of the D data sets' mean differences,
         with mean m and deviation s

Errors of numbers are better the smaller, so that the sign of a difference means the same
everywhere; they are in a unit of their own, and no test averages them.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import stdtr

from dpicl.ground.errors import RunError
from dpicl.report.decision import (
    CELL,
    Gain,
    answers_by_cell,
    gain_of,
    gain_of_means,
    noise_variance,
)
from dpicl.report.load import Run
from dpicl.report.tables import cell_name, main_metrics
from lab.compare.sides import Side, why_apart

NAME = ["method", "dataset", *CELL]
_Name = tuple[object, ...]


@dataclass(frozen=True)
class Pair:
    """One cell of both runs: its means over the seeds that both have, what the second is better by,
    and whether nothing differs at all.
    """

    method: str
    dataset: str
    system: str
    shots: float
    sampling_rate: float
    epsilon: float
    metric: str
    first: float
    second: float
    gain: Gain
    seeds: int
    is_same: bool
    by_answer: bool
    """Whether single answers were compared, and not the seeds' means alone."""


@dataclass(frozen=True)
class PairedTest:
    """A two-sided paired t-test over data sets of one way to answer: equation (4); no t and p where
    all differences are equal.
    """

    method: str
    system: str
    shots: float
    metric: str
    datasets: int
    difference: float
    statistic: float
    freedom: int
    p: float


@dataclass(frozen=True)
class Comparison:
    """Two runs, what they have in common, and what either has alone; `apart` says by data set why
    its answers are not compared one by one.
    """

    first: Side
    second: Side
    pairs: tuple[Pair, ...]
    tests: tuple[PairedTest, ...]
    apart: Mapping[str, str]
    alone: tuple[int, int]

    def count(self, sign: int) -> int:
        """Cells in which the second run is better (1) or worse (-1) by more than noise."""
        return sum(pair.gain.sign == sign for pair in self.pairs)

    @property
    def judged(self) -> tuple[Pair, ...]:
        """Cells in which something differs and noise is known: any of them may be marked, also by
        chance.
        """
        return tuple(
            pair for pair in self.pairs if not pair.is_same and math.isfinite(pair.gain.half)
        )

    @property
    def same(self) -> int:
        """Cells in which nothing differs at all."""
        return sum(pair.is_same for pair in self.pairs)


def compare(first: Side, second: Side) -> Comparison:
    """Pair the cells of two runs. Raises RunError: they have none in common."""
    measured = _measured(first.run), _measured(second.run)
    shared = [name for name in measured[0] if name in measured[1]]
    reasons = {
        dataset: why_apart(first, second, dataset)
        for dataset in dict.fromkeys(str(name[1]) for name in shared)
    }
    apart = {dataset: reason for dataset, reason in reasons.items() if reason}
    pairs = tuple(_pairs(first.run, second.run, measured, shared, apart))
    if not pairs:
        expected = (
            "expected a method, data set, epsilon, number of shots, rate and seed that both have"
        )
        raise RunError(
            f"runs {first.name} and {second.name} share no cell: {_has(first)}, {_has(second)}; "
            f"{expected}"
        )
    return Comparison(
        first,
        second,
        pairs,
        tuple(paired_tests(pairs)),
        apart,
        (len(measured[0]) - len(pairs), len(measured[1]) - len(pairs)),
    )


def _has(side: Side) -> str:
    results = side.run.results
    if not len(results):
        return f"{side.name} has no results{'' if side.is_done else ' yet'}"
    some = ["/".join(results[column].unique()[:3]) for column in ("method", "dataset")]
    return (
        f"{side.name} has {some[0]} on {some[1]} with seeds "
        f"{'/'.join(f'{seed:g}' for seed in results['seed'].unique()[:3])}"
    )


def _measured(run: Run) -> dict[_Name, pd.DataFrame]:
    """By cell and what it is judged by: mean and number of queries, by seed. Nothing of what no run
    decides, or is there to be beaten by all.
    """
    metrics, cells = main_metrics(run.results), {}
    for name, group in run.results.groupby(NAME, dropna=False, sort=False):
        metric, system = metrics[group.index[0]], str(name[NAME.index("system")])
        if system != "majority" and not system.endswith("-naive"):
            by_seed = (
                group.set_index("seed")[[metric, "query_count"]]
                .set_axis(["mean", "count"], axis=1)
                .dropna()
            )
            if len(by_seed):
                cells[(*cell_name(*name), metric)] = by_seed
    return cells


def _pairs(
    first: Run,
    second: Run,
    measured: tuple[Mapping[_Name, pd.DataFrame], ...],
    shared: Iterable[_Name],
    apart: Container[str],
) -> Iterator[Pair]:
    singly = [
        answers_by_cell(run.values[[value not in apart for value in run.values["dataset"]]], NAME)
        if len(run.values)
        else {}
        for run in (first, second)
    ]
    for cell in shared:
        *name, metric = cell
        seeds = measured[0][cell].index.intersection(measured[1][cell].index)
        if not len(seeds):
            continue
        one, other = (cells[cell].loc[seeds] for cells in measured)
        sign = -1 if metric == "absolute_error" else 1
        differences = _differences(tuple(name), seeds, singly)
        if differences is not None:
            scale = float(np.abs(differences).max(initial=0)) if metric == "absolute_error" else 1.0
            gain, is_same = gain_of(sign * differences, scale=scale), not differences.any()
        else:
            sides = ((first, one), (second, other))
            noise = sum(
                noise_variance(run.manifest, str(name[0]), str(name[1]), float(by["count"].mean()))
                for run, by in sides
            )
            gain, is_same = (
                _of_seeds(one, other, str(metric), noise),
                bool((one["mean"] == other["mean"]).all()),
            )
        method, dataset, system, *place = name
        shots, rate, epsilon = (math.nan if value is None else float(str(value)) for value in place)
        means = float(one["mean"].mean()), float(other["mean"].mean())
        named = str(method), str(dataset), str(system), shots, rate, epsilon, str(metric)
        yield Pair(*named, *means, gain, len(seeds), is_same, differences is not None)


def _differences(
    name: _Name, seeds: pd.Index, singly: list[dict[_Name, pd.DataFrame]]
) -> np.ndarray | None:
    """What single answers of the second run have more than those of the first, shape (seeds,
    queries); None where they are not known.
    """
    first, second = (answers.get(name) for answers in singly)
    if first is None or second is None or list(first.columns) != list(second.columns):
        return None
    differences = (second.reindex(seeds) - first.reindex(seeds)).dropna(axis=1).to_numpy()
    return differences if differences.size else None


def _of_seeds(first: pd.DataFrame, second: pd.DataFrame, metric: str, noise: float) -> Gain:
    """Equation (3)."""
    one, other = first["mean"].to_numpy(), second["mean"].to_numpy()
    if metric == "accuracy":
        return gain_of_means(
            other, one, (float(second["count"].mean()), float(first["count"].mean())), added=noise
        )
    sign = -1 if metric == "absolute_error" else 1
    return Gain(sign * float(other.mean() - one.mean()), math.nan)


def paired_tests(pairs: Iterable[Pair]) -> Iterator[PairedTest]:
    """Of every way to answer that both runs have on two data sets or more."""
    ways: dict[_Name, dict[str, list[float]]] = {}
    for pair in pairs:
        if pair.metric != "absolute_error":
            way = cell_name(pair.method, pair.system, pair.shots, pair.metric)
            ways.setdefault(way, {}).setdefault(pair.dataset, []).append(pair.gain.mean)
    for (method, system, shots, metric), sets in ways.items():
        if len(sets) > 1:
            means = np.array([np.mean(drawn) for drawn in sets.values()])
            error = float(means.std(ddof=1)) / math.sqrt(len(means))
            statistic = float(means.mean()) / error if error > 0 else math.nan
            p = 2 * float(stdtr(len(means) - 1, -abs(statistic)))
            named = (
                str(method),
                str(system),
                math.nan if shots is None else float(str(shots)),
                str(metric),
            )
            yield PairedTest(*named, len(means), float(means.mean()), statistic, len(means) - 1, p)
