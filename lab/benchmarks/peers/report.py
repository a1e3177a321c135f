"""What a run found: by epsilon the mean, the worst and the mean rank of every system, and who is
best on which table.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata

from lab.benchmarks.figures import Figures
from lab.benchmarks.peers.list_of_systems import DELTA, EPSILONS, OURS, SYSTEMS, THE, System
from lab.benchmarks.peers.list_of_tables import TABLES

Result = dict[str, Any]
Means = Mapping[str, Mapping[str, float]]
"""AUC by table and system."""


def report(results: Sequence[Result], figures: Figures) -> None:
    """Print tables, and a figure for each epsilon."""
    print(
        f"AUC by {THE} (lr) on released rows; with delta = {DELTA:g}: "
        + ", ".join(one.title for one in SYSTEMS if one.delta)
    )
    for local in (False, True):
        shown = [one for one in SYSTEMS if one.local == local]
        for epsilon in EPSILONS:
            if means := _means(results, epsilon, {one.name for one in shown}, THE):
                at = [result for result in results if result["epsilon"] == epsilon]
                _summary(
                    epsilon,
                    shown,
                    means,
                    _means(results, epsilon, {one.name for one in shown}, "lr"),
                    at,
                )
                _by_table(shown, means)
                if not local:
                    _figure(figures, epsilon, means)


def _means(results: Sequence[Result], epsilon: float, systems: set[str], kind: str) -> Means:
    """Over the seeds that a system has on a table; a system that has missed one of them is missing
    there.
    """
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        if result["epsilon"] == epsilon and result["system"] in systems:
            found[result["table"]][result["system"]].append(result.get(kind, np.nan))
    means = {
        table: {name: float(np.mean(scores)) for name, scores in of_table.items()}
        for table, of_table in found.items()
    }
    return {
        table: {name: score for name, score in of_table.items() if not np.isnan(score)}
        for table, of_table in means.items()
        if table in TABLES
    }


def _reasons(results: Sequence[Result]) -> dict[str, str]:
    reasons: dict[str, set[str]] = defaultdict(set)
    for result in results:
        if "missing" in result:
            reasons[result["system"]].add(f"{result['table']}: {result['missing']}")
    return {name: "; ".join(sorted(of_system)) for name, of_system in reasons.items()}


def ranks(means: Means, ours: str) -> dict[str, float]:
    """Mean ranks of one of our systems and of the peers; equal to three digits is equal."""
    names = [one.name for one in SYSTEMS if not one.ours or one.name == ours]
    found: dict[str, list[float]] = defaultdict(list)
    for of_table in means.values():
        present = [name for name in names if name in of_table]
        for name, rank in zip(
            present, rankdata([-round(of_table[name], 3) for name in present]), strict=True
        ):
            found[name].append(float(rank))
    return {name: float(np.mean(of_system)) for name, of_system in found.items()}


def _summary(
    epsilon: float, shown: Sequence[System], means: Means, linear: Means, results: Sequence[Result]
) -> None:
    reasons, fits = (
        _reasons(results),
        Counter(result["system"] for result in results if THE in result),
    )
    own = {one.name: ranks(means, one.name) for one in shown if one.ours}
    among = next(iter(own.values()))
    print(
        f"\nepsilon = {epsilon:g}: "
        f"{'system':20}{'mean':>7}{'(lr)':>7}{'worst':>7}{'rank':>7}{'tables':>8}{'fits':>6}"
    )
    for one in shown:
        scores = [of_table[one.name] for of_table in means.values() if one.name in of_table]
        if not scores:
            print(f"{'':15}{one.title:20} missing{one.absent and f': {one.absent}'}")
            continue
        rank = own.get(one.name, among)[one.name]
        by_lr = np.mean(
            [of_table[one.name] for of_table in linear.values() if one.name in of_table]
        )
        print(
            f"{'':15}{one.title:20}{np.mean(scores):7.3f}{by_lr:7.3f}{min(scores):7.3f}{rank:7.2f}{len(scores):8}{fits[one.name]:6}"
        )
        if one.name in reasons:
            print(f"{'':15}  missing on {reasons[one.name][:200]}")


def _by_table(shown: Sequence[System], means: Means) -> None:
    """A star marks the best, to three digits."""
    names = [one.name for one in shown if any(one.name in of_table for of_table in means.values())]
    print(f"  {'table':14}" + "".join(f"{name:>13}" for name in names))
    for table, of_table in sorted(means.items(), key=lambda pair: TABLES.index(pair[0])):
        scores = {name: round(score, 3) for name, score in of_table.items()}
        cells = (
            f"{scores[name]:.3f}{'*' if scores[name] == max(scores.values()) else ' '}"
            if name in scores
            else "- "
            for name in names
        )
        print(f"  {table:14}" + "".join(f"{cell:>13}" for cell in cells))


def _figure(figures: Figures, epsilon: float, means: Means) -> None:
    """Of peers that have half of the tables."""
    enough = {
        one.name
        for one in SYSTEMS
        if 2 * sum(one.name in of_table for of_table in means.values()) >= len(means)
    }
    found = {name: rank for name, rank in ranks(means, OURS).items() if name in enough}
    if OURS in found and len(found) > 1:
        own = found.pop(OURS)
        figures.at_most(
            f"peers-mean-rank-at-epsilon-{epsilon:g}", round(own, 2), round(min(found.values()), 2)
        )
