"""What is said to differ bears on the very number, is said where numbers agree too, and no number
stands for a cell that was not run.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpicl.contract import load_contract
from dpicl.report.blocks import to_markdown
from lab.compare.sides import Side
from lab.published.cells import PrintedTable
from lab.reproduce import Verdict, judged
from lab.reproduce.made import results_at
from lab.reproduce.meanings import DIFFERS, NOT_RUN, WITHIN
from lab.reproduce.page import page_of, verdicts_of
from tests.harness import said
from tests.lab.truth.paper_runs import (
    judged_cell,
    made_with,
    papers,
    row,
    rows_of,
    side_with,
    table,
    verdicts,
)
from tests.library.examples import ROOT

WEIGHTS = "whose weights are random"
FULL = (
    "fitted on the subsample, as the authors' program does, where the paper says the full "
    "training set"
)
NOISE = "which rows vote is drawn from secret randomness, and noise is for the rows at hand"
SMALL = {"dbpedia": load_contract(ROOT / "data_contracts" / "texts" / "amazon.yaml")}
"""A contract of few texts of each label, in place of one of many."""


def tiny_run(
    home: Path, name: str, accuracy: float, **changes: Any
) -> dict[tuple[str, str, float | None, float | None], Verdict]:
    """Blood, five queries, by a model of random weights."""
    printed = table("dp-tabicl", name, "blood")
    rows = rows_of(printed, lambda _: accuracy, seeds=2, queries={"blood": 5}, datasets=("blood",))
    pipeline = "table-2-as-printed" if name in ("II", "XII") else "table-3-as-printed"
    side = side_with(
        home, pipeline, rows, model="tiny", trained=False, datasets=["blood"], queries=5, **changes
    )
    return verdicts(printed, side, "tiny")


@pytest.mark.parametrize("name", ["II", "III", "XII", "XIII"])
@pytest.mark.parametrize("system", ["lr", "gnb"])
@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_a_classifier_asks_no_model_and_no_fewer_queries(
    tmp_path: Path, name: str, system: str, epsilon: float
) -> None:
    named = system if name in ("II", "XII") else f"{system}-naive"
    known = tiny_run(tmp_path, name, 0.4)["blood", named, None, epsilon].known
    assert not any(
        "answered in place of" in one or "queries were asked" in one or WEIGHTS in one
        for one in known
    )
    assert (FULL in known) == (name in ("III", "XIII")), "said at the cell that it is about"


@pytest.mark.parametrize("name", ["II", "III", "XII", "XIII"])
@pytest.mark.parametrize("shots", [1.0, 8.0])
def test_an_answer_says_whose_it_is_and_of_how_many_queries(
    tmp_path: Path, name: str, shots: float
) -> None:
    found = tiny_run(tmp_path, name, 0.4)["blood", "icl", shots, 5.0]
    paper_model = "Llama-2 13B" if name in ("II", "III") else "Llama-2 7B"
    assert found.known[:2] == (
        f"tiny, {WEIGHTS}, answered in place of {paper_model}",
        "5 queries were asked and not 112",
    )
    assert FULL not in found.known


@pytest.mark.parametrize("name", ["II", "XII"])
@pytest.mark.parametrize("system", ["icl", "lr", "gnb"])
@pytest.mark.parametrize(("epsilon", "rounded"), [(1.0, True), (50.0, True), (math.inf, False)])
def test_whole_rows_are_rounded_to_nothing_else(
    tmp_path: Path, name: str, system: str, epsilon: float, rounded: bool
) -> None:
    found = tiny_run(tmp_path, name, 0.4)[
        "blood", system, 1.0 if system == "icl" else None, epsilon
    ]
    assert (
        "the estimate is rounded to as many rows as there are, and not up" in found.known
    ) == rounded


@pytest.mark.parametrize(
    ("epsilon", "expected"),
    [
        (1.0, "noise is drawn exactly, and bounds are the contract's"),
        (math.inf, "bounds are the contract's"),
    ],
)
def test_noise_is_no_reason_where_there_is_none(
    tmp_path: Path, epsilon: float, expected: str
) -> None:
    assert tiny_run(tmp_path, "XIII", 0.4)["blood", "icl", 1.0, epsilon].known[-1] == expected


@pytest.mark.parametrize(
    ("queries", "asked", "expected"),
    [(None, 112, ""), (500, 112, ""), (50, 50, "50 queries were asked and not 112")],
)
def test_queries_are_a_reason_only_where_they_are_fewer(
    tmp_path: Path, queries: int | None, asked: int, expected: str
) -> None:
    printed = table("dp-tabicl", "II", "blood")
    rows = rows_of(printed, lambda _: 0.4, queries={"blood": asked}, datasets=("blood",))
    found = verdicts(
        printed,
        side_with(tmp_path, "table-2-as-printed", rows, datasets=["blood"], queries=queries),
    )
    known = found["blood", "icl", 1.0, 1.0].known
    assert [one for one in known if "queries" in one] == ([expected] if expected else [])
    assert not any("in place of" in one for one in known), "the paper's own model answered"


@pytest.mark.parametrize(("value", "kind"), [(0.76, WITHIN), (0.10, DIFFERS)])
def test_a_number_that_agrees_keeps_what_is_known_to_differ(
    tmp_path: Path, value: float, kind: str
) -> None:
    found = judged_cell(
        tmp_path,
        value,
        1000,
        deviation=0.01,
        changed="made otherwise",
        model="other",
        datasets=["blood"],
    )
    assert found.kind == kind and found.known == (
        "other answered in place of Llama-2 13B",
        "made otherwise",
    )
    assert (
        found.text
        == f"{kind}; known to differ: other answered in place of Llama-2 13B; made otherwise"
    )


# --- texts


def texts_run(
    home: Path, name: str, accuracy: float = 0.5, without: str = "", **changes: Any
) -> Side:
    rows = rows_of(
        table("dp-few-shot", name),
        lambda cell: accuracy,
        queries={},
        majority={},
        datasets=SETS_OF_TEXTS,
    )
    return side_with(
        home,
        f"few-shot-table-{name}",
        [one for one in rows if one["system"] != without],
        majority={},
        **changes,
    )


SETS_OF_TEXTS = ("agnews", "dbpedia", "trec", "mit_genre", "mit_director")
SHORT = {"options": {"few_shot_generation": {"max_tokens": 7}}}


@pytest.mark.parametrize(
    ("system", "shots", "epsilon", "expected"),
    [
        ("zero-shot", None, None, ()),
        ("icl", 4.0, 0.0, ("demonstrations have at most 7 tokens",)),
        (
            "icl",
            4.0,
            4.0,
            (
                "1,900 texts of a label are at hand and not 40,000",
                "demonstrations have at most 7 tokens",
                NOISE,
            ),
        ),
        ("random-rows", 4.0, math.inf, ("1,900 texts of a label are at hand and not 40,000",)),
    ],
)
def test_each_way_to_answer_has_its_own_differences(
    tmp_path: Path,
    system: str,
    shots: float | None,
    epsilon: float | None,
    expected: tuple[str, ...],
) -> None:
    contract = SMALL["dbpedia"].model_copy(
        update={"source": SMALL["dbpedia"].source.model_copy(update={"stands_in": None})}
    )
    side = texts_run(tmp_path, "3", model="gpt-3-babbage", **SHORT)
    found = verdicts(
        table("dp-few-shot", "3"), side, "gpt-3-babbage", contracts={"dbpedia": contract}
    )
    of_babbage = [
        one
        for one in found.values()
        if (one.cell.system, one.cell.shots, one.cell.epsilon) == (system, shots, epsilon)
    ]
    assert of_babbage and of_babbage[0].known[1:] == expected, (
        "behind the model, which is another than the last that is printed"
    )


@pytest.mark.parametrize("dataset", SETS_OF_TEXTS)
@pytest.mark.parametrize(("generated", "drawn"), [(0.8, 0.5), (0.5, 0.8)])
def test_without_noise_the_larger_of_two_stands_beside_the_paper_s_larger(
    tmp_path: Path, dataset: str, generated: float, drawn: float
) -> None:
    printed = table("dp-few-shot", "1")
    (cell,) = (one for one in printed.cells if (one.dataset, one.epsilon) == (dataset, math.inf))
    assert cell.larger_of == ("icl", "random-rows") and cell.system == (
        "random-rows" if dataset == "mit_director" else "icl"
    )
    means = {"icl": generated, "random-rows": drawn}
    rows = [
        row(cell.method, system, dataset, seed, 300, mean, shots=4.0, epsilon=math.inf)
        for system, mean in means.items()
        for seed in range(5)
    ]
    side = side_with(tmp_path, "few-shot-table-1", rows, majority={}, datasets=[dataset])
    (found,) = judged(PrintedTable("1", "", (cell,), "few-shot-table-1"), made_with(side))
    larger = max(means, key=means.__getitem__)
    assert found.ours == 0.8
    end = "" if larger == cell.system else ", and the other one in the paper"
    assert (
        f"the larger of two is {'σ = 0' if larger == 'icl' else 'real rows at random'} here{end}"
        in found.known
    )


@pytest.mark.parametrize("lacking", ["icl", "random-rows"])
def test_one_of_two_is_no_larger_of_two(tmp_path: Path, lacking: str) -> None:
    found = verdicts(table("dp-few-shot", "1"), texts_run(tmp_path, "1", without=lacking))
    assert found["mit_director", "random-rows", 4.0, math.inf].kind == NOT_RUN


def test_other_tables_print_both_and_not_the_larger() -> None:
    assert not any(
        cell.larger_of
        for name in ("2", "3", "4", "10")
        for cell in table("dp-few-shot", name).cells
    )


@pytest.mark.parametrize(
    ("system", "epsilon", "expected"),
    [
        (
            "icl",
            1.0,
            ("the embedder is another, and noise is for the true sensitivity of an embedding",),
        ),
        ("icl", math.inf, ("the embedder is another",)),
        ("icl-keywords-joint", 1.0, ()),
        ("zero-shot", None, ()),
    ],
)
def test_the_embedder_is_a_reason_for_embeddings_alone(
    system: str, epsilon: float | None, expected: tuple[str, ...]
) -> None:
    cells = [
        one
        for one in table("dp-icl", "docvqa").cells
        if (one.system, one.epsilon) == (system, epsilon)
    ]
    assert cells and {tuple(filter(None, (one.changed,))) for one in cells} == {expected}


# --- seconds


def timed(
    home: Path, shots: tuple[float, ...], dataset: str = "blood"
) -> dict[float | None, Verdict]:
    rows = [row("gdp_tabicl", "icl", dataset, 0, 10, 0.5, shots=one, epsilon=1.0) for one in shots]
    timings = [
        ("gdp_tabicl", dataset, 0.0, "score", 3.0),
        ("ldp_tabicl", dataset, 0.0, "score", 90.0),
        ("gdp_tabicl", dataset, 0.0, "release", 9.0),
    ]
    side = side_with(
        home,
        "table-3-as-printed",
        rows,
        timings=timings,
        datasets=[dataset],
        shots=list(map(int, shots)),
    )
    return {
        one.cell.shots: one
        for one in judged(table("dp-tabicl", "XI"), made_with(side))
        if one.cell.dataset == dataset
    }


@pytest.mark.parametrize("dataset", ["blood", "adult", "jungle"])
@pytest.mark.parametrize("shots", [1.0, 2.0, 4.0, 8.0])
def test_seconds_are_of_the_shots_that_were_run(tmp_path: Path, dataset: str, shots: float) -> None:
    found = timed(tmp_path, (shots,), dataset)
    assert found[shots].ours == pytest.approx(0.3)
    others = {one: verdict for one, verdict in found.items() if one != shots}
    assert {verdict.kind for verdict in others.values()} == {NOT_RUN} and all(
        math.isnan(verdict.ours) for verdict in others.values()
    )
    assert all(f"shots {one:g} was not chosen" in verdict.text for one, verdict in others.items())


def test_one_time_of_several_shots_is_none_of_each(tmp_path: Path) -> None:
    found = timed(tmp_path, (1.0, 2.0))
    assert (
        found[1.0].text
        == "not run because a run times 1 and 2 shots together; expected one with --shots 1 alone"
    )
    assert {one.kind for one in found.values()} == {NOT_RUN}


# --- stand-ins


def test_a_stand_in_is_named_where_its_numbers_stand(tmp_path: Path) -> None:
    rows = []
    for cell in table("dp-icl", "docvqa").cells:
        answer = row(
            "dp_icl", cell.system, "sroie", 0, 100, math.nan, shots=cell.shots, epsilon=cell.epsilon
        )
        rows.append({**answer, "rouge1": 0.2, "bleu": 0.1, "levenshtein": 0.2})
    side = side_with(tmp_path, "dp-icl-generation", rows, datasets=["sroie"], majority={})
    contract = load_contract(ROOT / "data_contracts" / "texts" / "sroie.yaml")
    made = made_with(side, stand_ins={"docvqa": "sroie"}, contracts={"sroie": contract})
    found = verdicts_of(papers()["dp-icl"], ["docvqa"], made)
    assert all("sroie stands in" in one.known for one in found[0][1]) and not any(
        one.kind == NOT_RUN for one in found[0][1]
    )
    page = to_markdown(page_of(papers()["dp-icl"], found, made))
    below = page.partition("## Table docvqa: ")[2]
    assert (
        "Sroie stands in: receipts of which the company is asked for" in below
        and "in place of DocVQA's questions" in below
    )
    assert "docvqa, llama-2-13b, in whose place sroie stands" in below


@pytest.mark.parametrize("name", ["amazon", "sroie"])
def test_contracts_of_stand_ins_say_so(name: str) -> None:
    assert "in place of" in str(
        load_contract(ROOT / "data_contracts" / "texts" / f"{name}.yaml").source.stands_in
    )


def test_amazon_s_numbers_say_that_they_are_of_the_sister_set(tmp_path: Path) -> None:
    cells = tuple(one for one in table("dp-icl", "classification").cells if one.dataset == "amazon")
    rows = [
        row("dp_icl", one.system, "amazon", 0, 300, 0.9, shots=one.shots, epsilon=one.epsilon)
        for one in cells
    ]
    side = side_with(tmp_path, "dp-icl-classification", rows, datasets=["amazon"], majority={})
    contract = load_contract(ROOT / "data_contracts" / "texts" / "amazon.yaml")
    found = judged(
        PrintedTable("classification", "", cells, "dp-icl-classification"),
        made_with(side, contracts={"amazon": contract}),
    )
    assert all("amazon stands in" in one.known for one in found)


def test_documents_that_nobody_may_hand_on_are_told_of_truly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DPICL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DPICL_DATA", str(tmp_path / "nowhere"))
    monkeypatch.delenv("DPICL_RUNS", raising=False)
    told = said(capsys, "reproduce", "dp-icl", "docvqa", "--dry-run")
    assert (
        "docvqa: not run, because docvqa: no texts at hand" in told
        and "no contract of this name" not in told
    )
    assert "register at https://rrc.cvc.uab.es/?ch=17" in told


# --- mutants


def test_mutant_reasons_of_the_run_are_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault of before: what differs in a run is said of all of its numbers."""
    monkeypatch.setattr("lab.reproduce.known.asks_model", lambda _: True)
    with pytest.raises(AssertionError):
        test_a_classifier_asks_no_model_and_no_fewer_queries(tmp_path, "III", "gnb", 1.0)
    monkeypatch.setattr("lab.reproduce.known._reads_texts", lambda _: True)
    with pytest.raises(AssertionError):
        test_each_way_to_answer_has_its_own_differences(tmp_path, "zero-shot", None, None, ())


def test_mutant_a_number_that_agrees_drops_what_differs_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dropping(*arguments: Any, **named: Any) -> Verdict:
        found = Verdict(*arguments, **named)
        return replace(found, known=()) if found.kind == WITHIN and found.known else found

    monkeypatch.setattr("lab.reproduce.verdicts.Verdict", dropping)
    with pytest.raises(AssertionError):
        test_a_number_that_agrees_keeps_what_is_known_to_differ(tmp_path, 0.76, WITHIN)


def test_mutant_seconds_without_shots_are_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.reproduce.verdicts._seconds", lambda cell, side: 0.3)
    with pytest.raises(AssertionError):
        test_seconds_are_of_the_shots_that_were_run(tmp_path, "blood", 1.0)


def test_mutant_the_wrong_system_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "lab.reproduce.made.results_at",
        lambda cell, side, system=None: results_at(replace(cell, system="icl"), side),
    )
    with pytest.raises(AssertionError):
        test_without_noise_the_larger_of_two_stands_beside_the_paper_s_larger(
            tmp_path, "mit_director", 0.5, 0.8
        )
