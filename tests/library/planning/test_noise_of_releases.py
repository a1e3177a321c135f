"""Whether a release would be little but noise, by the contract and a stated number of rows; no row
is read.
"""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np
import pytest

from dpicl.contract import Contract, parse_contract
from dpicl.contract.pipeline import Unit
from dpicl.data.central.exact_counts import row_bins, row_encoding
from dpicl.ground.errors import PrivacyError
from dpicl.ground.randomness import Draws, stream
from dpicl.ground.types import PrivateTable
from dpicl.methods import METHODS, Options, grid, tabular, unit_of
from dpicl.methods.options import GdpOptions, PateOptions
from dpicl.methods.tab_pate import label_counts
from dpicl.quality.gate import check_noise, doubtful
from dpicl.quality.outlook import Outlook, TablePlan
from dpicl.quality.simulate import Candidate
from dpicl.quality.worth import NOTABLE, Marginal, Quality, ReleasePoint
from tests.direct import point
from tests.library.examples import random_table


def payments(rows: int | None, rate: str = "1/10") -> Contract:
    """As a draft that is followed says it: groups and bins are derived."""
    content: dict[str, Any] = {
        "version": 2,
        "name": "payments",
        "source": {"title": "t", "licence": "l", "citation": "c", "file": "payments.csv"},
        "privacy": {"sampling_rate": rate, "budget": {"epsilon": 3}},
        "columns": {
            "amount": {"type": "real", "bounds": [0, 5000]},
            "age": {"type": "integer", "bounds": [10, 100]},
            "kind": {"type": "category", "categories": ["card", "cash", "cheque"]},
            "late": {"type": "category", "categories": ["no", "yes"]},
        },
        "label": {"column": "late", "parts": [["no"], ["yes"]], "question": "Was it late?"},
    }
    return parse_contract(
        {**content, **({} if rows is None else {"population": rows})}, "payments.yaml"
    )


def unit(method: str, *epsilons: float, **options: Any) -> Unit:
    return unit_of(method, "payments", 0, epsilons, (4,), (), False, Options(**options))


def releases(rows: int | None, epsilon: float) -> list[ReleasePoint]:
    method = tabular("gdp_tabicl")
    points = grid.points(method, unit("gdp_tabicl", epsilon)).values()
    return [ReleasePoint(payments(rows), method, point) for point in points]


def test_a_followed_draft_at_epsilon_1_is_refused() -> None:
    """Of a table of a hundred rows a tenth is sampled, in four groups of two or three: its averages
    were the bounds.
    """
    told = r"payments: at 100 rows and epsilon 1, .* has noise that moves .* expected .*--anyway"
    with pytest.raises(PrivacyError, match=told):
        check_noise(releases(100, 1.0), anyway=False)
    noisy = doubtful(releases(100, 1.0))
    assert noisy and noisy.is_hopeless
    enough = doubtful(releases(100, noisy.enough))
    assert enough is None or not enough.is_hopeless


def test_more_rows_epsilon_or_the_person_s_word_lets_it_pass(
    caplog: pytest.LogCaptureFixture,
) -> None:
    check_noise(releases(50_000, 1.0), anyway=False)
    check_noise(releases(None, 0.01), anyway=False)
    assert not caplog.records
    with caplog.at_level(logging.WARNING):
        check_noise(releases(100, 1.0), anyway=True)
        check_noise(releases(200, 3.0), anyway=False)
    assert ["has noise that moves" in one.getMessage() for one in caplog.records] == [True, True]


@pytest.mark.parametrize(
    "method", [name for name, method in METHODS.items() if method.data == "table"]
)
def test_of_every_method_noise_falls_with_rows_and_epsilon(method: str) -> None:
    def worst(rows: int, epsilon: float) -> float:
        # else it counts no column
        options = {"tab_pate": PateOptions(queries="released")} if method == "tab_pate" else {}
        contract, asked = payments(rows), unit(method, epsilon, **options)
        return max(
            max(tabular(method).column_errors(contract, point(asked, cell), rows).values())
            for cell in grid.prices(METHODS[method], contract, asked)
        )

    assert worst(50, 0.01) == 1.0 and worst(2000, 1.0) > worst(4000, 1.0) > worst(4000, 2.0) > 0
    assert worst(10**7, 4.0) < NOTABLE


def drawn(asked: Unit, contract: Contract, table: PrivateTable, seed: int) -> tuple[Any, Any]:
    """The one release of a unit, and its point."""
    method, draws = tabular(asked.method), Draws(seed, "payments", simulated=True)
    points = grid.points(method, asked)
    marks = grid.prepare(method, table, contract, points, draws)
    ((cell, found),) = grid.draw(method, table, contract, points, draws, marks).items()
    return found, point(asked, cell)


def test_counts_are_about_as_noisy_as_it_says() -> None:
    contract, asked, rows = payments(None), unit("mst_tabicl", 0.5), 1000
    table, method = PrivateTable(random_table(contract, rows, 0)), tabular("mst_tabicl")
    found: dict[str, list[float]] = {name: [] for name in contract.features}
    for seed in range(12):
        counts, place = drawn(asked, contract, table, seed)
        draws = Draws(seed, "payments", simulated=True)
        released = method.rows(counts, contract, place, draws).codes
        binned = contract.with_bins(method.chosen_bins(counts))
        codes, sizes = row_bins(table, binned), row_encoding(binned).sizes
        for column, name in enumerate(contract.features):
            true, noisy = (
                np.bincount(one[:, column], minlength=sizes[column]) / len(one)
                for one in (codes, released)
            )
            found[name].append(float(np.abs(true - noisy).sum() / 2))
    expected = method.column_errors(contract, place, rows)
    for name, errors in found.items():
        assert 0.6 < np.mean(errors) / expected[name] < 1.6


def test_averages_are_about_as_noisy_as_it_says() -> None:
    contract, rows = payments(None, "1"), 4000
    table = PrivateTable(random_table(contract, rows, 1))

    def ages(epsilon: float, seed: int) -> tuple[list[float], Any]:
        options = GdpOptions(allocation="shared-count")
        asked = unit("gdp_tabicl", epsilon, gdp_tabicl=options)
        released, place = drawn(asked, contract, table, seed)
        return [float(group.values["age"]) for group in released.groups], place

    exact, _ = ages(math.inf, 0)
    errors = []
    for seed in range(12):
        noisy, place = ages(0.2, seed)
        errors.append(np.abs(np.subtract(noisy, exact)).mean())
    expected = 90 * tabular("gdp_tabicl").column_errors(contract, place, rows)["age"]
    assert 0.6 < np.mean(errors) / expected < 1.6


def risk(method: str, rows: int, epsilon: float) -> str:
    """What is said of its most frequent label."""
    contract = payments(rows)
    way = Candidate(method, {}, 2).unit(contract, (epsilon,))
    (asked,) = grid.points(tabular(method), way).values()
    return ReleasePoint(contract, tabular(method), asked).label_risk(rows)


@pytest.mark.parametrize("method", ["ldp_tabicl", "tab_pate"])
def test_that_noise_may_decide_which_label_is_the_most_frequent_is_said_before_a_charge(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    told = [risk(method, rows, 0.5) for rows in (60, 500, 100_000)]
    assert "noise may make another label the most frequent one" in told[0] and not told[-1]
    assert not risk(method, 100, 400.0) and not risk("aim_tabicl", 60, 0.5)
    contract = payments(60)
    asked = Candidate(method, {}, 2).unit(contract, (0.5,))
    points = grid.points(tabular(method), asked).values()
    with caplog.at_level(logging.WARNING):
        check_noise([ReleasePoint(contract, tabular(method), one) for one in points], anyway=True)
    assert told[0] in [record.getMessage() for record in caplog.records]


def test_a_plan_says_what_the_release_says_that_its_command_makes() -> None:
    """Also where it compares that release with larger epsilons, at which others are made."""
    contract, rows = payments(None), 400
    way = Candidate("ldp_tabicl", {"design": "subset", "estimator": "tree"}, 2)
    told = []
    for epsilons in ((0.5,), (0.5, 100.0)):
        asked = grid.points(tabular("ldp_tabicl"), way.unit(contract, epsilons)).values()
        (at_half,) = (one for one in asked if one.epsilon == 0.5)
        point_ = ReleasePoint(contract, tabular("ldp_tabicl"), at_half)
        quality = Quality(point_, columns=(Marginal(("age",), 0.01),))
        outlook = Outlook(way, quality, 0.5)
        plan = TablePlan("payments", rows, rows, {}, (outlook,), {})
        told.append(plan.sentence)
    assert told[0] == told[1] and "noise may make another label" in told[0]


def test_it_is_said_where_a_label_a_tenth_ahead_is_behind_in_one_of_20_releases() -> None:
    """By the noise of counts: of 55 % against 45 % of the rows that label has fewer."""
    contract, rows = payments(None), 1000
    for epsilon, is_told in ((0.15, True), (1.2, False)):
        asked = unit("tab_pate", epsilon)
        (place,) = grid.points(tabular("tab_pate"), asked).values()
        sizes = tabular("tab_pate").sizes(contract, place)  # type: ignore[attr-defined]
        counts = label_counts(
            [550, 450] * 4000, epsilon=sizes.labels_epsilon, stream=stream(0, "tenth", "", "")
        )
        behind = np.mean(np.diff(np.reshape(counts, (-1, 2)), axis=1) > 0)
        point_ = ReleasePoint(contract, tabular("tab_pate"), place)
        assert bool(point_.label_risk(rows)) is is_told and bool(behind > 0.05) is is_told


def test_a_method_whose_noise_is_not_known_beforehand_is_simulated_and_not_passed_silently(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Votes on public queries count no column."""
    contract, asked = payments(120), unit("tab_pate", 0.3)
    points = grid.points(tabular("tab_pate"), asked).values()
    votes = [ReleasePoint(contract, tabular("tab_pate"), point) for point in points]
    assert not votes[0].noise(120)
    with caplog.at_level(logging.WARNING):
        check_noise(votes, anyway=True)
    assert "TabPATE has an expected AUC of" in caplog.text
