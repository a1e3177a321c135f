"""The graphical model that explains noisy counts best, and rows drawn from it.

Guarantee   none spent: post-processing of noisy counts.
Paper       [MSM19] McKenna, Sheldon and Miklau, private-pgm (arXiv 1901.09136); the fit is package `mbi`'s.

    (1)  P = argmin over distributions that factor over the counted columns of
             sum over counts c of | n P_c - c |^2 / variance of c
    (2)  rows from P, column after column from the label on: pairs of columns that are counted make a forest

Work and memory grow with the counts, not with the cells of the table.

Symbols     P_c marginal of P over the columns of c; n rows, estimated by `mbi` from the counts.
Not covered pairs that make a circle.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpicl.tabular.central.spanning_tree import NoisyMarginal, added
from dpicl.tabular.local.tree import Tree, rooted

CITATIONS = ("mckenna2019graphical",)
STEPS = 1000
"""Of mirror descent."""
_LEAST_DEVIATION = 0.5
"""Of counts without noise: `mbi` divides by it."""


def graphical_model(sizes: Sequence[int], marginals: Sequence[NoisyMarginal]) -> Tree:
    """Equation (1): a forest of columns below the label, which is the last.

    Args:
        marginals: over one column and the label, or two and the label, of which the pairs make no circle.
    """
    label, counted = len(sizes) - 1, added(marginals)
    model = _fitted(sizes, counted)
    pairs = {one.columns[:2]: _shares(model, one.columns) for one in counted if len(one.columns) == 3}
    alone = {column: _shares(model, (column, label)) for column in range(label)}
    return rooted(label, pairs, alone)


def _fitted(sizes: Sequence[int], counted: Sequence[NoisyMarginal]) -> Any:
    """`mbi`'s model, whose attributes are the columns' numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of its 32 bits, before they can be 64
        import jax
        import mbi

    jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]
    measured = [
        mbi.LinearMeasurement(one.counts.astype(float).ravel(), one.columns, stddev=max(one.scale * 2**0.5, _LEAST_DEVIATION))
        for one in counted
    ]
    model = mbi.estimation.MirrorDescent().estimate(mbi.Domain(range(len(sizes)), sizes), measured, iters=STEPS)
    jax.clear_caches()  # type: ignore[no-untyped-call]  # one program is compiled for every forest, and none is met again
    return model


def _shares(model: Any, columns: tuple[int, ...]) -> np.ndarray:
    return np.asarray(model.project(columns).datavector(flatten=False), dtype=float)
