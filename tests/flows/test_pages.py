"""The orchestrator's own pages, in a real browser, show the stages, the retries and the results;
its runs are kept in PostgreSQL.
"""

from __future__ import annotations

import base64
import html
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import psycopg
import pytest
from prefect import flow

from flows.executor import Progress
from tests.browser import CHROMIUM
from tests.harness import World, ran, rows
from tests.ledger.postgres import required_programs

pytestmark = pytest.mark.browser
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--virtual-time-budget=25000",
    "--dump-dom",
]
STAGES = [
    "ingest",
    "validate",
    "split",
    "randomise",
    "reconstruct",
    "serialize",
    "score",
    "baselines",
    "evaluate",
    "collect",
    "report",
]
RELEASED = "released-ldp-tabicl--breast-cancer--seed0"
Page = Callable[..., str]


@pytest.fixture(autouse=True)
def _as_installed() -> None:
    """These pages are those of installations, whose server keeps its runs in PostgreSQL."""
    required_programs()


@pytest.fixture
def page(world: World, tmp_path: Path) -> Page:
    """Opens a page of the server until it shows some words, and fails if it never does; gives its
    HTML.
    """
    if CHROMIUM is None:
        # no Chromium, though DPICL_REQUIRE_BROWSER=1
        assert os.environ.get("DPICL_REQUIRE_BROWSER") != "1"
        pytest.skip("no Chromium here; install one to see the pages")

    def open_page(path: str, *words: str) -> str:
        for _ in range(4):
            command = [
                str(CHROMIUM),
                *FLAGS,
                f"--user-data-dir={tmp_path / 'profile'}",
                world.url + path,
            ]
            shown = ran(command).stdout
            text = text_of(shown)
            if all(word in text for word in words):
                return shown
        pytest.fail(f"{path} lacks {[word for word in words if word not in text]}: {text[:2000]}")

    return open_page


def text_of(shown: str) -> str:
    """What a reader sees of a page's HTML."""
    without = re.sub(r"<(script|style)[\s\S]*?</\1>", "", shown)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", without)))


def artifact(world: World, **wanted: str) -> dict[str, Any]:
    """The newest artifact with this key, of this type or of this flow run."""
    chosen: dict[str, Any] = {name: {"any_": [value]} for name, value in wanted.items()}
    return dict(world.ask("artifacts/filter", {"artifacts": chosen, "sort": "CREATED_DESC"})[0])


def of_retried(world: World, key: str) -> dict[str, Any]:
    """An artifact of the run; its key is that of other runs of the pipeline too."""
    return artifact(world, key=key, flow_run_id=world.flow_run("retried")["id"])


def path_of(found: dict[str, Any]) -> str:
    """Its page."""
    return f"/artifacts/artifact/{found['id']}"


@pytest.mark.exhaustive
def test_the_run_is_kept_in_postgresql(world: World, retried: Path) -> None:
    with psycopg.connect(world.database) as connection:
        kept = connection.execute(
            "SELECT parameters ->> 'run_id' FROM flow_run WHERE state_type::text = 'COMPLETED'"
        ).fetchall()
    assert ("retried",) in kept


# the page shows twenty task runs, and more when it is scrolled
NEWEST = [stage for stage in STAGES if stage not in ("ingest", "validate")]
OF_A_UNIT = [
    f"{stage} ldp_tabicl__breast_cancer__seed0" for stage in STAGES[3:9] if stage != "score"
]
TABLES = [
    f"TABLE {key}" for key in ("checks-breast-cancer", RELEASED, "results-demo", "budget-demo")
]
TEXTS = [f"MARKDOWN {one}-demo" for one in ("overview", "figures", "report")]
FLOW_RUN = {
    "every stage": ("?tab=TaskRuns", "split breast_cancer", *OF_A_UNIT, *NEWEST, "Completed"),
    "both retries": (
        "",
        "validate: Not a directory (errno 20)",
        "Retry 1/2 will start",
        "Retry 2/2 will start",
    ),
    "results, plots and progress": ("?tab=Artifacts", *TABLES, *TEXTS, "PROGRESS"),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("what", FLOW_RUN)
def test_the_flow_run_s_page_tells_of(world: World, retried: Path, page: Page, what: str) -> None:
    tab, *words = FLOW_RUN[what]
    assert page(f"/v2/runs/flow-run/{world.flow_run('retried')['id']}{tab}", *words)
    names = {task["name"] for task in world.task_runs("retried")}
    assert {"ingest breast_cancer", "validate breast_cancer"} <= names


@pytest.mark.exhaustive
def test_the_task_run_s_page_counts_the_attempts(world: World, retried: Path, page: Page) -> None:
    validation = world.task_run("retried", "validate breast_cancer")
    words = "validate breast_cancer", "Run Count 3", "Retries 2", "Completed"
    assert page(f"/runs/task-run/{validation['id']}", *words)


@pytest.mark.exhaustive
def test_the_progress_s_page_tells_the_share_of_units(
    world: World, retried: Path, page: Page
) -> None:
    @flow
    def gone_on_with() -> None:
        Progress(4, 1)

    with world.entered():
        gone_on_with()
    assert page(path_of(artifact(world, type="progress")), "1 of 4 units", "Progress: 25%")
    assert page(
        path_of(artifact(world, type="progress", flow_run_id=world.flow_run("retried")["id"])),
        "1 of 1 units",
        "Progress: 100%",
    )


@pytest.mark.exhaustive
def test_the_released_table_s_page_shows_every_row(world: World, retried: Path, page: Page) -> None:
    found = artifact(world, key=RELEASED)
    released = [
        f"{row['cell']} {row['attribute']} {row['level']} {row['share']:g}"
        for row in json.loads(found["data"])
    ]
    assert len(released) == 36
    assert page(path_of(found), "36 Items", "cell attribute level share", *released)


@pytest.mark.exhaustive
def test_the_plots_are_drawn_on_their_page(world: World, retried: Path, page: Page) -> None:
    shown = page(
        path_of(of_retried(world, "figures-demo")),
        "Figures: scores by epsilon",
        "LDP-TabICL: accuracy",
        "Time by stage",
    )
    pictures = re.findall(r'<img src="data:image/svg\+xml;base64,([^"]+)"', shown)
    labels = [
        ElementTree.fromstring(base64.b64decode(picture)).get("aria-label", "")
        for picture in pictures
    ]
    assert [label.partition(",")[0].partition(":")[0] for label in labels] == [
        "What the private data add",
        "Accuracy against epsilon",
        "Wall time by stage",
    ]


@pytest.mark.exhaustive
def test_the_artifacts_pages_show_the_results(world: World, retried: Path, page: Page) -> None:
    accuracies = [row["accuracy"] for row in rows(retried / "results.csv")]
    shown = {
        "results-demo": ("balanced_accuracy", "zero-shot", "majority", *accuracies[:10]),
        "checks-breast-cancer": (
            "Checks of breast_cancer: which rules of its contract hold, never values",
            "no_missing",
        ),
        "report-demo": ("The whole report", "run retried"),
        "budget-demo": (
            "Budget: epsilon spent and epsilon left",
            "account releases charged_now",
            "breast_cancer-clients 2",
        ),
    }
    for key, words in shown.items():
        assert page(path_of(of_retried(world, key)), *words)


@pytest.mark.exhaustive
def test_the_overview_tells_what_came_of_the_run_and_links_the_others_in_order(
    world: World, retried: Path, page: Page
) -> None:
    found = of_retried(world, "overview-demo")
    shown = page(
        path_of(found),
        "run retried",
        "protected: one client",
        "charged: nothing",
        "ε = 1",
        "the majority label",
    )
    read = (
        "checks-breast-cancer",
        RELEASED,
        "results-demo",
        "figures-demo",
        "budget-demo",
        "report-demo",
    )
    places = [shown.index(f'href="{of_retried(world, key)["id"]}"') for key in read]
    assert places == sorted(places)


def test_a_flow_run_is_named_and_tagged_by_what_it_is_of(world: World, retried: Path) -> None:
    flow_run = world.flow_run("retried")
    assert flow_run["name"] == "demo · breast_cancer · ε 1, ∞ · retried"
    assert set(flow_run["tags"]) == {"method:ldp_tabicl", "model:fake", "data:breast_cancer"}
