"""Group averages of a table that grows: one charge for each number of shots, each night once, any
window free, as of rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import dpicl
from dpicl.ground.errors import BudgetError, ParameterError
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.methods.counted_horizon import Arrays
from dpicl.methods.gdp_series import SUMS
from dpicl.release import Release
from dpicl.release.horizon import Horizon, release_planned
from dpicl.release.one_release import PublishedRelease, planned_table
from dpicl.release.request import ReleaseRequest
from dpicl.report import report_steps
from dpicl.runs.execute import InProcess, run_units
from dpicl.runs.forecast import series_forecasts
from dpicl.runs.plan import make_plan
from tests.harness import Place, new_place, rows
from tests.library.series_contracts import NAME, after, series_tree, visit, visits
from tests.tasks.test_series import as_csv, declare, killed_at, put, same, spent
from tests.tasks.test_series import night as night_of_rows
from tests.tasks.test_series_run import NIGHTLY

METHOD, DAYS = "gdp_tabicl", 12
TYPED = ("--method", METHOD, "--epsilon", "2", "--shots", "2")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = new_place(tmp_path / "place")
    tree = series_tree()
    tree["privacy"]["budget"]["epsilon"] = 6
    declare(place, tree)
    put(place, visits())
    with place.entered():
        yield place


def planned(shots: int = 2, epsilon: str = "2") -> Any:
    return planned_table(
        ReleaseRequest(dataset=NAME, epsilon=float(epsilon), method=METHOD, shots=shots),
        Settings.current(),
    )


def night(
    day: int, *, shots: int = 2, until: str | None = None, window: int | None = None
) -> PublishedRelease:
    return release_planned(
        planned(shots), Settings.current(), until=until, window=window, now=after(day)
    )


@contextmanager
def horizon_of(plan: Any) -> Iterator[Horizon]:
    unit = plan.unit
    with open_ledger(Settings.current()) as ledger:
        yield Horizon.of(ledger, Settings.current().contract(NAME), unit, Settings.current())


def published(shots: int = 2) -> list[Arrays]:
    with horizon_of(planned(shots)) as horizon:
        return horizon.published(DAYS)


def test_each_number_of_shots_is_charged_once_for_all_nights_and_windows_are_free(
    place: Place,
) -> None:
    night(1)
    first, count = spent()
    assert first == pytest.approx(2, rel=0.01) and count == 2
    made = night(4, window=2)
    assert spent() == (first, 5) and "rows are of 2026-03-03 to 2026-03-04" in made.spent[1]
    (place.root / "data" / f"{NAME}.csv").write_text("no table at all")
    stands = published()
    for until, window in ((None, None), ("2026-03-03", 2), (None, 900)):
        shown = Release(night(4, until=until, window=window)).demonstrations()
        assert len(shown) == 2 and {answer for _, answer in shown.pairs} == {"yes", "no"}
    assert same(published(), stands) and all(one.keys() == {SUMS} for one in stands)
    put(place, visits())
    night(1, shots=4)
    assert spent()[1] == 7 and first < spent()[0] < 4, "two horizons, composed"
    with pytest.raises(BudgetError):
        release_planned(planned(1, "4"), Settings.current(), now=after(1))


def test_averages_of_a_window_are_those_of_its_rows(place: Place) -> None:
    """Noise has a deviation of 0.14 years at most, the tolerance is ten times that; rows of the
    other days, ten years older, would move a mean by five years.
    """
    tree = series_tree()
    tree["privacy"]["budget"]["epsilon"] = 500
    tree["privacy"]["person"] |= {"max_rows_in_horizon": 12}
    declare(place, tree)
    arrived = [
        one | {"age": one["age"] + 10 * (one["day"] < "2026-03-03")} for one in visits(4, 1900)
    ]
    put(place, arrived)
    plan = planned(epsilon="400")
    made = release_planned(plan, Settings.current(), window=2, now=after(4))
    with horizon_of(plan) as horizon:
        ((of_ages, *_),) = horizon.series.errors(horizon.published(4), [(3, 4)])
    assert 10 * of_ages * math.sqrt(math.pi / 2) * (90 - 18) < 1.5, (
        "an expected error in widths of the bounds, as a deviation in years"
    )
    for group in made.drawn.groups:
        own = [
            one
            for one in arrived
            if "2026-03-03" <= one["day"] <= "2026-03-04"
            and one["buys"] == ("no", "yes")[group.label]
        ]
        assert group.values["age"] == pytest.approx(np.mean([one["age"] for one in own]), abs=1.5)
        assert group.values["city"] == max("ab", key=[one["city"] for one in own].count)


def test_what_is_frozen_decides_and_goes_with_the_last_night(place: Place) -> None:
    with killed_at(Horizon, "_released"):
        night(1)
    (frozen,) = (place.home / "series").glob("*/00001")
    content = frozen.read_bytes()
    put(place, [visit("nobody", 9), visit("else", 9, buys="yes")])
    night(1)
    assert frozen.read_bytes() == content
    night(12)
    assert not frozen.exists() and len(published()) == DAYS


@pytest.mark.exhaustive
def test_from_a_program_and_from_the_command_line_it_is_the_same_series(place: Place) -> None:
    quoted = place.dpicl("protect", NAME, *TYPED, "--dry-run")
    assert quoted.returncode == 0 and "1.995" in quoted.stdout, quoted.stderr
    answer = place.dpicl("protect", NAME, *TYPED, "--window", "5", "--out", "shown.jsonl")
    assert answer.returncode == 0, answer.stderr
    assert "12 of 12 in all; rows are of 2026-03-08 to 2026-03-12" in answer.stdout
    assert "averages of any window of them, of all rows and no subsample" in answer.stdout
    stands = published()
    made = dpicl.Session().protect(NAME, method=METHOD, epsilon=2, shots=2, window=5)
    assert len(stands) == DAYS and same(published(), stands)
    assert (place.root / "shown.jsonl").read_text() == made.demonstrations().in_form("jsonl") + "\n"
    assert (
        made.certificate.privacy_loss.privacy_unit == "person"
        and made.certificate.privacy_loss.nominal_parameters is None
    )
    assert place.dpicl("verify", "shown.jsonl").returncode == 0
    with pytest.raises(ParameterError, match="quality"):
        made.quality()
    with pytest.raises(ParameterError, match="one that releases a model of rows"):
        made.arrow(9)


def test_a_stated_subsample_and_other_divisions_are_refused_before_anything_is_charged(
    place: Place,
) -> None:
    tree = series_tree()
    tree["privacy"]["sampling_rate"] = "1/10"
    declare(place, tree)
    answer = place.dpicl("protect", NAME, *TYPED, "--out", "shown.jsonl")
    expected = "sampling_rate=1/10: expected 1: all rows of a period enter the counters of visits"
    assert answer.returncode == 2 and expected in answer.stderr.replace("'", "")
    run = place.dpicl(
        "run",
        "private-table",
        "--datasets",
        NAME,
        "--methods",
        METHOD,
        "--epsilons",
        "1",
        "--shots",
        "2",
    )
    assert run.returncode == 2 and expected in run.stderr.replace("'", "")
    with pytest.raises(ParameterError, match="sampling_rate"):
        dpicl.Session().protect(NAME, method=METHOD, epsilon=1, shots=2)
    declare(place)
    run = place.dpicl(
        "run",
        "private-table",
        "--datasets",
        NAME,
        "--methods",
        METHOD,
        "--epsilons",
        "1",
        "--shots",
        "2",
    )
    assert (
        run.returncode == 2
        and "allocation=" in run.stderr
        and "expected shared-count: visits has a horizon" in run.stderr
    )
    with open_ledger(Settings.current()) as ledger:
        assert not ledger.accounts()


@pytest.mark.parametrize("method", [METHOD, "mst_tabicl"])
def test_a_horizon_whose_noise_no_night_could_draw_is_refused_before_it_is_charged(
    place: Place, method: str
) -> None:
    tree = series_tree()
    tree["privacy"] |= {
        "neighbours": "replace-one",
        "person": {"id_column": "who", "max_rows": 10**9, "max_rows_in_horizon": 10**9},
    }
    declare(place, tree)
    refused = (
        "epsilon=0.001: expected a larger one, or fewer rows: max_rows=1000000000 and 1000000000 "
        "rows of a person in the horizon ask for"
    )
    with pytest.raises(ParameterError, match=refused):
        release_planned(
            planned_table(
                ReleaseRequest(dataset=NAME, epsilon=0.001, method=method, shots=2),
                Settings.current(),
            ),
            Settings.current(),
            now=after(1),
        )
    with open_ledger(Settings.current()) as ledger:
        assert not [
            entry for account in ledger.accounts() for entry in ledger.entries(account.name)
        ]
    assert not (place.home / "series").exists()


def test_a_pipeline_s_own_rate_of_one_stands_before_a_contract_s(place: Place) -> None:
    """So that the contract, whose every change begins all of its horizons anew, may stay as it
    is.
    """
    tree, plan = series_tree(), planned()
    tree["privacy"]["sampling_rate"] = "1/10"
    declare(place, tree)
    whole = replace(
        plan,
        contract=Settings.current().contract(NAME),
        unit=replace(plan.unit, sampling_rates=(Fraction(1),)),
    )
    made = release_planned(whole, Settings.current(), now=after(2))
    assert spent()[1] == 3 and "2 periods released now" in made.spent[1]


@pytest.mark.exhaustive
def test_a_page_over_all_periods_says_what_averages_are_worth_and_reads_no_row(
    place: Place,
) -> None:
    night(9)
    (place.root / "data" / f"{NAME}.csv").unlink()
    made = place.dpicl("series", NAME, *TYPED, "--window", "3", "--out", "page.html")
    assert made.returncode == 0 and made.stdout == "page.html: 9 of 12 periods\n", made.stderr
    page = (place.root / "page.html").read_text()
    for words in (
        "Rows by period",
        "as a share of the width of its bounds",
        "group averages are no model of rows",
        "columns within each group",
        "(rows of groups)",
    ):
        assert words in page, words
    refused = place.dpicl(
        "series", NAME, "--method", METHOD, "--epsilon", "2", "--shots", "4", "--out", "other.html"
    )
    assert refused.returncode == 2 and "no period of this horizon is released" in refused.stderr
    refused = place.dpicl(
        "series", NAME, "--method", "aim_tabicl", "--epsilon", "2", "--out", "other.html"
    )
    assert (
        refused.returncode == 2
        and "one that counts a horizon: gdp_tabicl, mst_tabicl" in refused.stderr
    )


@pytest.mark.exhaustive
def test_a_forecast_has_a_line_for_each_horizon_that_goes_on(place: Place) -> None:
    night(5)
    night(3, shots=4)
    night_of_rows(2)
    told = [one.sentence for one in series_forecasts(Settings.current())[0]]
    assert [line.split(" of 12 are released")[0][-1] for line in told] == ["5", "3", "2"]
    assert told[0].startswith("visits (GDP-TabICL, 2 shots): its periods are paid") and told[
        2
    ].startswith("visits (MST-TabICL): its")


def test_a_forecast_is_of_a_contract_s_own_horizons_and_of_each_of_them(place: Place) -> None:
    """Two contracts that one account pays; another epsilon, and sums from the lower bound, beside
    the first.
    """
    for name in ("mine", "theirs"):
        tree = series_tree(name=name, account="wallet")
        tree["privacy"]["budget"]["epsilon"] = 9
        (place.root / "contracts" / f"{name}.yaml").write_text(
            yaml.safe_dump(tree, sort_keys=False)
        )
    asked = [("mine", "1", {}), ("mine", "2", {"sum_origin": "lower"}), ("theirs", "1", {})]
    for name, epsilon, options in asked:
        plan = planned_table(
            ReleaseRequest(
                dataset=name, epsilon=float(epsilon), method=METHOD, shots=2, options=options
            ),
            Settings.current(),
        )
        release_planned(plan, Settings.current(), now=after(1))
    told = [
        one.sentence.split(": its periods")[0] for one in series_forecasts(Settings.current())[0]
    ]
    either = [
        f"mine (GDP-TabICL, 2 shots, epsilon {one})"
        for one in ("1, sum_origin centre", "2, sum_origin lower")
    ]
    assert told == [*either, "theirs"]


@pytest.mark.exhaustive
def test_a_run_makes_the_nights_of_all_its_horizons_and_goes_on(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Averages for two numbers of shots, and rows, of the same nights."""
    pipelines = yaml.safe_load((place.root / "pipelines.yaml").read_text())
    options = {METHOD: {"allocation": "shared-count"}, **NIGHTLY["options"]}
    pipelines["pipelines"]["nightly"] = {
        **NIGHTLY,
        "methods": [METHOD, "mst_tabicl"],
        "shots": [2, 4],
        "epsilons": [1],
        "options": options,
        "window": 3,
    }
    (place.root / "pipelines.yaml").write_text(yaml.safe_dump(pipelines, sort_keys=False))
    declare(
        place,
        series_tree(queries={"file": "public.csv"})
        | {"privacy": {**series_tree()["privacy"], "budget": {"epsilon": 6, "delta": 1e-6}}},
    )
    (place.root / "data" / "public.csv").write_text(
        as_csv(
            [
                visit(f"q{one}", 1, age=20 + 15 * one, buys=("no", "yes")[one % 2])
                for one in range(4)
            ]
        )
    )
    from dpicl.runs import draw
    from dpicl.runs import plan as planning

    for module in (planning, draw):
        monkeypatch.setattr(module, "clock", lambda: after(5))
    for name in ("first", "second"):
        run = make_plan("nightly", {}, name)
        run_units(run, InProcess(), report_steps(run))
    report = (place.run("first") / "report.md").read_text()
    assert (
        "visits, epsilon 1, 2 shots: 5 periods released now, 5 of 12 in all; rows are of "
        "2026-03-03 to 2026-03-05" in report
    )
    assert "visits, epsilon 1, 4 shots: 5 periods" in report and "All 12 periods" in report
    results = rows(place.run("first") / "results.csv")
    assert {(one["method"], one["shots"]) for one in results if one["system"] == "icl"} == {
        (method, shots) for method in (METHOD, "mst_tabicl") for shots in ("2", "4")
    }
    assert (
        "0 periods released now" in (place.run("second") / "report.md").read_text()
        and spent()[1] == 3 * 6
    )
