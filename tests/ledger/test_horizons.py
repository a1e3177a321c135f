"""Parts of a horizon cost nothing, and are accepted only where their horizon is charged, each once;
on both databases.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpicl.accounting.accountant import price
from dpicl.accounting.events import gaussian, horizon_part, sequential
from dpicl.accounting.guarantee import Event, Guarantee
from dpicl.ground.errors import DpiclError, LedgerRefusedError, PrivacyError
from dpicl.ledger import Account, Ledger, ReleaseCharge
from tests.ledger.workload import ADD, REPLACE, SHOP, Place, cost, release, sha256

HORIZON = release(
    "horizon", price(gaussian(sigma=2.0), neighbours=ADD, unit="row", delta=1e-5), horizon=3
)


def part(
    index: int,
    name: str = "",
    *,
    of: ReleaseCharge = HORIZON,
    account: str = "shop",
    event: Event | None = None,
) -> ReleaseCharge:
    guarantee = Guarantee(0.0, 0.0, ADD, "row", event or horizon_part(of.release_id, index))
    return release(name or f"part {index}", guarantee, account=account, index=index)


def said(
    index: int, more: tuple[tuple[str, int], ...] = (), parts: tuple[Event, ...] = ()
) -> Event:
    """The event of a part that says more than which one it is."""
    plain = horizon_part(HORIZON.release_id, index)
    return replace(plain, parameters=(*plain.parameters, *more), parts=parts)


def priced(index: int, delta: float) -> ReleaseCharge:
    """A part that states a cost of its own."""
    return release(
        f"priced {index}",
        Guarantee(0.0, delta, ADD, "row", horizon_part(HORIZON.release_id, index)),
        index=index,
    )


def begun(ledger: Ledger) -> float:
    """What the account has spent with the horizon alone."""
    ledger.ensure_account(SHOP)
    ledger.reserve(HORIZON)
    return ledger.spent("shop").epsilon


@pytest.mark.quick("sqlite")
def test_all_parts_cost_what_the_horizon_does(place: Place) -> None:
    """To the last digit: one entry is priced by its distribution, and several by a filter, which is
    worse.
    """
    with place.ledger() as ledger:
        spent = begun(ledger)
        for index in (1, 2, 3):
            assert ledger.reserve(part(index)).is_new and not ledger.reserve(part(index)).is_new
            assert ledger.publish(part(index).release_id, sha256(f"{index}")) == sha256(f"{index}")
            assert ledger.spent("shop").epsilon == spent
        ledger.reserve(release("another", cost(0.5)))
        assert ledger.spent("shop").epsilon > spent
        ledger.verify()
        assert [reading.total.epsilon for reading in ledger.odometer("shop")][:4] == [spent] * 4


def test_a_part_is_paid_whatever_the_cap_is_now(place: Place) -> None:
    with place.ledger() as ledger:
        spent = begun(ledger)
        ledger.set_cap("shop", spent / 2, 1e-5)
        assert ledger.reserve(part(1)).is_new


@pytest.mark.quick(
    "sqlite-wanted0-is not charged to it",
    "sqlite-wanted2-period 4 of a horizon of 3",
    "sqlite-wanted4-is not charged to it",
)
@pytest.mark.parametrize(
    ("wanted", "refused"),
    [
        (part(1, of=release("no such")), "is not charged to it"),
        (part(0), "period 0 of a horizon of 3"),
        (part(4), "period 4 of a horizon of 3"),
        (part(1, account="other"), "is not charged to it"),
        (part(1, event=sequential([horizon_part(HORIZON.release_id, 1)])), "is not charged to it"),
        (part(1, of=release("paid", cost(0.5))), "period 1 of a horizon of None"),
        (part(1, of=part(2)), "period 1 of a horizon of None"),
        (priced(1, 1e-9), "is not charged to it"),
        (part(1, event=horizon_part(HORIZON.release_id, True)), "period True of a horizon of 3"),
        (replace(part(1), mechanism="another"), "is not charged to it"),
        (part(2, "again", event=said(2, (("note", 2),))), "says more than which one it is"),
        (part(1, event=said(1, parts=(cost(5.0).event,))), "says more than which one it is"),
    ],
)
def test_a_part_without_its_horizon_is_refused(
    place: Place, wanted: ReleaseCharge, refused: str
) -> None:
    with place.ledger() as ledger:
        begun(ledger)
        ledger.ensure_account(Account("other", "row", ADD, epsilon_cap=5.0, delta_cap=1e-5))
        ledger.reserve(release("paid", cost(0.5)))
        ledger.reserve(part(2))
        with pytest.raises(LedgerRefusedError, match=refused):
            ledger.reserve(wanted)
        assert ledger.entries("other") == [] and len(ledger.entries("shop")) == 3


@pytest.mark.quick("sqlite")
def test_a_period_has_one_release_whatever_it_is_called(place: Place) -> None:
    with place.ledger() as ledger:
        begun(ledger)
        ledger.reserve(part(1))
        with pytest.raises(
            LedgerRefusedError,
            match="period 1 of this horizon is charged under another name; it is drawn once",
        ):
            ledger.reserve(part(1, "by another name"))


def test_a_part_of_other_counts_is_refused(place: Place) -> None:
    """The random name of what it is drawn from stands in its parameters, and not in its own
    name.
    """
    with place.ledger() as ledger:
        begun(ledger)
        one = part(1)
        ledger.reserve(one)
        other = ReleaseCharge(
            one.release_id,
            one.account,
            one.mechanism,
            {**one.parameters, "frozen": "another"},
            one.guarantee,
        )
        with pytest.raises(PrivacyError, match="is charged already with another parameters"):
            ledger.reserve(other)


def test_a_part_protects_what_its_account_does(place: Place) -> None:
    with place.ledger() as ledger:
        begun(ledger)
        wrong = Guarantee(0.0, 0.0, REPLACE, "row", horizon_part(HORIZON.release_id, 1))
        with pytest.raises(DpiclError, match="protects add-or-remove-one of one row"):
            ledger.reserve(release("part", wrong))
