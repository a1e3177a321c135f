"""What a ledger costs once it is long: `python -m lab.benchmarks.speed.ledger_size 1000000` fills
one with so many published charges and measures it.

With a folder behind it the ledger stays there, and is measured at once where it is filled already:
`… 3000000 somewhere`. The records are written in bulk, by the chain's own functions and under its
key, so that everything that reads them checks them as it would any others.
"""

from __future__ import annotations

import hashlib
import resource
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path

from dpicl.accounting.filters import Spent
from dpicl.accounting.guarantee import Neighbours
from dpicl.ledger import Account, Ledger, ReleaseCharge, chain
from dpicl.ledger.database import Database
from dpicl.ledger.fold import now, terms_of
from dpicl.ledger.keys import Anchor, canonical
from lab.benchmarks.figures import Figures, sized
from lab.benchmarks.speed.ledger_speed import COST

KEY, ACCOUNT, BATCH = (
    b"k" * 32,
    Account("patients", "row", Neighbours.ADD_OR_REMOVE_ONE, epsilon_cap=1e9),
    20_000,
)
FEW = 20


def release(number: int) -> ReleaseCharge:
    """As long as those of GDP-TabICL are."""
    name = hashlib.sha256(str(number).encode()).hexdigest()
    parameters = {
        "columns": ["age", "sex", "pressure", "sugar"],
        "shots": 8,
        "sampling_rate": 0.125,
        "seed": number,
        "period": "2026-11-27",
    }
    return ReleaseCharge(name, ACCOUNT.name, "gdp_tabicl", parameters, COST)


def filled(folder: Path, count: int) -> str:
    """The address of a ledger with that many published charges; its anchor and key are in the
    folder too.
    """
    url, anchor = f"sqlite:///{folder}/ledger.db", folder / "anchor"
    with Ledger.open(url, KEY, anchor) as ledger:
        ledger.ensure_account(ACCOUNT)
    spent = canonical(Spent.nothing().as_json())
    with closing(Database(url)) as database:
        with database.reading() as connection:
            fold = chain.folded_up_to(connection, KEY, chain.read_end(connection, KEY))
        for first in range(0, count, BATCH):
            with database.writing() as connection:
                change = chain.Change(connection, KEY, fold)
                for number in range(first, min(count, first + BATCH)):
                    _charge(change, release(number), spent)
                    change.store()
    Anchor(anchor).advance(fold.head)
    (folder / f"filled-{count}").touch()
    return url


def _charge(change: chain.Change, wanted: ReleaseCharge, spent: str) -> None:
    """Charge, beginning and publication of a release."""
    own = {"release_id": wanted.release_id}
    terms = {**terms_of(wanted), "number": change.fold.head.sequence + 1, "reserved_utc": now()}
    won = {"artefact_sha256": wanted.release_id, "published_utc": now()}
    told = {**change.fold.told_of(ACCOUNT.name), "before": spent, "spent": spent}
    change.append("reserved", {**terms, **told})
    change.append("drawing", own)
    change.append("published", {**own, **won})


def measure(figures: Figures, count: int = sized(100_000, 1_000), kept: str = "") -> None:
    """Opening, a charge, the sum of an account and the whole chain, each in seconds of the wall."""
    with ExitStack() as stack:
        folder = Path(kept or stack.enter_context(tempfile.TemporaryDirectory(dir=Path.cwd())))
        if (folder / "ledger.db").exists() and not (folder / f"filled-{count}").exists():
            sys.exit(
                f"{folder}: holds another ledger; expected an empty folder, or one that was "
                f"filled with {count} charges"
            )
        url = (
            f"sqlite:///{folder}/ledger.db"
            if (folder / f"filled-{count}").exists()
            else filled(folder, count)
        )
        size = sum(file.stat().st_size for file in folder.iterdir()) / 2**20
        chain._followed_before.clear()  # as in a process that opens it first
        opened, new = time.perf_counter(), time.time_ns()
        with Ledger.open(url, KEY, folder / "anchor") as ledger:
            began = time.perf_counter()
            for number in range(new, new + FEW):  # other ones each time
                ledger.reserve(release(number))
            charged, summed = time.perf_counter(), ledger.spent(ACCOUNT.name)
            asked = time.perf_counter()
            ledger.verify()
            verified = time.perf_counter()
        again = time.perf_counter()
        with Ledger.open(url, KEY, folder / "anchor"):
            again = time.perf_counter() - again
    assert summed.epsilon
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{count:,} published charges: {size:,.0f} MiB, verified in {verified - asked:.1f} s; "
        f"peak memory {peak:.2f} GiB"
    )
    figures.at_most(f"ledger-of-{count}-open", 1000 * (began - opened), 100 + count / 50, " ms")
    figures.at_most(f"ledger-of-{count}-open-again", 1000 * again, 100, " ms")
    figures.at_most(f"ledger-of-{count}-reserve", 1000 * (charged - began) / FEW, 40, " ms")
    figures.at_most(f"ledger-of-{count}-sum-of-an-account", asked - charged, 2, " s")
    figures.at_most(
        f"ledger-of-{count}-verify-an-entry", 1e6 * (verified - asked) / count, 150, " us"
    )


if __name__ == "__main__":
    measured = Figures()
    told = sys.argv[1:]
    if told:
        measure(measured, int(told[0]), *told[1:])
    else:
        measure(measured)
    measured.finish()
