"""The guarantee of DP few-shot generation in words, with a second accountant's bounds beside it.

Guarantee   none spent: reads plans only.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from dpicl.accounting.accountant import price
from dpicl.accounting.calibration import subsampled_gaussian
from dpicl.accounting.guarantee import Guarantee, Neighbours
from dpicl.accounting.prv import bracket
from dpicl.contract.text import TextContract
from dpicl.errors import PrivacyError
from dpicl.methods.common import Cost
from dpicl.methods.few_shot_plan import CellPlan, Drawing, Pool, Shape, plan_cell
from dpicl.pipeline import Cell, Unit


def statement(contract: TextContract, unit: Unit, cell: Cell, cost: Cost) -> str:
    """The guarantee of one cell as a sentence, with its noise and, where it applies, prv-accountant's own bounds."""
    plan, shape = plan_cell(contract, unit, cell), Shape.of(contract, unit, cell.system)
    amounts = sorted({float(drawing.noise.token.amount or 0) for drawing in plan.drawings.values()})
    rates = sorted({float(drawing.rate) for drawing in plan.drawings.values()})
    noise = f"{'sigma' if shape.kind == 'gaussian' else 'epsilon of a token'} {_range(amounts)}"
    found = plan.guarantee
    charged = (
        f"{shape.max_tokens} tokens charged" if shape.elections is None else f"{shape.elections} elected tokens and their tests charged"
    )
    return (
        f"Each released set of demonstrations on {contract.name} is ({found.epsilon:.4g}, {found.delta:.2g})-DP and answers any number of "
        f"queries: {shape.kind} noise, {noise}, sampling rate {_range(rates)}, {charged} for each text{_bracketed(plan, shape)}. "
        "Every number of shots and every seed is a release of its own."
    )


def _range(values: Sequence[float]) -> str:
    return f"{values[0]:.4g}" if values[0] == values[-1] else f"{values[0]:.4g} to {values[-1]:.4g}"


def _bracketed(plan: CellPlan, shape: Shape) -> str:
    """What prv-accountant says of the label whose rows pay most, its error bounds added; it knows Gaussian noise without replacement only."""
    if shape.kind != "gaussian" or shape.fixed or plan.guarantee.neighbours is not Neighbours.ADD_OR_REMOVE_ONE:
        return ""
    try:
        found = [_bracket(drawing, shape.max_tokens * _texts_of(plan, pool), plan.guarantee) for pool, drawing in plan.drawings.items()]
    except PrivacyError:  # not within its reach: the price stands without it
        return ""
    return f"; prv-accountant bounds epsilon by {max(low for low, _ in found):.4g} and {max(high for _, high in found):.4g}"


def _texts_of(plan: CellPlan, pool: Pool) -> int:
    return len(plan.labels) if pool.label is None else plan.labels.count(pool.label)


@lru_cache(maxsize=256)
def _bracket(drawing: Drawing, count: int, guarantee: Guarantee) -> tuple[float, float]:
    assert drawing.noise.token.amount is not None
    event = subsampled_gaussian(float(drawing.noise.token.amount), drawing.rate, count)
    found = bracket([price(event, neighbours=guarantee.neighbours, unit=guarantee.unit, delta=guarantee.delta)], delta=guarantee.delta)
    return found.low, found.high
