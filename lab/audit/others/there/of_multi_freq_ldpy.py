"""multi-freq-ldpy: what one client sends of one of six categories, at epsilon 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Client
from multi_freq_ldpy.pure_frequency_oracles.HE import HE_Client
from multi_freq_ldpy.pure_frequency_oracles.SS import SS_Client
from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Client

CATEGORIES = 6
Send = Callable[[int], Any]


def _drawn(send: Send) -> Callable[[bool, int, int], np.ndarray[Any, Any]]:
    def drawn(which: bool, count: int, seed: int) -> np.ndarray[Any, Any]:
        """The seed is not used: compiled code has a generator of its own."""
        return np.array([send(int(which)) for _ in range(count)])

    return drawn


def _subset(value: int) -> np.ndarray[Any, Any]:
    """Which categories are in the set that is sent."""
    return np.isin(np.arange(CATEGORIES), SS_Client(value, CATEGORIES, 1.0))


DRAWN = {
    "grr": _drawn(lambda value: GRR_Client(value, CATEGORIES, 1.0)),
    "sue": _drawn(lambda value: UE_Client(value, CATEGORIES, 1.0, False)),
    "oue": _drawn(lambda value: UE_Client(value, CATEGORIES, 1.0, True)),
    "he": _drawn(lambda value: HE_Client(value, CATEGORIES, 1.0)),
    "ss": _drawn(_subset),
}
STATED = dict.fromkeys(DRAWN, lambda: (1.0, 0.0))
