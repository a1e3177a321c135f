"""Queries by nearness, one after another: charged once for all, and no text takes part too often,
whoever asks, dies or edits the file.
"""

from __future__ import annotations

import re
import signal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpicl.ground.errors import LedgerError
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.mechanisms.keyed_subsets import MARK_BYTES
from dpicl.methods.ensemble_voting import RetrievalSpending
from dpicl.methods.options import EnsembleOptions
from dpicl.models.embedding import HASHED
from dpicl.release.journal import FileSpending
from dpicl.release.query_session import Answered
from tests.harness import Place, charged, exit_code, forked, install_texts, letters, new_place
from tests.library.text_contracts import lines, records
from tests.tasks import test_asking
from tests.tasks.test_asking import place

__all__ = ["place"]

MOST, ROWS = 2, 40
THREADS = 8


NEAR = {
    "options": EnsembleOptions(noise="exponential", similarity=0.2, participations=MOST),
    "count": 128,
}


def ask(*queries: str) -> list[Answered]:
    return test_asking.ask(*queries, **NEAR)


def near_to(number: int) -> str:
    return f"Re {number}: letter {number} of ann"


def spending(place: Place) -> Path:
    """Where it is kept who took part."""
    (folder,) = (place.home / "private" / "journals").glob("*/uses")
    return folder


def uses(place: Place) -> np.ndarray:
    """In which queries each member took part: shape (queries, members)."""
    folder = spending(place)
    members = len((folder / "members").read_bytes()) // MARK_BYTES
    bits = [
        np.frombuffer(path.read_bytes(), dtype=np.uint8) for path in sorted(folder.glob("*.bits"))
    ]
    return np.array([np.unpackbits(one, count=members) for one in bits])


def test_the_cap_is_charged_once_and_every_text_stops_at_its_own_uses(place: Place) -> None:
    first = ask(near_to(0))
    more = ask(*[near_to(number) for number in range(1, 12)])
    (entry,) = charged()
    assert entry.release.guarantee.epsilon == pytest.approx(2.0)
    assert entry.release.parameters["embedder"] == HASHED
    assert first[0].charged
    assert not any(one.charged for one in more)
    assert all(one.answer in ("Wanted", "Unwanted") for one in (*first, *more))
    taken = uses(place)
    assert taken.shape == (12, ROWS)
    assert taken.sum(axis=0).max() == MOST
    assert (taken.sum(axis=1)[:2] > 0).all()
    # nobody has uses left, and the query is answered like any other
    assert not taken[-1].any()


def test_a_text_that_comes_later_takes_no_part_and_one_that_stays_keeps_its_uses(
    place: Place,
) -> None:
    """Changed from query to query, a row would have uses anew."""
    ask(near_to(0))
    for version in range(1, 4):
        changed = [
            {**record, "body": f"{record['body']} {version}"} if number == 0 else record
            for number, record in enumerate(records(ROWS))
        ]
        (place.root / "data" / "letters" / "train.jsonl").write_bytes(lines(changed))
        ask(f"{near_to(0)} {version}")
    taken = uses(place)
    assert taken.shape == (4, ROWS) and taken.sum(axis=0).max() == MOST
    (gone,) = set(np.flatnonzero(taken[0])) - set(np.flatnonzero(taken[1]))
    assert taken[:, gone].tolist() == [1, 0, 0, 0]


@pytest.mark.quick("uses")
@pytest.mark.parametrize("lost", ["members", "000000.bits", "uses"])
def test_nothing_is_answered_where_what_was_spent_is_lost(place: Place, lost: str) -> None:
    ask(near_to(0))
    folder = spending(place)
    (folder if lost == "uses" else folder / lost).rename(place.root / "lost")
    with pytest.raises(
        LedgerError,
        match="letters: who took part in earlier queries is lost.*restore private/ from a backup, "
        "or .*another --count",
    ):
        ask(near_to(1))
    assert ask(near_to(0))[0].repeated


@pytest.mark.quick("000000.bits")
@pytest.mark.parametrize("damaged", ["members", "000000.bits"])
def test_nothing_is_answered_where_what_was_spent_is_damaged(place: Place, damaged: str) -> None:
    ask(near_to(0))
    folder = spending(place)
    (folder / damaged).write_bytes(b"1")
    with pytest.raises(LedgerError, match="is damaged"):
        ask(near_to(1))


def test_spending_is_its_owner_s_only_and_holds_no_text(place: Place) -> None:
    ask(near_to(0))
    folder = spending(place)
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "000000.bits", "members"]
    assert not any(b"letter" in path.read_bytes() for path in folder.iterdir())


def public_bytes(place: Place) -> str:
    """What is printed, and charged with, where the answers are left out."""
    queries = place.root / "queries.txt"
    queries.write_text("\n".join(near_to(number) for number in range(6)) + "\nunlike anything\n")
    finished = place.dpicl(
        f"ask --queries {queries} --contract letters --epsilon 2 --count 16 --model fake "
        f"--similarity 0.2 --participations {MOST} --shots 1"
    )
    with open_ledger(Settings.from_environment()) as ledger:
        entries = [
            (entry.release.parameters, entry.release.guarantee)
            for entry in ledger.entries("letters")
        ]
    return re.sub(
        r"Wanted|Unwanted",
        "ANSWER",
        f"{finished.returncode} {finished.stdout} {finished.stderr} {entries}",
    )


@pytest.mark.parametrize(
    "other",
    [
        records(ROWS + 5),
        pytest.param(
            [{**one, "head": "Blue", "body": f"whale {n}"} for n, one in enumerate(records(ROWS))],
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_nothing_else_that_leaves_depends_on_who_took_part(
    place: Place, tmp_path: Path, other: list[Any]
) -> None:
    budget = {"budget": {"epsilon": 5, "delta": 0.01}}
    install_texts(place, letters(privacy=budget))
    beside = new_place(tmp_path / "beside")
    install_texts(beside, letters(privacy=budget), lines(other))
    first = public_bytes(place)
    with beside.entered():
        second = public_bytes(beside)
    assert first.startswith("0 ANSWER")
    assert first.replace(str(place.root), "") == second.replace(str(beside.root), "")


def test_kept_uses_are_those_of_a_release_whose_queries_all_come_at_once(tmp_path: Path) -> None:
    """Rows of persons too, of which some are near and some are not."""
    chance = np.random.default_rng(0)
    units = chance.integers(0, 256, (20, MARK_BYTES), dtype=np.uint8)[chance.integers(0, 20, 60)]
    units[:, -1] = 0  # which texts of bytes would lose
    kept, counted = FileSpending("letters", tmp_path, MOST, b"", set), RetrievalSpending(MOST)
    for number in range(12):
        is_near = chance.random(60) < 0.3
        rows = kept.admit(number, units, is_near)
        assert np.array_equal(rows, counted.admit(number, units, is_near))
        assert not (rows & ~is_near).any()
        again = FileSpending("letters", tmp_path, MOST, b"", set).admit(
            number, units[::-1], is_near[::-1]
        )
        # asked again, in whatever order the rows are
        assert np.array_equal(again[::-1], rows)


@pytest.mark.quick("keep before")
@pytest.mark.parametrize(
    "step", [f"{name} {side}" for name in ("uses", "votes", "keep") for side in ("before", "after")]
)
def test_whoever_dies_what_was_spent_stands_and_no_text_overspends(place: Place, step: str) -> None:
    """An answer that was seen was paid for before: whoever asks again has the same takers, and the
    rest no more than is left.
    """
    asking = partial(test_asking.asking, place.environment, **NEAR)
    assert exit_code(forked(asking, [[near_to(0), near_to(1)]], step)) == -signal.SIGKILL
    had = [path.read_bytes() for path in sorted((place.home / "private").rglob("*.bits"))]
    ask(*[near_to(number) for number in range(6)])
    assert [path.read_bytes() for path in sorted((place.home / "private").rglob("*.bits"))][
        : len(had)
    ] == had
    taken = uses(place)
    assert taken.shape == (6, ROWS) and taken.sum(axis=0).max() == MOST and len(charged()) == 1
    if step == "keep before":
        # takers are written before an answer is kept
        assert len(had) == 2


@pytest.mark.quick("2")
@pytest.mark.parametrize("crowd", [2, 8])
def test_askers_side_by_side_overspend_no_text(place: Place, crowd: int) -> None:
    """Threads of several processes, 64 of all of them; each asks a query of its own and one that
    all ask.
    """
    own = [[near_to(number), near_to(0)] for number in range(crowd * THREADS)]
    asking = partial(test_asking.asking, place.environment, **NEAR)
    starts = range(0, len(own), THREADS)
    processes = [forked(asking, own[start : start + THREADS]) for start in starts]
    assert [exit_code(process, 400) for process in processes] == [0] * crowd
    taken = uses(place)
    assert len(taken) == len(own) and len(charged()) == 1
    # all are near to all queries: spent to the last use, and not beyond
    assert taken.sum(axis=0).tolist() == [MOST] * ROWS
