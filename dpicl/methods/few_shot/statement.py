"""The guarantee of DP few-shot generation in a sentence, with its noise.

Guarantee   none spent: states what `plan` has priced.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache

from dpicl.accounting.accountant import price
from dpicl.accounting.calibration import subsampled_gaussian
from dpicl.accounting.guarantee import Guarantee, Neighbours
from dpicl.accounting.prv import bracket
from dpicl.contract.text import TextContract
from dpicl.errors import PrivacyError
from dpicl.mechanisms.difference_token import DifferenceToken
from dpicl.mechanisms.private_token import TokenNoise
from dpicl.methods.few_shot.plan import CellPlan, Drawing, TokenKind, plan_cell
from dpicl.pipeline import Cell, Unit

AMOUNTS: dict[TokenKind, str] = {
    "gaussian": "sigma",
    "invisible-ink": "range of a token's privacy losses",
}
"""What its amount of noise is called."""


def amount(plan: CellPlan) -> str:
    """How much noise the choice of a token gets, in a few words."""
    amounts = _range([float(token.amount or 0) for token in _tokens(plan)])
    return f"{AMOUNTS.get(plan.shape.kind, 'epsilon of a token')} {amounts}"


def statement(contract: TextContract, unit: Unit, cell: Cell, *, of_period: bool = False) -> str:
    """The guarantee of one cell as a sentence, with its noise and, where it applies,
    prv-accountant's own bounds.
    """
    plan = plan_cell(contract, unit, cell)
    shape, guarantee = plan.shape, plan.guarantee
    rates = _range([float(drawing.rate) for drawing in plan.drawings.values()])
    selected = f"{shape.private_tokens} private tokens and their tests"
    clips = _range(
        [token.clip for token in _tokens(plan) if isinstance(token, DifferenceToken)] or [0.0]
    )
    clipped = f", differences clipped at {clips} nats" if shape.kind == "invisible-ink" else ""
    charged = f"{shape.max_tokens} tokens" if shape.private_tokens is None else selected
    # for the label whose rows pay most; prv-accountant knows Gaussian noise without replacement
    # only
    bracketed = ""
    if (
        shape.kind == "gaussian"
        and not shape.fixed
        and guarantee.neighbours is Neighbours.ADD_OR_REMOVE_ONE
    ):
        texts = {
            pool: len(plan.labels) if pool.label is None else plan.labels.count(pool.label)
            for pool in plan.drawings
        }
        with suppress(PrivacyError):  # not within its reach: the price stands without it
            bounds = [
                _bracket(drawing, shape.max_tokens * texts[pool], guarantee)
                for pool, drawing in plan.drawings.items()
            ]
            low, high = (max(ends) for ends in zip(*bounds, strict=True))
            bracketed = f"; prv-accountant bounds epsilon by {low:.4g} and {high:.4g}"
    calendar = contract.releases.calendar.periods if of_period else ()
    together = (
        f" So are the sets of all {len(calendar)} periods from {calendar[0]} to {calendar[-1]} "
        f"together, charged once."
        if calendar
        else ""
    )
    return (
        f"Each released set of demonstrations on {contract.name} is ({guarantee.epsilon:.4g}, "
        f"{guarantee.delta:.2g})-DP and answers any "
        f"number of queries: {shape.words}, {amount(plan)}{clipped}, sampling rate "
        f"{rates}, {charged} charged for each text{bracketed}.{together} Every number of shots "
        f"and every seed is a release of its own."
    )


def _tokens(plan: CellPlan) -> list[TokenNoise | DifferenceToken]:
    return [drawing.noise.token for drawing in plan.drawings.values()]


def _range(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"


@lru_cache(maxsize=256)
def _bracket(drawing: Drawing, count: int, guarantee: Guarantee) -> tuple[float, float]:
    assert drawing.noise.token.amount is not None
    event = subsampled_gaussian(float(drawing.noise.token.amount), drawing.rate, count)
    priced = price(
        event, neighbours=guarantee.neighbours, unit=guarantee.unit, delta=guarantee.delta
    )
    bounds = bracket([priced], delta=guarantee.delta)
    return bounds.low, bounds.high
