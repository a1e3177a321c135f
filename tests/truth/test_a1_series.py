"""A1: a series releases each of its nights, however few rows there are, and charges what any series
does.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpicl.contract.models import Check, Contract
from dpicl.data.reading import checks
from dpicl.ground.errors import DataError
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.release.horizon import release_planned
from dpicl.release.one_release import planned_table
from dpicl.release.request import ReleaseRequest
from tests.harness import Place, new_place
from tests.library.series_contracts import NAME, after, of_rows, series_tree, visit, visits
from tests.tasks.test_series import declare, put

HISTORIES: dict[str, list[dict[str, Any]]] = {
    "no row": [],
    "one row": [visit("p1", 3)],
    "two rows of one label": [visit("p1", 1), visit("p2", 2)],
    "one label": visits(of=lambda _: {"buys": "no"}),
    "an empty first night": [row for row in visits() if not row["day"].endswith("-01")],
    "only the last night": [row for row in visits() if row["day"].endswith("-12")],
    "one row of the rarer label, late": [
        *visits(of=lambda _: {"buys": "no"}),
        visit("new", 9, buys="yes"),
    ],
}
ROWS = of_rows(source={"file": f"{NAME}.csv", "arrived": "day", "ignore": ["who"]})


def nights(place: Place, rows: list[dict[str, Any]], method: str = "mst_tabicl") -> dict[str, Any]:
    """What can be seen of the first five nights, made one after another, and of all others at
    once.
    """
    put(place, rows)
    made = []
    for day in (1, 2, 3, 4, 5, 12):
        plan = planned_table(
            ReleaseRequest(
                dataset=NAME, epsilon=2, method=method, shots=4 if method == "gdp_tabicl" else 2
            ),
            Settings.current(),
        )
        published = release_planned(
            plan, Settings.current(), until=None, window=None, now=after(day)
        )
        # that a window is little but noise is read off what was published
        made.append(
            [
                sentence.replace(", and hardly more than noise: that window has too few rows", "")
                for sentence in published.spent
            ]
        )
    with open_ledger(Settings.current()) as ledger:
        ledger.verify()
        return {
            "made": made,
            "spent": ledger.spent(NAME).epsilon,
            "releases": len(ledger.entries(NAME)),
        }


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What is seen where there are many rows."""
    found = {}
    for method in ("mst_tabicl", "gdp_tabicl"):
        place = new_place(tmp_path_factory.mktemp("usual") / "place")
        with place.entered():
            declare(place, ROWS)
            found[method] = nights(place, visits(), method)
    return found


@pytest.mark.quick("one label")
@pytest.mark.parametrize("name", HISTORIES)
def test_every_night_is_released(place: Place, usual: dict[str, dict[str, Any]], name: str) -> None:
    declare(place, ROWS)
    assert nights(place, HISTORIES[name]) == usual["mst_tabicl"]


@pytest.mark.quick("no row")
@pytest.mark.parametrize("name", ["no row", "one row"])
def test_averages_too(place: Place, usual: dict[str, dict[str, Any]], name: str) -> None:
    declare(place, ROWS)
    assert nights(place, HISTORIES[name], "gdp_tabicl") == usual["gdp_tabicl"]


@pytest.mark.quick("one row")
@pytest.mark.parametrize("name", ["no row", "one row", "one label"])
def test_persons_too(place: Place, name: str) -> None:
    declare(place, series_tree())
    assert nights(place, HISTORIES[name])["releases"] == 13, "the horizon and twelve nights"


@pytest.mark.quick("one label")
@pytest.mark.parametrize("name", ["no row", "one row", "one label"])
def test_a_default_rule_about_all_rows_would_be_seen(
    place: Place, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The fault as it was, in a mutant."""
    rules = checks.rules_of

    def with_defaults(contract: Contract) -> Any:
        more = (Check(rule="row_count"), Check(rule="both_labels"))
        return rules(contract.model_copy(update={"checks": more}))

    for module in ("dpicl.release.rows", "dpicl.data.reading.checks"):
        monkeypatch.setattr(f"{module}.rules_of", with_defaults)
    declare(place, ROWS)
    with pytest.raises(DataError, match="breaks (row_count|both_labels)"):
        nights(place, HISTORIES[name])
