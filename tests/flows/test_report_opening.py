"""A report opens with whom releases help beyond noise, of what is released, and says the same as
its details; that a model answers alike whatever it is asked is one sentence.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpicl.report.answer import Answerer, ends
from dpicl.report.answers import constant_answers, constants_in_short
from dpicl.report.cells import LabelCounts
from dpicl.report.decision import Gain, gains_of
from dpicl.report.load import Run, load_run
from dpicl.report.opening import lead, story
from tests.flows.report_folder import line, write_run

GRID = {"epsilons": [1, 10], "seeds": [0], "draws": 4}
RIVAL = ("gdp_tabicl", "lr")


def counts(*truth: str, system: str = "icl", given: str = "Yes", **place: Any) -> LabelCounts:
    return LabelCounts(
        place.pop("method", "mst_tabicl"),
        "adult",
        (system, 1.0, 4.0, math.nan),
        Counter({given: 20}),
        Counter(dict.fromkeys(truth or ("No", "Yes"), 10)),
        0.5,
        place.pop("label_count", 2),
    )


def run_of(folder: Path, *results: dict[str, Any], labels: int = 2) -> Run:
    """Asked 400 queries, of which the majority label is right in 0.66."""
    bare = [
        line("majority", "", 0.66, query_count=400, method=method)
        for method in dict.fromkeys(row["method"] for row in results)
    ]
    written = write_run(
        folder, results=[*bare, *results], grid=GRID, majority={"adult": 0.66}, simulated=True
    )
    return replace(load_run(written), labelled=(counts(label_count=labels),))


def released(
    system: str, *accuracies: float, method: str = "mst_tabicl", auc: float | str = ""
) -> list[dict[str, Any]]:
    """At ε = 1 and 10."""
    shots = "" if system == "lr" else 4
    return [
        line(system, epsilon, accuracy, method=method, shots=shots, auc=auc, query_count=400)
        for epsilon, accuracy in zip((1.0, 10.0), accuracies, strict=True)
    ]


def opening(run: Run) -> str:
    return lead(run, gains_of(run))


def test_a_classifier_on_the_private_rows_is_not_what_a_release_helps(tmp_path: Path) -> None:
    both = [*released("icl", 0.66, 0.66, method="gdp_tabicl")]
    run = run_of(tmp_path, *both, *released("lr", 0.85, 0.85, method="gdp_tabicl"))
    assert opening(run) == (
        "What GDP-TabICL releases of adult makes no difference beyond noise to some-model "
        "(accuracy 0.660, without private data 0.660 at ε = 1)."
    )
    assert not any("logistic regression  " in told for told in story(run))
    assert any(
        "logistic regression on the rows, diffprivlib's noise" in told for told in story(run)
    )
    same = run_of(tmp_path, *released("lr", 0.85, 0.85))
    assert opening(same).startswith(
        "What MST-TabICL releases of adult helps logistic regression from ε = 1 on (there accuracy "
        "0.850, without private data 0.660)."
    )


def test_whom_it_helps_comes_before_whom_it_does_not(tmp_path: Path) -> None:
    """Wherever that is: at the larger epsilon, of the second method."""
    run = run_of(
        tmp_path,
        *released("icl", 0.66, 0.66),
        *released("icl", 0.66, 0.66, method="aim_tabicl"),
        *released("lr", 0.68, 0.8, method="aim_tabicl"),
    )
    assert opening(run) == (
        "What AIM-TabICL releases of adult helps logistic regression at ε = 10 (accuracy 0.800, "
        "without private data 0.660). In accuracy no release makes a difference beyond noise to "
        "some-model."
    )


def test_what_falls_back_at_a_larger_epsilon_is_no_help(tmp_path: Path) -> None:
    assert " helps " not in opening(run_of(tmp_path, *released("icl", 0.9, 0.66)))


def test_harm_is_said_with_where(tmp_path: Path) -> None:
    assert opening(run_of(tmp_path, *released("icl", 0.3, 0.66))) == (
        "What MST-TabICL releases of adult is worse than nothing for some-model at ε = 1 "
        "(accuracy 0.300, without private data 0.660)."
    )


@pytest.mark.parametrize(
    ("auc", "labels", "helps"),
    [(0.77, 2, True), (0.54, 2, False), (0.77, 3, False), ("", 2, False)],
)
def test_a_better_order_helps_where_accuracy_is_within_noise(
    tmp_path: Path, auc: float | str, labels: int, helps: bool
) -> None:
    """Only of two labels is it known how sure an area under the curve is."""
    told = opening(run_of(tmp_path, *released("lr", 0.68, 0.69, auc=auc), labels=labels))
    assert (
        "helps logistic regression from ε = 1 on (there AUC 0.77, by chance 0.5; accuracy 0.680, "
        "within noise of 0.660 without private data)" in told
    ) is helps
    assert ("no difference beyond noise to logistic regression" in told) is not helps


@pytest.mark.parametrize(("first", "averaged"), [(0.68, 0.9), (0.9, 0.68)])
def test_headline_and_detail_make_one_comparison(
    tmp_path: Path, first: float, averaged: float
) -> None:
    run = run_of(
        tmp_path, *released("icl", first, first), *released("averaged", averaged, averaged)
    )
    helps = averaged == 0.9
    detail = next(told for told in story(run) if told.startswith("MST-TabICL on adult: acc"))
    assert (" helps some-model averaged over 4 draws from ε = 1 on" in opening(run)) is helps
    assert ("better by more than noise from ε = 1 on" in detail) is helps
    assert f"accuracy averaged over 4 draws {averaged:.3f} at ε = 1, " in detail
    assert f"; of the first draw alone {first:.3f} at ε = 1, " in detail


def test_constant_answers_are_one_sentence_however_many_there_are() -> None:
    zero, alike = counts(system="zero-shot"), counts()
    other = counts(system="icl@large", method="aim_tabicl")
    assert constants_in_short([], "small") == ""
    one = [*constant_answers([alike])]
    assert constants_in_short(one, "small") == one[0].sentence
    assert constants_in_short([*constant_answers([zero, alike, other])], "small") == (
        "all, or nearly all, queries get the same answer from small without demonstrations and "
        "with MST-TabICL; from large with AIM-TabICL"
    )


def test_every_interval_is_whole_on_the_axis() -> None:
    wide = Answerer("mst_tabicl", "adult", 1.0, "bundled", 0.45, 0.64, Gain(-0.19, 0.25))
    unknown = replace(wide, accuracy=0.8, gain=Gain(0.16, math.nan))
    low, high = ends([wide, unknown])
    assert low < 0.2 and high > 0.8
