"""What a slice costs: the bounds that enter the accounting are its own, stated ones, and fewer
texts need more noise at the same epsilon.
"""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from dpicl.contract.load import edition
from dpicl.contract.pipeline import Cell
from dpicl.methods import METHODS, Options, unit_of
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

GRID = ((1.0, 8.0, math.inf), (4,), (), False, Options())


@pytest.mark.exhaustive
def test_q_and_delta_are_those_of_the_edition() -> None:
    whole, few = EDITIONS["dbpedia"], EDITIONS["dbpedia:rows-700"]
    for contract, rows in ((whole, 40_000), (few, 700)):
        plan = few_shot.plan_release(
            contract,
            point(unit_of("few_shot_generation", "dbpedia", 0, *GRID), Cell("icl", 1.0, 4)),
        )
        assert {drawing.rate for drawing in plan.drawings.values()} == {Fraction(80, rows)}
        assert plan.guarantee.delta == pytest.approx(1 / rows)
        ensemble_plan = ensemble.plan_release(
            contract, point(unit_of("dp_icl", "dbpedia", 0, *GRID), Cell("icl", 1.0, 4))
        )
        assert ensemble_plan.rate == Fraction(40, 14 * rows)


@pytest.mark.parametrize("rates", [(), (Fraction(1, 10),)], ids=["", "with a sampling rate"])
def test_the_noise_of_both_sizes_is_solved_for_and_more_for_fewer_texts(
    rates: tuple[Fraction, ...],
) -> None:
    grid = (*GRID[:2], rates, *GRID[3:])
    contracts = {
        "dbpedia": EDITIONS["dbpedia:rows-700"],
        "sst2": EDITIONS["sst2:json-lines"],
        "agnews": EDITIONS["agnews"],
    }
    units = [unit_of("few_shot_generation", name, 0, *grid) for name in ("dbpedia", "agnews")] + [
        unit_of("dp_icl", "sst2", 0, *grid)
    ]
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
        assert (
            one.source.published is None
            and not one.source.slices
            and one.edition_of.stated is stated
        )  # type: ignore[union-attr]


def test_another_embedder_is_another_release_where_one_is_used_and_only_there() -> None:
    free, labels = text_contract(as_free_text), text_contract(as_ensemble)
    options = Options.model_validate(
        {"dp_icl": {"variants": {"words": {"aggregation": "keywords-joint"}}}}
    )
    unit = unit_of("dp_icl", "mail", 0, (1.0,), (1,), (), False, options)
    facts = ReleaseFacts(writer="w", embedder="e")
    named = {
        system: parameters_of(free, unit.method, point(unit, Cell(system, 1.0, 1)), facts)
        for system in ("icl", "icl-words")
    }
    assert named["icl"][EMBEDDER] == "e" and EMBEDDER not in named["icl-words"]
    assert EMBEDDER not in parameters_of(
        labels,
        "dp_icl",
        point(
            unit_of("dp_icl", "mail", 0, (1.0,), (1,), (), False, Options()), Cell("icl", 1.0, 1)
        ),
        facts,
    )
    assert not METHODS["few_shot_generation"].embeds(labels, point(unit, Cell("icl", 1.0, 1)))  # type: ignore[attr-defined]
