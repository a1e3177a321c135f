"""Written answers: measures by hand, by their own definitions, and their place among the
results.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpicl.contract.pipeline import Cell
from dpicl.ground.types import QueryTable
from dpicl.methods.base import MAJORITY, ZERO_SHOT
from dpicl.methods.evaluation import Metrics, measure_texts
from dpicl.methods.grid import results
from dpicl.methods.text_answers import metrics_of

from ..text_contracts import as_extraction, as_free_text, text_contract
from ..units import unit_for

NEAR = ("rouge1", "rouge2", "rougeL", "bleu", "levenshtein")
sentences = st.lists(
    st.sampled_from(["cats", "cat", "sat", "The", "mat", "12", "é", "?"]), max_size=8
).map(" ".join)


def near(right: str, given: str) -> dict[str, float]:
    found = measure_texts(np.array([right]), np.array([given]))
    return {name: getattr(found, name) for name in NEAR}


def test_measures_by_hand() -> None:
    """Five of six words, three of five pairs, five in order; the letters of `the` are edited to
    `a`.
    """
    found = near("the cat sat on a mat", "the cat sat on the mat")
    assert (found["rouge1"], found["rouge2"], found["rougeL"]) == pytest.approx(
        (5 / 6, 3 / 5, 5 / 6)
    )
    assert found["bleu"] == pytest.approx((5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** (1 / 4))
    assert found["levenshtein"] == pytest.approx(1 - 3 / 22)


def test_a_short_answer_is_penalised_and_runs_that_never_match_are_smoothed() -> None:
    """Brevity exp(1 - 4/3); of three words all match and both pairs do, of two words the one pair
    counts as a half.
    """
    assert near("a b c d", "a b c")["bleu"] == pytest.approx(np.exp(-1 / 3))
    assert near("b a", "a b")["bleu"] == pytest.approx((1 * 1 / 2) ** (1 / 2))


def test_rouge_knows_neither_case_nor_endings_and_the_others_do() -> None:
    found = near("Cats Sitting", "cat sits")
    assert (found["rouge1"], found["rouge2"], found["bleu"]) == (1.0, 1.0, 0.0)
    assert found["levenshtein"] < 1


def test_order_is_for_the_longest_subsequence_to_see() -> None:
    found = near("one two three", "three one two")
    assert (found["rouge1"], found["rouge2"], found["rougeL"]) == pytest.approx((1.0, 1 / 2, 2 / 3))


@given(st.lists(st.tuples(sentences, sentences), min_size=1, max_size=5))
@example([("", ""), ("cat", "")])
def test_every_measure_is_a_mean_over_queries_from_0_to_1(pairs: list[tuple[str, str]]) -> None:
    found = measure_texts(
        np.array([right for right, _ in pairs]), np.array([given for _, given in pairs])
    )
    alone = [near(*pair) for pair in pairs]
    for name in NEAR:
        assert 0 <= getattr(found, name) <= 1
        assert getattr(found, name) == pytest.approx(np.mean([one[name] for one in alone]))
    assert found.accuracy == np.mean([right == given for right, given in pairs])
    assert (found.query_count, found.balanced_accuracy, found.auc) == (len(pairs), None, None)


@given(
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=12).map(
        lambda text: f"cat {text} sat"
    )
)
def test_the_right_answer_is_at_no_distance(text: str) -> None:
    found = near(text, f" {text}\n")
    assert [found[name] for name in NEAR] == pytest.approx([1.0] * 5)
    assert measure_texts(np.array([text]), np.array([f"{text} "])).accuracy == 1.0


def test_answers_that_are_texts_are_measured_so_and_have_no_majority() -> None:
    truth = QueryTable(pa.table({"label": ["a cat sat", " it rains"], "text": ["one", "two"]}))
    said = {
        ZERO_SHOT: np.array([" it rains", " it rains"]),
        Cell("icl", 1.0, 4): np.array([" a cat sat", " it poured"]),
    }
    found = metrics_of(said, truth, text_contract(as_free_text))
    assert MAJORITY not in found and {metrics.accuracy for metrics in found.values()} == {0.5}
    assert found[Cell("icl", 1.0, 4)].rouge1 == pytest.approx((1 + 1 / 2) / 2)
    others = metrics_of(said, truth, text_contract(as_extraction))
    assert MAJORITY in others and {metrics.rouge1 for metrics in others.values()} == {None}


def test_the_measures_are_columns_of_results() -> None:
    unit = unit_for("few_shot_generation", "mail", shots=(4,))
    measured = {
        ZERO_SHOT: Metrics(2, 0.5, None, None, 0.1, 0.2, 0.3, 0.4, 0.6),
        Cell("lr", 1.0): Metrics(9, 0.5, 0.5, 0.5),
    }
    written, other = (row.as_row() for row in results(unit, measured, {}))
    assert [written[name] for name in NEAR] == [0.1, 0.2, 0.3, 0.4, 0.6]
    assert [other[name] for name in NEAR] == [None] * 5 and other["query_count"] == 9
