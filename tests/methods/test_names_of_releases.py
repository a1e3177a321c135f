"""A release's name holds all that decides what is drawn: searched over every choice of every
registered method, alone and in pairs.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import chain, combinations_with_replacement
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from pydantic import ValidationError

from dpicl.contract import parse_contract
from dpicl.contract.base import IN_FULL, Frozen
from dpicl.contract.load import contract_digest
from dpicl.contract.pipeline import Unit
from dpicl.ground.errors import PrivacyError
from dpicl.ledger.keys import canonical
from dpicl.methods import METHODS, ensemble_plan, few_shot_plan, grid
from dpicl.methods.few_shot_generation import FewShotGeneration
from dpicl.methods.tabular_method import TabularMethod
from dpicl.release.names import POST_PROCESSING, parameters_of
from tests.direct import point, points_of
from tests.library.units import drawn
from tests.methods.examples import TABULAR, contract_for, every_method, unit_for

PLAIN = {
    bool: (False, True),
    int: (2, 3),
    float: (0.25, 0.75),
    str: ("band", "colour"),
    type(None): (None,),
}
"""Values of a type; texts name attributes of the contract."""


def _values(kind: Any) -> Iterator[Any]:
    """Values that a choice of this type may take, as pipelines.yaml writes them; some may be out of
    range.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        yield from inner
    elif origin is Annotated:
        yield from _values(inner[0])
    elif origin in (Union, UnionType):
        yield from (value for one in inner for value in _values(one))
    elif origin is tuple:
        yield from ((), *((value,) for value in _values(inner[0])))
    elif origin is dict:
        yield from ({"other": options} for options in _ways(inner[1], together=2))
    else:
        yield from PLAIN[kind]


def _ways(kind: type[Frozen], together: int = 3) -> list[dict[str, Any]]:
    """Valid choices: so many of them other than usual, since some are valid beside certain others
    only; variants one at a time.
    """
    alone = [
        (name, value)
        for name, field in kind.model_fields.items()
        for value in _values(field.annotation)
    ]
    few = combinations_with_replacement(
        [choice for choice in alone if choice[0] != "variants"], together
    )
    made: dict[str, dict[str, Any]] = {}
    for choices in chain(few, ((choice,) for choice in alone)):
        with suppress(ValidationError):
            valid = kind.model_validate(dict(choices)).model_dump(context=IN_FULL)
            made.setdefault(repr(valid), valid)
    return list(made.values())


def _drawn(unit: Unit) -> dict[str, object]:
    """What is drawn of 40 rows with the unit's seed, by the name of its release; of texts how
    tokens or answers are drawn.
    """
    method, contract = METHODS[unit.method], contract_for(unit.method)
    if isinstance(method, TabularMethod):
        found = {cell: method.encode(one) for cell, one in drawn(unit, contract, 40).items()}
    else:
        plan: Any = (
            few_shot_plan if isinstance(method, FewShotGeneration) else ensemble_plan
        ).plan_release
        found = {
            cell: repr(replace(plan(contract, asked), point=None))
            for cell, asked in points_of(unit).items()
        }
    return {
        canonical(parameters_of(contract, unit.method, point(unit, cell))): drawn
        for cell, drawn in found.items()
    }


def _plain(name: str, chosen: dict[str, Any]) -> str:
    """The name of the release that is first: of the method's own way, beside which others may
    stand.
    """
    contract = contract_for(name)
    cell = next(iter(grid.prices(METHODS[name], contract, unit_for(name))))
    return canonical(parameters_of(contract, name, point(unit_for(name, **chosen), cell)))


@pytest.mark.quick("tab_pe", "gdp_tabicl", "dp_icl")
@every_method
def test_one_name_is_one_draw_whatever_is_chosen(name: str) -> None:
    """So that nothing is drawn a second time in another way under a name that is paid for."""
    # of texts all but the amount of noise, which takes long to solve for
    epsilons = (8.0,) if name in TABULAR else (math.inf,)
    named: dict[str, object] = {}
    for chosen in _ways(METHODS[name].options):
        with suppress(PrivacyError):  # does not fit the contract: nothing is drawn
            for parameters, drawn in _drawn(unit_for(name, epsilons=epsilons, **chosen)).items():
                assert named.setdefault(parameters, drawn) == drawn, (
                    f"{chosen}: drawn in another way under the same name"
                )
    assert named


@pytest.mark.quick("tab_pe", "gdp_tabicl", "tab_pate", "aim_tabicl", "mst_tabicl", "ldp_tabicl")
@every_method
def test_every_choice_but_of_post_processing_is_part_of_the_name(name: str) -> None:
    options = METHODS[name].options
    named = [(chosen, _plain(name, chosen)) for chosen in _ways(options)]
    for field in options.model_fields:
        alike: dict[str, list[str]] = defaultdict(list)
        for chosen, parameters in named:
            if field != "calibrate" or chosen[field] is not None:  # else as the contract says
                alike[repr({**chosen, field: ""})].append(parameters)
        names_of_several = [names for names in alike.values() if len(names) > 1]
        apart = field not in {"variants", *POST_PROCESSING}  # variants have names of their own
        assert names_of_several, f"{field}: was not searched"
        assert all(len(set(names)) == (len(names) if apart else 1) for names in names_of_several), (
            field
        )


@every_method
@pytest.mark.parametrize(
    "change",
    [{"epsilons": (2.0,)}, {"seed": 1}, {"rates": (Fraction(1, 3),)}, {"shots": (2, 1)}],
    ids=str,
)
def test_epsilon_seed_rate_and_shots_draw_nothing_else_under_one_name(
    name: str, change: dict[str, Any]
) -> None:
    plain, changed = _drawn(unit_for(name)), _drawn(unit_for(name, **change))
    assert {
        parameters: changed.get(parameters, drawn) for parameters, drawn in plain.items()
    } == plain
    if "seed" in change or "epsilons" in change:
        assert not plain.keys() & changed.keys()


DATE = {"type": "date", "bounds": ["2018-01-01", "2022-01-01"]}
COLUMNS = {
    "a nullable category": {"type": "category", "categories": [1, 2, 3], "nullable": True},
    "a date": DATE,
    "a date in bins": {**DATE, "bins": ["2019-01-01", "2020-01-01"]},
    "a whole number in bins": {"type": "integer", "bounds": [0, 100], "bins": [10, 20]},
    "a nullable number in bins": {
        "type": "real",
        "bounds": [0, 1],
        "decimals": 2,
        "nullable": True,
        "bins": [0.2, 0.5],
    },
}
DIGESTS = {
    "a nullable category": "533e2b0b69494b288a24f88df6944b2364d2a216a21d88d16cd377999be0a065",
    "a date": "a748bc14dc44205410fba57182cb74e77350ba39669a8b281fccdd1670c7b288",
    "a date in bins": "58cc6f311b5cb4d99fed4805b80a0ee2672effc7d16bf41c531ec6b0ed0c1c5b",
    "a whole number in bins": "a50a047755dbc340b457941d8e2de6b8321359efe47ebe3b6ec5df1d372a3b5e",
    "a nullable number in bins": "616478d00c044199543076b551fe783253bc956e6d3a4bb9befe71541bb00d9c",
}


@pytest.mark.parametrize("column", DIGESTS)
def test_a_contract_has_the_digest_that_it_always_had(column: str) -> None:
    """Beside those of the shipped contracts, which have no such columns."""
    contract = parse_contract(
        {
            "version": 2,
            "name": "x",
            "label": "y",
            "columns": {"y": {"type": "category", "categories": ["a", "b"]}, "c": COLUMNS[column]},
            "source": {"file": "x.csv"},
            "privacy": {"neighbours": "replace-one", "budget": {"epsilon": 1}},
            "population": 5000,
        },
        "x.yaml",
    )
    assert contract_digest(contract) == DIGESTS[column]


@pytest.mark.parametrize(
    "name, chosen, part, unsaid",
    [
        ("gdp_tabicl", {"epsilon_is": "amplified"}, {"spent": "in-all"}, {"epsilon_is"}),
        ("gdp_tabicl", {}, {"spent": "in-all"}, {"epsilon_is"}),
        ("gdp_tabicl", {"epsilon_is": "nominal"}, {}, {"spent", "epsilon_is"}),
        ("ldp_tabicl", {}, {"encoding": "k-ary"}, {"design", "columns", "about"}),
        (
            "ldp_tabicl",
            {"design": "pairs", "estimator": "em"},
            {"design": "pairs", "columns": None},
            {"about"},
        ),
        (
            "few_shot_generation",
            {"mechanism": "exponential", "batches": "fixed", "private_tokens": 5},
            {"elections": 5},
            {"private_tokens"},
        ),
        ("few_shot_generation", {}, {"elections": None}, {"private_tokens", "temperature"}),
    ],
)
def test_a_name_has_the_words_that_it_always_had(
    name: str, chosen: dict[str, Any], part: dict[str, Any], unsaid: set[str]
) -> None:
    found = json.loads(_plain(name, chosen))
    assert part.items() <= found.items() and not unsaid & found.keys()
