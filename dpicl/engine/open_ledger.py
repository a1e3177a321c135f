"""The ledger of an installation: where it is, and how it is opened.

State       ledger            DPICL_LEDGER (a database URL), else `ledger.db` in DPICL_HOME
            key, anchor       `keys/ledger.key`, `ledger.anchor.json` in DPICL_HOME
            witness           in the user's folder of settings, outside of DPICL_HOME
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from pathlib import Path

from sqlalchemy import URL, Connection, make_url
from sqlalchemy.exc import ArgumentError

from dpicl.accounting.ledger import Ledger, load_key
from dpicl.accounting.ledger.database import looking
from dpicl.accounting.ledger.witness import Witness
from dpicl.engine.receipts import check_not_lost, check_not_shorter
from dpicl.engine.settings import Settings
from dpicl.engine.state_home import KEY, LEDGER, check_restored
from dpicl.errors import ParameterError

_shared: ContextVar[tuple[tuple[Path, str | None], Ledger] | None] = ContextVar(
    "shared", default=None
)


@contextmanager
def open_ledger(settings: Settings) -> Iterator[Ledger]:
    """The ledger of this installation. Raises LedgerRefusedError: another one charged what stands,
    or a restore is not finished.
    """
    shared = _shared.get()
    if shared is not None and shared[0] == (settings.home, settings.ledger):
        yield shared[1]
        return
    key = ledger_key(settings)
    witness = witness_of(settings, key)
    check_not_lost(settings, witness)
    with Ledger.open(
        address_of(settings), key, settings.home / "ledger.anchor.json", witness
    ) as ledger:
        check_not_shorter(ledger, settings)
        yield ledger


@contextmanager
def one_ledger(settings: Settings) -> Iterator[None]:
    """Inside, the ledger is opened once for all that open it here; every change of it is checked as
    before.
    """
    with open_ledger(settings) as ledger:
        token = _shared.set(((settings.home, settings.ledger), ledger))
        try:
            yield
        finally:
            _shared.reset(token)


def witness_of(settings: Settings, key: bytes) -> Witness:
    """The witness of the ledger of this key."""
    return Witness(settings.witnesses, key, settings.home)


def address_of(settings: Settings) -> str | URL:
    """Of the ledger's database; its file's path may hold any letters. Raises ParameterError: it
    goes by the working directory.
    """
    file = ledger_file(settings)
    if settings.ledger is None:
        return URL.create("sqlite", database=str(file))
    if file is not None and not file.is_absolute():
        expected = (
            f"an absolute path, or each working directory would have budgets of its own: perhaps "
            f"sqlite:///{file.absolute()}"
        )
        raise ParameterError("DPICL_LEDGER", repr(settings.ledger[:60]), expected)
    return settings.ledger


def ledger_file(settings: Settings) -> Path | None:
    """The ledger's file; None where it is kept on a server, or DPICL_LEDGER is no address."""
    if settings.ledger is None:
        return settings.home / LEDGER
    try:
        url = make_url(settings.ledger)
    except ArgumentError:
        return None
    return Path(url.database) if url.get_backend_name() == "sqlite" and url.database else None


def looked_at(settings: Settings) -> AbstractContextManager[Connection]:
    """A look at the ledger as it is; see `looking`."""
    return looking(ledger_file(settings) or settings.ledger or "")


def ledger_key(settings: Settings) -> bytes:
    """The installation's secret key for names of releases and versions of data; nothing is charged
    without it. Raises LedgerRefusedError: it is no key, or a restore is not finished.
    """
    check_restored(settings.home)
    return load_key(settings.make_home() / KEY)
