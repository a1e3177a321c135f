"""Releases of tables of any size by every method, and all that leaves of them, for tests of whether
there is a release.
"""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pandas as pd

import dpicl
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from tests.command import run_forked

COLUMNS = {
    "age": {"type": "integer", "bounds": [18, 100]},
    "spent": {"type": "real", "bounds": [0, 500]},
    "city": {"type": "category", "categories": ["n", "s", "w"]},
    "bought": {"type": "category", "categories": ["no", "yes"]},
}
SCHEMA: dict[str, Any] = {"columns": COLUMNS, "label": "bought"}
ROWS = [
    (20 + number % 70, 3.5 * (number % 100), "nsw"[number % 3], ("no", "yes")[number % 4 == 0])
    for number in range(400)
]


def frame(rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(COLUMNS))


def one_label(count: int) -> list[tuple[Any, ...]]:
    return [(*row[:3], "no") for row in (ROWS * (count // len(ROWS) + 1))[:count]]


def seen(
    rows: Any,
    method: str,
    schema: dict[str, Any] | None = None,
    *,
    account: str = "a",
    **options: Any,
) -> dict[str, Any]:
    """What can be seen of a release beside its noisy values: or of a refusal, which has a sentence
    alone.
    """
    told, errors = io.StringIO(), io.StringIO()
    if method == "ldp_tabicl":
        options |= {"trust": "local"}
    with redirect_stdout(told), redirect_stderr(errors):
        release = dpicl.protect(
            rows, schema or SCHEMA, epsilon=1, account=account, budget=5, method=method, **options
        )
        shown = release.demonstrations()
    with open_ledger(Settings.from_environment()) as ledger:
        entries = ledger.entries(account)
        return {
            "statement": release.statement,
            "demonstrations": len(shown),
            "spent": ledger.spent(account).epsilon,
            "names": [entry.release.release_id for entry in entries],
            "told": told.getvalue() + errors.getvalue(),
        }


def typed_in(folder: Path, *words: str) -> CompletedProcess[str]:
    """A command of somebody whose contracts, data and state are all in this folder."""
    environment = {
        "PATH": "/usr/bin",
        "XDG_CONFIG_HOME": str(folder / "settings"),
        "DPICL_HOME": str(folder / "home"),
        "DPICL_CONTRACTS": str(folder / "contracts"),
        "DPICL_DATA": str(folder),
    }
    return run_forked(words, environment, folder, 200)
