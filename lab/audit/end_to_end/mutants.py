"""Mistakes that the machine has made or may make, each one function replaced: its claim must catch
it.
"""

from __future__ import annotations

import hashlib
import logging
import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dpicl.client import __main__ as client
from dpicl.client.wallet import open_wallet
from dpicl.data.reading.source import load_source
from dpicl.ground.errors import DataError
from dpicl.ground.randomness import stream
from dpicl.ground.types import PrivateTable
from dpicl.mechanisms.randomised_response import response
from dpicl.methods.gdp_tabicl import GdpTabicl
from dpicl.methods.ldp_tabicl import LdpTabicl
from dpicl.methods.mst_tabicl import MstTabicl
from dpicl.release import rows as source
from dpicl.release.releases import NamedRelease
from dpicl.runs import chain
from dpicl.runs.run_folder import open_unit
from dpicl.runs.stage import stage
from lab.audit.end_to_end import net_mutants, series_mutants
from lab.audit.end_to_end.bounds import bound
from lab.audit.end_to_end.claims import Broken
from lab.audit.end_to_end.draws import cells
from lab.audit.end_to_end.mistakes import MUTANTS, caught, mistake

# all of them, once those of the other modules are known too
__all__ = [
    "MUTANTS",
    "caught",
    "net_mutants",
    "series_mutants",
]
_MANY = 12_000
"""Runs a side that a mutant needs which is caught by numbers: they show 1.17 of the stated epsilon,
give or take 0.03.
"""
_TRUER = f"{LdpTabicl.name} replaced"


def _exceeds(cell: str) -> Broken:
    seen = bound(next(one for one in cells() if one.name == cell), _MANY, wrong=0.01)
    return (
        [] if seen.holds else [f"epsilon is at least {seen.at_least:.3g}, stated {seen.stated:.3g}"]
    )


@mistake("permutation split", "rows stay where they are: csv", "split_table", source)
def _permutation_split(split_table: Any) -> Any:
    """Who is held out goes by a permutation of the rows' numbers."""

    def permuted(table: pa.Table, *arguments: Any, **options: Any) -> Any:
        places = stream(0, "mutant", "", "").generator().permutation(table.num_rows)
        protected = np.sort(places[: table.num_rows * 4 // 5])
        return replace(
            split_table(table, *arguments, **options), train=PrivateTable(table.take(protected))
        )

    return permuted


@mistake("content-named release", "a period's history: protect", "named_releases")
def _content_named(named_releases: Any) -> Any:
    """A release's name holds its rows."""

    def named_by_content(
        account: Any, contract: Any, method: Any, asked: Any, settings: Any, facts: Any
    ) -> dict[str, NamedRelease]:
        releases = named_releases(account, contract, method, asked, settings, facts)
        folders = {"data_folder": settings.data, "cache_folder": settings.cache}
        rows = load_source(contract, **folders).to_pylist()

        def named(release: Any) -> Any:
            return replace(
                release,
                release_id=hashlib.sha256(f"{release.release_id} {rows}".encode()).hexdigest(),
            )

        return {
            key: replace(release, charge=named(release.charge)) for key, release in releases.items()
        }

    return named_by_content


@mistake("per-name caps", "one cap for one file", "addresses_of")
def _per_name_caps(_: Any) -> Any:
    """An account is of a contract's name."""
    return lambda contract, _settings: (f"name:{contract.name}",)


@mistake("unpaid baseline", f"bytes of a run: {GdpTabicl.name}", "evaluate", chain)
def _unpaid_baseline(evaluate: Any) -> Any:
    """A run reports what a classifier makes of private rows that nothing was charged for."""

    def evaluated(run: str, key: str) -> str:
        folder = open_unit(run, key)
        members = PrivateTable(folder.rows.train().data).codes("member")
        (folder.path / "baselines.json").write_text(
            f'[{{"system": "majority", "accuracy": {members.mean()}}}]'
        )
        return str(evaluate(run, key))

    return stage("evaluate", "owner")(evaluated)


@mistake("minimum read from data", f"noise covers one row: {GdpTabicl.name}", "draw", GdpTabicl)
def _least_of_the_rows(draw: Any) -> Any:
    """A column's lower bound is the smallest value that occurs."""

    def drawn(self: GdpTabicl, train: PrivateTable, contract: Any, *more: Any) -> Any:
        column = contract.columns["spent"]
        bounds = (int(train.numbers("spent").min()), column.bounds[1])
        columns = contract.columns | {"spent": column.model_copy(update={"bounds": bounds})}
        return draw(self, train, contract.model_copy(update={"columns": columns}), *more)

    return drawn


@mistake("an error that quotes", "words of a refusal", "load_source", source)
def _quoting_error(load_source: Any) -> Any:
    """A refusal names the value that it refuses."""

    def load(contract: Any, *, data_folder: Path, **more: Any) -> pa.Table:
        try:
            return load_source(contract, data_folder=data_folder, **more)
        except DataError:
            value = (data_folder / contract.source.file).read_text().splitlines()[-1]
            raise DataError(
                contract.name, f"has a row {value!r}; expected known categories"
            ) from None

    return load


@mistake("a row count in the log", f"bytes of protect: {GdpTabicl.name}", "load_source", source)
def _counting_log(load_source: Any) -> Any:
    """How many rows there are is logged."""

    def load(*arguments: Any, **options: Any) -> pa.Table:
        table = load_source(*arguments, **options)
        logging.getLogger("dpicl.tasks").info("%d rows", table.num_rows)
        return table

    return load


@mistake("a client cap from the contract", "a wallet keeps its cap", "report_all", client)
def _collectors_cap(report_all: Any) -> Any:
    """A wallet's cap is what the newest contract says."""

    def report(contract: Any, records: Any, arguments: Any) -> Any:
        with open_wallet(arguments.memory) as wallet:
            if hasattr(wallet, "raise_cap"):
                wallet.raise_cap(contract.privacy.budget.epsilon)
                wallet.keep()
        return report_all(contract, records, arguments)

    return report


@mistake(
    "noise of 0.8 times the scale", f"noise covers one row: {MstTabicl.name}", "discrete_laplaces"
)
def _less_noise(discrete_laplaces: Any) -> Any:
    """Noise of 0.8 times the scale."""
    return lambda scale, count, drawn: discrete_laplaces(scale * Fraction(4, 5), count, drawn)


@mistake(
    "answers that lie too seldom",
    f"bound: {_TRUER}",
    "randomise",
    caught_by=partial(_exceeds, _TRUER),
)
def _truer_answers(randomise: Any) -> Any:
    """A client answers by 1.25 times the epsilon that is stated."""

    def answered(codes: np.ndarray, law: Any, drawn: Any) -> Any:
        return randomise(
            codes,
            response(epsilon=1.25 * math.log(law.keep / law.lie), categories=law.categories),
            drawn,
        )

    return answered
