"""What an attacker infers from released texts about a planted one stays within what epsilon allows;
broken methods do not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpicl.ground.randomness import stream
from lab.audit.membership import allowed, made_up_texts
from lab.audit.membership.attacks import by_score, most_area, most_true
from lab.audit.membership.texts import INK, TEXT_WAYS, TextScene, attack_texts_once

EPSILON, TRIED = 1.0, 60
MUTANTS = [(name, mutant) for name, way in TEXT_WAYS.items() for mutant in way.mutants]


def attacks(
    name: str, runs: int, mutant: str = "", *, epsilon: float = EPSILON, seed: int = 0
) -> list[Any]:
    noise = stream(seed, "membership", name, mutant)
    return attack_texts_once(TEXT_WAYS[name], made_up_texts(), epsilon, mutant, runs, noise)


def charged(name: str) -> tuple[float, float]:
    cost = TextScene(TEXT_WAYS[name], made_up_texts(), EPSILON).charged
    return cost.epsilon, cost.delta


@pytest.mark.parametrize(
    "name, runs",
    [pytest.param(name, 500, marks=pytest.mark.exhaustive) for name in TEXT_WAYS]
    + [pytest.param(INK, 60)],
)
def test_no_attack_on_texts_infers_more_than_epsilon_allows(name: str, runs: int) -> None:
    honest = attacks(name, runs)
    made = {one.attack for one in honest}
    assert made >= {"n-gram model", "shared n-grams", "best number", "shadow model"}
    assert ("likelihood ratio" in made) == (name == INK)
    assert all(one.holds(*charged(name), TRIED) for one in honest)


@pytest.mark.parametrize(
    "name, mutant, runs",
    [pytest.param(*one, 500, marks=pytest.mark.exhaustive) for one in MUTANTS]
    + [pytest.param(INK, "no-noise", 240)],
)
def test_a_text_that_is_read_without_noise_or_clip_is_found_out(
    name: str, mutant: str, runs: int
) -> None:
    broken = attacks(name, runs, mutant)
    assert max(one.at_least(TRIED) for one in broken) > allowed(*charged(name))
    assert not all(one.holds(*charged(name), TRIED) for one in broken)


@pytest.mark.exhaustive
def test_the_attacker_who_knows_the_law_comes_near_to_what_epsilon_allows() -> None:
    found = {one.attack: one for one in attacks(INK, 500, epsilon=8.0, seed=1)}
    ratio = found.pop("likelihood ratio")
    assert ratio.seen > 0.6 and ratio.area > 0.85
    assert all(one.area < ratio.area for one in found.values())


@pytest.mark.parametrize(
    "epsilon, delta", [(0.0, 0.0), (1.0, 0.0), (1.0, 0.1), (4.0, 1e-5), (0.0, 0.3)]
)
def test_the_allowed_area_is_that_of_the_allowed_curve(epsilon: float, delta: float) -> None:
    false = np.linspace(0, 1, 20_001)
    curve = np.array([most_true(one, epsilon, delta) for one in false])
    assert most_area(epsilon, delta) == pytest.approx(float(np.trapezoid(curve, false)), abs=1e-6)
    assert (curve - false).max() == pytest.approx(allowed(epsilon, delta), abs=1e-3)


def test_area_and_few_false_positives_are_those_of_the_second_half() -> None:
    inside = np.array([0.0] * 100 + [1.0] * 50 + [3.0] * 50)
    outside = np.array([5.0] * 5 + [2.0] * 95 + [2.0] * 99 + [9.0])
    found = by_score("", inside, outside)
    assert found.area == pytest.approx((50 * 99) / (100 * 100))
    assert found.sharp == (50, 1) and found.runs == (100, 100)
