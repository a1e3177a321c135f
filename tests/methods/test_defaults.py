"""What a release gets where nobody names a method or its options: one method of each trust, its
best choices, demonstrations that differ.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpicl.contract import Contract
from dpicl.contract.load import parse_contract
from dpicl.contract.pipeline import Unit
from dpicl.data.prompts import MOST_SHOTS
from dpicl.data.reading.source import load_source
from dpicl.data.reading.split import split_table
from dpicl.ground.errors import PrivacyError
from dpicl.methods import DEFAULTS, METHODS, Options, Registry, grid, tabular
from dpicl.methods.aim_tabicl import AimTabicl
from dpicl.methods.base import draws_for
from dpicl.release.names import parameters_of
from lab import in_memory
from tests.direct import point
from tests.library.examples import small_contract
from tests.library.units import unit_for
from tests.methods.examples import TABULAR, every_tabular_method

ROWS = tuple(DEFAULTS.values())
every_default = pytest.mark.parametrize("name", ROWS)


def default_unit(
    name: str, contract: Contract, *, shots: int = 8, epsilon: float = 1.0, **stated: Any
) -> Unit:
    """As `protect` plans it."""
    choices = {**METHODS[name].default_options(contract, stated, epsilon), **stated}
    return unit_for(name, contract.name, epsilons=(epsilon,), shots=(shots,), **choices)


def demonstrations(name: str, contract: Contract, unit: Unit) -> dict[str, list[str]]:
    """Of every system that looks at no query, from one release of the contract's own rows."""
    method, draws = tabular(name), draws_for(contract, 0)
    split = split_table(load_source(contract, data_folder=None, cache_folder=None), contract)  # type: ignore[arg-type]
    released = in_memory.of_table(method, split.train, contract, unit, draws)
    return {
        cell.system: texts
        for cell, texts in method.examples(released, contract, unit, draws).items()
    }


@pytest.mark.parametrize("name", METHODS)
def test_what_a_method_is_chosen_by_is_what_its_class_states(name: str) -> None:
    entry, method = METHODS.entries[name], METHODS[name]
    stated = (method.title, method.data, method.trust, method.options, method.is_default)
    assert (entry.title, entry.data, entry.trust, entry.options, entry.is_default) == stated
    assert method.name == name
    assert entry.counts_series == method.is_default_of_series
    assert entry.answers_queries == method.answers_queries


def test_each_trust_has_one_method_of_tables() -> None:
    assert set(DEFAULTS) == {"central", "local"} and all(
        METHODS[name].trust == trust for trust, name in DEFAULTS.items()
    )

    class Second(AimTabicl):
        name = "second"

    registry = Registry()
    registry.add(AimTabicl())
    with pytest.raises(
        PrivacyError, match="method 'second': is_default: as .* is; expected one of each trust"
    ):
        registry.add(Second())


@every_tabular_method
def test_default_options_are_options_of_one_release(name: str) -> None:
    contract = small_contract()
    unit = default_unit(name, contract, shots=2)
    assert len(grid.prices(tabular(name), contract, unit)) == 1
    assert tabular(name).handed_out(unit) in unit.systems


@every_default
def test_what_demonstrates_is_no_part_of_a_releases_name(name: str) -> None:
    """So that a run of a pipeline finds the release of `protect`, and the other way round."""
    contract, unit = small_contract(), default_unit(name, small_contract())
    (cell,) = grid.prices(tabular(name), contract, unit)
    plain = default_unit(name, contract, shot_selection=[])
    assert parameters_of(contract, unit.method, point(unit, cell)) == parameters_of(
        contract, plain.method, point(plain, cell)
    )
    assert tabular(name).handed_out(plain) == "icl"


def test_options_of_pipelines_stay_what_they_were() -> None:
    """Their defaults are in names of releases, stored plans and the paper's tables."""
    chosen = Options().model_dump()
    assert (chosen["ldp_tabicl"]["design"], chosen["ldp_tabicl"]["estimator"]) == (
        "all-columns",
        "simplex",
    )
    assert all(not chosen[name].get("shot_selection") for name in TABULAR)


@pytest.mark.parametrize(
    "stated, expected",
    [
        ({}, ("agreement", "log-linear")),
        ({"columns": 2}, ("subset", "log-linear")),
        ({"design": "pairs"}, ("pairs", "log-linear")),
        ({"estimator": "tree"}, ("agreement", "tree")),
        ({"estimator": "simplex"}, ("all-columns", "simplex")),
        ({"estimator": "clip", "encoding": "one-hot"}, ("all-columns", "clip")),
        ({"encoding": "one-hot"}, ("all-columns", "simplex")),
    ],
)
def test_local_choices_fit_what_is_stated(
    stated: dict[str, Any], expected: tuple[str, str]
) -> None:
    chosen: Any = default_unit(DEFAULTS["local"], small_contract(), **stated).options
    chosen = getattr(chosen, DEFAULTS["local"])
    assert (chosen.design, chosen.estimator) == expected


def test_at_a_larger_epsilon_more_is_asked_for_than_an_agreement() -> None:
    chosen: Any = default_unit(DEFAULTS["local"], small_contract(), epsilon=5.0).options
    assert getattr(chosen, DEFAULTS["local"]).design == "subset"


def test_a_wide_table_is_estimated_by_a_tree() -> None:
    columns = {f"x{number}": {"type": "real", "bounds": [0, 1]} for number in range(15)}
    content = {
        "name": "wide",
        "source": {"file": "w.csv"},
        "privacy": {"budget": {"epsilon": 1}},
        "columns": columns,
    }
    contract: Any = parse_contract(content, "wide.yaml")
    assert METHODS[DEFAULTS["local"]].default_options(contract, {}, 1.0)["estimator"] == "tree"


@every_default
@pytest.mark.parametrize("shots", [4, 8])
def test_demonstrations_differ_and_take_labels_in_turn(
    name: str, shots: int, contracts: dict[str, Contract]
) -> None:
    """At epsilon 1 of 455 rows, where a draw at random of the paper's local reconstruction is the
    same row over and over.
    """
    contract = contracts["breast_cancer"]
    unit = default_unit(name, contract, shots=shots)
    texts = demonstrations(name, contract, unit)[tabular(name).handed_out(unit)]
    assert len(set(texts)) == shots
    labels = [text.rsplit(" ", 1)[1] for text in texts]
    assert labels in (["Yes", "No"] * (shots // 2), ["No", "Yes"] * (shots // 2))


@every_default
def test_more_than_a_prompt_takes_are_drawn_at_random(name: str) -> None:
    assert (
        tabular(name).handed_out(default_unit(name, small_contract(), shots=MOST_SHOTS + 1))
        == "icl"
    )
