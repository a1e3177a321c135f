"""MST-TabICL of a table that grows: one horizon of periods under one budget, of which any window is
a graphical model at no further cost.

Trust       Central: the curator keeps every period's exact counts; only noisy sums and the chosen
            pairs leave.
Unit        One row; or one person, of whom at most c rows enter in a period and k in the horizon
            (`data.reading.split`).
Neighbours  Histories, as of `continual_counts`: ADD_OR_REMOVE_ONE, or REPLACE_ONE.
Guarantee   (epsilon, delta)-DP of all that is published in all periods together: mu-GDP, charged
            once with the first. Deliveries, and in which periods a person takes part, may depend on
            what was published before.
Paper       MST [MMS21], counted by the counters of [HKU25] (`continual_counts`) in the place of one
            noisy count.

    (1)  s_t  <- counters of every column with the label, t = 1 .. T                        1/3 of
         mu^2
    (2)  in period u: the pairs that join columns to a tree, or none, by a noisy maximum of
         scores of all rows until then, given (1)                       `spanning_tree`     1/6,
         over d - 1 choices
    (3)  p_t  <- counters of these pairs with the label, t = u .. T; all rows until u are
         the first delivery                                                                 1/2,
         over as many as were chosen
    (4)  of a window [a, z]: noisy counts of columns, and of pairs where a = 1 or a > u;
         their model as of any release of MST-TabICL                    `graphical_model`

Proof: (1) and (3) are each the post-processing of so many seconds of one Brownian motion, on every
path (`continual_counts`), and so is a choice (`noisy_steps`): a score moves by a row at most, be it
counted 1 or -1, so that a unit moves the difference of two by 2 k, or 4 k where its rows are
replaced. How many pairs share (3) is known when it begins. All are interleaved, and together last
mu^2 seconds [ST22].

Symbols     d columns but the label, T periods, u the structure's, mu of (epsilon, delta).
Not covered more rows of a unit than k and c; the number of periods, which is public.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import chain
from math import prod
from typing import Any

import numpy as np

from dpicl.accounting.guarantee import Neighbours
from dpicl.contract.models import Contract
from dpicl.data.central.exact_counts import ExactCounts, row_bins, variation_of_noise
from dpicl.data.central.graphical_model import NoisyCounts, NoisyMarginal
from dpicl.data.central.junction_tree import Scope
from dpicl.data.central.spanning_tree import CHOICE, FIRST, SECOND, Pair, joining_pairs, pair_scores
from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import Stream
from dpicl.ground.types import PrivateCodes, PrivateTable
from dpicl.mechanisms.continual_counts import ContinualCounts, Contribution, Windows
from dpicl.mechanisms.noisy_steps import GaussianBudget, GaussianTotal
from dpicl.methods.counted_horizon import (
    Arrays,
    Compared,
    CountedHorizon,
    WindowRows,
    contribution_of,
    drawable,
    total_of,
)

VERSION = 1
"""Raised when the same parameters would draw by another law: in a horizon's name."""
COLUMNS, PAIRS, CHOSEN = "columns", "pairs", "chosen"
"""What is published of a period: noisy sums over columns, shape (cells,); from the structure's on
those over pairs, and in it which these are, shape (pairs, 2).
"""


@dataclass(frozen=True)
class Series(CountedHorizon[ExactCounts, NoisyCounts]):
    """One horizon: its counters, and what they cost together. `sizes` are numbers of bins, the
    label last.
    """

    sizes: tuple[int, ...]
    periods: int
    contribution: Contribution
    total: GaussianTotal
    structure: int
    error_is = (
        "What noise alone is expected to do to a column: the share of rows that its counts have "
        "in another bin than they should (total variation, 1 at "
        "most), by as many rows as the sums say there are"
    )

    @staticmethod
    def of(
        contract: Contract,
        sizes: Sequence[int],
        *,
        epsilon: float,
        delta: float,
        structure: int | None,
    ) -> Series:
        """The horizon that a contract states. Raises ParameterError: it has no such period as the
        structure's, or too much noise.
        """
        periods = len(contract.periods)
        chosen = structure or max(1, periods // 12)
        if chosen > periods:
            raise ParameterError(
                "structure",
                structure,
                f"one of the {periods} periods of {contract.name}, counted from 1",
            )
        made = Series(
            tuple(sizes),
            periods,
            contribution_of(contract),
            total_of(contract, epsilon=epsilon, delta=delta),
            chosen,
        )
        return drawable(made, contract, epsilon)

    @property
    def stated(self) -> dict[str, Any]:
        """See `CountedHorizon`."""
        return {"sizes": self.sizes, "structure": self.structure}

    @cached_property
    def counters(self) -> ContinualCounts:
        """Equation (1); see `CountedHorizon`."""
        share = FIRST if self.features > 1 else Fraction(1)
        return ContinualCounts.spending(
            self.budget.times(share),
            self.periods,
            self.features,
            self.contribution,
            self.total.neighbours,
        )

    def largest(self) -> list[ContinualCounts]:
        """See `CountedHorizon`: of pairs as many as a tree has, each of which adds to the noise."""
        return [self.counters, *([self.pairs(self.features - 1)] if self.features > 1 else [])]

    def pairs(self, count: int) -> ContinualCounts:
        """Equation (3) of so many pairs."""
        most = self.contribution.rows
        unit = (
            self.contribution
            if self.structure == 1
            else replace(self.contribution, per_period=most)
        )
        return ContinualCounts.spending(
            self.budget.times(SECOND),
            self.periods - self.structure + 1,
            count,
            unit,
            self.total.neighbours,
        )

    @property
    def features(self) -> int:
        """Columns but the label."""
        return len(self.sizes) - 1

    def counted(self, rows: PrivateTable, contract: Contract, places: np.ndarray) -> ExactCounts:
        """Over every column and every two of the rows at these positions."""
        return ExactCounts.of(PrivateCodes(row_bins(rows, contract)[places]), self.sizes)

    def needed(self, counts: ExactCounts, released: Sequence[Arrays]) -> ExactCounts:
        """See `CountedHorizon`."""
        period = len(released) + 1
        return self.kept(
            counts,
            period,
            chosen_pairs(released[self.structure - 1]) if period > self.structure else None,
        )

    def packed(self, counts: ExactCounts) -> tuple[dict[str, Any], np.ndarray]:
        """See `CountedHorizon`."""
        about = {"sizes": counts.sizes, "scopes": list(counts.tables)}
        return about, np.concatenate([table.ravel() for table in counts.tables.values()])

    def unpacked(self, about: Mapping[str, Any], flat: np.ndarray) -> ExactCounts:
        """See `CountedHorizon`."""
        sizes = tuple(about["sizes"])
        scopes = [tuple(scope) for scope in about["scopes"]]
        shapes = [tuple(sizes[column] for column in scope) for scope in scopes]
        tables = np.split(flat, np.cumsum(list(map(prod, shapes)))[:-1])
        return ExactCounts(
            sizes,
            {
                scope: table.reshape(shape)
                for scope, shape, table in zip(scopes, shapes, tables, strict=True)
            },
        )

    def kept(self, counts: ExactCounts, period: int, chosen: Sequence[Pair] | None) -> ExactCounts:
        """Of a period's exact counts those that later periods need: over all pairs until they are
        chosen, then over the chosen ones.
        """
        scopes = {(*pair, self.features) for pair in chosen or ()}
        every = period <= self.structure and self.features > 1
        return ExactCounts(
            counts.sizes,
            {
                scope: table
                for scope, table in counts.tables.items()
                if len(scope) == 2 or every or scope in scopes
            },
        )

    def draw(
        self, history: Sequence[ExactCounts], released: Sequence[Arrays], stream: Stream
    ) -> dict[str, np.ndarray]:
        """What is published in the last period of `history`, whose periods before published
        `released`: the only draw of noise.
        """
        period = len(history)
        drawn = {
            COLUMNS: self.counters.release(
                (_vector(night, self._column_scopes) for night in history),
                period=period,
                stream=stream,
            )
        }
        if period < self.structure or self.features == 1:
            return drawn
        if period == self.structure:
            chosen = list(self._choice(history, [*released, drawn], stream))
            drawn[CHOSEN] = np.array(chosen, dtype=np.int64).reshape(-1, 2)
        else:
            chosen = chosen_pairs(released[self.structure - 1]) or []
        if chosen:
            deliveries = self._pair_deliveries(history, [(*pair, self.features) for pair in chosen])
            drawn[PAIRS] = self.pairs(len(chosen)).release(
                deliveries, period=period - self.structure + 1, stream=stream
            )
        return drawn

    def window(self, released: Sequence[Arrays], first: int, last: int) -> NoisyCounts:
        """Equation (4): noisy counts of the rows of the periods `first` to `last`; `released` is
        what periods 1 to `last` published. Raises ParameterError: there are no such periods.
        """
        marginals = self._marginals(
            self.counters,
            (arrays[COLUMNS] for arrays in released[:last]),
            first,
            last,
            self._column_scopes,
        )
        pairs = chosen_pairs(released[self.structure - 1]) if last >= self.structure else None
        merged = self.structure - 1
        if pairs and (first == 1 or first > self.structure):
            counters = self.pairs(len(pairs))
            scopes = [(*pair, self.features) for pair in pairs]
            sums = (arrays[PAIRS] for arrays in released[merged:last])
            marginals += self._marginals(
                counters, sums, max(1, first - merged), last - merged, scopes
            )
        return NoisyCounts(marginals)

    def window_rows(self, released: Sequence[Arrays], windows: Windows) -> WindowRows:
        """See `CountedHorizon`: from every column's sum, as their noise is independent."""
        counters = self.counters
        cells = np.array([size * self.sizes[-1] for size in self.sizes[:-1]])
        ends = np.cumsum(cells)[:-1]
        totals = counters.windows(
            (
                np.array([part.sum() for part in np.split(arrays[COLUMNS], ends)])
                for arrays in released
            ),
            windows,
        )
        of_counts = self.deviations(windows)
        weights = 1 / cells
        return WindowRows(
            totals @ weights / weights.sum(), of_counts / np.sqrt(weights.sum()), of_counts
        )

    def errors(self, released: Sequence[Arrays], windows: Windows) -> list[np.ndarray]:
        """See `CountedHorizon`."""
        seen = self.window_rows(released, windows)
        noise = zip(seen.rows, seen.of_counts, strict=True)
        return [
            np.array(variation_of_noise(self.sizes, deviation, max(1, round(rows))))
            for rows, deviation in noise
        ]

    def compared(self, released: Sequence[Arrays], windows: Windows) -> Iterator[Compared]:
        """See `CountedHorizon`: columns with the label."""
        sums = [arrays[COLUMNS] for arrays in released]
        scopes = self._column_scopes
        counted = [
            self._marginals(self.counters, sums[:last], first, last, scopes)
            for first, last in windows
        ]
        for column, marginals in enumerate(zip(*counted, strict=True)):
            counts = np.stack([marginal.counts.ravel() for marginal in marginals])
            yield Compared(column, counts, np.eye(counts.shape[1]))

    def column_errors(self, rows: int) -> list[float]:
        """Of every column but the label, the expected total variation between noisy counts of all
        periods and so many rows; at most 1.
        """
        return variation_of_noise(self.sizes, float(self.deviations([(1, self.periods)])[0]), rows)

    @property
    def _column_scopes(self) -> list[Scope]:
        return [(column, self.features) for column in range(self.features)]

    def _choice(
        self, history: Sequence[ExactCounts], released: Sequence[Arrays], stream: Stream
    ) -> Iterator[Pair]:
        """Equation (2). Rows are expected to go on arriving as they did: noise counts for less
        where more of the horizon is to come.
        """
        budget = self.budget.times(CHOICE / (self.features - 1))
        spread = (
            2
            * self.contribution.rows
            * (2 if self.total.neighbours is Neighbours.REPLACE_ONE else 1)
        )
        counters = self.pairs(self.features - 1)
        to_come = Fraction(self.periods, self.structure)
        last = counters.covariance([(1, counters.periods)])[0, 0]
        later = GaussianBudget(to_come**2 / Fraction(last) if last else None)
        scores = pair_scores(
            _added(history), self.window(released, 1, self.structure).marginals, later
        )
        yield from joining_pairs(
            scores, self.features, lambda ones: budget.chosen(ones, spread=spread, stream=stream)
        )

    def _pair_deliveries(
        self, history: Sequence[ExactCounts], scopes: Sequence[Scope]
    ) -> Iterator[np.ndarray]:
        vectors = (_vector(night, scopes) for night in history)
        first = sum(
            (next(vectors).astype(np.int64) for _ in range(self.structure - 1)),
            start=next(vectors).astype(np.int64),
        )
        yield from chain([first], vectors)

    def _marginals(
        self,
        counters: ContinualCounts,
        sums: Iterable[np.ndarray],
        first: int,
        last: int,
        scopes: Sequence[Scope],
    ) -> list[NoisyMarginal]:
        (counts,) = counters.windows(sums, [(first, last)])
        scale = float(counters.covariance([(first, last)])[0, 0]) ** 0.5
        shapes = [tuple(self.sizes[column] for column in scope) for scope in scopes]
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
        tables = zip(scopes, shapes, np.split(counts, ends), strict=True)
        return [
            NoisyMarginal(scope, cells.reshape(shape), scale, gaussian=True)
            for scope, shape, cells in tables
        ]


def chosen_pairs(released: Arrays) -> list[Pair] | None:
    """The pairs that a period's release names; None before they were chosen."""
    if CHOSEN in released:
        return [(int(column), int(other)) for column, other in released[CHOSEN]]
    return None


def _vector(counts: ExactCounts, scopes: Sequence[Scope]) -> np.ndarray:
    """One after another, signed."""
    return np.concatenate([counts.tables[scope].ravel() for scope in scopes])


def _added(history: Sequence[ExactCounts]) -> ExactCounts:
    wide = [
        ExactCounts(
            night.sizes, {scope: table.astype(np.int64) for scope, table in night.tables.items()}
        )
        for night in history
    ]
    total = wide[0]
    for more in wide[1:]:
        total = total + more
    return total
