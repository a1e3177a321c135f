"""Fixtures for every test: the published data, the shipped contracts, small made-up tables."""

from __future__ import annotations

import atexit
import gc
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from absl.logging import get_absl_handler
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from dpicl.contract import Contract, load_contract
from dpicl.data.reading.split import split_table
from dpicl.ground.types import SplitTable
from dpicl.home.settings import default_home, witness_folder
from tests.harness import PRELOAD, last_written
from tests.library.examples import random_table, small_contract

ROOT = Path(__file__).resolve().parent.parent
DATA = os.environ.get("DPICL_DATA") or ROOT.parent / "shared" / "data"
"""As this process was told: the first test that needs it may work in a place of its own."""

# The same examples on every machine, however slow, and more of them where all is tested;
# HYPOTHESIS_PROFILE=explore draws new ones.
settings.register_profile("steady", max_examples=25, derandomize=True, deadline=None)
settings.register_profile("thorough", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
# Some of its examples are constants of the sources that are imported, and what is imported hangs on
# the tests before: none of them, so that a test has the same ones wherever it runs.
assert hasattr(providers, "_get_local_constants")
providers._get_local_constants = lambda: providers._local_constants

# As Dask's workers have it: tests run in several processes, and so do most of the programs that
# they start.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# No test may spend from the budgets of whoever runs it: a program that is told of no state home
# finds one here, and one for the witness.
OWN = {
    "TESTERS_STATE_HOME": ("XDG_STATE_HOME", default_home()),
    "TESTERS_WITNESSES": ("XDG_CONFIG_HOME", witness_folder()),
}
for _own, (_name, _folder) in OWN.items():
    if _own not in os.environ:  # else set by the process that started this one
        os.environ[_own] = str(_folder or "")
        os.environ[_name] = tempfile.mkdtemp(prefix="dpicl-tests-")
        atexit.register(shutil.rmtree, os.environ[_name], ignore_errors=True)

WITNESSES = os.environ["XDG_CONFIG_HOME"]
# what is found of the models of tests is kept in nobody's cache
if "TESTERS_CACHE" not in os.environ:
    os.environ["TESTERS_CACHE"] = os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(
        prefix="dpicl-tests-cache-"
    )
    atexit.register(shutil.rmtree, os.environ["TESTERS_CACHE"], ignore_errors=True)
# it has settings there too
os.environ.setdefault("MPLCONFIGDIR", str(Path.home() / ".cache" / "matplotlib"))

# Read when Prefect is imported, whichever test does that first: stages also work without a flow,
# and its console is a captured one.
os.environ.setdefault("PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW", "ignore")
os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")

# dp-accounting brings a log handler that closes what was sys.stderr, pytest's own file, when
# Prefect sets logging up anew.
get_absl_handler().python_handler.setStream(sys.__stderr__)

# A shell's background job is deaf to interrupts, and so would be the programs that are interrupted
# here.
signal.signal(signal.SIGINT, signal.default_int_handler)

# One fork server serves all tests of a process, and the first of them starts it.
multiprocessing.get_context("forkserver").set_forkserver_preload(PRELOAD)


@cache
def _shares_the_world(file: Path) -> bool:
    """Whether tests of a file use the session's server and cluster."""
    return "world: World" in file.read_text("utf-8")


def pytest_collection() -> None:
    """While all is imported nothing becomes garbage; looking for it would take a quarter of the
    time.
    """
    gc.disable()


def pytest_collection_finish() -> None:
    """What is there now stays: later collections need not look at it."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is `quick` for some parameters is exhaustive for the others. Tests that share server and
    cluster come first: they take longest.
    """
    items.sort(key=lambda item: not _shares_the_world(item.path))
    unknown: dict[str, set[str]] = {}
    for item in items:
        if (quick := item.get_closest_marker("quick")) is not None:
            name, _, parameters = item.nodeid.partition("[")
            unknown.setdefault(name, set(quick.args)).discard(parameters[:-1])
            if parameters[:-1] not in quick.args:
                item.add_marker("exhaustive")
    if not any("::" in given for given in config.args) and (
        wrong := [name for name, left in unknown.items() if left]
    ):
        raise pytest.UsageError(
            f"{wrong[0]}: quick for {unknown[wrong[0]]}, and has no such parameters"
        )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Of several processes one gets all tests that share server and cluster, so that these are
    started once.
    """
    from xdist.scheduler import LoadFileScheduling

    class OneWorld(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return "world" if _shares_the_world(ROOT / file) else file

    return OneWorld(config, log)


@pytest.fixture(scope="session", autouse=True)
def own_state_stays() -> Iterator[None]:
    """Fails where a test has written into the tester's own state home, or witnesses."""
    before = {own: last_written(Path(own)) for own in map(os.environ.__getitem__, OWN) if own}
    yield
    for own, written in before.items():
        assert last_written(Path(own)) == written, f"a test wrote into {own}, or you did meanwhile"


@pytest.fixture(autouse=True)
def own_witness(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test's homes have spent is not known in another test's, unless they work in one
    place.
    """
    # one of another test's is left where that ended while it worked in a place
    if os.environ["XDG_CONFIG_HOME"].startswith(WITNESSES):
        monkeypatch.setenv("XDG_CONFIG_HOME", f"{WITNESSES}/{abs(hash(request.node.nodeid))}")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of published data, from DPICL_DATA or beside the repository; skips without it."""
    folder = Path(DATA)
    if not folder.is_dir():
        pytest.skip("the published data are not here; set DPICL_DATA")
    return folder


@pytest.fixture(scope="session")
def contracts_folder() -> Path:
    """The shipped contracts."""
    return ROOT / "data_contracts"


@pytest.fixture(scope="session")
def contracts(contracts_folder: Path) -> dict[str, Contract]:
    """The shipped contracts by name."""
    return {path.stem: load_contract(path) for path in sorted(contracts_folder.glob("*.yaml"))}


@pytest.fixture
def small_split() -> Callable[..., SplitTable]:
    """Made-up rows of the small contract, parted: `small_split(row_count=..., seed=...)`."""

    def make(row_count: int = 200, seed: int = 0) -> SplitTable:
        contract = small_contract()
        return split_table(random_table(contract, row_count, seed), contract)

    return make
