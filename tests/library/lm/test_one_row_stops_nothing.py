"""Whatever a model does with one row's prompt, there is an answer, and one voter moves no sum by
more than is stated.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dpicl.ground.errors import DpiclError, ModelError, PrivacyError, TooLongError
from dpicl.mechanisms.private_token import UNITS
from dpicl.methods import few_shot_generation
from dpicl.methods.base import draws_for
from dpicl.methods.dp_icl import consult
from dpicl.methods.ensemble_plan import EnsembleShape
from dpicl.methods.ensemble_voting import (
    Placement,
    Public,
    Voters,
    hard_votes,
    soft_votes,
    words_of,
)
from dpicl.methods.few_shot_generation import job_of
from dpicl.methods.text_method import Memory
from dpicl.models.asking import isolated_votes
from dpicl.models.embedding import HashedNGrams
from dpicl.models.kinds.fake import EchoGenerator, HashScorer
from dpicl.models.requests import Sampling, Tokens
from dpicl.models.votes import FreshSession, VoteRequest, VoteRule, Votes, VotingSession
from tests.direct import points_of
from tests.library.methods.test_dp_icl import (
    ALONE,
    KEY,
    SHAPE,
    answered,
    contract,
    job,
    table,
    unit,
)
from tests.library.text_contracts import text_contract
from tests.library.units import unit_for

MARK = "zebra"
FAILURES: list[Exception] = [
    ModelError("answered with numbers that are not finite"),
    TooLongError("too long"),
    DpiclError(MARK),
    PrivacyError(MARK),
    RuntimeError(MARK),
    MemoryError(),
    UnicodeEncodeError("utf-8", MARK, 0, 1, MARK),
    StopIteration(),
    AssertionError(MARK),
    RecursionError(),
]


@dataclass(frozen=True)
class Marked(HashScorer):
    """Answers as hashes do, but for what a marked prompt does to it."""

    failure: Any = ()
    dead: bool = False
    asked: list[int] = field(default_factory=list)

    def _meet(self, prompts: Sequence[str]) -> None:
        self.asked.append(len(prompts))
        if self.dead:
            raise ModelError("the server is gone")
        if isinstance(self.failure, Exception) and any(MARK in prompt for prompt in prompts):
            raise self.failure

    def score(self, prompts: Sequence[str], *labels: Any, **how: Any) -> np.ndarray:
        self._meet(prompts)
        scores = super().score(prompts, *labels, **how)
        if isinstance(self.failure, float):
            scores[[MARK in prompt for prompt in prompts]] = self.failure
        return scores

    def generate(self, prompts: Sequence[str], sampling: Sampling) -> list[str]:
        self._meet(prompts)
        return super().generate(prompts, sampling)


ROWS = [f"a letter {number}" for number in range(12)]
QUERIES = [(number, f"query {number}") for number in range(3)]


def voted(
    model: Any, rows: Sequence[str], shape: EnsembleShape = ALONE, queries: Any = QUERIES
) -> list[Any]:
    """What the rows of a table vote for on every query."""
    voters = Voters(contract(free=shape.aggregation == "embedding"), model)
    return voters.votes(Placement(table(rows), KEY, Fraction(1), shape), queries)


@pytest.mark.parametrize("failure", [*FAILURES, float("nan"), float("inf"), -float("inf"), 1e308])
@pytest.mark.parametrize("aggregation", ["votes", "soft-votes", "embedding"])
def test_a_row_that_a_model_fails_on_leaves_an_answer_and_every_other_vote(
    failure: Any, aggregation: str
) -> None:
    shape = ALONE if aggregation == "soft-votes" else replace(SHAPE, aggregation=aggregation)
    without, failing = (
        voted(Marked(failure=failure), rows, shape) for rows in (ROWS, [*ROWS, MARK])
    )
    if aggregation == "soft-votes":
        assert without == failing
        return
    for before, after in zip(without, failing, strict=True):
        pairs = [*zip(before, after, strict=True)]
        if aggregation == "votes":
            assert sum(abs(int(one) - int(other)) for one, other in pairs) <= 2 * UNITS
        else:
            assert sum(one != other for one, other in pairs) <= 1


@pytest.mark.parametrize("failure", FAILURES)
def test_the_method_answers_with_the_row_as_without_it(
    failure: Exception, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("DEBUG")
    monkeypatch.setattr(logging.getLogger("dpicl"), "propagate", True)
    asked, seen = unit(3.0, soft={"aggregation": "soft-votes"}), []
    for rows in (ROWS, [*ROWS, *[MARK] * 9]):
        found = answered(
            contract(), asked, table(rows), QUERIES, Public({}, None), Marked(failure=failure)
        )
        seen.append({cell: len(answers) for cell, answers in found.items()})
    assert seen[0] == seen[1] and set(seen[0].values()) == {len(QUERIES)}
    # a server of other tests may log too
    assert not [one for one in caplog.records if one.name.startswith("dpicl")]


def test_a_model_that_is_gone_stops_whatever_the_rows_are() -> None:
    for rows in (ROWS, [*ROWS, MARK]):
        with pytest.raises(ModelError, match="^the server is gone$"):
            consult(table(rows), QUERIES, Marked(dead=True), job(contract(), unit(3.0)))


def test_a_model_that_may_not_see_rows_is_refused_and_no_vote_is_lost() -> None:
    with pytest.raises(PrivacyError, match="may not be sent PrivatePrompts"):
        consult(table(ROWS), QUERIES, Marked(trust="remote"), job(contract(), unit(3.0)))


def test_sixty_failures_in_a_row_cost_no_more_calls_than_halving_does() -> None:
    model = Marked(failure=ModelError("rejected"))
    voted(model, [*ROWS, *[f"{MARK} {number}" for number in range(60)]], queries=QUERIES[:1])
    assert len(model.asked) <= 3 * 2 * 73


def test_what_fails_publicly_is_told_by_kind_and_nothing_of_a_prompt() -> None:
    class Broken(Marked):
        def _meet(self, prompts: Sequence[str]) -> None:
            raise IndexError(prompts[0])

    with pytest.raises(ModelError) as told:
        consult(table([MARK]), QUERIES, Broken(), job(contract(), unit(3.0)))
    assert (
        str(told.value)
        == "model 'fake' fails on a public question (IndexError); expected a model that answers it"
    )
    assert told.value.__cause__ is None and told.value.__context__ is None


def test_a_server_s_wrong_number_of_answers_is_the_prompt_s_failure() -> None:
    class Short(HashScorer):
        def score(self, prompts: Sequence[str], *labels: Any, **how: Any) -> np.ndarray:
            return super().score([one for one in prompts if MARK not in one], *labels, **how)

    assert voted(Short(), ROWS) == voted(Short(), [*ROWS, MARK])


def test_an_embedding_that_fails_is_nowhere_and_the_others_are_where_they_were() -> None:
    class Fussy(HashedNGrams):
        def embed(self, texts: Sequence[str]) -> np.ndarray:
            if MARK in texts:
                raise TypeError(MARK)
            return super().embed(texts)

    public, plain = Public({}, Fussy()), Public({}, HashedNGrams())
    texts = ["one", MARK, "", "two"]
    points = public.points(texts)
    assert np.isnan(points[[1, 2]]).all() and np.array_equal(
        points[[0, 3]], plain.points(texts)[[0, 3]]
    )
    assert public.points([MARK, MARK]).shape[0] == 2 and np.isnan(public.points([MARK, MARK])).all()


NUMBERS = st.floats(allow_nan=True, allow_infinity=True)
SCORES = arrays.arrays(np.float64, st.tuples(st.integers(1, 6), st.just(3)), elements=NUMBERS)
ONE = arrays.arrays(np.float64, (1, 3), elements=NUMBERS)


@given(SCORES, ONE, st.floats(0.1, 100))
def test_one_voter_more_moves_votes_by_what_is_stated(
    scores: np.ndarray, new: np.ndarray, clip: float
) -> None:
    for count, most in ((hard_votes, 1), (soft_votes, 3)):
        moved = np.array(count(np.vstack([scores, new]), clip)) - np.array(count(scores, clip))
        assert moved.min() >= 0 and moved.max() <= UNITS and moved.sum() <= most * UNITS
        if not np.isfinite(new).all():
            assert not moved.any()


@given(st.lists(st.text(max_size=20), max_size=5), st.text(max_size=40))
def test_one_text_moves_every_word_s_count_by_one_at_most(texts: list[str], new: str) -> None:
    before, after = (
        Counter(word for text in some for word in set(words_of(text)))
        for some in (texts, [*texts, new])
    )
    assert all(0 <= count - before[word] <= 1 for word, count in after.items()) and not set(
        before
    ) - set(after)


@dataclass(frozen=True)
class MarkedWriter(EchoGenerator):
    """An echo that fails on marked voters, in sessions or everywhere."""

    failure: Exception = field(default_factory=lambda: IndexError(MARK))
    in_sessions_only: bool = False
    dead: bool = False

    def vote(self, requests: Sequence[VoteRequest], rule: VoteRule) -> list[Votes]:
        if self.dead:
            raise IndexError("gone")
        if not self.in_sessions_only:
            self._meet(requests)
        return super().vote(requests, rule)

    def session(self, requests: Sequence[VoteRequest], rule: VoteRule) -> VotingSession:
        def vote(some: Sequence[VoteRequest]) -> list[Votes]:
            self._meet(some)
            return self.vote(some, rule)

        return FreshSession(requests, vote)

    def encode(self, text: str) -> Tokens:
        if "unspeakable" in text:
            raise self.failure
        return super().encode(text)

    def _meet(self, requests: Sequence[VoteRequest]) -> None:
        if any(MARK.encode() in bytes(voter) for request in requests for voter in request.voters):
            raise self.failure


RULES = (VoteRule("probability", 20, UNITS), VoteRule("difference", 20, UNITS, 1.0, 3))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.kind)
@pytest.mark.parametrize("failure", FAILURES)
def test_a_voter_that_a_writer_fails_on_votes_for_nobody(
    failure: Exception, rule: VoteRule
) -> None:
    def requests(*voters: str) -> list[VoteRequest]:
        one = VoteRequest(
            tuple(b"Text:"), tuple(tuple(f"Text: {voter}\nText:".encode()) for voter in voters), ()
        )
        return [
            one,
            VoteRequest(tuple(b"Text: a\nText:"), (), ()),
            replace(one, voters=one.voters[:1]),
        ]

    writer = MarkedWriter(failure=failure)
    for voters in (["x", "y", "x"], ["x"], ["y"] * 7):
        without, found = (
            isolated_votes(writer, requests(*some), rule) for some in (voters, [*voters, MARK])
        )
        for one, other in zip(without, found, strict=True):
            assert np.array_equal(one.candidates, other.candidates) and np.array_equal(
                one.scores, other.scores
            )
    (alone, *_) = isolated_votes(writer, requests(MARK), rule)
    assert not alone.sums.any()


@pytest.mark.quick("zebra-writer1-ink", "unspeakable-writer1-ink")
@pytest.mark.parametrize("batches", ["fresh", "fixed", "ink"])
@pytest.mark.parametrize("writer", [MarkedWriter(), MarkedWriter(in_sessions_only=True)])
@pytest.mark.parametrize("mark", [MARK, "unspeakable"])
def test_texts_are_written_whatever_the_writer_does_with_a_row(
    batches: Any, writer: MarkedWriter, mark: str
) -> None:
    way: dict[str, Any] = {"batches": batches, "mechanism": "gaussian"}
    if batches == "ink":
        way = {"batches": "fixed", "mechanism": "invisible-ink", "voters": 1}
    asked = unit_for("few_shot_generation", "mail", epsilons=(5.0,), shots=(2,), **way)
    declared = text_contract()
    for rows in (ROWS, [*ROWS, mark]):
        journal = Memory(draws_for(declared, 0))
        (written,) = few_shot_generation.write(
            table(rows), declared, writer, [job_of(declared, points_of(asked).values(), journal)]
        )
        assert [len(texts) for texts in written.values()] == [2]


def test_a_writer_that_is_gone_stops() -> None:
    with pytest.raises(ModelError, match="fails on a public question"):
        isolated_votes(
            MarkedWriter(dead=True),
            [VoteRequest(tuple(b"Text:"), (tuple(b"Text:"),), ())],
            RULES[0],
        )


def test_equal_scores_are_no_vote() -> None:
    assert hard_votes(np.array([[-0.7, -0.7], [-1.0, -0.1]]), 5.0) == [0, UNITS]


def test_where_every_prompt_fails_noise_is_added_to_zeros() -> None:
    votes = voted(Marked(failure=ModelError("no")), [MARK] * 30, SHAPE)
    assert votes == [[0, 0]] * len(QUERIES)
