"""Names of releases, by account, method, version, parameters, contract and period, under the
installation's key; and which account pays.

All of them are public facts. What the rows hold is no part of a name: the same bytes for the same
rows and other ones for changed rows would compare two tables without noise. The first draw of a
period stands. A local method's releases of a benchmark have an account of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dpicl.accounting.events import horizon_part
from dpicl.accounting.guarantee import Guarantee, Neighbours
from dpicl.contract.declared import Declared
from dpicl.contract.load import contract_digest
from dpicl.contract.periods import ONCE
from dpicl.contract.pipeline import Point
from dpicl.ground.errors import PrivacyError
from dpicl.home.accounts import bind_account, open_ledger, stated_account
from dpicl.home.settings import Settings
from dpicl.ledger import Account, Described, Ledger, release_id
from dpicl.ledger import ReleaseCharge as Release
from dpicl.methods import METHODS
from dpicl.methods.text_method import TextMethod

POST_PROCESSING = {"estimator", "shot_selection"}
"""Options that change nothing of a release: it is charged once for all of them."""
WRITER = "writer"
EMBEDDER = "embedder"
PERIOD = "period"
QUERIES = "queries_sha256"
PART = "part_of"
"""The parameter of a period's release that names its horizon's."""


@dataclass(frozen=True)
class ReleaseFacts:
    """What names the releases of a contract and a method besides these: public.

    Attributes:
        period: as `contract.periods` writes it.
        writer: the model that reads private rows, where one does; `embedder` compares its answers.
        extra: further parameters.
    """

    period: str = ONCE
    writer: str = ""
    embedder: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)


def parameters_of(
    contract: Declared, named: str, point: Point[Any], facts: ReleaseFacts = ReleaseFacts()
) -> dict[str, Any]:
    """What makes a release of the method of this name another one, besides account and contract;
    public.
    """
    method = METHODS[named]
    choices = {
        name: choice
        for name, choice in method.identity(contract, point).items()
        if name not in POST_PROCESSING
    }
    writer = facts.writer
    embedder = facts.embedder
    return {
        "epsilon": point.epsilon,
        "shots": point.shots,
        **({WRITER: writer} if method.model_reads_rows else {}),
        **(
            {EMBEDDER: embedder}
            if isinstance(method, TextMethod) and method.embeds(contract, point)  # type: ignore[arg-type]
            else {}
        ),
        "replicate": point.seed,
        "simulated": contract.is_benchmark,
        **choices,
        **facts.extra,
        **({} if facts.period == ONCE else {PERIOD: facts.period}),
    }


def period_named(contract: Declared, method: str, period: str) -> str:
    """The period that names releases: that which they are made for; of a horizon its first one,
    whatever is made of it.
    """
    return contract.releases.calendar.periods[0] if METHODS[method].is_series(contract) else period


def part_of(
    key: bytes, horizon: Release, digest: str, *, index: int, period: str, noted: Mapping[str, Any]
) -> Release:
    """The release of a horizon's period, counted from 1, which costs nothing beside it; its name
    says nothing of rows.

    Args:
        digest: of the contract.
        noted: what the ledger notes with it, and its name does not hold.
    """
    facts = {PART: horizon.release_id, "index": index, PERIOD: period, "simulated": False}
    guarantee = horizon.guarantee
    version = METHODS[horizon.mechanism].draw_version
    named = release_id(
        key,
        Described(horizon.mechanism, version, facts, digest),
        account=horizon.account,
        neighbours=guarantee.neighbours,
        period=period,
    )
    event = horizon_part(horizon.release_id, index)
    free = Guarantee(0.0, 0.0, guarantee.neighbours, guarantee.unit, event)
    return Release(named, horizon.account, horizon.mechanism, {**facts, **noted}, free)


def is_of(key: bytes, release: Release, digest: str, period: str) -> bool:
    """Whether this is a release that the contract of this digest names for a period, by its method
    as that is now.
    """
    version = METHODS[release.mechanism].draw_version if release.mechanism in METHODS else ""
    named = release_id(
        key,
        Described(release.mechanism, version, release.parameters, digest),
        account=release.account,
        neighbours=release.guarantee.neighbours,
        period=period,
    )
    return named == release.release_id


def public_facts(
    contract: Declared, method: str, point: Point[Any], facts: ReleaseFacts
) -> Described:
    """What makes a release this one: known without the ledger."""
    return Described(
        method,
        METHODS[method].draw_version,
        parameters_of(contract, method, point, facts),
        contract_digest(contract),
    )


CLIENTS = "-clients"
"""After a benchmark's name: the account of its local releases, on which nothing is at stake
either.
"""


def account_of(contract: Declared, method: str) -> Account:
    """The account as a contract speaks of it: unit, relation and caps; its name counts where the
    rows have no account yet. A local method on rows that may come and go is a PrivacyError.
    """
    privacy = contract.privacy
    budget = contract.privacy.budget
    local = METHODS[method].trust == "local"
    if local and budget.benchmark:
        return Account(
            contract.name + CLIENTS,
            "client",
            Neighbours.REPLACE_ONE,
            delta_cap=budget.delta,
            benchmark=True,
        )
    if local and Neighbours(privacy.neighbours) is not Neighbours.REPLACE_ONE:
        raise PrivacyError(
            f"{contract.name}: every client's report is published, so that anybody can count the "
            f"rows; expected `neighbours: replace-one` "
            f"in the contract's privacy, which says that their number is public"
        )
    return stated_account(contract)


def open_account(ledger: Ledger, contract: Declared, method: str, settings: Settings) -> Account:
    """The account that pays, as `bind_account` opens it. A PrivacyError as of `account_of`."""
    return bind_account(ledger, account_of(contract, method), contract, settings)


def accounts_of(used: Iterable[tuple[str, str]], settings: Settings) -> list[Account]:
    """The accounts that pairs of data set and method spend from, as contracts speak of them, each
    under the ledger's name.
    """
    with open_ledger(settings) as ledger:
        trial = ledger.trial()  # none of them is opened
        return list(
            dict.fromkeys(
                _payer(trial, settings.declared(dataset), method, settings)
                for dataset, method in used
            )
        )


def _payer(ledger: Ledger, contract: Declared, method: str, settings: Settings) -> Account:
    return replace(
        account_of(contract, method), name=open_account(ledger, contract, method, settings).name
    )
