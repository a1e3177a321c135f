"""The page on a real language model is what its kept results make, and says what they say."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpicl.home.settings import Settings
from dpicl.report import report_steps
from dpicl.report.load import load_run
from dpicl.runs.artefacts import PREDICTIONS
from dpicl.runs.execute import InProcess, run_units
from dpicl.runs.plan import make_plan
from dpicl.runs.results import MANIFEST
from lab.benchmarks.real_model.conditions import REVERSED, SHOWS, UNSEEN, conditions, directions
from lab.benchmarks.real_model.page import (
    BEGIN,
    END,
    GEMMA,
    MODEL,
    NONE_YET,
    PAGE,
    README,
    first_sentences,
    page,
    table_in_short,
    with_table,
)
from lab.benchmarks.real_model.results import BUNDLED, TRUTH, About, Answered, collect, read_results
from tests.harness import install, install_texts, letters, new_place, shop, shop_rows
from tests.library.text_contracts import lines as text_lines
from tests.library.text_contracts import records

QUERIES = 120
LABELS = np.arange(QUERIES) % 2
ABOUT = About(
    MODEL,
    "real-tables",
    "abc1234",
    "0.1",
    "d" * 64,
    2.5,
    300,
    ["Not run, as its 3 h were over: seed 2 of car."],
)


def line(
    system: str,
    share: float,
    *,
    epsilon: float = math.nan,
    seed: int = 0,
    draw: int = 1,
    model: str = MODEL,
    method: str = "aim_tabicl",
) -> Answered:
    """The first `share` of answers are right."""
    answers = np.where(np.arange(QUERIES) < share * QUERIES, LABELS, 1 - LABELS)
    return Answered(
        model,
        method,
        "car",
        seed,
        system,
        epsilon,
        8,
        draw,
        "a" + "".join(map(str, answers)),
        share,
        0.5,
    )


def results(*, least: float, most: float, true: float, zero: float = 0.7) -> list[Answered]:
    lines = [line(TRUTH, 1, model=TRUTH)]
    for seed in (0, 1, 2):
        for epsilon, share in ((1.0, least), (8.0, most), (math.inf, true)):
            lines += [
                line("icl", share, epsilon=epsilon, seed=seed, draw=draw) for draw in (1, 2, 3)
            ]
            lines.append(line("averaged", share, epsilon=epsilon, seed=seed))
            lines.append(line("icl", 0.6, epsilon=epsilon, seed=seed, model=BUNDLED))
            lines.append(replace(line("lr", 0.8, epsilon=epsilon, seed=seed, model=""), answers=""))
        lines.append(line("zero-shot", zero, seed=seed))
    return lines


LINES = results(least=0.5, most=0.9, true=0.9)


def rows_of(lines: list[Answered], start: str) -> list[str]:
    return [one for one in page(lines, [ABOUT]).splitlines() if one.startswith(start)]


def test_the_page_and_the_readme_are_what_the_results_make() -> None:
    assert PAGE.read_text("utf-8") == page(*read_results(), read_results(model=GEMMA))
    readme = README.read_text("utf-8")
    assert readme.count(BEGIN) == readme.count(END) == 1 and readme == with_table(
        readme, *read_results()
    )


@pytest.mark.parametrize(
    "most, leads, told",
    [
        (0.9, "1", "with the largest ε than with the least 1 of 1 times (the reverse 0 times)"),
        (0.5, "none", "with the largest ε than with the least 0 of 1 times (the reverse 0 times)"),
    ],
)
def test_what_is_gained_over_the_most_frequent_label_is_said(
    most: float, leads: str, told: str
) -> None:
    lines = results(least=0.5, most=most, true=0.9)
    said = " ".join(first_sentences(conditions(lines, MODEL), MODEL))
    assert said.startswith(f"**In {leads} of 2 private conditions on car")
    assert told in page(lines, [ABOUT])


def test_a_model_that_gives_one_label_is_said_to() -> None:
    lines = [
        replace(one, answers="a" + "1" * QUERIES)
        if one.model == MODEL and "icl" in one.system
        else one
        for one in LINES
    ]
    said = " ".join(first_sentences(conditions(lines, MODEL), MODEL))
    assert "In 2 of 2 at least nine of ten answers are the same label" in said
    assert "nine of ten" not in " ".join(first_sentences(conditions(LINES, MODEL), MODEL))


def test_without_results_nothing_is_claimed() -> None:
    assert NONE_YET in page([], []) and table_in_short([], []) == NONE_YET


@pytest.mark.parametrize(
    "least, most, true, better, worse, verdicts",
    [
        (0.5, 0.9, 0.9, 1, 1, [SHOWS, SHOWS]),
        (0.4, 0.4, 0.5, 0, 2, [REVERSED, UNSEEN]),
        (0.7, 0.7, 0.7, 0, 0, [UNSEEN, UNSEEN]),
        (0.95, 0.71, 0.7, 1, 0, [UNSEEN, REVERSED]),
    ],
)
def test_what_is_said_first_is_what_was_seen_whatever_it_is(
    least: float, most: float, true: float, better: int, worse: int, verdicts: list[str]
) -> None:
    lines = results(least=least, most=most, true=true)
    found = conditions(lines, MODEL)
    said = " ".join(first_sentences(found, MODEL))
    assert (
        f"It had more than without data in {better}, fewer in {worse}, and as many, within noise, "
        f"in {2 - better - worse}." in said
    )
    assert ("does better without your data" in said) is bool(worse)
    assert [one.verdict for one in directions(found)] == verdicts
    assert [one.right.shape for one in found] == [(3, 3, QUERIES)] * 3 and [
        one.place.epsilon for one in found
    ] == [math.inf, 1, 8]


OF_ONE = "| AIM-TabICL | 8 | 1 |"


def test_a_line_has_all_that_stands_beside_an_answer() -> None:
    told = "120 × 9 | .50 (.41 to .59) † | .50 | .50 | .70 | .50 | .60 | .80 | – |"
    assert rows_of(LINES, OF_ONE) == [f"{OF_ONE} {told}"]
    text = page(LINES, [ABOUT])
    assert "Not run, as its 3 h were over: seed 2 of car." in text and "commit abc1234" in text


def test_another_model_has_a_column_of_its_own() -> None:
    gemma = [
        replace(one, model="gemma-3-270m")
        for one in LINES
        if one.model == MODEL and one.system == "icl"
    ]
    (row,) = rows_of([*LINES, *gemma], OF_ONE)
    assert row.split(" | ")[9:11] == [".60", ".50"]


def test_another_label_given_to_all_is_no_reading_of_data() -> None:
    """More right answers than without data, and no more than the most frequent label has."""
    few = np.where(np.arange(QUERIES) % 4, 1, 0)
    lines = [
        replace(one, answers="a" + "".join(map(str, few if one.model == TRUTH else told)))
        for one in LINES
        if one.model in (MODEL, TRUTH)
        for told in [few * 0 if one.system == "zero-shot" else few * 0 + 1]
    ]
    found = conditions(lines, MODEL)
    assert all(one.gain.sign == 1 and not one.is_better for one in found)
    said = " ".join(first_sentences(found, MODEL))
    assert said.startswith("**In none of 2") and "(.25 against .75 on car)" in said
    (true, _) = directions(found)
    assert true.verdict == UNSEEN and "**" not in rows_of(lines, OF_ONE)[0]


@pytest.mark.parametrize("share", [0.0, 0.02, 0.98, 1.0])
def test_an_interval_of_a_share_lies_between_0_and_1(share: float) -> None:
    (row,) = rows_of(results(least=share, most=0.9, true=0.9), OF_ONE)
    low, high = re.findall(r"\((\S+) to (\S+)\)", row)[0]
    assert 0 <= float(low) <= share <= float(high) <= 1


def test_constant_answers_are_marked() -> None:
    lines = [
        replace(one, answers="a" + "1" * QUERIES)
        if one.model == MODEL and one.epsilon == 1
        else one
        for one in LINES
    ]
    assert [("‡" in row) for row in rows_of(lines, "| AIM-TabICL")[:3]] == [False, True, False]


def test_the_readme_keeps_what_is_around_its_table() -> None:
    made = with_table(f"before\n{BEGIN}\nold\n{END}\nafter\n", LINES, [ABOUT])
    assert made.startswith(
        f"before\n{BEGIN}\nIn 1 of 2 private conditions on car"
    ) and made.endswith(f"{END}\nafter\n")
    assert "| car, AIM-TabICL, k = 8 | 120 | .50 | .70 | " in made and "\nold\n" not in made


@pytest.mark.quick("tables")
@pytest.mark.parametrize(
    "dataset, methods, how",
    [
        ("kiosk", ["ldp_tabicl", "gdp_tabicl", "aim_tabicl"], {"draws": 2}),
        ("postcards", ["few_shot_generation", "dp_icl"], {}),
    ],
    ids=["tables", "texts"],
)
def test_what_is_kept_of_a_run_gives_its_own_accuracies_back(
    tmp_path: Path, dataset: str, methods: list[str], how: dict[str, int]
) -> None:
    place = new_place(tmp_path / "place")
    install(place, shop("kiosk"), shop_rows(60))
    install_texts(place, letters("postcards"), text_lines(records(40)), text_lines(records(8)))
    grid = {"epsilons": ["1", "8", "inf"], "shots": [2], "seeds": [0, 1], "model": "fake", **how}
    with place.entered():
        run = make_plan("demo", {"methods": methods, "datasets": [dataset], **grid}, "r")
        run_units(run, InProcess(), report_steps(run))
        with Settings.from_environment().entered():
            collect(run, MODEL, tmp_path)
        stored = load_run(run).results
    kept, abouts = read_results(tmp_path)
    measured = {
        (one.method, one.seed, one.system, one.epsilon): one.accuracy
        for one in kept
        if one.model == MODEL and one.draw == 1 and not math.isnan(one.epsilon)
    }
    known = stored.set_index(["method", "seed", "system", "epsilon"])["accuracy"]
    assert len(measured) >= 2 * (11 if how else 8)
    assert {name: known[name] for name in measured} == pytest.approx(measured, abs=1e-5)
    found = conditions(kept, MODEL)
    assert {one.place.method for one in found} == set(methods)
    assert {one.right.shape[0] for one in found} == {2}
    assert any(not math.isnan(one.beside[BUNDLED]) for one in found)
    assert page(kept, abouts).count("\n| ") > len(found)


def test_of_a_run_that_was_stopped_what_it_answered_is_kept_and_what_not_is_said(
    tmp_path: Path,
) -> None:
    place = new_place(tmp_path / "place")
    install_texts(place, letters("postcards"), text_lines(records(40)), text_lines(records(8)))
    grid = {
        "epsilons": ["1"],
        "shots": [2],
        "seeds": [0, 1],
        "model": "fake",
        "methods": ["dp_icl", "few_shot_generation"],
        "datasets": ["postcards"],
    }
    with place.entered():
        run = make_plan("demo", grid, "r")
        run_units(run, InProcess(), report_steps(run))
        for left in ("few_shot_generation__postcards__seed0", "*seed1"):
            for unit in (run / "units").glob(left):
                (unit / PREDICTIONS).unlink()
        (run / MANIFEST).unlink()
        with Settings.from_environment().entered():
            collect(run, MODEL, tmp_path)
    kept, (about,) = read_results(tmp_path)
    assert {(one.method, one.seed) for one in kept} == {("dp_icl", 0)}
    assert about.left_out == [
        "Stopped before its end, without few_shot_generation on postcards with seed 0, seed 1."
    ]


def test_a_second_model_has_tables_of_its_own_and_changes_none_of_the_first() -> None:
    second = [replace(one, model=GEMMA) if one.model == MODEL else one for one in LINES]
    alone = page(LINES, [ABOUT])
    text = page(LINES, [ABOUT], (second, [replace(ABOUT, model=GEMMA)]))
    before, after = text.split("## Gemma 3 270M beside it")
    assert alone.startswith(before.rstrip("\n"))
    assert "Gemma 3 270M had more right answers" in after and "| Gemma 3 270M |" in after
    tables = [one for one in alone.splitlines() if one.startswith("| AIM-TabICL")]
    assert tables and all(one in after for one in tables)
    assert "real-tables, Gemma 3 270M (digest" in after
