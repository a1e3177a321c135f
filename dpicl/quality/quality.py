"""How good a release is, from what was released alone: errors of marginals, effective rows, a
classifier with an interval.

Guarantee   none spent: post-processing; see `replicates` for how errors are simulated.

    (1)  expected error of a marginal: the mean of its total variation over replicates
    (2)  effective rows n:  mean of A_k / sqrt(n)  =  mean of (1),   A_k / sqrt(n) the expected
         error of n rows without noise, over the columns that the release says something of
    (3)  classifier: probit t = a + b probit p over replicates near the p that is seen;  t there,
         and where it is with 90 %
    (4)  the deviation of probit t: that of (3), and 0.15 of probit t for dependence that nothing
         counted

The same counts fit the classifier and judge it: what its own rows promise, p, is too good, and (3)
says by how much. No replicate says how far the model is from the population; (4) takes it from
public tables released without noise.

Symbols     k columns with the label; p what the classifier scores on released rows, t in the
            population.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from scipy import special

from dpicl.contract.models import Contract
from dpicl.methods.tabular_method import TabularMethod
from dpicl.pipeline import Cell, Unit
from dpicl.quality.benchmark import actual
from dpicl.quality.replicates import (
    MEASURES,
    REPLICATES,
    Columns,
    Modelled,
    Release,
    Replicates,
    learned,
    marginal,
    sampling_variation,
    scores,
    shares_of,
    total_variation,
)
from dpicl.quality.values import LEVEL, Marginal, Quality, Score
from dpicl.randomness import Draws
from dpicl.types import SplitTable

_MOST_PAIRS = 200
_NEAR = 0.5
"""The share of replicates, the nearest ones, that (3) is fitted on."""
_EDGE = 1e-4
_MISFIT = 0.15
"""Of nine public tables whose counts have no noise, eight have a probit of the score within 1.645
times this share of what rows of their model promise; the ninth, `car`, whose label is a rule over
all columns, scores far better than these.
"""


def quality_of(
    method: TabularMethod[Any],
    contract: Contract,
    unit: Unit,
    cell: Cell,
    drawn: Any,
    *,
    test: SplitTable | None,
    count: int = REPLICATES,
    seed: int = 0,
) -> Quality:
    """How good one release is; looks at no row of a private table.

    Args:
        cell: of `method.releases`.
        drawn: the release, as `method.decode` gives it.
        test: of a benchmark, the rows that were released and those that were held out: true values
            are stated beside.
        count: how often the release is simulated for the classifier; half as often for marginals.

    Raises:
        PrivacyError: rows are given of a table that is no benchmark.
    """
    quality = Quality(contract.name, method.title, cell.epsilon or 0.0)
    if method.derive_stage is None or type(method).replicate is TabularMethod.replicate:
        return replace(
            quality,
            noise=method.column_errors(contract, unit, cell, contract.population)
            if contract.population
            else {},
        )
    release = Release(method, contract, unit, cell, drawn)
    modelled = release.modelled(drawn, Draws(seed, contract.name, simulated=True))
    sizes, names = release.sizes, release.encoding.names
    label = len(sizes) - 1
    singles = [(column,) for column in range(label + (sizes[-1] > 1))]
    with_label = [(column, label) for column in range(label) if sizes[-1] > 1]
    pairs: list[Columns] = [columns for columns in modelled.counted if len(columns) == 3]
    if not modelled.counted:
        pairs += list(combinations(range(label), 2))[:_MOST_PAIRS]
    chosen: list[Columns] = [*singles, *with_label, *pairs]
    again = Replicates(release, modelled.bins, seed)
    real = None if test is None else method.bins(test.train, contract, unit, cell)
    errors = dict(zip(chosen, again.errors(chosen, max(1, count // 2)).tolist(), strict=True))
    found = [
        Marginal(
            tuple(names[column] for column in columns if sizes[column] > 1),
            error,
            None
            if real is None
            else total_variation(
                shares_of(modelled, columns, sizes), marginal(real, columns, sizes)
            ),
        )
        for columns, error in errors.items()
    ]
    ends = len(singles), len(singles) + len(with_label)
    return replace(
        quality,
        row_count=method.row_count(drawn),
        effective_rows=_effective_rows(
            release, modelled, {columns: errors[columns] for columns in with_label or singles}
        ),
        untold=tuple(name for column, name in enumerate(names) if not release.tells((column,))),
        columns=tuple(found[: ends[0]]),
        with_label=tuple(found[ends[0] : ends[1]]),
        pairs=tuple(found[ends[1] :]),
        scores=_scores(
            again, count, None if test is None else method.bins(test.test, contract, unit, cell)
        ),
        actual=None if test is None else actual(release, modelled.bins, test),
    )


def _effective_rows(
    release: Release, modelled: Modelled, errors: Mapping[Columns, float]
) -> float | None:
    """Equation (2); None where there is no noise, or no column of which anything is said."""
    told = [columns for columns in errors if release.tells(columns)]
    noisy = sum(errors[columns] for columns in told)
    return (
        (
            sum(sampling_variation(shares_of(modelled, columns, release.sizes)) for columns in told)
            / noisy
        )
        ** 2
        if noisy
        else None
    )


def _scores(again: Replicates, count: int, test: np.ndarray | None) -> tuple[Score, ...]:
    """Equations (3) and (4) for both measures."""
    if again.sizes[-1] == 1:
        return ()
    draws = Draws(again.seed, again.release.contract.name, simulated=True)
    model, (promised, kept) = learned(again.bins, again.sizes, draws), again.scores(count)
    seen = scores(model, again.bins, again.sizes)
    true = None if test is None or not len(test) else scores(model, test, again.sizes)
    found = []
    for i, measure in enumerate(MEASURES):
        judged = promised[:, i], kept[:, i], np.array(seen[i])
        low, estimate, high = _interval(
            *(special.ndtri(np.clip(scored, _EDGE, 1 - _EDGE)) for scored in judged)
        )
        found.append(
            Score(measure, seen[i], estimate, low, high, None if true is None else true[i])
        )
    return tuple(found)


def _interval(
    promised: np.ndarray, kept: np.ndarray, seen: np.ndarray
) -> tuple[float, float, float]:
    """Low, estimate and high of equations (3) and (4); nearer replicates count more."""
    at = float(np.clip(seen, promised.min(), promised.max()))
    distances = np.abs(promised - at)
    width = np.sort(distances)[max(2, int(_NEAR * len(distances))) - 1]
    weights = np.maximum(1 - (distances / max(width, 1e-9)) ** 2, 0) + 1e-6
    weights /= weights.sum()
    mean = float(weights @ promised)
    spread = float(weights @ (promised - mean) ** 2)
    slope = float(weights @ ((promised - mean) * kept)) / max(spread, 1e-12)
    left = kept - weights @ kept - slope * (promised - mean)
    size = 1 / float(weights @ weights)
    freedom = max(size - 2, 1.0)
    leverage = 1 / size + (at - mean) ** 2 / max(spread * size, 1e-12)
    centre = float(weights @ kept + slope * (at - mean))
    deviation = np.sqrt(
        float(weights @ left**2) * size / freedom * (1 + leverage) + (_MISFIT * centre) ** 2
    )
    far = float(special.stdtrit(freedom, (1 + LEVEL) / 2)) * deviation
    low, estimate, high = special.ndtr([centre - far, centre, centre + far]).tolist()
    return low, estimate, high
