"""SmartNoise SQL: the noise of its queries at epsilon 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from snsql.sql._mechanisms import gaussian, laplace

DELTA = 0.01
Drawn = Callable[[bool, int, int], np.ndarray[Any, Any]]


def _noise(kind: Any) -> Drawn:
    """Of 0 and 1."""

    def drawn(which: bool, count: int, seed: int) -> np.ndarray[Any, Any]:
        """The seed is not used: it draws from the operating system."""
        made = kind(1.0, delta=DELTA, lower=0, upper=1)
        return np.array(made.release([int(which)] * count))

    return drawn


DRAWN = {
    "laplace": _noise(laplace.Laplace),
    "gaussian": _noise(gaussian.Gaussian),
}
STATED = {name: (lambda name=name: (1.0, DELTA if name == "gaussian" else 0.0)) for name in DRAWN}
