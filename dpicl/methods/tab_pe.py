"""Tab-PE: rows that a private table's rows voted for demonstrate.

Trust       Central: a curator holds the rows; only noisy votes leave, and rows are drawn by these.
Unit        One row; or one person, of whom at most m rows enter.
Neighbours  ADD_OR_REMOVE_ONE; a contract with REPLACE_ONE is charged twice. A person costs m rows.
Guarantee   epsilon-DP, delta = 0. Rows drawn by the votes, and which of them demonstrate, are
            post-processing: any number of shots and queries for the price of one release.
Paper       Tran, Backurs, Lin, Reis, Li and Yekhanin 2026, Tab-PE (arXiv 2606.08259), with pure
            noise; `evolution` says what differs.

    0  D  <- at most m rows of every person (where persons are protected)
    1  C  <- candidates by public bins, or by noisy counts of columns with the label    `evolution`
    2  h  <- votes of D for the nearest of C, noisy; C <- those with most votes, and variations of
       them; h again
    3  z  <- rows of the last C: of each label as many as all histograms say, as likely as its votes
       in h, none below 0
    4  E  <- serialise(z);  ask the model with (E, query)

Symbols     k shots, m the contract's most rows per person.
Not covered less memory than all rows take, since every iteration reads them; queries, which are
sent as they are; every (epsilon, seed) is a
            release of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np

from dpicl.contract.models import Contract
from dpicl.contract.pipeline import Point
from dpicl.data.central.evolution import (
    DistinctRows,
    Histogram,
    Space,
    evolve,
    expected_errors,
    label_counts,
    voted_rows,
)
from dpicl.data.central.exact_counts import row_bins
from dpicl.data.reading.split import contributing_rows
from dpicl.ground.randomness import Draws
from dpicl.ground.types import MADE_ROWS, PrivateCodes, PrivateTable, ReleasedRows
from dpicl.mechanisms.noisy_steps import PureBudget
from dpicl.methods.base import CellCost, for_unit
from dpicl.methods.options import TabPeOptions
from dpicl.methods.row_method import CentralRows

Votes = list[Histogram]
"""One release: all its histograms."""


class TabPe(CentralRows[Votes]):
    """Steps 0 to 4 as a method: one release per epsilon, whatever the shots."""

    name = "tab_pe"
    title = "Tab-PE"
    options = TabPeOptions
    draw_version = 1
    post_version = 2
    artefact = "released_votes.json"
    source = "votes"
    draw_stage = "evolve"
    derive_stage = "reconstruct"

    def cost(self, contract: Contract, point: Point[TabPeOptions]) -> CellCost:
        """Of all votes together."""
        return CellCost(for_unit(PureBudget.of(point.epsilon).guarantee(), contract))

    def identity(self, contract: Contract, point: Point[TabPeOptions]) -> dict[str, object]:
        """See `Method`."""
        return point.options.model_dump(mode="json")

    def statement(self, contract: Contract, point: Point[TabPeOptions], cost: CellCost) -> str:
        """See `Method`."""
        return (
            f"All released votes together are {cost.nominal.epsilon:.4g}-DP; rows drawn by them "
            "demonstrate for any number of queries and shots. Every seed is a release of its own."
        )

    def column_errors(
        self, contract: Contract, point: Point[TabPeOptions], rows: int
    ) -> Mapping[str, float]:
        """See `TabularMethod`: of every column's bins."""
        errors = expected_errors(Space.of(contract), point.epsilon, rows)
        return dict(zip(contract.features, errors, strict=True))

    def draw(
        self,
        train: PrivateTable,
        contract: Contract,
        point: Point[TabPeOptions],
        draws: Draws,
        marks: np.ndarray | None = None,
    ) -> Votes:
        """Steps 0 to 2."""

        def voters() -> DistinctRows:
            rows = contributing_rows(train, contract, draws)
            return DistinctRows.of(PrivateCodes(row_bins(train, contract)[rows]))

        return self._evolved(train.once("voters", voters), contract, point, draws)

    def encode(self, drawn: Votes) -> bytes:
        """See `TabularMethod`."""
        histograms = [
            {
                "columns": list(histogram.columns),
                "candidates": histogram.candidates.tolist(),
                "votes": histogram.votes.tolist(),
                "scale": histogram.scale,
            }
            for histogram in drawn
        ]
        return json.dumps(histograms, allow_nan=False).encode()

    def decode(self, content: bytes, contract: Contract, point: Point[TabPeOptions]) -> Votes:
        """See `TabularMethod`."""
        return [
            Histogram(
                tuple(stored["columns"]),
                np.array(stored["candidates"]),
                np.array(stored["votes"]),
                stored["scale"],
            )
            for stored in json.loads(content)
        ]

    def rows(
        self,
        drawn: Votes,
        contract: Contract,
        point: Point[TabPeOptions],
        draws: Draws,
        count: int | None = None,
    ) -> ReleasedRows:
        """Step 3."""
        chance = draws.public("rows", point.key).generator()
        return ReleasedRows(voted_rows(drawn, count or MADE_ROWS, chance).astype(np.uint8))

    def row_count(self, drawn: Votes) -> float:
        """See `TabularMethod`."""
        return float(label_counts(drawn).sum())

    def replicate(
        self,
        truth: PrivateCodes,
        row_count: int,
        contract: Contract,
        point: Point[TabPeOptions],
        draws: Draws,
    ) -> Votes:
        """Steps 1 and 2."""
        return self._evolved(
            DistinctRows.of(truth).scaled(row_count / len(truth.codes)), contract, point, draws
        )

    def _evolved(
        self,
        voters: DistinctRows,
        contract: Contract,
        point: Point[TabPeOptions],
        draws: Draws,
    ) -> Votes:
        """Steps 1 and 2: the only draw of noise."""
        return evolve(
            voters,
            Space.of(contract),
            epsilon=point.epsilon,
            stream=draws.secret("votes", point.key),
            chance=draws.public("candidates", point.key).generator(),
        )
