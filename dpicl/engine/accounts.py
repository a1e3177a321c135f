"""Which account pays for a contract's rows: the one that the ledger has for where they are.

A budget belongs to a data asset, which is a thing and no spelling (a file or folder by all its
paths, an object, the database that a server says it is), or a name that several contracts share;
never to what stands in the rows. A second contract, a link, another working directory or another
method on the same rows spends from the same account.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from dpicl.accounting.guarantee import Neighbours
from dpicl.accounting.ledger import Account, Ledger
from dpicl.contract import Contract, TextContract
from dpicl.contract.declared import Declared
from dpicl.contract.editions import edition, edition_names
from dpicl.engine.open_ledger import open_ledger
from dpicl.engine.settings import Settings
from dpicl.errors import DpiclError, PrivacyError
from dpicl.files.objects import SCHEME


def stated_account(contract: Declared) -> Account:
    """The account as a contract speaks of it: unit, relation and caps; its name counts where the
    rows have no account yet.
    """
    privacy, budget = contract.privacy, contract.privacy.budget
    return Account(
        name=contract.account or contract.name,
        unit=privacy.unit,
        neighbours=Neighbours(privacy.neighbours),
        epsilon_cap=budget.epsilon,
        delta_cap=budget.delta,
        benchmark=budget.benchmark,
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
    named, states_cap = (
        contract.account is not None,
        settings.given is None or settings.given.has_cap,
    )
    return ledger.ensure_account(
        account, addresses_of(contract, settings), named=named, states_cap=states_cap
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
        return (
            (f"bundled:{texts.bundled}",)
            if texts.bundled
            else (_path(texts.train.file, settings),)
            if texts.train
            else ()
        )
    assert isinstance(contract, Contract)
    source = contract.source
    # the database, whatever its tables: which of them a statement reads does not follow from its
    # text
    if source.query is not None:
        from dpicl.tabular.reading.database import database_addresses  # others need no Arrow

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
    stated, named = stated_account(contract), contract.account
    with open_ledger(settings) as ledger:
        paying = ledger.find_account(stated, addresses, named=named is not None)
        if stated.benchmark or (
            paying is not None and ledger.payer_at(addresses[:1], named=named) == paying.name
        ):
            return
    raise PrivacyError(
        f"{contract.name}: the database that answers now is not the one that its account was told "
        f"by; expected one server at the address in "
        f"{contract.source.query.url_env}, or the same command again"
    )


def _path(place: str, settings: Settings) -> str:
    return f"file:{os.path.realpath((settings.data or Path.cwd()) / place)}"
