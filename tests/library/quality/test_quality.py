"""What a release says about itself is compared with what is true of made-up rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpicl.ground.errors import PrivacyError
from dpicl.quality import Marginal, ReleasePoint
from dpicl.quality.measures import (
    compounding,
    fitted,
    indicators,
    marginal,
    scores,
    total_variation,
)
from dpicl.quality.replicates import quality_of
from dpicl.quality.worth import UNPAIRED
from dpicl.report.quality import quality_page
from tests.direct import point
from tests.library.quality.made_up import SIZES, SUBSET, contract, quality, release, split

AIM, MST, LDP, GDP, PE = "aim_tabicl", "mst_tabicl", "ldp_tabicl", "gdp_tabicl", "tab_pe"


def mean(marginals: tuple[Marginal, ...], which: str) -> float:
    return float(np.mean([getattr(one, which) for one in marginals]))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("method", "epsilon", "options"),
    [(MST, 0.5, None), (MST, 2.0, None), (LDP, 4.0, SUBSET), (PE, 2.0, None)],
)
def test_errors_of_marginals_are_as_large_as_is_said_of_them_within_15_percent(
    method: str, epsilon: float, options: Any
) -> None:
    """On average over tables: each has one draw of noise."""
    found = [
        quality(split(1000, seed), method, epsilon, seed=seed, count=8, options=options)
        for seed in range(12)
    ]
    for kind in ("columns", "with_label", "pairs"):
        said, true = (
            np.mean([mean(getattr(one, kind), which) for one in found if getattr(one, kind)])
            for which in ("expected", "true")
        )
        assert said == pytest.approx(true, rel=0.15), kind


def test_of_columns_that_noise_has_drowned_no_more_is_promised_than_is_there() -> None:
    """They are drawn towards even ones, which releases of the release's own model get right."""
    table = split(400, 3)
    said, true = [], []
    for seed in range(4):
        chosen, unit, cell, drawn = release(table.train, AIM, 0.3, seed)
        drowned = chosen.least_errors(drawn, point(unit, cell))
        found = quality(table, AIM, 0.3, seed=seed, count=4).columns
        said += [found[column].expected for column in drowned]
        true += [found[column].true for column in drowned]
    assert len(said) > 4
    assert np.mean(said) > 0.9 * np.mean(true)


def test_the_error_of_votes_counts_what_they_smooth_away() -> None:
    """Releases of rows that are smooth already were off by .06 where the release was by .16."""
    found = [quality(split(1000, seed), PE, 0.5, seed=seed, count=8) for seed in range(3)]
    for kind in ("columns", "with_label", "pairs"):
        said, true = (
            np.mean([mean(getattr(one, kind), which) for one in found])
            for which in ("expected", "true")
        )
        assert 0.6 * true < said < 1.2 * true, kind


@pytest.mark.parametrize("kept", [1.0, 0.8, 0.5])
def test_compounding_is_one_over_the_share_that_a_release_keeps(kept: float) -> None:
    """Of releases that draw shares, and the noise of the release before, towards even ones."""
    rng = np.random.default_rng(0)
    even = np.full(8, 1 / 8)

    def off(shares: np.ndarray) -> np.ndarray:
        return (1 - kept) * (even - shares) + rng.normal(0, 0.03, (10, 8))

    found = []
    for _ in range(200):
        shares = rng.dirichlet(np.ones(8))
        once = off(shares)
        found.append(compounding(once, off(shares + once)))
    assert np.mean(found) == pytest.approx(1 / kept, rel=0.12)


def test_where_no_loss_is_seen_nothing_is_added() -> None:
    rng = np.random.default_rng(0)
    found = [compounding(rng.normal(size=(10, 40)), rng.normal(size=(10, 40))) for _ in range(200)]
    assert np.mean(np.equal(found, 1.0)) > 0.98
    assert compounding(np.ones((1, 40)), np.zeros((1, 40))) == 1.0


@pytest.mark.parametrize(
    ("method", "rows", "epsilon", "has_pairs"),
    [(AIM, 400, 0.3, False), (AIM, 4000, 20, True), (MST, 4000, 20, True)],
)
def test_where_no_pair_was_counted_that_is_said_and_no_error_of_one(
    method: str, rows: int, epsilon: float, has_pairs: bool
) -> None:
    """Releases of a model without pairs have none: `room & paid .041` stood where .70 was true."""
    table = split(rows, 3)
    chosen, _, _, drawn = release(table.train, method, epsilon, 0)
    assert chosen.has_pairs(drawn) is has_pairs
    found = quality(table, method, epsilon, count=4)
    sentences = [*found.sentences()]
    assert (UNPAIRED in sentences, bool(found.pairs)) == (not has_pairs, has_pairs)
    assert any("error of pairs" in sentence for sentence in sentences) is has_pairs
    assert (f"{UNPAIRED[1:]}." in quality_page(found)) is not has_pairs


def test_so_many_rows_without_noise_are_as_exact_as_is_said() -> None:
    table, rng = split(1000, 3), np.random.default_rng(0)
    found = quality(table, MST, 1.0, count=20)
    chosen, unit, cell, _ = release(table.train, MST, 1.0, 0)
    bins, sizes = chosen.bins(table.train, contract()), (*SIZES, 2)
    assert found.row_count == pytest.approx(1000, rel=0.1)
    errors = []
    for _ in range(50):
        drawn = bins[rng.integers(len(bins), size=round(found.effective_rows))]
        for pair in ((column, len(SIZES)) for column in range(len(SIZES))):
            both = (marginal(rows, pair, sizes) for rows in (drawn, bins))
            errors.append(total_variation(*both))
    assert np.mean(errors) == pytest.approx(mean(found.with_label, "expected"), rel=0.2)


@pytest.mark.exhaustive
def test_more_epsilon_is_worth_more_rows() -> None:
    few, some, many = (
        quality(split(1000, 5), MST, epsilon, count=6).effective_rows or 0
        for epsilon in (0.3, 1.0, 10.0)
    )
    assert few < some < many


@pytest.mark.exhaustive
def test_intervals_of_90_percent_cover_what_is_true_and_the_promise_alone_is_too_good() -> None:
    """Twenty tables that nothing was chosen on, of weak to strong signals."""
    covered, promised, estimated = [], [], []
    for seed in range(20):
        table = split(800, 100 + seed, strength=0.1 + 0.1 * seed)
        auc, accuracy = quality(table, MST, 1.0, seed=seed, count=20).scores
        covered += [score.low <= (score.true or 0) <= score.high for score in (auc, accuracy)]
        promised.append(auc.promised - (auc.true or 0))
        estimated.append(auc.estimate - (auc.true or 0))
    assert np.mean(covered) >= 0.85
    assert np.mean(promised) > 0.05 and abs(np.mean(estimated)) < np.mean(promised) / 2


def test_a_strong_signal_that_noise_hides_is_in_the_interval() -> None:
    """Rows of such a release show less than there is: reports at a small epsilon."""
    highs, true = [], []
    for seed in range(4):
        found = quality(split(2000, seed, 3.0), LDP, 0.5, seed=seed, count=12, options=SUBSET)
        highs.append(found.scores[0].high)
        true.append(found.scores[0].true)
    assert sum(np.array(highs) >= np.array(true)) >= 3, (highs, true)


def test_columns_of_public_queries_are_not_said_to_be_right() -> None:
    """They are even whatever the rows are."""
    found = quality(split(2000, 5), "tab_pate", 3.0, count=4)
    *features, _ = found.columns
    assert min(column.expected for column in features) >= 0.25
    assert mean(tuple(features), "true") > 0.1


def test_nothing_true_is_said_of_a_private_table() -> None:
    table, private = split(300, 7), contract(benchmark=False)
    chosen, unit, cell, drawn = release(table.train, MST, 1.0, 0)
    place = ReleasePoint(private, chosen, point(unit, cell))
    found = quality_of(place, drawn, count=4)
    told = (*found.columns, *found.with_label, *found.scores)
    assert found.actual is None and {one.true for one in told} == {None}
    with pytest.raises(PrivacyError, match=r"made_up: true errors .*; expected .*benchmark: true"):
        quality_of(place, drawn, test=table, count=4)


def test_noise_of_averages_is_said_where_the_number_of_rows_is_stated() -> None:
    table = split(300, 11)
    chosen, unit, cell, drawn = release(table.train, GDP, 4.0, 0)
    stated = contract().model_copy(update={"population": 2000})
    asked = point(unit, cell)
    nothing = quality_of(ReleasePoint(contract(), chosen, asked), drawn)
    assert not nothing.noise and "state `population`" in str(nothing)
    found = quality_of(ReleasePoint(stated, chosen, asked), drawn)
    assert found.noise == chosen.column_errors(contract(), asked, 2000)
    assert found.noise.keys() == {*contract().features}
    for name, share in found.noise.items():
        assert f"averages of {name}: {share:.3f}" in str(found)


def test_scores_are_those_of_scikit_learn() -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(0)
    sizes = (3, 4, 3)
    bins = np.stack([rng.integers(0, size, 500) for size in sizes], axis=1)
    bins[:, 2] = (bins[:, 0] + (rng.random(500) < 0.5)) % 3
    model = fitted(LogisticRegression(), bins, sizes)
    odds = model.predict_proba(indicators(bins[:, :2], sizes[:2]))
    auc, accuracy = scores(model, bins, sizes)
    assert auc == pytest.approx(roc_auc_score(bins[:, 2], odds, multi_class="ovr"))
    assert accuracy == np.mean(odds.argmax(axis=1) == bins[:, 2])
    assert scores(None, bins, sizes) == (0.5, np.bincount(bins[:, 2]).max() / 500)
