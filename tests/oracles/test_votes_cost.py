"""What votes of teachers on many queries cost, against dp-accounting."""

from __future__ import annotations

import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from dpicl.methods.tab_pate import moved_by_one


@pytest.mark.parametrize(("labels", "changed"), [(2, 1), (3, 2), (5, 2)])
@pytest.mark.parametrize("queries", [1, 6])
def test_numbers_that_one_vote_moves_on_every_query_cost_epsilon_together(
    labels: int, changed: int, queries: int
) -> None:
    """Composed by dp-accounting: so many numbers per query move by one, each with noise of its
    share; a larger share would cost more.
    """
    epsilon = 1.5
    for times, costs in ((1.0, epsilon), (1.25, 1.25 * epsilon)):
        share = times * epsilon / (queries * moved_by_one(labels))
        one = pld.from_discrete_laplace_mechanism(
            share, sensitivity=1, value_discretization_interval=share / 8
        )
        total = one.self_compose(queries * changed, tail_mass_truncation=0).get_epsilon_for_delta(
            0.0
        )
        assert total == pytest.approx(costs, rel=1e-6)
