"""Serialisation: released values and queries become prompts."""

from __future__ import annotations

from collections.abc import Callable

from dpicl.methods import METHODS, dp_icl, few_shot_generation, gdp_tabicl, ldp_tabicl, mst_tabicl, text_answers
from dpicl.methods.common import draws_for
from dpicl.methods.dp_icl import told
from dpicl.methods.tabular_answers import with_content_free
from dpicl.pipeline import Cell, wired
from dpicl.text.prompts import asking_demonstration
from tasks.artefacts import (
    ANSWERS,
    PROMPTS,
    PUBLIC_TEXTS,
    TEXTS,
    read_answers,
    read_collections,
    read_groups,
    read_queries,
    read_rows,
    read_split,
    read_texts,
    write_prompts,
)
from tasks.doorway import unit_stage
from tasks.files import write_json
from tasks.run_folder import UnitFolder

EXAMPLES = 3
"""Answers of an ensemble that are shown."""
Serialised = tuple[dict[Cell, list[str]], dict[str, list[str]]]
"""Prompts by cell, and an example of demonstrations by the cell's key."""


@unit_stage("serialize", PROMPTS)
def serialize(folder: UnitFolder) -> str:
    """Write the prompts of every cell, and one example of its demonstrations."""
    prompts, examples = wired(_SERIALISE, folder.unit.method, __name__)(folder)
    write_json(folder.path / "demonstrations.json", examples)
    write_prompts(folder, prompts)
    return f"{sum(map(len, prompts.values()))} prompts in {len(prompts)} cells"


def _ldp(folder: UnitFolder) -> Serialised:
    draws, queries = draws_for(folder.contract, folder.unit.seed), read_queries(folder)
    collected = read_collections(folder)
    return _tabular(folder, ldp_tabicl.serialise(read_rows(folder), collected, queries, folder.contract, folder.unit, draws))


def _gdp(folder: UnitFolder) -> Serialised:
    return _tabular(folder, gdp_tabicl.serialise(read_groups(folder), read_queries(folder), folder.contract))


def _mst(folder: UnitFolder) -> Serialised:
    draws, queries = draws_for(folder.contract, folder.unit.seed), read_queries(folder)
    return _tabular(folder, mst_tabicl.serialise(read_rows(folder), queries, folder.contract, folder.unit, draws))


def _tabular(folder: UnitFolder, prompts: dict[Cell, list[str]]) -> Serialised:
    examples = {cell.key: texts[0].split("\n")[:-1] for cell, texts in prompts.items() if cell.system == "icl"}
    return with_content_free(prompts, folder.contract, folder.unit), examples


def _few_shot(folder: UnitFolder) -> Serialised:
    split, contract, unit = read_split(folder), folder.texts, folder.unit
    released = read_texts(folder.path / TEXTS, few_shot_generation.written_cells(unit))
    written = {**released, **read_texts(folder.path / PUBLIC_TEXTS, unit.asked_cells())}
    shown = {cell: text_answers.shown(demonstrations, contract) for cell, demonstrations in written.items()}
    real = few_shot_generation.random_rows(split.train, contract, unit)
    prompts = few_shot_generation.serialise({**written, **real}, split.queries, contract)
    return prompts, {cell.key: texts for cell, texts in shown.items()}


def _ensembles(folder: UnitFolder) -> Serialised:
    split, contract, unit = read_split(folder), folder.texts, folder.unit
    released = read_answers(folder.path / ANSWERS, dp_icl.released_cells(unit))
    queries = split.queries.data.column("text").to_pylist()[:EXAMPLES]
    examples = {
        cell.key: [asking_demonstration(contract, query, told(contract, one)) for query, one in zip(queries, found, strict=False)]
        for cell, found in released.items()
    }
    return dp_icl.serialise(released, split.train, split.queries, contract, unit), examples


_SERIALISE: dict[str, Callable[[UnitFolder], Serialised]] = {
    "ldp_tabicl": _ldp,
    "gdp_tabicl": _gdp,
    "mst_tabicl": _mst,
    "few_shot_generation": _few_shot,
    "dp_icl": _ensembles,
}
for _method in METHODS:  # known when this is imported, and not after a release was charged
    wired(_SERIALISE, _method, __name__)
