"""Caps and shares from a program: what `dpicl budget` sets, by a call."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import dpicl
from dpicl.ground.errors import BudgetError, LedgerError, ParameterError
from dpicl.session import AccountBudget

ROWS = pd.DataFrame({"member": [0, 1] * 60, "age": range(120)})
SCHEMA = {
    "columns": {
        "member": {"type": "integer", "bounds": [0, 1]},
        "age": {"type": "integer", "bounds": [0, 119]},
    }
}


@pytest.fixture
def session(tmp_path: Path) -> dpicl.Session:
    """An installation whose account `club` has spent all of its cap of 1."""
    session = dpicl.Session(tmp_path / "home")
    protect(session, 1)
    return session


def protect(session: dpicl.Session, epsilon: float, budget: float | None = None) -> dpicl.Release:
    return session.protect(
        ROWS, SCHEMA, epsilon=epsilon, account="club", method="mst_tabicl", budget=budget
    )


def test_a_cap_is_raised_and_lowered_by_a_call(session: dpicl.Session) -> None:
    with pytest.raises(BudgetError, match=r"or `Session\(\).set_cap`"):
        protect(session, 0.5)
    raised = session.set_cap("club", 1.5)
    assert (raised.epsilon_cap, raised.epsilon_spent, raised.epsilon_left) == (1.5, 1, 0.5)
    assert session.budget() == (raised,)
    protect(session, 0.5)
    assert session.set_cap("club", 1).epsilon_left == 0
    with pytest.raises(BudgetError):
        protect(session, 0.25)


def test_a_budget_that_does_not_hold_is_said_at_the_call(session: dpicl.Session) -> None:
    with pytest.warns(UserWarning, match=r"epsilon 4, differs from the ledger's, 1, which holds"):
        protect(session, 1, budget=4)
    (account,) = session.budget()
    assert account.epsilon_cap == 1


def test_a_share_is_set_by_a_call(
    session: dpicl.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.set_cap("club", 4)
    monkeypatch.setenv("DPICL_USER", "anne")
    shared = session.set_share("club", "anne", 0.5)
    assert [(by.user, by.share) for by in shared.users if by.user == "anne"] == [("anne", 0.5)]
    hers = dpicl.Session(tmp_path / "home")
    with pytest.raises(BudgetError, match="share of 0.5"):
        protect(hers, 0.75)
    protect(hers, 0.5)


@pytest.mark.parametrize("cap", [-1, float("nan"), float("inf")])
def test_what_is_no_cap_is_refused(session: dpicl.Session, cap: float) -> None:
    for change in (
        lambda: session.set_cap("club", cap),
        lambda: session.set_share("club", "anne", cap),
    ):
        with pytest.raises(ParameterError, match=r"(cap|share)=.*finite"):
            change()
    assert session.budget()[0].epsilon_cap == 1


def test_an_unknown_account_and_no_user_are_refused(session: dpicl.Session) -> None:
    with pytest.raises(LedgerError, match="clubb"):
        session.set_cap("clubb", 2)
    with pytest.raises(LedgerError, match="clubb"):
        session.set_share("clubb", "anne", 2)
    with pytest.raises(ParameterError, match="user="):
        session.set_share("club", "", 2)
    with pytest.raises(ParameterError, match="epsilon='2': expected a number"):
        session.set_cap("club", "2")  # type: ignore[arg-type]


def test_a_budget_is_shown_without_the_rest_of_binary_numbers() -> None:
    budget = AccountBudget("club", 0.1 + 0.2 - 0.15, 1.0, 0.0, 0.0, 2)
    assert "epsilon_spent=0.15," in repr(budget) and budget.epsilon_spent != 0.15
    assert str(budget) == "club: epsilon 0.15 of 1 by 2 releases"
