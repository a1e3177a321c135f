"""What a row adds to counters of public groups: whole numbers, of which their averages are made.

Trust       Central: sums of rows stay with the curator; only `continual_counts` may make something
            of them that leaves.
Unit        One row.
Neighbours  ADD_OR_REMOVE_ONE: one row adds its vector v of (1), or takes it back. |v|^2 <= M of
            (3), and a number of v may be negative.
Guarantee   none by itself: it is that of counters whose squared norm is M.
Paper       DP-TabICL algorithm 2, its averages (`aggregate`), with all of a row's numbers under one
            Gaussian noise.

    (1)  v    =  (0, .., 0, v_g, 0, .., 0),   g the one group of the row
         v_g  =  (w_n;  u_j and w [x_j is missing], of every number;  w at the row's category, of
              every category column and the label)
    (2)  u_j  =  x_j, clipped to its bounds in this group, on a grid of w steps from their middle to
         each of them; 0 where it is missing
    (3)  M    =  the largest w_n^2 + (m + h) w^2 of any group;   w = floor(2^b / sqrt a),  w_n =
         floor(2^b sqrt(c / a)),  a = m + h + c
    (4)  released, of noisy sums V:   n^ = the estimate of least variance of V_n / w_n and all
         histograms' sums over w;
         a mean, V_j over n^ less those that are missing, clipped to its bounds;   a category, the
         largest of its histogram

Proof of (3): a row is in one group, whose predicates part all rows. There it adds w_n to one
number; of each number column, either at most w to its sum (clipped: |u_j| <= w) or w to its missing
ones, never both; and w to one cell of each histogram. Columns of which the predicate allows one
value are not counted. Only the sums of number columns, m w^2 of it at most, may be negative; with
`lower` none is, as the w steps are then those of the whole width, from 0.

Why these weights: noise of deviation s moves a mean by about s / 2n sqrt(1 / w^2 + r^2 / w_n^2) of
its width, r how far from the middle it is, in halves of the width. Under a fixed |v|^2 the sum of
its square over m columns is least at w_n^2 = r sqrt(m) w^2; r^2 = 1/3 as of values that are
anywhere. A histogram weighs as a number does. Groups of few open columns have larger weights, so
that every group uses all of M.

Symbols     m number columns and h histograms that a group's predicate leaves open, c = sqrt(m / 3),
            or 1 where nothing is open; b = 12.
Not covered columns' rounding to w steps, a bias of 1 / 4w of the width at most (1 / 2w with
`lower`), and none at the bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import floor, sqrt

import numpy as np

from dpicl.contract.models import Contract
from dpicl.data.central.aggregate import Group, GroupSums, group_sums, known_value, open_codes
from dpicl.ground.types import PrivateTable, ReleasedGroup, ReleasedGroups
from dpicl.mechanisms.noisy_mean import Grid, Origin, mean_of

BITS = 12
"""b: of the length of a row's vector."""
OF_LABEL = ""
"""In the place of a column's name."""


@dataclass(frozen=True)
class Part:
    """The cells of one open column in one group: of a number its sum, and how many are missing
    where some may be; else those of `codes`.
    """

    column: str
    cells: slice
    grid: Grid | None = None
    codes: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """How many cells these are."""
        return int(self.cells.stop - self.cells.start)


@dataclass(frozen=True)
class GroupCells:
    """One group's cells: `count` is the place of the number of its rows, None where a histogram
    says it; weights are those of (3).
    """

    group: Group
    weight: int
    count_weight: int
    count: int | None
    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        """How many cells there are."""
        return (self.count is not None) + sum(part.size for part in self.parts)

    @property
    def squared_norm(self) -> int:
        """What one row of the group adds, squared, at most."""
        return len(self.parts) * self.weight**2 + (
            0 if self.count is None else self.count_weight**2
        )

    @property
    def squared_sums(self) -> int:
        """What one row adds to the sums of number columns, squared, at most."""
        return sum(part.grid is not None for part in self.parts) * self.weight**2

    @cached_property
    def rows(self) -> tuple[np.ndarray, np.ndarray, float]:
        """n^ of (4): the places of cells and their weights in it, both of shape (cells,); and its
        variance where a cell's is 1.
        """
        exact = [(np.array([self.count]), self.count_weight)] if self.count is not None else []
        exact += [
            (np.arange(part.cells.start, part.cells.stop), self.weight)
            for part in self.parts
            if part.codes
        ]
        inverse = [weight**2 / len(places) for places, weight in exact]
        whole = sum(inverse)
        weights = [
            np.full(len(places), share / whole / weight)
            for (places, weight), share in zip(exact, inverse, strict=True)
        ]
        return np.concatenate([places for places, _ in exact]), np.concatenate(weights), 1 / whole


@dataclass(frozen=True)
class GroupVectors:
    """The vectors of one partition of a contract's rows."""

    contract: Contract
    groups: tuple[Group, ...]
    origin: Origin

    @cached_property
    def cells(self) -> tuple[GroupCells, ...]:
        """Of every group, one after another."""
        made, start = [], 0
        for group in self.groups:
            made.append(self._cells(group, start))
            start += made[-1].size
        return tuple(made)

    @property
    def size(self) -> int:
        """How many numbers a vector has."""
        return sum(cell.size for cell in self.cells)

    @property
    def squared_norm(self) -> int:
        """M of (3): from the whole numbers that are added, whatever they should be."""
        return max(cell.squared_norm for cell in self.cells)

    @property
    def signed(self) -> Fraction:
        """Of M, what a row's sums of numbers may have, the only ones that may be negative: the
        largest m w^2 of any group, over M.
        """
        largest = max(cell.squared_sums for cell in self.cells)
        return Fraction(0 if self.origin == "lower" else largest, self.squared_norm)

    def exact(self, table: PrivateTable, rows: np.ndarray, members: np.ndarray) -> np.ndarray:
        """The sum of the vectors of the rows at these positions, each in the group that `members`
        says: shape (cells,), int64; private.
        """
        grids = {
            name: [
                next((part.grid for part in cell.parts if part.column == name), None)
                for cell in self.cells
            ]
            for name in self.contract.features
            if name in self.contract.numbers
        }
        sums = group_sums(table, rows, members, len(self.groups), self.contract, grids)
        vector = np.zeros(self.size, dtype=np.int64)
        for number, group in enumerate(self.cells):
            if group.count is not None:
                vector[group.count] = group.count_weight * int(sums.arrays["rows"][number])
            for part in group.parts:
                vector[part.cells] = _summed(sums, part, number, group.weight)
        return vector

    def rows(self, noisy: np.ndarray) -> np.ndarray:
        """n^ of (4) of every group, of noisy sums of shape (cells,) or (windows, cells): shape
        (groups,) or (windows, groups).
        """
        return np.stack(
            [
                noisy[..., places] @ weights
                for places, weights, _ in (cell.rows for cell in self.cells)
            ],
            axis=-1,
        )

    def averages(self, noisy: np.ndarray) -> ReleasedGroups:
        """Equation (4) of noisy sums of shape (cells,)."""
        rows, released = self.rows(noisy), []
        for group, count in zip(self.cells, rows.tolist(), strict=True):
            found = {
                part.column: self._average(part, noisy[part.cells], count, group.weight)
                for part in group.parts
            }
            values = {
                name: found[name] if name in found else self._stated(name, group.group)
                for name in self.contract.features
            }
            label = int(found[OF_LABEL]) if group.group.label is None else group.group.label
            released.append(ReleasedGroup(group.group.key, values, label))
        return ReleasedGroups(tuple(released))

    def errors(self, rows: Sequence[float], deviation: float) -> dict[str, float]:
        """What noise of this deviation in every cell is expected to do to a column, at so many rows
        of each group: to a mean, in widths of its bounds; to a histogram's cell, in rows of the
        group. In the group where it is most, at most 1; nothing of what the key says.
        """
        worst = dict.fromkeys(self.contract.features, 0.0)
        for group, count in zip(self.cells, rows, strict=True):
            noise = sqrt(2 / np.pi) * deviation / max(count, 1.0)
            for part in group.parts:
                if part.column in worst:
                    worst[part.column] = min(
                        1.0, max(worst[part.column], noise * self._spread(group, part))
                    )
        return worst

    def _spread(self, group: GroupCells, part: Part) -> float:
        """Of one column's average, where noise of deviation 1 is in every cell, times the group's
        rows.
        """
        if part.grid is None:
            return 1 / group.weight
        missing = 1 / group.weight**2 if part.size > 1 else 0.0
        squares = 1 / group.weight**2 + (group.rows[2] + missing) / 3
        return sqrt(squares) * (1.0 if self.origin == "lower" else 0.5)

    def _cells(self, group: Group, start: int) -> GroupCells:
        """One group's; its first cell is `start`."""
        numbers, histograms = self._open(group)
        of_count = sqrt(len(numbers) / 3) if numbers else float(not histograms)
        whole = len(numbers) + len(histograms) + of_count
        weight, count_weight = (floor(2**BITS * sqrt(share / whole)) for share in (1.0, of_count))
        place, parts = start + bool(of_count), []
        for name in numbers:
            size = 2 if self.contract.columns[name].nullable else 1
            parts.append(Part(name, slice(place, place + size), self._grid(name, group, weight)))
            place += size
        for name, codes in histograms.items():
            parts.append(Part(name, slice(place, place + len(codes)), None, codes))
            place += len(codes)
        return GroupCells(group, weight, count_weight, start if of_count else None, tuple(parts))

    def _open(self, group: Group) -> tuple[list[str], dict[str, tuple[int, ...]]]:
        """Columns of which the predicate allows several values: numbers; and the codes of
        categories, the label's last.
        """
        unknown = [
            name
            for name in self.contract.features
            if known_value(name, group, self.contract) is None
        ]
        histograms = {
            name: open_codes(name, group, self.contract)
            for name in unknown
            if name in self.contract.listed
        }
        numbers = [name for name in unknown if name in self.contract.numbers]
        if group.label is None:
            histograms[OF_LABEL] = tuple(range(self.contract.target.count))
        return numbers, histograms

    def _grid(self, name: str, group: Group, weight: int) -> Grid:
        """Equation (2)."""
        low, high = group.open.get(name, self.contract.numbers[name].bounds)
        grid = Grid(
            low,
            high,
            step=(high - low) / (weight if self.origin == "lower" else 2 * weight),
            origin=self.origin,
        )
        assert grid.sensitivity <= weight
        return grid

    def _average(self, part: Part, noisy: np.ndarray, count: float, weight: int) -> float | str:
        """Of one column; a label's code as a number."""
        if part.grid is not None:
            known = count - float(noisy[1]) / weight if part.size > 1 else count
            return mean_of(float(noisy[0]), known, part.grid)
        code = part.codes[int(np.argmax(noisy))]
        declared = self.contract.listed.get(part.column)
        return float(code) if declared is None else declared.categories[code]

    def _stated(self, name: str, group: Group) -> float | str:
        """What the predicate says."""
        value = known_value(name, group, self.contract)
        assert value is not None
        return value


def _summed(sums: GroupSums, part: Part, group: int, weight: int) -> list[int]:
    """Of one column in one group, exactly."""
    if part.grid is not None:
        missing = int(sums.arrays["rows"][group]) - sums.valued(part.column, group)
        return [sums.total(part.column, group), weight * missing][: part.size]
    histogram = sums.arrays["labels" if part.column == OF_LABEL else f"count {part.column}"][group]
    return [weight * int(histogram[code]) for code in part.codes]
