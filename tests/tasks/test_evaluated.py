"""What leaves of rows that answers are measured on: of public ones everything, of held-out private
ones noisy counts, of others nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import pytest

from dpicl.ground.errors import DpiclError, PrivacyError
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.models.kinds.fake import HashScorer
from dpicl.models.requests import Progress
from dpicl.report import report_steps
from dpicl.runs import evaluate
from dpicl.runs.artefacts import remove_private
from dpicl.runs.execute import InProcess, run_units
from tests.harness import (
    Place,
    content,
    grid_of,
    install,
    install_texts,
    letters,
    new_place,
    rows,
    shop,
    shop_rows,
)
from tests.tasks.stages import do_run, make_plan, steps

METHODS = ("gdp_tabicl", "mst_tabicl")
GRID = grid_of("shop", epsilons=["5"], shots=[1, 2], baselines=False)
CHARGED = {"test_fraction": 0.5, "evaluation_epsilon": 3}


def contract(split: dict[str, Any] | None) -> dict[str, Any]:
    made = shop(private=True) | ({} if split is None else {"split": split})
    del made["queries"]
    return made


def held_out(place: Place, split: dict[str, Any] | None = CHARGED) -> None:
    """Ninety private rows of which some are held out."""
    install(place, contract(split), shop_rows(90))


def grid(method: str) -> dict[str, Any]:
    return {**GRID, "methods": [method]}


def run_of(place: Place, method: str, run_id: str = "r", *, keep: bool = False) -> Path:
    """A run's stages; its private files go at its end."""
    with place.entered():
        run = do_run("private", grid(method), run_id)
        if not keep:
            remove_private(run, Settings.from_environment())
    return run


def spent() -> dict[str, list[float]]:
    with open_ledger(Settings.from_environment()) as ledger:
        return {account.name: [ledger.spent(account.name).epsilon] for account in ledger.accounts()}


@pytest.mark.quick("gdp_tabicl")
@pytest.mark.parametrize("method", METHODS)
def test_of_held_out_private_rows_noisy_counts_leave_and_are_charged_once(
    place: Place, method: str
) -> None:
    held_out(place)
    run = run_of(place, method, keep=True)
    private = place.home / "private" / "shop" / "r"
    assert {path.stat().st_mode & 0o777 for path in private.rglob("*") if path.is_file()} == {0o600}
    assert {
        path.stat().st_mode & 0o777 for path in [private, *private.rglob("*")] if path.is_dir()
    } == {0o700}
    assert list(private.rglob("prompts.parquet")) and list(private.rglob("scored/*.npz"))

    unit = run / "units" / f"{method}__shop__seed0"
    assert not (unit / "predictions.parquet").exists() and not (unit / "scored").exists()
    found = rows(run / "results.csv")
    assert {row["system"] for row in found} == {"zero-shot", "icl"} and len(found) == 3
    assert {row["auc"] for row in found} == {row["balanced_accuracy"] for row in found} == {""}
    first, paid = found, spent()
    assert "noise of standard deviation" in (run / "report.html").read_text()
    assert "majority" not in json.dumps(found)

    remove_private(run, Settings.from_environment())
    assert rows(run_of(place, method, "again") / "results.csv") == first and spent() == paid


def test_whether_any_row_is_held_out_in_private_shows_in_no_name_and_no_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names, told = [], []
    for fraction in (0.5, 1e-4):  # of 90 rows about half, and none
        place = new_place(tmp_path / str(fraction))
        held_out(place, {**CHARGED, "test_fraction": fraction})
        caplog.clear()
        with caplog.at_level("INFO"):
            names.append(content(run_of(place, "gdp_tabicl")).keys())
        told.append([line for line in caplog.messages if line.startswith("score")])
    assert names[0] == names[1] and told[0] == told[1] != []


class Fails(HashScorer):
    """Counts what it is asked, and fails on a query about anything crimson."""

    asked = failed = 0

    def score(
        self,
        prompts: Sequence[str],
        continuations: Sequence[str],
        *,
        progress: Progress | None = None,
    ) -> np.ndarray:
        Fails.asked += len(prompts)
        if any("crimson" in text.rpartition("\n")[2] for text in prompts):
            Fails.failed += 1
            raise RuntimeError
        return super().score(prompts, continuations, progress=progress)

    def tally(self, prompts: Sequence[str], continuations: Sequence[str]) -> dict[str, float]:
        asked, Fails.asked = Fails.asked, 0
        return {"calls": asked}


def test_a_private_row_that_a_model_fails_on_stops_no_run_and_is_in_no_public_count(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    held_out(place)
    monkeypatch.setattr(evaluate, "scorer_of", lambda *_: Fails())
    run = run_of(place, "mst_tabicl")
    assert len(rows(run / "results.csv")) == 3 and Fails.failed > 0
    assert Fails().tally((), ())["calls"] == 0 and not list(run.glob("units/*/scored/*.json"))


def test_answers_that_are_missing_are_not_counted_as_wrong_ones(place: Place) -> None:
    held_out(place)
    run = do_run("private", grid("mst_tabicl"), before="evaluate")
    rmtree(next((place.home / "private").rglob("scored")))
    (stage, references), *_ = (step for step in steps(str(run)) if step.stage.name == "evaluate")
    with pytest.raises(DpiclError, match="answers to be counted are missing; resume the run"):
        stage(*references)
    run_units(run, InProcess(), report_steps(run))
    assert len(rows(run / "results.csv")) == 3


@pytest.mark.quick("charge")
@pytest.mark.parametrize("stopped_at", ["charge", "serialize", "report"])
def test_a_run_goes_on_under_its_own_contract_alone(place: Place, stopped_at: str) -> None:
    """Rows that were held out in private are no public queries because a contract says so now, nor
    was a release promised less.
    """
    held_out(place)
    run = do_run("private", grid("gdp_tabicl"), before=stopped_at)
    changed, raised = shop(private=True), contract(CHARGED)
    changed["privacy"]["budget"] = {"epsilon": 50}
    install(place, changed, shop_rows(90))
    with pytest.raises(
        DpiclError, match="its contract has changed since run r began; start a new run"
    ):
        make_plan("private", {}, "r", resume=True)
    raised["privacy"]["budget"] = {"epsilon": 1000}
    install(place, raised, shop_rows(90))
    # a cap may be raised
    assert make_plan("private", {}, "r", resume=True) == run


def test_queries_that_changed_while_a_run_was_stopped_are_refused(place: Place) -> None:
    install(place, shop(private=True))
    run = do_run("private", grid("gdp_tabicl"), before="score")
    remove_private(run, Settings.from_environment())
    (place.root / "data" / "shop_queries.csv").write_text(shop_rows(12, seed=7))
    with pytest.raises(
        DpiclError, match="its queries have changed since this run began; start a new run"
    ):
        run_units(run, InProcess())


@pytest.mark.quick("mst_tabicl-None")
@pytest.mark.parametrize("split", [None, {"test_fraction": 0.5}])
@pytest.mark.parametrize("method", METHODS)
def test_without_a_charge_no_row_is_asked_and_the_report_says_so(
    place: Place, method: str, split: Any
) -> None:
    held_out(place, split)
    run = run_of(place, method, keep=True)
    assert rows(run / "results.csv") == []
    assert not list(place.home.rglob("scored/*"))
    assert not list(place.home.rglob("predictions.parquet"))
    for report in ("report.html", "report.md"):
        assert "Nothing was measured on shop" in (run / report).read_text()
    demonstrations = json.loads(
        (run / "units" / f"{method}__shop__seed0" / "demonstrations.json").read_text()
    )
    assert len(demonstrations) == 2 and all(demonstrations.values())


def test_a_run_of_ensembles_needs_public_queries_before_anything_is_charged(place: Place) -> None:
    made = letters(private=True)
    made["source"]["test"] = made["source"].pop("queries")
    install_texts(place, made)
    with pytest.raises(PrivacyError, match="letters: a run of dp_icl answers queries"):
        make_plan("private", grid_of("letters", "dp_icl"), "r")
    assert not (place.home / "ledger.db").exists()


def test_private_rows_that_report_themselves_are_not_split(place: Place) -> None:
    held_out(place)
    with pytest.raises(
        PrivacyError, match="shop: ldp_tabicl shows how many rows report, and `split` lets"
    ):
        make_plan("private", grid("ldp_tabicl"), "r")
