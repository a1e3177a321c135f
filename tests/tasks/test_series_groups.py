"""Group averages of a table that grows: one charge for each number of shots, each night once, any
window free, as of rows.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import yaml

import dpicl
from dpicl.ground.errors import BudgetError, ParameterError
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.methods.gdp_series import SUMS
from dpicl.release import Release
from dpicl.runs.forecast import series_forecasts
from dpicl.runs.plan import make_plan
from tests.harness import Place
from tests.library.series_contracts import NAME, series_tree, visits
from tests.tasks.test_series import declare, planned, published, put, same, spent, table_of
from tests.tasks.test_series import night as series_night

METHOD, DAYS = "gdp_tabicl", 12


@pytest.fixture
def place(place: Place) -> Place:
    tree = series_tree()
    tree["privacy"]["budget"]["epsilon"] = 3.3
    declare(place, tree)
    put(place, visits())
    return place


def plan_of(shots: int = 2, epsilon: float = 2, **how: Any) -> Any:
    return planned(epsilon, shots=shots, method=METHOD, **how)


def night(day: int, *, shots: int = 2, **how: Any) -> Any:
    return series_night(day, plan=plan_of(shots), **how)


def test_each_number_of_shots_is_charged_once_for_all_nights_and_windows_are_free(
    place: Place,
) -> None:
    night(1)
    first, count = spent()
    assert first == pytest.approx(2, rel=0.01) and count == 2
    made = night(4, window=2)
    assert spent() == (first, 5) and "rows are of 2026-03-03 to 2026-03-04" in made.spent[1]
    table_of(place).write_text("no table at all")
    stands = published(plan=plan_of())
    for until, window in ((None, None), ("2026-03-03", 2), (None, 900)):
        shown = Release(night(4, until=until, window=window)).demonstrations()
        assert len(shown) == 2 and {answer for _, answer in shown.pairs} == {"yes", "no"}
    assert same(published(plan=plan_of()), stands) and all(one.keys() == {SUMS} for one in stands)
    put(place, visits())
    night(1, shots=4)
    # two horizons, composed
    assert spent()[1] == 7 and first < spent()[0] < 4
    with pytest.raises(BudgetError):
        series_night(1, plan=plan_of(1, 4))


def test_a_stated_subsample_and_other_divisions_are_refused_before_anything_is_charged(
    place: Place,
) -> None:
    tree = series_tree()
    tree["privacy"]["sampling_rate"] = "1/10"
    declare(place, tree)
    grid = {"datasets": [NAME], "methods": [METHOD], "epsilons": [1], "shots": [2]}
    expected = "sampling_rate='?1/10'?: expected '?1'?: all rows of a period enter the counters of"
    with pytest.raises(ParameterError, match=expected):
        make_plan("private-table", grid, "r")
    with pytest.raises(ParameterError, match=expected):
        dpicl.Session().protect(NAME, method=METHOD, epsilon=1, shots=2)
    declare(place)
    with pytest.raises(ParameterError, match="allocation=.*shared-count: visits has a horizon"):
        make_plan("private-table", grid, "r")
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
        series_night(1, plan=planned(0.001, method=method))
    with open_ledger(Settings.current()) as ledger:
        assert not [
            entry for account in ledger.accounts() for entry in ledger.entries(account.name)
        ]
    assert not (place.home / "series").exists()


def test_a_pipeline_s_own_rate_of_one_stands_before_a_contract_s(place: Place) -> None:
    """So that the contract, whose every change begins all of its horizons anew, may stay as it
    is.
    """
    tree, plan = series_tree(), plan_of()
    tree["privacy"]["sampling_rate"] = "1/10"
    declare(place, tree)
    whole = replace(
        plan,
        contract=Settings.current().contract(NAME),
        point=replace(plan.point, key=f"{plan.point.key},rate=1", sampling_rate=Fraction(1)),
    )
    made = series_night(2, plan=whole)
    assert spent()[1] == 3 and "2 periods released now" in made.spent[1]


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
    asked = [("mine", 1, {}), ("mine", 2, {"sum_origin": "lower"}), ("theirs", 1, {})]
    for name, epsilon, options in asked:
        series_night(1, plan=plan_of(epsilon=epsilon, name=name, options=options))
    told = [
        one.sentence.split(": its periods")[0] for one in series_forecasts(Settings.current())[0]
    ]
    either = [
        f"mine (GDP-TabICL, 2 shots, epsilon {one})"
        for one in ("1, sum_origin centre", "2, sum_origin lower")
    ]
    assert told == [*either, "theirs"]
