"""A client's wallet: what its reports may cost in all, and which report it gave to which
collection.

A collection that comes again gets the same report, and spends nothing: a fresh draw for every
question would wear the noise off. So a report is durable before it is sent, the first one stands,
and a record that has changed meanwhile still gets the old one: a new answer would reveal the
change.

The cap belongs to the holder. It is set at first use and raised by the holder's own command alone;
a contract comes from the collector, whom local privacy does not trust, and can only lower what it
is given.

What is sent of an answer with noise drawn anew is remembered as well, by the period: a report that
is sent twice is one. The pseudonym on it is made of a secret key for each collection and period, so
that none links a client's reports to two of them.

State       one file, mode 0600, of JSON lines: a cap, a key, a collection with its cost, or a
            report or sending with a hash of whose it is
"""

from __future__ import annotations

import errno
import hmac
import json
import math
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpicl.data.reports import Answer
from dpicl.ground.errors import BudgetError, DataError, ParameterError
from dpicl.ground.files import hold, sync_folder

DEFAULT_CAP = 4.0
"""In nats, of a holder who names no cap: all reports together make no guess about a record more
than e^4 = 55 times as likely.
"""
_BEGINNINGS = (b'{"collection": "', b'{"cap": ', b'{"key": "')


class Wallet:
    """The reports of one data holder's clients, by collection, and what they may cost."""

    def __init__(self, lines: list[dict[str, Any]], file: int) -> None:
        self._file = file
        self._costs = {
            str(line["collection"]): float(line["epsilon"]) for line in lines if "epsilon" in line
        }
        self._ids = {str(line["collection"]): line["id"] for line in lines if "epsilon" in line}
        self._reports: dict[tuple[str, str], Answer] = {
            (line["collection"], line["who"]): line["report"] for line in lines if "report" in line
        }
        self._sendings: dict[tuple[str, str, str], Answer] = {
            (line["collection"], line["who"], line["period"]): line["sent"]
            for line in lines
            if "sent" in line
        }
        self._key = next((str(line["key"]) for line in lines if "key" in line), None)
        caps = [float(line["cap"]) for line in lines if "cap" in line]
        self._cap = caps[-1] if caps else None

    @property
    def cap(self) -> float | None:
        """What they may cost; None before the first use."""
        return self._cap

    @property
    def spent(self) -> float:
        """What all collections cost a client who answered each."""
        return math.fsum(self._costs.values())

    def join(
        self,
        collection: str,
        epsilon: float,
        *,
        requested_cap: float | None,
        contract_cap: float | None,
        id_column: str | None,
    ) -> None:
        """Take part in a collection.

        Args:
            requested_cap: what the holder lets all collections cost: the cap at first use; later a
                smaller one holds for this report.
            contract_cap: lowers the cap for this report, and never raises it.
            id_column: what tells clients apart; by another column, one record would answer one
                collection twice.

        Raises:
            BudgetError: with those before it would cost a client more than the cap.
            ParameterError: the holder requests more than the wallet's cap, or tells clients apart
                in another way than before.
        """
        if collection in self._costs:
            if self._ids[collection] != id_column:
                raise ParameterError(
                    "id", id_column, "the same column as when this collection was answered first"
                )
            return
        cap = (
            self._cap
            if self._cap is not None
            else DEFAULT_CAP
            if requested_cap is None
            else requested_cap
        )
        if requested_cap is not None and requested_cap > cap:
            raise ParameterError(
                "cap",
                requested_cap,
                f"at most this wallet's, {cap:.6g}, or first `python -m dpicl.client cap WALLET "
                f"--raise-to {requested_cap:.6g}`",
            )
        allowed = min(limit for limit in (cap, requested_cap, contract_cap) if limit is not None)
        if self.spent + epsilon > allowed * (1 + 1e-12):
            raise BudgetError(
                f"clients: another collection asks epsilon={epsilon:.6g}, and {self.spent:.6g} of "
                f"cap {allowed:.6g} is spent; "
                f"the wallet's own is {cap:.6g}, which `python -m dpicl.client cap` raises"
            )
        if self.cap is None:
            self._set_cap(cap)
        self._write({"collection": collection, "epsilon": epsilon, "id": id_column})
        self._costs[collection], self._ids[collection] = epsilon, id_column

    def raise_cap(self, cap: float) -> None:
        """What the holder alone may do, and no report.

        Raises:
            ParameterError: it would be no more than before.
        """
        if self.cap is not None and not self.cap < cap:
            raise ParameterError("raise-to", cap, f"more than the wallet's cap, {self.cap:.6g}")
        self._set_cap(cap)
        self.keep()

    def report(self, collection: str, who: str, draw: Callable[[], Answer]) -> Answer:
        """What this client has answered to this collection; drawn and written now if nothing
        was.
        """
        key = (collection, who)
        if key not in self._reports:
            self._reports[key] = drawn = draw()
            self._write({"collection": collection, "who": who, "report": drawn})
        return self._reports[key]

    def sending(self, collection: str, who: str, period: str, draw: Callable[[], Answer]) -> Answer:
        """What this client has sent of its answer for this period; drawn and written now if nothing
        was.
        """
        key = (collection, who, period)
        if key not in self._sendings:
            self._sendings[key] = drawn = draw()
            self._write({"collection": collection, "who": who, "period": period, "sent": drawn})
        return self._sendings[key]

    def pseudonym(self, collection: str, who: str, period: str) -> str:
        """By which this client's report for a period is known: 32 hexadecimal digits that say
        nothing to who has not the wallet.
        """
        if self._key is None:
            self._key = secrets.token_hex(32)
            self._write({"key": self._key})
        return hmac.digest(
            self._key.encode(), f"{collection} {period} {who}".encode(), "sha256"
        ).hex()[:32]

    def keep(self) -> None:
        """Make everything durable: before the first report leaves."""
        os.fsync(self._file)

    def _set_cap(self, cap: float) -> None:
        self._write({"cap": cap})
        self._cap = cap

    def _write(self, line: dict[str, object]) -> None:
        content = (json.dumps(line) + "\n").encode()
        if os.write(self._file, content) < len(content):  # what is broken off here must not be sent
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def open_wallet(path: Path, *, may_be_new: bool = True) -> Iterator[Wallet]:
    """The wallet in this file, made if it is not there and may be new; others wait until it is
    closed.

    Raises:
        DataError: the file is no wallet, or is missing and may not be new.
    """
    if not may_be_new and not path.exists():
        raise DataError(
            path.name, "is not there; expected the wallet of a client that has reported"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists()
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        hold(file)
        if is_new:
            sync_folder(path.parent)
        yield Wallet(_whole_lines(path, file), file)
    finally:
        os.close(file)


def _is_valid(line: dict[str, Any]) -> bool:
    """Whether a line is one of a wallet. Raises ValueError, TypeError or KeyError: it is not."""
    if "cap" in line:
        return 0 < float(line["cap"]) < math.inf
    if "key" in line:
        return len(bytes.fromhex(line["key"])) == 32
    if "epsilon" in line:
        return bool(line["collection"]) and float(line["epsilon"]) >= 0 and "id" in line
    return bool(line["collection"])


def _whole_lines(path: Path, file: int) -> list[dict[str, Any]]:
    """All lines but one that a killed process broke off: it was never sent, and is cut away."""
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    broken_off = content[content.rfind(b"\n") + 1 :]
    try:
        lines = [json.loads(line) for line in whole.splitlines()]
        has_cap = False
        for line in lines:
            has_cap = has_cap or "cap" in line
            if not _is_valid(line) or ("epsilon" in line and not has_cap):
                raise ValueError
        if not any(
            start.startswith(broken_off) or broken_off.startswith(start) for start in _BEGINNINGS
        ):
            raise ValueError
        os.ftruncate(file, len(whole))
        return lines
    except (ValueError, TypeError, KeyError):
        raise DataError(
            path.name, "is no wallet of reports; expected one that this client wrote, or a new name"
        ) from None
