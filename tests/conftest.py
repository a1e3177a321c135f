"""Fixtures for every test: the published data, the shipped contracts, small made-up tables."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from dpicl.contract import Contract, load_contract
from dpicl.tabular.split import SplitTable, split_table
from tests.library.examples import random_table, small_contract

ROOT = Path(__file__).resolve().parent.parent

# The same examples on every machine, however slow; HYPOTHESIS_PROFILE=explore draws new ones.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

# One fork server serves all tests of a process, and the first of them starts it: children that
# run stages would otherwise import everything each time, a hundred times over.
multiprocessing.get_context("forkserver").set_forkserver_preload(["tests.tasks.protocol"])


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of published data, from DPICL_DATA or beside the repository; skips without it."""
    folder = Path(os.environ.get("DPICL_DATA") or ROOT.parent / "shared" / "data")
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
