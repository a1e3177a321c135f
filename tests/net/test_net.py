"""What a user gets is what it was: names of releases, bytes, charges, exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.net.postgres import programs
from tests.net.scenarios import ON_POSTGRES, QUICK, SCENARIOS
from tests.net.world import World, world
from tests.net.write import GOLDEN

MEANING = "where that is meant: say so in CHANGELOG.md, and `python -m tests.net.write`"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One driver of commands for all scenarios."""
    with world(tmp_path_factory.mktemp("net")) as world_:
        yield world_


@pytest.mark.timeout(1800)
@pytest.mark.quick(*QUICK)
@pytest.mark.parametrize("name", SCENARIOS)
def test_names_bytes_charges_and_codes_are_those_of_before(name: str, made: World) -> None:
    if name == ON_POSTGRES and programs() is None:
        pytest.skip("no PostgreSQL server programs here")
    stored, now = json.loads(GOLDEN.read_text("utf-8"))[name], made.observed(name)
    changed = [line for line, found in now["steps"].items() if stored["steps"].get(line) != found]
    assert not changed, f"other exit codes or bytes, {MEANING}"
    assert now["accounts"] == stored["accounts"], f"other names or charges, {MEANING}"
    assert now == stored, "golden.json has what is no longer done"


def test_all_that_is_stored_is_tested() -> None:
    assert json.loads(GOLDEN.read_text("utf-8")).keys() == SCENARIOS.keys()
