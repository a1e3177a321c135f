"""Contracts on the same rows, and which account pays for them."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from dpicl.ground.errors import DpiclError
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.release.names import open_account
from tests.harness import Place, call_main, complaint, said, shop, shop_rows

ROWS = shop_rows(120)


def contract(place: Place, name: str, source: dict[str, Any], **more: Any) -> str:
    """A private table under another contract, with a cap of 1; writes no rows."""
    content = shop(name, private=True, **more)
    kept = {key: value for key, value in content["source"].items() if key != "file"}
    content["source"] = kept | source
    content["privacy"] |= {"neighbours": "add-or-remove-one", "budget": {"epsilon": 1}}
    (place.root / "contracts" / f"{name}.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    (place.root / "data" / content["queries"]["file"]).write_text(shop_rows(12, seed=99))
    return name


def payer(name: str) -> str:
    """The account that a release of this contract is charged to, opened and bound as a command does
    it before it reads a row.
    """
    settings = Settings.current()
    with open_ledger(settings) as ledger:
        return open_account(ledger, settings.declared(name), "mst_tabicl", settings).name


def dry(name: str) -> str:
    """Why no account pays for a contract's rows."""
    with pytest.raises(DpiclError) as refused:
        payer(name)
    return str(refused.value)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one sentence of a refused command."""
    return complaint(call_main(arguments, capsys))


def spend(place: Place, capsys: pytest.CaptureFixture[str], name: str) -> tuple[int, str]:
    """Release at the whole cap: exit code and what is said."""
    out = place.root / f"{name}-{len(list(place.root.iterdir()))}.jsonl"
    command = (
        "protect",
        name,
        "--epsilon",
        "1",
        "--method",
        "mst_tabicl",
        "--shots",
        "2",
        "--out",
        str(out),
    )
    return call_main(command, capsys)


def accounts(capsys: pytest.CaptureFixture[str]) -> dict[str, float]:
    """What every account has spent, after the chain was verified."""
    return {
        line["account"]: line["epsilon_spent"]
        for line in json.loads(said(capsys, "budget", "--json"))
    }
