"""Releases through the ledger: charged before a mechanism reads, published once, read by hash.

    quote     what a release would cost its account
    reserve   every release of a unit is charged, durably, before its mechanism sees a row, and its
              receipt written
    publish   a draw is written whole, its hash is put to the ledger, and the first one wins
    read      only bytes whose hash the ledger says is published

A crash between any two steps leaves budget spent and never a second draw to be seen: a
draft whose hash won is found again by its name, any other draft is worth nothing. An artefact
under a name that the ledger does not know is a refusal.

Artefacts lie in `released/<account>/<release_id>` in DPICL_HOME, with receipts; for the ledger see
`dpicl.home.accounts`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from dpicl.accounting.events import PERIODS
from dpicl.contract.declared import Declared
from dpicl.contract.payment import spending
from dpicl.contract.pipeline import Cell, Unit
from dpicl.contract.text import TextContract
from dpicl.ground.errors import BudgetError, LedgerError, LedgerRefusedError
from dpicl.ground.files import PRIVATE_MODE, publish, sync_folder
from dpicl.home.accounts import addresses_of, artefact_of, ledger_key, open_ledger, write_receipt
from dpicl.home.settings import Settings
from dpicl.ledger import Account, Ledger, Quote, Reservation, release_id
from dpicl.ledger import ReleaseCharge as Release
from dpicl.ledger.budget import as_paid
from dpicl.ledger.keys import canonical
from dpicl.methods import METHODS
from dpicl.methods.grid import points
from dpicl.release.names import (
    QUERIES,
    WRITER,
    ReleaseFacts,
    account_of,
    open_account,
    parts_of,
    period_named,
    public_facts,
)
from dpicl.release.request import PlannedRelease


def check_shared(contracts: Iterable[Declared], settings: Settings) -> None:
    """Refuse to charge rows in a ledger of this host alone, where other hosts work on them too:
    each would have a budget of its own. Raises LedgerRefusedError: DPICL_LEDGER names no database
    that all share.
    """
    capped = sorted(
        contract.name for contract in contracts if not contract.privacy.budget.benchmark
    )
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


def named_releases(
    ledger: Ledger,
    contract: Declared,
    unit: Unit,
    settings: Settings,
    facts: ReleaseFacts,
    *,
    opens: bool = True,
) -> dict[Cell, Release]:
    """Every release of a unit by its name, priced as its account states it.

    Args:
        opens: whether the account is opened, and agreed with what the contract says; else it is
            looked up, and the ledger stays as it is.

    Raises:
        LedgerError: no account is open, and none is to be.
        LedgerRefusedError: the contract's rows are charged in another ledger.
        PrivacyError: the rows belong to another account, or it protects something else than the
            releases do.
    """
    check_ledger(contract, settings)
    facts = replace(facts, period=period_named(contract, unit.method, facts.period))
    if opens:
        account: Account | None = open_account(ledger, contract, unit.method, settings)
    else:
        stated, named = account_of(contract, unit.method), contract.account is not None
        account = ledger.find_account(stated, addresses_of(contract, settings), named=named)
    if account is None:
        raise LedgerError(
            f"{contract.name}: no account is open for its rows; expected a release of them first"
        )
    key, releases, method = ledger_key(settings), {}, METHODS[unit.method]
    for cell, point in points(method, unit).items():
        cost = method.cost(contract, point)
        described = public_facts(contract, unit.method, point, facts)
        name = release_id(
            key,
            described,
            account=account.name,
            neighbours=account.neighbours,
            period=facts.period,
        )
        guarantee = cost.charged if account.benchmark else as_paid(cost.charged, account)
        releases[cell] = Release(name, account.name, unit.method, described.parameters, guarantee)
    return releases


def is_part(contract: Declared, unit: Unit) -> bool:
    """Whether a unit's releases are periods of horizons, written from texts: each horizon is
    charged in the place of its first period.
    """
    return isinstance(contract, TextContract) and METHODS[unit.method].is_series(contract)


@dataclass(frozen=True)
class UnitReleases:
    """The releases of one unit, named and priced; where they are periods of horizons, with these,
    which pay for them.
    """

    contract: Declared
    unit: Unit
    settings: Settings
    named: Mapping[Cell, Release]
    horizons: Mapping[Cell, Release] = field(default_factory=dict)

    @staticmethod
    def of(
        ledger: Ledger, contract: Declared, unit: Unit, settings: Settings, facts: ReleaseFacts
    ) -> UnitReleases:
        """Name every release by account, mechanism, parameters, contract and period; the arguments
        are those of `named_releases`.
        """
        named = named_releases(ledger, contract, unit, settings, facts)
        if not is_part(contract, unit):
            return UnitReleases(contract, unit, settings, named)
        parts = parts_of(ledger_key(settings), named, contract, facts.period)
        return UnitReleases(contract, unit, settings, parts, named)

    @property
    def paying(self) -> Mapping[Cell, Release]:
        """The releases that cost something: of periods their horizons."""
        return self.horizons or self.named

    def reserve(self, ledger: Ledger) -> tuple[list[Cell], int]:
        """Charge every release that was not charged before, as `charge` does; gives those that
        nothing is published for, and how many were charged now.
        """
        horizons = replace(self, named=self.horizons, horizons={})
        paid = [horizons.charge_horizon(ledger, cell) for cell in self.horizons]
        answers = {cell: self.charge(ledger, cell) for cell in self.named}
        missing = [cell for cell, answer in answers.items() if answer.artefact_sha256 is None]
        charged = sum(paid) if paid else sum(answer.is_new for answer in answers.values())
        return missing, charged

    def charge(self, ledger: Ledger, cell: Cell) -> Reservation:
        """Charge one release, unless it was charged before, and write its receipt.

        Raises:
            BudgetError: the account's cap would be passed; no mechanism has read a row.
            LedgerRefusedError: an artefact stands under a name that the ledger does not know.
        """
        release, settings = self.named[cell], self.settings
        if ledger.find(release.release_id) is None and artefact_of(settings, release).exists():
            raise LedgerRefusedError(
                f"{self.unit.key}: {cell.key}: an artefact stands under this release's "
                f"name, and the ledger does not know it; "
                f"restore the ledger from a backup, or `dpicl ledger adopt`"
            )
        # of a horizon no row is read: its periods' releases read them
        if METHODS[self.unit.method].model_reads_rows and PERIODS not in release.parameters:
            ledger.take_up(release, differing=[WRITER])
        answer = ledger.reserve(release, first=account_of(self.contract, self.unit.method))
        write_receipt(ledger, release, settings)
        return answer

    def charge_horizon(self, ledger: Ledger, cell: Cell) -> bool:
        """Charge a horizon, unless it was charged, and publish which periods it has; whether it was
        charged now.
        """
        answer = self.charge(ledger, cell)
        if answer.artefact_sha256 is None:
            periods = self.contract.releases.calendar.periods
            self.publish(ledger, cell, json.dumps({"periods": periods}, sort_keys=True).encode())
        return answer.is_new

    def publish(self, ledger: Ledger, cell: Cell, content: bytes) -> bool:
        """Offer a draw as the release, and whether it is; if another one has won already, this one
        is discarded unseen.
        """
        release = self.named[cell]
        mine = hashlib.sha256(content).hexdigest()
        draft = self._draft(release, mine)
        publish(draft, lambda file: file.write(content), mode=PRIVATE_MODE)
        winner = ledger.publish(release.release_id, mine)
        self._place(release, winner)
        write_receipt(ledger, release, self.settings)
        return winner == mine

    def _place(self, release: Release, winner: str) -> None:
        """Give the winning draft its name, once no other one is left: those of late or killed
        tries are second looks at the rows.
        """
        final, published = artefact_of(self.settings, release), self._draft(release, winner)
        for other in final.parent.glob(f"{release.release_id}.*.draft"):
            if other != published:
                other.unlink(missing_ok=True)
        with suppress(FileNotFoundError):  # another process has renamed it
            published.replace(final)
        sync_folder(final.parent)

    def read(self, ledger: Ledger, cell: Cell) -> bytes:
        """The published artefact of a release. Raises LedgerError: there is none, or it is gone;
        LedgerRefusedError: it is another one.
        """
        release = self.named[cell]
        winner = ledger.published(release.release_id)
        if winner is None:
            raise LedgerError(f"{self.unit.key}: {cell.key}: nothing is published for this release")
        final = artefact_of(self.settings, release)
        if not final.exists():
            self._place(release, winner)
        if not final.exists():
            raise LedgerError(
                f"{self.unit.key}: {cell.key}: the published artefact is gone; its budget "
                f"stays spent, restore released/ from a backup"
            )
        content = final.read_bytes()
        if hashlib.sha256(content).hexdigest() != winner:
            raise LedgerRefusedError(
                f"{self.unit.key}: {cell.key}: the artefact is not the one that was published"
            )
        return content

    def _draft(self, release: Release, sha256: str) -> Path:
        return artefact_of(self.settings, release).with_name(f"{release.release_id}.{sha256}.draft")


@dataclass(frozen=True)
class AccountQuote:
    """What one account would be charged."""

    account: str
    releases: int
    charged_before: int
    quote: Quote


def quote_release(planned: PlannedRelease, settings: Settings) -> list[AccountQuote]:
    """What the account of one release would be charged; no row is read."""
    with open_ledger(settings) as ledger:
        ledger.verify()
        named = named_releases(ledger, planned.contract, planned.unit, settings, planned.facts)
        ((account, releases),) = (
            (release.account, {release.release_id: release}) for release in named.values()
        )
        return [quoted(ledger, account, releases)]


def quoted(ledger: Ledger, account: str, releases: Mapping[str, Release]) -> AccountQuote:
    """What an account would be charged for these releases, by their names."""
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
    before = len(releases) - len(new)
    return AccountQuote(account, len(releases), before, ledger.dry_run(account, new))


def check_quotes(quotes: Iterable[AccountQuote]) -> None:
    """Refuse what would pass a cap. Raises BudgetError: with the cost, what is spent, the cap and
    what is left.
    """
    for line in quotes:
        if not line.quote.allowed:
            quote, new = line.quote, line.releases - line.charged_before
            raise BudgetError(
                f"account {line.account!r}: "
                f"{'a new release costs' if new == 1 else f'{new} new releases cost'} "
                f"epsilon={quote.cost.epsilon:.6g}, "
                f"spent {quote.before.epsilon:.6g} of cap {quote.cap:.6g}, left "
                f"{max(0.0, (quote.cap or 0) - quote.before.epsilon):.6g}; "
                f"expected a smaller epsilon, fewer releases, or a higher cap by `dpicl budget "
                f"{line.account} --cap EPSILON`{quote.closed_by}"
            )


def spending_sentence(ledger: Ledger, account: str, releases: int, charged: int) -> str:
    """On what an account was charged now, for so many releases, and what is spent in all."""
    caps = {paying.name: paying.epsilon_cap for paying in ledger.accounts()}
    spent = 0.0 if caps[account] is None else ledger.spent(account).epsilon
    return spending(account, releases, charged, spent=spent, cap=caps[account])


def _described(release: Release) -> str:
    """A release whose name holds the queries that it answers, which are not read yet."""
    return canonical(
        [
            release.mechanism,
            {name: value for name, value in release.parameters.items() if name != QUERIES},
        ]
    )
