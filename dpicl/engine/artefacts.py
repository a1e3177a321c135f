"""How released and private artefacts are stored: Parquet, arrays and JSON, never pickle."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dpicl.engine.batches import Batches
from dpicl.engine.files import PRIVATE_MODE, PUBLIC_MODE, read_arrays, read_json, read_table, write_arrays, write_json, write_table
from dpicl.engine.run_folder import UnitFolder
from dpicl.engine.settings import Settings
from dpicl.methods import on_texts, tabular
from dpicl.methods.common import Cost
from dpicl.methods.tabular_method import Released
from dpicl.pipeline import Cell
from dpicl.types import PrivateTable, QueryTable, ReleasedRows, SplitTable

TRAIN, TEST, ASKED = "private_train.parquet", "queries_test.parquet", "queries_asked.npz"
ROWS, MARKS = "released_rows.npz", "private_marks.npz"
CHARGED, DRAFTS = "to_write.json", "private_drafts.npz"
PUBLIC_TEXTS, WRITING = "public_texts.json", "progress"
"""What a model writes from the instruction alone; how far every unit is whose rows a model reads, for people who wait."""
CANDIDATES = "public_candidates.json"
PROMPTS, PREDICTIONS, BASELINES, RESULTS = "prompts.parquet", "predictions.parquet", "baselines.json", "results.json"


def table_folder(settings: Settings, dataset: str, run: Path) -> Path:
    """Private tables of one data set in one run."""
    return settings.private(dataset, run.name)


def write_split(folder: Path, split: SplitTable, digest: str) -> None:
    """Store the private rows with the digest of their content, and the held-out rows; the positions asked come last."""
    write_table(folder / TRAIN, split.train.data, mode=PRIVATE_MODE)
    write_queries(folder, split.test.data, split.query_positions, digest)


def write_queries(folder: Path, test: pa.Table, asked: np.ndarray, digest: str) -> None:
    """Store the held-out rows, and the digest of the private ones; the positions asked come last."""
    write_table(folder / TEST, test, mode=PRIVATE_MODE)
    write_json(folder / "private_digest.json", digest, mode=PRIVATE_MODE)
    write_arrays(folder / ASKED, {"asked": asked}, mode=PRIVATE_MODE)


def read_content_digest(unit: UnitFolder) -> str:
    """SHA-256 of the private rows, whatever their order: 64 hexadecimal digits, private itself."""
    return str(read_json(table_folder(unit.settings, unit.unit.dataset, unit.run) / "private_digest.json"))


def read_split(unit: UnitFolder) -> SplitTable:
    """The rows of a unit's data set, all in memory."""
    folder, batches = table_folder(unit.settings, unit.unit.dataset, unit.run), Batches.of(unit)
    train = PrivateTable(read_table(folder / TRAIN)) if batches is None else batches.whole_train()
    return SplitTable(train, read_test(unit), read_arrays(folder / ASKED)["asked"])


def read_test(unit: UnitFolder) -> QueryTable:
    """All held-out rows of a unit's data set; reads no private row."""
    return QueryTable(read_table(table_folder(unit.settings, unit.unit.dataset, unit.run) / TEST))


def read_queries(unit: UnitFolder) -> QueryTable:
    """The held-out rows that are put to the model, as `SplitTable.queries` has them; reads no private row."""
    folder = table_folder(unit.settings, unit.unit.dataset, unit.run)
    return QueryTable(read_table(folder / TEST).take(read_arrays(folder / ASKED)["asked"]))


def text_drafts(unit: UnitFolder, drawn: Mapping[Cell, Any]) -> dict[Cell, bytes]:
    """What a model drew from private texts, as it is published."""
    method = on_texts(unit.unit.method)
    return {cell: json.dumps(method.encode(one), ensure_ascii=False).encode() for cell, one in drawn.items()}


def write_drafts(unit: UnitFolder, drafts: Mapping[Cell, bytes]) -> None:
    """What is to be published of a unit; the first that is written whole stays."""
    write_arrays(unit.private / DRAFTS, {cell.key: np.frombuffer(one, np.uint8) for cell, one in drafts.items()}, mode=PRIVATE_MODE)


def read_drafts(unit: UnitFolder) -> dict[str, bytes]:
    """What `write_drafts` wrote, by the cell's key; nothing where nothing was drafted."""
    path = unit.private / DRAFTS
    return {key: one.tobytes() for key, one in read_arrays(path).items()} if path.exists() else {}


def gather(unit: UnitFolder, artefacts: Mapping[Cell, bytes]) -> None:
    """The published releases of a unit in one file: JSON, or arrays where each is one."""
    path = unit.path / unit.method.artefact
    if path.suffix == ".json":
        write_json(path, {cell.key: json.loads(content) for cell, content in artefacts.items()})
    else:
        write_arrays(path, {cell.key: np.load(io.BytesIO(content), allow_pickle=False) for cell, content in artefacts.items()})


def gathered(unit: UnitFolder) -> dict[str, bytes]:
    """What `gather` wrote, by the cell's key; nothing where no such file is."""
    path = unit.path / unit.method.artefact
    if not path.exists():
        return {}
    if path.suffix == ".json":
        return {key: json.dumps(one).encode() for key, one in read_json(path).items()}
    return {key: _array_bytes(one) for key, one in read_arrays(path).items()}


def _array_bytes(array: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    return content.getvalue()


def read_draws(unit: UnitFolder) -> dict[Cell, Any]:
    """The releases of a unit on a table."""
    method, stored = tabular(unit.unit.method), gathered(unit)
    cells = method.releases(unit.contract, unit.unit)
    return {cell: method.decode(stored[cell.key], unit.contract, unit.unit, cell) for cell in cells if cell.key in stored}


def read_released(unit: UnitFolder) -> Released[Any]:
    """The releases of a unit on a table, and the rows derived from them, as far as they are there."""
    stored = read_arrays(unit.path / ROWS) if (unit.path / ROWS).exists() else {}
    draws = read_draws(unit)
    return Released(draws, {cell: ReleasedRows(stored[cell.key]) for cell in draws if cell.key in stored})


def write_rows(unit: UnitFolder, rows: Mapping[Cell, ReleasedRows]) -> None:
    """Rows that were derived from releases."""
    write_arrays(unit.path / ROWS, {cell.key: released.codes for cell, released in rows.items()})


def write_marks(unit: UnitFolder, marks: Mapping[Cell, np.ndarray]) -> None:
    """What `prepare` gave for every row: private."""
    write_arrays(unit.private / MARKS, {cell.key: one for cell, one in marks.items()}, mode=PRIVATE_MODE)


def read_marks(unit: UnitFolder, cells: Sequence[Cell]) -> dict[Cell, np.ndarray]:
    """What `prepare` gave for these releases."""
    stored = read_arrays(unit.private / MARKS)
    return {cell: stored[cell.key] for cell in cells}


def write_texts(unit: UnitFolder, path: Path, drawn: Mapping[Cell, Any]) -> None:
    """What a model wrote, by cell."""
    method = on_texts(unit.unit.method)
    write_json(path, {cell.key: method.encode(one) for cell, one in drawn.items()})


def read_texts(unit: UnitFolder) -> tuple[dict[Cell, Any], dict[Cell, Any]]:
    """The releases of a unit on texts, and the same written without private rows, as far as they are there."""
    method = on_texts(unit.unit.method)
    public = read_json(unit.path / PUBLIC_TEXTS) if (unit.path / PUBLIC_TEXTS).exists() else {}
    released = {key: json.loads(content) for key, content in gathered(unit).items()}
    return method.read(released, unit.unit), method.read(public, unit.unit)


def cost_json(cost: Cost) -> dict[str, Any]:
    """A cost as the manifest states it; infinity as text."""
    nominal = cost.nominal
    return {
        "epsilon": finite(nominal.epsilon),
        "amplified_epsilon": finite(cost.amplified.epsilon) if cost.amplified else None,
        "delta": nominal.delta,
        "neighbours": nominal.neighbours.value,
        "unit": nominal.unit,
    }


def finite(value: float) -> float | str:
    """JSON has no infinity."""
    return "inf" if np.isinf(value) else value


def asked_folder(unit: UnitFolder, *parts: str) -> Path:
    """Where prompts and what is said to them lie: in private where the rows that are asked are, else with what is released."""
    if unit.declared.evaluation != "charged":
        return unit.path.joinpath(*parts)
    return unit.settings.private(unit.unit.dataset, unit.run.name, unit.unit.key, *parts)


def asked_mode(unit: UnitFolder) -> int:
    """Of the files there."""
    return PRIVATE_MODE if unit.declared.evaluation == "charged" else PUBLIC_MODE


def write_prompts(unit: UnitFolder, prompts: dict[Cell, list[str]]) -> None:
    """Prompts of released demonstrations and queries, cell by cell in order; in public an empty table where they are private."""
    cells = [cell.key for cell, texts in prompts.items() for _ in texts]
    texts = [text for cell_texts in prompts.values() for text in cell_texts]
    table = pa.table({"cell": pa.array(cells, pa.string()).dictionary_encode(), "prompt": pa.array(texts, pa.string())})
    write_table(asked_folder(unit) / PROMPTS, table, mode=asked_mode(unit))
    write_table(unit.path / PROMPTS, table.slice(0, 0))


def read_prompts(unit: UnitFolder) -> dict[str, list[str]]:
    """Prompts by cell key, in the order written."""
    table = read_table(asked_folder(unit) / PROMPTS)
    prompts: dict[str, list[str]] = {}
    for key, text in zip(table.column("cell").to_pylist(), table.column("prompt").to_pylist(), strict=True):
        prompts.setdefault(key, []).append(text)
    return prompts


def prompted_cells(unit: UnitFolder) -> list[str]:
    """Keys of the cells that have prompts; the texts are not read."""
    return list(read_table(asked_folder(unit) / PROMPTS, ["cell"]).column("cell").unique().to_pylist())


def write_predictions(path: Path, said: Mapping[Cell, np.ndarray], answered: Mapping[Cell, np.ndarray]) -> None:
    """One row per cell and query with the answer; where there are two labels also their log-probabilities."""
    cells = [cell.key for cell, one in answered.items() for _ in one]
    columns: dict[str, Any] = {
        "cell": pa.array(cells).dictionary_encode(),
        "query": np.concatenate([np.arange(len(one)) for one in answered.values()]),
    }
    scores = [one[: len(answered[cell])] for cell, one in said.items() if one.shape[1:] == (2,)]
    if len(scores) == len(said):
        columns |= {"no": np.concatenate(scores)[:, 0], "yes": np.concatenate(scores)[:, 1]}
    write_table(path, pa.table({**columns, "answer": pa.array(np.concatenate(list(answered.values())))}))


def remove_private(run: Path, settings: Settings) -> None:
    """Delete a finished run's private files; a run that must go on keeps them."""
    for folder in (settings.home / "private").glob(f"*/{run.name}"):
        shutil.rmtree(folder, ignore_errors=True)
