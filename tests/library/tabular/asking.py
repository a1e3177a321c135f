"""Contracts whose rows a database gives, for its attackers."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpicl.contract import Contract
from dpicl.data.reading.source import load_source
from dpicl.ground.errors import DpiclError

from ..table_contracts import GOOD_CSV, small_contract

SELECT = "SELECT age, height, colour, y FROM people"
ROWS = [line.split(",") for line in GOOD_CSV.splitlines()[1:]]
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"


def asking(sql: str, **source: object) -> Contract:
    """The small contract, on the database at PEOPLE_DATABASE; `source` is what more stands
    there.
    """
    return small_contract(
        source={"file": None, "query": {"url_env": "PEOPLE_DATABASE", "sql": sql}, **source}
    )


def load(sql: str) -> int:
    """How many rows it gives."""
    return load_source(asking(sql), data_folder=None, cache_folder=Path("unused")).num_rows


def refusal(sql: str) -> str:
    """What is said instead of rows."""
    with pytest.raises(DpiclError) as caught:
        load(sql)
    return str(caught.value)
