"""How released and private artefacts are stored: Parquet, arrays and JSON, never pickle."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dpicl.contract.pipeline import Cell
from dpicl.ground.files import PRIVATE_MODE, read_arrays, read_json, write_arrays, write_json
from dpicl.ground.types import ReleasedRows
from dpicl.home.settings import Settings
from dpicl.methods import on_texts, tabular
from dpicl.methods.grid import points
from dpicl.methods.tabular_method import Released
from dpicl.release.table_files import read_row_groups
from dpicl.runs.client_reports import read_tallies
from dpicl.runs.run_folder import UnitFolder, read_plan
from dpicl.runs.stage import VERDICTS

ROWS = "released_rows.npz"
DRAFTS = "private_drafts.npz"
DRAFTS_APART = "private_drafts/{number:04d}.npz"
MADE = "periods.json"
"""Of a unit that makes a series: a sentence on the periods of each of its horizons."""
PUBLIC_TEXTS = "public_texts.json"
WRITING = "progress"
"""What a model writes from the instruction alone; the progress of every unit whose rows a model
reads, or whose public queries it answers.
"""
PART = ".part"
"""Before the number of a part, in the name of a file of progress."""
ASKED = "queries/{dataset}.parquet"
"""Of a run: the public rows that were asked, as the split has them."""
PROMPTS = "prompts.parquet"
PREDICTIONS = "predictions.parquet"
BASELINES = "baselines.json"
RESULTS = "results.json"
VALUES = "values.parquet"
"""How good the answer to every public query is: a column per cell."""
FORMS = "forms.json"
"""Of released texts, by cell: how many have the form that the contract states, and how many there
are.
"""
LOG_PROBABILITY = "log p: "
"""Before a label: a column of predictions."""


def write_drafts(unit: UnitFolder, drafts: Mapping[str, bytes], name: str = DRAFTS) -> None:
    """What is to be published of a unit, by what it was asked for, or in a file of another name of
    some releases; the first that is written whole stays.
    """
    write_arrays(
        unit.private / name,
        {key: np.frombuffer(draft, np.uint8) for key, draft in drafts.items()},
        mode=PRIVATE_MODE,
    )


def write_text_drafts(unit: UnitFolder, drawn: Mapping[str, Any], name: str = DRAFTS) -> None:
    """The same of what a model drew from private texts."""
    method = on_texts(unit.unit.method)
    write_drafts(
        unit,
        {
            key: json.dumps(method.encode(release), ensure_ascii=False).encode()
            for key, release in drawn.items()
        },
        name,
    )


def read_drafts(unit: UnitFolder) -> dict[str, bytes]:
    """What `write_drafts` wrote, by what it was asked for; nothing where nothing was drafted."""
    files = [
        *unit.private.glob(DRAFTS),
        *unit.private.glob(f"{Path(DRAFTS_APART).parent}/[0-9]*.npz"),
    ]
    return {key: array.tobytes() for file in files for key, array in read_arrays(file).items()}


def gather(unit: UnitFolder, artefacts: Mapping[str, bytes]) -> None:
    """The published releases of a unit in one file: JSON, or arrays where each is one."""
    path = unit.path / unit.method.artefact
    if path.suffix == ".json":
        write_json(path, {key: json.loads(content) for key, content in artefacts.items()})
    else:
        write_arrays(
            path,
            {
                key: np.load(io.BytesIO(content), allow_pickle=False)
                for key, content in artefacts.items()
            },
        )


def gathered(unit: UnitFolder) -> dict[str, bytes]:
    """What `gather` wrote; nothing where no such file is."""
    path = unit.path / unit.method.artefact
    if not path.exists():
        return {}
    if path.suffix == ".json":
        return {key: json.dumps(stored).encode() for key, stored in read_json(path).items()}
    contents: dict[str, bytes] = {}
    for key, array in read_arrays(path).items():
        content = io.BytesIO()
        np.save(content, array, allow_pickle=False)
        contents[key] = content.getvalue()
    return contents


def read_draws(unit: UnitFolder) -> dict[Cell, Any]:
    """The releases of a unit on a table, or the counts of reports that stand in their place."""
    method = tabular(unit.unit.method)
    path = unit.path / unit.method.artefact
    if path.exists() and read_plan(unit.run).pipeline.reports is not None:
        return dict(read_tallies(unit, read_arrays(path)))
    stored = gathered(unit)
    return {
        cell: method.decode(stored[point.key], unit.contract, point)
        for cell, point in points(method, unit.unit).items()
        if point.key in stored
    }


def read_released(unit: UnitFolder) -> Released[Any]:
    """The releases of a unit on a table, and the rows derived from them, as far as they are
    there.
    """
    stored = read_arrays(unit.path / ROWS) if (unit.path / ROWS).exists() else {}
    draws = read_draws(unit)
    return Released(
        draws, {cell: ReleasedRows(stored[cell.key]) for cell in draws if cell.key in stored}
    )


def read_texts(unit: UnitFolder) -> tuple[dict[Cell, Any], dict[Cell, Any]]:
    """The releases of a unit on texts, and the same written without private rows, as far as they
    are there.
    """
    method = on_texts(unit.unit.method)
    public = read_json(unit.path / PUBLIC_TEXTS) if (unit.path / PUBLIC_TEXTS).exists() else {}
    released = {key: json.loads(content) for key, content in gathered(unit).items()}
    return method.read(released, unit.unit), method.read(public, unit.unit)


def stored_prompts(path: Path) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """Prompts in the order of queries, by the key of their cell: one cell after another, as a file
    may hold more than memory does.
    """
    for table in read_row_groups(path):
        start = 0
        for key, rows in groupby(table.column("cell").to_pylist()):
            count = sum(1 for _ in rows)
            yield key, table.column("prompt").slice(start, count)
            start += count


def remove_private(run: Path, settings: Settings) -> None:
    """Delete a finished run's private rows and what was made of them; a run that must go on keeps
    them. Verdicts stay.
    """
    for folder in settings.private_home.glob(f"*/{run.name}"):
        if folder.parent.name != VERDICTS:
            shutil.rmtree(folder, ignore_errors=True)
