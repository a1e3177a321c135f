"""Noisy label: demonstrations of public middles, of which a noisy share says yes.

Trust       Central: a curator holds the rows; only two noisy counts leave.
Unit        One row; or one person, of whom at most m rows enter.
Neighbours  ADD_OR_REMOVE_ONE; a contract with REPLACE_ONE is charged twice. A person costs m rows.
Guarantee   epsilon-DP, delta = 0: the two counts are of disjoint rows. Demonstrations are
            post-processing.
Paper       None; the baseline that every method has to beat.

    (1)  c_y <- #{rows of label y} + Z_y,   Z discrete Laplace of scale 1 / epsilon
    (2)  of k demonstrations round(k c_1 / (c_0 + c_1)) say yes

Symbols     y no or yes, k shots, m the contract's most rows per person.
Not covered queries, which are sent as they are.
"""

from __future__ import annotations

import json

import numpy as np

from dpicl.contract.base import Frozen
from dpicl.contract.columns import CategoryColumn
from dpicl.contract.models import Contract
from dpicl.contract.pipeline import Cell, Point, Unit
from dpicl.data.prompts import central_demonstrations, central_queries
from dpicl.data.reading.encode import label_codes
from dpicl.data.reading.split import contributing_rows
from dpicl.ground.randomness import Draws
from dpicl.ground.types import PrivateTable, QueryTable, ReleasedGroup, ReleasedGroups
from dpicl.mechanisms.noisy_count import exact_epsilon, guarantee, noisy_counts
from dpicl.methods.base import ZERO_SHOT, CellCost, for_unit, shots_of
from dpicl.methods.tabular_method import Released, TabularMethod
from dpicl.models.requests import prompt


class Options(Frozen):
    """There is nothing to choose."""


class NoisyLabel(TabularMethod[list[int]]):
    """One release per epsilon: two counts."""

    name, title = "noisy_label", "Noisy label"
    trust, baselines_read = "central", "none"
    options = Options
    draw_version, post_version = 1, 1
    artefact, draw_stage, source = "released_labels.json", "count labels", "labels"

    def systems(self, options: Options) -> tuple[str, ...]:
        """No further systems to evaluate."""
        return ()

    def cost(self, contract: Contract, point: Point[Options]) -> CellCost:
        """Two counts of disjoint rows cost what one does."""
        return CellCost(for_unit(guarantee(exact_epsilon(point.epsilon)), contract))

    def identity(self, contract: Contract, point: Point[Options]) -> dict[str, object]:
        """Nothing but epsilon and seed."""
        return {}

    def statement(self, contract: Contract, point: Point[Options], cost: CellCost) -> str:
        """Of the counts."""
        return (
            "The released counts have differential privacy with epsilon "
            f"{cost.nominal.epsilon:.4g}; they answer any number of "
            f"queries."
        )

    def draw(
        self,
        train: PrivateTable,
        contract: Contract,
        point: Point[Options],
        draws: Draws,
        marks: np.ndarray | None = None,
    ) -> list[int]:
        """Equation (1)."""
        labels = label_codes(train, contract)[contributing_rows(train, contract, draws)]
        return noisy_counts(
            [int((labels == label).sum()) for label in (0, 1)],
            epsilon=exact_epsilon(point.epsilon),
            stream=draws.secret("labels", point.key),
        )

    def encode(self, drawn: list[int]) -> bytes:
        """A list of two numbers."""
        return json.dumps(drawn).encode()

    def decode(self, content: bytes, contract: Contract, point: Point[Options]) -> list[int]:
        """See `encode`."""
        return [int(count) for count in json.loads(content)]

    def examples(
        self, released: Released[list[int]], contract: Contract, unit: Unit, draws: Draws
    ) -> dict[Cell, list[str]]:
        """Equation (2) with public middles."""
        values: dict[str, float | str] = {
            name: column.categories[0]
            if isinstance(column, CategoryColumn)
            else sum(column.bounds) / 2
            for name in contract.features
            for column in [contract.columns[name]]
        }
        demonstrations = {}
        for cell in unit.evaluated_cells:
            no, yes = (max(count, 0) for count in released.draws[Cell("labels", cell.epsilon)])
            share, shots = yes / max(no + yes, 1), shots_of(cell)
            groups = tuple(
                ReleasedGroup((), values, int(number < round(share * shots)))
                for number in range(shots)
            )
            demonstrations[cell] = central_demonstrations(ReleasedGroups(groups), contract)
        return demonstrations

    def prompts(
        self,
        released: Released[list[int]],
        queries: QueryTable,
        contract: Contract,
        unit: Unit,
        draws: Draws,
    ) -> dict[Cell, list[str]]:
        """The same demonstrations for every query."""
        questions = central_queries(queries, contract)
        examples = self.examples(released, contract, unit, draws)
        return {
            ZERO_SHOT: questions,
            **{
                cell: [prompt(texts, question) for question in questions]
                for cell, texts in examples.items()
            },
        }
