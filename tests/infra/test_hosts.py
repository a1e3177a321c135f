"""Server, scheduler, two workers and the flow on five hosts that share a folder: a run there gives
what it gives on one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.flows.test_interrupted import outcome
from tests.harness import DPICL, differences, new_place, until, well
from tests.infra.hosts import linked
from tests.infra.spread import Spread, spread_over

pytestmark = pytest.mark.exhaustive

HOSTS, WORKERS = ("server", "scheduler", "flow"), ("one", "two")
GRID = (
    "--model",
    "tiny",
    "--methods",
    "ldp_tabicl",
    "--epsilons",
    "1",
    "--shots",
    "1,2,4",
    "--seeds",
    "0",
)
NOTICED = "11s"
"""After so long without a word a host is given up; Dask takes nothing shorter."""


@pytest.fixture(scope="module")
def spread(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spread]:
    """All parts over TLS, each on a host of its own, with one state folder."""
    place = new_place(tmp_path_factory.mktemp("spread") / "place")
    noticed = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": NOTICED}
    with ExitStack() as stack:
        hosts = stack.enter_context(linked((*HOSTS, *WORKERS)))
        spread = stack.enter_context(spread_over(place, hosts, **noticed))
        for name in WORKERS:
            stack.enter_context(spread.worker(name))
        yield spread


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What the same run gives on this machine alone."""
    place = new_place(tmp_path_factory.mktemp("alone") / "place")
    well(place.dpicl("run demo", *GRID, "--run-id", "alone", timeout=300))
    return outcome(place.run("alone"))


def test_five_hosts_give_what_one_gives(spread: Spread, alone: dict[str, bytes]) -> None:
    spread.finish(spread.start(str(DPICL), "run", "demo", *GRID, "--run-id", "spread"))
    assert differences(outcome(spread.place.run("spread")), alone) == []
    assert "Remove worker" not in spread.scheduler_log.read_text()


def test_a_worker_whose_link_is_cut_while_it_works_changes_no_result(
    spread: Spread, alone: dict[str, bytes]
) -> None:
    lost = spread.hosts["two"].address
    watch = spread.until_busy("two")
    running = spread.start(str(DPICL), "run", "demo", *GRID, "--run-id", "cut")
    try:
        spread.finish(watch)
        spread.hosts["two"].cut_off()
        # cut too late to be a test
        assert not (spread.place.run("cut") / "results.csv").exists()
    finally:
        spread.finish(running)
    assert f"Remove worker addr: tls://{lost}" in spread.scheduler_log.read_text()
    assert differences(outcome(spread.place.run("cut")), alone) == []
    assert spread.workers() == 1


def test_a_worker_comes_back_with_its_link(spread: Spread) -> None:
    """It was given up, perhaps by the test before, and nobody starts it again."""
    spread.hosts["two"].cut_off()
    until(lambda: spread.workers() == 1, 60, "the scheduler to notice", every=2)
    spread.hosts["two"].link_up()
    until(lambda: spread.workers() == 2, 120, "the worker", every=2)
