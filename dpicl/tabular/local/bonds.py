"""How much each column's bond with the label is to be believed, learned from all columns of a wide table together.

Guarantee   none spent: post-processing of epsilon-LDP reports.
Paper       Stephens 2017 (adaptive shrinkage): a prior of many widths, weighed by what all effects say of it.

    (1)  c_i = E(b_a b_y) - E(b_a) E(b_y),   variance v_i = 1 / (reports * L^2)      bonds of column i with the label
    (2)  c_i ~ N(0, t^2 + v_i),   t one of a few widths, 0 among them; their shares by expectation maximisation over all columns
    (3)  s_i^2 = v_i f_i / (1 - f_i),   f_i = E( t^2 / (t^2 + v_i) | c_i )

A penalty of one width for all columns cannot tell a table in which one column matters from one in which all do a little. This one can where
there are many columns; `tree` alone takes it. The shares of widths begin as if forty columns had been seen before, so that those of
a small table, or of few reports, stay about as they were.

Symbols     L attenuation of a moment, b contrasts of a column and of the label, s_i spread of the bond's term in the log-linear model.
"""

from __future__ import annotations

import numpy as np

from dpicl.tabular.local.moments import analyse
from dpicl.tabular.local.observed import Observed
from dpicl.tabular.local.questions import same_half

_WIDTHS = np.array([0.0, 0.03, 0.06, 0.12, 0.25, 0.5])
_LEAST, _MOST = 0.01, 1.5
_NO_REPORTS = 1e-9
_STEPS = 50
_PRIOR = 40 * np.array([0.2, 0.2, 0.2, 0.2, 0.15, 0.05])


def label_spreads(pairs: list[Observed]) -> np.ndarray:
    """Equation (3), from the reports on every column and the label: shape (columns,)."""
    found = [_bond(observed) for observed in pairs]
    variances = np.array([variance for _, variance in found])
    totals = variances[:, np.newaxis] + _WIDTHS**2
    squares, counts = (np.array([function(bond) for bond, _ in found])[:, np.newaxis] for function in (lambda c: (c * c).sum(), np.size))
    heights = -squares / totals / 2 - counts * np.log(totals) / 2
    likelihoods = np.exp(heights - heights.max(axis=1, keepdims=True))
    shares = _PRIOR / _PRIOR.sum()
    for _ in range(_STEPS):
        each = shares * likelihoods
        each /= each.sum(axis=1, keepdims=True)
        shares = (each.sum(axis=0) + _PRIOR) / (len(each) + _PRIOR.sum())
    factors = (each * _WIDTHS**2 / totals).sum(axis=1)
    return np.asarray(np.clip(np.sqrt(variances * factors / (1 - factors)), _LEAST, _MOST))


def _bond(observed: Observed) -> tuple[np.ndarray, float]:
    """Equation (1), and the mean variance."""
    heard, weight = np.zeros(observed.sizes), np.zeros(observed.sizes)
    for one in observed.reports:
        place = tuple(slice(None) if axis in one.columns else 0 for axis in range(2))
        known = one.attenuation
        if one.agreement:
            sign = np.where(same_half(one.counts.shape), 1.0, -1.0)
            known = known * analyse(sign) / sign.size
            heard[place] += known * (one.counts * sign).sum()
        else:
            heard[place] += known * analyse(one.counts)
        weight[place] += known**2 * one.counts.sum()
    variances = 1 / np.maximum(weight, _NO_REPORTS)
    moments, of_column, of_label = heard * variances, (slice(1, None), slice(0, 1)), (slice(0, 1), slice(1, None))
    bonds = moments[1:, 1:] - moments[of_column] * moments[of_label]
    spread = variances[1:, 1:] + moments[of_label] ** 2 * variances[of_column] + moments[of_column] ** 2 * variances[of_label]
    return bonds, float(spread.mean()) if bonds.size else 1.0
