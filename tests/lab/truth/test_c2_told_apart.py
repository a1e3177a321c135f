"""A verdict has power or says that it has none: every answer beside a constant one, and every word
of a verdict with one meaning.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dpicl.accounting.guarantee import amplified_epsilon
from dpicl.report.blocks import to_markdown
from lab.published.cells import PrintedCell, PrintedTable
from lab.reproduce import Made, Verdict, judged
from lab.reproduce.computed import COMPUTED
from lab.reproduce.constant import Beside, first_line
from lab.reproduce.made import Measured
from lab.reproduce.meanings import (
    BOUNDED,
    COUNTED,
    DIFFERS,
    EQUAL,
    MEANINGS,
    NOT_RUN,
    SAME,
    UNCLEAR,
    WITHIN,
)
from lab.reproduce.page import page_of, summary, verdicts_of
from tests.lab.truth.paper_runs import (
    MAJORITY,
    SETS,
    judged_cell,
    made_with,
    papers,
    row,
    rows_of,
    side_with,
    table,
    verdicts,
)

NAMES = ("II", "III", "XII", "XIII")
PIPELINES = {
    "II": "table-2-as-printed",
    "XII": "table-2-as-printed",
    "III": "table-3-as-printed",
    "XIII": "table-3-as-printed",
}
Accuracy = Callable[[PrintedCell], float]
Found = Sequence[tuple[PrintedTable, list[Verdict]]]
REPRODUCES = "A constant answer reproduces this table, as far as these runs can tell: "


def constant(cell: PrintedCell) -> float:
    return MAJORITY[cell.dataset]


@cache
def constant_model(name: str) -> tuple[Made, Found]:
    """A table as a model that always gives the majority label answers it, with the papers' sizes,
    judged once.
    """
    printed = table("dp-tabicl", name)
    made = made_with(
        side_with(Path(tempfile.mkdtemp()), PIPELINES[name], rows_of(printed, constant))
    )
    return made, verdicts_of(papers()["dp-tabicl"], [name], made)


def of_one_set(
    home: Path, name: str, dataset: str, accuracy: Accuracy = constant, **more: Any
) -> tuple[Made, Found]:
    printed = table("dp-tabicl", name, dataset)
    rows = rows_of(printed, accuracy, datasets=(dataset,), **more)
    made = made_with(side_with(home, PIPELINES[name], rows, datasets=[dataset]))
    return made, [(printed, judged(printed, made))]


def first_line_of(made: Made, found: Found) -> str:
    """What stands first below a table's heading on its page."""
    page = to_markdown(page_of(papers()["dp-tabicl"], found, made))
    return page.partition(f"## Table {found[0][0].name}: ")[2].split("\n\n")[1]


def answers(found: Found) -> list[Verdict]:
    return [
        one for _, of in found for one in of if one.cell.system == "icl" and one.kind != NOT_RUN
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_model_that_always_gives_the_majority_label_is_told_apart_nowhere(name: str) -> None:
    """Such a model was `within noise` pure in three cells of five."""
    found = answers(constant_model(name)[1])
    assert len(found) == 192 and all(
        one.beside is not None and not one.beside.is_apart for one in found
    )
    assert sum(one.kind == WITHIN for one in found) > 60, "the test alone has no power against it"
    assert all(
        "not told apart from the majority label" in one.beside.text for one in found if one.beside
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_table_that_a_constant_answer_reproduces_says_so(name: str) -> None:
    line = first_line([one.beside for one in answers(constant_model(name)[1]) if one.beside])
    assert line.startswith(f"{REPRODUCES}always the majority label is within noise of ")
    assert (
        re.search(r"of \d+ of 192 printed numbers of answers", line)
        and "0 of ours are told apart from it" in line
    )


@pytest.mark.parametrize("dataset", ["blood", "bank"])
def test_it_says_so_first_whoever_answered(tmp_path: Path, dataset: str) -> None:
    for accuracy in (constant, lambda cell: cell.value):
        assert first_line_of(*of_one_set(tmp_path, "II", dataset, accuracy)).startswith(REPRODUCES)


def test_a_table_that_no_constant_answer_reproduces_does_not_say_so(tmp_path: Path) -> None:
    rare = dict.fromkeys(SETS, 0.1)  # a set of many labels: the most frequent is rare
    line = first_line_of(
        *of_one_set(tmp_path, "II", "blood", lambda cell: cell.value, majority=rare)
    )
    assert line.startswith("### blood"), "the first fold follows at once"


@pytest.mark.parametrize(
    ("name", "dataset"), [(name, dataset) for name in ("II", "XIII") for dataset in SETS]
)
def test_each_set_by_itself(tmp_path: Path, name: str, dataset: str) -> None:
    own = answers(of_one_set(tmp_path, name, dataset)[1])
    assert len(own) == 24 and not any(one.beside is None or one.beside.is_apart for one in own)


@pytest.mark.parametrize(
    ("mean", "majority", "queries", "expected"),
    [
        (0.95, 0.75, 1506, "above the majority label, 0.750"),
        (0.20, 0.75, 1506, "below the majority label, 0.750"),
        (0.77, 0.76, 112, "not told apart from the majority label, 0.760"),
        (0.90, 0.76, 112, "above the majority label, 0.760"),
        (0.85, 0.76, 20, "not told apart from the majority label, 0.760"),
        (1.00, 0.60, 5, "not told apart from the majority label, 0.600"),
        (1.00, 0.60, 100, "above the majority label, 0.600"),
        (0.50, 0.50, 412, "not told apart from the majority label, 0.500"),
        (0.62, 0.50, 412, "above the majority label, 0.500"),
        (0.00, 0.00, 50, "not told apart from the majority label, 0.000"),
        (0.40, 0.65, 115, "below the majority label, 0.650"),
    ],
)
def test_told_apart_goes_by_the_queries(
    tmp_path: Path, mean: float, majority: float, queries: int, expected: str
) -> None:
    found = judged_cell(tmp_path, mean, queries, majority=majority)
    assert found.beside is not None and found.beside.text == expected


def test_texts_of_their_own_stand_beside_an_answer_that_was_shown_nothing(tmp_path: Path) -> None:
    printed = table("dp-icl", "samsum")
    rows = []
    for cell in printed.cells:
        answer = row(
            "dp_icl", cell.system, "samsum", 0, 100, 0.5, shots=cell.shots, epsilon=cell.epsilon
        )
        rows.append({**answer, "accuracy": math.nan, cell.metric: 0.35})
    merged = [dict(one) for one in rows]
    side = side_with(tmp_path, "dp-icl-generation", merged, datasets=["samsum"], majority={})
    found = judged(printed, made_with(side, "llama-2-13b"))
    shown = [one for one in found if one.cell.system == "icl"]
    assert shown and all(
        one.beside is not None and one.beside.name == "no demonstrations" for one in shown
    )
    assert all(one.beside is None for one in found if one.cell.system == "zero-shot"), (
        "it is that answer"
    )


def test_baselines_stand_beside_the_majority_of_the_rows_that_they_are_tested_on(
    tmp_path: Path,
) -> None:
    printed = table("dp-tabicl", "III")
    rows = rows_of(
        printed, lambda cell: 0.9, majority=dict.fromkeys(SETS, 0.2), datasets=("blood", "adult")
    )
    found = verdicts(
        printed, side_with(tmp_path, "table-3-as-printed", rows, majority={"blood": 0.76})
    )
    fitted = found["blood", "gnb-naive", None, 1.0]
    assert fitted.beside is not None and fitted.beside.value == 0.76 and fitted.beside.is_apart
    assert found["adult", "gnb-naive", None, 1.0].beside is None, (
        "of whose rows the run has no majority"
    )


CANNOT_TELL = "Whether a constant answer reproduces this table, these runs cannot tell: "


@pytest.mark.parametrize(
    ("within", "wide", "other", "lead"),
    [
        (0, 1, 0, CANNOT_TELL),
        (0, 2, 1, CANNOT_TELL),
        (1, 9, 0, CANNOT_TELL),
        (1, 1, 0, REPRODUCES),
        (1, 1, 1, REPRODUCES),
        (2, 3, 2, REPRODUCES),
        (1, 0, 2, "Beside a constant answer: "),
        (0, 1, 2, "Beside a constant answer: "),
    ],
)
def test_what_is_too_near_to_tell_reproduces_nothing(
    within: int, wide: int, other: int, lead: str
) -> None:
    """`0 of 1, and too near to tell in 1` began with `A constant answer reproduces this table`."""
    found = [
        *[Beside("the majority label", 0.7, 0.9, False, True, False)] * within,
        *[Beside("the majority label", 0.7, 0.9, True, True, True)] * wide,
        *[Beside("the majority label", 0.7, 0.9, False, False, False)] * other,
    ]
    line = first_line(found)
    assert line.startswith(lead)
    near = f", and too near to tell in {wide}" * bool(wide)
    assert f"within noise of {within} of {len(found)} printed numbers of answers{near}; " in line
    assert f"; {wide} of ours {'is' if wide == 1 else 'are'} told apart from it." in line
    assert line.endswith("More queries would tell.") == (lead == CANNOT_TELL)


def test_a_table_that_no_constant_answer_is_near_has_no_first_line() -> None:
    assert first_line([Beside("the majority label", 0.7, 0.9, False, False, False)]) == ""


def test_a_summary_counts_what_is_told_apart() -> None:
    found = constant_model("II")[1]
    within = [one for one in found[0][1] if one.kind == WITHIN]
    apart = sum(one.beside is not None and one.beside.is_apart for one in within)
    assert (
        f"{len(within)} are within noise ({apart} of these told apart from a constant answer)"
        in summary(found)
    )


# --- one meaning a word


def test_numbers_without_noise_are_equal_or_differ_to_the_last_printed_digit() -> None:
    (cell,) = (
        one for one in table("dp-tabicl", "V").cells if (one.dataset, one.epsilon) == ("adult", 1.0)
    )
    assert abs(amplified_epsilon(1.0, 3016 / 30162) - 0.1586) < 1e-4
    for value, kind in ((0.159, EQUAL), (0.158, DIFFERS), (0.1592, DIFFERS), (0.160, DIFFERS)):
        (found,) = judged(PrintedTable("V", "", (replace(cell, value=value),)), Made({}, ("tiny",)))
        assert found.kind == kind, value


def test_noise_of_table_9_is_bounded_by_the_print_and_says_by_how_much() -> None:
    cells = [
        one
        for one in table("dp-few-shot", "9").cells
        if one.dataset in ("dbpedia", "trec") and one.epsilon == 1.0
    ]
    found = {
        one.cell.dataset: one
        for one in judged(PrintedTable("9", "", tuple(cells)), Made({}, ("tiny",)))
    }
    assert {one.kind for one in found.values()} == {BOUNDED} and found[
        "dbpedia"
    ].text == "bounded by: 10.6% less"
    assert found["trec"].text.startswith("bounded by: ")


@pytest.mark.parametrize(
    ("value", "kind"), [(1.0, BOUNDED), (0.9, BOUNDED), (0.89, DIFFERS), (5.0, BOUNDED)]
)
def test_an_epsilon_above_the_print_is_no_bound(
    value: float, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cell,) = (
        one
        for one in table("dp-few-shot", "9").cells
        if (one.dataset, one.epsilon) == ("dbpedia", 1.0)
    )
    monkeypatch.setitem(COMPUTED, "9", lambda _: 0.8935)
    (found,) = judged(PrintedTable("9", "", (replace(cell, value=value),)), Made({}, ("tiny",)))
    assert found.kind == kind


@pytest.mark.parametrize(
    ("share", "printed", "kind"),
    [(0.9, 0.01, SAME), (0.9, 0.2, DIFFERS), (0.2, 0.2, SAME), (0.2, 0.02, DIFFERS)],
)
def test_p_values_lead_to_the_same_conclusion_or_differ(
    tmp_path: Path, share: float, printed: float, kind: str
) -> None:
    (cell,) = (one for one in table("dp-tabicl", "V-F1").cells if one.system == "lr")
    offsets = dict(zip(SETS, (0.0, 0.01, 0.02, 0.03, 0.0, 0.01, 0.02, 0.03), strict=True))
    rows = []
    for dataset in SETS:
        rows.append(
            row(
                "ldp_tabicl",
                "icl",
                dataset,
                0,
                100,
                share + offsets[dataset],
                shots=1.0,
                epsilon=1.0,
            )
        )
        rows.append(row("ldp_tabicl", "lr", dataset, 0, 150, 0.5, epsilon=1.0))
    side = side_with(tmp_path, "table-2-as-printed", rows)
    (found,) = judged(
        PrintedTable("V-F1", "", (replace(cell, value=printed),), "table-2-as-printed"),
        made_with(side),
    )
    assert (
        found.kind == kind
        and WITHIN not in found.text
        and "below 0.05" in found.text + " below 0.05" * (printed >= 0.05)
    )


@pytest.mark.parametrize(("queries", "kind"), [(112, EQUAL), (113, DIFFERS), (5, DIFFERS)])
def test_numbers_of_queries_are_equal_or_differ(tmp_path: Path, queries: int, kind: str) -> None:
    (cell,) = (one for one in table("dp-tabicl", "VI").cells if one.dataset == "blood")
    rows = [row("gdp_tabicl", "zero-shot", "blood", 0, queries, 0.5, shots=0.0)]
    (found,) = judged(
        PrintedTable("VI", "", (cell,), "table-3-as-printed"),
        made_with(side_with(tmp_path, "table-3-as-printed", rows)),
    )
    assert found.kind == kind and found.text.partition(";")[0] == kind


@pytest.mark.parametrize(
    ("mean", "queries", "kind"),
    [
        (0.76, 1506, WITHIN),
        (0.78, 1506, WITHIN),
        (0.90, 1506, DIFFERS),
        (0.7, 10, UNCLEAR),
        (0.0, 112, DIFFERS),
    ],
)
def test_means_are_within_noise_too_noisy_or_different(
    tmp_path: Path, mean: float, queries: int, kind: str
) -> None:
    found = judged_cell(tmp_path, mean, queries, deviation=0.02)
    assert found.kind == kind


def test_each_word_is_defined_once_on_the_page(tmp_path: Path) -> None:
    assert MEANINGS.keys() == COUNTED.keys() and len(set(MEANINGS.values())) == len(MEANINGS)
    made, found = of_one_set(tmp_path, "II", "blood")
    found = [*found, *verdicts_of(papers()["dp-tabicl"], ["V"], made)]
    page = to_markdown(page_of(papers()["dp-tabicl"], found, made))
    for kind in {one.kind for _, of in found for one in of}:
        assert page.count(f"- {kind}: {MEANINGS[kind]}") == 1


def test_no_table_says_within_noise_of_what_has_none() -> None:
    """Every kind of number has words of its own."""
    kinds = Counter(
        one.kind
        for paper in papers().values()
        for of in paper.tables
        if of.name in ("V", "VI", "IV")
        for one in judged(of, Made({}, ("tiny",)))
    )
    assert WITHIN not in kinds and UNCLEAR not in kinds


def test_equation_2_is_wide_enough_for_answers_that_exclude_each_other() -> None:
    """Right on the rarer label only: every answer differs from the constant one, and the margin
    knows.
    """
    ours = Measured(0.4, 0.0, 5, 100.0, "icl")
    exact = math.sqrt((1 - 0.2**2) / 100)
    assert ours.apart(0.6) == pytest.approx(1.96 * exact)


# --- mutants


def test_mutant_a_verdict_without_power_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault of before: nothing stands beside the constant answer."""
    monkeypatch.setattr("lab.reproduce.verdicts.beside_constant", lambda *_: None)
    with pytest.raises(AssertionError):
        test_each_set_by_itself(tmp_path / "a", "II", "blood")
    with pytest.raises(AssertionError):
        test_it_says_so_first_whoever_answered(tmp_path / "b", "blood")


def test_mutant_everything_is_told_apart_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Measured, "apart", lambda *_: -1.0)
    with pytest.raises(AssertionError):
        test_each_set_by_itself(tmp_path, "II", "blood")


def test_mutant_fifteen_percent_off_is_within_noise_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lab.reproduce.verdicts.BOUNDED", WITHIN)
    with pytest.raises(AssertionError):
        test_noise_of_table_9_is_bounded_by_the_print_and_says_by_how_much()


def test_mutant_a_line_that_never_comes_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.reproduce.page.first_line", lambda _: "")
    with pytest.raises(AssertionError):
        test_it_says_so_first_whoever_answered(tmp_path, "blood")
