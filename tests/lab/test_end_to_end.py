"""The whole machine's exact claims hold, and every mistake that stays in the harness is caught by
its claim.
"""

from __future__ import annotations

import pytest

from dpicl.methods import METHODS
from lab.audit.end_to_end.bounds import bound
from lab.audit.end_to_end.draws import cells
from lab.audit.end_to_end.mutants import MUTANTS, caught
from lab.audit.end_to_end.spellings import SPELLINGS
from lab.audit.end_to_end.suite import CLAIMS


@pytest.mark.quick(
    "a wallet keeps its cap",
    "one cap for one file",
    "bytes of protect: ldp_tabicl",
    "a period's history: ask",
    "words of a refusal",
    "bytes of a run: dp_icl",
    "borders of a frame",
    "borders of persons",
    *SPELLINGS,
)
@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_on_the_machine_holds(name: str) -> None:
    assert CLAIMS[name]() == []


@pytest.mark.quick(
    "a client cap from the contract",
    "per-name caps",
    "a file by its path",
    "both labels",
    "verdicts that others may read",
)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mistake_is_caught(name: str) -> None:
    assert caught(MUTANTS[name]), f"{MUTANTS[name].claim} is blind"


@pytest.mark.exhaustive
def test_every_method_has_cells_and_a_bound_is_within_what_is_stated() -> None:
    found = {cell.name: cell for cell in cells()}
    # two keys of teachers tell nothing of a row: its own audit does
    assert {cell.method for cell in found.values()} == {*METHODS} - {"tab_pate"}
    seen = bound(
        found["mst_tabicl appended"],
        4000,
        wrong=1e-3,
        # it shows 0.84, give or take 0.02; surer, and an event of few runs that is chosen proves
        # nothing
    )
    assert 0.3 < seen.share <= 1
