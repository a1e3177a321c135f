"""Reconstruction: the exact inverse, the nearest distribution, whole rows that add up."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.optimize import brentq
from threadpoolctl import threadpool_info, threadpool_limits

from dpicl.data.local.observed import (
    clip_and_renormalise,
    exact_row_counts,
    inverse_matrix,
    invert,
    project_on_simplex,
    reconstruct,
    report_counts,
)
from dpicl.ground.errors import ParameterError, PrivacyError
from dpicl.ground.randomness import stream
from dpicl.ground.types import LocalReports
from dpicl.mechanisms.randomised_response import Response, randomise, response

values = arrays.arrays(np.float64, st.integers(1, 40), elements=st.floats(-50, 50))
shares = arrays.arrays(np.float64, st.integers(1, 60), elements=st.floats(0, 1)).filter(
    lambda array: array.sum() > 1e-6
)


def _distortion(law: Response) -> np.ndarray:
    """P[report | truth], shape (categories, categories)."""
    chances = np.full((law.categories,) * 2, law.lie_probability)
    np.fill_diagonal(chances, law.truth_probability)
    return chances


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=5).filter(
        lambda sizes: math.prod(sizes) <= 600
    ),
    st.floats(0.3, 6),
    st.integers(0, 99),
)
def test_inversion_equals_that_of_the_dense_kronecker_product(
    sizes: list[int], epsilon: float, seed: int
) -> None:
    laws = [
        response(epsilon=epsilon * (1 + index / 3), categories=size)
        for index, size in enumerate(sizes)
    ]
    dense = np.linalg.inv(reduce(np.kron, [_distortion(law) for law in laws]))
    given_shares = np.random.default_rng(seed).dirichlet(np.ones(math.prod(sizes)))
    kept = given_shares.copy()
    inverted, expected = invert(given_shares, laws), dense @ given_shares
    assert np.abs(inverted - expected).max() <= 1e-9 * max(1, np.abs(expected).max())
    assert inverted.sum() == pytest.approx(1, abs=1e-6)
    assert (given_shares == kept).all()


@pytest.mark.parametrize("sizes", [(64,), (65, 2), (2,) * 13, (5, 2, 2, 3, 4, 2), (100, 3)])
def test_inversion_undoes_the_distortion_for_many_answers(sizes: tuple[int, ...]) -> None:
    """Too many cells for a dense product: distort answer by answer, then invert."""
    laws = [response(epsilon=2.0, categories=size) for size in sizes]
    truth = np.random.default_rng(0).dirichlet(np.ones(math.prod(sizes)))
    distorted = truth.reshape(sizes)
    for axis, law in enumerate(laws):
        distorted = np.moveaxis(np.tensordot(_distortion(law), distorted, axes=(1, axis)), 0, axis)
    assert np.abs(invert(distorted.reshape(-1), laws) - truth).max() < 1e-9


def test_inversion_gives_the_same_bytes_however_many_threads_are_allowed() -> None:
    """And leaves their number as it was. Of these sizes BLAS rounds otherwise in two threads."""
    laws = [response(epsilon=2.0, categories=5)] * 7
    given_shares = np.random.default_rng(0).dirichlet(np.ones(5**7))
    results = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            results.append(invert(given_shares, laws).tobytes())
            assert {pool["num_threads"] for pool in threadpool_info()} == {threads}
    assert results[0] == results[1]


def test_reports_without_information_are_not_inverted() -> None:
    with pytest.raises(PrivacyError, match="carry no information"):
        inverse_matrix(Response(2, 16, 1 << 15, 1 << 15))


@given(values)
def test_projection_on_the_simplex_is_the_nearest_point(point: np.ndarray) -> None:
    """The nearest point is max(x - t, 0) for the t that makes it sum to one; bisection finds t."""
    ends = point.min() - 2, point.max()
    exact = {"xtol": 1e-14, "rtol": 1e-14, "maxiter": 500}
    level = brentq(lambda t: np.maximum(point - t, 0).sum() - 1, *ends, **exact)
    projected = project_on_simplex(point)
    assert np.abs(projected - np.maximum(point - level, 0)).max() < 1e-9
    assert (projected >= 0).all() and projected.sum() == pytest.approx(1, abs=1e-9)


@given(arrays.arrays(np.float64, st.integers(1, 40), elements=st.floats(-1e300, 1e300)))
def test_projection_of_the_wildest_noise_is_a_distribution(point: np.ndarray) -> None:
    """Thirteen bits at epsilon = 1 amplify noise by 10^18, beside which one is nothing."""
    projected = project_on_simplex(point)
    assert (projected >= 0).all() and projected.sum() == pytest.approx(1, abs=1e-9)
    assert projected[point.argmax()] == projected.max() > 0


def test_the_paper_s_estimator_clips_and_divides() -> None:
    clipped = clip_and_renormalise(np.array([0.9, -0.3, 0.4]))
    assert clipped == pytest.approx([0.9 / 1.3, 0, 0.4 / 1.3])


@given(shares, st.integers(1, 10_000))
def test_row_counts_are_whole_add_up_and_stay_within_one_of_the_ideal(
    weights: np.ndarray, row_count: int
) -> None:
    counts, ideal = exact_row_counts(weights, row_count), weights / weights.sum() * row_count
    assert counts.sum() == row_count and (counts >= 0).all()
    assert np.abs(counts - ideal).max() < 1 + 1e-6


def _reports(codes: np.ndarray, laws: list[Response]) -> LocalReports:
    draws = stream(0, "test", "", "")
    return LocalReports(
        np.stack([randomise(codes[:, i], law, draws) for i, law in enumerate(laws)], axis=1)
    )


@given(st.integers(1, 400), st.integers(0, 99), st.sampled_from(["simplex", "clip"]))
def test_without_noise_the_population_comes_back_cell_by_cell(
    row_count: int, seed: int, estimator: str
) -> None:
    sizes = (2, 3, 5, 2)
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(size, size=row_count) for size in sizes], axis=1)
    laws = [response(epsilon=math.inf, categories=size) for size in sizes]
    rows = reconstruct(_reports(codes, laws), laws, estimator=estimator).codes  # type: ignore[arg-type]
    assert sorted(map(tuple, rows.tolist())) == sorted(map(tuple, codes.tolist()))


def test_counts_put_the_last_answer_fastest() -> None:
    reports = LocalReports(np.array([[0, 0], [0, 2], [1, 1], [1, 1]], dtype=np.uint8))
    assert report_counts(reports, (2, 3)).tolist() == [1, 0, 1, 0, 2, 0]


@pytest.mark.parametrize("estimator", ["simplex", "clip"])
@pytest.mark.parametrize(("sizes", "epsilon"), [((2, 3, 4), 0.3), ((2,) * 13, 0.001)])
def test_as_many_rows_as_reports_all_within_the_domain(
    sizes: tuple[int, ...], epsilon: float, estimator: str
) -> None:
    """Of many answers with hardly any budget, too."""
    laws = [response(epsilon=epsilon, categories=size) for size in sizes]
    reports = _reports(np.zeros((777, len(sizes)), dtype=int), laws)
    rows = reconstruct(reports, laws, estimator=estimator).codes  # type: ignore[arg-type]
    assert rows.shape == (777, len(sizes)) and (rows < sizes).all()


def test_no_estimator_returns_the_reports_themselves() -> None:
    reports = LocalReports(np.array([[1, 0]], dtype=np.uint8))
    assert reconstruct(reports, [], estimator="none").codes is reports.codes


def test_unknown_estimators_are_refused() -> None:
    law = response(epsilon=1.0, categories=2)
    with pytest.raises(ParameterError, match="expected simplex, clip or none"):
        reconstruct(LocalReports(np.zeros((1, 1), dtype=np.uint8)), [law], estimator="round-up")  # type: ignore[arg-type]


@given(
    arrays.arrays(np.float64, st.integers(1, 30), elements=st.integers(0, 4).map(float)).filter(
        lambda array: array.sum() > 0
    )
)
def test_of_equal_remainders_the_first_cells_get_the_missing_rows(weights: np.ndarray) -> None:
    """As a stable sort of all remainders says; and cells without a share change nothing."""
    ideal = weights * (97 / weights.sum())
    expected = np.floor(ideal).astype(np.int64)
    expected[np.argsort(expected - ideal, kind="stable")[: 97 - expected.sum()]] += 1
    assert exact_row_counts(weights, 97).tolist() == expected.tolist()
    shared = np.flatnonzero(weights)
    counts = exact_row_counts(weights[shared], 97, total=weights.sum())
    assert counts.tolist() == expected[shared].tolist()
