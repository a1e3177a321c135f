"""Mistakes that the machine has made or may make, each one function replaced: its claim must catch it."""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dpicl.audit.end_to_end.bounds import bound
from dpicl.audit.end_to_end.claims import Broken
from dpicl.audit.end_to_end.draws import cells
from dpicl.audit.end_to_end.stand_ins import everywhere, replaced
from dpicl.audit.end_to_end.suite import CLAIMS
from dpicl.checks import Rule
from dpicl.client import __main__ as client
from dpicl.client.wallet import open_wallet
from dpicl.contract import periods
from dpicl.engine import order
from dpicl.engine.artefacts import read_split
from dpicl.engine.horizon import Horizon
from dpicl.engine.releases import UnitReleases
from dpicl.engine.run_folder import open_unit
from dpicl.engine.stage import stage
from dpicl.engine.stages import ingest, split
from dpicl.errors import DataError
from dpicl.mechanisms.randomised_response import response
from dpicl.methods.gdp_tabicl import GdpTabicl
from dpicl.methods.ldp_tabicl import LdpTabicl
from dpicl.methods.mst_series import Series
from dpicl.methods.mst_tabicl import MstTabicl
from dpicl.randomness import stream
from dpicl.tabular.reading.arrivals import arrival_periods
from dpicl.tabular.reading.deliveries import PERIOD
from dpicl.tabular.reading.participation import Entered
from dpicl.types import PrivateTable

_MANY = 4000
"""Runs a side that a mutant needs which is caught by numbers."""
_TRUER = f"{LdpTabicl.name} replaced"


@dataclass(frozen=True)
class MachineMutant:
    """One mistake, and the claim that catches it."""

    name: str
    claim: str
    patched: Callable[[], AbstractContextManager[Any]]
    caught_by: Callable[[], Broken]


MUTANTS: dict[str, MachineMutant] = {}
Made = Callable[[Any], Any]


def _mistake(
    name: str, claim: str, function: str, owner: Any = None, caught_by: Callable[[], Broken] | None = None
) -> Callable[[Made], Made]:
    """What makes a mistaken function of the right one: of that name in a module or class, or everywhere."""

    def known(made: Made) -> Made:
        patched = partial(everywhere, function, made) if owner is None else partial(replaced, owner, function, made)
        MUTANTS[name] = MachineMutant(name, claim, patched, caught_by or CLAIMS[claim])
        return made

    return known


def _exceeds(cell: str) -> Broken:
    seen = bound(next(one for one in cells() if one.name == cell), _MANY, wrong=0.01)
    return [] if seen.holds else [f"epsilon is at least {seen.at_least:.3g}, stated {seen.stated:.3g}"]


@_mistake("permutation split", "rows stay where they are: csv", "split_table", split)
def _permutation_split(split_table: Any) -> Any:
    """Who is held out goes by a permutation of the rows' numbers."""

    def permuted(table: pa.Table, *arguments: Any, **options: Any) -> Any:
        places = stream(0, "mutant", "", "").generator().permutation(table.num_rows)
        protected = np.sort(places[: table.num_rows * 4 // 5])
        return replace(split_table(table, *arguments, **options), train=PrivateTable(table.take(protected)))

    return permuted


@_mistake("content-named release", "a period's history: protect", "of", UnitReleases)
def _content_named(releases_of: Any) -> Any:
    """A release's name holds its rows."""

    def of(folder: Any, *more: Any) -> UnitReleases:
        releases, rows = releases_of(folder, *more), read_split(folder).train.data.to_pylist()

        def named(release: Any) -> Any:
            return replace(release, release_id=hashlib.sha256(f"{release.release_id} {rows}".encode()).hexdigest())

        return replace(releases, named={cell: named(release) for cell, release in releases.named.items()})

    return staticmethod(of)


@_mistake("per-name caps", "one cap for one file", "addresses_of")
def _per_name_caps(_: Any) -> Any:
    """An account is of a contract's name."""
    return lambda contract, _settings: (f"name:{contract.name}",)


@_mistake("unpaid baseline", f"bytes of a run: {GdpTabicl.name}", "evaluate", order)
def _unpaid_baseline(evaluate: Any) -> Any:
    """A run reports what a classifier makes of private rows that nothing was charged for."""

    def evaluated(run: str, key: str) -> str:
        folder = open_unit(run, key)
        members = PrivateTable(read_split(folder).train.data).codes("member")
        (folder.path / "baselines.json").write_text(f'[{{"system": "majority", "accuracy": {members.mean()}}}]')
        return str(evaluate(run, key))

    return stage("evaluate", "evaluate", "owner")(evaluated)


@_mistake("minimum read from data", f"noise covers one row: {GdpTabicl.name}", "draw", GdpTabicl)
def _least_of_the_rows(draw: Any) -> Any:
    """A column's lower bound is the smallest value that occurs."""

    def drawn(self: GdpTabicl, train: PrivateTable, contract: Any, *more: Any) -> Any:
        column = contract.columns["spent"]
        bounds = (int(train.numbers("spent").min()), column.bounds[1])
        columns = contract.columns | {"spent": column.model_copy(update={"bounds": bounds})}
        return draw(self, train, contract.model_copy(update={"columns": columns}), *more)

    return drawn


@_mistake("an error that quotes", "words of a refusal", "load_source", ingest)
def _quoting_error(load_source: Any) -> Any:
    """A refusal names the value that it refuses."""

    def load(contract: Any, *, data_folder: Path, **more: Any) -> pa.Table:
        try:
            return load_source(contract, data_folder=data_folder, **more)
        except DataError:
            value = (data_folder / contract.source.file).read_text().splitlines()[-1]
            raise DataError(contract.name, f"has a row {value!r}; expected known categories") from None

    return load


@_mistake("a row count in the log", f"bytes of protect: {GdpTabicl.name}", "load_source", ingest)
def _counting_log(load_source: Any) -> Any:
    """How many rows there are is logged."""

    def load(*arguments: Any, **options: Any) -> pa.Table:
        table = load_source(*arguments, **options)
        logging.getLogger("dpicl.tasks").info("%d rows", table.num_rows)
        return table

    return load


@_mistake("a client cap from the contract", "a wallet keeps its cap", "report_all", client)
def _collectors_cap(report_all: Any) -> Any:
    """A wallet's cap is what the newest contract says."""

    def report(contract: Any, records: Any, arguments: Any) -> Any:
        with open_wallet(arguments.memory) as wallet:
            if hasattr(wallet, "raise_cap"):
                wallet.raise_cap(contract.privacy.budget.epsilon)
                wallet.keep()
        return report_all(contract, records, arguments)

    return report


@_mistake("noise of 0.8 times the scale", f"noise covers one row: {MstTabicl.name}", "discrete_laplaces")
def _less_noise(discrete_laplaces: Any) -> Any:
    """Noise of 0.8 times the scale."""
    return lambda scale, count, drawn: discrete_laplaces(scale * Fraction(4, 5), count, drawn)


@_mistake("answers that lie too seldom", f"bound: {_TRUER}", "randomise", caught_by=partial(_exceeds, _TRUER))
def _truer_answers(randomise: Any) -> Any:
    """A client answers by 1.25 times the epsilon that is stated."""

    def answered(codes: np.ndarray, law: Any, drawn: Any) -> Any:
        return randomise(codes, response(epsilon=1.25 * math.log(law.keep / law.lie), categories=law.categories), drawn)

    return answered


@_mistake("a person's rows in every night", "noise covers a person's history", "together", Entered)
def _forgotten_entries(_: Any) -> Any:
    """How many rows of a person have entered is forgotten from night to night."""
    return staticmethod(lambda _parts: Entered.nobody())


@_mistake("counts read anew", "noise covers a person's history", "make", Horizon)
def _read_anew(make: Any) -> Any:
    """What earlier nights counted is taken from tonight's table."""

    def made(self: Horizon, over: int, history: Any, published: Any, rows: PrivateTable) -> Any:
        arrived = arrival_periods(rows, self.contract)
        before: list[Any] = []
        for period in range(1, len(history) + 1):
            own = PrivateTable(rows.data.take(np.flatnonzero(arrived == period)))
            counts, entered = self._counted(own, Entered.together(one.entered for one in before))
            (self.settings.home / "series" / self.release.release_id / f"{period:05}").unlink()
            before.append(self.frozen.freeze(period, counts, entered, before=before[-1].name if before else ""))
        return make(self, over, before, published, rows)

    return made


@_mistake("late rows that enter", "noise covers a person's history", "arrival_periods")
def _late_rows(arrival_periods: Any) -> Any:
    """A row that comes late belongs to the night in which it comes."""

    def arrived(table: Any, contract: Any) -> np.ndarray:
        releases = contract.releases
        own, today = arrival_periods(table, contract), releases.calendar.over_by(periods.clock(), releases.every)
        return np.where((own > 0) & (own < today), today, own)

    return arrived


@_mistake("deliveries that come late", "noise covers a person's deliveries", "read_deliveries", ingest)
def _late_deliveries(read_deliveries: Any) -> Any:
    """All files are read every night, and what is found is tonight's."""

    def read(contract: Any, data_folder: Any, periods: Any) -> pa.Table:
        wanted = sorted(periods)
        table = read_deliveries(contract, data_folder, range(1, max(wanted) + 1))
        tonight = pa.array(np.full(table.num_rows, max(wanted)))
        said = read_deliveries(contract, data_folder, wanted).schema.metadata
        return table.set_column(table.schema.get_field_index(PERIOD), PERIOD, tonight).replace_schema_metadata(said)

    return read


@_mistake("deliveries of two rows and more", "bytes of a horizon's deliveries", "rules_of")
def _long_deliveries(rules_of: Any) -> Any:
    """A delivery is held to what a table is held to as a whole."""
    return lambda contract: (*rules_of(contract), Rule("row_count", None, "fail", 2, "the table has at least 2 rows"))


@_mistake("corrections that are no participation", "noise covers a person's corrections", "entering_rows")
def _free_corrections(entering_rows: Any) -> Any:
    """Rows that take others back enter without a place among their person's rows."""

    def entered(table: PrivateTable, contract: Any, before: Entered, *, key: bytes) -> Any:
        signs = table.numbers(contract.source.sign) if contract.source.sign else np.ones(table.row_count)
        came = np.flatnonzero(signs > 0)
        places, new = entering_rows(PrivateTable(table.data.take(came)), contract, before, key=key)
        return np.sort(np.concatenate([came[places], np.flatnonzero(signs < 0)])), new

    return entered


@_mistake("corrections at the price of rows", "noise covers a person's corrections", "of", Series)
def _unpriced_corrections(of: Any) -> Any:
    """The noise is for rows that stay, where another person's may go."""

    def made(*arguments: Any, **how: Any) -> Series:
        series = of(*arguments, **how)
        return replace(series, contribution=replace(series.contribution, corrections=False))

    return staticmethod(made)


@_mistake("counts named by their content", "bytes of a horizon's nights", "new_name")
def _content_named_counts(_: Any) -> Any:
    """What the ledger shows of a night's counts follows from them."""
    return lambda counts: hashlib.sha256(b"".join(table.tobytes() for table in counts.tables.values())).hexdigest()[:32]


def caught(mutant: MachineMutant) -> Broken:
    """What breaks the claim while the mistake is made; empty if the claim is blind to it."""
    with mutant.patched():
        return mutant.caught_by()
