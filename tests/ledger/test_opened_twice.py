"""A ledger that one process has open twice shows every commit to others, whoever came and went
before.
"""

from __future__ import annotations

import pytest

from tests.harness import exit_code, forked
from tests.ledger.mortal import CROWDED
from tests.ledger.workload import Place, release


@pytest.mark.quick("sqlite")
def test_another_process_that_came_and_went_hides_no_commit(place: Place) -> None:
    with place.ledger() as first:
        first.ensure_account(CROWDED)
        with place.ledger():
            assert exit_code(forked(_expect, place, 0)) == 0
            first.reserve(release("a"))
            assert exit_code(forked(_expect, place, 1)) == 0


def _expect(place: Place, count: int) -> None:
    """Open the ledger in another process, and close it again: it knows of so many releases."""
    with place.ledger() as ledger:
        assert len(ledger.entries("shop")) == count
