"""A penalised log-linear model of the population: which shares of cells, with terms of few columns
only, explain the reports best.

Guarantee   none spent: post-processing of epsilon-LDP reports.
Paper       Log-linear models: Bishop, Fienberg and Holland 1975. The penalty is a Gaussian prior.

    (1)  pi(x)  proportional to  exp( sum over A of theta_A b_A(x) ),     A of one, two or three
         columns of one question
    (2)  theta = argmax  log-likelihood(pi) - sum theta_A^2 / (2 s^2),    s = 1.5, 0.2, 0.07 for
         one, two, three columns

The inverse of the distortion is the same without (1) and with no penalty: it spends the reports
on as many numbers as there are cells. Columns that no question has together get no term of their
own.

Symbols     b_A products of contrasts of the columns in A; pi shares of cells.
Not covered many columns: the work is that of all cells, and `tree` works on few columns at a time.
"""

from __future__ import annotations

import numpy as np

from dpicl.tabular.local.moments import analyse, orders, synthesise
from dpicl.tabular.local.observed import Observed

SPREADS = (1.5, 0.2, 0.07)
"""Standard deviations of theta before anything is observed, by number of columns; the same for
every table and epsilon.

They were chosen once, among four, where few clients report at epsilon = 1: on blood, calhousing,
car, diabetes and heart.
"""
_STEPS = 200


def log_linear(observed: Observed) -> np.ndarray:
    """Equations (1) and (2): shares of cells, shape `sizes`, positive, of sum 1."""
    order = orders(observed.sizes)
    free = (order > 0) & (order <= len(SPREADS)) & observed.covered
    weights = 1 / np.array([1.0, *SPREADS])[order[free]] ** 2

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        shares = _shares(theta, free)
        value, slope = observed.likelihood(analyse(shares).reshape(-1))
        by_cell = synthesise(slope.reshape(observed.sizes))
        by_cell = shares * (by_cell - (shares * by_cell).sum())
        return (weights * theta**2).sum() / 2 - value, weights * theta - analyse(by_cell)[free]

    from scipy.optimize import minimize  # a third of a second to import: only where it is called

    optimum = minimize(
        loss,
        np.zeros(int(free.sum())),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": _STEPS, "maxcor": 20},
    )
    return _shares(optimum.x, free)


def _shares(theta: np.ndarray, free: np.ndarray) -> np.ndarray:
    weights = np.zeros(free.shape)
    weights[free] = theta
    heights = synthesise(weights)
    shares = np.exp(heights - heights.max())
    return np.asarray(shares / shares.sum())
