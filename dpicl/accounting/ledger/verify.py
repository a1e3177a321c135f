"""Replays the chain: what its records say that the tables hold, against what they hold."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from sqlalchemy import Connection, select

from dpicl.accounting.ledger import seals
from dpicl.accounting.ledger.anchor import Head
from dpicl.accounting.ledger.chain import link
from dpicl.accounting.ledger.keys import canonical
from dpicl.accounting.ledger.models import accounts, assets, drawings, entries, records, totals
from dpicl.errors import LedgerRefusedError

_TABLES = {"account": accounts, "entry": entries, "asset": assets, "total": totals, "begun release": drawings}
_ENTRY = frozenset(entries.c.keys())
_TERMS = ("unit", "neighbours", "epsilon_cap", "delta_cap")
_BATCH = 1000


def verify(connection: Connection, key: bytes, end: Head) -> None:
    """Recompute every hash, and compare every row with what the chain says.
    Raises LedgerRefusedError: naming the first record or row that does not fit.
    """
    replay, reached = ReplayedRows(), Head()
    for row in connection.execute(select(records).order_by(records.c.sequence).execution_options(yield_per=_BATCH)):
        if row.kind == "adopted" and reached == Head():
            reached = Head(row.sequence - 1)  # what was before it is lost, and its number says how much
        reached = link(key, reached, row.kind, row.content)
        if (row.sequence, row.hash) != (reached.sequence, reached.hash):
            raise LedgerRefusedError(f"the ledger was edited: record {row.sequence} does not follow record {reached.sequence - 1}")
        replay.record(row.kind, json.loads(row.content))
    if reached != end:
        raise LedgerRefusedError(f"the ledger was edited: its chain ends at record {reached.sequence}, its head says {end.sequence}")
    for what, table in _TABLES.items():
        first = next(iter(table.primary_key)).name
        stored = {row._mapping[first]: dict(row._mapping) for row in connection.execute(select(table))}
        expected = replay.rows[what]
        if expected.keys() != stored.keys():
            missing, extra = len(expected.keys() - stored.keys()), len(stored.keys() - expected.keys())
            raise LedgerRefusedError(f"the ledger was edited: of its rows of kind {what!r} {missing} are missing and {extra} were added")
        for name, content in expected.items():
            if canonical(content) != canonical(stored[name]):
                raise LedgerRefusedError(f"the ledger was edited: {what} {name} is not what the chain says")
    if seals.stored(connection) != (seals.expected(connection) if replay.is_sealed else {}):
        raise LedgerRefusedError("the ledger was edited: its seals are not those of its entries")


class ReplayedRows:
    """The rows that the chain says there are: of each table, by their keys."""

    def __init__(self) -> None:
        self.rows: defaultdict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
        self.is_sealed = False

    def record(self, kind: str, content: dict[str, Any]) -> None:
        """Do to the rows what a record says was done."""
        self.is_sealed = self.is_sealed or "state" in content
        rows = self.rows
        if kind in ("settled", "adopted"):
            for what, name, key in (("account", "accounts", "name"), ("asset", "assets", "address"), ("total", "totals", "account")):
                rows[what] = {row[key]: row for row in content[name]}
            rows["entry"] |= {row["release_id"]: row for row in content.get("entries", [])}
            rows["begun release"] |= {row["release_id"]: {"release_id": row["release_id"]} for row in content.get("entries", [])}
        elif kind == "opened":
            rows["account"][content["name"]] = {name: value for name, value in content.items() if name != "state"}
        elif kind == "cap":
            rows["account"][content["account"]] |= {name: content[name] for name in _TERMS if name in content}
            self._total(content)
        elif kind == "bound":
            rows["asset"] |= {address: {"address": address, "account": content["account"]} for address in content["addresses"]}
        elif kind == "drawing":
            rows["begun release"][content["release_id"]] = {"release_id": content["release_id"]}
        elif kind == "published":
            rows["entry"][content["release_id"]] |= {name: content[name] for name in ("artefact_sha256", "published_utc")}
        else:
            if kind == "taken_up":
                del rows["entry"][content["in_place_of"]]
            self._total(content)
            own = {name: value for name, value in content.items() if name in _ENTRY}
            rows["entry"][content["release_id"]] = {**own, "artefact_sha256": None, "published_utc": None}

    def _total(self, content: dict[str, Any]) -> None:
        if content.get("spent"):
            self.rows["total"][content["account"]] = {"account": content["account"], "spent": content["spent"]}
