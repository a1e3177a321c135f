"""What a release is worth by the rows themselves: where these are public only.

Guarantee   none: rows are read without noise, so that a private table never gets here.
Paper       pMSE: Snoke, Raab, Nowok, Dibben and Slavkovic 2018; train on synthetic, test on real:
            Esteban, Hyland and Raetsch 2017.

    (1)  total variation of every one, two and three columns, the label among them, between released
         and real rows; the mean of each
    (2)  pMSE = mean over released and as many real rows of (p - 1/2)^2,   p what logistic
         regression says of a row's being released
    (3)  classifiers fitted on released rows, and on real ones, score on rows that are held out

Symbols     of more than 200 sets of columns, 200 are drawn; pMSE is 0 where nothing tells rows
            apart, and 1/4 at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from dpicl.errors import PrivacyError
from dpicl.quality.replicates import (
    MEASURES,
    Release,
    as_numbers,
    classifier,
    fitted,
    indicators,
    marginal,
    scores,
    total_variation,
)
from dpicl.randomness import stream
from dpicl.types import SplitTable

_MOST_SETS = 200


@dataclass(frozen=True)
class Trained:
    """What a classifier scores on held-out rows if it is fitted on released rows, and if on real
    ones.
    """

    model: str
    measure: str
    released: float
    real: float


@dataclass(frozen=True)
class Actual:
    """Equations (1) to (3): mean total variation by number of columns, pMSE, and classifiers."""

    total_variation: Mapping[int, float]
    pmse: float
    trained: tuple[Trained, ...]


def actual(release: Release, bins: np.ndarray, split: SplitTable) -> Actual:
    """Compare released rows, given as bins, with real ones.

    Raises:
        PrivacyError: the rows are no benchmark.
    """
    contract, sizes = release.contract, release.sizes
    if not contract.privacy.budget.benchmark:
        raise PrivacyError(
            f"{contract.name}: true errors of a release are an unpaid release; expected a "
            f"contract with `benchmark: true`"
        )
    train, test = (
        release.method.bins(table, contract, release.unit, release.cell)
        for table in (split.train, split.test)
    )
    chance = stream(0, "quality-benchmark", contract.name, "").generator()
    variation = {}
    for count in range(1, min(3, len(sizes)) + 1):
        if comb(len(sizes), count) <= _MOST_SETS:
            sets = list(combinations(range(len(sizes)), count))
        else:
            sets = [
                tuple(sorted(chance.permutation(len(sizes))[:count].tolist()))
                for _ in range(_MOST_SETS)
            ]
        variation[count] = float(
            np.mean(
                [
                    total_variation(marginal(bins, some, sizes), marginal(train, some, sizes))
                    for some in sets
                ]
            )
        )
    rows = min(len(bins), len(train))
    both = np.vstack(
        [indicators(part[chance.permutation(len(part))[:rows]], sizes) for part in (bins, train)]
    )
    says = classifier().fit(both, np.repeat([1, 0], rows)).predict_proba(both)[:, 1]
    trained = []
    if sizes[-1] > 1 and len(test):
        # a second to import: only where it is called
        from sklearn.ensemble import (
            HistGradientBoostingClassifier,
        )

        trees = max(20, 120 // sizes[-1])
        boosting = HistGradientBoostingClassifier(
            max_iter=trees, max_leaf_nodes=15, early_stopping=False, random_state=0
        )
        for name, model, features in (
            ("logistic regression", classifier(sizes[-1]), indicators),
            ("gradient boosting", boosting, as_numbers),
        ):
            ours, theirs = (
                scores(fitted(model, part, sizes, features), test, sizes, features)
                for part in (bins, train)
            )
            trained += [
                Trained(name, measure, ours[i], theirs[i]) for i, measure in enumerate(MEASURES)
            ]
    return Actual(variation, float(np.mean((says - 0.5) ** 2)), tuple(trained))
