"""Gaussian noise of MST- and AIM-TabICL: every path spends the whole budget, and epsilon and delta
are for what the contract protects.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from dpicl.accounting.accountant import check
from dpicl.accounting.filters import Spent
from dpicl.accounting.guarantee import Neighbours
from dpicl.contract import Contract
from dpicl.contract.declared import Privacy
from dpicl.contract.pipeline import Cell, Unit
from dpicl.data.central import adaptive, spanning_tree
from dpicl.data.central.exact_counts import ExactCounts
from dpicl.data.central.graphical_model import NoisyMarginal, added
from dpicl.ground.errors import PrivacyError
from dpicl.ground.types import PrivateCodes, PrivateTable
from dpicl.mechanisms.noisy_steps import GaussianBudget, GaussianTotal
from dpicl.methods import METHODS, grid, tabular
from dpicl.methods.base import draws_for
from dpicl.methods.options import MstOptions
from tests.direct import point
from tests.library.examples import private_contract, random_table, seeded, small_contract
from tests.library.methods.spending import gaussian_steps
from tests.library.units import drawn, unit_for

SIZES = (2, 3, 2, 4, 2, 3, 2, 4, 2)
METHOD = pytest.mark.parametrize("name", ["mst_tabicl", "aim_tabicl"])
WAY = pytest.mark.parametrize(
    "measure, expected",
    [
        (spanning_tree.measure, spanning_tree.expected_errors),
        (adaptive.measure, adaptive.expected_errors),
    ],
    ids=["MST", "AIM"],
)


def counts(count: int, seed: int, sizes: tuple[int, ...] = SIZES) -> ExactCounts:
    """Of rows whose second column leans on the first."""
    rng = np.random.default_rng(seed)
    rows = np.stack([rng.integers(size, size=count) for size in sizes], axis=1).astype(np.uint8)
    rows[: count // 2, 1] = rows[: count // 2, 0]
    return ExactCounts.of(PrivateCodes(rows), sizes, triples=True)


@WAY
@given(st.sampled_from([0, 9, 300, 3000]), st.integers(0, 99), st.fractions(Fraction(1, 1000), 8))
@settings(max_examples=15)
def test_whatever_is_chosen_the_steps_spend_exactly_the_budget(
    measure: Callable[..., Any], expected: object, count: int, seed: int, amount: Fraction
) -> None:
    with gaussian_steps() as steps:
        found = measure(
            counts(count, seed), budget=GaussianBudget(amount), stream=seeded(seed, "measure")
        )
    assert sum(step.amount for step in steps) == amount
    assert len([step for step in steps if step.variance]) == len(found) and all(
        one.gaussian for one in found
    )


@WAY
def test_errors_are_those_of_the_noise(
    measure: Callable[..., Any], expected: Callable[..., list[float]]
) -> None:
    sizes = (4, 4, 4, 4, 2)
    rows = 200
    budget = GaussianBudget(Fraction(1, 5))
    exact, apart = counts(rows, 0, sizes), []
    for seed in range(40):
        for one in added(measure(exact, budget=budget, stream=seeded(seed, "measure"))):
            if len(one.columns) == 2:
                apart.append(
                    np.abs((one.counts - exact.of_columns(one.columns)).sum(axis=1)).sum()
                    / 2
                    / rows
                )
    assert np.mean(apart) == pytest.approx(np.mean(expected(sizes, budget, rows)), rel=0.2)


def test_counts_of_two_steps_are_as_exact_together_as_their_variances_say() -> None:
    one, other = (
        NoisyMarginal((0, 1), np.full((2, 2), value), scale, gaussian=True)
        for value, scale in ((0.0, 3.0), (25.0, 4.0))
    )
    (both,) = added([one, other])
    assert both.gaussian
    assert both.scale == pytest.approx(2.4)
    assert both.counts[0, 0] == pytest.approx(9)
    assert both.variance == pytest.approx(5.76)


def _unit(name: str, contract: Contract, epsilon: float = 1.0, **options: Any) -> Unit:
    noise = {"noise": "gaussian", **options}
    return unit_for(name, contract.name, epsilons=(epsilon,), shots=(1,), **noise)


def _protecting(**privacy: Any) -> Contract:
    contract = private_contract()
    stated = {"budget": {"epsilon": 9, "delta": 1e-6}, **privacy}
    return contract.model_copy(update={"privacy": Privacy.model_validate(stated)})


@METHOD
@pytest.mark.parametrize(
    "privacy, moved, unit",
    [
        ({}, 1, "row"),
        ({"neighbours": "replace-one"}, 2, "row"),
        ({"unit": "person", "person": {"id_column": "age", "max_rows": 5}}, 5, "person"),
        (
            {
                "unit": "person",
                "person": {"id_column": "age", "max_rows": 5},
                "neighbours": "replace-one",
            },
            10,
            "person",
        ),
    ],
    ids=["row", "replaced row", "person", "replaced person"],
)
def test_epsilon_and_delta_are_charged_for_what_the_contract_protects(
    name: str, privacy: dict[str, Any], moved: int, unit: str
) -> None:
    """The same as one Gaussian that is moved so many times as far as by one row."""
    contract = _protecting(**privacy)
    (cost,) = grid.prices(METHODS[name], contract, _unit(name, contract, delta=1e-6)).values()
    charged = cost.charged
    assert 0.995 <= charged.epsilon <= 1 and (charged.delta, charged.unit) == (1e-6, unit)
    check(charged)
    spent = Spent.nothing().plus(charged)
    assert spent.cost(1e-6).epsilon == pytest.approx(charged.epsilon)
    assert 1 < spent.plus(charged).cost(1e-6).epsilon < 2.3
    budget = tabular(name)._priced(
        contract, point(_unit(name, contract, delta=1e-6), Cell("counts", 1.0))
    )[0]  # type: ignore[attr-defined]
    row = GaussianTotal.of(1.0, delta=1e-6, neighbours=Neighbours.ADD_OR_REMOVE_ONE).budget
    assert row.amount is not None and float(row.amount / budget.amount) == pytest.approx(
        moved**2, rel=0.02
    )


@METHOD
def test_delta_is_the_budgets_where_nobody_says_it_and_part_of_the_name(name: str) -> None:
    contract, other = _protecting(), _protecting(budget={"epsilon": 9, "delta": 1e-7})
    method, default = METHODS[name], _unit(name, contract)
    (cost,) = grid.prices(method, contract, default).values()
    assert cost.charged.delta == 1e-6
    asked, stated = (
        point(unit, Cell("counts", 1.0)) for unit in (default, _unit(name, contract, delta=1e-6))
    )
    named = method.identity(contract, asked)
    assert method.identity(contract, stated) == named != method.identity(other, asked)
    assert " and delta 1e-06; " in method.statement(contract, asked, cost)


@METHOD
def test_without_a_delta_to_spend_gaussian_noise_is_refused(name: str) -> None:
    for contract, options in (
        (private_contract(), {"delta": 1e-6}),
        (private_contract(), {}),
        (small_contract(), {}),
    ):
        with pytest.raises(
            PrivacyError,
            match="its budget has no delta, which gaussian noise needs; expected budget.delta, or "
            r"noise laplace \(a schema states one by `privacy: \{budget: \{delta: 1e-6\}\}`\)",
        ):
            grid.prices(METHODS[name], contract, _unit(name, contract, **options))
    capped = _protecting(budget={"epsilon": 9, "delta": 1e-6})
    with pytest.raises(
        PrivacyError, match="delta 0.001 is above its budget's, 1e-06; expected at most that"
    ):
        grid.prices(METHODS[name], capped, _unit(name, capped, delta=1e-3))
    assert grid.prices(
        METHODS[name], small_contract(), _unit(name, small_contract(), delta=1e-6)
    ), "on a benchmark a stated one is enough"
    with pytest.raises(ValidationError, match="delta with laplace noise"):
        MstOptions(delta=1e-6)
    with pytest.raises(ValidationError, match="greater than 0"):
        MstOptions(noise="gaussian", delta=0)


@METHOD
@pytest.mark.parametrize("epsilon", [1.0, 10.0, math.inf])
def test_a_release_is_read_as_it_was_published_and_batches_are_the_whole(
    name: str, epsilon: float
) -> None:
    contract, method = small_contract(), tabular(name)
    unit, table = _unit(name, contract, epsilon, delta=1e-6), random_table(contract, 300, 0)
    asked, draws = point(unit, Cell("counts", epsilon)), draws_for(contract, 0)
    (whole,) = drawn(unit, contract, PrivateTable(table)).values()
    parts = [PrivateTable(part) for part in (table[:100], table[100:])]
    bins = method.choose(
        [method.look(part, contract, draws) for part in parts], contract, asked, draws
    )
    batches = [method.count(part, contract.with_bins(bins), asked, draws) for part in parts]
    stored = method.encode(whole)
    assert method.encode(method.merge(batches, contract, asked, draws, bins)) == stored
    again = method.decode(stored, contract, asked)
    assert method.encode(again) == stored
    assert [one.gaussian for one in again.marginals] == [one.gaussian for one in whole.marginals]
    assert all(one.scale for one in whole.marginals) == (epsilon < math.inf)
    assert method.rows(again, contract, asked, draws, 50).codes.shape[0] == 50
    errors = method.column_errors(contract, asked, 300)
    assert set(errors) == set(contract.features) and min(errors.values()) >= 0
    assert max(errors.values()) <= 1
