"""Tables that are arithmetic: they need neither data nor a model."""

from __future__ import annotations

from collections.abc import Callable

from dpicl.accounting.accountant import price
from dpicl.accounting.amplification import amplified_epsilon
from dpicl.accounting.calibration import subsampled_gaussian
from dpicl.accounting.guarantee import Neighbours
from dpicl.methods.published import table_v
from dpicl.methods.published.cells import PrintedCell
from dpicl.methods.published.noise_cells import table_nine


def _amplified(cell: PrintedCell) -> float:
    """Table V of DP-TabICL, by the accountant."""
    (one,) = (one for one in table_v() if (one.dataset, one.epsilon) == (cell.dataset, cell.epsilon))
    return amplified_epsilon(one.epsilon, one.sample_count / one.row_count)


def _priced(cell: PrintedCell) -> float:
    """Table 9 of DP few-shot generation: what its noise costs when a text is added or removed."""
    (one,) = (one for one in table_nine() if (one.dataset, one.epsilon) == (cell.dataset, cell.epsilon))
    event = subsampled_gaussian(one.sigma, one.sampling_rate, one.compositions)
    return price(event, neighbours=Neighbours.ADD_OR_REMOVE_ONE, unit="row", delta=one.delta).epsilon


COMPUTED: dict[str, Callable[[PrintedCell], float]] = {"V": _amplified, "9": _priced}
"""By the name of a table."""
