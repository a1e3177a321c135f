"""What the orchestrator's pages show of a run: released tables and results, as artifacts.

Artifacts are stored in plain by the orchestrator: only released values and counts go in.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

from prefect.artifacts import create_markdown_artifact, create_table_artifact

from dpicl.methods.dp_icl import released_cells, told
from dpicl.methods.few_shot_plan import written_cells
from dpicl.methods.ldp_collection import encoding_of, release_cells
from dpicl.tabular.levels import row_encoding
from tasks.artefacts import ANSWERS, GROUPS, ROWS, TEXTS, read_answers, read_groups, read_rows, read_texts
from tasks.doorway import doorway
from tasks.files import read_json
from tasks.run_folder import UnitFolder, open_unit

MAX_ROWS = 200


def _slug(*parts: str) -> str:
    """Artifact keys hold small letters, digits and dashes only."""
    return "-".join(parts).lower().replace("_", "-").replace(".", "-")


def _show_checks(run: str, dataset: str) -> str:
    rows = read_json(Path(run) / "validation" / f"{dataset}.json")
    create_table_artifact(key=_slug("checks", dataset), table=rows, description=f"Checks of {dataset}: counts, never values")
    return f"{len(rows)} checks"


def _show_release(run: str, unit_key: str) -> str:
    folder = open_unit(run, unit_key)
    rows = _ROWS[folder.unit.method](folder)
    create_table_artifact(key=_slug("released", unit_key), table=rows[:MAX_ROWS], description=f"Released by {unit_key}")
    return f"{len(rows)} released rows"


def _group_rows(folder: UnitFolder) -> list[dict[str, Any]]:
    if not (folder.path / GROUPS).exists():
        return []
    return [
        {"cell": cell.key, "group": " & ".join(group.key), "label": "Yes" if group.label else "No", **group.values}
        for cell, groups in read_groups(folder).items()
        for group in groups.groups
    ]


def _text_rows(folder: UnitFolder) -> list[dict[str, Any]]:
    if not (folder.path / TEXTS).exists():
        return []
    texts = read_texts(folder.path / TEXTS, (cell for cell in written_cells(folder.unit) if cell.epsilon != inf))
    return [{"cell": cell.key, "label": one.label, "text": one.text} for cell, written in texts.items() for one in written]


def _answer_rows(folder: UnitFolder) -> list[dict[str, Any]]:
    answers = read_answers(folder.path / ANSWERS, (cell for cell in released_cells(folder.unit) if cell.epsilon != inf))
    return [
        {"cell": cell.key, "query": number, "answer": told(folder.texts, one)}
        for cell, found in answers.items()
        for number, one in enumerate(found)
    ]


def _marginal_rows(folder: UnitFolder) -> list[dict[str, Any]]:
    """Share of every level among the reconstructed rows."""
    if not (folder.path / ROWS).exists():
        return []
    ways = release_cells(folder.unit) if folder.unit.method == "ldp_tabicl" else {}
    return [
        {"cell": cell.key, "attribute": name, "level": level, "share": round(float((levels[:, i] == level).mean()), 4)}
        for cell, rows in read_rows(folder).items()
        for encoding in [encoding_of(folder.contract, ways[cell]) if ways else row_encoding(folder.contract)]
        for levels in [encoding.decode(rows.codes)]
        for i, (name, count) in enumerate(zip(encoding.names, encoding.level_counts, strict=True))
        for level in range(count)
    ]


_ROWS: dict[str, Callable[[UnitFolder], list[dict[str, Any]]]] = {
    "ldp_tabicl": _marginal_rows,
    "gdp_tabicl": _group_rows,
    "mst_tabicl": _marginal_rows,
    "few_shot_generation": _text_rows,
    "dp_icl": _answer_rows,
}


def _show_results(run: str) -> str:
    with (Path(run) / "results.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    name = Path(run).name
    create_table_artifact(key=_slug("results", name)[:200], table=rows[:2000], description=f"Results of {name}")
    report = Path(run) / "report.md"
    if report.exists():
        create_markdown_artifact(key=_slug("report", name)[:200], markdown=report.read_text("utf-8"), description=f"Report of {name}")
    return f"{len(rows)} results"


show_checks = doorway("show checks", "show checks {dataset}", _show_checks)
show_release = doorway("show release", "show release {unit_key}", _show_release)
show_results = doorway("show results", "show results", _show_results)
