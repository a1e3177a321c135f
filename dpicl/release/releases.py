"""Releases through the ledger: charged before a mechanism reads, published once, read by hash.

    quote     what a release would cost its account
    reserve   it is charged, durably, before its mechanism sees a row, and its receipt written
    publish   a draw is written whole, its hash is put to the ledger, and the first one wins
    read      only bytes whose hash the ledger says is published

A crash between any two steps leaves budget spent and never a second draw to be seen: a
draft whose hash won is found again by its name, any other draft is worth nothing. An artefact
under a name that the ledger does not know is a refusal.

Artefacts lie in `released/<account>/<release_id>` in DPICL_HOME, with receipts; for the ledger see
`dpicl.home.accounts`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from dpicl.accounting.events import PERIODS
from dpicl.contract.declared import Declared
from dpicl.contract.load import contract_digest
from dpicl.contract.payment import spending
from dpicl.contract.pipeline import Point
from dpicl.contract.text import TextContract
from dpicl.ground.errors import BudgetError, LedgerError, LedgerRefusedError
from dpicl.ground.files import PRIVATE_MODE, publish, sha256_of, sync_folder
from dpicl.home.accounts import artefact_of, ledger_key, open_ledger, write_receipt
from dpicl.home.settings import Settings
from dpicl.ledger import Account, Ledger, Quote, ReleaseCharge, Reservation, release_id
from dpicl.ledger.budget import as_paid
from dpicl.ledger.keys import canonical
from dpicl.methods import METHODS
from dpicl.methods.audited import FOLDER, check_audited
from dpicl.release.names import (
    QUERIES,
    WRITER,
    ReleaseFacts,
    account_of,
    open_account,
    part_of,
    period_named,
    public_facts,
)
from dpicl.release.request import PlannedRelease


def check_shared(contracts: Iterable[Declared], settings: Settings) -> None:
    """Refuse to charge rows in a ledger of this host alone, where other hosts work on them too:
    each would have a budget of its own. Raises LedgerRefusedError: DPICL_LEDGER names no database
    that all share.
    """
    capped = sorted(contract.name for contract in contracts if not contract.is_benchmark)
    if capped and not (settings.ledger or "").startswith("postgresql"):
        raise LedgerRefusedError(
            f"{capped[0]}: on a cluster every host would spend from a ledger of its own; expected "
            f"one PostgreSQL for all in DPICL_LEDGER"
        )


_ELSEWHERE = frozenset({"dbname", "host", "hostaddr", "port", "service"})
"""Parameters in an address by which it leads to another place than it names."""


def check_ledger(contract: Declared, settings: Settings) -> None:
    """Refuse, with a LedgerRefusedError, to charge rows elsewhere than in the ledger that their
    contract names.
    """
    if contract.ledger is None:
        return
    try:
        used, named = (make_url(text) for text in (settings.ledger or "sqlite://", contract.ledger))
    except ArgumentError:
        raise LedgerRefusedError(
            "DPICL_LEDGER: is no database URL; expected postgresql://…"
        ) from None
    mine, other = (
        (url.get_backend_name(), url.host, url.port or 5432, url.database) for url in (used, named)
    )
    leads_elsewhere = _ELSEWHERE & set(used.query) or any(
        os.environ.get(name) for name in ("PGHOSTADDR", "PGSERVICE")
    )
    if mine != other or leads_elsewhere:
        raise LedgerRefusedError(
            f"{contract.name}: is charged in the ledger {contract.ledger} only; expected that one "
            f"in DPICL_LEDGER"
        )


def paying_account(ledger: Ledger, contract: Declared, method: str, settings: Settings) -> Account:
    """The account that pays for releases of a contract, opened if need be.

    Raises:
        LedgerRefusedError: the contract's rows are charged in another ledger.
        PrivacyError: the rows belong to another account, or it protects something else than the
            releases do; or the method is of another package, and was not audited here.
    """
    check_ledger(contract, settings)
    check_audited(METHODS[method], contract, settings.home / FOLDER)
    return open_account(ledger, contract, method, settings)


@dataclass(frozen=True)
class NamedRelease:
    """One release of a contract, by its name in the ledger and its price; of a period of a horizon,
    with the horizon, which pays for it.

    Attributes:
        method: by its name; another's than the charge's where it measures answers.
        key: of what it is asked for, `Point.key`.
    """

    contract: Declared
    method: str
    key: str
    charge: ReleaseCharge
    settings: Settings
    horizon: ReleaseCharge | None = None

    @property
    def paying(self) -> ReleaseCharge:
        """What costs something: of a period its horizon."""
        return self.horizon or self.charge

    def reserve(self, ledger: Ledger) -> Reserved:
        """Charge it, unless it was charged before, and write its receipt; of a period first its
        horizon, whose periods are published then.

        Raises:
            BudgetError: the account's cap would be passed; no mechanism has read a row.
            LedgerRefusedError: an artefact stands under a name that the ledger does not know.
        """
        if self.horizon is None:
            answer = self._reserved(ledger)
            return Reserved(answer.artefact_sha256 is None, answer.is_new)
        horizon = replace(self, charge=self.horizon, horizon=None)
        charged = horizon.reserve(ledger)
        if charged.is_missing:
            periods = self.contract.releases.calendar.periods
            horizon.publish(ledger, json.dumps({"periods": periods}, sort_keys=True).encode())
        return replace(charged, is_missing=self._reserved(ledger).artefact_sha256 is None)

    def _reserved(self, ledger: Ledger) -> Reservation:
        charge = self.charge
        if ledger.find(charge.release_id) is None and artefact_of(self.settings, charge).exists():
            raise LedgerRefusedError(
                f"{self._where}: an artefact stands under this release's name, and the ledger does "
                f"not know it; restore the ledger from a backup, or `dpicl ledger adopt`"
            )
        # of a horizon no row is read: its periods' releases read them
        if METHODS[self.method].model_reads_rows and PERIODS not in charge.parameters:
            ledger.take_up(charge, differing=[WRITER])
        answer = ledger.reserve(
            charge,
            stated=account_of(self.contract, self.method),
            states_cap=self.settings.states_cap,
            contract=self.contract.name,
        )
        write_receipt(ledger, charge, self.settings)
        return answer

    def publish(self, ledger: Ledger, content: bytes) -> bool:
        """Offer a draw as the release, and whether it is; if another one has won already, this one
        is discarded unseen.
        """
        mine = sha256_of(content)
        publish(self._draft(mine), content, mode=PRIVATE_MODE)
        winner = ledger.publish(self.charge.release_id, mine)
        self._place(winner)
        write_receipt(ledger, self.charge, self.settings)
        return winner == mine

    def _place(self, winner: str) -> None:
        """Give the winning draft its name, once no other one is left: those of late or killed
        tries are second looks at the rows.
        """
        final = artefact_of(self.settings, self.charge)
        published = self._draft(winner)
        for other in final.parent.glob(f"{self.charge.release_id}.*.draft"):
            if other != published:
                other.unlink(missing_ok=True)
        with suppress(FileNotFoundError):  # another process has renamed it
            published.replace(final)
        sync_folder(final.parent)

    def read(self, ledger: Ledger) -> bytes:
        """The published artefact. Raises LedgerError: there is none, or it is gone;
        LedgerRefusedError: it is another one.
        """
        winner = ledger.published(self.charge.release_id)
        if winner is None:
            raise LedgerError(f"{self._where}: nothing is published for this release")
        final = artefact_of(self.settings, self.charge)
        if not final.exists():
            self._place(winner)
        if not final.exists():
            raise LedgerError(
                f"{self._where}: the published artefact is gone; its budget stays spent, restore "
                f"released/ from a backup"
            )
        content = final.read_bytes()
        if sha256_of(content) != winner:
            raise LedgerRefusedError(
                f"{self._where}: the artefact is not the one that was published"
            )
        return content

    @property
    def _where(self) -> str:
        return f"{self.contract.name}: {self.method}, {self.key}"

    def _draft(self, sha256: str) -> Path:
        name = f"{self.charge.release_id}.{sha256}.draft"
        return artefact_of(self.settings, self.charge).with_name(name)


@dataclass(frozen=True)
class Reserved:
    """Whether nothing is published yet for a release that is charged, and whether it was charged
    now.
    """

    is_missing: bool
    is_new: bool


def named_releases(
    account: Account,
    contract: Declared,
    method: str,
    asked: Iterable[Point[Any]],
    settings: Settings,
    facts: ReleaseFacts,
) -> dict[str, NamedRelease]:
    """Releases by the key of what they are asked for: each by its name, and priced as the account
    that pays states it. Texts of a period are a part of their horizon, which is charged in the
    place of its first one, and note the model that writes them.

    Raises:
        ParameterError: the contract has no such period.
    """
    key = ledger_key(settings)
    of_method = METHODS[method]
    named = dict[str, NamedRelease]()
    period = period_named(contract, method, facts.period)
    digest = contract_digest(contract)
    is_part = isinstance(contract, TextContract) and of_method.is_series(contract)
    for point in asked:
        cost = of_method.cost(contract, point)
        described = public_facts(contract, method, point, replace(facts, period=period))
        name = release_id(
            key, described, account=account.name, neighbours=account.neighbours, period=period
        )
        guarantee = cost.charged if account.benchmark else as_paid(cost.charged, account)
        charge = ReleaseCharge(name, account.name, method, described.parameters, guarantee)
        named[point.key] = NamedRelease(contract, method, point.key, charge, settings)
        if is_part:
            part = part_of(
                key,
                charge,
                digest,
                index=contract.releases.calendar.index(facts.period),
                period=facts.period,
                noted={WRITER: charge.parameters[WRITER]},
            )
            named[point.key] = replace(named[point.key], charge=part, horizon=charge)
    return named


@dataclass(frozen=True)
class AccountQuote:
    """What one account would be charged."""

    account: str
    releases: int
    charged_before: int
    quote: Quote
    share_left: float | None = None
    """What the user's share would have left after; None without one."""


def name_of(ledger: Ledger, planned: PlannedRelease, settings: Settings) -> NamedRelease:
    """One release by its name; opens its account, as `paying_account` does."""
    contract = planned.contract
    method = planned.method
    account = paying_account(ledger, contract, method, settings)
    (named,) = named_releases(
        account, contract, method, [planned.point], settings, planned.facts
    ).values()
    return named


def quote_release(planned: PlannedRelease, settings: Settings) -> list[AccountQuote]:
    """What the account of one release would be charged; no row is read, no account opened."""
    with open_ledger(settings) as ledger:
        ledger.verify()
        trial = ledger.trial()
        named = name_of(trial, planned, settings)
        return [quoted(trial, named.paying.account, {named.paying.release_id: named.paying})]


def quoted(ledger: Ledger, account: str, releases: Mapping[str, ReleaseCharge]) -> AccountQuote:
    """What an account would be charged for these releases, by their names. Raises BudgetError: it
    would pass the user's share.
    """
    charged = [entry.release for entry in ledger.entries(account)]
    names = {release.release_id for release in charged}
    described = {_described(release) for release in charged if QUERIES in release.parameters}
    new = [
        release.guarantee
        for release in releases.values()
        if release.release_id not in names and _described(release) not in described
    ]
    if new:
        ledger.check_elsewhere(account)
        ledger.check_share(account, new)
    before = len(releases) - len(new)
    left = ledger.share_left(account, new)
    return AccountQuote(account, len(releases), before, ledger.dry_run(account, new), left)


def check_quotes(quotes: Iterable[AccountQuote]) -> None:
    """Refuse what would pass a cap. Raises BudgetError: with the cost, what is spent, the cap and
    what is left.
    """
    for line in quotes:
        if not line.quote.allowed:
            quote = line.quote
            new = line.releases - line.charged_before
            raise BudgetError(
                f"account {line.account!r}: "
                f"{'a new release costs' if new == 1 else f'{new} new releases cost'} "
                f"epsilon={quote.cost.epsilon:.6g}, spent {quote.before.epsilon:.6g} of cap "
                f"{quote.cap:.6g}, left {max(0.0, (quote.cap or 0) - quote.before.epsilon):.6g}; "
                "expected a smaller epsilon, fewer releases, or a higher cap by `dpicl budget "
                f"{line.account} --cap EPSILON` or `Session().set_cap`{quote.cap_reason}"
            )


def spending_sentence(
    ledger: Ledger, account: str, releases: int, charged: int, *, published: str = ""
) -> str:
    """On what an account was charged now, for so many releases, and what is spent in all; where
    something was charged, also on the contract that lowers its cap. `published`: as of `spending`.
    """
    caps = {paying.name: paying.epsilon_cap for paying in ledger.accounts()}
    return spending(
        account,
        releases,
        charged,
        spent=0.0 if caps[account] is None else ledger.spent(account).epsilon,
        cap=caps[account],
        published=published,
        lowering=ledger.lowering(account)[1] if charged else "",
    )


def _described(release: ReleaseCharge) -> str:
    """A release whose name holds the queries that it answers, which are not read yet."""
    return canonical(
        [
            release.mechanism,
            {name: value for name, value in release.parameters.items() if name != QUERIES},
        ]
    )
