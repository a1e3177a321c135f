"""Serialisation: released values and queries become prompts."""

from __future__ import annotations

import pyarrow as pa

from dpicl.engine.artefacts import PROMPTS, prompts_folder, prompts_mode, read_queries, read_released, read_split, read_texts
from dpicl.engine.files import write_json, write_table
from dpicl.engine.run_folder import UnitFolder
from dpicl.engine.stage import unit_stage
from dpicl.methods import tabular
from dpicl.methods.common import draws_for
from dpicl.methods.text_method import TextMethod
from dpicl.pipeline import Cell


@unit_stage("serialize", PROMPTS)
def serialize(folder: UnitFolder) -> str:
    """Write an example of every cell's demonstrations, and its prompts where there is something to ask: cell by cell, in order."""
    method, unit, asks = folder.method, folder.unit, folder.declared.evaluation != "none"
    prompts: dict[Cell, list[str]] = {}
    if isinstance(method, TextMethod):
        examples = method.examples(*read_texts(folder), read_queries(folder), folder.texts)
        if asks:
            split = read_split(folder)
            prompts = method.prompts(*read_texts(folder), split.train, split.queries, folder.texts, unit)
    else:
        released, contract, draws = read_released(folder), folder.contract, draws_for(folder.contract, unit.seed)
        demonstrations = tabular(unit.method).examples(released, contract, unit, draws)
        examples = {cell: "\n".join(texts).split("\n") for cell, texts in demonstrations.items() if cell.system == "icl"}
        if asks:
            prompts = tabular(unit.method).prompts(released, read_queries(folder), contract, unit, draws)
    write_json(folder.path / "demonstrations.json", {cell.key: texts for cell, texts in examples.items()})
    keys = pa.array([cell.key for cell, texts in prompts.items() for _ in texts], pa.string()).dictionary_encode()
    table = pa.table({"cell": keys, "prompt": pa.array([text for texts in prompts.values() for text in texts], pa.string())})
    write_table(prompts_folder(folder) / PROMPTS, table, mode=prompts_mode(folder))
    write_table(folder.path / PROMPTS, table.slice(0, 0))  # where prompts are private; else they stand there already
    if folder.declared.evaluation == "charged":
        return f"prompts of {len(prompts)} cells"
    return f"{sum(map(len, prompts.values()))} prompts in {len(prompts)} cells"
