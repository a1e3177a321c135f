"""Mistakes that a table, or texts, that arrive period by period may make: each one function
replaced, its claim must catch it.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from dpicl.contract import periods
from dpicl.data import text_files
from dpicl.data.central.group_vectors import GroupVectors
from dpicl.data.reading.source import PERIOD, arrival_periods
from dpicl.data.reading.split import Entered
from dpicl.ground.types import DataRule, PrivateTable, Violation
from dpicl.mechanisms.noisy_mean import Grid
from dpicl.methods.gdp_series import GroupSeries
from dpicl.methods.mst_series import Series
from dpicl.release import rows as source
from dpicl.release.horizon import Horizon
from lab.audit.end_to_end.mistakes import mistake


@mistake("a person's rows in every night", "noise covers a person's history", "together", Entered)
def _forgotten_entries(_: Any) -> Any:
    """How many rows of a person have entered is forgotten from night to night."""
    return staticmethod(lambda _parts: Entered.nobody())


@mistake("counts read anew", "noise covers a person's history", "make", Horizon)
def _read_anew(make: Any) -> Any:
    """What earlier nights counted is taken from tonight's table."""

    def made(self: Horizon, over: int, history: Any, published: Any, rows: PrivateTable) -> Any:
        arrived = arrival_periods(rows, self.contract)
        before: list[Any] = []
        for period in range(1, len(history) + 1):
            own = PrivateTable(rows.data.take(np.flatnonzero(arrived == period)))
            counts, entered = self._counted(own, Entered.together(one.entered for one in before))
            (self.settings.home / "series" / self.release.release_id / f"{period:05}").unlink()
            before.append(
                self.frozen.freeze(
                    period, counts, entered, before=before[-1].name if before else ""
                )
            )
        return make(self, over, before, published, rows)

    return made


@mistake("late rows that enter", "noise covers a person's history", "arrival_periods")
def _late_rows(arrival_periods: Any) -> Any:
    """A row that comes late belongs to the night in which it comes."""

    def arrived(table: Any, contract: Any) -> np.ndarray:
        releases = contract.releases
        own, today = (
            arrival_periods(table, contract),
            releases.calendar.over_by(periods.clock(), releases.every),
        )
        return np.where((own > 0) & (own < today), today, own)

    return arrived


@mistake(
    "deliveries that come late",
    "noise covers a person's deliveries",
    "read_deliveries",
    source,
)
def _late_deliveries(read_deliveries: Any) -> Any:
    """All files are read every night, and what is found is tonight's."""

    def reading(contract: Any, data_folder: Any, periods: Any) -> pa.Table:
        wanted = sorted(periods)
        table = read_deliveries(contract, data_folder, range(1, max(wanted) + 1))
        tonight = pa.array(np.full(table.num_rows, max(wanted)))
        said = read_deliveries(contract, data_folder, wanted).schema.metadata
        return table.set_column(
            table.schema.get_field_index(PERIOD), PERIOD, tonight
        ).replace_schema_metadata(said)

    return reading


@mistake("deliveries of two rows and more", "bytes of a horizon's deliveries", "rules_of")
def _long_deliveries(rules_of: Any) -> Any:
    """A delivery is held to what a table is held to as a whole."""
    return lambda contract: (
        *rules_of(contract),
        DataRule("row_count", None, "fail", 2, "the table has at least 2 rows"),
    )


@mistake("texts of all periods until now", "a text is read in one period", "_delivery", text_files)
def _texts_until_now(delivery: Any) -> Any:
    """Demonstrations are written from all that has arrived."""

    def texts(contract: Any, data_folder: Any, period: Any) -> pa.Table:
        names = contract.releases.calendar.periods
        return pa.concat_tables(
            [delivery(contract, data_folder, name) for name in names[: names.index(period) + 1]]
        )

    return texts


@mistake("a bound on a delivery's texts", "bytes of a horizon's texts", "text_violations")
def _bounded_delivery(text_violations: Any) -> Any:
    """A delivery has at least two texts."""

    def violations(table: pa.Table, contract: Any) -> tuple[Violation, ...]:
        failing = next(rule for rule in text_files.text_rules(contract) if rule.severity == "fail")
        few = [Violation(failing, 1)] if table.num_rows < 2 else []
        return (*text_violations(table, contract), *few)

    return violations


@mistake(
    "corrections that are no participation", "noise covers a person's corrections", "entering_rows"
)
def _free_corrections(entering_rows: Any) -> Any:
    """Rows that take others back enter without a place among their person's rows."""

    def entered(table: PrivateTable, contract: Any, before: Entered, *, key: bytes) -> Any:
        signs = (
            table.numbers(contract.source.sign)
            if contract.source.sign
            else np.ones(table.row_count)
        )
        came = np.flatnonzero(signs > 0)
        places, new = entering_rows(PrivateTable(table.data.take(came)), contract, before, key=key)
        return np.sort(np.concatenate([came[places], np.flatnonzero(signs < 0)])), new

    return entered


@mistake("corrections at the price of rows", "noise covers a person's corrections", "of", Series)
def _unpriced_corrections(of: Any) -> Any:
    """The noise is for rows that stay, where another person's may go."""

    def made(*arguments: Any, **how: Any) -> Series:
        series = of(*arguments, **how)
        return replace(series, contribution=replace(series.contribution, signed=0))

    return staticmethod(made)


@mistake(
    "a row in two groups", "noise covers a person's history of averages", "exact", GroupVectors
)
def _in_two_groups(exact: Any) -> Any:
    """A row adds to the group after its own as well."""

    def summed(
        self: GroupVectors, table: PrivateTable, rows: np.ndarray, members: np.ndarray
    ) -> np.ndarray:
        also = (members + 1) % len(self.groups)
        return np.asarray(exact(self, table, rows, members) + exact(self, table, rows, also))

    return summed


@mistake(
    "averages at the price of their counts",
    "noise covers a person's history of averages",
    "squared_norm",
    GroupVectors,
)
def _unpriced_sums(squared_norm: Any) -> Any:
    """The noise is for a row's counts, and not for what it adds to the sum of a number column."""

    def unpriced(vectors: GroupVectors) -> int:
        return int(squared_norm.fget(vectors)) - max(
            sum(part.grid is not None for part in cell.parts) * cell.weight**2
            for cell in vectors.cells
        )

    return property(unpriced)


@mistake("values beyond their bounds", "noise covers a person's history of averages", "total", Grid)
def _unclipped(_: Any) -> Any:
    """A sum is of values as they are."""
    return lambda grid, values: int(np.rint((values - grid.zero) / grid.step).sum())


@mistake(
    "averages that go at the price of those that come",
    "noise covers a person's corrections of averages",
    "of",
    GroupSeries,
)
def _unpriced_signs(of: Any) -> Any:
    """The noise is for sums that have no sign, where another person's have the other one."""

    def made(*arguments: Any, **how: Any) -> GroupSeries:
        series = of(*arguments, **how)
        return replace(series, contribution=replace(series.contribution, signed=0))

    return staticmethod(made)


@mistake(
    "averages of another person at the price of counts",
    "noise covers another person's averages",
    "signed",
    GroupVectors,
)
def _unpriced_sides(_: Any) -> Any:
    """The noise is for sums that all have one sign, where those of values below the middle have the
    other.
    """
    return property(lambda _vectors: 0)


@mistake("counts named by their content", "bytes of a horizon's nights", "new_name")
def _content_named_counts(_: Any) -> Any:
    """What the ledger shows of a night's counts follows from them."""
    return lambda counts: hashlib.sha256(counts.tobytes()).hexdigest()[:32]
