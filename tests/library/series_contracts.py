"""A contract of a table that grows, and histories of its rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa

from dpicl.contract import Contract
from dpicl.contract.load import parse_contract

FIRST = date(2026, 3, 1)
NAME = "visits"


def series_tree(**changes: Any) -> dict[str, Any]:
    """Twelve days of persons, who enter with a row a day and three in all; `changes` replace
    keys.
    """
    return {
        "name": NAME,
        "source": {"file": f"{NAME}.csv", "arrived": "day"},
        "releases": {"every": "day", "horizon": 12, "first": FIRST.isoformat()},
        "privacy": {
            "unit": "person",
            "person": {"id_column": "who", "max_rows": 1, "max_rows_in_horizon": 3},
            "budget": {"epsilon": 3, "delta": 1e-6},
        },
        "columns": {
            "age": {"type": "integer", "bounds": [18, 90], "bins": [30, 60]},
            "city": {"type": "category", "categories": ["a", "b"]},
            "sex": {"type": "category", "categories": ["m", "f"]},
            "buys": {"type": "category", "categories": ["no", "yes"]},
        },
        "label": "buys",
        **changes,
    }


def of_rows(**changes: Any) -> dict[str, Any]:
    """The same that protects rows."""
    return series_tree(**{"privacy": {"budget": {"epsilon": 3, "delta": 1e-6}}, **changes})


def series_contract(tree: dict[str, Any] | None = None) -> Contract:
    contract = parse_contract(tree or series_tree(), f"{NAME}.yaml")
    assert isinstance(contract, Contract)
    return contract


def visit(
    who: str, day: int, *, age: int = 40, city: str = "a", sex: str = "m", buys: str = "no"
) -> dict[str, Any]:
    """A row that arrives on a day, counted from 1."""
    return {
        "who": who,
        "day": (FIRST + timedelta(days=day - 1)).isoformat(),
        "age": age,
        "city": city,
        "sex": sex,
        "buys": buys,
    }


def visits(
    days: int = 12, persons: int = 40, *, of: Callable[[int], dict[str, Any]] = lambda number: {}
) -> list[dict[str, Any]]:
    """Everybody comes every third day."""
    return [
        visit(
            f"p{who}",
            day,
            age=20 + who % 60,
            city="ab"[who % 2],
            sex="mf"[who % 2 if who % 5 else 1 - who % 2],
            buys=("no", "yes")[who % 4 == 0],
        )
        | of(who)
        for day in range(1, days + 1)
        for who in range(persons)
        if (who + day) % 3 == 0
    ]


def table(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows as a data frame."""
    return pa.Table.from_pylist(rows)


def after(day: int) -> datetime:
    """A time at which so many days are over."""
    return datetime(FIRST.year, FIRST.month, FIRST.day, 3, tzinfo=UTC) + timedelta(days=day)
