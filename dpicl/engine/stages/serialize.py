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


@unit_stage("serialize", PROMPTS)
def serialize(folder: UnitFolder) -> str:
    """Write an example of every cell's demonstrations, and its prompts where there is something to ask."""
    method, unit = folder.method, folder.unit
    if isinstance(method, TextMethod):
        examples = method.examples(*read_texts(folder), read_queries(folder), folder.texts)
    else:
        demonstrations = tabular(unit.method).examples(read_released(folder), folder.contract, unit, draws_for(folder.contract, unit.seed))
        examples = {cell: "\n".join(texts).split("\n") for cell, texts in demonstrations.items() if cell.system == "icl"}
    write_json(folder.path / DEMONSTRATIONS, {cell.key: texts for cell, texts in examples.items()})
    prompts: dict[Cell, list[str]] = {}
    if folder.declared.evaluation != "none" and isinstance(method, TextMethod):
        split = read_split(folder)
        prompts = method.prompts(*read_texts(folder), split.train, split.queries, folder.texts, unit)
    elif folder.declared.evaluation != "none":
        contract = folder.contract
        draws = draws_for(contract, unit.seed)
        prompts = tabular(unit.method).prompts(read_released(folder), read_queries(folder), contract, unit, draws)
    write_prompts(folder, prompts)
    if folder.declared.evaluation == "charged":
        return f"prompts of {len(prompts)} cells"
    return f"{sum(map(len, prompts.values()))} prompts in {len(prompts)} cells"
