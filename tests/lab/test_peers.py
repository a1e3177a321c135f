"""The bench of peers: stand-ins for mbi answer as the noisy counts say, and a system that is
missing on a table is not ranked there.
"""

import numpy as np
import pandas as pd
import pytest

from lab.benchmarks.peers.published import Dataset, Domain, LinearMeasurement, mirror_descent
from lab.benchmarks.peers.report import ranks

DOMAIN = Domain({0: 3, 1: 4, 2: 2})


@pytest.fixture
def rows() -> Dataset:
    rng = np.random.default_rng(0)
    first = rng.integers(3, size=5000)
    second = (first + rng.integers(2, size=5000)) % 4
    return Dataset(pd.DataFrame({0: first, 1: second, 2: (first + second) % 2}), DOMAIN)


def measured(rows: Dataset, *cliques: tuple[int, ...]) -> list[LinearMeasurement]:
    return [LinearMeasurement(rows.project(clique).datavector(), clique, 0.5) for clique in cliques]


def test_exact_counts_of_pairs_come_back_from_the_model_in_the_order_asked_for(
    rows: Dataset,
) -> None:
    model = mirror_descent(DOMAIN, measured(rows, (0,), (1,), (2,), (0, 1), (0, 2)))
    for clique in ((0, 1), (0, 2), (0,), (2,)):
        np.testing.assert_allclose(
            model.project(clique).datavector(), rows.project(clique).datavector(), atol=25
        )


def test_a_pair_that_is_not_measured_is_independent(rows: Dataset) -> None:
    modelled = (
        mirror_descent(DOMAIN, measured(rows, (0,), (1,), (2,)))
        .project((0, 1))
        .datavector()
        .reshape(3, 4)
    )
    np.testing.assert_allclose(
        modelled, np.outer(modelled.sum(axis=1), modelled.sum(axis=0)) / modelled.sum(), rtol=1e-6
    )


def test_who_is_missing_on_a_table_is_not_ranked_there() -> None:
    means = {
        "car": {"aim_tabicl": 0.8, "mst": 0.9, "dp_ebm": 0.7},
        "wine": {"aim_tabicl": 0.9, "mst": 0.8, "mst_tabicl": 0.99},
    }
    assert ranks(means, "aim_tabicl") == {"aim_tabicl": 1.5, "mst": 1.5, "dp_ebm": 3}
    assert ranks(means, "mst_tabicl")["mst_tabicl"] == 1


def test_a_cell_that_stands_for_several_is_weighed_back() -> None:
    weights = np.array([1, 1, 0.5, 1])
    halved = LinearMeasurement(
        np.array([4.0, 3, 1, 5]), (1,), 1.0, query=lambda counts: counts.datavector() * weights
    )
    assert halved.marginal(DOMAIN).counts.tolist() == [4, 3, 2, 5]
