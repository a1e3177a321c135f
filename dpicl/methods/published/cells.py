"""Every number that the three papers print and that a run can be put beside, table by table, and the pipeline that runs each."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from dpicl.methods.published import ACCURACY_TABLES, read_table, table_v
from dpicl.methods.published.noise_cells import table_nine

_LLAMA = {"13b": "Llama-2 13B", "7b": "Llama-2 7B"}
_BABBAGE = "GPT-3 Babbage"
_FITTED = {"ldp_tabicl": "", "gdp_tabicl": "-naive"}
"""How our results call the classifiers as the paper fitted them."""
ALL_SETS = "all data sets"
_DP_ICL = {"": "zero-shot", "votes": "icl", "embedding": "icl", "keywords": "icl-keywords-joint", "few-shot": "few-shot"}
"""By aggregation: the system of `dp-icl-classification` and `dp-icl-generation`."""


@dataclass(frozen=True)
class PrintedCell:
    """One number of a paper, by what names the same cell in results; epsilon and shots are None where a cell has none."""

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


@dataclass(frozen=True)
class PrintedTable:
    """One table: what is in it, the pipeline that runs it (none where it is arithmetic, or compares runs), and what is changed by purpose."""

    name: str
    title: str
    cells: tuple[PrintedCell, ...]
    pipeline: str | None = None
    changed: str = ""


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


@cache
def slips() -> frozenset[PrintedCell]:
    """Cells of Table III without noise that equal Table XIII's, which is another model: what its own were cannot be recovered."""
    tables = {table.name: table.cells for table in papers()["dp-tabicl"].tables}
    other = {(cell.dataset, cell.shots): (cell.value, cell.deviation) for cell in tables["XIII"] if _is_clear(cell)}
    return frozenset(cell for cell in tables["III"] if _is_clear(cell) and other[cell.dataset, cell.shots] == (cell.value, cell.deviation))


def _is_clear(cell: PrintedCell) -> bool:
    return cell.system == "icl" and cell.epsilon == math.inf


def _dp_tabicl() -> Iterator[PrintedTable]:
    local = "the estimate is rounded to as many rows as there are, and not up"
    central = "noise is drawn exactly, and bounds are the contract's"
    pipelines = {"ldp_tabicl": ("table-2-as-printed", local), "gdp_tabicl": ("table-3-as-printed", central)}
    order = {"II": "accuracy, LDP", "III": "accuracy, GDP", "XII": "accuracy, LDP", "XIII": "accuracy, GDP"}
    for (model, method), table in ACCURACY_TABLES.items():
        cells = tuple(_accuracy(row, _LLAMA[model], _FITTED[method]) for row in read_table(f"table-{table}"))
        yield PrintedTable(table, f"{order[table]}, {_LLAMA[model]}", cells, *pipelines[method])
    both = f"{_LLAMA['7b']} and {_LLAMA['13b']}"
    tests = (
        PrintedCell(both, row["method"], row["dataset"], "icl", float(row["shots"]), None, "p", float(row["p"]))
        for row in read_table("table-IV")
    )
    yield PrintedTable("IV", f"paired t-tests of {both}, over epsilons", tuple(tests))
    against = (PrintedCell(_LLAMA["13b"], "ldp_tabicl", ALL_SETS, system, 1.0, 1.0, "p", p) for system, p in (("lr", 0.02), ("gnb", 0.01)))
    yield PrintedTable("V-F1", "one-tailed paired t-tests against baselines, over data sets", tuple(against), "table-2-as-printed")
    amplified = (PrintedCell("", "gdp_tabicl", one.dataset, "", None, one.epsilon, "epsilon", one.amplified_epsilon) for one in table_v())
    yield PrintedTable("V", "epsilon after amplification by subsampling, misprints corrected", tuple(amplified))
    asked = (
        PrintedCell("", "gdp_tabicl", row["dataset"], "zero-shot", None, None, "queries", float(row["query_count"]))
        for row in read_table("table-VI")
    )
    yield PrintedTable("VI", "numbers of queries", tuple(asked), "table-3-as-printed")
    spent = (
        PrintedCell(_LLAMA["13b"], "gdp_tabicl", row["dataset"], "icl", float(row["shots"]), None, "seconds", float(row["seconds"]))
        for row in read_table("table-XI")
    )
    yield PrintedTable(
        "XI", "seconds of an answer", tuple(spent), "table-3-as-printed", "measured on other hardware, over all shots together"
    )


def _accuracy(row: dict[str, str], model: str, fitted: str = "") -> PrintedCell:
    shots, epsilon = (float(row[name]) if row[name] else None for name in ("shots", "epsilon"))
    system = row["system"] if row["system"] in ("icl", "zero-shot", "random-rows") else row["system"] + fitted
    if system == "zero-shot":
        shots = epsilon = None
    if row.get("mechanism") == "exponential":
        system = "icl-exponential"
    method = row.get("method", "few_shot_generation")
    return PrintedCell(model, method, row["dataset"], system, shots, epsilon, "accuracy", float(row["mean"]), float(row["std"]))


def _dp_few_shot() -> Iterator[PrintedTable]:
    drawn = "which rows vote is drawn from secret randomness, and noise is for the rows at hand"
    titles = {"1": "accuracy by epsilon", "2": "accuracy by number of shots", "3": "accuracy by model", "4": "two kinds of noise"}
    for table, title in titles.items():
        cells = tuple(_accuracy(row, f"GPT-3 {row.get('model', 'babbage').title()}") for row in read_table(f"few-shot-table-{table}"))
        yield PrintedTable(table, title, cells, f"few-shot-table-{table}", drawn)
    priced = (
        PrintedCell("", "few_shot_generation", one.dataset, f"sigma {one.sigma:g}", None, one.epsilon, "epsilon", one.epsilon)
        for one in table_nine()
    )
    yield PrintedTable("9", "epsilon that the printed noise is for", tuple(priced))
    grids: dict[str, list[PrintedCell]] = {}
    for row in read_table("few-shot-tables-10-14"):
        size = f"m{row['subset_count']}n{row['rows_per_subset']}{'' if row['reduced_vocabulary'] == 'yes' else '-all'}"
        cell = (float(row["shots"]), float(row["epsilon"]), "accuracy", float(row["mean"]), float(row["std"]))
        grids.setdefault(row["table"], []).append(PrintedCell(_BABBAGE, "few_shot_generation", row["dataset"], f"icl-{size}", *cell))
    for table, grid in grids.items():
        yield PrintedTable(table, f"subsets and rows in each, {grid[0].dataset}", tuple(grid), "few-shot-tables-10-14", drawn)


def _dp_icl() -> Iterator[PrintedTable]:
    found = {
        "classification": ("accuracy of labels", "dp-icl-classification", ""),
        "docvqa": ("answers about documents", "dp-icl-generation", "noise is for the true sensitivity of an embedding"),
        "samsum": ("summaries of dialogues", "dp-icl-generation", "noise is for the true sensitivity of an embedding"),
    }
    for name, (title, pipeline, changed) in found.items():
        cells = []
        for row in read_table(f"dp-icl-{name}"):
            system = _DP_ICL[row["aggregation"]]
            shots, epsilon = (None, None) if system == "zero-shot" else (4.0, math.inf if system == "few-shot" else float(row["epsilon"]))
            model = f"GPT-3 {row['model'].title()}".strip()
            cells.append(PrintedCell(model, "dp_icl", row["dataset"], system, shots, epsilon, row["metric"], float(row["value"])))
        yield PrintedTable(name, title, tuple(cells), pipeline, changed)
