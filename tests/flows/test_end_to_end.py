"""The whole machine's exact claims hold, and every mistake that stays in the harness is caught by its claim."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from dpicl.audit.end_to_end.bounds import bound
from dpicl.audit.end_to_end.draws import cells
from dpicl.audit.end_to_end.mutants import MUTANTS, caught
from dpicl.audit.end_to_end.suite import CLAIMS
from dpicl.methods import METHODS

SLOW = (
    "a bound on a delivery's texts",
    "a person's rows in every night",
    "a row in two groups",
    "a row count in the log",
    "texts of all periods until now",
    "a text is read in one period",
    "answers that lie too seldom",
    "averages at the price of their counts",
    "averages of another person at the price of counts",
    "averages that go at the price of those that come",
    "bytes of a horizon's averages",
    "bytes of a horizon's deliveries",
    "bytes of a horizon's nights",
    "bytes of a horizon's texts",
    *(f"bytes of a run: {method}" for method in METHODS if method not in ("gdp_tabicl", "few_shot_generation", "dp_icl")),
    "bytes of a run: rows held out",
    "bytes of protect: batches",
    "bytes of protect: rows held out",
    "bytes of protect: rows in memory",
    "corrections at the price of rows",
    "corrections that are no participation",
    "counts named by their content",
    "counts read anew",
    "deliveries of two rows and more",
    "deliveries that come late",
    "late rows that enter",
    "minimum read from data",
    "noise covers a person's corrections",
    "noise covers a person's history",
    "noise covers a person's history of averages",
    "noise covers a person's corrections of averages",
    "noise covers a person's deliveries of averages",
    "noise covers another person's averages",
    "noise covers a person's deliveries",
    "noise covers one row: mst_tabicl",
    "permutation split",
    "rows stay where they are: batches",
    "rows stay where they are: folder",
    "rows stay where they are: query",
    "values beyond their bounds",
)
"""Mistakes that show in many runs only, and claims on one more source or way: of every method `make test` has the release or the run."""


def _parted(names: Iterable[str]) -> list[Any]:
    """All of them, the slow ones marked."""
    return [pytest.param(name, marks=pytest.mark.exhaustive if name in SLOW else ()) for name in names]


@pytest.mark.quick(
    "a wallet keeps its cap",
    "one cap for one file",
    "bytes of protect: ldp_tabicl",
    "a period's history: ask",
    "words of a refusal",
    "bytes of a run: dp_icl",
)
@pytest.mark.parametrize("name", _parted(CLAIMS))
def test_a_claim_on_the_machine_holds(name: str) -> None:
    assert CLAIMS[name]() == []


@pytest.mark.quick("a client cap from the contract", "per-name caps")
@pytest.mark.parametrize("name", _parted(MUTANTS))
def test_a_mistake_is_caught(name: str) -> None:
    assert caught(MUTANTS[name]), f"{MUTANTS[name].claim} is blind"


@pytest.mark.exhaustive
def test_every_method_has_cells_and_a_bound_is_within_what_is_stated() -> None:
    found = {cell.name: cell for cell in cells()}
    assert {cell.method for cell in found.values()} == {*METHODS} - {
        "tab_pate"
    }  # two keys of teachers tell nothing of a row: its own audit does
    seen = bound(
        found["mst_tabicl appended"], 4000, wrong=1e-3
    )  # it shows 0.84, give or take 0.02; surer, and an event of few runs that is chosen proves nothing
    assert 0.3 < seen.share <= 1
