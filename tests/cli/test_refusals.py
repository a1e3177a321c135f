"""A call that is refused before a charge leaves nothing behind: no account, no folder, no file, but
for the ledger and the keys of a new installation.
"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

import dpicl
from dpicl.ground.errors import DpiclError
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from tests.cli.conftest import Cli
from tests.harness import Place, install, install_texts, letters, shop, shop_rows
from tests.library.text_contracts import ENSEMBLE, lines, records

BAD_ROWS = shop_rows(60).replace("red", "rèd", 1)
FRAME = pd.DataFrame({"age": [31, 32, "old"], "bought": ["no", "yes", "no"]})
SCHEMA = {
    "columns": {
        "age": {"type": "integer", "bounds": [0, 120]},
        "bought": {"type": "category", "categories": ["no", "yes"]},
    },
    "label": "bought",
}


OWN = {
    f"home/{name}"
    for name in (
        "ledger.db",
        "keys",
        "keys/ledger.key",
        "private",
        ".protect.lock",
        "dask",
        "prefect",
    )
}
"""Of the installation itself, as the first command that looks into the ledger makes it."""


def _protect(**changes: object) -> Callable[[Place, Cli], object]:
    """A call of Python that is refused."""

    def call(place: Place, cli: Cli) -> None:
        with pytest.raises(DpiclError):
            dpicl.protect(FRAME, SCHEMA, **{"epsilon": 1, "account": "visits", **changes})  # type: ignore[arg-type]

    return call


def _line(line: str) -> Callable[[Place, Cli], object]:
    """A command that is refused."""
    return lambda place, cli: cli.refused(line)


REFUSED = {
    "rows that break their contract": _line("synth bad --epsilon 1 --out x.csv"),
    "rows that are not there": _line("synth gone --epsilon 1 --out x.csv"),
    "a cap that would be passed": _line("synth poor --epsilon 3 --out x.csv"),
    "the same, as a price": _line("synth poor --epsilon 3 --dry-run"),
    "a run whose cap would be passed": _line(
        "run private --datasets poor --epsilons 3 --shots 2 --model fake"
    ),
    "an unknown option": _line("synth shop --epsilon 1 --option colour=red --out x.csv"),
    "an unknown contract": _line("synth nope --epsilon 1 --out x.csv"),
    "queries beyond a cap": _line("ask notes 'what is it?' --epsilon 5000 --model fake"),
    "an unknown account": _line("budget nope"),
    "an unknown model": _line("model check nope"),
    "a frame that breaks its schema": _protect(),
    "a frame beyond its budget": _protect(budget=0.1),
    "a frame without an account": _protect(account=None),
    "an unknown method": _protect(method="aim"),
}


@pytest.mark.parametrize("is_used", [False, True], ids=["new", "used"])
@pytest.mark.parametrize("why", REFUSED)
def test_a_refused_call_leaves_nothing_behind(
    place: Place, cli: Cli, why: str, is_used: bool
) -> None:
    for name, cap, rows in (
        ("shop", 1000, shop_rows(60)),
        ("bad", 1000, BAD_ROWS),
        ("poor", 0.5, shop_rows(60)),
    ):
        contract = shop(name, private=True)
        contract["privacy"]["budget"] = {"epsilon": cap}
        install(place, contract, rows)
    install(place, shop("gone", private=True), "")
    (place.root / "data" / "gone.csv").unlink()
    install_texts(place, letters("notes", **ENSEMBLE), lines(records(40)), lines(records(4)))
    if is_used:
        cli(f"synth shop --epsilon 1 --out {place.root / 'before.csv'}")
    before = _left(place)
    REFUSED[why](place, cli)
    assert _left(place) - before == set()


def _left(place: Place) -> set[object]:
    """Every path of the state home and of the place, accounts with their charges."""
    settings = Settings.from_environment()
    left: set[object] = {str(path.relative_to(place.root)) for path in place.root.rglob("*")} - OWN
    if (place.home / "ledger.db").exists():
        with open_ledger(settings) as ledger:
            left |= {(account, len(ledger.entries(account.name))) for account in ledger.accounts()}
    return left
