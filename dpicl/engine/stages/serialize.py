"""Serialisation: released values and queries become prompts."""

from __future__ import annotations

from dpicl.engine.artefacts import PROMPTS, read_queries, read_released, read_split, read_texts, write_prompts
from dpicl.engine.files import write_json
from dpicl.engine.run_folder import UnitFolder
from dpicl.engine.stage import unit_stage
from dpicl.methods import tabular
from dpicl.methods.common import draws_for
from dpicl.methods.text_method import TextMethod
from dpicl.pipeline import Cell

DEMONSTRATIONS = "demonstrations.json"


@unit_stage("demonstrate", DEMONSTRATIONS)
def demonstrate(folder: UnitFolder) -> str:
    """Write one example of every cell's demonstrations; looks at no query of a table."""
    return f"demonstrations of {len(_demonstrate(folder))} cells"


@unit_stage("serialize", PROMPTS)
def serialize(folder: UnitFolder) -> str:
    """Write an example of every cell's demonstrations, and its prompts where there is something to ask."""
    if not (folder.path / DEMONSTRATIONS).exists():
        _demonstrate(folder)
    prompts = {} if folder.declared.evaluation == "none" else _prompts(folder)
    write_prompts(folder, prompts)
    if folder.declared.evaluation == "charged":
        return f"prompts of {len(prompts)} cells"
    return f"{sum(map(len, prompts.values()))} prompts in {len(prompts)} cells"


def _demonstrate(folder: UnitFolder) -> dict[str, list[str]]:
    examples = {cell.key: texts for cell, texts in _examples(folder).items()}
    write_json(folder.path / DEMONSTRATIONS, examples)
    return examples


def _examples(folder: UnitFolder) -> dict[Cell, list[str]]:
    method = folder.method
    if isinstance(method, TextMethod):
        return method.examples(*read_texts(folder), read_queries(folder), folder.texts)
    contract, unit = folder.contract, folder.unit
    found = tabular(unit.method).examples(read_released(folder), contract, unit, draws_for(contract, unit.seed))
    return {cell: "\n".join(texts).split("\n") for cell, texts in found.items() if cell.system == "icl"}


def _prompts(folder: UnitFolder) -> dict[Cell, list[str]]:
    method, unit = folder.method, folder.unit
    if isinstance(method, TextMethod):
        split = read_split(folder)
        return method.prompts(*read_texts(folder), split.train, split.queries, folder.texts, unit)
    draws = draws_for(folder.contract, unit.seed)
    return tabular(unit.method).prompts(read_released(folder), read_queries(folder), folder.contract, unit, draws)
