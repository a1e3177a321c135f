"""Claims about the writer without a model, and about opening a writer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.ground.errors import ModelError, ParameterError, PrivacyError
from dpicl.models.kinds.fake import END, PUBLIC_TEXT, EchoGenerator
from dpicl.models.local.transformers_backend import TransformersScorer
from dpicl.models.opening import open_generator, open_scorer
from dpicl.models.spec import ModelSpec
from dpicl.models.votes import VoteRequest, VoteRule

WRITER = EchoGenerator()
RULE = VoteRule("probability", 100, 1 << 20)
PUBLIC = WRITER.encode("Write: a text of this label.\n\nLabel: World\nText:")
LINES = st.text(st.characters(blacklist_characters="\n", blacklist_categories=["Cs"]), max_size=12)


def voter(*examples: str) -> tuple[int, ...]:
    pieces = "".join(f"Label: World\nText: {example}\n\n" for example in examples)
    return WRITER.encode(f"Write: a text of this label.\n\n{pieces}Label: World\nText:")


def written_by(
    voters: tuple[tuple[int, ...], ...], rule: VoteRule = RULE, public: tuple[int, ...] = PUBLIC
) -> str:
    """The most voted byte again and again, in a session."""
    session = WRITER.session([VoteRequest(public, voters, ())], rule)
    token: tuple[int, ...] = ()
    text: tuple[int, ...] = ()
    while not text or text[-1] not in WRITER.ends:
        (votes,) = session.vote([token])
        assert votes is not None
        token = (int(votes.candidates[votes.sums.argmax()]),)
        text += token
    assert session.vote([None]) == [None]
    return WRITER.decode(text)


@given(st.lists(LINES, min_size=1, max_size=3))
def test_it_repeats_the_last_example_and_ends_the_line(examples: list[str]) -> None:
    everything = VoteRule("relative", None, 1 << 20)
    assert written_by((voter(*examples),), everything) == f" {examples[-1]}\n"


@pytest.mark.parametrize("voters", [(), (PUBLIC,)])
def test_without_an_example_it_repeats_a_public_text(voters: tuple[tuple[int, ...], ...]) -> None:
    assert written_by(voters) == PUBLIC_TEXT.decode() + "\n"


def test_candidates_follow_the_public_prompt_and_hold_the_usual_letters() -> None:
    told = [
        WRITER.vote([VoteRequest(PUBLIC, voters, (65,))], RULE)[0]
        for voters in ((), (voter("Zq"),), (voter("~"),) * 3)
    ]
    assert all(np.array_equal(votes.candidates, told[0].candidates) for votes in told)
    assert len(told[0].candidates) == 100
    assert set(b"\n abcdefghijklmnopqrstuvwxyzABCXYZ019,.") | {END} <= set(
        told[0].candidates.tolist()
    )


def test_too_many_voters_are_refused() -> None:
    with pytest.raises(ParameterError, match="voters="):
        WRITER.session(
            [VoteRequest(PUBLIC, (PUBLIC,) * (1 << 22), ())], VoteRule("relative", None, 1 << 40)
        )


def test_what_is_longer_than_its_context_has_no_vote_and_a_public_prompt_is_refused() -> None:
    writer = EchoGenerator(context=len(voter("abc")))
    both, one = (
        VoteRequest(PUBLIC, voters, ())
        for voters in ((voter("abc"), voter("abcd")), (voter("abc"),))
    )
    assert np.array_equal(writer.vote([both], RULE)[0].sums, writer.vote([one], RULE)[0].sums)
    with pytest.raises(
        ModelError,
        match=r"has 90 tokens, but model 'fake' reads at least 1 and at most \d\d \(texts: 1\)",
    ):
        writer.vote([VoteRequest((65,) * 40, (), (65,) * 50)], RULE)


def test_a_model_is_loaded_once_for_scoring_and_for_writing(tmp_path: Path) -> None:
    spec = ModelSpec(name="tiny", kind="tiny")
    writer = open_generator(spec, models_folder=tmp_path, corpus=["Text: a thing."])
    assert writer is open_scorer(spec, models_folder=tmp_path, corpus=["Text: a thing."])
    assert isinstance(writer, TransformersScorer)


@pytest.mark.parametrize(
    "spec",
    [
        ModelSpec(name="far", kind="fake", trust="remote"),
        ModelSpec(name="served", kind="endpoint", id="m", url="http://127.0.0.1:9/v1"),
        ModelSpec(name="near", kind="endpoint", id="m", url="http://127.0.0.1:9/v1", trust="local"),
    ],
    ids=lambda spec: spec.name,
)
def test_a_model_that_does_not_run_here_cannot_write(spec: ModelSpec, tmp_path: Path) -> None:
    with pytest.raises(PrivacyError) as error:
        open_generator(spec, models_folder=tmp_path, corpus=())
    assert str(error.value) == (
        f"model {spec.name!r} has kind {spec.kind!r} and trust {spec.trust!r}; raw rows stay "
        f"local: expected a local model"
    )
