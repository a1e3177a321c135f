"""Rows with a cap are charged in the one ledger that all hosts share, and in the one that their
contract names.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpicl.contract import parse_contract
from dpicl.ground.errors import LedgerRefusedError
from dpicl.home.settings import Settings
from dpicl.release.releases import check_ledger, check_shared
from tests.harness import shop

NAMED = "postgresql://ledgers.example/dpicl"


def contract(*, private: bool, **changes: Any) -> Any:
    return parse_contract(shop(private=private, **changes), "shop.yaml")


@pytest.mark.parametrize("used", [None, "sqlite:///ledger.db"])
def test_a_cluster_does_not_charge_in_a_ledger_of_one_host(
    monkeypatch: pytest.MonkeyPatch, used: str | None
) -> None:
    if used is not None:
        monkeypatch.setenv("DPICL_LEDGER", used)
    else:
        monkeypatch.delenv("DPICL_LEDGER", raising=False)
    with pytest.raises(LedgerRefusedError, match="one PostgreSQL for all"):
        check_shared([contract(private=False), contract(private=True)], Settings.from_environment())
    check_shared([contract(private=False)], Settings.from_environment())
    monkeypatch.setenv("DPICL_LEDGER", "postgresql+psycopg://user@database/ledger")
    check_shared([contract(private=True)], Settings.from_environment())


@pytest.mark.parametrize(
    "used",
    [
        None,
        "postgresql://other.example/dpicl",
        "postgresql://ledgers.example/other",
        "sqlite:///dpicl",
        "#",
    ],
)
def test_rows_whose_contract_names_a_ledger_are_charged_in_no_other(
    monkeypatch: pytest.MonkeyPatch, used: str | None
) -> None:
    one = contract(private=True, ledger=NAMED)
    if used is not None:
        monkeypatch.setenv("DPICL_LEDGER", used)
    else:
        monkeypatch.delenv("DPICL_LEDGER", raising=False)
    with pytest.raises(LedgerRefusedError):
        check_ledger(one, Settings.from_environment())
    monkeypatch.setenv(
        "DPICL_LEDGER", "postgresql+psycopg://user:secret@ledgers.example:5432/dpicl"
    )
    check_ledger(one, Settings.from_environment())
