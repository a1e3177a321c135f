"""Tab-PE: rows that a private table's rows voted for demonstrate.

Trust       Central: a curator holds the rows; only noisy votes leave, and rows are drawn by these.
Unit        One row; or one person, of whom at most m rows enter.
Neighbours  ADD_OR_REMOVE_ONE, or REPLACE_ONE as a removal and an addition; m rows of a person, and
            both of these, cost epsilon together.
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
sent as they are; every epsilon is a release of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dpicl.contract.models import Contract
from dpicl.contract.pipeline import Point
from dpicl.data.central.chosen_bins import Bins, share
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
from dpicl.methods.base import CellCost, for_unit, row_epsilon, spent_identity
from dpicl.methods.options import TabPeOptions
from dpicl.methods.row_method import CentralRows


@dataclass(frozen=True)
class Votes:
    """One release: all its histograms, and the edges of bins that were chosen, by column."""

    histograms: Sequence[Histogram]
    bins: Bins = field(default_factory=dict)


class TabPe(CentralRows[Votes]):
    """Steps 0 to 4 as a method: one release per epsilon, whatever the shots."""

    name = "tab_pe"
    title = "Tab-PE"
    options = TabPeOptions
    draw_version = 1
    post_version = 2
    artefact = "released_votes.json"
    source = "votes"
    smooths = True
    draw_stage = "evolve"
    derive_stage = "reconstruct"

    def cost(self, contract: Contract, point: Point[TabPeOptions]) -> CellCost:
        """Of all votes together."""
        return CellCost(for_unit(self.budget(contract, point).guarantee(), contract))

    def budget(self, contract: Contract, point: Point[TabPeOptions]) -> PureBudget:
        """See `CentralRows`."""
        return PureBudget.of(row_epsilon(point.epsilon, contract))

    def identity(self, contract: Contract, point: Point[TabPeOptions]) -> dict[str, object]:
        """See `Method`."""
        chosen = point.options.model_dump(mode="json")
        return chosen | self.bins_identity(contract) | spent_identity(contract)

    def statement(self, contract: Contract, point: Point[TabPeOptions], cost: CellCost) -> str:
        """See `Method`."""
        return (
            f"All released votes{self.bins_statement(contract)} together have differential privacy "
            f"with epsilon {cost.nominal.epsilon:.4g}; rows drawn by them, and demonstrations and "
            "answers made of these, cost nothing more."
        )

    def column_errors(
        self, contract: Contract, point: Point[TabPeOptions], rows: int
    ) -> Mapping[str, float]:
        """See `TabularMethod`: of every column's bins."""
        left = row_epsilon(point.epsilon, contract) * float(1 - share(contract))
        errors = expected_errors(Space.of(contract), left, rows)
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
        bins = self.choose_bins(train, contract, point, draws)
        binned = contract.with_bins(bins)

        def voters() -> DistinctRows:
            rows = contributing_rows(train, contract, draws)
            return DistinctRows.of(PrivateCodes(row_bins(train, binned)[rows]))

        found = train.once(("voters", *bins.items()), voters)
        return self._evolved(found, bins, contract, point, draws)

    def encode(self, drawn: Votes) -> bytes:
        """See `TabularMethod`."""
        histograms = [
            {
                "columns": list(histogram.columns),
                "candidates": histogram.candidates.tolist(),
                "votes": histogram.votes.tolist(),
                "scale": histogram.scale,
            }
            for histogram in drawn.histograms
        ]
        return self.with_bins(histograms, drawn.bins)

    def decode(self, content: bytes, contract: Contract, point: Point[TabPeOptions]) -> Votes:
        """See `TabularMethod`."""
        votes, bins = self.without_bins(content)
        return Votes(
            [
                Histogram(
                    tuple(stored["columns"]),
                    np.array(stored["candidates"]),
                    np.array(stored["votes"]),
                    stored["scale"],
                )
                for stored in votes
            ],
            bins,
        )

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
        return ReleasedRows(
            voted_rows(drawn.histograms, count or MADE_ROWS, chance).astype(np.uint8)
        )

    def row_count(self, drawn: Votes) -> float:
        """See `TabularMethod`."""
        return float(label_counts(drawn.histograms).sum())

    def replicate(
        self,
        truth: PrivateCodes,
        row_count: int,
        drawn: Votes,
        contract: Contract,
        point: Point[TabPeOptions],
        draws: Draws,
    ) -> Votes:
        """Steps 1 and 2."""
        again = DistinctRows.of(truth).scaled(row_count / len(truth.codes))
        return self._evolved(again, drawn.bins, contract, point, draws)

    def _evolved(
        self,
        voters: DistinctRows,
        bins: Bins,
        contract: Contract,
        point: Point[TabPeOptions],
        draws: Draws,
    ) -> Votes:
        """Steps 1 and 2: the only draw of noise."""
        left = self.left(contract, point).amount
        histograms = evolve(
            voters,
            Space.of(contract.with_bins(bins)),
            epsilon=math.inf if left is None else left,
            stream=draws.secret("votes", point.key),
            chance=draws.public("candidates", point.key).generator(),
        )
        return Votes(histograms, bins)
