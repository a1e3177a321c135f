"""Parts of a unit: together they score every cell, and none of them is empty."""

from __future__ import annotations

import pytest

from dpicl.runs.artefacts import BASELINES, RESULTS
from dpicl.runs.evaluate import PARTS, parts_to_score, score
from tests.harness import Place, install, shop
from tests.tasks.stages import make_plan, steps

GRID = {
    "datasets": ["shop"],
    "seeds": [0],
    "model": "fake",
    "baselines": False,
    "options": {"ldp_tabicl": {"shot_selection": ["nested"]}},
}


@pytest.mark.quick("gdp_tabicl-epsilons1-shots1-3-3")
@pytest.mark.parametrize(
    ("method", "epsilons", "shots", "parts", "cells"),
    [
        ("gdp_tabicl", ["5"], [1], 2, 2),
        ("gdp_tabicl", ["1", "5"], [1], 3, 3),
        ("ldp_tabicl", ["5"], [1, 2], 4, 1 + 3 * 2),
    ],
)
def test_the_parts_share_all_cells_and_each_has_some(
    place: Place, method: str, epsilons: list[str], shots: list[int], parts: int, cells: int
) -> None:
    """Zero-shot stands beside the cells of each system; raw and nested rows are systems of local
    reports.
    """
    install(place, shop())
    counted = []
    run = make_plan(
        "demo", {**GRID, "methods": [method], "epsilons": epsilons, "shots": shots}, "a"
    )
    unit = f"{method}__shop__seed0"
    folder = run / "units" / unit
    for stage, references in steps(str(run)):
        before = len(list(folder.glob("scored/*.npz")))
        stage(*references)
        if stage is score:
            counted.append(len(list(folder.glob("scored/*.npz"))) - before)
    assert len(parts_to_score(str(run), unit)) == parts <= PARTS
    assert len(counted) == parts and min(counted) > 0 and sum(counted) == cells
    assert not (folder / BASELINES).exists() and (folder / RESULTS).exists()
