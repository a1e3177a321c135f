"""Evaluation: ties are Yes, undefined metrics are None, and the majority is that of the asked
queries.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from dpicl.ground.types import LabelNumbers
from dpicl.methods.evaluation import (
    Metrics,
    Result,
    answers,
    majority,
    measure,
    measure_scores,
    results_frame_columns,
)

labels = st.lists(st.integers(0, 1), min_size=1, max_size=40).map(np.array)


def test_the_larger_score_wins_and_ties_are_yes() -> None:
    scores = np.array([[-1.0, -2.0], [-2.0, -1.0], [-1.5, -1.5], [0.0, 0.0]])
    assert answers(scores).tolist() == [0, 1, 1, 1]


def test_metrics_by_hand() -> None:
    """Of three positives two are found, of two negatives one; of six pairs four and a half are in
    order.
    """
    truth, answered = np.array([1, 1, 1, 0, 0]), np.array([1, 1, 0, 0, 1])
    assert measure(truth, answered, np.array([0.9, 0.5, 0.2, 0.1, 0.5])) == Metrics(
        5, 0.6, pytest.approx((2 / 3 + 1 / 2) / 2), pytest.approx(4.5 / 6)
    )


@pytest.mark.parametrize("label", [0, 1])
def test_one_class_alone_leaves_balance_and_ranking_undefined(label: int) -> None:
    truth = np.full(6, label)
    share = pytest.approx(4 / 6 if label else 2 / 6)
    assert measure(truth, np.array([0, 1, 0, 1, 1, 1]), np.arange(6)) == Metrics(
        6, share, None, None
    )
    assert measure_scores(truth, np.zeros((6, 2))).auc is None
    assert measure(np.array([0, 1]), np.array([0, 1])) == Metrics(2, 1.0, 1.0, None), (
        "no confidence"
    )


@given(labels)
def test_the_majority_is_right_at_least_half_the_time_and_ranks_nothing(truth: np.ndarray) -> None:
    metrics = majority(truth)
    share = truth.mean()
    assert metrics.accuracy == pytest.approx(max(share, 1 - share))
    both = 0 < share < 1
    assert (metrics.balanced_accuracy, metrics.auc) == ((0.5, 0.5) if both else (None, None))


@given(st.integers(2, 6), st.integers(0, 99))
def test_of_many_classes_the_auc_is_scikit_learn_s_macro_average_of_one_against_the_rest(
    classes: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    truth = np.concatenate([np.arange(classes), rng.integers(classes, size=30)])
    likely = rng.dirichlet(np.ones(classes), size=len(truth))
    expected = roc_auc_score(
        truth, likely if classes > 2 else likely[:, 1], multi_class="ovr", average="macro"
    )
    assert measure(truth, likely.argmax(axis=1), likely).auc == pytest.approx(expected)
    # a model's scores are known up to what all answers share
    shifted = np.log(likely) + rng.normal(size=(len(truth), 1))
    assert measure_scores(truth, shifted).auc == pytest.approx(expected)


def test_a_class_that_no_query_has_is_left_out_of_the_auc() -> None:
    truth = np.array([0, 0, 2, 2])
    likely = np.array([[0.7, 0.1, 0.2], [0.4, 0.3, 0.3], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])
    assert measure(truth, likely.argmax(axis=1), likely).auc == pytest.approx((1.0 + 0.875) / 2)
    assert majority(truth, classes=3).auc == 0.5 and majority(truth).auc == 0.5
    assert measure(np.zeros(3, int), np.zeros(3, int), np.zeros((3, 3))).auc is None


def test_a_number_is_measured_by_the_distance_of_its_bin_s_middle() -> None:
    """Rows without a number count for accuracy alone."""
    numbers = LabelNumbers(np.array([5.0, 15.0, 25.0, 15.0]), np.array([2.0, 19.0, 11.0, np.nan]))
    truth, answered = np.array([0, 1, 1, 3]), np.array([0, 2, 3, 3])
    assert measure(truth, answered, np.ones((4, 4)), numbers=numbers) == Metrics(
        4, 0.5, None, None, absolute_error=pytest.approx((3 + 6 + 4) / 3)
    )
    assert majority(truth, classes=4, numbers=numbers).absolute_error == pytest.approx(
        (13 + 4 + 4) / 3
    )
    nothing = LabelNumbers(numbers.of_code, np.full(4, np.nan))
    assert measure(truth, answered, numbers=nothing).absolute_error is None


def test_a_result_is_a_row_with_the_columns_of_the_file() -> None:
    result = Result("m", "icl", "d", 0, 1.0, 2, None, None, 5, 0.6, None, None)
    columns = (
        "method system dataset seed epsilon shots sampling_rate amplified_epsilon query_count "
        "accuracy balanced_accuracy auc rouge1 rouge2 rougeL bleu levenshtein absolute_error"
    )
    row = result.as_row()
    assert " ".join(row) == " ".join(results_frame_columns()) == columns
    assert {*list(row.values())[-6:]} == {None}, "of whole texts and of numbers only"
