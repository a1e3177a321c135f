"""IBM's diffprivlib: mechanisms, tools and a model at epsilon 1."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
from diffprivlib import BudgetAccountant, mechanisms, models, tools

DELTA = 0.01
_CATEGORIES = 6
Drawn = Callable[[bool, int, int], np.ndarray[Any, Any]]


def _noise(kind: Any, **how: Any) -> Drawn:
    """Of 0 and 1, whole where the mechanism is of whole numbers; at epsilon 1 if there is one."""
    how = ({} if kind is mechanisms.Uniform else {"epsilon": 1.0}) | how

    def drawn(which: bool, count: int, seed: int) -> np.ndarray[Any, Any]:
        made = kind(sensitivity=1, random_state=seed % (1 << 31), **how)
        value = int(which) if issubclass(kind, _WHOLE) else float(which)
        return np.array([made.randomise(value) for _ in range(count)])

    return drawn


_WHOLE = (mechanisms.Geometric, mechanisms.GaussianDiscrete)


def _choice(kind: Any) -> Drawn:
    """All categories but the last have the score 1 and it has 0, or the other way round."""

    def drawn(which: bool, count: int, seed: int) -> np.ndarray[Any, Any]:
        scores = [float(not which)] * (_CATEGORIES - 1) + [float(which)]
        made = kind(epsilon=1.0, sensitivity=1, utility=scores, random_state=seed % (1 << 31))
        return np.array([made.randomise() for _ in range(count)])

    return drawn


def binary(which: bool, count: int, seed: int) -> np.ndarray[Any, Any]:
    """One of two words."""
    made = mechanisms.Binary(epsilon=1.0, value0="no", value1="yes", random_state=seed % (1 << 31))
    return np.array([made.randomise("yes" if which else "no") == "yes" for _ in range(count)])


def _tool(ask: Callable[[np.ndarray[Any, Any], Any], Any], rows: Callable[[bool], Any]) -> Drawn:
    def drawn(which: bool, count: int, seed: int) -> np.ndarray[Any, Any]:
        random = np.random.RandomState(seed % (1 << 31))
        given = np.array(rows(which), dtype=float)
        return np.array([ask(given, random) for _ in range(count)])

    return drawn


def _count(given: np.ndarray[Any, Any], random: Any) -> Any:
    return tools.count_nonzero(given, epsilon=1.0, random_state=random, accountant=_account())


def _mean(given: np.ndarray[Any, Any], random: Any) -> Any:
    return tools.mean(given, epsilon=1.0, bounds=(0, 1), random_state=random, accountant=_account())


def _histogram(given: np.ndarray[Any, Any], random: Any) -> Any:
    return tools.histogram(
        given, epsilon=1.0, bins=2, range=(0, 1), random_state=random, accountant=_account()
    )[0]


def _median(given: np.ndarray[Any, Any], random: Any) -> Any:
    return tools.median(
        given, epsilon=1.0, bounds=(0, 1), random_state=random, accountant=_account()
    )


def _account() -> BudgetAccountant:
    return BudgetAccountant()


def linear_regression(which: bool, count: int, seed: int) -> np.ndarray[Any, Any]:
    """The slope through the origin, of a row at 1 alone, and of another at 100."""
    rows = np.array([[1.0], [100.0]] if which else [[1.0]])
    random, slopes = np.random.RandomState(seed % (1 << 31)), []
    for _ in range(count):
        model = models.LinearRegression(
            epsilon=1.0,
            bounds_X=(0, 100),
            bounds_y=(0, 1),
            fit_intercept=False,
            random_state=random,
            accountant=_account(),
        )
        slope = np.nan
        with contextlib.suppress(ValueError):
            slope = float(model.fit(rows, np.zeros(len(rows))).coef_[0])
        slopes.append(slope)
    return np.array(slopes)


_PURE: dict[str, Drawn] = {
    "laplace": _noise(mechanisms.Laplace),
    "laplace_truncated": _noise(mechanisms.LaplaceTruncated, lower=-5, upper=5),
    "laplace_folded": _noise(mechanisms.LaplaceFolded, lower=-5, upper=5),
    "laplace_bounded_domain": _noise(mechanisms.LaplaceBoundedDomain, lower=0, upper=1),
    "staircase": _noise(mechanisms.Staircase),
    "snapping": _noise(mechanisms.Snapping, lower=-10, upper=10),
    "geometric": _noise(mechanisms.Geometric),
    "geometric_truncated": _noise(mechanisms.GeometricTruncated, lower=0, upper=4),
    "geometric_folded": _noise(mechanisms.GeometricFolded, lower=0, upper=4),
    "exponential": _choice(mechanisms.Exponential),
    "permute_and_flip": _choice(mechanisms.PermuteAndFlip),
    "binary": binary,
    "count": _tool(_count, lambda which: [0.0, float(which)]),
    "mean": _tool(_mean, lambda which: [0.0, float(which)]),
    "histogram": _tool(_histogram, lambda which: [0.2] + [0.8] * int(which)),
    "median": _tool(_median, lambda which: [0.0, float(which), 1.0]),
    "linear_regression": linear_regression,
}
_WITH_DELTA: dict[str, Drawn] = {
    "gaussian": _noise(mechanisms.Gaussian, delta=DELTA),
    "gaussian_analytic": _noise(mechanisms.GaussianAnalytic, delta=DELTA),
    "gaussian_discrete": _noise(mechanisms.GaussianDiscrete, delta=DELTA),
    "uniform": _noise(mechanisms.Uniform, delta=0.1),
}
_STATED_OTHERWISE = {"uniform": (0.0, 0.1)}
DRAWN = _PURE | _WITH_DELTA
STATED = {
    name: (lambda name=name: _STATED_OTHERWISE.get(name, (1.0, 0.0 if name in _PURE else DELTA)))
    for name in DRAWN
}
