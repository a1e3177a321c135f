"""Mistakes that the machine has made or may make, each one function replaced: the harness must catch every one of them."""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import dpicl.engine.stages.ingest
import dpicl.engine.stages.split
from dpicl.audit.end_to_end import commands
from dpicl.audit.end_to_end.bounds import bound
from dpicl.audit.end_to_end.claims import Broken
from dpicl.audit.end_to_end.draws import cells
from dpicl.audit.end_to_end.stand_ins import everywhere
from dpicl.audit.end_to_end.suite import CLAIMS
from dpicl.client import __main__ as client
from dpicl.client.memory import open_memory
from dpicl.engine.artefacts import read_split
from dpicl.engine.releases import UnitReleases
from dpicl.engine.run_folder import open_unit
from dpicl.engine.stage import stage
from dpicl.engine.stages.evaluate import evaluate
from dpicl.errors import DataError
from dpicl.mechanisms.randomised_response import response
from dpicl.methods.gdp_tabicl import GdpTabicl
from dpicl.methods.ldp_tabicl import LdpTabicl
from dpicl.methods.mst_tabicl import MstTabicl
from dpicl.randomness import stream
from dpicl.tabular.reading.source import load_source
from dpicl.tabular.reading.split import split_table
from dpicl.types import PrivateTable

_MANY = 3000
"""Runs a side that a mutant needs which is caught by numbers."""


@dataclass(frozen=True)
class Mutant:
    """One mistake, and the claim that catches it."""

    name: str
    claim: str
    patched: Callable[[], AbstractContextManager[Any]]
    caught_by: Callable[[], Broken]


@contextmanager
def _permutation_split() -> Iterator[None]:
    """Who is held out goes by a permutation of the rows' numbers."""
    real = split_table

    def split(table: pa.Table, *arguments: Any, **options: Any) -> Any:
        order = stream(0, "mutant", "", "").generator().permutation(table.num_rows)
        kept = np.sort(order[: table.num_rows * 4 // 5])
        return replace(real(table, *arguments, **options), train=PrivateTable(table.take(kept)))

    with patch.object(dpicl.engine.stages.split, "split_table", split):
        yield


@contextmanager
def _content_named() -> Iterator[None]:
    """A release's name holds its rows."""
    real = UnitReleases.of

    def of(folder: Any, *more: Any) -> UnitReleases:
        releases, rows = real(folder, *more), read_split(folder).train.data.to_pylist()

        def named(release: Any) -> Any:
            return replace(release, release_id=hashlib.sha256(f"{release.release_id} {rows}".encode()).hexdigest())

        return replace(releases, named={cell: named(release) for cell, release in releases.named.items()})

    with patch.object(UnitReleases, "of", staticmethod(of)):
        yield


def _per_name_caps() -> AbstractContextManager[None]:
    """An account is of a contract's name."""
    return everywhere("addresses_of", lambda _: lambda contract, _settings: (f"name:{contract.name}",))


@contextmanager
def _unpaid_baseline() -> Iterator[None]:
    """A run reports what a classifier makes of private rows that nothing was charged for."""
    real = evaluate

    def evaluated(run: str, key: str) -> str:
        folder = open_unit(run, key)
        members = PrivateTable(read_split(folder).train.data).codes("member")
        (folder.path / "baselines.json").write_text(f'[{{"system": "majority", "accuracy": {members.mean()}}}]')
        return str(real(run, key))

    with patch.object(commands, "evaluate", stage("evaluate", "evaluate", evaluated)):
        yield


@contextmanager
def _least_of_the_rows() -> Iterator[None]:
    """A column's lower bound is the smallest value that occurs."""
    real = GdpTabicl.draw

    def draw(self: GdpTabicl, train: PrivateTable, contract: Any, *more: Any) -> Any:
        column = contract.columns["spent"]
        bounds = (int(train.numbers("spent").min()), column.bounds[1])
        columns = contract.columns | {"spent": column.model_copy(update={"bounds": bounds})}
        return real(self, train, contract.model_copy(update={"columns": columns}), *more)

    with patch.object(GdpTabicl, "draw", draw):
        yield


@contextmanager
def _quoting_error() -> Iterator[None]:
    """A refusal names the value that it refuses."""
    real = load_source

    def load(contract: Any, *, data_folder: Path, **more: Any) -> pa.Table:
        try:
            return real(contract, data_folder=data_folder, **more)
        except DataError:
            value = (data_folder / contract.source.file).read_text().splitlines()[-1]
            raise DataError(contract.name, f"has a row {value!r}; expected known categories") from None

    with patch.object(dpicl.engine.stages.ingest, "load_source", load):
        yield


@contextmanager
def _counting_log() -> Iterator[None]:
    """How many rows there are is logged."""
    real = load_source

    def load(*arguments: Any, **options: Any) -> pa.Table:
        table = real(*arguments, **options)
        logging.getLogger("dpicl.tasks").info("%d rows", table.num_rows)
        return table

    with patch.object(dpicl.engine.stages.ingest, "load_source", load):
        yield


@contextmanager
def _collectors_cap() -> Iterator[None]:
    """A wallet's cap is what the newest contract says."""
    real = client.report_all

    def report(contract: Any, records: Any, asked: Any) -> Any:
        with open_memory(asked.memory) as wallet:
            if hasattr(wallet, "raise_cap"):
                wallet.raise_cap(contract.privacy.budget.epsilon)
                wallet.keep()
        return real(contract, records, asked)

    with patch.object(client, "report_all", report):
        yield


def _less_noise() -> AbstractContextManager[None]:
    """Noise of 0.8 times the scale."""
    return everywhere("discrete_laplaces", lambda real: lambda scale, count, drawn: real(scale * Fraction(4, 5), count, drawn))


def _truer_answers() -> AbstractContextManager[None]:
    """A client answers by 1.25 times the epsilon that is stated."""

    def answering(real: Callable[..., Any]) -> Callable[..., Any]:
        def randomise(codes: np.ndarray, law: Any, drawn: Any) -> Any:
            return real(codes, response(epsilon=1.25 * math.log(law.keep / law.lie), categories=law.categories), drawn)

        return randomise

    return everywhere("randomise", answering)


def _exceeds(cell: str) -> Broken:
    (found,) = (one for one in cells() if one.name == cell)
    seen = bound(found, _MANY, wrong=0.01)
    return [] if seen.holds else [f"epsilon is at least {seen.at_least:.3g}, stated {seen.stated:.3g}"]


def _claimed(name: str, patched: Callable[[], AbstractContextManager[Any]], claim: str) -> Mutant:
    return Mutant(name, claim, patched, CLAIMS[claim])


def _bounded(name: str, patched: Callable[[], AbstractContextManager[Any]], cell: str) -> Mutant:
    return Mutant(name, f"bound: {cell}", patched, partial(_exceeds, cell))


MUTANTS: Mapping[str, Mutant] = {
    mutant.name: mutant
    for mutant in (
        _claimed("permutation split", _permutation_split, "rows stay where they are: csv"),
        _claimed("content-named release", _content_named, "a period's history: protect"),
        _claimed("per-name caps", _per_name_caps, "one cap for one file"),
        _claimed("unpaid baseline", _unpaid_baseline, f"bytes of a run: {GdpTabicl.name}"),
        _claimed("minimum read from data", _least_of_the_rows, f"noise covers one row: {GdpTabicl.name}"),
        _claimed("an error that quotes", _quoting_error, "words of a refusal"),
        _claimed("a row count in the log", _counting_log, f"bytes of protect: {GdpTabicl.name}"),
        _claimed("a client cap from the contract", _collectors_cap, "a wallet keeps its cap"),
        _claimed("noise of 0.8 times the scale", _less_noise, f"noise covers one row: {MstTabicl.name}"),
        _bounded("answers that lie too seldom", _truer_answers, f"{LdpTabicl.name} replaced"),
    )
}


def caught(mutant: Mutant) -> Broken:
    """What the claim says while the mistake is made; nothing if it is blind."""
    with mutant.patched():
        return mutant.caught_by()
