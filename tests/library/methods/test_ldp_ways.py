"""Ways beside each other in one run share what clients sent where they can; wide tables run from
contract to answers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpicl.contract import Contract, parse_contract
from dpicl.contract.pipeline import Cell, Unit
from dpicl.data.reading.split import split_table
from dpicl.ground.errors import ParameterError
from dpicl.ground.types import PrivateTable
from dpicl.methods import METHODS, grid, ldp_tabicl
from dpicl.methods.base import draws_for
from dpicl.methods.collection import collect, merged
from dpicl.methods.options import LdpOptions
from dpicl.models.kinds.fake import HashScorer
from dpicl.release.names import parameters_of
from tests.direct import point, points_of
from tests.direct import run as run_method
from tests.library.examples import private_contract, random_table
from tests.library.units import drawn, unit_for

WIDE = 34
"""Columns beside the label: 2^35 cells, which no vector holds."""


def _unit(name: str, **chosen: Any) -> Unit:
    return unit_for("ldp_tabicl", name, epsilons=(2.0,), shots=(2,), baselines=True, **chosen)


METHOD: Any = METHODS["ldp_tabicl"]
REPORTS = Cell("reports", 2.0)
PAIRS = {"design": "pairs", "estimator": "tree"}


def wide_contract() -> Contract:
    names = [f"column_{number}" for number in range(WIDE)]
    yes_or_no = {"type": "category", "categories": ["no", "yes"]}
    return parse_contract(
        {
            "version": 1,
            "name": "wide",
            "description": "Many columns.",
            "source": {"title": "t", "licence": "l", "citation": "c", "file": "wide.csv"},
            "privacy": {"budget": {"benchmark": True}},
            "split": {"test_fraction": 0.2},
            "columns": dict.fromkeys([*names, "y"], yes_or_no),
            "label": {"column": "y", "parts": [["no"], ["yes"]], "question": "Yes?"},
            "groups": {2: ["label"]},
            "local": [
                {"name": name, "column": name, "parts": [["no"], ["yes"]], "texts": ["no", "yes"]}
                for name in names
            ],
            "prompts": {
                "local": {"text": " ".join(f"{{{name}}}" for name in names)},
                "central": {"text": "{column_0}"},
            },
            "checks": [],
        },
        "wide.yaml",
    )


@pytest.mark.parametrize("design", [pytest.param("subset", marks=pytest.mark.exhaustive), "pairs"])
def test_a_table_with_more_columns_than_cells_can_be_counted_for_is_collected_modelled_and_asked_about(  # noqa: E501
    design: Any,
) -> None:
    contract = wide_contract()
    split = split_table(random_table(contract, 800, 0), contract)
    asked = _unit("wide", design=design, estimator="tree")
    found = {one.system: one for one in run_method(split, contract, asked, HashScorer())}
    assert {"icl", "lr", "gnb", "zero-shot"} <= set(found)
    assert found["icl"].accuracy is not None and found["lr"].epsilon == 2.0


def test_an_estimator_over_all_cells_is_refused_for_a_wide_table_before_anything_is_read() -> None:
    asked = _unit("wide", design="subset", estimator="log-linear")
    with pytest.raises(ParameterError, match=r"expected tree for wide: about 10\^11 cells"):
        grid.prices(METHOD, wide_contract(), asked)


def test_ways_that_differ_in_the_estimator_alone_are_made_of_one_collection() -> None:
    contract = private_contract()
    variants = {"em": {"estimator": "em"}, "asked": {"design": "pairs", "estimator": "em"}}
    unit = _unit(contract.name, estimator="log-linear", variants=variants)
    found, again = (drawn(unit, contract) for _ in range(2))
    one, same, other = (
        found[Cell(name, 2.0)] for name in ("reports", "reports-em", "reports-asked")
    )
    assert same is one and other.stored.shape != one.stored.shape
    assert not np.array_equal(again[REPORTS].stored, one.stored)


def test_of_columns_that_nobody_is_asked_for_nothing_is_learned() -> None:
    contract, about = wide_contract(), ("column_3", "column_30")
    table, draws = PrivateTable(random_table(contract, 4_000, 0)), draws_for(contract, 0)
    asked = point(_unit("wide", about=about, **PAIRS), REPORTS)
    collected = ldp_tabicl.collect(table, contract, asked.options, 2.0, draws)
    stored = METHOD.encode(collected)
    assert stored == METHOD.encode(METHOD.decode(stored, contract, asked))
    rows = ldp_tabicl.estimated_rows(collected, "tree", draws.public("rows", "x")).codes
    bonds = [abs((rows[:, column] == rows[:, -1]).mean() - 0.5) for column in range(WIDE)]
    assert max(bond for column, bond in enumerate(bonds) if column not in (3, 30)) < 0.03
    errors = METHOD.column_errors(contract, asked, 4_000)
    assert [name for name, error in errors.items() if error < 1] == list(about)


def test_what_is_asked_about_makes_another_release_in_whatever_order_it_is_named() -> None:
    none, empty, two, again, other, alone = (
        parameters_of(wide_contract(), METHOD.name, point(_unit("wide", **PAIRS, **way), REPORTS))
        for way in (
            {},
            {"about": []},
            {"about": ["column_1", "column_2"]},
            {"about": ["column_2", "column_1", "column_1"]},
            {"label_alone": False},
            {"label_alone": True},
        )
    )
    assert none == empty == other != two == again and "about" not in none
    assert alone == {**none, "label_alone": True}


def test_an_attribute_that_there_is_not_is_refused_before_anything_is_read() -> None:
    unit = _unit("wide", about=("column_1", "age"), **PAIRS)
    with pytest.raises(
        ParameterError, match="about.*age.*expected attributes of this table: column_0, column_1"
    ):
        grid.prices(METHOD, wide_contract(), unit)
    with pytest.raises(ValueError, match="label_alone with design all-columns"):
        LdpOptions(label_alone=True)
    with pytest.raises(ValueError, match="about with design all-columns"):
        LdpOptions(about=("column_1",))


@pytest.mark.parametrize(
    "design, estimator", [("all-columns", "simplex"), ("subset", "log-linear")]
)
def test_a_collection_has_the_same_bytes_wherever_it_comes_from(
    design: str, estimator: str
) -> None:
    contract = private_contract()
    table = PrivateTable(random_table(contract, 40, 0))
    for asked in points_of(_unit(contract.name, design=design, estimator=estimator)).values():
        collected = collect(table, contract, asked.options, asked.epsilon, draws_for(contract, 0))
        content = METHOD.encode(collected)
        read = METHOD.decode(content, contract, asked)
        assert b"'fortran_order': False" in content, "clients one after another"
        assert METHOD.encode(read) == METHOD.encode(merged([read])) == content
