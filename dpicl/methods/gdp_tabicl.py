"""GDP-TabICL: noisy averages of public groups of a secret subsample.

Trust       Central: a curator holds the rows; only noisy averages leave.
Unit        One row; or one person, of whom at most m rows enter.
Neighbours  ADD_OR_REMOVE_ONE, or REPLACE_ONE as a removal and an addition. Epsilon is what the
            contract's unit is charged, for m rows of a person by group privacy of the amplified
            release: one row has a part e of it.
Guarantee   e'-DP before and ln(1 + q (exp e' - 1)) = e after amplification; with `epsilon_is:
            nominal` e before, and less after it; delta = 0. The demonstrations answer any number
            of queries. Of a table that grows neighbours are
            histories of it, with Gaussian noise, a delta and no subsample (`gdp_series`).
Paper       Carey, Bhaila, Edemacu and Wu 2024 (arXiv 2403.05681), algorithm 2.

    0  D <- at most m rows of every person (where persons are protected)
    1  S <- every row of D enters with probability q
    2  S_1 ... S_k <- GROUP BY public keys; every group is kept, empty or not
    3  (x^_i, y^_i) <- noisy averages of S_i
    4  E <- serialise((x^_1, y^_1) ... (x^_k, y^_k));  ask the model with (E, query)

Symbols     q public sampling rate, k shots, m the contract's most rows per person.
Not covered queries, which are sent as they are; every (epsilon, k, seed) is a release of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from dpicl.accounting.guarantee import amplify, epsilon_before
from dpicl.contract.models import Contract
from dpicl.contract.pipeline import Cell, Point, Unit
from dpicl.data.central import aggregate
from dpicl.data.central.aggregate import GroupSums, assign, partition
from dpicl.data.central.chosen_bins import NO_BINS, Bins
from dpicl.data.prompts import (
    central_demonstrations,
    central_queries,
    in_turn,
    longest_demonstration,
)
from dpicl.data.reading.split import contributing_rows
from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import Draws
from dpicl.ground.types import PrivateTable, QueryTable, ReleasedGroup, ReleasedGroups
from dpicl.mechanisms.poisson_subsample import poisson_subsample
from dpicl.methods.base import (
    ZERO_SHOT,
    CellCost,
    CellTexts,
    ShownRows,
    for_unit,
    row_epsilon,
    shots_of,
    times_of_row,
)
from dpicl.methods.evaluation import Metrics
from dpicl.methods.options import GdpOptions
from dpicl.methods.tabular_method import Alternatives, Arrays, Released, TabularMethod
from dpicl.models.requests import prompt

if TYPE_CHECKING:
    from dpicl.methods.gdp_series import GroupSeries

_FEW_SHOTS = 16
_OF_SERIES = "shared-count"
"""The allocation of a series: one count of each group for all its means."""
LEFT_OUT = -1
"""Group number of a row that is not in the subsample."""
_ROWS_PER_BLOCK = 1 << 20
"""What is taken from so many rows at a time stays in the processor's cache."""


class GdpTabicl(TabularMethod[ReleasedGroups]):
    """Steps 0 to 4: every (epsilon, k) is a release of its own."""

    name = "gdp_tabicl"
    title = "GDP-TabICL"
    trust = "central"
    baselines_read = "private"
    options = GdpOptions
    draw_version = 3
    post_version = 2
    artefact = "released_groups.json"
    prepare_stage = "subsample"
    draw_stage = "aggregate"
    makes_series = True

    def default_options(
        self, contract: Contract, stated: Mapping[str, Any], epsilon: float
    ) -> dict[str, Any]:
        """See `Method`; the groups of a series share their counts."""
        return {"allocation": _OF_SERIES} if self.is_series(contract) else {}

    def systems(self, options: GdpOptions) -> tuple[str, ...]:
        """See `Method`: all groups are shown, in one way."""
        return ()

    def refuse(self, contract: Contract, point: Point[GdpOptions]) -> None:
        """A number of shots that the contract has no groups for; relations, which averages do not
        keep; a subsample, or another division of epsilon, of a series, which has none.
        """
        if contract.relations:
            expected = (
                f"a method that releases rows: averages do not keep the `relations` of "
                f"{contract.name}"
            )
            raise ParameterError("method", self.name, expected)
        if point.shots not in contract.shots:
            raise ParameterError(
                "shots",
                point.shots,
                f"one of {', '.join(map(str, contract.shots))}: {contract.name} has groups for "
                f"these",
            )
        if self.is_series(contract):
            _refuse_of_series(contract, point)

    def series(self, contract: Contract, point: Point[GdpOptions]) -> GroupSeries:
        """See `TabularMethod`; its delta is the budget's. Raises ParameterError: the options are of
        no series.
        """
        from dpicl.methods.gdp_series import GroupSeries

        self.refuse(contract, point)
        return GroupSeries.of(
            contract,
            shots_of(point),
            origin=point.options.sum_origin,
            epsilon=point.epsilon,
            delta=float(contract.privacy.budget.delta or 0),
        )

    def cost(self, contract: Contract, point: Point[GdpOptions]) -> CellCost:
        """Before and after amplification, under the contract's neighbours; of a series there is
        none.
        """
        if self.is_series(contract):
            return CellCost(self.series(contract, point).guarantee)
        nominal = aggregate.guarantee(
            partition(contract, shots_of(point)),
            contract,
            epsilon=nominal_epsilon(contract, point),
            options=aggregated_by(point),
        )
        return CellCost(
            for_unit(nominal, contract),
            for_unit(amplify(nominal, rate_of(contract, point)), contract),
        )

    def identity(self, contract: Contract, point: Point[GdpOptions]) -> dict[str, object]:
        """See `Method`."""
        if self.is_series(contract):
            from dpicl.methods.counted_horizon import horizon_facts
            from dpicl.methods.gdp_series import VERSION

            return {
                "delta": float(contract.privacy.budget.delta or 0),
                "sum_origin": point.options.sum_origin,
                **horizon_facts(contract),
                "series": VERSION,
            }
        return {
            "sampling_rate": str(rate_of(contract, point)),
            "allocation": point.options.allocation,
            "sum_origin": point.options.sum_origin,
            **_spent(contract, point),
        }

    def statement(self, contract: Contract, point: Point[GdpOptions], cost: CellCost) -> str:
        """See `Method`."""
        if self.is_series(contract):
            from dpicl.methods.counted_horizon import charged_together

            return (
                f"{charged_together(contract, cost.nominal)}; averages of any window of them, of "
                "all rows and no subsample, answer any number of queries. Another number of shots "
                "is another release and charged again."
            )
        subsample = (
            f", which is what is charged; without the secret subsample it would be "
            f"{cost.nominal.epsilon:.4g}"
            if cost.nominal.epsilon > cost.charged.epsilon
            else ""
        )
        return (
            f"Each released set of demonstrations has differential privacy with epsilon "
            f"{cost.charged.epsilon:.4g}{subsample}. It answers any number of queries. Another "
            f"number of shots is another release and charged again."
        )

    def alternatives(self, contract: Contract) -> Alternatives:
        """See `TabularMethod`: some numbers of groups, where epsilon is what is charged; none of a
        series, which is no release of one table.
        """
        if self.is_series(contract):
            return ()
        few = [shots for shots in contract.shots if 1 < shots <= _FEW_SHOTS] or [1]
        return [
            ({"allocation": "shared-count", "epsilon_is": "amplified"}, shots)
            for shots in few[:1] + few[1:][-1:]
        ]

    def column_errors(
        self, contract: Contract, point: Point[GdpOptions], rows: int
    ) -> Mapping[str, float]:
        """See `TabularMethod`: of group averages, in widths of a column's bounds."""
        if self.is_series(contract):
            return self.series(contract, point).column_errors(rows)
        return aggregate.expected_errors(
            partition(contract, shots_of(point)),
            contract,
            epsilon=nominal_epsilon(contract, point),
            options=aggregated_by(point),
            rows=float(rows * rate_of(contract, point)),
        )

    def prepare(
        self, train: PrivateTable, contract: Contract, point: Point[GdpOptions], draws: Draws
    ) -> np.ndarray:
        """Steps 0 to 2: each row's group number or `LEFT_OUT`; private."""
        bounded = train.once("rows", lambda: contributing_rows(train, contract, draws))
        sample = poisson_subsample(
            len(bounded),
            sampling_rate=rate_of(contract, point),
            stream=draws.secret("subsample", point.key),
        )
        rows = bounded[sample]
        members = np.full(train.row_count, LEFT_OUT, dtype=np.int16)
        members[rows] = assign(train, contract, shots_of(point), rows)
        return members

    def draw(
        self,
        train: PrivateTable,
        contract: Contract,
        point: Point[GdpOptions],
        draws: Draws,
        marks: np.ndarray | None = None,
    ) -> ReleasedGroups:
        """Step 3."""
        assert marks is not None
        rows = np.flatnonzero(marks != LEFT_OUT)
        return _noised(_sums(train, rows, marks[rows], contract, point), contract, point, draws)

    def count(
        self, batch: PrivateTable, contract: Contract, point: Point[GdpOptions], draws: Draws
    ) -> Arrays:
        """Steps 1 and 2 on one batch, and its exact sums of step 3; `draws` are the batch's own."""
        stream = draws.secret("subsample", point.key)

        def of_block(start: int) -> GroupSums:
            count = min(_ROWS_PER_BLOCK, batch.row_count - start)
            rows = start + poisson_subsample(
                count, sampling_rate=rate_of(contract, point), stream=stream
            )
            members = assign(batch, contract, shots_of(point), rows)
            return _sums(batch, rows, members, contract, point)

        starts = range(0, max(batch.row_count, 1), _ROWS_PER_BLOCK)
        return reduce(add, map(of_block, starts)).arrays

    def merge(
        self,
        batches: Sequence[Arrays],
        contract: Contract,
        point: Point[GdpOptions],
        draws: Draws,
        bins: Bins = NO_BINS,
    ) -> ReleasedGroups:
        """Step 3 from all batches' sums."""
        return _noised(reduce(add, map(GroupSums, batches)), contract, point, draws)

    def encode(self, drawn: ReleasedGroups) -> bytes:
        """See `TabularMethod`."""
        rows = [
            {"key": list(group.key), "values": dict(group.values), "label": group.label}
            for group in drawn.groups
        ]
        return json.dumps(rows, allow_nan=False).encode()

    def decode(
        self, content: bytes, contract: Contract, point: Point[GdpOptions]
    ) -> ReleasedGroups:
        """See `TabularMethod`."""
        return ReleasedGroups(
            tuple(
                ReleasedGroup(tuple(group["key"]), group["values"], group["label"])
                for group in json.loads(content)
            )
        )

    def examples(
        self, released: Released[ReleasedGroups], contract: Contract, unit: Unit, draws: Draws
    ) -> CellTexts:
        """The same for all queries, labels in turn and the first group first: by released labels
        and public keys.
        """
        return {
            cell: central_demonstrations(
                ReleasedGroups(tuple(in_turn(groups.groups, lambda group: group.label))), contract
            )
            for cell, groups in released.draws.items()
        }

    def longest_demonstration(self, contract: Contract, unit: Unit) -> str:
        """See `TabularMethod`."""
        return longest_demonstration(contract)

    def prompts(
        self,
        released: Released[ReleasedGroups],
        queries: QueryTable,
        contract: Contract,
        unit: Unit,
        draws: Draws,
    ) -> CellTexts:
        """Step 4: one prompt per query and cell, and the zero-shot ones."""
        texts = central_queries(queries, contract)
        examples = {ZERO_SHOT: list[str](), **self.examples(released, contract, unit, draws)}
        return {cell: [prompt(shown, text) for text in texts] for cell, shown in examples.items()}

    def baselines(
        self,
        released: Released[ReleasedGroups],
        train: PrivateTable | None,
        test: QueryTable,
        contract: Contract,
        unit: Unit,
        draws: Draws,
    ) -> dict[Cell, Metrics]:
        """diffprivlib's models on private rows at every epsilon, fair and naive, scikit-learn's at
        infinity: on benchmarks only.
        """
        from dpicl.methods.baselines import central_baselines

        assert train is not None
        measured = {}
        for epsilon in unit.epsilons:
            stream = draws.secret("baselines", f"epsilon={epsilon}")
            rows = poisson_subsample(
                train.row_count, sampling_rate=contract.privacy.sampling_rate, stream=stream
            )
            sample = PrivateTable(train.data.take(rows))
            for name, metrics in central_baselines(
                train, sample, test, contract, epsilon=epsilon, stream=stream
            ).items():
                measured[Cell(name, epsilon)] = metrics
        return measured

    def shown(
        self, released: Released[ReleasedGroups], contract: Contract, unit: Unit
    ) -> ShownRows:
        """One row per group, dates as people write them."""
        return [
            {
                "cell": cell.key,
                "group": " & ".join(group.key),
                **({"label": contract.target.answers[group.label]} if contract.label else {}),
                **{
                    name: contract.columns[name].shown(value)
                    for name, value in group.values.items()
                },
            }
            for cell, groups in released.draws.items()
            for group in groups.groups
        ]


def _sums(
    rows: PrivateTable,
    positions: np.ndarray,
    members: np.ndarray,
    contract: Contract,
    point: Point[GdpOptions],
) -> GroupSums:
    """Exact sums of the rows at these positions, of which each is a member of this group."""
    groups = partition(contract, shots_of(point))
    return aggregate.exact_sums(
        rows, positions, members, groups, contract, options=aggregated_by(point)
    )


def _noised(
    sums: GroupSums, contract: Contract, point: Point[GdpOptions], draws: Draws
) -> ReleasedGroups:
    """Step 3 from exact sums of the whole subsample: the only draw of noise. Raises PrivacyError:
    of a series, which has counters.
    """
    if contract.releases.horizon is not None:
        from dpicl.methods.counted_horizon import no_whole_table

        raise no_whole_table(contract)
    return aggregate.noised(
        sums,
        partition(contract, shots_of(point)),
        contract,
        epsilon=nominal_epsilon(contract, point),
        options=aggregated_by(point),
        stream=draws.secret("aggregate", point.key),
    )


def _refuse_of_series(contract: Contract, point: Point[GdpOptions]) -> None:
    """Raises ParameterError: a subsample is stated, or another division of epsilon than counters
    have.
    """
    privacy = contract.privacy
    rate = point.sampling_rate
    if rate is None and "sampling_rate" in privacy.model_fields_set:
        rate = privacy.sampling_rate
    if rate is not None and rate < 1:
        expected = (
            f"1: all rows of a period enter the counters of {contract.name}, whose horizon has no "
            "secret subsample; a pipeline's `sampling_rates: [1]`, or `dpicl run --sampling-rates "
            "1`, says so; a change of the contract begins all of its horizons anew"
        )
        raise ParameterError("sampling_rate", str(rate), expected)
    if point.options.allocation != _OF_SERIES:
        raise ParameterError(
            "allocation",
            point.options.allocation,
            f"{_OF_SERIES}: {contract.name} has a horizon of periods, whose groups have one count "
            f"each",
        )


def _spent(contract: Contract, point: Point[GdpOptions]) -> dict[str, object]:
    """In a release's name, what its epsilon is the sum of: without a word, what one row costs
    before sampling.
    """
    sampled, rows = rate_of(contract, point) < 1, times_of_row(contract) > 1
    if sampled and point.options.epsilon_is == "nominal":
        return {"spent": "before-sampling"} if rows else {}
    return {"spent": "in-all"} if sampled or rows else {}


def nominal_epsilon(contract: Contract, point: Point[GdpOptions]) -> float:
    """Of the averages, before amplification, for one row; with `epsilon_is: amplified`, so that the
    release's own is what is charged.
    """
    own = row_epsilon(point.epsilon, contract)
    if point.options.epsilon_is == "nominal":
        return own
    return epsilon_before(own, rate_of(contract, point))


def rate_of(contract: Contract, point: Point[GdpOptions]) -> Fraction:
    """The public sampling rate of a release: its own, or the contract's."""
    return point.sampling_rate or contract.privacy.sampling_rate


def aggregated_by(point: Point[GdpOptions]) -> aggregate.AggregateOptions:
    """How a release's averages are taken."""
    return aggregate.AggregateOptions(point.options.allocation, point.options.sum_origin)
