"""Asking one query after another: charged once, a query keeps its slot, and what is used up is
refused.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

import dpicl.release.query_session
from dpicl.ground.errors import BudgetError, LedgerError
from dpicl.home.settings import Settings
from dpicl.methods.options import EnsembleOptions
from dpicl.models.spec import ModelSpec
from dpicl.release.journal import FileSpending
from dpicl.release.query_session import Answered, EnsembleRequest, QuerySession
from tests.harness import Place, charged, exit_code, forked, install_texts, letters
from tests.library.text_contracts import lines, records

PURE = EnsembleOptions(noise="exponential")
QUERIES = ["one", "two", "three", "four"]


@pytest.fixture
def place(place: Place) -> Place:
    install_texts(place, letters(privacy={"budget": {"epsilon": 5}}))
    return place


def wish(options: EnsembleOptions = PURE, epsilon: float = 2.0, count: int = 4) -> EnsembleRequest:
    contract = Settings.from_environment().texts("letters")
    model = ModelSpec(name="fake", kind="fake")
    return EnsembleRequest(
        contract.model_copy(update={"query_count": count}), epsilon, 1, model, options
    )


def ask(*queries: str, again: bool = False, **about: Any) -> list[Answered]:
    return list(
        QuerySession(wish(**about), Settings.from_environment(), again=again).answer(queries)
    )


def test_when_all_queries_are_used_up_the_next_is_refused_and_another_release_must_be_asked_for(
    place: Place,
) -> None:
    ask(*QUERIES)
    with pytest.raises(
        BudgetError, match="all 4 queries that were charged for are answered; expected .* --again"
    ):
        ask("five")
    (more,) = ask("five", again=True)
    assert more.charged and more.number == 1 and len(charged()) == 2
    ask("six", "seven", "eight")
    with pytest.raises(BudgetError, match="letters.*asks? epsilon|cap"):
        ask("nine", again=True)
    assert len(charged()) == 2 and ask("one")[0].repeated


def test_a_refused_charge_leaves_nothing_that_a_later_query_would_pay_for(place: Place) -> None:
    for _ in range(2):
        with pytest.raises(BudgetError, match="cap"):
            ask("one", epsilon=6.0)
    assert not list((place.home / "private").rglob("opened.json")) and not charged()


def test_a_long_query_is_cut_as_the_rows_are(place: Place) -> None:
    (one,) = ask("long " * 100)
    assert len(one.query) <= 60 and ask("long " * 100)[0].repeated


def test_a_release_goes_on_whatever_becomes_of_its_rows(place: Place) -> None:
    """What was answered stands; further queries are answered from the rows as they are, under the
    same charge and with other randomness.
    """
    (first,) = ask("one")
    (place.root / "data" / "letters" / "train.jsonl").write_bytes(lines(records(44)))
    (again,) = ask("one")
    assert again.repeated and again.answer == first.answer
    (other,) = ask("two")
    assert not other.charged and not other.repeated and len(charged()) == 1
    (journal,) = (place.home / "private" / "journals").iterdir()
    seeds = [path.read_bytes() for path in journal.glob("*/seed")]
    assert len(seeds) == len(set(seeds)) == 2


def test_a_release_whose_slots_are_lost_is_not_asked_again(place: Place) -> None:
    ask("one")
    (folder,) = (place.home / "private" / "journals").iterdir()
    folder.rename(place.root / "lost")
    for _ in range(2):
        with pytest.raises(LedgerError, match="was charged before, and its slots are gone"):
            ask("one")
    (other,) = ask("one", again=True)
    assert other.charged and len(charged()) == 2
    assert ask("one", again=True)[0].repeated and len(charged()) == 2


STEPS = {
    "slot": (dpicl.release.query_session.EnsembleRelease, "take"),
    "uses": (FileSpending, "_write"),
    "votes": (dpicl.release.query_session.dp_icl, "consult"),
    "keep": (dpicl.release.query_session.EnsembleRelease, "_keep"),
}


def asking(
    environment: Mapping[str, str], queries: list[list[str]], step: str = "", **about: Any
) -> None:
    """Threads that ask at once, each its own queries; or die before or after a slot is taken,
    takers are written, votes are cast or an answer is kept.
    """
    os.environ.update(environment)
    if step:
        name, _, side = step.partition(" ")
        owner, function = STEPS[name]
        right = getattr(owner, function)

        def deadly(*arguments: Any, **options: Any) -> None:
            if side == "after":
                right(*arguments, **options)
            os.kill(os.getpid(), signal.SIGKILL)

        setattr(owner, function, deadly)
    with ThreadPoolExecutor(len(queries)) as pool:
        list(pool.map(lambda some: ask(*some, **about), queries))


@pytest.mark.quick("slot after")
@pytest.mark.parametrize(
    "step", [f"{name} {side}" for name in ("slot", "votes", "keep") for side in ("before", "after")]
)
def test_whoever_dies_a_query_keeps_its_slot_and_is_charged_once(place: Place, step: str) -> None:
    asked = forked(asking, place.environment, [QUERIES[:2]], step)
    assert exit_code(asked) == -signal.SIGKILL
    first = ask(*QUERIES)
    assert [one.answer for one in ask(*QUERIES)] == [one.answer for one in first]
    assert len(charged()) == 1 and sorted(one.number for one in first) == [1, 2, 3, 4]


def test_a_slot_belongs_to_one_query_and_is_its_owners_only(place: Place) -> None:
    """Its noise is drawn once: another query under it would show the difference."""
    ask("one")
    (slots,) = (place.home / "private" / "journals").glob("*/slots")
    assert {path.name for path in slots.iterdir()} == {
        ".lock",
        "000000.answer",
        "000000.json",
        "opened.json",
    }
    assert ask("two")[0].number == 2
    found = [*slots.parents[:2], *slots.parent.rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in found} == {0o700, 0o600}


def test_votes_that_nobody_came_back_for_are_deleted_by_the_next_who_asks(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpicl.release.journal.LIFETIME_SECONDS", 0.001)
    ask("one")
    (votes,) = (place.home / "private" / "journals").glob("*/*/votes/*.snapshot")
    later = votes.stat().st_mtime + 5
    monkeypatch.setattr("dpicl.release.journal.time", SimpleNamespace(time=lambda: later))
    ask("one", options=PURE.model_copy(update={"subsets": 3}))
    assert not votes.exists()
