"""MST-TabICL: rows drawn from a private graphical model demonstrate.

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
Paper       MST (arXiv 2108.04978) in the place of the group averages of Carey, Bhaila, Edemacu and
            Wu 2024 (arXiv 2403.05681).

    0  D  <- at most m rows of every person (where persons are protected)
    1  c  <- noisy counts of columns with the label, and of chosen pairs with it     `spanning_tree`
    2  P  <- the graphical model of these counts
       `graphical_model`
    3  z  <- k rows of P for each query
    4  E  <- serialise(z);  ask the model with (E, query)

Rows differ by the contract's public bins of every column (`bins`); a missing value is a bin of its
own.

Symbols     k shots, m the contract's most rows per person.
Not covered queries, which are sent as they are; every epsilon is a release of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any, ClassVar

import numpy as np

from dpicl.accounting.guarantee import Guarantee, Neighbours
from dpicl.contract.models import Contract
from dpicl.contract.payment import DELTA_STATED
from dpicl.contract.pipeline import Point
from dpicl.data.central.chosen_bins import NO_BINS, Bins
from dpicl.data.central.conditional import Conditional, Weights
from dpicl.data.central.exact_counts import ExactCounts, check_counts, row_bins, row_encoding
from dpicl.data.central.graphical_model import (
    GraphicalModel,
    NoisyCounts,
    NoisyMarginal,
    graphical_model,
    row_count,
)
from dpicl.data.central.spanning_tree import expected_errors, measure
from dpicl.data.reading.split import contributing_rows
from dpicl.ground.errors import ParameterError, PrivacyError
from dpicl.ground.randomness import Draws, Stream
from dpicl.ground.types import MADE_ROWS, PrivateCodes, PrivateTable, ReleasedRows
from dpicl.mechanisms.noisy_steps import GaussianTotal, PureBudget, StepBudget
from dpicl.methods.base import CellCost, check_width, for_unit, row_epsilon, spent_identity
from dpicl.methods.counted_horizon import charged_together, horizon_facts, no_whole_table
from dpicl.methods.mst_series import VERSION, Series
from dpicl.methods.options import MstOptions
from dpicl.methods.row_method import CentralRows
from dpicl.methods.tabular_method import Alternatives, Arrays


class MstTabicl(CentralRows[NoisyCounts]):
    """Steps 0 to 4 as a method: one release per epsilon, whatever the shots."""

    name = "mst_tabicl"
    title = "MST-TabICL"
    options: ClassVar[type[MstOptions]] = MstOptions
    draw_version = 2
    post_version = 4
    artefact = "released_counts.json"
    source = "counts"
    draw_stage = "measure"
    derive_stage = "reconstruct"
    triples = False
    """Whether three columns are counted together."""
    every_pair = True
    """Whether every pair of columns is looked at again for each column that joins."""
    makes_series = is_default_of_series = True

    def default_options(
        self, contract: Contract, stated: Mapping[str, Any], epsilon: float
    ) -> dict[str, Any]:
        """See `CentralRows`; a series has Gaussian noise."""
        usual = super().default_options(contract, stated, epsilon)
        return {**usual, **({"noise": "gaussian"} if self.is_series(contract) else {})}

    def refuse(self, contract: Contract, point: Point[MstOptions]) -> None:
        """A structure is chosen for a series, which has Gaussian noise. Raises ParameterError: the
        options say otherwise, or there are many columns.
        """
        if self.every_pair:
            check_width(contract, self.name)
        chosen = point.options
        if chosen.structure is not None and not self.is_series(contract):
            raise ParameterError(
                "structure",
                chosen.structure,
                f"no such option but of mst_tabicl and with releases.horizon in {contract.name}",
            )
        if self.is_series(contract) and chosen.noise != "gaussian":
            raise ParameterError(
                "noise",
                chosen.noise,
                f"gaussian: {contract.name} has a horizon of periods, which is counted with that "
                f"noise",
            )

    def series(self, contract: Contract, point: Point[MstOptions]) -> Series:
        """The horizon that a contract states. Raises PrivacyError: its budget has no such delta;
        ParameterError: there is no such structure.
        """
        self.refuse(contract, point)
        return Series.of(
            contract,
            row_encoding(contract).sizes,
            epsilon=point.epsilon,
            delta=self._checked_delta(contract, point),
            structure=point.options.structure,
        )

    def alternatives(self, contract: Contract) -> Alternatives:
        """Both kinds of noise, where the contract's budget has a delta to spend; none of a series,
        which is no release of one table.
        """
        if self.is_series(contract):
            return ()
        return (({}, 4), *([({"noise": "gaussian"}, 4)] if contract.privacy.budget.delta else []))

    def cost(self, contract: Contract, point: Point[MstOptions]) -> CellCost:
        """Of all counts. Raises ParameterError: there is more to count than fits into memory."""
        check_counts(row_encoding(contract).sizes, contract.name)
        return CellCost(self._priced(contract, point)[1])

    def _priced(self, contract: Contract, point: Point[MstOptions]) -> tuple[StepBudget, Guarantee]:
        """What the steps of a release may spend, and what that costs. Raises PrivacyError: there is
        no delta to spend.
        """
        privacy = contract.privacy
        if self.is_series(contract):
            series = self.series(contract, point)
            return series.total.budget, series.guarantee
        if point.options.noise == "laplace":
            pure = PureBudget.of(row_epsilon(point.epsilon, contract))
            return pure, for_unit(pure.guarantee(), contract)
        total = GaussianTotal.of(
            point.epsilon,
            delta=self._checked_delta(contract, point),
            neighbours=Neighbours(privacy.neighbours),
            unit=privacy.unit,
            rows=contract.rows_of_unit,
        )
        return total.budget, total.guarantee()

    def budget(self, contract: Contract, point: Point[MstOptions]) -> StepBudget:
        """See `CentralRows`."""
        return self._priced(contract, point)[0]

    def _checked_delta(self, contract: Contract, point: Point[MstOptions]) -> float:
        """Of every release with Gaussian noise. Raises PrivacyError: there is none, or it is above
        the budget's.
        """
        privacy = contract.privacy
        delta = self._delta(contract, point)
        if not delta or not (privacy.budget.benchmark or privacy.budget.delta):
            raise PrivacyError(
                f"{contract.name}: its budget has no delta, which gaussian noise needs; expected "
                f"budget.delta, or noise laplace{DELTA_STATED}"
            )
        if not privacy.budget.benchmark and delta > float(privacy.budget.delta):
            raise PrivacyError(
                f"{contract.name}: delta {delta:g} is above its budget's, "
                f"{float(privacy.budget.delta):g}; expected at most that"
            )
        return delta

    def _delta(self, contract: Contract, point: Point[MstOptions]) -> float | None:
        """Of every release; None without Gaussian noise, or where nobody states one."""
        if point.options.noise != "gaussian":
            return None
        return point.options.delta or contract.privacy.budget.delta or None

    def identity(self, contract: Contract, point: Point[MstOptions]) -> dict[str, object]:
        """See `Method`; a delta that is the budget's is written out: the budget is no part of a
        name.
        """
        chosen = point.options.model_dump(mode="json")
        delta = self._delta(contract, point)
        named = chosen if delta is None else {**chosen, "delta": delta}
        if not self.is_series(contract):
            of_row = spent_identity(contract) if point.options.noise == "laplace" else {}
            return named | self.bins_identity(contract) | of_row
        return {
            **named,
            **horizon_facts(contract),
            "structure": self.series(contract, point).structure,
            "series": VERSION,
        }

    def statement(self, contract: Contract, point: Point[MstOptions], cost: CellCost) -> str:
        """See `Method`."""
        nominal = cost.nominal
        if self.is_series(contract):
            return (
                f"{charged_together(contract, nominal)}; rows, demonstrations and answers that are "
                "made of any window of them cost nothing more."
            )
        delta = f" and delta {nominal.delta:.2g}" if nominal.delta else ""
        return (
            f"The released counts{self.bins_statement(contract)} have differential privacy with "
            f"epsilon {nominal.epsilon:.4g}{delta}; rows, demonstrations and answers that are made "
            "of them cost nothing more."
        )

    def measure(
        self, exact: ExactCounts, budget: StepBudget, stream: Stream
    ) -> list[NoisyMarginal]:
        """Step 1."""
        return measure(exact, budget=budget, stream=stream)

    def expected_errors(self, sizes: Sequence[int], budget: StepBudget, rows: int) -> list[float]:
        """Of every column but the label, the expected total variation between its noisy counts and
        so many rows.
        """
        return expected_errors(sizes, budget, rows)

    def column_errors(
        self, contract: Contract, point: Point[MstOptions], rows: int
    ) -> Mapping[str, float]:
        """See `TabularMethod`: of every column's bins."""
        if self.is_series(contract):
            errors = self.series(contract, point).column_errors(rows)
        else:
            errors = self.expected_errors(
                row_encoding(contract).sizes, self.left(contract, point), rows
            )
        return dict(zip(contract.features, errors, strict=True))

    def draw(
        self,
        train: PrivateTable,
        contract: Contract,
        point: Point[MstOptions],
        draws: Draws,
        marks: np.ndarray | None = None,
    ) -> NoisyCounts:
        """Steps 0 and 1."""
        bins = self.choose_bins(train, contract, point, draws)
        exact = self._exact_counts(train, contract.with_bins(bins), draws)
        return self._measured(exact, bins, contract, point, draws)

    def count(
        self, batch: PrivateTable, contract: Contract, point: Point[MstOptions], draws: Draws
    ) -> Arrays:
        """Exact counts of a batch."""
        return self._exact_counts(batch, contract, draws).arrays()

    def merge(
        self,
        batches: Sequence[Arrays],
        contract: Contract,
        point: Point[MstOptions],
        draws: Draws,
        bins: Bins = NO_BINS,
    ) -> NoisyCounts:
        """Step 1 from all batches' counts."""
        exact = reduce(add, map(ExactCounts.read, batches))
        return self._measured(exact, bins, contract, point, draws)

    def encode(self, drawn: NoisyCounts) -> bytes:
        """See `TabularMethod`."""
        counts = [
            {
                "columns": list(marginal.columns),
                "counts": marginal.counts.tolist(),
                "scale": marginal.scale,
            }
            | ({"noise": "gaussian"} if marginal.gaussian else {})
            for marginal in drawn.marginals
        ]
        return self.with_bins(counts, drawn.bins)

    def decode(self, content: bytes, contract: Contract, point: Point[MstOptions]) -> NoisyCounts:
        """See `TabularMethod`."""
        counts, bins = self.without_bins(content)
        return NoisyCounts(
            [
                NoisyMarginal(
                    tuple(stored["columns"]),
                    np.array(stored["counts"]),
                    stored["scale"],
                    stored.get("noise") == "gaussian",
                )
                for stored in counts
            ],
            bins,
        )

    def rows(
        self,
        drawn: NoisyCounts,
        contract: Contract,
        point: Point[MstOptions],
        draws: Draws,
        count: int | None = None,
    ) -> ReleasedRows:
        """Step 2, and rows to draw from."""
        return self.rows_where(drawn, contract, point, draws, count or MADE_ROWS, None)

    def rows_where(
        self,
        drawn: NoisyCounts,
        contract: Contract,
        point: Point[MstOptions],
        draws: Draws,
        count: int,
        where: Weights | None,
    ) -> ReleasedRows:
        """See `TabularMethod`; all rows where nothing is asked."""
        chance = draws.public("rows", point.key).generator()
        sizes = row_encoding(contract.with_bins(drawn.bins)).sizes
        model = graphical_model(sizes, drawn.marginals)
        rows = self.model_rows(model, drawn.marginals, contract, count, chance, where)
        return ReleasedRows(rows.astype(np.uint8))

    def model_rows(
        self,
        model: GraphicalModel,
        drawn: Sequence[NoisyMarginal],
        contract: Contract,
        count: int,
        chance: np.random.Generator,
        where: Weights | None = None,
    ) -> np.ndarray:
        """Step 3's rows: codes of shape (count, columns), int64."""
        given = model if where is None else Conditional.of(model, where)
        return given.rows(count, chance)

    def row_count(self, drawn: NoisyCounts) -> float:
        """See `TabularMethod`."""
        return row_count(drawn.marginals)

    def has_pairs(self, drawn: NoisyCounts) -> bool:
        """See `TabularMethod`."""
        return any(len(count.columns) > 2 for count in drawn.marginals)

    def counted(
        self, drawn: NoisyCounts, contract: Contract
    ) -> Mapping[tuple[int, ...], np.ndarray]:
        """See `TabularMethod`."""
        sizes = row_encoding(contract.with_bins(drawn.bins)).sizes
        return graphical_model(sizes, drawn.marginals).counted

    def replicate(
        self,
        truth: PrivateCodes,
        row_count: int,
        drawn: NoisyCounts,
        contract: Contract,
        point: Point[MstOptions],
        draws: Draws,
    ) -> NoisyCounts:
        """Step 1."""
        sizes = row_encoding(contract.with_bins(drawn.bins)).sizes
        exact = ExactCounts.of(truth, sizes, triples=self.triples)
        again = exact.scaled(row_count / len(truth.codes))
        return self._measured(again, drawn.bins, contract, point, draws)

    def _exact_counts(self, train: PrivateTable, contract: Contract, draws: Draws) -> ExactCounts:
        """What step 1 needs to know of the rows; private. Those of all batches of a table add
        up.
        """

        def counted() -> ExactCounts:
            codes = row_bins(train, contract)[contributing_rows(train, contract, draws)]
            return ExactCounts.of(
                PrivateCodes(codes), row_encoding(contract).sizes, triples=self.triples
            )

        bins = tuple(tuple(column.edges()) for column in contract.numbers.values())
        return train.once(("counts", bins), counted)

    def _measured(
        self,
        exact: ExactCounts,
        bins: Bins,
        contract: Contract,
        point: Point[MstOptions],
        draws: Draws,
    ) -> NoisyCounts:
        """Step 1 from exact counts of the whole table: the only draw of noise. Raises PrivacyError:
        of a series, which has counters.
        """
        if self.is_series(contract):
            raise no_whole_table(contract)
        left = self.left(contract, point)
        return NoisyCounts(self.measure(exact, left, draws.secret("counts", point.key)), bins)
