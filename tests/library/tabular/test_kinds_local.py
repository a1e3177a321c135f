"""Local collections and estimates of labels of many classes, or none: who is asked what at which
cost, and populations that are found again.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from dpicl.contract.pipeline import Cell
from dpicl.data.local.estimate import check_fits, estimated_rows, fits
from dpicl.data.local.questions import best_column_count, questionnaire
from dpicl.data.prompts import picked_rows
from dpicl.data.reading.encode import LocalEncoding, encode_clients
from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import Draws
from dpicl.ground.types import PrivateCodes, PrivateTable
from dpicl.methods import Options, unit_of
from dpicl.methods.base import draws_for
from dpicl.methods.collection import collect_codes, laws_for
from dpicl.methods.grid import prices
from dpicl.methods.ldp_tabicl import LdpTabicl
from dpicl.methods.options import LdpVariant
from tests.library.examples import random_table, seeded
from tests.library.kinds import every_kind, kind_contract

EVERY = [
    LdpVariant.model_validate({"design": design, "estimator": estimator})
    for design, estimators in {
        "all-columns": "simplex clip log-linear em tree",
        "one-column": "tree",
        "pairs": "tree log-linear",
        "agreement": "log-linear tree",
        "subset": "log-linear em tree",
    }.items()
    for estimator in estimators.split()
]
every_variant = pytest.mark.parametrize(
    "variant", EVERY, ids=lambda one: f"{one.design}, {one.estimator}"
)
every_label = pytest.mark.parametrize("label", [1, 2, 5])


def population(count: int, label: int) -> np.ndarray:
    """Three columns and a label of so many classes, on which the first column leans, and the second
    on the first: shape (count, 4).
    """
    rng = np.random.default_rng(0)
    classes = rng.choice(label, count, p=np.arange(1, label + 1) / np.arange(1, label + 1).sum())
    first = np.where(rng.random(count) < 0.6, classes % 3, rng.integers(3, size=count))
    second = np.where(rng.random(count) < 0.6, first % 2, rng.integers(2, size=count))
    return np.stack(
        [first, second, rng.choice(4, count, p=[0.1, 0.2, 0.3, 0.4]), classes], axis=1
    ).astype(np.uint8)


def encoding_of(label: int) -> LocalEncoding:
    return LocalEncoding("k-ary", ("a", "b", "c", "label"), (3, 2, 4, label))


@every_variant
@every_label
def test_with_many_clients_and_little_noise_the_population_is_found(
    variant: LdpVariant, label: int
) -> None:
    rows, encoding = population(30_000, label), encoding_of(label)
    draws = Draws(0, "kinds", simulated=True)
    collected = collect_codes(PrivateCodes(rows), encoding, variant, 20.0, draws)
    found = estimated_rows(collected, variant.estimator, seeded(0, "rows")).codes
    known: list[tuple[int, ...]] = [(0,), (1,), (2,), (3,)]
    if variant.design != "one-column" and label > 1:
        known.append((0, 3))
    if variant.design in ("all-columns", "subset") or (
        variant.design in ("pairs", "agreement") and label == 1
    ):  # some client is asked for two columns at once
        known.append((0, 1))
    for columns in known:
        shape = [encoding.bin_counts[column] for column in columns]
        true, estimated = (
            np.histogramdd(codes[:, columns], shape, [(-0.5, size - 0.5) for size in shape])[0]
            / len(codes)
            for codes in (rows, found)
        )
        assert np.abs(true - estimated).sum() / 2 < 0.05, columns


@every_kind
@every_variant
def test_a_collection_costs_epsilon_and_no_more_whatever_the_label(
    kind: str, variant: LdpVariant
) -> None:
    contract = kind_contract(kind)
    if variant.estimator != "tree":
        contract = contract.model_copy(update={"local": contract.attributes[:3]})
        contract.__dict__.pop("attributes", None)
    options = Options.model_validate({"ldp_tabicl": variant.model_dump()})
    unit = unit_of("ldp_tabicl", "customers", 0, (1.0,), (1,), (), False, options)
    (cost,) = prices(LdpTabicl(), contract, unit).values()
    assert 0.99 < cost.charged.epsilon <= 1.0


def test_a_label_that_is_none_takes_no_share_and_no_question() -> None:
    with_label, without = encoding_of(2), encoding_of(1)
    assert [law.epsilon for law in laws_for(with_label, 4.0)] == pytest.approx([1.0] * 4, rel=2e-3)
    assert [law.epsilon for law in laws_for(without, 3.0)] == pytest.approx(
        [1.0, 1.0, 1.0, 0.0], rel=2e-3
    )
    asked = {
        design: questionnaire((3, 2, 4, 1), design, 1.0).questions
        for design in ("one-column", "pairs", "subset")
    }
    assert [one.columns for one in asked["one-column"]] == [(0,), (1,), (2,)]
    assert [one.columns for one in asked["pairs"]] == [
        (*pair, 3) for pair in combinations(range(3), 2)
    ]
    assert min(one.law.epsilon for made in asked.values() for one in made) > 0.9


def test_without_a_label_two_columns_at_least_are_reported_together() -> None:
    """One on its own would tell nothing of how columns depend on each other."""
    counts = [best_column_count((2,) * 12 + (1,), one) for one in (0.1, 1, 5, math.inf)]
    assert counts == [2, 3, 6, 12]
    assert best_column_count((5, 1), 1.0) == 1


@every_kind
def test_what_clients_report_of_a_label_that_is_none_is_nothing(kind: str) -> None:
    contract = kind_contract(kind)
    encoding = LocalEncoding.of(contract, "k-ary")
    codes = encode_clients(PrivateTable(random_table(contract, 80, 0)), contract, encoding)
    collected = collect_codes(codes, encoding, LdpVariant(), 0.5, draws_for(contract, 0))
    assert (len(set(collected.stored[:, -1].tolist())) == 1) == (kind == "none")


def test_a_row_has_one_label_also_where_attributes_are_bits() -> None:
    encoding = LocalEncoding("one-hot", ("a", "b", "label"), (3, 2, 5))
    assert encoding.sizes == (2, 2, 2, 2, 5)
    bins = np.array([[2, 1, 4], [0, 0, 3]])
    assert encoding.encode(bins).tolist() == [[0, 0, 1, 1, 4], [1, 0, 0, 0, 3]]
    assert (encoding.decode(encoding.encode(bins)) == bins).all()


@pytest.mark.parametrize(
    ("sizes", "estimator", "sentence"),
    [
        (
            (300,) * 3 + (200,),
            "tree",
            "estimator=tree: expected fewer categories for wide: about 10^7 cells, at most 1048576",
        ),
        (
            (8,) * 9 + (9,),
            "simplex",
            "estimator=simplex: expected tree for wide: about 10^9 cells, at most 67108864",
        ),
    ],
)
def test_too_many_cells_are_refused_in_one_sentence(
    sizes: tuple[int, ...], estimator: Any, sentence: str
) -> None:
    assert not fits(estimator, sizes) and fits("tree", (256, 256, 256, 2)), (
        "no binary label is too much for a tree"
    )
    with pytest.raises(ParameterError) as caught:
        check_fits(estimator, sizes, "wide")
    assert str(caught.value) == sentence


def test_a_question_that_no_report_is_large_enough_for_says_what_to_do() -> None:
    with pytest.raises(
        ParameterError,
        match="expected at most 8192: fewer columns or categories, or `design: one-column`",
    ):
        questionnaire((100, 100), "pairs", 1.0)
    assert len(questionnaire((100, 100), "one-column", 1.0).questions) == 2


@pytest.mark.parametrize("system", ["icl-prototype", "icl-diverse"])
@pytest.mark.parametrize(
    ("label", "turns"), [(1, [0] * 6), (2, [1, 0] * 3), (4, [3, 2, 1, 0, 3, 2])]
)
def test_demonstrations_take_all_labels_in_turn_the_most_frequent_first(
    system: str, label: int, turns: list[int]
) -> None:
    """The same ones for all queries."""
    rows, queries = population(2000, label).astype(np.int64), population(5, label).astype(np.int64)
    chosen = picked_rows(rows, queries, Cell(system, 1.0, 6), Draws(0, "kinds", simulated=True))
    assert rows[chosen[0], -1].tolist() == turns and len(np.unique(rows[chosen[0]], axis=0)) == 6
    assert (chosen == chosen[0]).all()
