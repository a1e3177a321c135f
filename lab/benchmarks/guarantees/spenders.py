"""Many processes spend one account of a ledger at once, and contest each other's releases.

Half of a spender's releases are its own; the other half all spenders ask for, and publish an
artefact of their own for. The account holds three quarters of what they ask for together.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import secrets
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from dpicl.accounting.accountant import price
from dpicl.accounting.events import pure
from dpicl.accounting.guarantee import Neighbours
from dpicl.ground.errors import BudgetError
from dpicl.ledger import Account, Ledger, ReleaseCharge, keyed_hash
from lab.benchmarks.figures import Figures, sized
from tests.ledger.postgres import programs, running_postgres

RELATION = Neighbours.ADD_OR_REMOVE_ONE
COST = price(pure(0.25), neighbours=RELATION, unit="row")
"""A power of two, so that the cap is an exact number of releases."""
_START_SECONDS = 120


@dataclass(frozen=True)
class Asked:
    """One release as one spender saw it: whether it was charged by this call, and the artefact that
    won.
    """

    release_id: str
    charged: bool
    winner: str | None


@dataclass(frozen=True)
class Outcome:
    """What happened to an account that holds `capacity` releases."""

    capacity: int
    entries: int
    spent: float
    cap: float
    charges: int
    refusals: int
    torn_releases: int
    transactions: int
    seconds: float

    @property
    def overspends(self) -> int:
        """Releases beyond the cap."""
        return max(0, self.entries - self.capacity)

    @property
    def duplicates(self) -> int:
        """Calls that were told they charged a release that another call charged, and releases with
        two winners.
        """
        return self.charges - self.entries + self.torn_releases

    @property
    def per_second(self) -> float:
        """Calls of `reserve` and `publish` that were answered, by the clock on the wall."""
        return self.transactions / self.seconds


def spend_together(url: str, key: bytes, anchor: Path, *, spenders: int, releases: int) -> Outcome:
    """`spenders` processes ask for `releases` each; opens an account of its own and verifies the
    chain.
    """
    distinct = releases // 2 * spenders + (releases - releases // 2)
    capacity = distinct * 3 // 4
    account = Account(
        f"contested-{secrets.token_hex(4)}", "row", RELATION, epsilon_cap=COST.epsilon * capacity
    )
    with Ledger.open(url, key, anchor) as ledger:
        ledger.ensure_account(account)
    seen = _answers(url, key, anchor, account.name, spenders, releases)
    asked = [answer for answers, _, _ in seen for answer in answers]
    winners = defaultdict(set)
    for answer in asked:
        winners[answer.release_id].add(answer.winner)
    with Ledger.open(url, key, anchor) as ledger:
        ledger.verify()
        entries, spent = len(ledger.entries(account.name)), ledger.spent(account.name).epsilon
    return Outcome(
        capacity=capacity,
        entries=entries,
        spent=spent,
        cap=account.epsilon_cap or 0.0,
        charges=sum(answer.charged for answer in asked),
        refusals=sum(answer.winner is None for answer in asked),
        torn_releases=sum(len(found - {None}) > 1 for found in winners.values()),
        transactions=len(asked) + sum(answer.winner is not None for answer in asked),
        seconds=max(end for _, _, end in seen) - min(start for _, start, _ in seen),
    )


def _answers(
    url: str, key: bytes, anchor: Path, account: str, spenders: int, releases: int
) -> list[tuple[list[Asked], float, float]]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    together = context.Barrier(spenders, timeout=_START_SECONDS)
    with ProcessPoolExecutor(spenders, context, initializer=together.wait) as pool:
        spending = [
            pool.submit(_spend, number, url, key, anchor, account, releases)
            for number in range(spenders)
        ]
        return [spender.result() for spender in spending]


def _spend(
    spender: int, url: str, key: bytes, anchor: Path, account: str, releases: int
) -> tuple[list[Asked], float, float]:
    with Ledger.open(url, key, anchor) as ledger:
        start = time.monotonic()
        answers = [
            _ask(ledger, key, account, spender if turn % 2 else -1, turn, spender)
            for turn in range(releases)
        ]
        return answers, start, time.monotonic()


def _ask(ledger: Ledger, key: bytes, account: str, owner: int, turn: int, spender: int) -> Asked:
    name = keyed_hash(key, account, owner, turn)
    release = ReleaseCharge(name, account, "noisy-mean", {"owner": owner, "turn": turn}, COST)
    try:
        charged = ledger.reserve(release).is_new
    except BudgetError:
        return Asked(name, False, None)
    return Asked(
        name,
        charged,
        ledger.publish(name, hashlib.sha256(f"{name} by {spender}".encode()).hexdigest()),
    )


def measure(figures: Figures, spenders: int = sized(64, 4), releases: int = sized(20, 4)) -> None:
    """64 processes on one account, on SQLite and, where its programs are installed, on
    PostgreSQL.
    """
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        urls = {"sqlite": f"sqlite:///{Path(folder) / 'ledger.db'}"}
        if programs():
            urls["postgresql"] = stack.enter_context(running_postgres()).url()
        for backend, url in urls.items():
            outcome = spend_together(
                url,
                secrets.token_bytes(32),
                Path(folder) / f"{backend}.json",
                spenders=spenders,
                releases=releases,
            )
            print(
                f"{spenders} spenders on {backend}: {outcome.transactions:,} transactions, "
                f"{outcome.per_second:,.0f} per second"
            )
            figures.exactly(f"spenders-overspend-{backend}", outcome.overspends, 0)
            figures.exactly(f"spenders-duplicates-{backend}", outcome.duplicates, 0)
            figures.exactly(f"spenders-releases-{backend}", outcome.entries, outcome.capacity)


def main() -> None:
    """Measure alone."""
    figures = Figures()
    measure(figures)
    figures.finish()


if __name__ == "__main__":
    main()
