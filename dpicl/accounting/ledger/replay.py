"""What the chain says the other tables hold, so that they can be compared with it, however long it
is.

Of accounts, assets and totals, which are few, the rows are kept; of releases digests, some 300
bytes each.
"""

from __future__ import annotations

import hashlib
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table, select

from dpicl.accounting.ledger.keys import canonical, plain
from dpicl.accounting.ledger.models import BATCH, accounts, assets, drawings, entries, totals
from dpicl.errors import LedgerRefusedError

_FEW = {"account": accounts, "asset": assets, "total": totals}
_PUBLICATION = ("artefact_sha256", "published_utc")
_CHARGE = tuple(column.name for column in entries.columns if column.name not in _PUBLICATION)
_REAL = {"epsilon", "delta"}
_TERMS = ("unit", "neighbours", "epsilon_cap", "delta_cap")


class ReplayedRows:
    """The rows that the chain says there are: of each small table by their keys, and digests of
    what was charged, begun and published.
    """

    def __init__(self) -> None:
        self.rows: defaultdict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
        self._charged: dict[str, bytes] = {}
        self._published: dict[str, bytes] = {}
        self._begun: set[str] = set()

    def record(self, kind: str, content: dict[str, Any]) -> None:
        """Do to the rows what a record says was done."""
        rows = self.rows
        if kind in ("adopted", "restored"):
            self._begin_anew(content)
        elif kind == "opened":
            rows["account"][content["name"]] = {
                name: value for name, value in content.items() if name != "state"
            }
        elif kind == "cap":
            rows["account"][content["account"]] |= {
                name: content[name] for name in _TERMS if name in content
            }
            self._total(content)
        elif kind == "bound":
            rows["asset"] |= {
                address: {"address": address, "account": content["account"]}
                for address in content["addresses"]
            }
            for address in content.get("dropped", ()):
                rows["asset"].pop(address, None)
        elif kind == "drawing":
            self._begun.add(sys.intern(content["release_id"]))
        elif kind == "published":
            self._publish(content)
        else:
            if kind == "taken_up":
                self._drop(content["in_place_of"])
            self._total(content)
            self._charge(content)

    def compare(self, connection: Connection) -> None:
        """Read the tables once, and forget what fits. Raises LedgerRefusedError: naming the first
        row that does not.
        """
        for what, table in _FEW.items():
            self._compare_few(connection, what, table)
        extra = 0
        for row in connection.execute(select(entries).execution_options(yield_per=BATCH)):
            charged, published = (
                self._charged.pop(row.release_id, None),
                self._published.pop(row.release_id, b""),
            )
            kept, extra = dict(row._mapping), extra + (charged is None)
            if charged is not None and (charged, published) != (
                _digest(kept, _CHARGE),
                _publication(kept),
            ):
                raise LedgerRefusedError(
                    f"the ledger was edited: entry {row.release_id} is not what the chain says"
                )
        _check_all_there("entry", len(self._charged), extra)
        extra = 0
        for release_id in connection.execute(
            select(drawings.c.release_id).execution_options(yield_per=BATCH)
        ).scalars():
            extra += release_id not in self._begun
            self._begun.discard(release_id)
        _check_all_there("begun release", len(self._begun), extra)

    def _compare_few(self, connection: Connection, what: str, table: Table) -> None:
        first, expected = next(iter(table.primary_key)).name, self.rows[what]
        stored = {
            row._mapping[first]: dict(row._mapping) for row in connection.execute(select(table))
        }
        _check_all_there(
            what, len(expected.keys() - stored.keys()), len(stored.keys() - expected.keys())
        )
        for name, content in expected.items():
            if content != stored[name] and canonical(content) != canonical(stored[name]):
                raise LedgerRefusedError(
                    f"the ledger was edited: {what} {name} is not what the chain says"
                )

    def _begin_anew(self, content: dict[str, Any]) -> None:
        for what, name, key in (
            ("account", "accounts", "name"),
            ("asset", "assets", "address"),
            ("total", "totals", "account"),
        ):
            self.rows[what] = {row[key]: row for row in content[name]}
        for row in content.get("entries", []):
            self._charge(row)
            self._publish(row)
            self._begun.add(sys.intern(row["release_id"]))
        for release_id in content.get("dropped", []):
            self._drop(release_id)

    def _charge(self, row: Mapping[str, Any]) -> None:
        release_id = sys.intern(row["release_id"])  # one text for all that is kept of it
        self._charged[release_id] = _digest(row, _CHARGE)
        self._published.pop(release_id, None)

    def _publish(self, row: Mapping[str, Any]) -> None:
        if published := _publication(row):
            self._published[sys.intern(row["release_id"])] = published

    def _drop(self, release_id: str) -> None:
        if self._charged.pop(release_id, None) is None:
            raise LedgerRefusedError(
                f"the ledger was edited: its chain lets another release stand in the place of "
                f"{release_id}, which was not charged"
            )
        self._published.pop(release_id, None)
        self._begun.discard(release_id)

    def _total(self, content: dict[str, Any]) -> None:
        if content.get("spent"):
            self.rows["total"][content["account"]] = {
                "account": content["account"],
                "spent": content["spent"],
            }


def _publication(row: Mapping[str, Any]) -> bytes:
    return (
        b""
        if row["artefact_sha256"] is None and row["published_utc"] is None
        else _digest(row, _PUBLICATION)
    )


def _digest(row: Mapping[str, Any], names: Sequence[str]) -> bytes:
    """Of what Python writes of the values, a third of the work of `canonical`: these are texts and
    numbers, and the chain writes 1.0 as 1.
    """
    told = [plain(row[name]) if name in _REAL else row[name] for name in names]
    return hashlib.sha256(repr(told).encode()).digest()


def _check_all_there(what: str, missing: int, extra: int) -> None:
    if missing or extra:
        raise LedgerRefusedError(
            f"the ledger was edited: of its rows of kind {what!r} {missing} are missing and "
            f"{extra} were added"
        )
