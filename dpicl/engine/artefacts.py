"""How released and private artefacts are stored: Parquet, arrays and JSON, never pickle."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dpicl.engine.batches import Batches
from dpicl.engine.files import PRIVATE_MODE, PUBLIC_MODE, read_arrays, read_json, read_table, write_arrays, write_json, write_table
from dpicl.engine.run_folder import UnitFolder
from dpicl.engine.settings import Settings
from dpicl.methods import mst_tabicl
from dpicl.methods.common import Cost, asked_epsilon
from dpicl.methods.dp_icl import Released
from dpicl.methods.ldp_collection import Collected, read_collected, release_cells
from dpicl.pipeline import Cell, Unit, wired
from dpicl.tabular.spanning_tree import NoisyMarginal
from dpicl.types import Demonstration, PrivateTable, QueryTable, ReleasedGroup, ReleasedGroups, ReleasedRows, SplitTable

TRAIN, TEST, ASKED = "private_train.parquet", "queries_test.parquet", "queries_asked.npz"
REPORTS, ROWS, MEMBERS, GROUPS = "released_reports.npz", "released_rows.npz", "private_members.npz", "released_groups.json"
COUNTS = "released_counts.json"
TO_WRITE, DRAFTS, TEXTS = "to_write.json", "private_drafts.json", "released_texts.json"
PUBLIC_TEXTS, WRITING = "public_texts.json", "progress"
"""What a model writes from the instruction alone; how far every unit is whose rows a model reads, for people who wait."""
CANDIDATES, ANSWERS = "public_candidates.json", "released_answers.json"
PROMPTS, PREDICTIONS, BASELINES, RESULTS = "prompts.parquet", "predictions.parquet", "baselines.json", "results.json"


def table_folder(settings: Settings, dataset: str, run: Path) -> Path:
    """Private tables of one data set in one run."""
    return settings.private(dataset, run.name)


def write_split(folder: Path, split: SplitTable, digest: str) -> None:
    """Store the private rows with the digest of their content, and the held-out rows; the positions asked come last."""
    write_table(folder / TRAIN, split.train.data, mode=PRIVATE_MODE)
    write_queries(folder, split.test.data, split.asked, digest)


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


def reports_bytes(collected: Collected) -> bytes:
    """What was collected at one epsilon, as an artefact."""
    content = io.BytesIO()
    np.save(content, collected.stored, allow_pickle=False)
    return content.getvalue()


def write_reports(unit: UnitFolder, artefacts: Mapping[Cell, bytes]) -> None:
    """The published reports of every collection, gathered in one file."""
    codes = {cell.key: np.load(io.BytesIO(content), allow_pickle=False) for cell, content in artefacts.items()}
    write_arrays(unit.path / REPORTS, codes)


def read_collections(unit: UnitFolder) -> dict[Cell, Collected]:
    """The clients' reports, with the public laws they were drawn from."""
    stored, cells = read_arrays(unit.path / REPORTS), release_cells(unit.unit)
    return {cell: read_collected(stored[cell.key], unit.contract, chosen, asked_epsilon(cell)) for cell, chosen in cells.items()}


def write_rows(unit: UnitFolder, rows: Mapping[Cell, ReleasedRows]) -> None:
    """Reconstructed rows of every collection."""
    write_arrays(unit.path / ROWS, {cell.key: released.codes for cell, released in rows.items()})


_ROWS_OF: dict[str, Callable[[Unit], Iterable[Cell]]] = {"ldp_tabicl": release_cells, "mst_tabicl": mst_tabicl.release_cells}
"""The cells that rows are reconstructed for."""


def read_rows(unit: UnitFolder) -> dict[Cell, ReleasedRows]:
    """Reconstructed rows of every collection or release."""
    stored = read_arrays(unit.path / ROWS)
    return {cell: ReleasedRows(stored[cell.key]) for cell in wired(_ROWS_OF, unit.unit.method, __name__)(unit.unit)}


def counts_bytes(marginals: Sequence[NoisyMarginal]) -> bytes:
    """One release's noisy counts, as an artefact."""
    rows = [{"columns": list(one.columns), "counts": one.counts.tolist(), "scale": one.scale} for one in marginals]
    return json.dumps(rows, allow_nan=False).encode()


def write_counts(unit: UnitFolder, artefacts: Mapping[Cell, bytes]) -> None:
    """The published counts of every release, gathered in one file."""
    write_json(unit.path / COUNTS, {cell.key: json.loads(content) for cell, content in artefacts.items()})


def read_counts(unit: UnitFolder) -> dict[Cell, list[NoisyMarginal]]:
    """Noisy counts by release."""
    stored = read_json(unit.path / COUNTS)
    return {cell: [_marginal(one) for one in stored[cell.key]] for cell in mst_tabicl.release_cells(unit.unit)}


def _marginal(stored: Mapping[str, Any]) -> NoisyMarginal:
    return NoisyMarginal(tuple(stored["columns"]), np.array(stored["counts"]), stored["scale"])


def write_members(unit: UnitFolder, members: dict[Cell, np.ndarray]) -> None:
    """Which row fell into which group of which cell: private."""
    write_arrays(unit.private / MEMBERS, {cell.key: numbers for cell, numbers in members.items()}, mode=PRIVATE_MODE)


def read_members(unit: UnitFolder, cells: Sequence[Cell]) -> dict[Cell, np.ndarray]:
    """Group numbers of these cells."""
    stored = read_arrays(unit.private / MEMBERS)
    return {cell: stored[cell.key] for cell in cells}


def groups_bytes(groups: ReleasedGroups) -> bytes:
    """One cell's noisy averages, as an artefact."""
    return json.dumps([_group_json(group) for group in groups.groups], allow_nan=False).encode()


def write_groups(unit: UnitFolder, artefacts: Mapping[Cell, bytes]) -> None:
    """The published averages of every cell, gathered in one file."""
    write_json(unit.path / GROUPS, {cell.key: json.loads(content) for cell, content in artefacts.items()})


def _group_json(group: ReleasedGroup) -> dict[str, Any]:
    return {"key": list(group.key), "values": dict(group.values), "label": group.label}


def read_groups(unit: UnitFolder) -> dict[Cell, ReleasedGroups]:
    """Noisy averages by cell."""
    stored = read_json(unit.path / GROUPS)
    return {cell: ReleasedGroups(tuple(_group(item) for item in stored[cell.key])) for cell in unit.unit.cells("icl")}


def _group(item: dict[str, Any]) -> ReleasedGroup:
    return ReleasedGroup(tuple(item["key"]), item["values"], item["label"])


def write_texts(path: Path, texts: Mapping[Cell, Sequence[Demonstration]], *, mode: int = PUBLIC_MODE) -> None:
    """Texts with their labels, by cell."""
    stored = {cell.key: [{"label": one.label, "text": one.text} for one in demonstrations] for cell, demonstrations in texts.items()}
    write_json(path, stored, mode=mode)


def read_texts(path: Path, cells: Iterable[Cell]) -> dict[Cell, tuple[Demonstration, ...]]:
    """The texts of these cells, as far as they are there."""
    stored = read_json(path)
    return {cell: tuple(Demonstration(one["label"], one["text"]) for one in stored[cell.key]) for cell in cells if cell.key in stored}


def read_answers(path: Path, cells: Iterable[Cell]) -> Released:
    """The answers of these cells, as far as they are there; none where no such file is."""
    stored = read_json(path) if path.exists() else {}
    return {cell: stored[cell.key] for cell in cells if cell.key in stored}


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
