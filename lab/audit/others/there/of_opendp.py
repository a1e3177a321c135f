"""OpenDP: measurements at the scale at which their own privacy map says about epsilon 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import opendp.prelude as dp

dp.enable_features("contrib", "honest-but-curious")
DELTA = 1e-3
_WHOLE = dp.atom_domain(T=int), dp.absolute_distance(T=int)
_REAL = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
_ROWS = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
_SCORES = dp.vector_domain(dp.atom_domain(T=dp.usize)), dp.linf_distance(T=dp.usize)
_KEYS = (
    dp.map_domain(dp.atom_domain(T=str), dp.atom_domain(T=int)),
    dp.l01inf_distance(dp.absolute_distance(T=int)),
)
Made = Callable[[], Any]
Drawn = Callable[[bool, int, int], np.ndarray[Any, Any]]


def _approximate(measurement: Any) -> Any:
    return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(measurement), DELTA)


MADE: dict[str, tuple[Made, Any]] = {
    "laplace_whole": (lambda: _WHOLE >> dp.m.then_laplace(1.0), 1),
    "laplace_real": (lambda: _REAL >> dp.m.then_laplace(1.0), 1.0),
    "gaussian_whole": (lambda: _approximate(_WHOLE >> dp.m.then_gaussian(2.0)), 1),
    "gaussian_real": (lambda: _approximate(_REAL >> dp.m.then_gaussian(2.0)), 1.0),
    "geometric_bounded": (lambda: _WHOLE >> dp.m.then_geometric(1.0, bounds=(0, 4)), 1),
    "randomized_response": (lambda: dp.m.make_randomized_response_bool(0.73), 1),
    "noisy_max": (lambda: _SCORES >> dp.m.then_noisy_max(dp.max_divergence(), 2.0), 1),
    "count": (lambda: dp.t.make_count(*_ROWS) >> dp.m.then_laplace(1.0), 1),
    "laplace_threshold": (
        lambda: dp.m.make_laplace_threshold(*_KEYS, scale=1.0, threshold=3),
        (1, 1, 1),
    ),
}
"""How each is made, and the distance of its two neighbours."""
_GIVEN: dict[str, tuple[Any, Any]] = {
    "laplace_whole": (0, 1),
    "laplace_real": (0.0, 1.0),
    "gaussian_whole": (0, 1),
    "gaussian_real": (0.0, 1.0),
    "geometric_bounded": (0, 1),
    "randomized_response": (False, True),
    "noisy_max": ([1, 1, 1, 0], [0, 0, 0, 1]),
    "count": ([], [7]),
    "laplace_threshold": ({}, {"a": 1}),
}
"""Both neighbours, the one with one more row second."""


def _stated(name: str) -> Callable[[], tuple[float, float]]:
    def stated() -> tuple[float, float]:
        made, distance = MADE[name]
        loss = made().map(distance)
        return (float(loss[0]), float(loss[1])) if isinstance(loss, tuple) else (float(loss), 0.0)

    return stated


def _drawn(name: str) -> Drawn:
    def drawn(which: bool, count: int, seed: int) -> np.ndarray[Any, Any]:
        """The seed is not used: OpenDP draws from the operating system."""
        measurement, given = MADE[name][0](), _GIVEN[name][int(which)]
        outputs = [measurement(given) for _ in range(count)]
        if name == "laplace_threshold":
            return np.array(["a" in released for released in outputs])
        return np.array(outputs)

    return drawn


STATED = {name: _stated(name) for name in MADE}
DRAWN = {name: _drawn(name) for name in MADE}
