"""What the records of the ledger say: what goes into it, and the fold of its chain that every
decision reads, and nothing else.

Unit        stated by every account, and checked against every entry.
Neighbours  stated by every account, and checked against every entry.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, cast

from dpicl.accounting.accountant import Cost
from dpicl.accounting.events import guarantee_as_json, guarantee_from_json
from dpicl.accounting.filters import Spent
from dpicl.accounting.guarantee import Guarantee, Neighbours
from dpicl.ground.errors import LedgerError, ParameterError, one_of
from dpicl.ledger.keys import Head, canonical

ReleaseState = Literal["reserved", "published"]


@dataclass(frozen=True)
class Account:
    """The budget of one data set's privacy unit: caps, or none for public benchmark data.

    `delta_cap` is also where the cost of Gaussian events is read, on benchmarks too; with 0 they
    have no finite cost. `shares`: users and the most epsilon that each may charge, by name.
    """

    name: str
    unit: str
    neighbours: Neighbours
    epsilon_cap: float | None = None
    delta_cap: float = 0.0
    benchmark: bool = False
    shares: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        if self.benchmark != (self.epsilon_cap is None):
            raise ParameterError(
                "epsilon_cap", self.epsilon_cap, "a cap, or benchmark=True, not both"
            )
        check_caps(self.epsilon_cap, self.delta_cap)


def check_caps(epsilon_cap: float | None, delta_cap: float) -> None:
    """Refuse caps that cap nothing. Raises ParameterError: epsilon is negative, NaN or infinite, or
    delta outside [0, 1).
    """
    if epsilon_cap is not None and not 0 <= epsilon_cap < float("inf"):
        raise ParameterError("epsilon_cap", epsilon_cap, "a finite number >= 0")
    if not 0 <= delta_cap < 1:
        raise ParameterError("delta_cap", delta_cap, "a number in [0, 1)")


@dataclass(frozen=True)
class ReleaseCharge:
    """One output to be: its name, who pays, what it is drawn by, and its guarantee.

    `parameters` are public and plain JSON.
    """

    release_id: str
    account: str
    mechanism: str
    parameters: Mapping[str, Any]
    guarantee: Guarantee


@dataclass(frozen=True)
class Spender:
    """Who charges: the user of the machine or of the orchestrator, and the command. Bookkeeping:
    nobody's word is checked.
    """

    user: str = ""
    command: str = ""


NOBODY = Spender()


@dataclass(frozen=True)
class Reservation:
    """The state of a release whose cost is charged; `is_new` for the call that charged it."""

    state: ReleaseState
    artefact_sha256: str | None
    is_new: bool


@dataclass(frozen=True)
class Entry:
    """A release in the ledger: what it was charged, when, and by whom."""

    release: ReleaseCharge
    reserved_utc: str
    artefact_sha256: str | None = None
    published_utc: str | None = None
    by: Spender = NOBODY

    @property
    def state(self) -> ReleaseState:
        """`published` once an artefact has won."""
        return "reserved" if self.artefact_sha256 is None else "published"


@dataclass(frozen=True)
class Quote:
    """What releases would cost: alone, what is spent now, and the total after them.

    `cap` and `left` are None on a benchmark account. `cap_reason` is the end of a sentence that
    says why the cap is 0, though nobody has set it, or which contract lowers it.
    """

    cost: Cost
    before: Cost
    after: Cost
    cap: float | None
    cap_reason: str = ""

    @property
    def allowed(self) -> bool:
        """Whether `reserve` would accept them; where nothing new is to be charged, whatever the
        cap. One of 0 admits nothing else.
        """
        is_free = not (self.cost.epsilon or self.cost.delta)
        return is_free or self.cap is None or (self.cap > 0 and self.after.epsilon <= self.cap)

    @property
    def left(self) -> float | None:
        """Epsilon left after them; None without a cap, negative if they are refused."""
        return None if self.cap is None else self.cap - self.after.epsilon


@dataclass(frozen=True)
class OdometerReading:
    """The odometer after one entry."""

    entry: Entry
    total: Cost


# In the record of a cap or of shares: who changed it, where no command did. Of a cap: what other
# ledgers had spent for the same rows, as the person was told who gave the command; the caps that a
# contract stated, as far as it states any; and where it lowered those of a charged account, the
# caps before and the contract's name.
CONTRACT = "contract"
ELSEWHERE = "elsewhere"
STATED = "stated"
LOWERED = "lowered"
# In a record that charges, publishes or sets a cap: the hash of the one that its chain began anew
# with. In that one: that all later ones say so, the time of the backup that a lost ledger came
# from, and that the receipts show a charge to be missing.
BRANCH = "branch"
AFTER_RESTORE = "after_restore"
LOST = "lost"

FOLLOWS = "follows"
"""In a record that charges: the number of the one that charged an account with a cap before."""


def now() -> str:
    """The time in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def backup_time(content: Mapping[str, Any]) -> str | None:
    """The time of the backup that a ledger came from that began anew with this record, or the lost
    one whose receipts it was rebuilt from; None of others.
    """
    time = content["backup"]["taken_utc"] if "backup" in content else content.get(AFTER_RESTORE)
    return None if time is None else str(time)


class Charge(NamedTuple):
    """A release that was charged: the number of the record that charged it, parameters and
    guarantee as canonical JSON, whether its mechanism has begun to read rows, the artefact that
    won, with the number of the record that published it, and who charged it by which command.
    """

    release_id: str
    guarantee: str
    number: int
    account: str
    mechanism: str
    parameters: str
    epsilon: float
    delta: float
    reserved_utc: str
    is_begun: bool = False
    artefact_sha256: str | None = None
    published_utc: str | None = None
    published_by: int = 0
    user: str = ""
    command: str = ""

    @property
    def entry(self) -> Entry:
        """The same as callers see it."""
        guarantee = guarantee_from_json(json.loads(self.guarantee))
        release = ReleaseCharge(
            self.release_id, self.account, self.mechanism, json.loads(self.parameters), guarantee
        )
        by = Spender(self.user, self.command)
        return Entry(release, self.reserved_utc, self.artefact_sha256, self.published_utc, by)


def terms_of(release: ReleaseCharge) -> dict[str, Any]:
    """What a record says of a release that it charges."""
    return {
        "release_id": release.release_id,
        "account": release.account,
        "mechanism": release.mechanism,
        "parameters": canonical(release.parameters),
        "guarantee": canonical(guarantee_as_json(release.guarantee)),
        "epsilon": release.guarantee.epsilon,
        "delta": release.guarantee.delta,
    }


def account_terms(account: Account) -> dict[str, Any]:
    """What is agreed on an account, but for the shares of its users."""
    terms = asdict(account) | {"neighbours": account.neighbours.value}
    del terms["shares"]
    return terms


def account_row(account: Account) -> dict[str, Any]:
    """What a record says of an account that is opened now."""
    return {**account_terms(account), "shares": dict(account.shares), "opened_utc": now()}


_totals: dict[str, Spent] = {}
"""Some totals by their texts: the next charge begins with the one that the last has written."""
_MOST_TOTALS = 64


def spent_text(spent: Spent) -> str:
    """A total as a record has it."""
    text = canonical(spent.as_json())
    _remember(text, spent)
    return text


def spent_from(text: str) -> Spent:
    """The inverse of `spent_text`."""
    spent = _totals.get(text)
    if spent is None:
        spent = Spent.from_json(json.loads(text))
        _remember(text, spent)
    return spent


def _remember(text: str, spent: Spent) -> None:
    if len(_totals) >= _MOST_TOTALS:
        _totals.clear()
    _totals[text] = spent


class Lowering(NamedTuple):
    """How a contract lowered the caps of a charged account: what they were, and its name."""

    epsilon_cap: float
    delta_cap: float
    contract: str


@dataclass
class AccountState:
    """An account as the records have it.

    Attributes:
        row: its terms, as of `account_row`.
        spent: what one with a cap has spent, as its privacy filter adds it up: canonical JSON.
        stated: every pair of caps that a contract stated, where that changed them.
        stated_shares: the same of users' shares.
        lowered: how a contract lowered the caps that it has now, as of `Lowering`; empty of others.
        is_decided: whether its caps were ever a command's, or 0.
        capped_by: the last record that changed a cap, and the last one by a command; 0 for none.
        elsewhere: what other ledgers had spent for the same rows when a command set a cap.
    """

    row: dict[str, Any]
    spent: str | None = None
    stated: list[list[float | None]] = field(default_factory=list)
    stated_shares: dict[str, list[float]] = field(default_factory=dict)
    lowered: list[Any] = field(default_factory=list)
    is_decided: bool = False
    capped_by: list[int] = field(default_factory=lambda: [0, 0])
    elsewhere: dict[str, float] = field(default_factory=dict)

    @property
    def account(self) -> Account:
        """The same as callers see it."""
        row = dict(self.row)
        del row["opened_utc"]
        cap = row["epsilon_cap"]
        return Account(
            **row
            | {
                "neighbours": Neighbours(row["neighbours"]),
                "epsilon_cap": None if cap is None else float(cap),
                "delta_cap": float(row["delta_cap"]),
                "shares": tuple(sorted((user, float(most)) for user, most in self.shares.items())),
            }
        )

    @property
    def total(self) -> Spent:
        """What it has spent."""
        return Spent.nothing() if self.spent is None else spent_from(self.spent)

    def has_stated(self, account: Account) -> bool:
        """Whether it ever took these caps from a contract: a later decision on others was made
        knowing these, so that nobody is warned of them.
        """
        return [account.epsilon_cap, account.delta_cap] in self.stated

    @property
    def shares(self) -> Mapping[str, float]:
        """The most epsilon that each user may charge; a row of an earlier program has none."""
        return cast(Mapping[str, float], self.row.get("shares", {}))

    @property
    def is_decided_now(self) -> bool:
        """Whether its caps are those of a command, which no contract lowers."""
        last, by_command = self.capped_by
        return 0 < last == by_command

    @property
    def lowering(self) -> Lowering | None:
        """How a contract lowered the caps that it has now; None where none did."""
        return Lowering(*self.lowered) if self.lowered else None

    def take_terms(self, terms: Mapping[str, Any], *, by_contract: bool) -> None:
        """Follow a statement on its terms."""
        self.row |= {name: terms[name] for name in self.row if name in terms}
        self.is_decided |= terms["epsilon_cap"] == 0
        if by_contract:
            self.stated.append(terms.get(STATED, [terms["epsilon_cap"], terms["delta_cap"]]))

    def take_shares(self, shares: Mapping[str, float], *, by_contract: bool) -> None:
        """Follow a statement on the shares of some users."""
        self.row["shares"] = {**self.shares, **shares}
        for user, most in shares.items() if by_contract else ():
            self.stated_shares.setdefault(user, []).append(most)


@dataclass
class Fold:
    """What the records up to `head` say.

    Attributes:
        assets: which account pays for the rows at a public address.
        charges: by the release's name.
        anew: the last record that the ledger began anew with, as after a loss.
        restored: number of the last record that says which backup it came from, and the time of
            that; 0 and "" of none.
        is_incomplete: whether charges are known to be lost, or may be: an account that is opened
            now may be one that was charged.
        last_charge: number of the last record that charged an account with a cap, which the next
            one names: where some are lost, it tells. It follows from `charges`.
        stored: up to where the ledger has stored what its records say.
        changed: releases of which a record has said something since `as_json`.
    """

    head: Head = field(default_factory=Head)
    accounts: dict[str, AccountState] = field(default_factory=dict)
    assets: dict[str, str] = field(default_factory=dict)
    charges: dict[str, Charge] = field(default_factory=dict)
    anew: Head = field(default_factory=Head)
    restored: tuple[int, str] = (0, "")
    is_incomplete: bool = False
    last_charge: int = field(default=0, compare=False)
    stored: Head = field(default_factory=Head, compare=False)
    changed: set[str] = field(default_factory=set, compare=False)

    def copy(self) -> Fold:
        """The same, of which accounts may change."""
        return replace(
            self, accounts=deepcopy(self.accounts), assets=dict(self.assets), changed=set()
        )

    def account(self, name: str) -> AccountState:
        """An open account. Raises LedgerError: there is none of this name."""
        if name not in self.accounts:
            known = f"; expected {one_of(name, sorted(self.accounts))}" if self.accounts else ""
            raise LedgerError(f"account {name!r} is not open in this ledger{known}")
        return self.accounts[name]

    def charges_of(self, name: str) -> list[Charge]:
        """What an account was charged for, in the order of the charges."""
        charged = (charge for charge in self.charges.values() if charge.account == name)
        return sorted(charged, key=lambda charge: charge.number)

    def is_unused(self, name: str) -> bool:
        """Whether nothing was ever charged to an account, whatever became of it."""
        charged = any(charge.account == name for charge in self.charges.values())
        return not charged and self.accounts[name].spent is None

    @property
    def has_spent(self) -> bool:
        """Whether an account with a cap was ever charged."""
        return any(account.spent for account in self.accounts.values())

    @property
    def is_closed(self) -> bool:
        """Whether this is what a restore left, and no command has stated a cap since: nothing can
        be spent.
        """
        begun = self.anew.sequence
        return 0 < begun == self.restored[0] and not any(
            account.capped_by[1] > begun for account in self.accounts.values()
        )

    @property
    def branch(self) -> dict[str, str]:
        """What a record says of where the chain began anew; nothing where it never did."""
        return {BRANCH: self.anew.hash} if self.anew.hash else {}

    def addresses_of(self, name: str) -> list[str]:
        """What is bound to an account, in order."""
        return sorted(address for address, payer in self.assets.items() if payer == name)

    def told_of(self, name: str) -> dict[str, Any]:
        """An account, as a record has it that says all of it: terms, addresses and total."""
        state = self.accounts[name]
        return {
            "account_row": state.row,
            "addresses": self.addresses_of(name),
            "spent": state.spent,
        }

    def take(self, after: Head, kind: str, content: dict[str, Any]) -> None:
        """Follow one more record, whose head this is. Raises KeyError, TypeError, ValueError,
        AttributeError: it is none that dpicl writes.
        """
        _TAKE[kind](self, content, after)
        self.head = after

    def as_json(self) -> str:
        """What a fold has to merge that had taken all records up to the last time of this."""
        accounts = {name: vars(account) for name, account in self.accounts.items()}
        charges = [self.charges.get(name) for name in sorted(self.changed)]
        guarantees = sorted({charge.guarantee for charge in charges if charge is not None})
        places = {text: place for place, text in enumerate(guarantees)}
        changed = [
            name if charge is None else [name, places[charge.guarantee], *charge[2:]]
            for name, charge in zip(sorted(self.changed), charges, strict=True)
        ]
        anew = [vars(self.anew), self.restored, self.is_incomplete]
        self.changed = set()
        return json.dumps([accounts, self.assets, anew, guarantees, changed])

    def merge(self, after: Head, content: str) -> None:
        """Follow all records up to this head, by their `as_json`."""
        accounts, self.assets, (anew, restored, lost), guarantees, changed = json.loads(content)
        self.accounts = {name: AccountState(**state) for name, state in accounts.items()}
        self.anew = Head(**anew)
        self.restored = (restored[0], restored[1])
        self.head = after
        self.is_incomplete = lost
        for row in changed:
            if isinstance(row, str):
                self.charges.pop(row, None)
            else:
                self._put(Charge(row[0], guarantees[row[1]], *row[2:]))
        self.changed = set()

    def _opened(self, content: dict[str, Any], _after: Head) -> None:
        self.accounts[content["name"]] = account = AccountState(content)
        account.take_terms(content, by_contract=True)
        account.take_shares(account.shares, by_contract=True)

    def _cap(self, content: dict[str, Any], after: Head) -> None:
        account = self.accounts[content["account"]]
        by_contract = content.get("by") == CONTRACT
        account.take_terms(content, by_contract=by_contract)
        account.is_decided |= not by_contract
        account.capped_by = [
            after.sequence,
            account.capped_by[1] if by_contract else after.sequence,
        ]
        account.elsewhere = content.get(ELSEWHERE, account.elsewhere)
        account.lowered = content.get(LOWERED, account.lowered if by_contract else [])

    def _shares(self, content: dict[str, Any], _after: Head) -> None:
        by_contract = content.get("by") == CONTRACT
        self.accounts[content["account"]].take_shares(content["shares"], by_contract=by_contract)

    def _bound(self, content: dict[str, Any], _after: Head) -> None:
        self.assets |= dict.fromkeys(content["addresses"], content["account"])
        for address in content.get("dropped", ()):
            self.assets.pop(address, None)

    def _began_anew(self, content: dict[str, Any], after: Head) -> None:
        """After a restore, or from receipts: what was charged stays charged."""
        known = self.accounts
        self.accounts = {}
        self.assets = {}
        for name, told in content["accounts"].items():
            self.accounts[name] = account = known.get(name, AccountState(told["account_row"]))
            account.row = told["account_row"]
            account.spent = told["spent"]
            account.lowered = []
            by_contract = "backup" not in content
            account.take_terms(account.row, by_contract=by_contract)
            account.take_shares(account.shares, by_contract=by_contract)
            self.assets |= dict.fromkeys(told["addresses"], name)
        for row in content.get("entries", ()):
            self._charged(row | {"is_begun": True}, after)
        for release_id in content.get("dropped", ()):
            self._drop(release_id)
        self.anew = after
        self.is_incomplete |= backup_time(content) is not None or LOST in content
        if (taken_utc := backup_time(content)) is not None:
            self.restored = after.sequence, taken_utc

    def _charged(self, content: dict[str, Any], _after: Head) -> None:
        told = {name: content[name] for name in Charge._fields if name in content}
        told |= {name: float(content[name]) for name in ("epsilon", "delta")}
        self._put(Charge(**told))
        if content.get("spent"):
            self.accounts[content["account"]].spent = content["spent"]

    def _taken_up(self, content: dict[str, Any], after: Head) -> None:
        self._drop(content["in_place_of"])
        self._charged(content, after)

    def _drawing(self, content: dict[str, Any], _after: Head) -> None:
        self._put(self.charges[content["release_id"]]._replace(is_begun=True))

    def _published(self, content: dict[str, Any], after: Head) -> None:
        won = {name: content[name] for name in ("artefact_sha256", "published_utc")}
        self._put(self.charges[content["release_id"]]._replace(**won, published_by=after.sequence))

    def _put(self, charge: Charge) -> None:
        self.charges[charge.release_id] = charge
        if not self.accounts[charge.account].row["benchmark"]:
            self.last_charge = max(self.last_charge, charge.number)
        self.changed.add(charge.release_id)

    def _drop(self, release_id: str) -> None:
        del self.charges[release_id]
        self.changed.add(release_id)


_TAKE: Mapping[str, Callable[[Fold, dict[str, Any], Head], None]] = {
    "opened": Fold._opened,
    "cap": Fold._cap,
    "shares": Fold._shares,
    "bound": Fold._bound,
    "adopted": Fold._began_anew,
    "restored": Fold._began_anew,
    "reserved": Fold._charged,
    "drawing": Fold._drawing,
    "taken_up": Fold._taken_up,
    "published": Fold._published,
}
