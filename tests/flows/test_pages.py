"""The orchestrator's own pages, in a real browser, show the stages, the retries and the results."""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness import World, rows

pytestmark = pytest.mark.browser
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--virtual-time-budget=25000", "--dump-dom")
STAGES = ("ingest", "validate", "split", "randomise", "reconstruct", "serialize", "score", "baselines", "evaluate", "collect", "report")
Page = Callable[..., str]


@pytest.fixture
def page(world: World, tmp_path: Path) -> Page:
    """Opens a page of the server until it shows some words; gives its text."""
    if CHROMIUM is None:
        assert os.environ.get("DPICL_REQUIRE_BROWSER") != "1", "no Chromium, though DPICL_REQUIRE_BROWSER=1"
        pytest.skip("no Chromium here; install one to see the pages")

    def open_page(path: str, *words: str) -> str:
        text = ""
        for _ in range(4):
            command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", world.url + path]
            shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False).stdout
            shown = re.sub(r"<(script|style)[\s\S]*?</\1>", "", shown)
            text = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", shown)))
            if all(word in text for word in words):
                return text
        pytest.fail(f"{path} lacks {[word for word in words if word not in text]}: {text[:2000]}")

    return open_page


def test_the_flow_run_s_page_lists_every_stage(world: World, retried: Path, page: Page) -> None:
    flow_run = world.flow_run("retried")["id"]
    names = [f"{stage} ldp_tabicl__breast_cancer__seed0" for stage in STAGES[3:9] if stage != "score"]
    words = ("ingest breast_cancer", "split breast_cancer", *names, *STAGES, "Completed")
    text = page(f"/v2/runs/flow-run/{flow_run}?tab=TaskRuns", *words)
    assert [word for word in words if word not in text] == []


def test_the_flow_run_s_page_tells_of_both_retries(world: World, retried: Path, page: Page) -> None:
    flow_run = world.flow_run("retried")["id"]
    words = ("validate: File exists (errno 17)", "Retry 1/2 will start", "Retry 2/2 will start")
    text = page(f"/v2/runs/flow-run/{flow_run}", *words)
    assert [word for word in words if word not in text] == []


def test_the_task_run_s_page_counts_the_attempts(world: World, retried: Path, page: Page) -> None:
    (validation,) = [task for task in world.task_runs("retried") if task["name"] == "validate breast_cancer"]
    text = page(f"/runs/task-run/{validation['id']}", "validate breast_cancer", "Run Count", "Retries")
    assert "Run Count 3" in text and "Retries 2" in text and "Completed" in text


def test_the_artifacts_pages_show_the_results(world: World, retried: Path, page: Page) -> None:
    accuracies = [row["accuracy"] for row in rows(retried / "results.csv")]
    shown = {
        "results-retried": ("balanced_accuracy", "zero-shot", "majority", *accuracies[:10]),
        "checks-breast-cancer": ("Checks of breast_cancer: counts, never values", "no_missing"),
        "released-ldp-tabicl--breast-cancer--seed0": ("share", "attribute", "smoothness"),
        "report-retried": ("Report of retried",),
        "figures-retried": ("Figures of retried", "LDP-TabICL: accuracy", "Time by stage"),
        "budget-retried": ("What was spent, epsilon in nats", "breast_cancer-clients", "charged_now"),
    }
    for key, words in shown.items():
        artifact = world.ask("artifacts/filter", {"artifacts": {"key": {"any_": [key]}}})[0]
        page(f"/artifacts/artifact/{artifact['id']}", *words)
