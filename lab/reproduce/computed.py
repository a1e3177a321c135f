"""Tables that are arithmetic: they need neither data nor a model."""

from __future__ import annotations

from collections.abc import Callable

from dpicl.accounting.accountant import price
from dpicl.accounting.calibration import subsampled_gaussian
from dpicl.accounting.guarantee import Neighbours, amplified_epsilon
from dpicl.methods.published import table_v
from lab.published.cells import PrintedCell
from lab.published.noise_cells import table_nine


def _amplified(cell: PrintedCell) -> float:
    """Table V of DP-TabICL, by the accountant."""
    (row,) = (
        row for row in table_v() if (row.dataset, row.epsilon) == (cell.dataset, cell.epsilon)
    )
    return amplified_epsilon(row.epsilon, row.rate)


def _priced(cell: PrintedCell) -> float:
    """Table 9 of DP few-shot generation: what its noise costs when a text is added or removed."""
    (row,) = (
        row for row in table_nine() if (row.dataset, row.epsilon) == (cell.dataset, cell.epsilon)
    )
    event = subsampled_gaussian(row.sigma, row.sampling_rate, row.compositions)
    return price(
        event, neighbours=Neighbours.ADD_OR_REMOVE_ONE, unit="row", delta=row.delta
    ).epsilon


COMPUTED: dict[str, Callable[[PrintedCell], float]] = {"V": _amplified, "9": _priced}
"""By the name of a table."""
