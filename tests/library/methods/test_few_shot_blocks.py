"""Texts by the hundred are written in blocks: the same texts whatever the blocks, no more voters at
once than the bound, each row once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from dpicl.ground.types import Demonstration, PrivateTable
from dpicl.methods import few_shot_voting
from dpicl.methods.base import draws_for
from dpicl.methods.few_shot_generation import job_of, write
from dpicl.methods.text_method import Memory
from dpicl.models.kinds.fake import EchoGenerator
from dpicl.models.votes import VoteRequest, VoteRule, VotingSession
from tests.direct import points_of
from tests.library.methods.test_few_shot_generation import contract, unit

INK: dict[str, object] = {
    "mechanism": "invisible-ink",
    "batches": "fixed",
    "voters": 2,
    "max_tokens": 5,
}


@dataclass(frozen=True)
class Watched(EchoGenerator):
    """Remembers the voters of every session."""

    sessions: list[tuple[Sequence[VoteRequest], VoteRule]] = field(default_factory=list)

    def session(self, requests: Sequence[VoteRequest], rule: VoteRule) -> VotingSession:
        self.sessions.append((requests, rule))
        return super().session(requests, rule)


def rows() -> PrivateTable:
    """Forty rows of each label, no two alike."""
    texts = [f"letter {number} of ann" for number in range(80)]
    return PrivateTable(pa.table({"label": ["good", "bad"] * 40, "text": texts}))


def written(
    model: EchoGenerator, journal: Memory | None = None, epsilon: float = 4.0, **other: object
) -> tuple[Demonstration, ...]:
    declared = contract()
    asked = unit(declared, epsilons=(epsilon,), shots=(30,), **{**INK, **other})
    (texts,) = write(
        rows(),
        declared,
        model,
        [job_of(declared, points_of(asked).values(), journal or Memory(draws_for(declared, 0)))],
    )
    (one,) = texts.values()
    return one


@pytest.mark.quick("exponential-inf-1", "exponential-inf-4")
@pytest.mark.parametrize("size", [1, 4, 7, 30])
@pytest.mark.parametrize("mechanism, epsilon", [("clipped-logits", 4.0), ("exponential", math.inf)])
def test_texts_do_not_depend_on_the_blocks_they_are_written_in(
    size: int, mechanism: str, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for those of invisible ink, which a block draws from one stream."""
    expected = written(EchoGenerator(), epsilon=epsilon, mechanism=mechanism)
    monkeypatch.setattr(few_shot_voting, "TEXTS_A_BLOCK", size)
    assert written(EchoGenerator(), epsilon=epsilon, mechanism=mechanism) == expected
    assert len(expected) == 30


def test_no_more_voters_are_kept_at_once_than_the_bound_and_every_row_votes_on_one_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(few_shot_voting, "VOTERS_AT_ONCE", 20)
    watched = Watched()
    written(watched)
    counts = [len(requests) for requests, _ in watched.sessions]
    assert counts == [10, 10, 10]  # of two voters each
    requests = [request for some, _ in watched.sessions for request in some]
    voters = [voter for request in requests for voter in request.voters]
    assert len(voters) == len(set(voters))


def test_blocks_that_were_journalled_are_not_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(few_shot_voting, "VOTERS_AT_ONCE", 20)
    journal = Memory(draws_for(contract(), 0))
    expected, watched = written(EchoGenerator(), journal), Watched()
    assert written(watched, journal) == expected and not watched.sessions


def test_a_cell_s_blocks_do_not_depend_on_the_cells_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of as many voters as there are rows for: a cell that was journalled beside another one is not
    written again without it.
    """
    monkeypatch.setattr(few_shot_voting, "VOTERS_AT_ONCE", 60)
    declared, journal = contract(), Memory(draws_for(contract(), 0))
    asked = unit(
        declared,
        epsilons=(math.inf,),
        shots=(2, 30),
        **{**INK, "mechanism": "clipped-logits", "voters": None},
    )
    (beside,) = write(
        rows(), declared, EchoGenerator(), [job_of(declared, points_of(asked).values(), journal)]
    )
    *_, last = beside
    watched = Watched()
    chosen = [one for one in points_of(asked).values() if one.key == last]
    (alone,) = write(rows(), declared, watched, [job_of(declared, chosen, journal)])
    assert alone == {last: beside[last]} and not watched.sessions
