"""A report opens with what a release achieves, and who does better with it beyond noise; it says
the same as its details; that a model answers alike whatever it is asked is one sentence.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpicl.quality.shown import Fitted, Shown, Truth, Worth
from dpicl.report.answer import Answerer, ends
from dpicl.report.answers import constant_answers, constants_in_short, one_answer
from dpicl.report.blocks import Figure, Heading, TableBlock
from dpicl.report.cells import LabelCounts
from dpicl.report.decision import Gain, found, gains_of
from dpicl.report.figures import figures_of
from dpicl.report.load import ReleasedWorth, Run, load_run
from dpicl.report.opening import first_screen, lead, story
from dpicl.report.sentences import titled
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
        "With what GDP-TabICL released of adult, some-model is not told apart from using no "
        "private data: accuracy 0.660 against 0.660, on 400 rows, at ε = 10, a difference of 0.000 "
        "(95 % interval −0.066 to 0.066)."
    )
    assert not any("logistic regression  " in told for told in story(run))
    assert any(
        "logistic regression on the rows, diffprivlib's noise" in told for told in story(run)
    )
    same = run_of(tmp_path, *released("lr", 0.85, 0.85))
    assert opening(same).startswith(
        "With what MST-TabICL released of adult, logistic regression does better than without "
        "private data: from ε = 1 on (there accuracy 0.850 against 0.660, on 400 rows)."
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
        "With what AIM-TabICL released of adult, logistic regression does better than without "
        "private data: at ε = 10 (accuracy 0.800 against 0.660, on 400 rows). With every release, "
        "some-model is not told apart from using no private data."
    )


def test_what_falls_back_at_a_larger_epsilon_is_no_help(tmp_path: Path) -> None:
    assert " does better " not in opening(run_of(tmp_path, *released("icl", 0.9, 0.66)))


def test_what_noise_leaves_open_is_not_said_to_be_as_good(tmp_path: Path) -> None:
    """0.130 more, of which noise may be all, was `as well as`; and a bar around the accuracy, which
    is the interval of the difference, was said to be of queries.
    """
    run = run_of(tmp_path, *released("icl", 0.70, 0.72))
    assert opening(run).startswith(
        "With what MST-TabICL released of adult, some-model is not told apart from using no "
        "private data: accuracy 0.720 against 0.660, on 400 rows, at ε = 10, a difference of "
        "0.060 (95 % interval "
    )
    figure = next(
        block
        for block in first_screen(run, gains_of(run), figures_of(run, gains_of(run)))
        if isinstance(block, Figure)
    )
    of_stroke = "is a 95 % interval of the difference to the stroke over queries alone"
    assert f"A bar, drawn at the point, {of_stroke}" in figure.caption
    assert "a bar is the interval of the difference, drawn at the point: " in figure.svg
    assert "0.720 against 0.660, a difference of 0.060 (95 % interval " in figure.svg


def test_harm_is_said_with_where(tmp_path: Path) -> None:
    assert opening(run_of(tmp_path, *released("icl", 0.3, 0.66))) == (
        "With what MST-TabICL released of adult, some-model does worse than without private data: "
        "at ε = 1 (accuracy 0.300 against 0.660, on 400 rows)."
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
        "logistic regression does better than without private data: from ε = 1 on (there AUC 0.77 "
        "against 0.5, on 400 rows; accuracy 0.680 against 0.660 is within noise)" in told
    ) is helps
    assert (
        "logistic regression is not told apart from using no private data: " in told
    ) is not helps


@pytest.mark.parametrize(("first", "averaged"), [(0.68, 0.9), (0.9, 0.68)])
def test_headline_and_detail_make_one_comparison(
    tmp_path: Path, first: float, averaged: float
) -> None:
    run = run_of(
        tmp_path, *released("icl", first, first), *released("averaged", averaged, averaged)
    )
    helps = averaged == 0.9
    detail = next(told for told in story(run) if told.startswith("MST-TabICL on adult: acc"))
    named = "some-model averaged over 4 draws does better than without private data: from ε = 1 on"
    assert (named in opening(run)) is helps
    assert ("better by more than noise from ε = 1 on" in detail) is helps
    assert f"accuracy on 400 rows averaged over 4 draws {averaged:.3f} at ε = 1, " in detail
    assert f"; of the first draw alone {first:.3f} at ε = 1, " in detail


def test_constant_answers_are_one_sentence_however_many_there_are() -> None:
    zero, alike = counts(system="zero-shot"), counts()
    other = counts(system="icl@large", method="aim_tabicl")
    assert constants_in_short([], "small") == ""
    one = [*constant_answers([alike])]
    assert constants_in_short(one, "small") == one[0].sentence
    assert constants_in_short([*constant_answers([zero, alike, other])], "small") == (
        "small gives nearly all queries one answer, whatever they say: ‘Yes’ without "
        "demonstrations and with MST-TabICL; large gives nearly all queries one answer, whatever "
        "they say: ‘Yes’ with AIM-TabICL"
    )
    mixed = replace(alike, given=Counter(Yes=10, No=10))
    assert constants_in_short([*constant_answers([zero, alike, mixed])], "small").endswith(
        ": ‘Yes’ without demonstrations, one in 1 of 2 cells with MST-TabICL"
    )
    reverse = counts(system="zero-shot", given="No")
    assert constants_in_short([*constant_answers([reverse, alike])], "small").endswith(
        ": ‘No’ without demonstrations, ‘Yes’ with MST-TabICL"
    )


def test_a_model_is_named_for_one_answer_where_most_of_its_cells_with_demonstrations_have_one() -> (
    None
):
    """Two models were named, of which one had one answer in two cells of six."""
    mixed = replace(counts(system="icl@large"), given=Counter(Yes=10, No=10))
    bare, alike = counts(system="zero-shot@large"), counts(system="icl@large")
    bare_large = "large does so without demonstrations"
    for cells, told in (
        ([], ""),
        ([counts(), mixed], "small gives nearly all queries one answer, whatever they say."),
        (
            [counts(), bare, mixed, mixed, alike],
            (
                "small gives nearly all queries one answer, whatever they say; "
                f"{bare_large} and in 1 of 3 cells with demonstrations."
            ),
        ),
        (
            [counts(), bare, mixed],
            f"small gives nearly all queries one answer, whatever they say; {bare_large}.",
        ),
        ([bare, mixed], "large gives nearly all queries one answer without demonstrations."),
        (
            [bare, replace(mixed, dataset="shop")],
            "large gives nearly all queries one answer without demonstrations on adult.",
        ),
        ([bare], "large gives nearly all queries one answer, whatever they say."),
        (
            [counts(), alike],
            "small and large give nearly all queries one answer, whatever they say.",
        ),
    ):
        assert one_answer(cells, "small") == told


def test_who_does_better_is_said_with_each_of_several(tmp_path: Path) -> None:
    run = run_of(tmp_path, *released("icl", 0.8, 0.9), *released("lr", 0.7, 0.8))
    assert opening(run) == (
        "With what MST-TabICL released of adult, some-model and logistic regression do better than "
        "without private data: some-model from ε = 1 on (there accuracy 0.800 against 0.660, on "
        "400 rows); logistic regression at ε = 10 (accuracy 0.800 against 0.660, on 400 rows)."
    )


def test_a_page_says_on_how_many_rows_each_share_is(tmp_path: Path) -> None:
    """Two of the same name that differ would contradict each other."""
    asked = [row | {"query_count": 50} for row in released("icl", 0.64, 0.64)]
    bare = line("majority", "", 0.64, query_count=50, method="mst_tabicl")
    fitted = [row | {"query_count": 154} for row in released("lr", 0.8, 0.8)]
    folder = write_run(
        tmp_path, results=[bare, *asked, *fitted], grid=GRID, majority={"adult": 0.662},
    )  # fmt: skip
    run = load_run(folder)
    told = f"{opening(run)} {' '.join(story(run))} {' '.join(found(run, gains_of(run)))}"
    for share, count in (("0.640", "50 rows"), ("0.662", "154 rows")):
        for place in re.finditer(re.escape(share), told):
            around = told[max(0, place.start() - 60) : place.end() + 30]
            assert f"on {count}" in around, around


def test_a_title_names_the_tables() -> None:
    for datasets, title in (
        (["shop"], "shop: a title"),
        (["shop", "visits"], "shop and visits: a title"),
        (["a", "b", "c"], "A title"),
    ):
        assert titled(datasets, "A title") == title
    assert titled(["shop"], "LDP-TabICL by ε") == "shop: LDP-TabICL by ε"


TRUTH = Truth(({"age": "41", "city": "north"},), Fitted(0.79, 0.71), Fitted(0.82, 0.74), 154)


def test_a_benchmark_begins_with_its_release_beside_the_truth(tmp_path: Path) -> None:
    """Before what models make of it, and without a second sentence on the same classifier."""
    rows = [*released("icl", 0.66, 0.66), *released("lr", 0.7, 0.7, auc=0.79)]
    run = run_of(tmp_path, *rows)
    age = Shown(("age",), (("18 to 40", "41 to 90"),), (0.4, 0.6), (0.0, 0.0), true=(0.5, 0.5))
    worth = Worth(({"age": "40"},), (), (age,), TRUTH)
    unit = ReleasedWorth("mst_tabicl", "adult", "0", {"counts,epsilon=1.0": worth})
    known = replace(run, worth=(unit,))
    assert opening(known) == (
        "MST-TabICL released rows of adult at ε = 1. Logistic regression fitted on them has AUC "
        "0.79 on 154 held-out rows; fitted on the true rows 0.82, without any data 0.50. With what "
        "MST-TabICL released of adult, some-model is not told apart from using no private data: "
        "accuracy 0.660 against 0.660, on 400 rows, at ε = 10, a difference of 0.000 (95 % "
        "interval −0.066 to 0.066). some-model gives nearly all queries one answer, whatever they "
        "say."
    )
    assert story(known)[0].startswith("MST-TabICL released rows of adult at ε = 1.")
    blocks = list(first_screen(known, gains_of(known), figures_of(known, gains_of(known))))
    table = blocks[0]
    assert isinstance(table, TableBlock)
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["true rows, without privacy", "0.820", "0.740"],
        ["rows released at ε = 10", "0.790", "0.700"],
        ["rows released at ε = 1", "0.790", "0.700"],
        ["no rows: always the most frequent answer", "0.500", "0.660"],
    ]
    some = next(block for block in blocks[1:] if isinstance(block, TableBlock))
    assert [[cell.text for cell in row] for row in some.rows] == [
        ["released, ε = 1", "40"],
        ["true", "41"],
    ]
    kinds = [type(block) for block in blocks]
    assert kinds.index(Figure) < kinds.index(Heading)


def test_one_epsilon_has_no_line_and_no_words_on_one(tmp_path: Path) -> None:
    at_one = [row for row in released("icl", 0.66, 0.7) if row["epsilon"] == 1]
    run = run_of(tmp_path, *at_one)
    assert figures_of(run, gains_of(run)).by_method == ()
    both = run_of(tmp_path, *released("icl", 0.66, 0.7))
    ((_, figure),) = figures_of(both, gains_of(both)).by_method
    assert figure.caption == "Mean accuracy by nominal ε on a logarithmic axis."


def test_every_interval_is_whole_on_the_axis() -> None:
    wide = Answerer("mst_tabicl", "adult", 1.0, "bundled", 0.45, 0.64, Gain(-0.19, 0.25))
    unknown = replace(wide, accuracy=0.8, gain=Gain(0.16, math.nan))
    low, high = ends([wide, unknown])
    assert low < 0.2 and high > 0.8
