"""A ledger that one process has open twice shows every commit to others, whoever came and went
before.
"""

from __future__ import annotations

import multiprocessing

import pytest

from tests.ledger.mortal import CROWDED
from tests.ledger.workload import Place, release


@pytest.mark.quick("sqlite")
def test_another_process_that_came_and_went_hides_no_commit(place: Place) -> None:
    with place.ledger() as first:
        first.ensure_account(CROWDED)
        with place.ledger():
            assert visit(place, 0) == 0
            first.reserve(release("a"))
            assert visit(place, 1) == 0


def visit(place: Place, count: int) -> int | None:
    """Open the ledger in another process, and close it again; its exit code is 0 where it knows of
    so many releases.
    """
    visitor = multiprocessing.get_context("forkserver").Process(target=_expect, args=(place, count))
    visitor.start()
    visitor.join(60)
    return visitor.exitcode


def _expect(place: Place, count: int) -> None:
    with place.ledger() as ledger:
        assert len(ledger.entries("shop")) == count
