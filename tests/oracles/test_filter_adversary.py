"""The best adversary against a filter, computed exactly: it sees every outcome and chooses what
comes next, or to stop.

Its releases are randomised responses whose epsilons are whole multiples of a unit, so losses lie on
a lattice, and what
a transcript gives away at most is a finite recursion: the largest  E max(0, 1 - e^(epsilon - L)),
the delta it needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from dpicl.accounting.accountant import compose_checked
from dpicl.accounting.events import approximate, gaussian
from dpicl.accounting.filters import Spent
from dpicl.accounting.guarantee import Event, Guarantee, Neighbours

REPLACE = Neighbours.REPLACE_ONE
Counts = tuple[int, int]
MENUS = [(0.1, (1, 4), 1.0, 0.01), (0.1, (2, 3), 0.3, 0.0646), (0.1, (1, 6), 1.0, 0.01)]
"""Unit, both multiples, and a cap (epsilon, delta)."""


def release(event: Event, delta: float) -> Guarantee:
    return Guarantee(1.0, delta, REPLACE, "row", event)


def responses(unit: float, multiples: tuple[int, int], delta: float) -> list[Guarantee]:
    return [release(approximate(unit * multiple, 0.0), delta) for multiple in multiples]


def needed_delta(
    unit: float,
    multiples: tuple[int, int],
    epsilon: float,
    accepts: Callable[[Counts], bool],
) -> float:
    """What the best adversary reaches if it may make `counts` of both releases while
    `accepts(counts)`.
    """
    most, accepts = 60, cache(accepts)
    reach = most * sum(multiples)
    losses = np.arange(-reach, reach + 1) * unit
    stop = np.where(losses > epsilon + 1e-9, -np.expm1(epsilon - losses), 0.0)

    @cache
    def best(counts: Counts) -> np.ndarray:
        value = stop
        for place, multiple in enumerate(multiples):
            after = (counts[0] + (place == 0), counts[1] + (place == 1))
            if max(after) > most or not accepts(after):
                continue
            next_value, truth = best(after), 1 / (1 + math.exp(-multiple * unit))
            up = np.pad(next_value, (0, multiple), mode="edge")[multiple:]
            down = np.pad(next_value, (multiple, 0), mode="edge")[:-multiple]
            value = np.maximum(value, truth * up + (1 - truth) * down)
        return value

    return float(best((0, 0))[reach])


def spent(counts: Counts, releases: list[Guarantee]) -> Spent:
    total = Spent.nothing()
    for count, one in zip(counts, releases, strict=True):
        for _ in range(count):
            total = total.plus(one)
    return total


@pytest.mark.quick("0.1-multiples1-1.0-0.01")
@pytest.mark.parametrize(("unit", "multiples", "epsilon", "delta"), MENUS[::2])
def test_the_best_adversary_stays_within_the_cap(
    unit: float, multiples: tuple[int, int], epsilon: float, delta: float
) -> None:
    releases = responses(unit, multiples, delta)

    def accepts(counts: Counts) -> bool:
        return spent(counts, releases).cost(delta).epsilon <= epsilon

    assert delta / 10 < needed_delta(unit, multiples, epsilon, accepts) <= delta


@pytest.mark.parametrize(
    ("unit", "multiples", "epsilon", "delta", "excess"),
    [
        pytest.param(*MENUS[0], 1.3, marks=pytest.mark.exhaustive),
        (*MENUS[1], 1.05),
        pytest.param(*MENUS[2], 1.1, marks=pytest.mark.exhaustive),
    ],
)
def test_distributions_of_parameters_seen_so_far_are_no_filter(
    unit: float, multiples: tuple[int, int], epsilon: float, delta: float, excess: float
) -> None:
    """The account's rule until now: compose the entries by PLD and compare with the cap. It is
    beaten.
    """
    releases = responses(unit, multiples, delta)

    def accepts(counts: Counts) -> bool:
        together = {one: count for one, count in zip(releases, counts, strict=True) if count}
        return compose_checked(together, delta=delta).epsilon <= epsilon

    assert needed_delta(unit, multiples, epsilon, accepts) > excess * delta


def test_a_filter_that_forgets_the_first_half_is_beaten() -> None:
    unit, multiples, epsilon, delta = MENUS[0]
    releases = responses(unit, multiples, delta)

    def forgetful(counts: Counts) -> bool:
        half = -(-counts[0] // 2), -(-counts[1] // 2)
        return spent(half, releases).cost(delta).epsilon <= epsilon

    assert needed_delta(unit, multiples, epsilon, forgetful) > 2 * delta


SHIFTS, PATHS, STEPS = (0.15, 0.4), 200_000, 150


def gaussian_adversary(limits: np.ndarray, epsilon: float) -> float:
    """Low noise once the loss is high, else high noise; stops above the cap. `limits` is what fits
    of the first kind beside the second.
    """
    rng = np.random.default_rng(20)
    losses, counts = np.zeros(PATHS), np.zeros((2, PATHS), int)
    for _ in range(STEPS):
        wanted = (losses >= 0.3 * epsilon).astype(int)
        wanted = np.where(counts[0] < limits[np.minimum(counts[1] + 1, len(limits) - 1)], wanted, 0)
        after = counts + np.array([wanted == 0, wanted == 1])
        fits = after[0] <= limits[np.minimum(after[1], len(limits) - 1)]
        chosen, shift = fits & (losses <= epsilon), np.array(SHIFTS)[wanted]
        losses += chosen * (shift**2 / 2 + shift * rng.standard_normal(PATHS))
        counts = np.where(chosen, after, counts)
    return float(np.maximum(0, -np.expm1(epsilon - losses)).mean())


@pytest.mark.exhaustive
def test_an_adversary_of_gaussians_stays_within_the_cap_and_beats_a_filter_that_forgets() -> None:
    """Neighbours that lie one sensitivity apart on a line; the noise of each release depends on all
    losses before.
    """
    epsilon, delta = 1.0, 0.01
    releases = [release(gaussian(sigma=2 / shift), delta) for shift in SHIFTS]

    def accepted(second: int) -> int:
        first = 0
        while spent((first, second), releases).cost(delta).epsilon <= epsilon:
            first += 1
        return first - 1

    limits = [accepted(0)]
    while limits[-1] >= 0:
        limits.append(accepted(len(limits)))
    assert gaussian_adversary(np.array(limits), epsilon) <= delta
    forgets = np.repeat(np.array(limits) * 4, 4)
    assert gaussian_adversary(forgets, epsilon) > delta
