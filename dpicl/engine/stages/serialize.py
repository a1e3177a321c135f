"""Serialisation: released values and queries become prompts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dpicl.engine.artefacts import (
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
from dpicl.engine.files import write_json
from dpicl.engine.run_folder import UnitFolder
from dpicl.engine.stage import unit_stage
from dpicl.methods import METHODS, dp_icl, few_shot_generation, gdp_tabicl, ldp_tabicl, mst_tabicl, text_answers
from dpicl.methods.common import draws_for
from dpicl.methods.dp_icl import told
from dpicl.methods.tabular_answers import with_content_free
from dpicl.pipeline import Cell, wired
from dpicl.randomness import Draws
from dpicl.text.prompts import asking_demonstration
from dpicl.types import Demonstration

EXAMPLES = 3
"""Answers of an ensemble that are shown."""
DEMONSTRATIONS = "demonstrations.json"
Prompts = dict[Cell, list[str]]


@unit_stage("demonstrate", DEMONSTRATIONS)
def demonstrate(folder: UnitFolder) -> str:
    """Write one example of every cell's demonstrations; looks at no query of a table."""
    return f"demonstrations of {len(_demonstrate(folder))} cells"


@unit_stage("serialize", PROMPTS)
def serialize(folder: UnitFolder) -> str:
    """Write an example of every cell's demonstrations, and its prompts where there is something to ask."""
    if not (folder.path / DEMONSTRATIONS).exists():
        _demonstrate(folder)
    prompts = {} if folder.declared.evaluation == "none" else wired(_SERIALISE, folder.unit.method, __name__)(folder)
    write_prompts(folder, prompts)
    if folder.declared.evaluation == "charged":
        return f"prompts of {len(prompts)} cells"
    return f"{sum(map(len, prompts.values()))} prompts in {len(prompts)} cells"


def _demonstrate(folder: UnitFolder) -> dict[str, list[str]]:
    examples = wired(_EXAMPLES, folder.unit.method, __name__)(folder)
    write_json(folder.path / DEMONSTRATIONS, examples)
    return examples


def _ldp(folder: UnitFolder) -> Prompts:
    prompts = ldp_tabicl.serialise(
        read_rows(folder), read_collections(folder), read_queries(folder), folder.contract, folder.unit, _draws(folder)
    )
    return with_content_free(prompts, folder.contract, folder.unit)


def _gdp(folder: UnitFolder) -> Prompts:
    return with_content_free(gdp_tabicl.serialise(read_groups(folder), read_queries(folder), folder.contract), folder.contract, folder.unit)


def _mst(folder: UnitFolder) -> Prompts:
    prompts = mst_tabicl.serialise(read_rows(folder), read_queries(folder), folder.contract, folder.unit, _draws(folder))
    return with_content_free(prompts, folder.contract, folder.unit)


def _few_shot(folder: UnitFolder) -> Prompts:
    split, contract = read_split(folder), folder.texts
    real = few_shot_generation.random_rows(split.train, contract, folder.unit)
    return few_shot_generation.serialise({**_written(folder), **real}, split.queries, contract)


def _ensembles(folder: UnitFolder) -> Prompts:
    split = read_split(folder)
    return dp_icl.serialise(_answered(folder), split.train, split.queries, folder.texts, folder.unit)


def _draws(folder: UnitFolder) -> Draws:
    return draws_for(folder.contract, folder.unit.seed)


def _written(folder: UnitFolder) -> dict[Cell, tuple[Demonstration, ...]]:
    """Released texts, and those that were written from the instruction alone."""
    released = read_texts(folder.path / TEXTS, few_shot_generation.written_cells(folder.unit))
    return {**released, **read_texts(folder.path / PUBLIC_TEXTS, folder.unit.asked_cells())}


def _answered(folder: UnitFolder) -> dp_icl.Released:
    return read_answers(folder.path / ANSWERS, dp_icl.released_cells(folder.unit))


def _lines(texts: Mapping[Cell, Sequence[str]]) -> dict[str, list[str]]:
    """By the cell's key, as they stand in a prompt."""
    return {cell.key: "\n".join(demonstrations).split("\n") for cell, demonstrations in texts.items() if cell.system == "icl"}


def _told(folder: UnitFolder) -> dict[str, list[str]]:
    return {cell.key: text_answers.shown(demonstrations, folder.texts) for cell, demonstrations in _written(folder).items()}


def _answers(folder: UnitFolder) -> dict[str, list[str]]:
    queries, contract = read_queries(folder).data.column("text").to_pylist()[:EXAMPLES], folder.texts
    return {
        cell.key: [asking_demonstration(contract, query, told(contract, one)) for query, one in zip(queries, found, strict=False)]
        for cell, found in _answered(folder).items()
    }


_EXAMPLES: dict[str, Callable[[UnitFolder], dict[str, list[str]]]] = {
    "ldp_tabicl": lambda folder: _lines(
        ldp_tabicl.examples(read_rows(folder), read_collections(folder), folder.contract, folder.unit, _draws(folder))
    ),
    "gdp_tabicl": lambda folder: _lines(gdp_tabicl.examples(read_groups(folder), folder.contract)),
    "mst_tabicl": lambda folder: _lines(mst_tabicl.examples(read_rows(folder), folder.contract, folder.unit, _draws(folder))),
    "few_shot_generation": _told,
    "dp_icl": _answers,
}


_SERIALISE: dict[str, Callable[[UnitFolder], Prompts]] = {
    "ldp_tabicl": _ldp,
    "gdp_tabicl": _gdp,
    "mst_tabicl": _mst,
    "few_shot_generation": _few_shot,
    "dp_icl": _ensembles,
}
for _method in METHODS:  # known when this is imported, and not after a release was charged
    wired(_SERIALISE, _method, __name__)
