"""What a release would spend, known from contract, period and ledger before any private byte is
read; and a sentence on what was spent.

A release that was charged before, in the same period and under the same parameters, is free,
whatever became of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dpicl.accounting.ledger import Ledger, Quote, Release
from dpicl.accounting.ledger.keys import canonical
from dpicl.engine.names import QUERIES
from dpicl.engine.open_ledger import open_ledger
from dpicl.engine.releases import named_releases
from dpicl.engine.request import PlannedRelease
from dpicl.engine.settings import Settings
from dpicl.errors import BudgetError


@dataclass(frozen=True)
class AccountQuote:
    """What one account would be charged."""

    account: str
    releases: int
    charged_before: int
    quote: Quote


def quote_release(planned: PlannedRelease, settings: Settings) -> list[AccountQuote]:
    """The same of one release."""
    with open_ledger(settings) as ledger:
        ledger.verify()
        named = named_releases(ledger, planned.contract, planned.unit, settings, planned.facts)
        ((account, releases),) = ((one.account, {one.release_id: one}) for one in named.values())
        return [quoted(ledger, account, releases)]


def quoted(ledger: Ledger, account: str, releases: Mapping[str, Release]) -> AccountQuote:
    """What an account would be charged for these releases, by their names."""
    charged = [entry.release for entry in ledger.entries(account)]
    names = {release.release_id for release in charged}
    described = {_described(release) for release in charged if QUERIES in release.parameters}
    new = [
        one.guarantee
        for one in releases.values()
        if one.release_id not in names and _described(one) not in described
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
    cap = next(one.epsilon_cap for one in ledger.accounts() if one.name == account)
    if releases == 1:
        charges = (
            f"{account}: 1 release, {'charged now' if charged else 'charged before and free now'}"
        )
    else:
        charges = (
            f"{account}: {releases} releases, {charged} of them charged now, {releases - charged} "
            f"charged before and free now"
        )
    total = (
        "a public benchmark without a cap"
        if cap is None
        else f"epsilon {ledger.spent(account).epsilon:.4g} of {cap:.4g} is spent"
    )
    return f"{charges}; {total}."


def _described(release: Release) -> str:
    """A release whose name holds the queries that it answers, which are not read yet."""
    return canonical(
        [
            release.mechanism,
            {name: value for name, value in release.parameters.items() if name != QUERIES},
        ]
    )
