"""What an attacker infers from releases about a planted record stays within what epsilon allows;
broken methods do not.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpicl.data.central.graphical_model import NoisyCounts, NoisyMarginal
from dpicl.ground.errors import PrivacyError
from dpicl.ground.randomness import stream
from lab.audit.membership import advantage_at_least, allowed, made_up, of_benchmark
from lab.audit.membership.attacks import (
    SURE,
    by_best_number,
    by_score,
    by_shadows,
    matrices,
    numbers,
)
from lab.audit.membership.run import WAYS, Scene, attack_once
from lab.audit.membership.targets import Target
from lab.audit.neighbours import declared, typed

RUNS, EPSILON, TRIED = 700, 1.0, 60
QUICK = ("GDP-TabICL", "LDP-TabICL, all columns", "MST-TabICL, one column")
"""One way of each method."""
GROUPS = [name for name in WAYS if name.startswith("GDP")]


def attacks(
    name: str, mutant: str = "", *, epsilon: float = EPSILON, runs: int = RUNS, seed: int = 0
) -> list[Any]:
    noise = stream(seed, "membership", name, mutant)
    return attack_once(WAYS[name], made_up(), epsilon, mutant, runs, noise)


@pytest.mark.quick("MST-TabICL, one column")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.exhaustive) for name in WAYS],
)
def test_no_attack_infers_more_than_epsilon_allows_and_mutants_are_found_out(name: str) -> None:
    charged = Scene(WAYS[name], made_up(), EPSILON).cost.charged
    most, honest = allowed(charged.epsilon, charged.delta), attacks(name)
    assert {one.attack for one in honest} >= {"best number", "shadow model"}
    assert max(one.at_least(TRIED) for one in honest) <= most
    for mutant in WAYS[name].mutants:
        broken = attacks(name, mutant, runs=3 * RUNS if name in GROUPS else RUNS)
        assert max(one.at_least(TRIED) for one in broken) > most, mutant


def test_the_best_attack_comes_near_to_what_epsilon_allows() -> None:
    """One count of one column has no noise to spare."""
    (name,) = (name for name in WAYS if name.endswith("one column"))
    found = attacks(name, epsilon=2.0, seed=1)
    (ratio,) = (one for one in found if one.attack == "likelihood ratio")
    assert 0.8 * allowed(2.0) < ratio.seen and 0.5 * allowed(2.0) < ratio.at_least(TRIED)


def test_the_bound_on_a_law_that_meets_it_is_wrong_as_rarely_as_is_said() -> None:
    rng, most, wrong, runs = np.random.default_rng(0), allowed(1.0), 0, 500
    truth = math.e / (1 + math.e)
    for _ in range(2000):
        said = int(rng.binomial(runs, truth)), int(rng.binomial(runs, 1 - truth))
        wrong += advantage_at_least(said, (runs, runs), 0.1) > most
    assert wrong / 2000 <= 0.1
    assert allowed(0.0) == 0 and allowed(1.0) == pytest.approx((math.e - 1) / (math.e + 1))
    assert allowed(1.0, 0.1) == pytest.approx((math.e - 1 + 0.2) / (math.e + 1))
    assert allowed(1000.0) == 1
    assert advantage_at_least((0, 5), (5, 5), SURE) == -1


def test_a_rule_that_is_chosen_on_one_half_is_judged_on_the_other() -> None:
    """Numbers that tell nothing: the best of many looks good where it was chosen, and only
    there.
    """
    rng = np.random.default_rng(0)
    inside, outside = (rng.normal(size=(200, 80)) for _ in range(2))
    for found in (
        by_best_number("", inside, outside),
        by_shadows("", inside, outside),
        by_score("", inside[:, 0], outside[:, 0]),
    ):
        assert abs(found.seen) < 0.15 and found.runs == (100, 100)
    chosen = by_best_number("", np.tile(inside[:100], (2, 1)), np.tile(outside[:100], (2, 1)))
    assert chosen.seen > 0.2


def test_the_other_record_may_differ_in_the_label_alone() -> None:
    target = made_up().of_label()
    (mine,), (theirs,) = (one.data.to_pylist() for one in (target.canary, target.other))
    assert mine["bought"] != theirs["bought"] and mine | {"bought": ""} == theirs | {"bought": ""}
    assert made_up().others.data.equals(target.others.data)


def test_private_rows_are_not_attacked() -> None:
    target = made_up()
    budget = target.contract.privacy.budget.model_copy(update={"benchmark": False})
    private = target.contract.model_copy(
        update={"privacy": target.contract.privacy.model_copy(update={"budget": budget})}
    )
    with pytest.raises(
        PrivacyError,
        match=r"made_up: what an attack finds out about private rows is .* charged to no budget; "
        r"expected",
    ):
        of_benchmark(private, pa.table({}))


def test_of_public_rows_the_most_unusual_one_is_planted() -> None:
    target = made_up()
    rows = pa.concat_tables([target.others.data, target.canary.data]).combine_chunks()
    found = of_benchmark(target.contract, rows)
    (mine,), (theirs,) = (one.data.to_pylist() for one in (found.canary, found.other))
    assert [mine] == target.canary.data.to_pylist()
    assert found.others.row_count == target.others.row_count
    assert not mine.items() & theirs.items()


def test_numbers_of_releases_stand_under_their_names_whichever_a_release_holds() -> None:
    released = [
        [(("b", "a"), np.array([2.0, 1.0]))],
        [(("c", "a"), np.array([4, 3])), (("b", "a"), np.array([6.0, 5.0]))],
    ]
    assert [one.tolist() for one in matrices(released)] == [[[1, 2, 0]], [[3, 0, 4], [5, 6, 0]]]
    counts = [
        NoisyMarginal((0, 2), np.array(cells), 1.0)
        for cells in ([[7, 8], [9, 10]], [[1, 2], [3, 4]])
    ]
    names, values = numbers(NoisyCounts(counts))
    assert dict(zip(names, values.tolist(), strict=True)) == {
        "(0, 2) 1": 1,
        "(0, 2) 2": 1,
        **{f"(0, 2) 1 {cell}": 7 + cell for cell in range(4)},
        **{f"(0, 2) 2 {cell}": 1 + cell for cell in range(4)},
    }


def test_the_label_of_the_other_record_is_in_the_other_half_where_there_is_one() -> None:
    """Answers on whether a column and the label agree tell labels of one half apart as little as
    two that are the same.
    """
    four = declared(
        "many",
        {
            "kind": {"type": "category", "categories": ["a", "b"]},
            "y": {"type": "category", "categories": list("wxyz")},
        },
        "y",
    )
    one = typed(four, {"kind": ["a"], "y": ["w"]})
    for others, expected in (
        (["x", "y", "z", "x"], "z"),
        (["x", "x", "w", "w"], "x"),
        (["w"] * 4, "w"),
    ):
        rows = typed(four, {"kind": ["b"] * 4, "y": others})
        found = Target(four, rows, one, typed(four, {"kind": ["b"], "y": [others[0]]})).of_label()
        assert found.other.data.column("y").to_pylist() == [expected]
