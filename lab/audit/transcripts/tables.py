"""Made-up tables, most of them small and odd, and methods on tables that draw from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from dpicl.contract import Contract
from dpicl.contract.columns.boolean import BooleanColumn
from dpicl.contract.columns.category import CategoryColumn
from dpicl.contract.columns.integer import IntegerColumn
from dpicl.contract.columns.real import RealColumn
from dpicl.contract.pipeline import Point
from dpicl.ground.types import PrivateTable
from dpicl.mechanisms.noisy_steps import GaussianBudget
from dpicl.methods import METHODS, Options, grid, tabular, unit_of
from dpicl.methods.aim_tabicl import AimTabicl
from dpicl.methods.audited import is_ours
from dpicl.methods.base import times_of_row
from dpicl.methods.gdp_tabicl import GdpTabicl
from dpicl.methods.ldp_tabicl import LdpTabicl
from dpicl.methods.mst_tabicl import MstTabicl
from dpicl.methods.row_method import CentralRows
from dpicl.methods.tab_pate import TabPate
from dpicl.methods.tab_pe import TabPe
from dpicl.methods.tabular_method import TabularMethod
from lab.audit.neighbours import declared, typed
from lab.audit.transcripts.record import Diverged, HeardDraws, Open
from lab.audit.transcripts.worlds import Case, Price, World

Rows = Mapping[str, Sequence[Any]]
"""Values by column."""
_EPSILONS = (0.1, 0.5, 1.0, 3.0, 10.0)
_ROWS = (0, 1, 2, 5, 9, 10, 40, 99, 100)
_MOST_ROWS = 1100
_WIDE = 30
_ID = "who"
_NASTY_WHOLE = (2**62, -(2**62), 10**9, 0)
_NASTY = (1e308, -1e308, 5e-324, -0.0, 1e9, -1e9)


@dataclass(frozen=True)
class Kind:
    """How a method on tables is asked: options of a pipeline, and what a contract may state."""

    method: str
    options: Mapping[str, Any]
    persons: bool = False
    neighbours: str = "add-or-remove-one"
    rate: str = "1"
    open_bins: bool = False
    batches: bool = False
    wide: bool = False


def world(kind: Kind, rng: np.random.Generator) -> World:
    """A contract, rows and a neighbour, drawn anew."""
    contract = _contract(kind, rng)
    method = tabular(kind.method)
    point = _point(kind, contract, rng)
    replaces = kind.neighbours == "replace-one"
    few, many = int(rng.choice(_ROWS[replaces:])), int(rng.integers(1, _MOST_ROWS))
    count = few if rng.integers(3) or kind.wide else many
    one = _rows(contract, rng, count, kind.persons)
    two = _neighbour(one, contract, kind, rng)
    tables = (one, two) if rng.integers(2) else (two, one)
    return World(
        partial(_drawn, kind, method, contract, point, [_table(contract, rows) for rows in tables]),
        _price(method, contract, point),
        abs(len(one["label"]) - len(two["label"])),
        not is_ours(method),
    )


def _contract(kind: Kind, rng: np.random.Generator) -> Contract:
    count = _WIDE if kind.wide else int(rng.integers(1, 6))
    labels = list("xyz"[: int(rng.integers(2, 4))])
    privacy: dict[str, Any] = {
        "sampling_rate": kind.rate,
        "budget": {"epsilon": 1000, "delta": 1e-5},
        "neighbours": kind.neighbours,
    }
    if kind.persons:
        person = {"id_column": _ID, "max_rows": int(rng.integers(1, 4))}
        privacy |= {"unit": "person", "person": person}
    return declared(
        "audit",
        {
            **{f"column {number}": _column(kind, rng) for number in range(count)},
            "label": {"type": "category", "categories": labels},
        },
        "label",
        privacy=privacy,
        groups={len(labels): ["label"]},
    )


def _column(kind: Kind, rng: np.random.Generator) -> dict[str, Any]:
    size = int(rng.integers(2, 5))
    if rng.integers(2):
        return {"type": "category", "categories": list("abcde"[:size])}
    if rng.integers(4) == 0:
        return {"type": "boolean"}
    high = int(rng.choice([1, 7, 1000]))
    kind_of = str(rng.choice(["real", "integer"]))
    bins = [high / 3, high / 2] if high > 1 else [0.5]
    number: dict[str, Any] = {
        "type": kind_of,
        "bounds": [-high, high],
        "nullable": bool(rng.integers(2)),
    }
    return number if kind.open_bins else {**number, "bins": bins}


def _point(kind: Kind, contract: Contract, rng: np.random.Generator) -> Point[Any]:
    options = Options.model_validate({kind.method: kind.options})
    shots = contract.target.count
    epsilon = float(rng.choice(_EPSILONS))
    unit = unit_of(kind.method, contract.name, 0, (epsilon,), (shots,), (), False, options)
    return next(iter(grid.points(METHODS[kind.method], unit).values()))


def _rows(
    contract: Contract, rng: np.random.Generator, count: int, persons: bool
) -> dict[str, Any]:
    """Uniform ones, or all alike; numbers within the bounds, on them, beyond them, or missing."""
    size = 1 if rng.integers(4) == 0 and count else count
    rows: dict[str, Any] = {}
    for name, column in contract.columns.items():
        values: list[Any]
        if isinstance(column, CategoryColumn):
            values = rng.choice(list(column.categories), size).tolist()
        elif isinstance(column, BooleanColumn):
            values = rng.choice(["false", "true"], size).tolist()
        else:
            assert isinstance(column, (RealColumn, IntegerColumn))
            low, high = column.bounds
            values = [*_NASTY, low, high, (low + high) / 2, rng.uniform(low, high)]
            if isinstance(column, IntegerColumn):
                values = [
                    *_NASTY_WHOLE,
                    int(low),
                    int(high),
                    int(rng.integers(int(low), int(high) + 1)),
                ]
            values = [*values, *([None] if column.nullable else [])]
            values = [values[place] for place in rng.integers(len(values), size=size)]
        rows[name] = values * (count if size < count else 1)
    if persons:
        rows[_ID] = rng.integers(0, max(1, count // 2), count).tolist()
    return rows


def _neighbour(
    one: Rows, contract: Contract, kind: Kind, rng: np.random.Generator
) -> dict[str, Any]:
    """A row more, or a person's rows, or another row in the place of the last one; anywhere, or
    behind all others.
    """
    count = len(one["label"])
    replaced = int(kind.neighbours == "replace-one")
    more = _rows(contract, rng, 1 + int(kind.persons and rng.integers(4)), kind.persons)
    if count and rng.integers(3) == 0:
        place = int(rng.integers(count))
        more = {name: [one[name][place]] * len(values) for name, values in more.items()}
    if kind.persons:
        more[_ID] = [10**6] * len(more["label"])
    # coins of rows are given by their place, so that only a last row leaves the others theirs
    last = kind.persons or kind.batches or kind.rate != "1"
    place = count - replaced
    place = place if last else int(rng.integers(place + 1))
    return {name: [*one[name][:place], *more[name], *one[name][place + replaced :]] for name in one}


def _table(contract: Contract, rows: Rows) -> PrivateTable:
    table = typed(contract, {name: _array(rows[name], name, contract) for name in contract.columns})
    if _ID not in rows:
        return table
    return PrivateTable(table.data.append_column(_ID, pa.array(rows[_ID], pa.int64())))


def _array(values: Sequence[Any], name: str, contract: Contract) -> pa.Array:
    column = contract.columns[name]
    whole = pa.int64() if isinstance(column, IntegerColumn) else pa.string()
    return pa.array(values, pa.float64() if isinstance(column, RealColumn) else whole)


def _drawn(
    kind: Kind,
    method: TabularMethod[Any],
    contract: Contract,
    point: Point[Any],
    tables: Sequence[PrivateTable],
    which: bool,
    opened: Open,
) -> bytes:
    table = PrivateTable(tables[which].data)
    draws = HeardDraws(0, contract.name, simulated=False, opened=opened)
    if not kind.batches:
        marks = (
            method.prepare(table, contract, point, draws)
            if method.prepare_stage is not None
            else None
        )
        return method.encode(method.draw(table, contract, point, draws, marks))
    # the last rows, which differ, are in the last batch
    cut = min(len(tables[0].data), len(tables[1].data)) // 2
    batches = [PrivateTable(table.data.slice(0, cut)), PrivateTable(table.data.slice(cut))]
    of_each = [draws.of_batch(number) for number in range(len(batches))]
    looks = [method.look(batch, contract, own) for batch, own in zip(batches, of_each, strict=True)]
    bins = method.choose(looks, contract, point, draws)
    counted = [
        method.count(batch, contract.with_bins(bins), point, own)
        for batch, own in zip(batches, of_each, strict=True)
    ]
    return method.encode(method.merge(counted, contract, point, draws, bins))


def _price(method: TabularMethod[Any], contract: Contract, point: Point[Any]) -> Price:
    """What one unit is charged, before its sample amplifies it."""
    rows = contract.rows_of_unit if method.trust == "local" else times_of_row(contract)
    cost = method.cost(contract, point).nominal
    if not is_ours(method) and (cost.delta or method.cost(contract, point).amplified):
        raise Diverged("a cost with a delta, or amplified by a sample: no transcript shows it")
    if isinstance(method, CentralRows):
        budget = method.budget(contract, point)
        if isinstance(budget, GaussianBudget):
            assert budget.amount is not None
            return Price(squared=float(budget.amount) * rows**2, rows=rows)
    assert cost.delta == 0
    return Price(epsilon=cost.epsilon, rows=rows)


def cases_of(method: str, ways: Mapping[str, Mapping[str, Any]]) -> list[Case]:
    """Worlds of a method, for each of these options by a name."""
    local = tabular(method).trust == "local"
    kinds: dict[str, Kind] = {}
    for name, options in ways.items():
        plain = Kind(method, options, neighbours="replace-one" if local else "add-or-remove-one")
        kinds[name] = plain
        if not local:
            kinds[f"{name}, replaced"] = replace(plain, neighbours="replace-one")
            kinds[f"{name}, persons"] = replace(plain, persons=True)
        if not local and issubclass(type(tabular(method)), CentralRows):
            kinds[f"{name}, open bins"] = replace(plain, open_bins=True)
            kinds[f"{name}, wide"] = replace(plain, wide=True)
        if method == GdpTabicl.name:
            kinds[f"{name}, sampled"] = replace(plain, rate="1/2")
        if tabular(method).takes_batches:
            kinds[f"{name}, batches"] = replace(plain, batches=True)
    stranger = not is_ours(tabular(method))
    return [
        Case(f"{method}: {name}", method, partial(world, kind), stranger)
        for name, kind in kinds.items()
    ]


_GAUSSIAN = {"noise": "gaussian", "delta": 1e-5}


def cases() -> list[Case]:
    """Of all methods on tables."""
    return [
        *cases_of(MstTabicl.name, {"laplace": {}, "gaussian": _GAUSSIAN}),
        *cases_of(AimTabicl.name, {"laplace": {}, "gaussian": _GAUSSIAN}),
        *cases_of(TabPe.name, {"histograms": {}}),
        *cases_of(
            TabPate.name,
            {
                "public": {"teachers": 3, "labelled": 4},
                "released": {"queries": "released", "teachers": 2, "labelled": 3},
            },
        ),
        *cases_of(
            GdpTabicl.name,
            {
                "paid columns": {"epsilon_is": "nominal"},
                "all columns": {"allocation": "all-columns", "sum_origin": "lower"},
                "shared count": {"allocation": "shared-count"},
            },
        ),
        *cases_of(
            LdpTabicl.name,
            {
                "all columns": {},
                "one-hot": {"encoding": "one-hot"},
                "pairs": {"design": "pairs", "estimator": "tree"},
                "subset": {"design": "subset", "columns": 1, "estimator": "tree"},
                "agreement": {"design": "agreement", "estimator": "tree"},
                "label alone": {"design": "pairs", "label_alone": True, "estimator": "tree"},
            },
        ),
    ]
