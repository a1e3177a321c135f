"""Made-up histories of a table that grows, and methods that count every period of its horizon."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from dpicl.contract import Contract, parse_contract
from dpicl.contract.pipeline import Point
from dpicl.methods import METHODS, Options, grid, tabular, unit_of
from dpicl.methods.counted_horizon import CountedHorizon
from dpicl.methods.gdp_tabicl import GdpTabicl
from dpicl.methods.mst_tabicl import MstTabicl
from lab.audit.neighbours import typed
from lab.audit.transcripts.record import Open
from lab.audit.transcripts.worlds import Case, Price, World

_CELLS = {"x": ("a", "b", "c"), "label": ("n", "y")}
_MOST = 8
Night = list[tuple[int, str, str, int]]
"""Rows of one period: a number in 0..9, a category, a label, and -1 where it takes one back."""


@dataclass(frozen=True)
class Kind:
    """How a horizon is counted."""

    method: str
    neighbours: str
    options: Mapping[str, Any]
    takes_back: bool = False


def world(kind: Kind, rng: np.random.Generator) -> World:
    """A horizon, everybody else's rows of each period, and one unit's rows, or two units'."""
    periods = int(rng.integers(1, 7))
    per_period = int(rng.integers(1 + kind.takes_back, 4))
    most = int(rng.integers(per_period, periods * per_period + 1))
    contract = _contract(kind, periods, per_period, most)
    options = dict(kind.options)
    if kind.method == MstTabicl.name:
        options["structure"] = int(rng.integers(1, periods + 1))
    point = _point(kind.method, options, contract, float(rng.choice([0.5, 2.0, 8.0])))
    series = tabular(kind.method).series(contract, point)
    others = [_rows(rng, int(rng.integers(0, _MOST)), kind) for _ in range(periods)]
    one, two = (_added(others, rng, per_period, most, kind) for _ in range(2))
    pair = (one, two) if kind.neighbours == "replace-one" else (one, others)
    counted = [[_counted(series, contract, night) for night in nights] for nights in pair]
    amount = series.budget.amount
    assert amount is not None
    return World(partial(_drawn, series, counted), Price(squared=float(amount), rows=1), 0)


def _contract(kind: Kind, periods: int, per_period: int, most: int) -> Contract:
    content = {
        "version": 2,
        "name": "audit",
        "source": {"file": "none.csv", "arrived": "day"}
        | ({"sign": "sign"} if kind.takes_back else {}),
        "releases": {"every": "day", "horizon": periods, "first": "2030-01-01"},
        "privacy": {
            "unit": "person",
            "neighbours": kind.neighbours,
            "person": {"id_column": "who", "max_rows": per_period, "max_rows_in_horizon": most},
            "budget": {"epsilon": 100, "delta": 1e-5},
        },
        "columns": {
            "n": {"type": "integer", "bounds": [0, 9], "bins": [5]},
            **{
                name: {"type": "category", "categories": list(values)}
                for name, values in _CELLS.items()
            },
        },
        "label": "label",
        "groups": {2: ["label"]},
    }
    contract = parse_contract(content, "audit")
    assert isinstance(contract, Contract)
    return contract


def _point(
    method: str, options: Mapping[str, Any], contract: Contract, epsilon: float
) -> Point[Any]:
    stated = Options.model_validate({method: options})
    unit = unit_of(method, contract.name, 0, (epsilon,), (2,), (), False, stated)
    return next(iter(grid.points(METHODS[method], unit).values()))


def _rows(rng: np.random.Generator, count: int, kind: Kind) -> Night:
    signs = (1, -1) if kind.takes_back else (1,)
    return [
        (
            int(rng.choice([0, 4, 9])),
            str(rng.choice(_CELLS["x"])),
            str(rng.choice(_CELLS["label"])),
            int(rng.choice(signs)),
        )
        for _ in range(count)
    ]


def _added(
    others: Sequence[Night], rng: np.random.Generator, per_period: int, most: int, kind: Kind
) -> list[Night]:
    """With rows of one person, often all in one cell, as many as there may be or fewer."""
    (alike,) = _rows(rng, 1, kind)
    left, nights = most, list[Night]()
    for night in others:
        count = min(left, int(rng.choice([0, per_period, per_period])))
        left -= count
        nights.append([*night, *([alike] * count if rng.integers(3) else _rows(rng, count, kind))])
    return nights


def _counted(series: CountedHorizon[Any, Any], contract: Contract, night: Night) -> Any:
    """What comes, less what is taken back."""
    came, went = ([row[:3] for row in night if row[3] == sign] for sign in (1, -1))
    about, flat = series.packed(_exact(series, contract, came))
    if went:
        flat = flat.astype(np.int64) - series.packed(_exact(series, contract, went))[1]
    return series.unpacked(about, flat)


def _exact(
    series: CountedHorizon[Any, Any], contract: Contract, rows: Sequence[tuple[int, str, str]]
) -> Any:
    columns = {
        name: pa.array([row[place] for row in rows], kind)
        for place, (name, kind) in enumerate(
            {"n": pa.int64(), "x": pa.string(), "label": pa.string()}.items()
        )
    }
    return series.counted(typed(contract, columns), contract, np.arange(len(rows)))


def _drawn(
    series: CountedHorizon[Any, Any],
    counted: Sequence[Sequence[Any]],
    which: bool,
    opened: Open,
) -> bytes:
    made: list[dict[str, np.ndarray]] = []
    history: list[Any] = []
    for period, counts in enumerate(counted[which], 1):
        # later periods keep what they need of earlier ones: by what was released until then
        history.append(series.needed(counts, made) if period < len(counted[which]) else counts)
        made.append(series.draw(history, made, opened(f"period {period}")))
    content = io.BytesIO()
    np.savez(
        content,
        allow_pickle=False,
        **{
            f"{period} {name}": array
            for period, arrays in enumerate(made)
            for name, array in arrays.items()
        },
    )
    return content.getvalue()


_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    MstTabicl.name: {"noise": "gaussian", "delta": 1e-5},
    GdpTabicl.name: {"allocation": "shared-count"},
}


def cases() -> list[Case]:
    """Of all methods that count a horizon."""
    kinds = {
        f"{method}: series, {neighbours}": Kind(method, neighbours, options)
        for method, options in _OPTIONS.items()
        for neighbours in ("add-or-remove-one", "replace-one")
    }
    kinds |= {
        f"{name}, corrections": replace(kind, takes_back=True) for name, kind in kinds.items()
    }
    return [Case(name, kind.method, partial(world, kind)) for name, kind in kinds.items()]
