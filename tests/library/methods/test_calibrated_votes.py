"""DP-ICL's voters are calibrated each by its own rows: a row more moves one voter's vote, and no
other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpicl.contract.pipeline import Cell
from dpicl.data.prompts import CONTENT_FREE
from dpicl.ground.errors import ModelError, PrivacyError
from dpicl.mechanisms.private_token import UNITS
from dpicl.methods import ensemble_voting, text_answers
from dpicl.methods.ensemble_plan import Aggregation, EnsembleShape
from dpicl.methods.ensemble_voting import Placement, Voters, asked_of_each, counted
from dpicl.methods.text_answers import calibrated
from dpicl.models.kinds.fake import HashScorer
from lab.audit.transcripts.mutants import pooled
from tests.direct import point
from tests.library.methods.test_dp_icl import ALONE, KEY, SHAPE, contract, shown, table, unit

HARD, SOFT = (replace(shape, calibrated=True) for shape in (SHAPE, ALONE))
SHAPES: dict[Aggregation, EnsembleShape] = {
    "votes": HARD,
    "soft-votes": SOFT,
    **{
        name: replace(SHAPE, aggregation=name)
        for name in ("embedding", "keywords-ptr", "keywords-joint")
    },
}
TABLES = [[f"letter {number} of {seed}" for number in range(12)] for seed in range(10)]
QUERIES = [(number, f"query {number}") for number in range(3)]
ANY = st.one_of(st.floats(-30, 0), st.floats())


def votes_moved(aggregation: Aggregation) -> int:
    """The most voters whose votes a row more moves, in the transcripts of some tables; 4 where it
    is no number of whole votes.
    """
    shape, most = SHAPES[aggregation], 0
    voters = Voters(contract(free=aggregation not in ("votes", "soft-votes")), HashScorer())
    for rows in TABLES:
        pair = [
            voters.votes(Placement(table(some), KEY, Fraction(1), shape), QUERIES)
            for some in (rows, [*rows, "one more"])
        ]
        for before, after in zip(*pair, strict=True):
            most = max(most, _moved(aggregation, before, after))
    return most


def _moved(aggregation: Aggregation, before: Sequence[Any], after: Sequence[Any]) -> int:
    pairs = list(zip(before, after, strict=True))
    if aggregation == "votes":
        return max(
            sum(max(0, sign * (other - one)) for one, other in pairs) // UNITS for sign in (1, -1)
        )
    if aggregation == "soft-votes":
        added = [other - one for one, other in pairs]
        return 1 if min(added) >= 0 and max(added) == UNITS else 4
    return sum(one != other for one, other in pairs)


@pytest.mark.parametrize("aggregation", SHAPES)
def test_a_row_more_moves_the_vote_of_one_voter(aggregation: Aggregation) -> None:
    assert votes_moved(aggregation) == 1


@pytest.mark.parametrize("aggregation", SHAPES)
def test_votes_that_are_pooled_over_voters_are_caught(
    aggregation: Aggregation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutants: content-free scores of all voters together; and the most frequent letter of all
    texts in every text.
    """
    alone = Voters._texts

    def together(self: Voters, prompts: Sequence[str]) -> list[str]:
        texts = alone(self, prompts)
        (most, _), *_ = Counter("".join(texts)).most_common(1)
        return [text + most * Counter("".join(texts))[most] for text in texts]

    monkeypatch.setattr(ensemble_voting, "counted", pooled(ensemble_voting.counted))
    monkeypatch.setattr(Voters, "_texts", together)
    assert votes_moved(aggregation) > 1


@given(st.integers(1, 5), st.data(), st.sampled_from([HARD, SOFT]))
def test_a_voter_more_adds_one_vote_whatever_the_model_says(
    voters: int, data: st.DataObject, shape: EnsembleShape
) -> None:
    each = asked_of_each(shape)
    scores = data.draw(arrays(np.float64, ((voters + 1) * each, 3), elements=ANY))
    added = np.array(counted(scores, shape)) - np.array(counted(scores[each:], shape))
    assert added.min() >= 0 and added.max() <= UNITS
    assert shape.alone or added.sum() in (0, UNITS)
    apart = [counted(scores[start : start + each], shape) for start in range(0, len(scores), each)]
    assert counted(scores, shape) == np.sum(apart, axis=0).tolist(), "each by its own rows alone"


@given(arrays(np.float64, (4, 3), elements=st.floats(-30, 0)))
def test_a_voter_says_what_the_same_demonstrations_answer_when_they_are_released(
    scores: np.ndarray,
) -> None:
    declared = contract().model_copy(update={"calibrate": True})
    answer = int(text_answers.answers_of(scores, declared)[0])
    if min(np.ptp(scores[0]), np.ptp(calibrated(scores[:1], scores[1:]))) > 1e-9:
        assert counted(scores, HARD) == [UNITS * (label == answer) for label in range(3)]


def test_calibration_takes_a_bias_out_that_does_not_depend_on_the_query() -> None:
    scores, bias = np.log([[0.6, 0.4], [0.2, 0.8]]), np.log([[0.9, 0.1]])
    found = calibrated(scores + bias, np.repeat(bias, len(CONTENT_FREE), axis=0))
    assert found.argmax(axis=1).tolist() == [0, 1] != (scores + bias).argmax(axis=1).tolist()


def test_every_voter_is_asked_without_content_behind_its_own_rows() -> None:
    asked, plain = (shown(table(TABLES[0]), shape, rate=Fraction(1)) for shape in (HARD, SHAPE))
    assert asked[::4] == plain and len(asked) == 4 * len(plain)
    for place, one in enumerate(plain):
        before = one.removesuffix("Letter: ?\nKind:")
        assert asked[4 * place + 1 : 4 * place + 4] == [
            f"{before}Letter: {text}\nKind:" for text in CONTENT_FREE
        ]


def test_a_model_that_fails_on_texts_without_content_is_the_model_s_failure() -> None:
    class Wordy(HashScorer):
        def score(self, prompts: Sequence[str], *labels: Any, **how: Any) -> np.ndarray:
            if any(prompt.endswith("Letter: \nKind:") for prompt in prompts):
                raise ModelError("nothing to say")
            return super().score(prompts, *labels, **how)

    voters = Voters(contract(), Wordy())
    with pytest.raises(ModelError, match="nothing to say"):
        voters.votes(Placement(table(TABLES[0]), KEY, Fraction(1), HARD), QUERIES)
    voters.votes(Placement(table(TABLES[0]), KEY, Fraction(1), SHAPE), QUERIES)


def test_answers_that_are_no_labels_are_not_calibrated() -> None:
    with pytest.raises(
        PrivacyError,
        match="calibrate does not fit answers of its kind; expected it with labels only",
    ):
        EnsembleShape.of(
            contract(free=True), point(unit(5.0, own={"calibrate": True}), Cell("icl-own", 5.0, 1))
        )
