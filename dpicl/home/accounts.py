"""The ledger of an installation: where it is, and how it is opened.

State       ledger            DPICL_LEDGER (a database URL), else `ledger.db` in DPICL_HOME
            key, anchor       `keys/ledger.key`, `ledger.anchor.json` in DPICL_HOME
            witness           in the user's folder of settings, outside of DPICL_HOME

Receipts: beside every artefact, the records of the ledger that charged and published it.

Which account pays for a contract's rows: the one that the ledger has for where they are.

Caps that contracts state, beside those that the ledger holds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any

from sqlalchemy import URL, Connection, make_url
from sqlalchemy.exc import ArgumentError

from dpicl.accounting.guarantee import Neighbours
from dpicl.contract import Contract, TextContract
from dpicl.contract.declared import Declared
from dpicl.contract.load import edition, edition_names
from dpicl.ground.errors import (
    DeclarationError,
    DpiclError,
    LedgerRefusedError,
    ParameterError,
    PrivacyError,
    SourceError,
)
from dpicl.ground.files import PRIVATE_MODE, read_json, write_json
from dpicl.ground.objects import SCHEME
from dpicl.home.settings import ANCHOR, KEY, LEDGER, Settings, check_restored
from dpicl.ledger import Account, Ledger, Spender, load_key
from dpicl.ledger import ReleaseCharge as Release
from dpicl.ledger.budget import caps_text
from dpicl.ledger.database import looking
from dpicl.ledger.keys import Anchor, Head
from dpicl.ledger.witness import Witness

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
    by = Spender(settings.user, settings.command)
    anchor, named = settings.home / ANCHOR, named_by(settings)
    with Ledger.open(address_of(settings), key, anchor, witness, by, named) as ledger:
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


def named_by(settings: Settings) -> str:
    """By what the ledger was named, for whoever meant another one, or has moved it."""
    if settings.ledger is None:
        return "as DPICL_LEDGER is not set"
    return (
        "as DPICL_LEDGER says; if that is a new database, `dpicl ledger adopt` rebuilds there what "
        "was spent"
    )


def looked_at(settings: Settings) -> AbstractContextManager[Connection]:
    """A look at the ledger as it is; see `looking`."""
    return looking(ledger_file(settings) or settings.ledger or "")


def ledger_key(settings: Settings) -> bytes:
    """The installation's secret key for names of releases and versions of data; nothing is charged
    without it. Raises LedgerRefusedError: it is no key, or a restore is not finished.
    """
    check_restored(settings.home)
    return load_key(settings.make_home() / KEY)


SUFFIX = ".receipt"
CERTIFICATE = ".certificate"
DRAFT = ".draft"
_NEWEST = "newest.json"
_CAP = "cap.json"
_ADOPTED = "adopted.json"


def released_folder(settings: Settings) -> Path:
    """Where artefacts and receipts lie."""
    return settings.home / "released"


def artefact_of(settings: Settings, release: Release) -> Path:
    """Where a release's artefact lies, or will."""
    return released_folder(settings) / release.account / release.release_id


def newest(settings: Settings) -> Anchor:
    """The end of the chain that receipts have seen, beside them and apart from the ledger's own
    anchor.
    """
    return Anchor(released_folder(settings) / _NEWEST)


def write_receipt(ledger: Ledger, release: Release, settings: Settings) -> None:
    """Write the receipt of a release that is charged, or now published, if there is more in it than
    there was.

    A ledger that was made anew holds fewer records than a receipt of before, which stays.
    """
    path = receipt_of(settings, release.account, release.release_id)
    stored = read(path)
    if any(record.get("kind") == "published" for record in stored):
        return
    missing = [record for record in ledger.records_of(release.release_id) if record not in stored]
    if missing:
        write_json(path, [*stored, *missing], mode=PRIVATE_MODE, replace=True)
        newest(settings).advance(Head(missing[-1]["sequence"], missing[-1]["hash"]))


def write_cap(ledger: Ledger, account: str, settings: Settings) -> None:
    """Write down the last cap of an account that was set by a command."""
    if record := ledger.cap_record(account):
        write_json(cap_of(settings, account), record, mode=PRIVATE_MODE, replace=True)
        newest(settings).advance(Head(record["sequence"], record["hash"]))


def state_cap(
    ledger: Ledger, account: str, epsilon: float, delta: float | None, settings: Settings
) -> None:
    """Set an account's cap, the delta being what it was if None, and write it down. Raises
    DpiclError: as `Ledger.set_cap`.
    """
    if delta is None:
        caps = {known.name: known.delta_cap for known in ledger.accounts()}
        delta = caps.get(account, 0.0)
    ledger.set_cap(account, epsilon, delta)
    write_cap(ledger, account, settings)


def cap_of(settings: Settings, account: str) -> Path:
    """Where the record of an account's last cap lies, or will."""
    return released_folder(settings) / account / _CAP


def write_adopted(ledger: Ledger, settings: Settings) -> None:
    """Write down the first record of a ledger that was made anew."""
    write_json(adopted_of(settings), ledger.adopted_record(), mode=PRIVATE_MODE, replace=True)
    newest(settings).advance(ledger.end)


def adopted_of(settings: Settings) -> Path:
    """Where the first record of a ledger that was made anew lies."""
    return released_folder(settings) / _ADOPTED


def read_record(path: Path) -> dict[str, Any]:
    """One record; nothing where there is none."""
    content = _content(path)
    return content if isinstance(content, dict) else {}


def receipt_of(settings: Settings, account: str, release_id: str) -> Path:
    """Where a release's receipt lies, or will."""
    return released_folder(settings) / account / (release_id + SUFFIX)


def read(path: Path) -> list[dict[str, Any]]:
    """The records of a receipt; none where it is not there or is no receipt."""
    content = _content(path)
    if isinstance(content, list) and all(isinstance(record, dict) for record in content):
        return content
    return []


def _content(path: Path) -> Any:
    """Of a file of JSON; None where it is not there or is something else."""
    try:
        return read_json(path)
    except (OSError, ValueError):
        return None


def artefacts(settings: Settings) -> Iterator[Path]:
    """Every artefact, drafts of published ones among them."""
    folder = released_folder(settings)
    for account in sorted(folder.iterdir()) if folder.is_dir() else ():
        if account.is_dir():
            files = (
                path
                for path in sorted(account.iterdir())
                if path.suffix not in (SUFFIX, CERTIFICATE)
            )
            yield from (path for path in files if path.name != _CAP and path.name[0] != ".")


def check_not_lost(settings: Settings, witness: Witness | None = None) -> None:
    """Refuse to make a ledger anew over releases that stand, or where one was. Raises
    LedgerRefusedError: with what to do.
    """
    file = settings.home / LEDGER
    if not settings.ledger:
        what = f"{file} is not there, and was looked for, {named_by(settings)}"
        _check_none_before(settings, witness, what, file.exists)


def check_not_shorter(ledger: Ledger, settings: Settings) -> None:
    """Refuse a ledger that ends before the newest receipt. Raises LedgerRefusedError: with what to
    do.
    """
    what = f"{ledger.place} is empty"
    _check_none_before(settings, None, what, lambda: ledger.end.sequence > 0)
    try:
        ledger.check_seen(newest(settings).read())
    except LedgerRefusedError as error:
        raise LedgerRefusedError(lost(str(error))) from None


def _check_none_before(
    settings: Settings, witness: Witness | None, what: str, is_kept: Callable[[], bool]
) -> None:
    """Refuse releases without a ledger. It is looked for again after they are found: a twin may
    charge and release between the two looks.
    """
    if is_kept():
        return
    has_receipts = newest(settings).path.exists() or any(artefacts(settings))
    left = next(
        (
            folder
            for folder in (settings.private_home / "drawn-from", settings.home / "series")
            if any(path.is_file() for path in folder.rglob("*"))
        ),
        None,
    )
    if left is None and witness is not None and witness.is_there:
        left = witness.path
    if is_kept():
        return
    if has_receipts:
        raise LedgerRefusedError(lost(what))
    if left is not None:
        raise LedgerRefusedError(
            f"releases were charged in another ledger ({what}), as {left} tells; expected the "
            f"newest state home, or `dpicl state restore` with its "
            f"backup; or another state home, in which nothing is charged for the same rows until "
            f"`dpicl budget NAME --cap` states how much"
        )


def lost(what: str) -> str:
    """The message to a user whose ledger is gone or old."""
    return (
        f"releases stand in released/ that were charged in another ledger ({what}); restore the "
        f"ledger from a backup, or "
        f"`dpicl ledger adopt` rebuilds what was spent from the receipts of the releases"
    )


def stated_account(contract: Declared) -> Account:
    """The account as a contract speaks of it: unit, relation and caps; its name counts where the
    rows have no account yet.
    """
    privacy = contract.privacy
    budget = contract.privacy.budget
    return Account(
        name=contract.account or contract.name,
        unit=privacy.unit,
        neighbours=Neighbours(privacy.neighbours),
        epsilon_cap=budget.epsilon,
        delta_cap=budget.delta,
        benchmark=budget.benchmark,
        shares=tuple(sorted((budget.by or {}).items())),
    )


def bind_account(
    ledger: Ledger, account: Account, contract: Declared, settings: Settings
) -> Account:
    """The account that pays, opened and bound to the rows' addresses; spends nothing. A
    PrivacyError where the rows belong to another account, or it protects something else; a
    SourceError where the contract does not say where the rows are.
    """
    # of a ledger made anew: bound where their rows are, so that no other contract opens an account
    for name in ledger.unplaced():
        with suppress(DpiclError):  # no such contract, or one that cannot be read: it stays unbound
            ledger.bind(name, addresses_of(settings.declared(name), settings))
    return ledger.ensure_account(
        account,
        addresses_of(contract, settings),
        named=contract.account is not None,
        states_cap=settings.states_cap,
        contract=contract.name,
    )


def addresses_of(contract: Declared, settings: Settings) -> tuple[str, ...]:
    """Where a contract's private rows may be, canonically; reads none. Raises SourceError: no
    database says which one it is.
    """
    if isinstance(contract, TextContract):
        texts = contract.source
        if contract.edition_of is not None:  # one asset, whichever edition of it is at hand
            stated = contract.edition_of.stated
            editions = [
                edition(stated, name).source.train for name in reversed(edition_names(stated))
            ]
            return tuple(_path(train.file, settings) for train in editions if train is not None)
        if texts.deliveries is not None:
            return (_path(texts.deliveries, settings),)
        if texts.bundled:
            return (f"bundled:{texts.bundled}",)
        return (_path(texts.train.file, settings),) if texts.train else ()
    assert isinstance(contract, Contract)
    source = contract.source
    # the database, whatever its tables: which of them a statement reads does not follow from its
    # text
    if source.query is not None:
        from dpicl.data.reading.database import database_addresses  # others need no Arrow

        return tuple(database_addresses(source.query, contract.name))
    places = [
        place
        for place in (source.file, source.folder, source.deliveries, source.moved_from)
        if place is not None
    ]
    addresses = [
        place.rstrip("/") if place.startswith(SCHEME) else _path(place, settings)
        for place in places
    ]
    addresses += [f"frame:{contract.account}"] if source.frame else []
    addresses += [f"bundled:{source.bundled}"] if source.bundled else []
    addresses += [
        f"{kind}:{remote.id}"
        for kind, remote in (("openml", source.openml), ("uci", source.uci))
        if remote is not None
    ]
    return tuple(addresses)


def check_payer(contract: Contract, settings: Settings, addresses: tuple[str, ...]) -> None:
    """Refuse to read from a database that another account pays for than the one that the contract's
    charge goes to; of a benchmark, one that is charged. Of an address that leads to several servers
    each connection may be another's: this one is asked before it gives a row. Raises PrivacyError:
    it is another one; the next connection may not be.
    """
    assert contract.source.query is not None
    stated = stated_account(contract)
    named = contract.account
    with open_ledger(settings) as ledger:
        paying = ledger.find_account(stated, addresses, named=named is not None)
        if stated.benchmark:
            return
        if paying is None:  # a new account begins with the database that answers now
            paying = ledger.ensure_account(stated, addresses, named=named is not None)
        elif ledger.payer_at(addresses, named=named) is None:
            # the first database of an account that is open: no charge has told of another server
            ledger.bind(paying.name, addresses)
        if ledger.payer_at(addresses[:1], named=named) == paying.name:
            return
    raise PrivacyError(
        f"{contract.name}: the database that answers now is not the one that its account was told "
        f"by; expected one server at the address in "
        f"{contract.source.query.url_env}, or the same command again"
    )


def _path(place: str, settings: Settings) -> str:
    return f"file:{os.path.realpath((settings.data or Path.cwd()) / place)}"


def declared_accounts(settings: Settings) -> tuple[list[Account], list[str]]:
    """Open accounts, as the contracts that can be read declare them; and a sentence for each
    contract whose account cannot be told, since no database answers.
    """
    accounts: list[Account] = []
    unknown: list[str] = []
    with open_ledger(settings) as ledger:
        ledger = ledger.trial()  # rows are bound to an account by a charge alone
        opened = {account.name for account in ledger.accounts() if not account.benchmark}
        for name in (*settings.contract_names(), *settings.text_names()) if opened else ():
            with suppress(DpiclError):  # a contract that breaks a rule is reported where it is used
                contract = settings.declared(name)
                if (contract.account or contract.name) in opened:
                    stated = stated_account(contract)
                    try:
                        accounts.append(
                            replace(
                                stated, name=bind_account(ledger, stated, contract, settings).name
                            )
                        )
                    except SourceError as error:
                        unknown.append(
                            f"{error}; so nobody can tell whether its cap is that of its account"
                        )
    return accounts, unknown


def refused_contracts(settings: Settings) -> list[str]:
    """A sentence for each of the user's contracts that breaks a rule, so that nothing else is said
    of it.
    """
    refused = []
    for name in settings.own_names():
        try:
            settings.declared(name)
        except DeclarationError as error:
            refused.append(f"a contract is left out: {error}")
    return refused


def differing_caps(
    accounts: Iterable[Account], settings: Settings, where: str = "in the contract"
) -> list[str]:
    """A sentence for each cap and share, stated `where`, that differs from the ledger's, and on
    which of them holds; of open accounts that are no benchmark's.
    """
    capped = [account for account in accounts if not account.benchmark]
    if not capped:
        return []
    sentences = []
    with open_ledger(settings) as ledger:
        opened = {account.name: account for account in ledger.accounts()}
        restored = ledger.restored_from
        for stated in (stated for stated in capped if stated.name in opened):
            after = ledger.after_charge(stated)
            if (current := ledger.with_other_caps(stated)) is not None:
                sentences.append(_differing_cap(stated, current, after, restored, where))
            sentences += _differing_shares(stated, opened[stated.name], after, where)
    return sentences


OF_CALL = "of this call"
"""Where a cap is stated that is an argument."""
_UNTIL_CHARGED = "which holds until a new charge states it"


def _differing_cap(
    stated: Account, current: Account, after: Account, restored: str | None, where: str
) -> str:
    """On a cap that differs from the ledger's: that of its account as it is, and as it would be
    after a charge by the same contract.
    """
    with_delta = stated.delta_cap != current.delta_cap
    of_contract, of_ledger = (
        caps_text(account.epsilon_cap, account.delta_cap, with_delta=with_delta)
        for account in (stated, current)
    )
    delta = f" --delta {stated.delta_cap:.12g}" if with_delta else ""
    less = "" if restored is None else f", less what was released since the backup of {restored},"
    caps = (current.epsilon_cap, current.delta_cap)
    holds = "which holds" if caps == (after.epsilon_cap, after.delta_cap) else _UNTIL_CHARGED
    program = " or `Session().set_cap`" if where == OF_CALL else ""
    return (
        f"account {stated.name!r}: the cap {where}, epsilon {of_contract}, differs from "
        f"the ledger's, {of_ledger}, {holds}; "
        f"`dpicl budget {stated.name} --cap {stated.epsilon_cap:.12g}{delta}`{program}{less} "
        "changes it"
    )


def _differing_shares(
    stated: Account, current: Account, after: Account, where: str
) -> Iterator[str]:
    """On each user's share that is above the ledger's, or will lower it; with the arguments of
    `_differing_cap`.
    """
    shares, later = dict(current.shares), dict(after.shares)
    for user, most in stated.shares:
        share = shares.get(user)
        if share == later[user] and most <= share:
            continue  # a command has decided on a larger one
        of_ledger = "none" if share is None else f"{share:.12g}"
        holds = "which holds" if share == later[user] else _UNTIL_CHARGED
        yield (
            f"account {stated.name!r}: the share of {user!r} {where}, epsilon {most:.12g}, "
            f"differs from the ledger's, {of_ledger}, {holds}; "
            f"`dpicl budget {stated.name} --share {quote(user)}={most:.12g}` changes it"
        )
