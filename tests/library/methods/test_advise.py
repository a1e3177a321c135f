"""Advice: synthetic populations of a contract's shape, judged alike for every way; no row is read."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpicl.advise import SHOTS, advise, synthetic_rows
from dpicl.contract import Contract
from dpicl.errors import ParameterError
from dpicl.methods.options import LdpVariant
from dpicl.tabular.reading.encode import LocalEncoding
from tests.harness import call_main, complaint
from tests.library.examples import small_contract


def test_a_synthetic_population_has_the_contract_s_columns() -> None:
    sizes = LocalEncoding.of(small_contract(), "k-ary").sizes
    rows = synthetic_rows(sizes, 5_000, np.random.default_rng(0))
    assert rows.shape == (5_000, len(sizes)) and tuple(rows.max(axis=0) + 1) == sizes
    assert 0.2 < rows[:, -1].mean() < 0.55


def test_at_a_small_epsilon_one_question_is_worth_more_than_all_columns(contracts: dict[str, Contract]) -> None:
    told: list[tuple[int, int]] = []
    found = advise(contracts["breast_cancer"], 5_000, 1.0, populations=3, progress=lambda done, total: told.append((done, total)))
    assert found == sorted(found, key=lambda one: -one.gain) and all(len(one.gains) == 3 and one.shots in SHOTS for one in found)
    (papers,) = [one for one in found if one.variant == LdpVariant()]
    assert found[0].variant.design in ("subset", "pairs") and found[0].gain > max(0, papers.gain + 0.05)
    assert told[-1] == (3 * len(found), 3 * len(found))


def test_the_same_question_gets_the_same_advice() -> None:
    one, other = (advise(small_contract(), 300, 2.0, populations=2) for _ in range(2))
    assert one == other


def test_without_noise_every_way_that_sees_the_label_is_above_majority(contracts: dict[str, Contract]) -> None:
    found = advise(contracts["breast_cancer"], 3_000, math.inf, populations=2)
    assert all(one.gain > 0 for one in found if one.variant.design in ("all-columns", "subset"))


@pytest.mark.parametrize(("clients", "epsilon", "phrase"), [(0, 1.0, "rows=0"), (10, 0.0, "epsilon=0"), (10, math.nan, "epsilon=nan")])
def test_what_cannot_be_tried_is_refused(clients: int, epsilon: float, phrase: str) -> None:
    with pytest.raises(ParameterError, match=phrase):
        advise(small_contract(), clients, epsilon)


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        (("nowhere", "--rows", "10"), "expected one of"),
        (("heart", "--rows", "10", "--epsilon", "much"), "epsilon=much"),
        (("heart", "--rows", "0"), "greater than or equal to 1"),
    ],
)
def test_a_mistake_is_one_sentence(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], phrase: str) -> None:
    assert phrase in complaint(call_main(["advise", *arguments], capsys))
