"""Invisible ink: what one row does to a token's law stays within the range that is priced, whatever
its logits are.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from dpicl.accounting.accountant import price
from dpicl.accounting.guarantee import Neighbours
from dpicl.accounting.pure import range_of
from dpicl.ground.errors import ParameterError, PrivacyError
from dpicl.mechanisms.difference_token import SPREAD, UNCLIPPED, DifferenceToken
from dpicl.mechanisms.private_token import UNITS
from dpicl.models.votes import VoteRule, candidates_of, public_votes, whole_votes
from tests.library.examples import seeded

ADD, REPLACE = Neighbours.ADD_OR_REMOVE_ONE, Neighbours.REPLACE_ONE
RANGE, VOTERS, TAU = Fraction(1, 2), 3, Fraction(6, 5)
TOKEN = DifferenceToken(RANGE, VOTERS, TAU)
RULE = VoteRule("difference", 3, UNITS, TOKEN.clip, VOTERS)
finite = st.floats(-30, 30, width=32)
anything = st.one_of(
    finite, st.floats(width=32), st.sampled_from([3e38, -3e38, math.inf, math.nan])
)


def log_law(public: np.ndarray, voters: np.ndarray) -> np.ndarray:
    """Equation (3) from the sums that the sampler is given: ln P of every candidate."""
    exact = whole_votes(voters, RULE, np, public).sum(axis=0) + public_votes(public, RULE, np)
    scores = np.array([float(RANGE * int(score - exact.max()) / SPREAD) for score in exact])
    return scores - np.logaddexp.reduce(scores)


def logits(voters: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[np.ndarray, np.ndarray]]:
    return st.tuples(voters, st.integers(1, 9)).flatmap(
        lambda shape: st.tuples(
            arrays(np.float32, shape[1], elements=finite),
            arrays(np.float32, shape, elements=anything),
        )
    )


@given(logits(st.integers(1, 6)))
def test_a_row_more_moves_all_log_ratios_within_the_range(
    pair: tuple[np.ndarray, np.ndarray],
) -> None:
    """More voters than the plan has, none, broken ones: the divisor is the plan's. A replaced row
    goes and comes, so that it moves them within twice the range.
    """
    public, voters = pair
    ratios = log_law(public, voters) - log_law(public, voters[1:])
    assert np.ptp(ratios) <= float(RANGE) + 1e-9
    assert ratios.max() >= -1e-9 and ratios.min() <= 1e-9, "two laws on the same candidates"


def test_the_range_is_reached_both_ways() -> None:
    public, sure = np.zeros(8), np.where(np.arange(8) == 0, 100.0, -100.0)[np.newaxis]
    one, other = log_law(public, sure), log_law(public, sure[:, ::-1])
    assert np.ptp(one - log_law(public, sure[:0])) == pytest.approx(float(RANGE))
    assert np.ptp(one - other) == pytest.approx(2 * float(RANGE))


@given(logits(st.integers(1, 5)))
def test_a_vote_is_whole_numbers_of_its_own_within_the_clip(
    pair: tuple[np.ndarray, np.ndarray],
) -> None:
    public, voters = pair
    votes = whole_votes(voters, RULE, np, public)
    assert votes.dtype == np.int64 and (np.abs(votes) <= UNITS).all()
    assert not votes[~np.isfinite(voters).all(axis=1)].any()
    alone = [whole_votes(voter[np.newaxis], RULE, np, public) for voter in voters]
    assert (votes == np.concatenate(alone)).all()


def test_the_law_is_the_softmax_of_public_logits_and_the_mean_of_clipped_differences() -> None:
    """Equation (3): as the paper writes it, with log-probabilities, and one voter of three
    missing.
    """
    generator = seeded(0, "ink").generator()
    public, voters = generator.normal(0, 2, 5), generator.normal(0, 2, (2, 5))
    chances = [row - np.logaddexp.reduce(row) for row in (public, *voters)]
    clip = float(RANGE * VOTERS * TAU / 2)
    assert TOKEN.clip == pytest.approx(clip)
    moved = chances[0] + sum(np.clip(one - chances[0], -clip, clip) for one in chances[1:]) / VOTERS
    expected = moved / float(TAU) - np.logaddexp.reduce(moved / float(TAU))
    assert log_law(public, voters) == pytest.approx(expected, abs=1e-5)
    sums = whole_votes(voters, RULE, np, public).sum(axis=0) + public_votes(public, RULE, np)
    drawn = [TOKEN.select(sums, seeded(seed, "ink")) for seed in range(3000)]
    law = np.exp(expected) / np.exp(expected).sum()
    assert stats.chisquare(np.bincount(drawn, minlength=5), law * len(drawn)).pvalue > 1e-4


@given(
    arrays(np.float64, st.integers(3, 12), elements=st.floats(-6, 6)),
    st.integers(1, VOTERS),
    st.data(),
)
def test_no_voters_of_the_plan_lift_a_token_that_is_no_candidate_among_the_likeliest(
    public: np.ndarray, voters: int, data: st.DataObject
) -> None:
    """Of all tokens as candidates, the K with the largest sums are candidates of the margin too."""
    wide = VoteRule("difference", None, UNITS, RULE.clip, VOTERS)
    rows = data.draw(arrays(np.float64, (voters, len(public)), elements=st.floats(-30, 30)))
    scores = whole_votes(rows, wide, np, public).sum(axis=0) + public_votes(public, wide, np)
    kept = candidates_of(public, np.arange(len(public)), RULE, np)
    least = np.sort(scores)[-RULE.candidates]
    assert {*np.flatnonzero(scores > least + 2)} <= {*kept.tolist()}


def test_candidates_follow_from_public_logits_alone() -> None:
    near, far = (-1.5 - times * RULE.clip for times in (1.99, 2.01))
    public = np.array([0.0, -1.0, -1.5, near, far, -math.inf])
    assert candidates_of(public, np.arange(6), RULE, np).tolist() == [0, 1, 2, 3]


def test_the_event_states_the_range_and_twice_of_it_for_a_replaced_row() -> None:
    assert range_of(TOKEN.event(ADD), ADD) == 0.5 and range_of(TOKEN.event(ADD), REPLACE) == 1.0
    assert range_of(TOKEN.event(REPLACE), REPLACE) == 1.0
    with pytest.raises(PrivacyError, match="for replace-one neighbours, not for add-or-remove-one"):
        range_of(TOKEN.event(REPLACE), ADD)
    with pytest.raises(PrivacyError, match="has no cost at delta=0"):
        price(TOKEN.event(ADD), neighbours=ADD, unit="row")


def test_without_noise_there_is_no_clip_that_binds_and_no_price() -> None:
    silent = DifferenceToken(None, 3, Fraction(1))
    assert silent.clip == UNCLIPPED
    with pytest.raises(ParameterError, match="expected noise, where a cost is stated"):
        silent.event(ADD)


@pytest.mark.parametrize(
    "wrong",
    [(Fraction(0), 3, Fraction(1)), (Fraction(1), 0, Fraction(1)), (Fraction(1), 3, Fraction(0))],
)
def test_numbers_out_of_range_are_refused(wrong: tuple[Fraction, int, Fraction]) -> None:
    with pytest.raises(ParameterError, match="expected a"):
        DifferenceToken(*wrong)


def test_texts_of_one_stream_have_noise_of_their_own() -> None:
    """One that no private text moved would else tell the noise of the others."""
    flat, stream_of = np.zeros(1000, dtype=np.int64), seeded(0, "texts")
    places = TOKEN.select_all([flat] * 40, stream_of)
    assert len(set(places)) > 30 and TOKEN.select_all([flat] * 40, stream_of) != places
