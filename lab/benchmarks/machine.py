"""The guarantee of the whole machine: every hole that was found as a figure, 0 of them open, and
bounds from files to bytes.

A hole's number is that of the list it was reported in. Each attack goes through the command line in
this process, on made-up tables in installations of their own, and gives 1 if it succeeds.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import yaml
from sqlalchemy import create_engine, text

from dpicl.accounting.accountant import price
from dpicl.accounting.events import gaussian, poisson_sampled
from dpicl.accounting.filters import Spent
from dpicl.accounting.guarantee import Neighbours
from dpicl.contract import parse_contract
from dpicl.data.reading.parse import typed_table
from dpicl.ground.errors import DpiclError
from dpicl.ground.types import PrivateTable
from dpicl.home.accounts import address_of, open_ledger
from dpicl.home.settings import Settings
from dpicl.methods import Options, tabular, unit_of
from dpicl.methods.base import draws_for
from dpicl.methods.tabular_method import TabularMethod
from dpicl.release.releases import check_shared
from lab import in_memory
from lab.audit.end_to_end.claims import rows_moved
from lab.audit.end_to_end.commands import Output, command_line, protect
from lab.audit.end_to_end.mutants import MUTANTS, caught
from lab.audit.end_to_end.suite import CLAIMS, declared
from lab.audit.end_to_end.world import KINDS, URL, Declaration, World, base_rows, new_world
from lab.audit.results import bounds
from lab.benchmarks.figures import Figures, bench, sized

RUNS = sized(2_000, 10)
SOURCES = sized(KINDS, KINDS[:1])
ADD = Neighbours.ADD_OR_REMOVE_ONE


@contextmanager
def _installation(declaration: Declaration) -> Iterator[World]:
    with new_world(declaration) as world, world.entered():
        world.put(base_rows(declaration), declaration.kind)
        yield world


def _broken(*claims: str) -> int:
    return int(any(CLAIMS[claim]() for claim in claims))


def _granted(output: Output) -> int:
    return int(output.code == 0)


def _refused(act: Callable[[], object], why: str) -> int:
    """0 where an act is refused by the sentence that is meant: another refusal would hide an attack
    that is none.
    """
    try:
        act()
    except DpiclError as error:
        assert why in str(error), f"refused for another reason: {error}"
        return 0
    return 1


def _granted_first(output: Output) -> None:
    """What an attack begins with, an honest command, is granted."""
    assert output.code == 0, output


def another_working_directory() -> int:
    """Hole 4: where a command is typed decides which budget it spends."""
    before, homes = Path.cwd(), set()
    hidden = {
        name: os.environ.pop(name) for name in ("DPICL_HOME", "DPICL_RUNS") if name in os.environ
    }
    try:
        for _ in range(2):
            with tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
                homes.add(Settings.from_environment().home)
                os.chdir(before)
    finally:
        os.chdir(before)
        os.environ.update(hidden)
    return int(len(homes) != 1)


def a_lost_ledger() -> int:
    """Hole 5: a ledger that is gone is made anew, and a release drawn again."""
    with _installation(Declaration()) as world:
        _granted_first(protect("mst_tabicl")())
        for file in world.home.glob("ledger*"):
            file.unlink()
        return _granted(protect("mst_tabicl")())


def an_edited_ledger() -> int:
    """Hole 6: totals that were edited give the cap again."""
    with _installation(Declaration(cap=1.0)):
        _granted_first(protect("mst_tabicl")())
        settings = Settings.from_environment()
        engine = create_engine(address_of(settings))
        with engine.begin() as connection:
            connection.execute(text("UPDATE records SET content = replace(content, '1', '0')"))
        engine.dispose()
        return _granted(protect("mst_tabicl", more=("--period", "2031-01"))())


def a_library_call() -> int:
    """Hole 9: a method's `run` releases rows that have a budget, and charges nobody."""
    with _installation(Declaration()):
        contract = Settings.from_environment().contract("shop")
        unit = unit_of("gdp_tabicl", "shop", 0, (1.0,), contract.shots[:1], (), False, Options())
        rows = PrivateTable(
            typed_table(pa.Table.from_pylist(base_rows(Declaration())), contract, "shop.csv")
        )
        method, draws = tabular("gdp_tabicl"), draws_for(contract, 0)
        return _refused(
            lambda: in_memory.of_table(method, rows, contract, unit, draws), "charges no ledger"
        )


def a_model_that_is_not_there() -> int:
    """Hole 10: budget is spent before the model that answers is opened."""
    with _installation(Declaration("texts")):
        command_line(
            "ask",
            "who?",
            "--contract",
            "shop",
            "--model",
            "nobody/nothing",
            "--shots",
            "1",
            "--count",
            "1",
            "--epsilon",
            "1",
        )
        with open_ledger(Settings.from_environment()) as ledger:
            return int(any(ledger.entries(account.name) for account in ledger.accounts()))


def a_voter_that_fails() -> int:
    """Hole 11: scores of one voter that are not finite count for more than one vote."""
    from dpicl.methods.ensemble_voting import hard_votes, soft_votes

    wild = np.array([[np.inf, 0.0], [-np.inf, -np.inf], [np.nan, 0.0]])
    votes = [np.abs(np.asarray(count(wild, 1.0))).max() for count in (hard_votes, soft_votes)]
    return int(max(votes) > 2**22 or votes[0] > 0)


def a_query_that_writes() -> int:
    """Hole 12: a contract's statement changes the database that it reads."""
    with _installation(Declaration("query")) as world:
        file = Path(os.environ[URL].removeprefix("sqlite:///"))
        contract = world.root / "contracts" / "shop.yaml"
        contract.write_text(contract.read_text().replace("SELECT * FROM shop", "DROP TABLE shop"))
        protect("mst_tabicl")()
        with sqlite3.connect(file) as database:
            return int(not list(database.execute("SELECT name FROM sqlite_master")))


def a_hash_of_rows() -> int:
    """Hole 14: a plain digest of private rows stands in a public contract."""
    content = Declaration().contract()
    content["source"] = {**content["source"], "content_sha256": "0" * 64}
    return _refused(lambda: parse_contract(content, "shop.yaml"), "content_sha256")


def a_benchmark_by_its_word() -> int:
    """Hole 16: `benchmark: true` of rows that nobody has published takes cap and noise away."""
    with _installation(Declaration()) as world:
        contract = world.root / "contracts" / "shop.yaml"
        content = Declaration().contract()
        content["privacy"]["budget"] = {"benchmark": True}
        content["split"] = {"test_fraction": 0.2}
        contract.write_text(yaml.safe_dump(content))
        return _granted(protect("mst_tabicl")())


def a_ledger_for_every_host() -> int:
    """Hole 17: hosts that work on the same rows have a ledger each."""
    with _installation(Declaration()):
        return _refused(
            lambda: check_shared(
                [Settings.from_environment().contract("shop")], Settings.from_environment()
            ),
            "of its own",
        )


def an_adaptive_choice() -> int:
    """Hole 15: different releases with a delta are granted by distributions that hold for what is
    fixed beforehand only.
    """
    different = [
        price(
            poisson_sampled(Fraction(1, 20), gaussian(sigma=sigma)),
            neighbours=ADD,
            unit="row",
            delta=1e-5,
        )
        for sigma in (1.0, 2.0)
    ]
    spent = Spent.nothing()
    for guarantee in different:
        spent = spent.plus(guarantee)
    return int("filter" not in spent.cost(1e-5).method)


HOLES: Mapping[str, Callable[[], int]] = {
    "1-split": lambda: _broken(*(f"rows stay where they are: {kind}" for kind in SOURCES)),
    "2-names": lambda: _broken(*(claim for claim in CLAIMS if "history" in claim)),
    "3-accounts": lambda: _broken("one cap for one file"),
    "4-place": another_working_directory,
    "5-lost-ledger": a_lost_ledger,
    "6-edited-ledger": an_edited_ledger,
    "7-client-cap": lambda: _broken("a wallet keeps its cap"),
    "8-unknown-method": lambda: _refused(
        lambda: type("Toy", (TabularMethod,), {"draw_version": 1}), "is not stated"
    ),
    "9-library-call": a_library_call,
    "10-model-after-charge": a_model_that_is_not_there,
    "11-one-row-stops": a_voter_that_fails,
    "12-sql-writes": a_query_that_writes,
    "13-held-out-rows": lambda: _broken(
        "bytes of protect: rows held out", "bytes of a run: rows held out"
    ),
    "14-hash-of-rows": a_hash_of_rows,
    "15-adaptive-choice": an_adaptive_choice,
    "16-benchmark-by-word": a_benchmark_by_its_word,
    "17-ledger-per-host": a_ledger_for_every_host,
}


def holes(figures: Figures) -> None:
    """Each attack."""
    for name, attack in HOLES.items():
        figures.exactly(f"hole-{name}-open", attack(), 0)


def stability(figures: Figures) -> None:
    """Rows that one row moves on its way to the mechanism."""
    for kind in SOURCES:
        moved = max(
            moved for declaration in declared(kind) for moved in rows_moved(declaration).values()
        )
        figures.at_most(f"rows-that-one-row-moves-{kind}", moved, 1)


def bounded(figures: Figures) -> None:
    """Epsilon from below, of each cell from files to bytes."""
    with bounds(RUNS) as found:
        cells = list(found)
    for one in cells:
        print(
            f"{one.cell}: at least {one.at_least:.3f} of {one.stated:.3f}, {one.runs} runs a "
            f"side, {one.seconds / 2 / one.runs:.4f} s a run"
        )
    figures.at_most("end-to-end-highest-bound-over-stated", max(cell.share for cell in cells), 1)
    figures.at_least("end-to-end-runs-a-side", min(cell.runs for cell in cells), 100)


def mutants(figures: Figures) -> None:
    """Each mistake of the whole machine is seen by its claim."""
    missed = [
        name
        for name, mutant in sized(list(MUTANTS.items()), list(MUTANTS.items())[:3])
        if not caught(mutant)
    ]
    print(f"{len(MUTANTS)} mutants of the machine", *missed, sep="\n")
    figures.exactly("end-to-end-mutants-missed", len(missed), 0)


PARTS = (holes, stability, bounded, mutants)

if __name__ == "__main__":
    bench(PARTS)
