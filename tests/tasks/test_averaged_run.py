"""A run with several draws: results, predictions, report, metrics and a comparison say so, and
nothing more is charged.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dpicl.cli.facts import RunReader
from dpicl.ground.files import read_json
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.release.table_files import read_table
from dpicl.report import report_steps
from dpicl.report.load import load_run
from dpicl.report.opening import story
from dpicl.runs.artefacts import LOG_PROBABILITY, PREDICTIONS
from dpicl.runs.execute import InProcess, run_units
from dpicl.runs.plan import draft_plan
from lab.compare import compare, side_of
from tests.harness import Place, install, new_place, rows, shop, shop_rows
from tests.tasks.stages import make_plan

GRID = {
    "datasets": ["shop"],
    "methods": ["mst_tabicl"],
    "seeds": [0],
    "epsilons": ["5"],
    "shots": [2],
    "model": "fake",
}
UNIT = "mst_tabicl__shop__seed0"


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path, Place]:
    """A run with one draw, and with four."""
    place = new_place(tmp_path / "place")
    install(place, shop(), shop_rows(200))
    with place.entered():
        made = [make_plan("demo", {**GRID, "draws": draws}, f"draws{draws}") for draws in (1, 4)]
        for run in made:
            run_units(run, InProcess(), report_steps(run))
    return made[0], made[1], place


@pytest.mark.exhaustive
def test_a_run_asks_several_times_and_says_so(runs: tuple[Path, Path, Place]) -> None:
    one, four, place = runs
    plain, found = (rows(run / "results.csv") for run in (one, four))
    averaged = [row for row in found if row["system"] == "averaged"]
    assert len(averaged) == 1 and [row for row in found if row not in averaged] == plain
    assert {"lr", "gnb", "gb"} < {row["system"] for row in plain}
    assert (one / "units" / UNIT / "released_counts.json").read_bytes() == (
        four / "units" / UNIT / "released_counts.json"
    ).read_bytes()
    with place.entered(), open_ledger(Settings.from_environment()) as ledger:
        assert len(ledger.entries("shop")) == 1

    table = read_table(four / "units" / UNIT / PREDICTIONS).to_pandas()
    scored = table.set_index(["cell", "query"])[
        [name for name in table if name.startswith(LOG_PROBABILITY)]
    ]
    key = "icl,epsilon=5.0,shots=2"
    shares = []
    for draw in ("", ",draw=2", ",draw=3", ",draw=4"):
        odds = np.exp(scored.loc[key + draw].to_numpy())
        shares.append(odds / odds.sum(axis=1, keepdims=True))
    assert np.allclose(
        np.exp(scored.loc[key.replace("icl", "averaged")].to_numpy()), np.mean(shares, axis=0)
    )

    page, told = (four / "report.html").read_text(), "\n".join(story(load_run(four)))
    assert (
        "each query asked 4 times" in page
        and "averaged over 4 draws" in page
        and "in-context, draws averaged, k = 2" in page
    )
    assert (
        "Each was asked with several draws of demonstrations; these are the queries." in page
        and "draw=2" not in page
    )
    assert (
        "averaged over 4 draws 0." in told and "gradient boosting on rows of MST-TabICL 0." in told
    )
    assert "gradient boosting on rows of MST-TabICL" in (
        one / "report.html"
    ).read_text() and "draws" not in "\n".join(story(load_run(one)))
    assert read_json(four / "manifest.json")["command"].endswith("--draws 4 --model fake")
    assert "draws" not in read_json(one / "plan.json")["pipeline"]


@pytest.mark.exhaustive
def test_metrics_count_what_was_asked_and_comparisons_say_what_differs(
    runs: tuple[Path, Path, Place],
) -> None:
    one, four, place = runs
    with place.entered():
        facts = {run.name: run.prompts for run in RunReader(Settings.from_environment()).read()[0]}
        compared = compare(side_of(one), side_of(four))
    queries = facts["draws1"] // 2
    assert facts == {"draws1": 2 * queries, "draws4": 5 * queries}
    assert {pair.system for pair in compared.pairs} == {"icl", "lr", "gnb", "gb", "zero-shot"}
    assert all(pair.is_same for pair in compared.pairs)


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
        (
            "mst-tabicl",
            {},
            {"test_fraction": 0.2, "evaluation_epsilon": 1},
            None,
        ),
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
    assert sum(cell.system == "icl" for cell in unit.evaluated_cells) == (draws or 1) * len(
        unit.epsilons
    ) * len(unit.shots), "prompts of each query"
