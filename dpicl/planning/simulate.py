"""Every method of a table on one made-up population: what it releases there, and how good that is.

Guarantee   none needed: the rows are made up.

    (1)  loss of AUC          of a classifier fitted on released rows under the same one fitted on
         the true rows, on fresh rows
    (2)  error of a column    total variation between released and true shares of its bins; of a
         group's average its distance to
                              the one without noise, in widths of the bounds, of a group's category
                              whether it is another one
    (3)  error of a pair      total variation between released and true shares of two columns'
         cells; of so many pairs at most
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from dpicl.contract.models import Contract
from dpicl.errors import DpiclError, ParameterError
from dpicl.methods import METHODS, Options, tabular, unit_of
from dpicl.methods.common import epsilon_of
from dpicl.methods.tabular_method import TabularMethod
from dpicl.pipeline import Cell, Unit
from dpicl.planning.judge import Quality, fitted_quality, voting_quality
from dpicl.planning.populations import Population, population
from dpicl.randomness import Draws, stream
from dpicl.tabular.reading.encode import LocalEncoding, encode_queries
from dpicl.tabular.values import RowForm, central_form
from dpicl.types import PrivateTable, QueryTable, ReleasedGroups

MOST_PAIRS, MOST_COLUMNS = 45, 200


@dataclass(frozen=True)
class Candidate:
    """A way to release a table.

    Attributes:
        method: its name.
        options: that are stated; the others are the method's usual ones for a release.
        shots: of a method whose release depends on their number; else of a prompt.
    """

    method: str
    options: Mapping[str, str]
    shots: int

    def unit(self, contract: Contract, epsilons: Sequence[float]) -> Unit:
        """As a release has it."""
        chosen = {
            **METHODS[self.method].default_options(contract, self.options, max(epsilons)),
            **self.options,
        }
        options = Options.model_validate({self.method: chosen})
        return unit_of(self.method, contract.name, 0, epsilons, (self.shots,), (), False, options)


def candidates(
    contract: Contract, epsilons: Sequence[float]
) -> tuple[list[Candidate], dict[str, str]]:
    """What all methods on tables propose for a contract; and of those that it refuses, why. Raises
    ParameterError: simulating it takes hours.
    """
    if len(contract.columns) > MOST_COLUMNS:
        expected = (
            f"at most {MOST_COLUMNS} in a plan, which takes hours for more; without "
            "one, choose aim_tabicl"
        )
        raise ParameterError("columns", len(contract.columns), expected)
    chosen, refused = [], {}
    for name, method in METHODS.items():
        if isinstance(method, TabularMethod):
            for options, shots in method.alternatives(contract):
                candidate = Candidate(name, options, shots)
                unit = candidate.unit(contract, epsilons)
                try:
                    method.refuse(contract, unit)
                    method.releases(contract, unit)
                except DpiclError as error:
                    refused[name] = str(error)
                else:
                    chosen.append(candidate)
    return chosen, {
        name: why for name, why in refused.items() if name not in {one.method for one in chosen}
    }


@dataclass(frozen=True)
class Outcome:
    """What one release on one population was worth.

    Attributes:
        quality: of answers to fresh rows; None where nothing is predicted.
        columns, pairs: equations (2) and (3), by name.
    """

    quality: Quality | None
    columns: Mapping[str, float]
    pairs: Mapping[tuple[str, str], float] = field(default_factory=dict)


@dataclass(frozen=True)
class Trial:
    """One population: how good the true rows are there, and every release by candidate and
    epsilon.
    """

    truth: Quality | None
    outcomes: Mapping[tuple[int, float], Outcome]


def trial(
    contract: Contract,
    rows: int,
    epsilons: Sequence[float],
    ways: Sequence[Candidate],
    signal: float,
    number: int,
) -> Trial:
    """Make a population up and release it in every way; the same number gives the same."""
    with threadpool_limits(1):  # matrices are small: threads would wait for each other
        made = population(
            contract, rows, signal, stream(number, "plan", contract.name, repr(signal)).generator()
        )
        return measure(contract, made, epsilons, ways, number)


def measure(
    contract: Contract,
    made: Population,
    epsilons: Sequence[float],
    ways: Sequence[Candidate],
    number: int,
) -> Trial:
    """Release a population in every way."""
    fresh = QueryTable(made.table.data.slice(made.rows))
    train = PrivateTable(made.table.data.slice(0, made.rows))

    @cache
    def coded(form: RowForm) -> tuple[np.ndarray, _Shares]:
        codes = (
            made.codes
            if form == central_form(contract)
            else encode_queries(QueryTable(made.table.data), contract).codes
        )
        return codes[made.rows :], _Shares.of(
            form.encoding.encode(codes[: made.rows]), form.encoding
        )

    outcomes: dict[tuple[int, float], Outcome] = {}
    for place, way in enumerate(ways):
        method, unit = tabular(way.method), way.unit(contract, epsilons)
        for cell, drawn, draws in _drawn(method, contract, unit, train, number):
            if method.derive_stage:
                released, form = (
                    method.rows(drawn, contract, unit, cell, draws).codes,
                    method.form(contract, unit, cell),
                )
                test, shares = coded(form)
                quality = (
                    None
                    if made.truth is None
                    else fitted_quality(released, form.encoding.encode(test), form.encoding)
                )
                columns, pairs = shares.errors(_Shares.of(released, form.encoding), form)
                outcomes[place, epsilon_of(cell)] = Outcome(quality, columns, pairs)
            elif isinstance(drawn, ReleasedGroups):
                voted = (
                    None
                    if made.truth is None
                    else voting_quality(
                        drawn, fresh, made.codes[made.rows :, -1].astype(np.int64), contract
                    )
                )
                ((_, exact, _),) = _drawn(
                    method, contract, way.unit(contract, (math.inf,)), train, number
                )
                outcomes[place, epsilon_of(cell)] = Outcome(voted, _moved(drawn, exact, contract))
    return Trial(made.truth, outcomes)


def _drawn(
    method: TabularMethod[Any], contract: Contract, unit: Unit, train: PrivateTable, number: int
) -> Iterator[tuple[Cell, Any, Draws]]:
    """Every release of a unit."""
    draws, cells = (
        Draws(number, contract.name, simulated=True),
        list(method.releases(contract, unit)),
    )
    prepared = method.prepare(train, contract, unit, draws, cells) if method.prepare_stage else {}
    for cell, drawn in method.draw(train, contract, unit, draws, cells, prepared).items():
        yield cell, drawn, draws


def _moved(released: ReleasedGroups, truth: ReleasedGroups, contract: Contract) -> dict[str, float]:
    """Equation (2) of averages: the mean over groups."""
    errors: dict[str, float] = {}
    for name in contract.features:
        column = contract.columns[name]
        released_values, true_values = (
            column.coded([group.values[name] for group in groups.groups])
            for groups in (released, truth)
        )
        errors[name] = float(column.distance(released_values, true_values).mean())
    return errors


@dataclass(frozen=True)
class _Shares:
    """Shares of rows in the bins of every column, and in the cells of pairs of columns."""

    columns: Sequence[np.ndarray]
    pairs: Mapping[tuple[int, int], np.ndarray]

    @staticmethod
    def of(answers: np.ndarray, encoding: LocalEncoding) -> _Shares:
        bins, sizes = encoding.decode(answers), encoding.bin_counts
        known = np.where(bins < 0, 0, bins)
        columns = [
            np.bincount(known[:, place], minlength=size) / len(bins)
            for place, size in enumerate(sizes)
        ]
        both = list(combinations(range(len(sizes) - 1), 2))
        some = both if len(both) <= MOST_PAIRS else both[:: -(-len(both) // MOST_PAIRS)]
        pairs = {
            (i, j): np.bincount(known[:, i] * sizes[j] + known[:, j], minlength=sizes[i] * sizes[j])
            / len(bins)
            for i, j in some
        }
        return _Shares(columns, pairs)

    def errors(
        self, other: _Shares, form: RowForm
    ) -> tuple[dict[str, float], dict[tuple[str, str], float]]:
        """Equations (2) and (3): total variations."""
        names = form.encoding.names[:-1]
        return (
            {
                name: float(np.abs(one - two).sum() / 2)
                for name, one, two in zip(names, self.columns[:-1], other.columns[:-1], strict=True)
            },
            {
                (names[i], names[j]): float(np.abs(self.pairs[i, j] - other.pairs[i, j]).sum() / 2)
                for i, j in self.pairs
            },
        )
