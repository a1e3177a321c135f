"""A release is charged once, stays within its account's cap, and has one artefact; on both
databases.
"""

from __future__ import annotations

import math
import os
import stat
from dataclasses import replace
from fractions import Fraction
from functools import cache, reduce
from pathlib import Path

import pytest

from dpicl.accounting.accountant import compose
from dpicl.accounting.events import approximate, gaussian, poisson_sampled, pure, repeated
from dpicl.accounting.filters import Spent
from dpicl.accounting.guarantee import Event, Guarantee
from dpicl.ground.errors import BudgetError, LedgerError, ParameterError, PrivacyError
from dpicl.ledger import Account, Ledger, Reservation
from tests.ledger.workload import ADD, KEY, REPLACE, SHOP, Place, cost, priced, release, sha256

PUBLIC = Account("public", "row", ADD, benchmark=True)


def shop(epsilon: float, delta: float) -> Account:
    """The account with other caps."""
    return replace(SHOP, epsilon_cap=epsilon, delta_cap=delta)


def test_a_release_is_charged_once_however_often_it_is_asked_for(place: Place) -> None:
    with place.ledger() as ledger:
        ledger.ensure_account(SHOP)
        assert ledger.reserve(release("a")) == Reservation("reserved", None, is_new=True)
        for _ in range(3):
            assert ledger.reserve(release("a")) == Reservation("reserved", None, is_new=False)
        assert ledger.spent("shop").epsilon == 1
        ledger.publish(release("a").release_id, sha256("a"))
    with place.ledger() as ledger:
        assert ledger.reserve(release("a")) == Reservation("published", sha256("a"), is_new=False)
        assert ledger.spent("shop").epsilon == 1


def test_the_cap_is_reached_exactly_and_never_exceeded(place: Place) -> None:
    """Ten tenths are one, as the exact sum of these numbers rounds."""
    with place.ledger() as ledger:
        ledger.ensure_account(shop(1.0, 0.0))
        for number in range(10):
            ledger.reserve(release(f"{number}", cost(0.1)))
        assert ledger.spent("shop").epsilon == 1
        with pytest.raises(
            BudgetError,
            match=r"account 'shop': requested epsilon=1e-09, spent 1 of cap 1, left 0; the total "
            r"would be 1",
        ):
            ledger.reserve(release("tiny", cost(1e-9)))
        assert len(ledger.entries("shop")) == 10
        assert ledger.reserve(release("free", cost(0.0))).is_new


def test_the_refusal_says_what_was_asked_spent_and_left(ledger: Ledger) -> None:
    ledger.reserve(release("a", cost(3.5)))
    expected = (
        r"requested epsilon=2 at delta=1e-05, spent 3.5 of cap 5, left 1.5; the total would "
        r"be 5.5 \(pure sum\)"
    )
    with pytest.raises(BudgetError, match=expected):
        ledger.reserve(release("b", cost(2.0)))
    with pytest.raises(BudgetError, match="the total would be inf"):
        ledger.reserve(release("c", cost(math.inf)))
    assert ledger.spent("shop").epsilon == 3.5
    ledger.verify()


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (release("a", cost(2.0)), "guarantee"),
        (release("a", shots=3), "parameters"),
        (
            release("a", Guarantee(1.0, 0.0, ADD, "row", Event("noisy-mean", (("epsilon", 1.0),)))),
            "guarantee",
        ),
    ],
)
def test_one_id_is_one_release(ledger: Ledger, other: object, named: str) -> None:
    ledger.reserve(release("a"))
    with pytest.raises(
        PrivacyError, match=f"charged already with another .*{named}.*; one id is one release"
    ):
        ledger.reserve(other)  # type: ignore[arg-type]
    assert ledger.reserve(release("a", shots=2.0)).is_new is False


def test_the_first_artefact_wins(ledger: Ledger) -> None:
    name = release("a").release_id
    assert ledger.published(name) is None
    with pytest.raises(LedgerError, match="never reserved"):
        ledger.publish(name, sha256("1"))
    with pytest.raises(LedgerError, match="is not charged"):
        ledger.begin_drawing(name)
    ledger.reserve(release("a"))
    assert ledger.published(name) is None
    assert ledger.publish(name, sha256("1")) == sha256("1")
    assert ledger.publish(name, sha256("2")) == sha256("1")
    assert ledger.published(name) == sha256("1")
    with pytest.raises(ParameterError, match="64 hexadecimal digits"):
        ledger.publish(name, "short")


@pytest.mark.parametrize(
    "guarantee", [cost(1.0, REPLACE), cost(1.0, ADD, "person"), cost(1.0, REPLACE, "client")]
)
def test_an_account_takes_one_unit_and_one_relation(place: Place, guarantee: Guarantee) -> None:
    with place.ledger() as ledger:
        for account in (SHOP, PUBLIC):
            ledger.ensure_account(account)
            expected = (
                f"account '{account.name}' protects add-or-remove-one of one row; got a guarantee "
                f"for {guarantee.neighbours} of one"
            )
            with pytest.raises(PrivacyError, match=expected):
                ledger.reserve(release("a", guarantee, account=account.name))
            with pytest.raises(PrivacyError, match=expected):
                ledger.dry_run(account.name, [guarantee])
            assert ledger.entries(account.name) == []


def test_a_guarantee_that_states_too_little_is_refused(place: Place) -> None:
    with place.ledger() as ledger:
        ledger.ensure_account(PUBLIC)
        for guarantee in (
            Guarantee(0.5, 0.0, ADD, "row", pure(1.0)),
            Guarantee(4.0, 1e-5, ADD, "row", gaussian(sigma=1.0)),
            Guarantee(1.0, 0.0, ADD, "row", Event("magic")),
        ):
            with pytest.raises(PrivacyError, match="but its event|unknown to the accountant"):
                ledger.reserve(release("a", guarantee, account="public"))


def test_benchmark_accounts_have_no_cap(place: Place) -> None:
    with place.ledger() as ledger:
        ledger.ensure_account(PUBLIC)
        for number, epsilon in enumerate((1e6, math.inf)):
            assert ledger.reserve(release(f"{number}", cost(epsilon), account="public")).is_new
        assert ledger.spent("public").epsilon == math.inf
        quote = ledger.dry_run("public", [cost(1.0)])
        assert (quote.allowed, quote.left, quote.cap) == (True, None, None)
        assert ledger.entries("public")[1].release.guarantee.epsilon == math.inf
        ledger.verify()
        with pytest.raises(PrivacyError, match="benchmark account; it has no cap"):
            ledger.set_cap("public", 1.0)


def test_accounts_open_once_and_caps_change_only_on_purpose(place: Place, ledger: Ledger) -> None:
    ledger.ensure_account(SHOP)
    ledger.reserve(release("a", cost(4.0)))
    for other, named in [
        (Account("shop", "person", ADD, 5.0, 1e-5), "unit=row, not person"),
        (
            Account("shop", "row", REPLACE, 5.0, 1e-5),
            "neighbours=add-or-remove-one, not replace-one",
        ),
        (Account("shop", "row", ADD, None, 1e-5, True), "benchmark=False, not True"),
    ]:
        with pytest.raises(PrivacyError, match=f"account 'shop' is open with {named}"):
            ledger.ensure_account(other)
    # a contract raises no cap
    assert ledger.ensure_account(shop(6.0, 1e-5)) == SHOP
    ledger.set_cap("shop", 3.0, 1e-6)
    # what was decided in the ledger stays, whatever a contract says
    ledger.ensure_account(SHOP)
    assert ledger.accounts() == [shop(3.0, 1e-6)]
    with pytest.raises(BudgetError, match="spent 4 of cap 3, left 0"):
        ledger.reserve(release("b"))
    ledger.set_cap("shop", 5.0)
    ledger.reserve(release("b"))
    ledger.verify()
    assert [row.kind for row in place.execute("SELECT kind FROM records ORDER BY sequence")] == [
        "opened",
        "reserved",
        "cap",
        "cap",
        "reserved",
    ]


def test_a_cap_that_a_command_set_holds_until_it_is_set_again(place: Place) -> None:
    """Whatever contracts say, those of before and later ones; of caps that are new since it was
    decided, whoever charges is told.
    """
    lower, raised = shop(2.0, 1e-5), shop(20.0, 1e-5)
    with place.ledger() as ledger:
        ledger.ensure_account(shop(4.0, 1e-5))
        ledger.ensure_account(SHOP)  # nothing was bought: follows the contract
        ledger.reserve(release("a", cost(1.0)))
        ledger.set_cap("shop", 20.0, 1e-5)
        assert ledger.with_other_caps(SHOP) is None and ledger.with_other_caps(raised) is None
        higher = shop(30.0, 1e-5)
        assert ledger.ensure_account(higher) == raised == ledger.with_other_caps(higher)
        assert ledger.with_other_caps(lower) == raised == ledger.after_charge(lower)
        ledger.reserve(release("b", cost(0.1)), stated=lower, contract="second")
        assert ledger.accounts() == [raised] and ledger.lowering("shop") == (None, "")
        ledger.reserve(release("c", cost(9.0)), stated=lower, contract="second")
        ledger.set_cap("shop", 11.0, 1e-5)
        ledger.reserve(release("d", cost(0.1)), stated=higher)
        with pytest.raises(BudgetError, match="of cap 11"):
            ledger.reserve(release("e", cost(2.0)), stated=lower)
        ledger.verify()


def test_a_benchmark_with_another_delta_is_told_what_works(place: Place) -> None:
    """It has no cap to change, so the command that changes one would be a dead end."""
    asked = Account("public", "row", ADD, None, 1e-5, benchmark=True)
    with place.ledger() as ledger:
        ledger.ensure_account(PUBLIC)
        ledger.reserve(release("a", cost(math.inf), account="public"))
        with pytest.raises(
            PrivacyError,
            match="delta_cap=0.0, not 1e-05; nothing of .* expected what it was opened with .*, or "
            "a contract of",
        ) as told:
            ledger.ensure_account(asked)
        assert "--cap" not in str(told.value)
        ledger.ensure_account(PUBLIC)
        ledger.ensure_account(Account("public_again", "row", ADD, None, 1e-5, benchmark=True))
        with pytest.raises(PrivacyError, match="benchmark=True, not False"):
            ledger.ensure_account(Account("public", "row", ADD, 5.0))


def test_the_caps_of_an_account_that_bought_nothing_follow_its_contract(ledger: Ledger) -> None:
    """A dry run opens it; what it may spend is not decided by that."""
    ledger.ensure_account(shop(2.0, 0.0))
    assert ledger.accounts() == [shop(2.0, 0.0)]
    ledger.ensure_account(Account("shop", "person", REPLACE, 2.0, 0.0))
    # so do unit and relation
    assert ledger.accounts() == [Account("shop", "person", REPLACE, 2.0, 0.0)]
    ledger.reserve(release("a", cost(1.0, REPLACE, "person")))
    asked = Account("shop", "person", REPLACE, 5.0, 1e-5)
    assert ledger.ensure_account(asked).epsilon_cap == 2
    # raised again after it was lowered: that changes nothing, and is said
    assert ledger.with_other_caps(asked) == ledger.accounts()[0]
    ledger.verify()


def test_an_unknown_account_is_named(place: Place) -> None:
    with place.ledger() as ledger:
        assert ledger.entries("nobody") == []
        for ask in (
            ledger.spent,
            ledger.odometer,
            lambda name: ledger.dry_run(name, []),
            lambda name: ledger.set_cap(name, 1),
        ):
            with pytest.raises(LedgerError, match="account 'nobody' is not open"):
                ask("nobody")
        with pytest.raises(LedgerError, match="account 'nobody' is not open"):
            ledger.reserve(release("a", account="nobody"))


def test_caps_are_decided_by_the_first_charge_and_lowered_by_no_contract_that_states_none(
    place: Place,
) -> None:
    price, other = shop(1.0, 0.0), shop(8.0, 0.0)
    with place.ledger() as ledger:
        for planned in (price, other):
            ledger.ensure_account(planned, states_cap=False)
        ledger.reserve(release("a"), stated=price, states_cap=False)
        assert ledger.ensure_account(other, states_cap=False) == ledger.find_account(other) == price
        with pytest.raises(BudgetError, match="spent 1 of cap 1"):
            ledger.reserve(release("b", cost(8.0)), stated=other, states_cap=False)
        ledger.set_cap("shop", 20)
        assert ledger.ensure_account(price, states_cap=False).epsilon_cap == 20
        assert ledger.find_account(Account("another", "row", ADD, 1.0)) is None
        ledger.ensure_account(Account("decided", "row", ADD, 3.0))
        ledger.set_cap("decided", 4)
        ledger.reserve(release("c", account="decided"), stated=Account("decided", "row", ADD, 1.0))
        assert [account.epsilon_cap for account in ledger.accounts()] == [4, 20]
        ledger.verify()


def test_a_dry_run_charges_nothing_and_foretells_the_charge(ledger: Ledger) -> None:
    ledger.reserve(release("a"))
    quote = ledger.dry_run("shop", [cost(1.0), cost(2.0)])
    assert (
        quote.cost.epsilon,
        quote.before.epsilon,
        quote.after.epsilon,
        quote.left,
        quote.allowed,
    ) == (3, 1, 4, 1, True)
    assert ledger.dry_run("shop", [cost(4.0)]).allowed  # all that is left
    beyond = ledger.dry_run("shop", [cost(4.5)])
    assert (beyond.left, beyond.allowed) == (-0.5, False)
    assert ledger.dry_run("shop", []).left == 4
    ledger.set_cap("shop", 0.5)
    assert ledger.dry_run("shop", []).allowed
    assert not ledger.dry_run("shop", [cost(0.1)]).allowed
    assert ledger.spent("shop").epsilon == 1 and len(ledger.entries("shop")) == 1


@cache
def of_three_kinds() -> dict[str, Guarantee]:
    """A Gaussian release, one of many sampled steps and a pure one, by name."""
    events = (
        gaussian(sigma=2.0),
        repeated(poisson_sampled(Fraction(1, 100), gaussian(sigma=1.0)), 50),
    )
    first, second = (priced(event, delta=1e-6) for event in events)
    return {"a": first, "b": second, "c": cost(0.5)}


def test_gaussian_and_subsampled_entries_compose_as_the_accountant_says(ledger: Ledger) -> None:
    for name, guarantee in of_three_kinds().items():
        foretold = ledger.dry_run("shop", [guarantee]).after
        ledger.reserve(release(name, guarantee))
        assert ledger.spent("shop") == foretold
    total = ledger.spent("shop")
    parts = list(of_three_kinds().values())
    assert total == reduce(Spent.plus, parts, Spent.nothing()).cost(1e-5)
    # what is chosen on the way costs no less
    assert total.epsilon >= compose(parts, delta=1e-5).epsilon
    assert total.epsilon < 5
    with pytest.raises(BudgetError, match=r"at delta=1e-05"):
        ledger.reserve(release("d", priced(gaussian(sigma=0.7))))


def test_entries_of_a_benchmark_compose_as_if_they_had_been_fixed_beforehand(place: Place) -> None:
    with place.ledger() as ledger:
        ledger.ensure_account(Account("public", "row", ADD, delta_cap=1e-5, benchmark=True))
        for name, guarantee in of_three_kinds().items():
            foretold = ledger.dry_run("public", [guarantee]).after
            ledger.reserve(release(name, guarantee, account="public"))
            assert ledger.spent("public") == foretold
        total = ledger.spent("public")
        parts = list(of_three_kinds().values())
        assert total == compose(parts, delta=1e-5)
        assert total.method.startswith("PLD")
        assert total.epsilon < sum(part.epsilon for part in parts)


def test_approximate_entries_need_a_delta_to_spend(place: Place) -> None:
    guarantee = priced(approximate(0.5, 1e-6), delta=1e-6)
    with place.ledger() as ledger:
        ledger.ensure_account(shop(5.0, 0.0))
        with pytest.raises(BudgetError, match="the total would be inf"):
            ledger.reserve(release("a", guarantee))
        ledger.set_cap("shop", 5.0, 1.5e-6)
        ledger.reserve(release("a", guarantee))
        with pytest.raises(BudgetError, match="the total would be inf"):
            ledger.reserve(release("b", guarantee))


@pytest.mark.parametrize(
    "event",
    [gaussian(sigma=1e5), approximate(0.0, 1e-5), pure(1e-12)],
    ids=["noise", "a delta", "almost nothing"],
)
def test_a_cap_of_nothing_admits_nothing_that_costs(place: Place, event: Event) -> None:
    """A delta alone lets one row in 100,000 through, and a restored ledger says that nothing may be
    spent.
    """
    guarantee = priced(event)
    with place.ledger() as ledger:
        ledger.ensure_account(shop(0.0, 1e-5))
        assert not ledger.dry_run("shop", [guarantee]).allowed
        assert ledger.dry_run("shop", []).allowed
        with pytest.raises(BudgetError):
            ledger.reserve(release("a", guarantee))
        ledger.set_cap("shop", 1.0, 1e-5)
        assert ledger.dry_run("shop", [guarantee]).allowed
        assert ledger.reserve(release("a", guarantee)).is_new
        ledger.ensure_account(Account("other", "row", ADD, epsilon_cap=0.0))
        free = priced(pure(0.0))
        assert ledger.dry_run("other", [free]).allowed
        assert ledger.reserve(release("b", free, account="other")).is_new


def test_entries_and_odometer_say_what_each_bought(ledger: Ledger) -> None:
    for name, epsilon in (("a", 0.5), ("b", 1.0), ("c", 0.25)):
        ledger.reserve(release(name, cost(epsilon), epsilon=epsilon))
    ledger.publish(release("b").release_id, sha256("b"))
    entries = ledger.entries("shop")
    assert [entry.release for entry in entries] == [
        release(name, cost(e), epsilon=e) for name, e in (("a", 0.5), ("b", 1.0), ("c", 0.25))
    ]
    assert [entry.state for entry in entries] == ["reserved", "published", "reserved"]
    assert entries[1].published_utc is not None
    assert entries[1].published_utc >= entries[1].reserved_utc
    readings = ledger.odometer("shop")
    assert [reading.entry for reading in readings] == entries
    assert [reading.total.epsilon for reading in readings] == [0.5, 1.5, 1.75]
    assert readings[-1].total == ledger.spent("shop")


def test_the_embedded_ledger_is_the_owners_file_and_syncs_fully(tmp_path: Path) -> None:
    file = tmp_path / "state" / "ledger.db"
    with Ledger.open(f"sqlite:///{file}", KEY, tmp_path / "anchor.json") as ledger:
        ledger.ensure_account(SHOP)
        with ledger._chain.database.writing() as connection:
            for pragma, expected in (("journal_mode", "wal"), ("synchronous", 2)):
                assert connection.exec_driver_sql(f"PRAGMA {pragma}").scalar() == expected
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()}
    assert modes == {"ledger.db": 0o600, "ledger.db-wal": 0o600, "ledger.db-shm": 0o600}
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///:memory:", "mysql://host/base", "nonsense"]
)
def test_a_ledger_lives_in_a_file_or_on_postgresql(url: str, tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="expected sqlite:///FILE or postgresql"):
        Ledger(url, KEY, tmp_path / "anchor.json")


def test_a_place_where_no_file_can_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(
        LedgerError, match="taken: Is a directory; expected a file that the ledger can own"
    ):
        Ledger(f"sqlite:///{tmp_path / 'taken'}", KEY, tmp_path / "anchor.json")
    (tmp_path / "text").write_text(
        "not a database, but long enough to be read as the head of one" * 10
    )
    with pytest.raises(LedgerError, match="text: file is not a database"):
        Ledger(f"sqlite:///{tmp_path / 'text'}", KEY, tmp_path / "anchor.json")


def test_a_database_that_does_not_answer_is_named_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"postgresql://me:\*\*\*@127.0.0.1:1/base: ") as refused:
        Ledger("postgresql://me:secret@127.0.0.1:1/base", KEY, tmp_path / "anchor.json")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "caps",
    [
        {"epsilon_cap": None},
        {"epsilon_cap": 1.0, "benchmark": True},
        {"epsilon_cap": math.inf},
        {"epsilon_cap": -1.0},
        {"epsilon_cap": 1.0, "delta_cap": 1.0},
    ],
)
def test_caps_that_cap_nothing_are_refused(caps: dict[str, object]) -> None:
    with pytest.raises(ParameterError, match="_cap="):
        Account("shop", "row", ADD, **caps)  # type: ignore[arg-type]


@pytest.mark.quick("postgresql")
def test_a_ledger_is_not_used_on_both_sides_of_a_fork(ledger: Ledger) -> None:
    child = os.fork()
    if child == 0:
        try:
            ledger.spent("shop")
        except LedgerError as refused:
            os._exit(
                7
                if "opened before a fork; expected the child to open its own" in str(refused)
                else 1
            )
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert ledger.reserve(release("a")).is_new
