"""What a slice costs: the bounds that enter the accounting are its own, stated ones, and fewer
texts need more noise at the same epsilon.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from dpicl.contract import TextContract
from dpicl.contract.load import edition
from dpicl.contract.pipeline import Cell, Unit
from dpicl.methods import METHODS
from dpicl.methods import ensemble_plan as ensemble
from dpicl.methods import few_shot_plan as few_shot
from dpicl.release.names import EMBEDDER, ReleaseFacts, parameters_of
from dpicl.runs.results import smaller_than_published
from tests.direct import point
from tests.library.text_contracts import (
    EDITIONS,
    TEXT_CONTRACTS,
    as_ensemble,
    as_free_text,
    text_contract,
)
from tests.library.units import unit_for


def asked(name: str, dataset: str, *epsilons: float, **how: Any) -> Unit:
    return unit_for(name, dataset, epsilons=epsilons, shots=(4,), **how)


ONE = Cell("icl", 1.0, 4)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name, rows", [("dbpedia", 40_000), ("dbpedia:rows-700", 700)])
def test_q_and_delta_are_those_of_the_edition(name: str, rows: int) -> None:
    contract = EDITIONS[name]
    written, answered = (
        plans.plan_release(contract, point(asked(method, "dbpedia", 1.0), ONE))
        for plans, method in ((few_shot, "few_shot_generation"), (ensemble, "dp_icl"))
    )
    assert {drawing.rate for drawing in written.drawings.values()} == {Fraction(80, rows)}
    assert written.guarantee.delta == pytest.approx(1 / rows)
    assert answered.rate == Fraction(40, 14 * rows)


@pytest.mark.parametrize("rates", [(), (Fraction(1, 10),)], ids=["", "with a sampling rate"])
def test_the_noise_of_both_sizes_is_solved_for_and_more_for_fewer_texts(
    rates: tuple[Fraction, ...],
) -> None:
    contracts = {
        "dbpedia": EDITIONS["dbpedia:rows-700"],
        "sst2": EDITIONS["sst2:json-lines"],
        "agnews": EDITIONS["agnews"],
    }
    pairs = [(name, "few_shot_generation") for name in ("dbpedia", "agnews")] + [("sst2", "dp_icl")]
    units = [asked(method, name, 1.0, 8.0, math.inf, rates=rates) for name, method in pairs]
    # of sst2 all rows are at hand, in another form, and agnews is whole
    (found,) = smaller_than_published(units, contracts)
    assert {name: found[name] for name in ("dataset", "slice", "here", "published")} == {
        "dataset": "dbpedia",
        "slice": "rows-700",
        "here": 700,
        "published": 40_000,
    }
    assert [one["epsilon"] for one in found["noise"]] == [1.0, 8.0]
    for one in found["noise"]:
        here, published = (
            float(one[name].removeprefix("sigma ")) for name in ("here", "published")
        )
        assert here > 2 * published
    assert found["noise"][0]["published"] == "sigma 0.6171"


def test_an_edition_keeps_its_contract_s_other_words() -> None:
    stated = TEXT_CONTRACTS["agnews"]
    for name in ("published", "rows-10000"):
        one = edition(stated, name)
        assert (one.prompts, one.query_count, one.name, one.max_characters) == (
            stated.prompts,
            stated.query_count,
            "agnews",
            1000,
        )
        assert one.source.published is None
        assert not one.source.slices
        assert one.edition_of.stated is stated  # type: ignore[union-attr]


def test_another_embedder_is_another_release_where_one_is_used_and_only_there() -> None:
    free, labels = text_contract(as_free_text), text_contract(as_ensemble)
    unit = asked("dp_icl", "mail", 1.0, variants={"words": {"aggregation": "keywords-joint"}})
    facts = ReleaseFacts(writer="w", embedder="e")

    def named(contract: TextContract, system: str) -> dict[str, Any]:
        return parameters_of(contract, "dp_icl", point(unit, Cell(system, 1.0, 1)), facts)

    assert named(free, "icl")[EMBEDDER] == "e"
    assert EMBEDDER not in named(free, "icl-words") | named(labels, "icl")
    assert not METHODS["few_shot_generation"].embeds(labels, point(unit, ONE))  # type: ignore[attr-defined]
