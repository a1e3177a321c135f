"""The sets of the paper, and others with a contract, as benches read them."""

from __future__ import annotations

from dpicl.contract import Contract
from dpicl.data.reading.source import load_source
from dpicl.data.reading.split import split_table
from dpicl.ground.types import SplitTable
from dpicl.home.settings import Settings
from lab.benchmarks.figures import sized

EIGHT = sized(
    ("adult", "bank", "blood", "calhousing", "car", "diabetes", "heart", "jungle"),
    ("adult", "blood"),
)


def at_hand() -> bool:
    """Whether real tables can be read; says so where they cannot."""
    if Settings.from_environment().data is None:
        print("DPICL_DATA is not set: real tables are not measured")
        return False
    return True


def real_table(name: str) -> tuple[Contract, SplitTable]:
    """A contract and its table, as a run splits it."""
    settings = Settings.from_environment()
    contract = settings.contract(name)
    return contract, split_table(
        load_source(contract, data_folder=settings.data, cache_folder=settings.cache), contract
    )
