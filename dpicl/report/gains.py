"""What private data are worth: how much better answers are than the best without them, with an
interval over queries and seeds.

Without private data there are the majority label and the model as it is, without demonstrations: a
gain is over whichever of them does better.

Paper       Cameron, Gelbach, Miller 2011, two-way clustered variances: (1), (2). Satterthwaite
            1946: (3).

    (1)  V_q = (sum_i (m_i - m)^2 + s^2) / (n (n - 1)),   V_s = sum_j (m_j - m)^2 / (S (S - 1)),
         V_qs = sum_ij (d_ij - m)^2 / (nS (nS - 1))
    (2)  V = V_q + max(0, V_s - V_qs)
    (3)  degrees of freedom = V^2 / (V_q^2 / (n - 1) + V_s^2 / (S - 1)), at least 1

Symbols     d_ij    of query i and seed j, what an answer is better by than one without private
            data; m, m_i, m_j its means.
            n, S    numbers of queries, and of seeds, each a release of its own; all seeds have the
                    same queries.
            s       the largest |d|, or 1 of what lies in [0, 1]: without it, few queries that all
                    agree would leave no doubt.

Where single answers are not known, as of baselines, V_q is that of two independent proportions:
more than it is, as both are right on much the same rows. Of one seed alone the interval is over
queries only; of two that differ much it covers nine of ten.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import stdtrit  # scipy.stats takes a second more to import

from dpicl.pipeline import asked_by
from dpicl.report.load import Manifest, Run
from dpicl.report.tables import bar_of, cell_name, is_queried, main_metrics, of_part, parts

LEVEL = 0.95
CELL = ["system", "shots", "sampling_rate", "epsilon"]
"""Columns that name a cell of a method and data set, but for its seed."""


@dataclass(frozen=True)
class Gain:
    """How much better a cell is than without private data, and half the length of its interval,
    which may be unknown.
    """

    mean: float
    half: float

    @property
    def sign(self) -> int:
        """1 where it is better and -1 where it is worse by more than noise, else 0."""
        return int(math.copysign(1, self.mean)) if abs(self.mean) > self.half else 0


def gain_of(differences: np.ndarray, *, scale: float = 1.0) -> Gain:
    """The mean of differences of shape (seeds, queries), with the half of its interval by (1) to
    (3); `scale` is s, which no half exceeds.
    """
    seeds, queries = differences.shape
    mean = float(differences.mean()) if queries else math.nan
    if queries < 2:
        return Gain(mean, math.nan)
    of_queries = (((differences.mean(axis=0) - mean) ** 2).sum() + scale**2) / (
        queries * (queries - 1)
    )
    of_seeds = of_both = 0.0
    if seeds > 1:
        of_seeds = ((differences.mean(axis=1) - mean) ** 2).sum() / (seeds * (seeds - 1))
        of_both = ((differences - mean) ** 2).sum() / (differences.size * (differences.size - 1))
    return Gain(mean, min(scale, _half(of_queries, queries - 1, of_seeds, seeds - 1, of_both)))


def gain_of_means(
    means: np.ndarray, bar: float | np.ndarray, counts: tuple[float, float], *, added: float = 0.0
) -> Gain:
    """The same of the means of every seed, shape (seeds,), where single answers are not known:
    shares of `counts` queries and rows.

    Args:
        bar: what they are compared with, of all seeds or of each, shape (seeds,).
        added: variance of one seed's difference that no query explains: of noisy counts.
    """
    seeds, shares = len(means), (float(means.mean()), float(np.mean(bar)))
    if min(counts) < 2:  # a noisy count may be anything
        return Gain(shares[0] - shares[1], math.nan)
    of_queries = sum(
        (share * (1 - share) + 1 / count) / count
        for share, count in zip(shares, counts, strict=True)
    )
    drawn = zip(shares, counts, strict=True) if np.ndim(bar) else [(shares[0], counts[0])]
    of_both = sum(share * (1 - share) / count for share, count in drawn) / seeds
    of_seeds = max(
        float((means - bar).var(ddof=1)) / seeds if seeds > 1 else 0.0,
        added / seeds + of_both if added else 0.0,
    )
    half = _half(of_queries, min(counts) - 1, of_seeds, max(seeds - 1, 1), of_both)
    return Gain(shares[0] - shares[1], min(1.0, half))


def gain_over_seeds(means: np.ndarray, bar: float | np.ndarray) -> Gain:
    """The same of means that are no shares, of shape (seeds,), as `bar` may be: seeds alone tell
    how sure they are, if they differ.
    """
    seeds, mean = len(means), float(means.mean()) - float(np.mean(bar))
    variance = float((means - bar).var(ddof=1)) / seeds if seeds > 1 else 0.0
    return Gain(mean, _half(0.0, 1, variance, seeds - 1) if variance > 0 else math.nan)


def _half(
    of_queries: float, queries: float, of_seeds: float, seeds: float, of_both: float = 0.0
) -> float:
    """Equations (2) and (3), given degrees of freedom."""
    variance = of_queries + max(0.0, of_seeds - of_both)
    if not variance > 0:
        return 0.0
    freedom = max(
        1.0, variance**2 / (of_queries**2 / queries + (of_seeds**2 / seeds if of_seeds else 0.0))
    )
    return float(stdtrit(freedom, (1 + LEVEL) / 2)) * math.sqrt(variance)


def answers_by_cell(
    values: pd.DataFrame, cell: list[str]
) -> dict[tuple[object, ...], pd.DataFrame]:
    """How good single answers are, shape (seeds, queries), by the columns that name a cell."""
    groups = values.groupby(cell, dropna=False)
    return {
        cell_name(*key): group.pivot_table(index="seed", columns="query", values="value")
        for key, group in groups
    }


def noise_variance(manifest: Manifest, method: str, dataset: str, count: float) -> float:
    """Of an accuracy that is a quotient of noisy counts, or of two that share the number of rows; 0
    where it is exact.
    """
    deviations = [
        one.deviation
        for one in manifest.evaluation_noise
        if (one.method, one.dataset) == (method, dataset)
    ]
    return 2 * (deviations[0] / max(count, 1)) ** 2 if deviations else 0.0


def gains_of(run: Run) -> pd.DataFrame:
    """A row per method, data set and cell that was asked or fitted: columns `method`, `dataset`,
    those of CELL, `gain`, and `over`, which names what the gain is over, and its mean.
    """
    metrics = main_metrics(run.results)
    rows = [row for part in parts(run.results) for row in _rows(run, part, metrics[part.index[0]])]
    return pd.DataFrame(rows, columns=["method", "dataset", *CELL, "gain", "over"])


def _rows(run: Run, part: pd.DataFrame, metric: str) -> Iterator[tuple[object, ...]]:
    method, dataset = part["method"].iloc[0], part["dataset"].iloc[0]
    own = of_part(run.values, part)
    judged = answers_by_cell(own, CELL)
    for key, group in part[part["epsilon"].notna()].groupby(CELL, dropna=False):
        system, count = str(key[0]), float(group["query_count"].mean())
        bar_system, bar = over = bar_of(part, metric, asked_by(system)[1])
        bar_count = float(part.loc[part["system"] == bar_system, "query_count"].mean())
        bars = own[own["system"] == bar_system].groupby("query")["value"].first()
        means = group[metric].dropna().to_numpy()
        if not len(means) or system.endswith("-naive") or system == bar_system:
            continue
        if not is_queried(system):
            # of all held-out rows, as the classifier is
            if metric == "accuracy" and dataset in run.manifest.majority:
                whole = run.manifest.majority[dataset]
                best, counted = (
                    (over, bar_count)
                    if bar_system != "majority" and bar > whole
                    else (("majority", whole), count)
                )
                yield method, dataset, *key, gain_of_means(means, best[1], (count, counted)), best
            continue
        if cell_name(*key) in judged and len(bars):
            table = judged[cell_name(*key)].dropna(axis=1)
            differences = (table - bars.reindex(table.columns)).to_numpy() * (
                -1 if metric == "absolute_error" else 1
            )
            scale = float(np.abs(differences).max(initial=0)) if metric == "absolute_error" else 1.0
            yield method, dataset, *key, gain_of(differences, scale=scale), over
        elif not math.isnan(bar):
            added = noise_variance(run.manifest, method, dataset, count)
            if metric == "accuracy":
                yield (
                    method,
                    dataset,
                    *key,
                    gain_of_means(means, bar, (count, bar_count), added=added),
                    over,
                )
            else:
                sign = -1 if metric == "absolute_error" else 1
                yield method, dataset, *key, gain_over_seeds(sign * means, sign * bar), over
