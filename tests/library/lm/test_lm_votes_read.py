"""Claims about reading votes with a local model, checked against one plain forward pass for every
voter.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from dpicl.ground.errors import ModelError
from dpicl.models.local.tiny import build_tiny_model
from dpicl.models.local.transformers_backend import TransformersScorer
from dpicl.models.local.tree_reader import TRUNK_TOKENS
from dpicl.models.votes import VoteRequest, VoteRule
from tests.library.vote_models import (
    EXAMPLES,
    MODELS,
    RULE,
    RULES,
    UNITS,
    assert_alike,
    equal,
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
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one model after another."""
    return model_named(request.param, tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def writer(home: Path) -> TransformersScorer:
    return opened(home)


@lru_cache
def loaded(home: Path) -> tuple[Any, Any]:
    return AutoTokenizer.from_pretrained(home), AutoModelForCausalLM.from_pretrained(home).eval()


def plain(home: Path, request: VoteRequest, rule: VoteRule) -> tuple[list[int], np.ndarray]:
    """Candidates and sums as fractions of units: a loop over the subsets."""
    tokenizer, model = loaded(home)
    with torch.inference_mode():
        public, *voters = (
            model(torch.tensor([row + request.written])).logits[0, -1].double().numpy()
            for row in (request.public, *request.voters)
        )
    known, clip, count = public[: len(tokenizer)], rule.clip or 1, rule.candidates
    order = np.argsort(-known, kind="stable")
    if rule.kind == "difference" and count:
        count = int((known >= public[order[count - 1]] - 2 * clip).sum())
    candidates = order[:count]

    def chances(logits: np.ndarray) -> np.ndarray:
        return logits[candidates] - np.logaddexp.reduce(logits[candidates])

    sums = np.zeros(len(candidates))
    for logits in voters or [public]:
        told = logits[candidates] - logits[candidates].max()
        sums += {
            "probability": np.exp(chances(logits)),
            "relative": np.exp(told),
            "difference": (chances(logits) - chances(public)).clip(-clip, clip) / clip,
            "logit": 1 + told.clip(-clip, 0) / clip,
        }[rule.kind]
    return candidates.tolist(), sums


@pytest.mark.quick(
    "grouped queries-logit",
    "grouped queries-difference",
    "grouped queries-relative",
    "absolute positions-logit",
    "absolute positions-difference",
    "parallel layers-logit",
)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.kind)
def test_votes_equal_a_plain_loop_over_the_subsets(
    home: Path, writer: TransformersScorer, rule: VoteRule
) -> None:
    requests = vote_requests(writer)
    for request, votes in zip(requests, writer.vote(requests, rule), strict=True):
        assert votes.candidates.dtype == votes.sums.dtype == np.int64
        found = dict(zip(votes.candidates.tolist(), votes.sums / UNITS, strict=True))
        expected = dict(zip(*plain(home, request, rule), strict=True))
        assert found == pytest.approx(expected, abs=1e-4)


def test_fresh_voters_that_are_equal_are_read_once(tiny: TransformersScorer) -> None:
    request = VoteRequest(prompt(tiny), (prompt(tiny, EXAMPLES[0]),), ())
    with tokens_read(tiny) as read:
        once = tiny.vote([request], RULE)
        tokens = sum(read)
        often = tiny.vote([replace(request, voters=request.voters * 5)] * 3, RULE)
    assert sum(read) == 2 * tokens
    assert all(np.array_equal(votes.sums, 5 * once[0].sums) for votes in often)


def test_voters_that_share_a_beginning_long_enough_to_be_read_alone_vote_as_each_does(
    tiny: TransformersScorer,
) -> None:
    """Of the beginning itself nothing is asked."""
    shared = prompt(tiny) + tuple(range(60, 60 + TRUNK_TOKENS))
    request = VoteRequest(
        shared + (40,), (shared + (41, 42), shared + (43,), shared + (41, 44)), ()
    )
    (votes,) = tiny.vote([request], RULE)
    alone = [tiny.vote([replace(request, voters=(voter,))], RULE)[0] for voter in request.voters]
    assert_alike(
        [votes], [replace(votes, sums=np.sum([one.sums for one in alone], axis=0))], units=8
    )


@pytest.mark.quick("0")
@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_texts_and_voters_changes_no_bit(tiny: TransformersScorer, seed: int) -> None:
    rng, requests = np.random.default_rng(seed), vote_requests(tiny)
    order = rng.permutation(len(requests))
    moved = [
        replace(one, voters=tuple(rng.permutation(np.array(one.voters, dtype=object))))
        for one in (requests[line] for line in order)
    ]
    expected = tiny.vote(requests, RULE)
    assert equal(tiny.vote(moved, RULE), [expected[line] for line in order])
    one, other = (tiny.session(some, RULE).vote([()] * 3) for some in (requests, moved))
    assert_alike([one[line] for line in order], other, units=8)


def test_candidates_are_those_of_the_public_prompt_whoever_votes(tiny: TransformersScorer) -> None:
    requests = [replace(one, written=()) for one in vote_requests(tiny)]
    told = [
        *tiny.vote(requests, RULE),
        *tiny.vote(requests[:1], RULE),
        *tiny.session(requests, RULE).vote([()] * 3),
    ]
    few, _, alone, *_ = told
    assert all(np.array_equal(votes.candidates, few.candidates) for votes in told)
    # though voters like others best
    assert few.sums[np.argmax(alone.sums)] != few.sums.max()


def test_a_voter_moves_the_votes_of_others_by_rounding_alone(tiny: TransformersScorer) -> None:
    request = vote_requests(tiny)[0]
    for parted in (1, 3):
        parts = [
            replace(request, voters=some)
            for some in (request.voters[:parted], request.voters[parted:])
        ]
        whole, one, rest = tiny.vote([request, *parts], RULE)
        assert np.array_equal(whole.sums, one.sums + rest.sums)
        first, second = (tiny.vote([part], RULE)[0].sums for part in parts)
        assert np.abs(whole.sums - first - second).max() <= 8


def test_a_voter_that_is_longer_than_the_context_votes_for_nobody(
    folder: Path, tmp_path: Path
) -> None:
    writer = short_model(folder, tmp_path)
    assert writer.context == 140
    public, short, long = prompt(writer), prompt(writer, EXAMPLES[0]), prompt(writer, *EXAMPLES[:9])
    assert len(short) < 136 and len(long) > 140
    both, one = VoteRequest(public, (long, short), ()), VoteRequest(public, (short,), ())
    assert equal(writer.vote([both], RULE), writer.vote([one], RULE))
    none = writer.vote([VoteRequest(public, (long,), ())], RULE)[0]
    assert len(none.candidates) == 30 and not none.sums.any()


@pytest.mark.parametrize("way", ["vote", "session"])
def test_a_public_prompt_that_is_longer_than_the_context_is_refused(
    tiny: TransformersScorer, folder: Path, way: str
) -> None:
    long = [VoteRequest((5,) * 8000, ((6,),), (7,) * 193)]
    with pytest.raises(ModelError) as error:
        tiny.vote(long, RULE) if way == "vote" else tiny.session(long, RULE).vote([()])
    assert str(error.value) == (
        f"a public prompt with what was written after it has 8193 tokens, but model "
        f"{folder.name!r} reads at least 1 and at most 8192 (texts: 1); expected fewer tokens or a "
        "model with a longer context"
    )


@pytest.fixture
def spoilt(folder: Path, tmp_path: Path) -> TransformersScorer:
    """The tiny model, whose numbers are not finite after a "~"."""
    home = Path(shutil.copytree(folder, tmp_path / "copy"))
    weights = load_file(home / "model.safetensors")
    weights["model.embed_tokens.weight"][
        AutoTokenizer.from_pretrained(home)("~", add_special_tokens=False).input_ids[0]
    ] = float("nan")
    save_file(weights, home / "model.safetensors", metadata={"format": "pt"})
    return opened(home)


def test_a_voter_after_whom_numbers_are_not_finite_votes_for_nobody(
    spoilt: TransformersScorer,
) -> None:
    request = vote_requests(spoilt)[0]
    sick = prompt(spoilt, EXAMPLES[0], "News Type: World\nText: Oh~\n\n")
    alone = spoilt.vote([request], RULE)
    assert alone[0].sums.sum() > 5.9 * UNITS
    together = replace(request, voters=(*request.voters, sick))
    assert_alike(spoilt.vote([together], RULE), alone)
    reading = spoilt.session([together], RULE)
    assert_alike(reading.vote([()]), alone)
    assert_alike(reading.vote([(9,)]), spoilt.vote([replace(request, written=(9,))], RULE))


def test_a_public_prompt_after_which_numbers_are_not_finite_is_an_error(
    spoilt: TransformersScorer,
) -> None:
    with pytest.raises(ModelError, match="answered with numbers that are not finite"):
        spoilt.vote([replace(vote_requests(spoilt)[0], written=spoilt.encode("~"))], RULE)


def test_texts_end_with_the_models_end_a_line_break_or_a_mark(
    tiny: TransformersScorer, tmp_path: Path
) -> None:
    home = build_tiny_model(tmp_path, ["A text. END\n\nA text. END\n\n" * 40])
    writer, tokenizer = opened(home), AutoTokenizer.from_pretrained(home)
    breaks = {token for token in range(len(tokenizer)) if "\n" in tokenizer.decode([token])}
    (mark,), (two,) = writer.encode(" END"), writer.encode("\n\n")
    assert writer.ends == {tokenizer.eos_token_id, mark} | breaks >= {two, *writer.encode("\n")}
    assert writer.encode(" A")[0] not in writer.ends
    assert len(tiny.encode(" END")) > 1 and not tiny.ends & set(tiny.encode(" END"))


def test_a_tokenizer_without_an_end_will_do(folder: Path, tmp_path: Path) -> None:
    home = Path(shutil.copytree(folder, tmp_path / "copy"))
    for file in (home / "config.json", home / "tokenizer_config.json"):
        settings = json.loads(file.read_text())
        known = {key: value for key, value in settings.items() if not key.startswith("eos_token")}
        file.write_text(json.dumps(known))
    writer = opened(home)
    assert writer.ends == {*writer.encode("\n"), *writer.encode("\n\n")}
