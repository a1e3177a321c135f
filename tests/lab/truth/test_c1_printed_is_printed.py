"""Printed is what is printed: every number of the papers' tables beside the table as its paper sets
it, slips included; slips are a verdict.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dpicl.methods.published import errata, paper_accuracy, table_v
from lab.published import cells, read_table
from lab.published.cells import PrintedCell, papers
from lab.published.noise_cells import table_nine
from lab.reproduce import judged
from lab.reproduce.made import Made
from lab.reproduce.meanings import EQUAL, MISPRINTED, NOT_RUN, WITHIN
from lab.reproduce.page import page_of, summary, verdicts_of
from tests.harness import said
from tests.lab.truth.paper_runs import QUERIES, rows_of, side_with, table, verdicts

QUOTED = Path(__file__).parent / "printed"
"""The papers' tables as they set them, one file each, with `_` or nothing between a mean and its
deviation; lines of numbers, no prose.
"""
Cell = tuple[str, str, float | None, float | None, str, float, float | None]
"""Data set, system, shots, epsilon, metric, number, deviation."""
SET_NAMES = {"MIT-G": "mit_genre", "MIT-D": "mit_director", "SST-2": "sst2"}
NOTHING: Made = Made({}, ("tiny",))


def quoted(name: str) -> list[dict[str, str]]:
    with (QUOTED / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def slug(name: str) -> str:
    return SET_NAMES.get(name, name.lower())


def number(text: str) -> float:
    return math.inf if text.startswith("inf") else float(text)


def llama(name: str) -> Iterator[Cell]:
    """`0.78.01`: a mean of two decimals, and its deviation."""
    systems = {
        "LR*": "lr",
        "GNB*": "gnb",
        "Diffprivlib LR": "lr-naive",
        "Diffprivlib GNB": "gnb-naive",
    }
    for line in quoted(f"dp-tabicl-{name}"):
        for epsilon in ("1", "5", "10", "25", "50", "inf"):
            mean, deviation = line[epsilon][:4], line[epsilon][4:]
            shots = None if line["k"] == "-" else float(line["k"])
            system = systems.get(line["method"], "icl")
            yield (
                slug(line["data set"]),
                system,
                shots,
                number(epsilon),
                "accuracy",
                float(mean),
                float(f"0{deviation}"),
            )


def by_set(name: str, head: str, metric: str, system: str) -> Iterator[Cell]:
    for line in quoted(f"dp-tabicl-{name}"):
        for dataset in list(line)[1:]:
            value = float(line[dataset].partition(" / ")[0])
            shots, epsilon = (
                (float(line[head]), None)
                if head == "k"
                else (None, float(line[head]) if line[head].isdigit() else math.nan)
            )
            if epsilon is None or not math.isnan(epsilon):
                yield slug(dataset), system, shots, epsilon, metric, value, None


def gpt(cell: str) -> tuple[float, float]:
    mean, deviation = cell.split("_")
    return round(float(mean) / 100, 6), round(float(deviation) / 100, 6)


def few_shot_1() -> Iterator[Cell]:
    for line in quoted("dp-few-shot-1"):
        dataset = slug(line["data set"])
        # "(ii) performs better for MIT-D"
        clear = "random-rows" if dataset == "mit_director" else "icl"
        yield dataset, "zero-shot", None, None, "accuracy", *gpt(line["0 (0-shot)"])
        yield dataset, "icl", 4.0, 0.0, "accuracy", *gpt(line["0 (4-shot)"])
        for epsilon in ("1", "2", "4", "8", "inf"):
            yield (
                dataset,
                clear if epsilon == "inf" else "icl",
                4.0,
                number(epsilon),
                "accuracy",
                *gpt(line[epsilon]),
            )


def few_shot_2() -> Iterator[Cell]:
    for line in quoted("dp-few-shot-2"):
        for shots in (1, 2, 4, 8, 12):
            system = "random-rows" if "random" in line["epsilon"] else "icl"
            yield (
                "dbpedia",
                system,
                float(shots),
                number(line["epsilon"].partition(" ")[0]),
                "accuracy",
                *gpt(line[f"{shots}-shot"]),
            )


def few_shot_3() -> Iterator[Cell]:
    heads = {
        "0 (4-shot)": ("icl", 0.0),
        "4": ("icl", 4.0),
        "inf (Alg. 1)": ("icl", math.inf),
        "inf (random)": ("random-rows", math.inf),
    }
    for line in quoted("dp-few-shot-3"):
        yield "dbpedia", "zero-shot", None, None, "accuracy", *gpt(line["0 (0-shot)"])
        for head, (system, epsilon) in heads.items():
            yield "dbpedia", system, 4.0, epsilon, "accuracy", *gpt(line[head])


def few_shot_4() -> Iterator[Cell]:
    for line in quoted("dp-few-shot-4"):
        system = "icl" if line["mechanism"] == "Gaussian" else "icl-exponential"
        for epsilon in ("1", "2", "4", "8"):
            yield "dbpedia", system, 4.0, float(epsilon), "accuracy", *gpt(line[epsilon])


def grid(name: str) -> Iterator[Cell]:
    dataset = {
        "10": "agnews",
        "11": "dbpedia",
        "12": "trec",
        "13": "mit_genre",
        "14": "mit_director",
    }[name]
    for line in quoted(f"dp-few-shot-{name}"):
        for rows in (1, 2, 4):
            system = (
                f"icl-m{int(line['MN']) // rows}n{rows}{'' if line['RVP'] == 'True' else '-all'}"
            )
            yield dataset, system, 4.0, 4.0, "accuracy", *gpt(line[f"N={rows}"])


def few_shot_9() -> Iterator[Cell]:
    for line in quoted("dp-few-shot-9"):
        for epsilon in (1, 2, 4, 8):
            yield (
                slug(line["data set"]),
                f"sigma {float(line[f'sigma {epsilon}']):g}",
                None,
                float(epsilon),
                "epsilon",
                float(epsilon),
                None,
            )


def icl_labels() -> Iterator[Cell]:
    for line in quoted("dp-icl-classification"):
        for epsilon in ("1", "3", "8", "inf"):
            yield (
                slug(line["data set"]),
                "icl",
                4.0,
                number(epsilon),
                "accuracy",
                round(float(line[epsilon]) / 100, 6),
                None,
            )
        yield (
            slug(line["data set"]),
            "zero-shot",
            None,
            None,
            "accuracy",
            round(float(line["0 (0-shot)"]) / 100, 6),
            None,
        )


def icl_documents() -> Iterator[Cell]:
    metrics = {"ROUGE-1": "rouge1", "BLEU": "bleu", "Levenshtein": "levenshtein"}
    for line in quoted("dp-icl-docvqa"):
        system = "icl" if line["method"] == "Embedding" else "icl-keywords-joint"
        for epsilon in ("1", "3", "8", "inf"):
            yield (
                "docvqa",
                system,
                4.0,
                number(epsilon),
                metrics[line["metric"]],
                round(float(line[epsilon]) / 100, 6),
                None,
            )
        yield (
            "docvqa",
            "zero-shot",
            None,
            None,
            metrics[line["metric"]],
            round(float(line["0"]) / 100, 6),
            None,
        )


TABLES = {
    **{("dp-tabicl", name): llama for name in ("II", "III", "XII", "XIII")},
    ("dp-tabicl", "V"): lambda _: by_set("V", "epsilon", "epsilon", ""),
    ("dp-tabicl", "XI"): lambda _: by_set("XI", "k", "seconds", "icl"),
    ("dp-few-shot", "1"): lambda _: few_shot_1(),
    ("dp-few-shot", "2"): lambda _: few_shot_2(),
    ("dp-few-shot", "3"): lambda _: few_shot_3(),
    ("dp-few-shot", "4"): lambda _: few_shot_4(),
    ("dp-few-shot", "9"): lambda _: few_shot_9(),
    **{("dp-few-shot", name): grid for name in ("10", "11", "12", "13", "14")},
    ("dp-icl", "classification"): lambda _: icl_labels(),
    ("dp-icl", "docvqa"): lambda _: icl_documents(),
}


def ours(paper: str, name: str) -> list[Cell]:
    return sorted(map(as_quoted, table(paper, name).cells), key=str)


def as_quoted(cell: PrintedCell) -> Cell:
    deviation = None if cell.deviation is None else round(cell.deviation, 6)
    return (
        cell.dataset,
        cell.system,
        cell.shots,
        cell.epsilon,
        cell.metric,
        round(cell.value, 6),
        deviation,
    )


def theirs(paper: str, name: str) -> list[Cell]:
    found = list(TABLES[paper, name](name))
    # both ways have one row without privacy
    return sorted(dict.fromkeys(found) if name == "docvqa" else found, key=str)


@pytest.mark.parametrize(("paper", "name"), TABLES, ids=lambda one: str(one))
def test_every_number_under_printed_is_the_paper_s(paper: str, name: str) -> None:
    assert ours(paper, name) == theirs(paper, name)


def test_tables_of_other_shapes_are_the_paper_s_too() -> None:
    slugs = {"LDP": "ldp_tabicl", "GDP": "gdp_tabicl"}
    tests = {
        (slugs[line["method"]], slug(dataset), float(line["k"]), float(line[dataset]))
        for line in quoted("dp-tabicl-IV")
        for dataset in list(line)[2:]
    }
    assert (
        tests
        == {
            (cell.method, cell.dataset, cell.shots, cell.value)
            for cell in table("dp-tabicl", "IV").cells
        }
        and len(tests) == 64
    )
    train, test = quoted("dp-tabicl-VI")
    sizes = {
        (row["dataset"], row["train_row_count"], row["query_count"])
        for row in read_table("table-VI")
    }
    assert sizes == {(slug(name), train[name], test[name]) for name in list(train)[1:]}
    hours = {
        (slug(name), line["k"], line[name])
        for line in quoted("dp-tabicl-X")
        for name in list(line)[1:]
    }
    assert hours == {
        (row["dataset"], row["shots"], f"{row['hours']} / {row['kg_co2']}")
        for row in read_table("table-X")
    }
    seconds = {
        (slug(name), line["k"], line[name])
        for line in quoted("dp-tabicl-XI")
        for name in list(line)[1:]
    }
    assert seconds == {
        (row["dataset"], row["shots"], f"{row['seconds']} / {row['grams_co2']}")
        for row in read_table("table-XI")
    }


def test_sizes_under_table_v_and_the_parameters_of_table_9_are_the_paper_s() -> None:
    lines = {line["epsilon"]: line for line in quoted("dp-tabicl-V")}
    for row in table_v():
        name = next(one for one in lines["n"] if slug(one) == row.dataset)
        assert (row.sample_count, row.row_count) == (int(lines["n"][name]), int(lines["N"][name]))
    named = {slug(line["data set"]): line for line in quoted("dp-few-shot-9")}
    for cell in table_nine():
        line = named[cell.dataset]
        printed = (
            int(line["rows"]),
            int(line["M"]),
            int(line["N"]),
            line["RVP"] == "True",
            int(line["T_max"]),
        )
        assert printed == (
            cell.class_row_count,
            cell.subset_count,
            cell.rows_per_subset,
            cell.reduced_vocabulary,
            cell.max_tokens,
        )


def test_what_was_corrected_in_silence_is_quoted_now() -> None:
    """The fifteen: two of V, twelve of XII, one of XI; a report of a run quotes them too."""
    wrong = [
        cell
        for paper in papers().values()
        for one in paper.tables
        for cell in one.cells
        if cell.misprint and cell.misprint.corrected
    ]
    assert len(wrong) == 15 and all(
        cell.value != cell.misprint.corrected for cell in wrong if cell.misprint
    )
    assert paper_accuracy("7b", "ldp_tabicl", "car", "gnb", None, 1) == (0.50, 0.01)
    assert paper_accuracy("7b", "ldp_tabicl", "calhousing", "gnb", None, math.inf) == (0.85, 0.01)
    assert {
        (row.dataset, row.epsilon, row.amplified_epsilon)
        for row in table_v()
        if row.amplified_epsilon != row.corrected
    } == {
        ("calhousing", 5.0, 4.416),
        ("bank", 50.0, 47.370),
    }


@pytest.mark.parametrize(
    ("dataset", "epsilon", "printed", "meant"),
    [("calhousing", 5.0, 4.416, "3.416"), ("bank", 50.0, 47.37, "47.697")],
)
def test_a_misprint_of_arithmetic_is_a_verdict_of_its_own(
    dataset: str, epsilon: float, printed: float, meant: str
) -> None:
    (found,) = (
        one
        for one in judged(table("dp-tabicl", "V"), NOTHING)
        if (one.cell.dataset, one.cell.epsilon) == (dataset, epsilon)
    )
    assert found.kind == MISPRINTED and found.cell.value == printed and f"{found.ours:.3f}" == meant
    assert (
        found.text.startswith("differs because the paper misprints: ln(1 + ")
        and f"equal beside {meant}, which is meant" in found.text
    )


def test_the_page_says_how_many_are_misprinted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DPICL_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DPICL_RUNS", raising=False)
    assert "Of 40 printed numbers 38 are equal and 2 are misprinted." in said(
        capsys, "reproduce", "dp-tabicl", "V"
    )
    page = (tmp_path / "home" / "runs" / "dp-tabicl-V.md").read_text()
    assert (
        "| 4.416 | 3.416 | differs because the paper misprints" in page
        and "| 47.370 | 47.697 | differs because" in page
    )


def test_swapped_baselines_of_table_xii_fit_what_is_meant(tmp_path: Path) -> None:
    """Made-up runs whose naive Bayes comes out as Table II's."""
    printed = table("dp-tabicl", "XII")
    rows = rows_of(printed, lambda cell: cell.misprint.corrected if cell.misprint else cell.value)
    found = verdicts(printed, side_with(tmp_path, "table-2-as-printed", rows), "llama-2-13b")
    apart = [
        found[dataset, "gnb", None, epsilon]
        for dataset in ("car", "calhousing")
        for epsilon in (25.0, 50.0, math.inf)
    ]
    assert {one.kind for one in apart} == {MISPRINTED}
    assert all(
        "within noise beside" in one.text
        and "the rows of car and calhousing are swapped" in one.text
        for one in apart
    )
    near = found["car", "gnb", None, 1.0]
    assert near.kind == WITHIN and near.known[0].startswith("the paper misprints, and means 0.520")


def test_half_of_table_iii_without_noise_gets_no_other_verdict(tmp_path: Path) -> None:
    printed = table("dp-tabicl", "III")
    found = verdicts(
        printed,
        side_with(tmp_path, "table-3-as-printed", rows_of(printed, lambda cell: cell.value)),
    )
    kinds = [
        one.kind
        for one in found.values()
        if one.cell.system == "icl" and one.cell.epsilon == math.inf
    ]
    assert kinds.count(MISPRINTED) == 16
    assert found["blood", "icl", 1.0, math.inf].text.startswith(
        "misprinted: mean and deviation equal Table XIII's, which is another model"
    )


def test_a_misprint_explains_nothing_where_ours_fits_neither_number(tmp_path: Path) -> None:
    printed = table("dp-tabicl", "XII", "car")
    found = verdicts(
        printed, side_with(tmp_path, "table-2-as-printed", rows_of(printed, lambda _: 0.01))
    )
    one = found["car", "gnb", None, 25.0]
    assert (
        one.kind == "differs"
        and not one.reasons
        and one.known[0].startswith("the paper misprints, and means 0.910")
    )


def test_a_misprint_that_was_not_run_is_not_run() -> None:
    found = [one for one in judged(table("dp-tabicl", "XI"), NOTHING) if one.cell.misprint]
    assert [one.kind for one in found] == [NOT_RUN] and found[0].cell.value == 1.11


def test_every_erratum_of_a_number_is_one_of_a_cell() -> None:
    told = {
        cell.misprint.why
        for paper in papers().values()
        for one in paper.tables
        for cell in one.cells
        if cell.misprint
    }
    numbers = [
        one
        for one in errata()
        if one.table in ("III", "V", "XI", "XII") and "CO2" not in one.cell and one.cell != "N"
    ]
    assert told == {one.why for one in numbers}


def test_mutant_a_reference_that_is_edited_until_it_agrees_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fault of before: what is meant stands under `printed`."""

    def edited(one: PrintedCell) -> PrintedCell:
        meant = one.misprint.corrected if one.misprint else None
        return one if meant is None else replace(one, value=meant, misprint=None)

    whole = papers()
    changed = {
        name: replace(
            paper,
            tables=tuple(replace(one, cells=tuple(map(edited, one.cells))) for one in paper.tables),
        )
        for name, paper in whole.items()
    }
    monkeypatch.setattr("tests.lab.truth.paper_runs.papers", lambda: changed)
    caught = [name for paper, name in TABLES if ours(paper, name) != theirs(paper, name)]
    assert caught == ["XII", "V", "XI"]
    found = verdicts_of(changed["dp-tabicl"], ["V"], NOTHING)
    assert summary(found) == "Of 40 printed numbers 40 are equal.", "which is what the page said"


def test_a_page_of_all_tables_can_be_written_without_a_run() -> None:
    for paper in papers().values():
        found = verdicts_of(paper, [one.name for one in paper.tables if one.name != "9"], NOTHING)
        assert page_of(paper, found, NOTHING).sections and {
            one.kind for _, of in found for one in of
        } >= {NOT_RUN}
    assert QUERIES["blood"] == 112 and EQUAL == "equal" and cells.STAND_INS == {"docvqa": "sroie"}
