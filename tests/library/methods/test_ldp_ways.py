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
from dpicl.methods import METHODS, Options, grid, ldp_tabicl, unit_of
from dpicl.methods.base import draws_for
from dpicl.methods.collection import collect, merged
from dpicl.methods.ldp_tabicl import LdpTabicl
from dpicl.methods.options import LdpOptions, LdpVariant
from dpicl.models.kinds.fake import HashScorer
from dpicl.release.names import parameters_of
from tests.direct import point, points_of
from tests.direct import run as run_method
from tests.library.examples import private_contract, random_table

WIDE = 34
"""Columns beside the label: 2^35 cells, which no vector holds."""


def _unit(name: str, options: LdpOptions) -> Unit:
    return unit_of("ldp_tabicl", name, 0, (2.0,), (2,), (), True, Options(ldp_tabicl=options))


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
    results = run_method(
        split, contract, _unit("wide", LdpOptions(design=design, estimator="tree")), HashScorer()
    )
    found = {result.system: result for result in results}
    assert {"icl", "lr", "gnb", "zero-shot"} <= set(found)
    assert found["icl"].accuracy is not None and found["lr"].epsilon == 2.0


def test_an_estimator_over_all_cells_is_refused_for_a_wide_table_before_anything_is_read() -> None:
    options = LdpOptions(design="subset", estimator="log-linear")
    with pytest.raises(ParameterError, match=r"expected tree for wide: about 10\^11 cells"):
        grid.prices(METHODS["ldp_tabicl"], wide_contract(), _unit("wide", options))


def test_ways_that_differ_in_the_estimator_alone_are_made_of_one_collection() -> None:
    contract = private_contract()
    options = LdpOptions(
        estimator="log-linear",
        variants={
            "em": LdpVariant(estimator="em"),
            "asked": LdpVariant(design="pairs", estimator="em"),
        },
    )
    unit = _unit(contract.name, options)
    table, draws = PrivateTable(random_table(contract, 300, 0)), draws_for(contract, 0)
    found = grid.draw(LdpTabicl(), table, contract, points_of(unit), draws, {})
    one, same, other = (
        found[Cell(name, 2.0)] for name in ("reports", "reports-em", "reports-asked")
    )
    assert same is one and other.stored.shape != one.stored.shape
    again = grid.draw(LdpTabicl(), table, contract, points_of(unit), draws, {})
    assert not np.array_equal(again[Cell("reports", 2.0)].stored, one.stored)


def test_of_columns_that_nobody_is_asked_for_nothing_is_learned() -> None:
    contract, asked = wide_contract(), ("column_3", "column_30")
    table = PrivateTable(random_table(contract, 4_000, 0))
    unit = _unit("wide", LdpOptions(design="pairs", estimator="tree", about=asked))
    method, draws = METHODS["ldp_tabicl"], draws_for(contract, 0)
    cell = Cell("reports", 2.0)
    collected = ldp_tabicl.collect(table, contract, point(unit, cell).options, 2.0, draws)
    assert method.encode(collected) == method.encode(
        method.decode(method.encode(collected), contract, point(unit, cell))
    )  # type: ignore[attr-defined]
    rows = ldp_tabicl.estimated_rows(collected, "tree", draws.public("rows", "x")).codes
    bonds = [abs((rows[:, column] == rows[:, -1]).mean() - 0.5) for column in range(WIDE)]
    assert max(bond for column, bond in enumerate(bonds) if column not in (3, 30)) < 0.03
    errors = method.column_errors(contract, point(unit, cell), 4_000)  # type: ignore[attr-defined]
    assert [name for name, error in errors.items() if error < 1] == list(asked)


def test_what_is_asked_about_makes_another_release_in_whatever_order_it_is_named() -> None:
    contract, cell = wide_contract(), Cell("reports", 2.0)
    ways: list[dict[str, Any]] = [
        {},
        {"about": []},
        {"about": ["column_1", "column_2"]},
        {"about": ["column_2", "column_1", "column_1"]},
    ]
    named = [
        parameters_of(
            contract,
            _unit(
                "wide", LdpOptions.model_validate({"design": "pairs", "estimator": "tree", **way})
            ).method,
            point(
                _unit(
                    "wide",
                    LdpOptions.model_validate({"design": "pairs", "estimator": "tree", **way}),
                ),
                cell,
            ),
        )
        for way in ways
    ]
    assert named[0] == named[1] != named[2] == named[3] and "about" not in named[0]


def test_an_attribute_that_there_is_not_is_refused_before_anything_is_read() -> None:
    unit = _unit("wide", LdpOptions(design="pairs", estimator="tree", about=("column_1", "age")))
    with pytest.raises(
        ParameterError, match="about.*age.*expected attributes of this table: column_0, column_1"
    ):
        grid.prices(METHODS["ldp_tabicl"], wide_contract(), unit)
    with pytest.raises(ValueError, match="about with design all-columns"):
        LdpOptions(about=("column_1",))


@pytest.mark.parametrize(
    "options",
    [
        LdpOptions(design="all-columns", estimator="simplex"),
        LdpOptions(design="subset", estimator="log-linear"),
    ],
)
def test_a_collection_has_the_same_bytes_wherever_it_comes_from(options: LdpOptions) -> None:
    contract = private_contract()
    unit, method, draws = (
        _unit(contract.name, options),
        ldp_tabicl.LdpTabicl(),
        draws_for(contract, 0),
    )
    table = PrivateTable(random_table(contract, 40, 0))
    for asked in points_of(unit).values():
        collected = collect(table, contract, asked.options, asked.epsilon, draws)
        content = method.encode(collected)
        read = method.decode(content, contract, asked)
        assert b"'fortran_order': False" in content, "clients one after another"
        assert method.encode(read) == method.encode(merged([read])) == content
