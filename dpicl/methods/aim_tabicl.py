"""AIM-TabICL: MST-TabICL with counts that are chosen one after another, of up to three columns.

Trust       Central: a curator holds the rows; only noisy counts leave, and rows are drawn from
            these.
Unit        One row; or one person, of whom at most m rows enter.
Neighbours  ADD_OR_REMOVE_ONE, or REPLACE_ONE as a removal and an addition; m rows of a person, and
            both of these, cost epsilon together. Of a table that grows
            neighbours are histories of it, and a person's rows are bounded in the whole horizon
            (`mst_series`).
Guarantee   epsilon-DP, delta = 0; with Gaussian noise (epsilon, delta)-DP. The model, rows drawn
            from it, and which of them demonstrate are post-processing: any number of shots and
            queries for the price of one release.
Paper       AIM (arXiv 2201.12677) in the place of MST.

    0, 2 to 4  those of `mst_tabicl`
    1          c  <- noisy counts with the label, of chosen columns, pairs and triples, by what the
               model of those before does not say
                                                                                     `adaptive`

Of a table with few rows for its columns the columns that say most of the label are counted; the
others are drawn from their own counts, apart from all others, or uniformly where noise would drown
these. Where the counts say little of the label, it leans on them only so much that classifiers of
the rows are seldom worse than the most frequent label (`cautious_rows`).

Symbols     k shots, m the contract's most rows per person.
Not covered queries, which are sent as they are; every epsilon is a release of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpicl.contract.models import Contract
from dpicl.contract.pipeline import Point
from dpicl.data.central.adaptive import expected_errors, least_errors, measure
from dpicl.data.central.conditional import Conditional, Weights, no_row
from dpicl.data.central.exact_counts import ExactCounts
from dpicl.data.central.graphical_model import GraphicalModel, NoisyCounts, NoisyMarginal
from dpicl.data.central.junction_tree import Scope
from dpicl.data.central.spanning_tree import caution, cautious_rows
from dpicl.ground.randomness import Stream
from dpicl.mechanisms.noisy_steps import StepBudget
from dpicl.methods.mst_tabicl import MstTabicl
from dpicl.methods.options import AimOptions

_TRIES = 1000
"""Of drawing rows whose cautious label is asked for."""


class AimTabicl(MstTabicl):
    """Step 1 by AIM's choice."""

    name = "aim_tabicl"
    title = "AIM-TabICL"
    options = AimOptions
    draw_version = 4
    post_version = 5
    is_default = True
    triples, every_pair = True, False
    makes_series = is_default_of_series = False

    def measure(
        self, exact: ExactCounts, budget: StepBudget, stream: Stream
    ) -> list[NoisyMarginal]:
        """Step 1."""
        return measure(exact, budget=budget, stream=stream)

    def expected_errors(self, sizes: Sequence[int], budget: StepBudget, rows: int) -> list[float]:
        """See `MstTabicl`."""
        return expected_errors(sizes, budget, rows)

    def model_rows(
        self,
        model: GraphicalModel,
        drawn: Sequence[NoisyMarginal],
        contract: Contract,
        count: int,
        chance: np.random.Generator,
        where: Weights | None = None,
    ) -> np.ndarray:
        """Rows, with cautious labels where the counts say little of these."""
        if contract.target.kind not in ("binary", "classes"):
            return super().model_rows(model, drawn, contract, count, chance, where)
        if where is None:
            return cautious_rows(model, drawn, count, chance)
        careful = caution(model, drawn)
        if careful is None:
            return super().model_rows(model, drawn, contract, count, chance, where)
        label = model.tree.label
        meets = where.get(label, np.ones(model.tree.sizes[label]))
        apart = {column: weight for column, weight in where.items() if column != label}
        given = Conditional.of(model, apart)
        kept: list[np.ndarray] = []
        for _ in range(_TRIES):
            rows = given.rows(count, chance)
            careful.relabel(rows, chance)
            kept.append(rows[chance.random(count) < meets[rows[:, label]]])
            if sum(map(len, kept)) >= count:
                return np.concatenate(kept)[:count]
        raise no_row()

    def counted(self, drawn: NoisyCounts, contract: Contract) -> Mapping[Scope, np.ndarray]:
        """None: rows may be more cautious than the model."""
        return {}

    def least_errors(self, drawn: NoisyCounts, point: Point[Any]) -> Mapping[int, float]:
        """Of columns that were not chosen."""
        return least_errors(drawn.marginals)
