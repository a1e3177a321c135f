"""The guarantee of DP-ICL in words for people: all queries together, one query, and what it is not.

Guarantee   none spent: reads plans only.
"""

from __future__ import annotations

import math

from dpicl.contract.text import TextContract
from dpicl.mechanisms.noisy_embedding import EmbeddingNoise
from dpicl.mechanisms.stable_top import StableTop
from dpicl.methods.common import Cost
from dpicl.methods.ensemble_plan import EnsemblePlan, JointNoise, plan_cell
from dpicl.pipeline import Cell, Unit


def statement(contract: TextContract, unit: Unit, cell: Cell, cost: Cost) -> str:
    """The guarantee of one cell in sentences for people: all queries together, one query, and what it is not."""
    plan = plan_cell(contract, unit, cell)
    whole, one, shape = plan.guarantee, plan.per_query, plan.shape
    return (
        f"The answers to all {shape.queries} queries on {contract.name} together are ({whole.epsilon:.4g}, {whole.delta:.2g})-DP, one "
        f"answer alone ({one.epsilon:.4g}, {one.delta:.2g})-DP: whoever reads all of them and guesses whether a certain {whole.unit} "
        f"was among the private ones has odds at most {math.exp(whole.epsilon):.3g} times what they were, but for a chance of "
        f"{whole.delta:.2g}. {_how(plan)} The {_ordinal(shape.queries + 1)} query is refused; asking the same queries again gives the "
        f"same answers at no cost. Every number of shots and every seed is a release of its own. The queries themselves are not protected."
    )


def _how(plan: EnsemblePlan) -> str:
    shape = plan.shape
    asked = (
        f"about {shape.subsets * shape.rows} rows, one in each prompt"
        if shape.alone
        else f"{shape.subsets} prompts of about {shape.rows} rows"
    )
    noise = plan.noise
    if isinstance(noise, StableTop):
        amount = f"epsilon of one test {float(noise.test_epsilon or 0):.4g}"
    elif isinstance(noise, JointNoise):
        amount = f"epsilon of one choice {float(noise.epsilon or 0):.4g}"
    elif isinstance(noise, EmbeddingNoise):
        amount = f"sigma {float(noise.sigma or 0):.4g}"
    else:
        amount = f"{'sigma' if noise.kind == 'gaussian' else 'epsilon of one vote'} {float(noise.amount or 0):.4g}"
    return f"Each query draws new rows at rate {float(plan.rate):.4g} ({asked}); {shape.aggregation}, {amount}."


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
