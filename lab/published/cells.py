"""Every number that the three papers print and that a run can be put beside, table by table, and
the pipeline that runs each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from dpicl.methods.published import ACCURACY_TABLES, errata, table_v
from lab.published import read_table
from lab.published.noise_cells import table_nine

_LLAMA = {"13b": "Llama-2 13B", "7b": "Llama-2 7B"}
_BABBAGE = "GPT-3 Babbage"
_SETTING = {"ldp_tabicl": "", "gdp_tabicl": "-naive"}
"""How our results call the classifiers as the paper fitted them."""
FITTED = ("lr", "gnb", "lr-naive", "gnb-naive")
"""Classifiers that the paper puts beside its answers: they ask no language model."""
ALL_SETS = "all data sets"
STAND_INS = {"docvqa": "sroie"}
"""{data set of a paper that not everybody may have: the one that is run in its place}; the contract
of this one says how it differs.
"""
_DP_ICL = {
    "": "zero-shot",
    "votes": "icl",
    "embedding": "icl",
    "keywords": "icl-keywords-joint",
    "few-shot": "few-shot",
}
"""By aggregation: the system of `dp-icl-classification` and `dp-icl-generation`."""


@dataclass(frozen=True)
class Misprint:
    """Why a printed number is not what the paper means, and what is, where that can be shown."""

    why: str
    corrected: float | None = None
    deviation: float | None = None


@dataclass(frozen=True)
class PrintedCell:
    """One number of a paper as printed, by what names the same cell in results; epsilon and shots
    are None where a cell has none.
    """

    model: str
    method: str
    dataset: str
    system: str
    shots: float | None
    epsilon: float | None
    metric: str
    value: float
    deviation: float | None = None
    """Over five runs, of those that the paper prints."""
    misprint: Misprint | None = None
    changed: str = ""
    """What is made differently here on purpose, as far as it bears on this number."""
    larger_of: tuple[str, ...] = ()
    """Systems, of which the paper prints the larger number; `system` is the one that it says this
    is.
    """


@dataclass(frozen=True)
class PrintedTable:
    """One table: what is in it, and the pipeline that runs it, none where it is arithmetic, or
    compares runs.
    """

    name: str
    title: str
    cells: tuple[PrintedCell, ...]
    pipeline: str | None = None


@dataclass(frozen=True)
class Paper:
    """A paper by its short name, and its tables in their order."""

    name: str
    title: str
    tables: tuple[PrintedTable, ...]


@cache
def papers() -> dict[str, Paper]:
    """The papers by the names that `dpicl reproduce` knows them by."""
    found = (
        Paper("dp-tabicl", "DP-TabICL, arXiv 2403.05681", tuple(_dp_tabicl())),
        Paper("dp-few-shot", "DP few-shot generation, arXiv 2309.11765", tuple(_dp_few_shot())),
        Paper("dp-icl", "DP-ICL, arXiv 2305.01639", tuple(_dp_icl())),
    )
    return {paper.name: paper for paper in found}


def _dp_tabicl() -> Iterator[PrintedTable]:
    pipelines = {"ldp_tabicl": "table-2-as-printed", "gdp_tabicl": "table-3-as-printed"}
    titles = {
        "II": "accuracy, LDP",
        "III": "accuracy, GDP",
        "XII": "accuracy, LDP",
        "XIII": "accuracy, GDP",
    }
    for (model, method), table in ACCURACY_TABLES.items():
        cells = tuple(_of_llama(row, table) for row in read_table(f"table-{table}"))
        yield PrintedTable(table, f"{titles[table]}, {_LLAMA[model]}", cells, pipelines[method])
    both = f"{_LLAMA['7b']} and {_LLAMA['13b']}"
    tests = (
        PrintedCell(
            both,
            row["method"],
            row["dataset"],
            "icl",
            float(row["shots"]),
            None,
            "p",
            float(row["p"]),
        )
        for row in read_table("table-IV")
    )
    yield PrintedTable("IV", f"paired t-tests of {both}, over epsilons", tuple(tests))
    against = (
        PrintedCell(_LLAMA["13b"], "ldp_tabicl", ALL_SETS, system, 1.0, 1.0, "p", p)
        for system, p in (("lr", 0.02), ("gnb", 0.01))
    )
    yield PrintedTable(
        "V-F1",
        "one-tailed paired t-tests against baselines, over data sets",
        tuple(against),
        "table-2-as-printed",
    )
    yield PrintedTable("V", "epsilon after amplification by subsampling", tuple(_amplified()))
    counted = (
        PrintedCell(
            "",
            "gdp_tabicl",
            row["dataset"],
            "zero-shot",
            None,
            None,
            "queries",
            float(row["query_count"]),
        )
        for row in read_table("table-VI")
    )
    yield PrintedTable("VI", "numbers of queries", tuple(counted), "table-3-as-printed")
    yield PrintedTable("XI", "seconds of an answer", tuple(_seconds()), "table-3-as-printed")


def _of_llama(row: dict[str, str], table: str) -> PrintedCell:
    """One accuracy of DP-TabICL: its misprint, and what is made differently where it bears on
    it.
    """
    cell = _accuracy(row, _LLAMA[row["model"]], _SETTING[row["method"]])
    misprint, changed = None, ""
    if row.get("mean_corrected"):
        misprint = Misprint(
            _why(table, cell.dataset, "GNB*, every epsilon"),
            float(row["mean_corrected"]),
            float(row["std_corrected"]),
        )
    elif table == "III" and _without_noise(row) in {
        _without_noise(other) for other in read_table("table-XIII")
    } - {None}:
        misprint = Misprint(_why("III", "", "GDP-TabICL, epsilon = inf, 16 of 32 cells"))
    if cell.system.endswith("-naive"):
        changed = (
            "fitted on the subsample, as the authors' program does, where the paper says the full "
            "training set"
        )
    elif cell.method == "ldp_tabicl":
        # without noise the estimate is of whole rows, and nothing is rounded
        changed = (
            "the estimate is rounded to as many rows as there are, and not up"
            if cell.epsilon != math.inf
            else ""
        )
    elif cell.epsilon != math.inf:
        changed = "noise is drawn exactly, and bounds are the contract's"
    else:
        changed = "bounds are the contract's"
    return replace(cell, misprint=misprint, changed=changed)


def _without_noise(row: dict[str, str]) -> tuple[str, ...] | None:
    """What names an answer without noise, and its number; None of any other cell."""
    clear = row["system"] == "icl" and row["epsilon"] == "inf"
    return tuple(row[name] for name in ("dataset", "shots", "mean", "std")) if clear else None


def _amplified() -> Iterator[PrintedCell]:
    for row in table_v():
        printed, corrected, misprint = row.amplified_epsilon, row.corrected, None
        if corrected != printed:
            misprint = Misprint(_why("V", row.dataset, f"epsilon = {row.epsilon:g}"), corrected)
        yield PrintedCell(
            "",
            "gdp_tabicl",
            row.dataset,
            "",
            None,
            row.epsilon,
            "epsilon",
            printed,
            misprint=misprint,
        )


def _seconds() -> Iterator[PrintedCell]:
    changed = "measured on other hardware, prompts without demonstrations among them"
    for row in read_table("table-XI"):
        cell = (
            _LLAMA["13b"],
            "gdp_tabicl",
            row["dataset"],
            "icl",
            float(row["shots"]),
            None,
            "seconds",
            float(row["seconds"]),
        )
        misprint = None
        if row["seconds_corrected"]:
            misprint = Misprint(
                _why("XI", row["dataset"], f"k = {row['shots']}, seconds"),
                float(row["seconds_corrected"]),
            )
        yield PrintedCell(*cell, misprint=misprint, changed=changed)


def _why(table: str, dataset: str, cell: str) -> str:
    """What the list of errata says of a cell."""
    (why,) = (
        one.why for one in errata() if (one.table, one.dataset, one.cell) == (table, dataset, cell)
    )
    return why


def _accuracy(row: dict[str, str], model: str, fitted: str = "") -> PrintedCell:
    shots, epsilon = (float(row[name]) if row[name] else None for name in ("shots", "epsilon"))
    system = (
        row["system"]
        if row["system"] in ("icl", "zero-shot", "random-rows")
        else row["system"] + fitted
    )
    if system == "zero-shot":
        shots = epsilon = None
    if row.get("mechanism") == "exponential":
        system = "icl-exponential"
    method = row.get("method", "few_shot_generation")
    return PrintedCell(
        model,
        method,
        row["dataset"],
        system,
        shots,
        epsilon,
        "accuracy",
        float(row["mean"]),
        float(row["std"]),
    )


_DRAWN = "which rows vote is drawn from secret randomness"
_NOISED = f"{_DRAWN}, and noise is for the rows at hand"


def _of_gpt(cell: PrintedCell, *, larger: bool = False) -> PrintedCell:
    """With what is made differently where private rows vote; `larger` in the table that prints the
    larger of two without noise.
    """
    votes = cell.system.startswith("icl") and cell.epsilon != 0
    changed = "" if not votes else _DRAWN if cell.epsilon == math.inf else _NOISED
    return replace(
        cell,
        changed=changed,
        larger_of=("icl", "random-rows") if larger and cell.epsilon == math.inf else (),
    )


def _dp_few_shot() -> Iterator[PrintedTable]:
    titles = {
        "1": "accuracy by epsilon",
        "2": "accuracy by number of shots",
        "3": "accuracy by model",
        "4": "two kinds of noise",
    }
    for table, title in titles.items():
        rows = read_table(f"few-shot-table-{table}")
        cells = tuple(
            _of_gpt(
                _accuracy(row, f"GPT-3 {row.get('model', 'babbage').title()}"), larger=table == "1"
            )
            for row in rows
        )
        yield PrintedTable(table, title, cells, f"few-shot-table-{table}")
    priced = (
        PrintedCell(
            "",
            "few_shot_generation",
            row.dataset,
            f"sigma {row.sigma:g}",
            None,
            row.epsilon,
            "epsilon",
            row.epsilon,
        )
        for row in table_nine()
    )
    yield PrintedTable("9", "epsilon that the printed noise is for", tuple(priced))
    grids: dict[str, list[PrintedCell]] = {}
    for row in read_table("few-shot-tables-10-14"):
        size = f"m{row['subset_count']}n{row['rows_per_subset']}{'' if row['reduced_vocabulary'] == 'yes' else '-all'}"  # noqa: E501
        cell = (
            float(row["shots"]),
            float(row["epsilon"]),
            "accuracy",
            float(row["mean"]),
            float(row["std"]),
        )
        named = PrintedCell(_BABBAGE, "few_shot_generation", row["dataset"], f"icl-{size}", *cell)
        grids.setdefault(row["table"], []).append(_of_gpt(named))
    for table, grid in grids.items():
        yield PrintedTable(
            table,
            f"subsets and rows in each, {grid[0].dataset}",
            tuple(grid),
            "few-shot-tables-10-14",
        )


def _dp_icl() -> Iterator[PrintedTable]:
    found = {
        "classification": ("accuracy of labels", "dp-icl-classification"),
        "docvqa": ("answers about documents", "dp-icl-generation"),
        "samsum": ("summaries of dialogues", "dp-icl-generation"),
    }
    for name, (title, pipeline) in found.items():
        yield PrintedTable(
            name, title, tuple(_of_ensemble(row) for row in read_table(f"dp-icl-{name}")), pipeline
        )


def _of_ensemble(row: dict[str, str]) -> PrintedCell:
    system = _DP_ICL[row["aggregation"]]
    shots, epsilon = (
        (None, None)
        if system == "zero-shot"
        else (4.0, math.inf if system == "few-shot" else float(row["epsilon"]))
    )
    changed = ""
    if row["metric"] == "accuracy":
        changed = "answers are calibrated by texts without content, each prompt's by its own"
    if row["aggregation"] == "embedding":
        changed = "the embedder is another" + (
            "" if epsilon == math.inf else ", and noise is for the true sensitivity of an embedding"
        )
    model = f"GPT-3 {row['model'].title()}".strip()
    return PrintedCell(
        model,
        "dp_icl",
        row["dataset"],
        system,
        shots,
        epsilon,
        row["metric"],
        float(row["value"]),
        changed=changed,
    )
