"""Google's dp-accounting: what its accountants price a noisy sum of clipped values at.

laws    1 + noise  against  noise (an added row), or  against  -1 + noise (a replaced one); the
        noise is Gaussian with the clipping bound as its deviation; sampled: each row is in the
        sum with probability 1/2
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from dp_accounting import NeighboringRelation, dp_event  # type: ignore[import-untyped]
from dp_accounting.pld import PLDAccountant  # type: ignore[import-untyped]
from dp_accounting.rdp import RdpAccountant  # type: ignore[import-untyped]

DELTA, RATE = 0.01, 0.5
ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
_SUM = dp_event.GaussianDpEvent(1.0)
_SAMPLED = dp_event.PoissonSampledDpEvent(RATE, _SUM)


def _priced(accountant: Any, neighbours: Any, event: Any) -> Callable[[], tuple[float, float]]:
    def stated() -> tuple[float, float]:
        account = accountant(neighboring_relation=neighbours)
        return float(account.compose(event).get_epsilon(DELTA)), DELTA

    return stated


def _drawn(replaced: bool, rate: float) -> Callable[[bool, int, int], np.ndarray[Any, Any]]:
    def drawn(which: bool, count: int, seed: int) -> np.ndarray[Any, Any]:
        rng = np.random.default_rng(seed)
        value = 1.0 if which else -1.0 if replaced else 0.0
        return value * (rng.random(count) < rate) + rng.normal(size=count)

    return drawn


STATED = {
    "rdp_added": _priced(RdpAccountant, ADD, _SUM),
    "rdp_replaced": _priced(RdpAccountant, REPLACE, _SUM),
    "pld_added": _priced(PLDAccountant, ADD, _SUM),
    "pld_replaced": _priced(PLDAccountant, REPLACE, _SUM),
    "pld_sampled_added": _priced(PLDAccountant, ADD, _SAMPLED),
    "pld_sampled_replaced": _priced(PLDAccountant, REPLACE, _SAMPLED),
}
DRAWN = {
    "rdp_added": _drawn(False, 1.0),
    "rdp_replaced": _drawn(True, 1.0),
    "pld_added": _drawn(False, 1.0),
    "pld_replaced": _drawn(True, 1.0),
    "pld_sampled_added": _drawn(False, RATE),
    "pld_sampled_replaced": _drawn(True, RATE),
}
