"""Claims about votes: whole numbers within their bounds, whatever a voter's logits are."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpicl.ground.errors import ParameterError
from dpicl.models.votes import (
    OpenRequests,
    VoteRequest,
    VoteRule,
    candidates_of,
    check_sums,
    log_chances,
    whole_votes,
)

KINDS: tuple[Literal["probability", "relative", "logit"], ...] = (
    "probability",
    "relative",
    "logit",
)
rules = st.builds(
    lambda kind, units, clip: VoteRule(kind, None, units, clip if kind == "logit" else None),
    st.sampled_from(KINDS),
    st.sampled_from([1, 7, 1 << 20, 1 << 40]),
    st.sampled_from([1e-3, 1.0, 10.0, 1e30]),
)
anything = st.one_of(
    st.floats(-30, 30, width=32),
    st.floats(width=32),
    st.sampled_from([0.0, -0.0, 3e38, -3e38, math.inf, math.nan]),
)


def logits_of_voters(most: int = 5) -> st.SearchStrategy[np.ndarray]:
    return st.tuples(st.integers(1, most), st.integers(1, 9)).flatmap(
        lambda shape: arrays(np.float32, shape, elements=anything)
    )


def votes_of(logits: np.ndarray, rule: VoteRule) -> np.ndarray:
    """By torch, as real models vote; numpy must agree to a unit."""
    told = whole_votes(torch.from_numpy(logits), rule, torch).numpy()
    assert told.dtype == np.int64 and np.abs(told - whole_votes(logits, rule, np)).max() <= 1
    return np.array(told, dtype=object)


@given(logits_of_voters(), rules)
def test_a_vote_is_whole_numbers_within_its_bounds(logits: np.ndarray, rule: VoteRule) -> None:
    votes = votes_of(logits, rule)
    assert votes.shape == logits.shape
    assert all(0 <= vote <= rule.units for vote in votes.ravel())
    if rule.kind == "probability":
        assert all(sum(row) <= rule.units for row in votes)


@given(logits_of_voters(), rules)
def test_numbers_that_are_not_finite_are_a_vote_for_nobody(
    logits: np.ndarray, rule: VoteRule
) -> None:
    votes, finite = votes_of(logits, rule), np.isfinite(logits).all(axis=1)
    assert not votes[~finite].any()
    if rule.kind != "probability":
        assert (votes[finite].max(axis=1, initial=rule.units) == rule.units).all()


@given(logits_of_voters(), rules, st.randoms(use_true_random=False))
def test_a_vote_depends_on_its_own_logits_alone(
    logits: np.ndarray, rule: VoteRule, random: Any
) -> None:
    """So that a voter more moves the sums by its own vote, whose bounds are above; and an exchanged
    one by two.
    """
    order = random.sample(range(len(logits)), len(logits))
    together = votes_of(logits, rule)
    assert (votes_of(logits[order], rule) == together[order]).all()
    alone = [votes_of(logits[line : line + 1], rule)[0] for line in range(len(logits))]
    assert (np.array(alone) == together).all()


@given(
    arrays(
        np.float32, st.tuples(st.just(1), st.integers(1, 9)), elements=st.floats(-20, 20, width=32)
    ),
    st.sampled_from([0.5, 8.0]),
)
def test_votes_follow_the_equations(logits: np.ndarray, clip: float) -> None:
    units = 1 << 20
    nats = [float(logit) for logit in logits[0]]
    chances = [math.exp(logit) / math.fsum(map(math.exp, nats)) for logit in nats]
    expected = {
        "probability": chances,
        "relative": [chance / max(chances) for chance in chances],
        "logit": [1 - min(max(nats) - logit, clip) / clip for logit in nats],
    }
    for kind in KINDS:
        rule = VoteRule(kind, None, units, clip if kind == "logit" else None)
        assert (
            np.abs(votes_of(logits, rule)[0] - np.floor(np.array(expected[kind]) * units)).max()
            <= 1
        )


def test_a_vote_of_more_than_all_units_counts_nothing_whatever_went_wrong() -> None:
    """With an arithmetic that rounds up, three thirds of 7 are 9."""
    wrong = SimpleNamespace(**{**vars(np), "floor": np.ceil})
    assert not whole_votes(np.zeros((1, 3)), VoteRule("probability", None, 7), wrong).any()
    assert whole_votes(np.zeros((1, 3)), VoteRule("probability", None, 7), np).tolist() == [
        [2, 2, 2]
    ]


@given(
    arrays(
        np.float32, st.integers(1, 30), elements=st.one_of(st.integers(-3, 3), st.just(-math.inf))
    ),
    st.one_of(st.none(), st.integers(1, 40)),
    st.data(),
)
def test_candidates_are_the_likeliest_of_the_known_tokens_and_of_equal_ones_the_lower(
    logits: np.ndarray, count: int | None, data: st.DataObject
) -> None:
    known = np.array(
        sorted(data.draw(st.sets(st.integers(0, len(logits) - 1), min_size=1))), dtype=np.int64
    )
    expected = sorted(
        (token for token in known.tolist() if logits[token] > -math.inf),
        key=lambda token: (-logits[token], token),
    )[:count]
    rule = VoteRule("probability", count, 1)
    assert candidates_of(logits, known, rule, np).tolist() == expected
    assert (
        candidates_of(torch.from_numpy(logits), torch.from_numpy(known), rule, torch).tolist()
        == expected
    )


@pytest.mark.parametrize(
    "rule, message",
    [
        (("probability", 0, 8), "candidates=0"),
        (("probability", None, 0), "units=0"),
        (("relative", None, (1 << 40) + 1), "units="),
        (("relative", None, 8, 1.0), "clip=1.0"),
        (("logit", None, 8), "clip=None"),
        (("logit", None, 8, 0.0), "clip=0.0"),
        (("logit", None, 8, math.inf), "clip=inf"),
        (("logit", None, 8, math.nan), "clip=nan"),
        (("difference", None, 8, None, 3), "clip=None"),
        (("difference", None, 8, 1.0), "voters=None"),
        (("difference", None, 8, 1.0, 0), "voters=0"),
        (("relative", None, 8, None, 3), "voters=3"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(rule: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        VoteRule(*rule)


def test_more_voters_than_64_bits_can_sum_are_refused() -> None:
    rule, prompt = VoteRule("probability", None, 1 << 40), (1,)
    check_sums([VoteRequest(prompt, (prompt,) * ((1 << 22) - 1), ())], rule)
    with pytest.raises(ParameterError, match="voters=4194304"):
        check_sums([VoteRequest(prompt, (prompt,) * (1 << 22), ())], rule)


def test_a_finished_text_stays_finished() -> None:
    texts = OpenRequests([VoteRequest((1,), (), (2,)), VoteRequest((3,), (), ())])
    texts.append([(4,), None])
    texts.append([(5, 6), None])
    assert texts.open == {0: VoteRequest((1,), (), (2, 4, 5, 6))}
    with pytest.raises(
        ParameterError, match="written=1 texts: expected None for texts that were finished before"
    ):
        texts.append([(7,), (8,)])
    with pytest.raises(ParameterError, match="written=1: expected one entry for each of 2 texts"):
        texts.append([(7,)])


@given(logits_of_voters(), st.data())
def test_padding_beside_candidates_changes_no_vote_and_gets_none(
    logits: np.ndarray, data: st.DataObject
) -> None:
    """Voters of texts with different numbers of candidates are counted in one array; what stands in
    the padding may be anything.
    """
    kind = data.draw(st.sampled_from([*KINDS, "difference"]))
    clip = 5.0 if kind in ("logit", "difference") else None
    rule = VoteRule(kind, None, 1 << 20, clip, 3 if kind == "difference" else None)
    count = logits.shape[1]
    public = np.linspace(-3, 0, count, dtype=np.float32)
    padding = data.draw(arrays(np.float32, (len(logits), 2), elements=anything))
    told = np.hstack([log_chances(public.astype(np.float64), np), [0.0, 0.0]])
    present = np.tile(np.arange(count + 2) < count, (len(logits), 1))

    def votes(some: np.ndarray, *more: np.ndarray) -> np.ndarray:
        return whole_votes(
            torch.from_numpy(some), rule, torch, *map(torch.from_numpy, more)
        ).numpy()

    alone = votes(logits, public)
    padded = votes(np.hstack([logits, padding]), np.tile(told, (len(logits), 1)), present)
    assert not padded[:, -2:].any() and np.abs(padded[:, :-2] - alone).max() <= 1
    assert np.abs(padded).max(initial=0) <= rule.units
