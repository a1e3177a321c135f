"""From Python: what a session releases is charged in the ledger, once, whatever cell of a notebook
is run how often.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import dpicl
from dpicl.data.central import graphical_model
from dpicl.ground.errors import BudgetError, ModelRefusedError
from dpicl.home.settings import Settings
from dpicl.methods.mst_tabicl import MstTabicl
from tests.harness import Place, install, install_texts, letters, new_place, python, shop, shop_rows

HEAVY = [
    "scipy",
    "prefect",
    "dask",
    "distributed",
    "great_expectations",
    "torch",
    "jax",
    "mbi",
    "matplotlib",
    "sklearn",
]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A private table whose releases may cost epsilon 5 in all."""
    place = new_place(tmp_path / "place")
    contract = shop(private=True)
    contract["privacy"]["budget"]["epsilon"] = 5
    install(place, contract, shop_rows(80))
    yield place


def session_of(place: Place) -> dpicl.Session:
    return dpicl.Session(place.home, data=place.root / "data", contracts=place.root / "contracts")


@pytest.mark.parametrize("method", ["gdp_tabicl", "mst_tabicl", "ldp_tabicl"])
def test_a_cell_that_is_run_again_gives_the_same_and_is_charged_once(
    place: Place, method: str
) -> None:
    session = session_of(place)
    (quoted,) = session.quote("shop", method=method, epsilon=1, shots=2)
    # a quote spends nothing
    assert not session.budget()
    first = session.protect("shop", method=method, epsilon=1, shots=2)
    again = session_of(place).protect("shop", method=method, epsilon=1.0, shots=2)
    assert first.demonstrations() == again.demonstrations() and len(first.demonstrations()) == 2
    (account,) = session.budget()
    assert (account.account, account.releases, account.epsilon_cap) == ("shop", 1, 5)
    assert account.epsilon_spent == pytest.approx(quoted.quote.after.epsilon)
    (quoted,) = session.quote("shop", method=method, epsilon=1, shots=2)
    assert quoted.charged_before == 1


def test_rows_that_are_derived_otherwise_from_the_same_counts_are_not_charged_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_of(place).protect("shop", method="mst_tabicl", epsilon=1, shots=2)
    monkeypatch.setattr(MstTabicl, "post_version", MstTabicl.post_version + 1)
    monkeypatch.setattr(graphical_model, "STEPS", 1)
    session_of(place).protect("shop", method="mst_tabicl", epsilon=1, shots=2)
    (account,) = session_of(place).budget()
    assert (account.releases, account.epsilon_spent) == (1, pytest.approx(1))


def test_sessions_and_commands_spend_from_one_account(place: Place) -> None:
    session_of(place).protect("shop", method="mst_tabicl", epsilon=4.5, shots=2)
    refused = place.dpicl(
        "protect shop --method mst_tabicl --epsilon 1 --shots 2 --out demos.jsonl"
    )
    assert refused.returncode == 2 and "spent 4.5 of cap 5" in refused.stderr
    with pytest.raises(BudgetError, match="spent 4.5 of cap 5"):
        session_of(place).protect("shop", method="mst_tabicl", epsilon=1, shots=2)


def test_a_session_has_its_own_folders_and_leaves_the_process_as_it_was(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DPICL_HOME", "DPICL_DATA", "DPICL_CONTRACTS"):
        monkeypatch.delenv(name, raising=False)
    before = Settings.from_environment()
    session_of(place).protect("shop", method="gdp_tabicl", epsilon=1, shots=2)
    assert Settings.from_environment() == before and before.home != place.home
    assert not list((place.home / "private").rglob("*.arrow"))


@pytest.mark.parametrize(
    "method", ["gdp_tabicl", pytest.param("mst_tabicl", marks=pytest.mark.exhaustive)]
)
def test_a_release_of_a_table_imports_no_orchestrator_and_no_model(
    place: Place, method: str
) -> None:
    program = (
        "import sys, dpicl\n"
        f"session = dpicl.Session({str(place.home)!r}, data={str(place.root / 'data')!r}, "
        f"contracts={str(place.root / 'contracts')!r})\n"
        f"session.protect('shop', method={method!r}, epsilon=1, shots=2)\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    assert python(program, folder=place.root) == "[]"


def test_queries_are_charged_once_for_all_of_them_and_answered_alike_by_the_command(
    place: Place,
) -> None:
    install_texts(place, letters(privacy={"budget": {"epsilon": 5}}))
    session = dpicl.Session(
        place.home, data=place.root / "data", contracts=place.root / "contracts"
    )
    how = {
        "epsilon": 2,
        "count": 3,
        "shots": 1,
        "model": "tiny",
        "options": {"subsets": 5, "noise": "exponential"},
    }
    first = session.ask("letters", ["one", "two"], **how)
    again = session.ask("letters", ["two", "one"], **how)
    assert [one.answer for one in again] == [one.answer for one in reversed(first)]
    assert all(one.repeated for one in again)
    (account,) = session.budget()
    assert (account.account, account.releases) == ("letters", 1)
    assert account.epsilon_spent == pytest.approx(2)
    with pytest.raises(BudgetError, match="all 3 queries"):
        session.ask("letters", ["three", "four"], **how)
    with pytest.raises(ModelRefusedError, match="no model is named"):
        session.ask("letters", ["one"], epsilon=2)
