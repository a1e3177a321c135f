"""Serialisation: released values and queries become prompts."""

from __future__ import annotations

from dpicl.methods import gdp_tabicl, ldp_tabicl
from dpicl.methods.common import draws_for, with_content_free
from dpicl.pipeline import Cell
from dpicl.tabular.split import SplitTable
from tasks.artefacts import PROMPTS, read_collections, read_groups, read_rows, read_split, write_prompts
from tasks.doorway import unit_stage
from tasks.files import write_json
from tasks.run_folder import UnitFolder


@unit_stage("serialize", PROMPTS)
def serialize(folder: UnitFolder) -> str:
    """Write the prompts of every cell, and one example of its demonstrations."""
    split = read_split(folder)
    prompts = _ldp(folder, split) if folder.unit.method == "ldp_tabicl" else _gdp(folder, split)
    prompts = with_content_free(prompts, folder.contract, folder.unit)
    examples = {cell.key: texts[0].split("\n")[:-1] for cell, texts in prompts.items() if cell.system == "icl"}
    write_json(folder.path / "demonstrations.json", examples)
    write_prompts(folder, prompts)
    return f"{sum(map(len, prompts.values()))} prompts in {len(prompts)} cells"


def _ldp(folder: UnitFolder, split: SplitTable) -> dict[Cell, list[str]]:
    draws = draws_for(folder.contract, folder.unit.seed)
    return ldp_tabicl.serialise(read_rows(folder), read_collections(folder), split.queries, folder.contract, folder.unit, draws)


def _gdp(folder: UnitFolder, split: SplitTable) -> dict[Cell, list[str]]:
    return gdp_tabicl.serialise(read_groups(folder), split.queries, folder.contract)
