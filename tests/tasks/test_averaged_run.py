"""How many draws a query is asked with where no number is stated: several, where they are free."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpicl.home.settings import Settings
from dpicl.runs.plan import draft_plan
from tests.harness import install, new_place, shop, shop_rows


@pytest.mark.parametrize(
    ("pipeline", "changes", "split", "draws"),
    [
        ("mst-tabicl", {}, {}, 4),
        ("ldp-tabicl", {}, {}, 4),
        ("ldp-tabicl", {"draws": 1}, {}, None),
        ("mst-tabicl", {"draws": 8}, {}, 8),
        ("gdp-tabicl", {}, {}, None),  # whose groups are all shown
        ("demo", {"methods": ["mst_tabicl"]}, {}, None),  # which states one
        ("table-2", {}, {}, None),  # as the paper asks
        # another evaluation would be another release
        ("mst-tabicl", {}, {"test_fraction": 0.2, "evaluation_epsilon": 1}, None),
    ],
)
def test_where_draws_are_free_there_are_four_unless_a_number_is_stated(
    tmp_path: Path,
    pipeline: str,
    changes: dict[str, object],
    split: dict[str, float],
    draws: int | None,
) -> None:
    content, place = shop(private=bool(split)), new_place(tmp_path / "place")
    charged = {name: value for name, value in content.items() if name != "queries"} | {
        "split": split
    }
    install(place, charged if split else content, shop_rows(80))
    with place.entered():
        plan = draft_plan(
            pipeline, {"datasets": ["shop"], "model": "fake", **changes}, Settings.current()
        )
    assert {unit.draws for unit in plan.units.values()} == {draws or 1}
    assert plan.as_json()["pipeline"]["draws"] == (draws or 1)
    unit = next(iter(plan.units.values()))
    # prompts of each query
    assert sum(cell.system == "icl" for cell in unit.evaluated_cells) == (draws or 1) * len(
        unit.epsilons
    ) * len(unit.shots)
