"""Claims about voters that stay: what is kept gives what fresh reading gives, also where memory
ends.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import FalconConfig, Lfm2Config

from dpicl.models.local import growing_rows
from dpicl.models.local.growing_rows import ROOM
from dpicl.models.local.transformers_backend import TransformersScorer
from dpicl.models.requests import Tokens
from dpicl.models.votes import VoteRequest, Votes, VotingSession
from tests.library.vote_models import (
    EXAMPLES,
    MODELS,
    RULE,
    SMALL,
    UNITS,
    assert_alike,
    made,
    model_named,
    opened,
    prompt,
    short_model,
    tiny_model,
    tokens_read,
    vote_requests,
)

torch.set_num_threads(1)  # small batches on a busy machine


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def tiny(folder: Path) -> TransformersScorer:
    return opened(folder)


@pytest.fixture(scope="module", params=["tiny", *MODELS])
def writer(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> TransformersScorer:
    """One model after another."""
    return opened(model_named(request.param, tmp_path_factory.mktemp("models")))


@pytest.mark.quick("a window")
def test_a_session_gives_what_fresh_reading_gives(writer: TransformersScorer) -> None:
    """Texts of different lengths that end at different times, and grow alike, unlike and not at
    all.
    """
    requests = vote_requests(writer)
    reading = writer.session(requests, RULE)
    steps: list[list[Tokens | None]] = [[()] * 3] * 2
    steps += [[(token,), (token + 1,), (token + 2,)] for token in (40, 50, 60)]
    steps += [[tuple(range(40, 40 + ROOM))] * 3, [(70,)] * 3]
    steps += [[(41, 42), (43,), (44,)], [(), (45,), (46, 47)]]
    steps += [[(48,), None, (49,)], [(50,), None, None], [None] * 3]
    for written in steps:
        requests = [
            replace(request, written=request.written + (new or ()))
            for request, new in zip(requests, written, strict=True)
        ]
        fresh = [
            None if new is None else writer.vote([request], RULE)[0]
            for request, new in zip(requests, written, strict=True)
        ]
        assert_alike(reading.vote(written), fresh)


def test_a_session_reads_every_prompt_once_and_then_a_token_of_each_row(
    writer: TransformersScorer,
) -> None:
    reading = writer.session(vote_requests(writer), RULE)
    reading.vote([(), (), ()])
    # two of the second text's voters are equal; its public prompt is read too
    for count, written in (
        (6 + 3 + 3, [(40,), (41,), (42,)]),
        (6 + 3 + 3, [(43,), (44,), (45,)]),
        (6 + 2, [(46,), None, (47,)]),
    ):
        with tokens_read(writer) as read:
            reading.vote(written)
        assert sum(read) == count


class Tight:
    """A model on a device whose memory holds so many tokens of caches and inputs."""

    def __init__(self, model: Any, kept: int) -> None:
        self.model, self.kept = model, kept
        self.config, self.dtype = model.config, model.dtype
        self.refused = 0
        self.held: list[int] = []
        """Of every forward pass with a cache."""
        self.anew = 0
        """Forward passes without one."""

    def __call__(self, **inputs: Any) -> Any:
        cache = inputs.get("past_key_values")
        if cache is None:
            self.anew += 1
            return self.model(**inputs)
        held = inputs["input_ids"].numel() + cache.get_seq_length() * len(inputs["input_ids"])
        if held > self.kept:
            self.refused += 1
            raise torch.OutOfMemoryError("CUDA out of memory.")
        self.held.append(held)
        return self.model(**inputs)


def follow(reading: VotingSession, steps: int = 4) -> list[list[Votes | None]]:
    return [
        reading.vote([(), (), ()]),
        *(reading.vote([(40 + step,), (50 + step,), (60 + step,)]) for step in range(steps)),
    ]


def with_memory(writer: TransformersScorer, kept: int) -> tuple[Tight, list[list[Votes | None]]]:
    model = writer._model
    tight = writer._model = Tight(model, kept)
    told = follow(writer.session(vote_requests(writer), RULE))
    writer._model = model
    return tight, told


def test_a_session_without_memory_for_what_it_read_reads_anew(tiny: TransformersScorer) -> None:
    plenty, expected = with_memory(tiny, 1 << 40)
    whole = max(plenty.held)
    probe = plenty.held[1]
    for kept, refusals, anew in (
        (probe - 1, 1, True),  # nothing can be kept
        (probe, 2, True),  # nor the shortest row
        (whole - 1, 1, True),  # at the last step it is too much
        (whole * 2 // 3, 1, False),  # in smaller pieces everything fits
    ):
        tight, told = with_memory(tiny, kept)
        assert tight.refused >= refusals and (tight.anew > plenty.anew) == anew, (
            kept,
            tight.refused,
            tight.anew,
        )
        for found, right in zip(told, expected, strict=True):
            assert_alike(found, right)


def test_a_session_keeps_what_fits_a_cpus_memory_and_reads_the_rest_anew(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = opened(folder, token_budget=100)
    requests = vote_requests(writer)
    expected = follow(writer.session(requests, RULE), 3)
    monkeypatch.setattr(growing_rows, "CPU_BYTES", 700 * 1024)
    reading = writer.session(requests, RULE)
    for found, told in zip(follow(reading, 3), expected, strict=True):
        assert_alike(found, told)
    with tokens_read(writer) as read:
        reading.vote([(1,), (2,), (3,)])
    whole = sum(len(voter) for request in requests for voter in set(request.voters))
    assert 12 < sum(read) < whole


@pytest.mark.quick("parallel layers")
def test_what_becomes_of_the_voters_changes_nothing_of_how_public_prompts_are_read(
    writer: TransformersScorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Candidates follow from public prompts: a voter's rows that no longer fit into memory must not
    make others of them, by rounding.
    """
    requests, read = vote_requests(writer), list[torch.Tensor]()
    count, fails = growing_rows.count_votes, False

    def watched(
        reader: Any, asked: Any, rule: Any, public: Any = None, voters: Any = None, *further: Any
    ) -> Any:
        def seen(rows: Any, among: Any) -> Any:
            for place, logits in public(rows, among):
                read.append(logits)
                yield place, logits

        def failing(rows: Any, among: Any) -> Any:
            raise torch.OutOfMemoryError

        if voters is not None and fails:
            voters = failing
        return count(reader, asked, rule, seen, voters, *further)

    monkeypatch.setattr(growing_rows, "count_votes", watched)
    follow(writer.session(requests, RULE), 3)
    whole, fails = read.copy(), True
    read.clear()
    follow(writer.session(requests, RULE), 3)
    # of the step that failed, the same ones are given again
    first = len(read) - len(whole) if whole else 0
    assert first >= 0
    for some, expected in ((read[first:], whole), (read[:first], whole[:first])):
        assert not whole or all(map(torch.equal, some, expected))


def test_a_voter_that_grows_beyond_the_context_stops_voting(folder: Path, tmp_path: Path) -> None:
    """Positions beyond the context are an error of the model: whoever reads them is noticed."""
    writer = short_model(folder, tmp_path)
    examples = [prompt(writer, EXAMPLES[0]), prompt(writer, *EXAMPLES[:2])]
    voters = tuple((voter * 4)[: 138 - line] for line, voter in enumerate(examples))
    request, shares = VoteRequest(prompt(writer), voters, ()), []
    reading = writer.session([request], RULE)
    for written in [(), (5,), (6,), (7,), (8,)]:
        request = replace(request, written=request.written + written)
        (votes,) = reading.vote([written])
        assert_alike([votes], writer.vote([request], RULE))
        shares.append(round(votes.sums.sum() / UNITS, 2))
    assert shares == [2, 2, 2, 1, 0]


def test_a_hybrid_model_s_voters_are_read_anew_at_every_token(folder: Path, tmp_path: Path) -> None:
    """Layers that keep something else than keys and values fail in a way of their own where they
    are read in steps.
    """
    own = {**SMALL, "num_key_value_heads": 2, "layer_types": ["conv", "full_attention"]}
    hybrid = opened(made(folder, tmp_path, lambda size: Lfm2Config(vocab_size=size, **own)))
    requests = vote_requests(hybrid)
    session = hybrid.session(requests, RULE)
    assert_alike(session.vote([(), (), ()]), hybrid.vote(requests, RULE))
    grown = [
        replace(one, written=(*one.written, token))
        for one, token in zip(requests, (40, 50), strict=False)
    ]
    assert_alike(session.vote([(40,), (50,), None])[:2], hybrid.vote(grown, RULE))


def test_a_model_that_attends_in_its_own_way_only_is_loaded_and_reads_padded_rows(
    folder: Path, tmp_path: Path
) -> None:
    own = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    falcon = opened(made(folder, tmp_path, lambda size: FalconConfig(**own, vocab_size=size)))
    prompts, labels = ["News", "A number of it was seen again"], [" No", " Yes"]
    alone = np.concatenate([falcon.score([one], labels) for one in prompts])
    assert not falcon.shares and falcon.score(prompts, labels) == pytest.approx(alone, abs=1e-4)
