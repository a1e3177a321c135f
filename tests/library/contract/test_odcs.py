"""A contract leaves as an ODCS data contract: one by the standard's own schema, of which the same
contract is made again, or none.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from dpicl.contract import Contract, parse_contract
from dpicl.contract.base import IN_FULL
from dpicl.contract.draft import Draft
from dpicl.contract.draft_schema import read_schema
from dpicl.contract.odcs import odcs_text
from dpicl.ground.errors import DeclarationError
from dpicl.ground.yaml_file import parse_yaml
from tests.library.examples import CONTRACTS

SCHEMA = json.loads((Path(__file__).parent / "odcs/odcs-json-schema-v3.1.0.json").read_text())
EVERYTHING = """
version: 2
name: stays
source: {file: stays.csv, licence: internal}
privacy:
  unit: person
  person: {id_column: patient, max_rows: 3}
  neighbours: replace-one
  sampling_rate: 1/10
  budget: {epsilon: 3, delta: 1.0e-06}
columns:
  age: {type: integer, bounds: [0, 120], nullable: true}
  cost: {type: real, bounds: [-0.5, 1.0e+15], step: 1000000}
  "on": {type: date, bounds: [2020-01-01, 2026-12-31]}
  at: {type: datetime, bounds: ["2020-01-01", "2020-12-31T12:30:00"]}
  ward: {type: category, categories: ["01", "no", "2020-01-01"], nullable: true}
  stage: {type: category, categories: [1, 2, 3]}
  dose: {type: category, categories: [0.5, 1]}
  code: {type: category, groups: {I21: heart, I2*: vessels, 15: "15", "*": other}}
  level: {type: category, groups: {A*: 1, B*: 2}, nullable: true}
  icd: {type: category, categories: [rest, "1E30", heart], groups: {"2E1": heart, "1E3*": "1E30"}}
  died: {type: boolean}
label: died
"""


def contract() -> Contract:
    made = parse_contract(parse_yaml(EVERYTHING.encode(), "stays.yaml"), "stays.yaml")
    assert isinstance(made, Contract)
    return made


def content(made: Contract) -> dict[str, Any]:
    """All of a contract but its name and where its rows are, and the type in which each category
    is written.
    """
    dumped = made.model_dump(context=IN_FULL, exclude={"name", "source"})
    source = made.source.model_dump(exclude={"file", "bundled", "openml", "uci"})
    stated = {name: column.model_fields_set for name, column in made.numbers.items()}
    grids = {name: keys & {"decimals", "step"} for name, keys in stated.items()}
    kinds = {name: column.value_type for name, column in made.listed.items()}
    return {**dumped, "source": source, "grids": grids, "kinds": kinds}


def again(made: Contract, folder: Path) -> Contract:
    """What `contract new --schema` makes of its export."""
    path = folder / "any.odcs.yaml"
    path.write_text(odcs_text(made))
    schema = read_schema(path, "rows.csv")
    assert not schema.ignored
    draft = Draft(
        "again", "rows.csv", schema.columns, None, (), origin=schema.origin, stated=schema.stated
    )
    assert not draft.open_count
    return draft.contract()


def test_a_contract_comes_back_as_it_was(tmp_path: Path) -> None:
    jsonschema.Draft201909Validator(SCHEMA).validate(yaml.safe_load(odcs_text(contract())))
    assert content(again(contract(), tmp_path)) == content(contract())


NUMBERS = st.floats(-1e6, 1e6)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=5)
COLUMNS: dict[str, Any] = {
    "number": st.fixed_dictionaries(
        {
            "type": st.just("real"),
            "bounds": st.lists(NUMBERS, min_size=2, max_size=2, unique=True).map(sorted),
            "step": st.sampled_from([1e-7, 0.001]),
        },
        optional={
            "nullable": st.booleans(),
            "decimals": st.integers(0, 6),
            "missing": st.lists(st.sampled_from(["NA", -9, "0.50"]), max_size=2, unique=True),
            "invalid": st.sampled_from(["refuse", "leave-out"]),
        },
    ),
    "whole": st.fixed_dictionaries(
        {"type": st.just("integer"), "bounds": st.just([-5, 2**53])},
        optional={"bins": st.just([0, 7]), "nullable": st.booleans()},
    ),
    "day": st.fixed_dictionaries(
        {
            "type": st.sampled_from(["date", "datetime"]),
            "bounds": st.just(["2020-01-01", "2027-01-01"]),
        },
        optional={"bins": st.just(["2021-02-03", "2022-01-01"])},
    ),
    "group": st.fixed_dictionaries(
        {
            "type": st.just("category"),
            "groups": st.just({"A*": "b", "1": "a"}),
        },
        optional={"categories": st.permutations(["a", "b", "c"]), "nullable": st.booleans()},
    ),
    "truth": st.sampled_from(
        [{"type": "boolean"}, {"type": "category", "categories": [True, False]}]
    ),
    "outcome": st.one_of(
        st.lists(TEXTS, min_size=2, max_size=4, unique=True),
        st.lists(st.integers(-9, 9), min_size=2, max_size=4, unique=True),
        st.lists(st.floats(-9, 9), min_size=2, max_size=4, unique=True),
    ).map(lambda listed: {"type": "category", "categories": listed, "nullable": False}),
}
PRIVACY: dict[str, Any] = {
    "neighbours": st.sampled_from(["add-or-remove-one", "replace-one"]),
    "budget": st.one_of(
        st.fixed_dictionaries(
            {"epsilon": st.floats(0.01, 100)},
            optional={"delta": st.floats(0, 0.1), "by": st.just({"ann": 0.01, "2": 0})},
        ),
        st.just({"benchmark": True}),
    ),
}
PERSON = {
    "unit": st.just("person"),
    "person": st.integers(1, 9).map(lambda rows: {"id_column": "who", "max_rows": rows}),
}
REST: dict[str, Any] = {
    "version": st.just(2),
    "name": st.just("any"),
    "source": st.fixed_dictionaries(
        {"file": st.just("any.csv")},
        optional={
            "missing": TEXTS,
            "invalid": st.sampled_from(["refuse", "leave-out"]),
            "ignore": st.just(["b", "a"]),
            "delimiter": st.just(";"),
            "rename": st.just({"a long\nname": "day"}),
            "licence": TEXTS,
            "title": TEXTS,
        },
    ),
    "privacy": st.one_of(
        st.fixed_dictionaries(
            PRIVACY | unit, optional={"sampling_rate": st.sampled_from(["1/3", 1, 0.25])}
        )
        for unit in ({}, PERSON)
    ),
    "columns": st.fixed_dictionaries(COLUMNS),
}
OPTIONAL: dict[str, Any] = {
    "description": TEXTS,
    "population": st.integers(1, 10**6),
    "draft": st.booleans(),
    "account": st.just("shop"),
    "ledger": st.just("postgresql://db/ledger"),
    "label": st.sampled_from(
        [
            "outcome",
            "whole",
            {"column": "whole", "cuts": [3, 4.5], "answers": ["a", "b", "c"]},
            {"column": "truth", "parts": [["false"], "rest"], "question": "Is it so?"},
        ]
    ),
    "split": st.just({"test_fraction": 0.25}),
    "queries": st.just({"file": "public.csv"}),
    "releases": st.sampled_from([{"every": "once"}, {"every": "month"}]),
    "groups": st.just({2: [{"column": "whole", "cuts": [3]}]}),
    "checks": st.just([{"rule": "row_count", "at_least": 3, "severity": "warn"}]),
}


@settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much],
)
@given(stated=st.fixed_dictionaries(REST, optional=OPTIONAL))
def test_whatever_contract_leaves_comes_back_whole(tmp_path: Path, stated: dict[str, Any]) -> None:
    try:
        made = parse_contract(stated, "any.yaml")
    except DeclarationError:
        reject()
    assert isinstance(made, Contract)
    jsonschema.Draft201909Validator(SCHEMA).validate(yaml.safe_load(odcs_text(made)))
    back = again(made, tmp_path)
    assert content(back) == content(made)
    assert back.target == made.target


def test_a_horizon_comes_back(tmp_path: Path) -> None:
    stated = parse_yaml(EVERYTHING.encode(), "stays.yaml")
    stated["source"] |= {"arrived": "came", "sign": "plus"}
    del stated["privacy"]["sampling_rate"], stated["privacy"]["neighbours"]
    stated["privacy"]["person"]["max_rows_in_horizon"] = 6
    stated["releases"] = {"every": "month", "horizon": "2 years", "first": "2027-01-01"}
    made = parse_contract(stated, "stays.yaml")
    assert isinstance(made, Contract)
    assert content(again(made, tmp_path)) == content(made)


@pytest.mark.parametrize(
    "name", [name for name, made in CONTRACTS.items() if isinstance(made, Contract)]
)
def test_shipped_contracts_leave_and_come_back(name: str, tmp_path: Path) -> None:
    made = CONTRACTS[name]
    assert isinstance(made, Contract)
    jsonschema.Draft201909Validator(SCHEMA).validate(yaml.safe_load(odcs_text(made)))
    assert content(again(made, tmp_path)) == content(made)


def test_what_is_promised_is_among_the_custom_properties() -> None:
    custom = yaml.safe_load(odcs_text(contract()))["customProperties"]
    told = {one["property"]: one["value"] for one in custom}
    held = json.loads(told.pop("dpiclHolds"))
    of_columns = ["code.codeGroups", "cost.dpiclColumn", "icd.codeGroups", "icd.dpiclColumn"]
    of_columns += ["level.codeGroups"]
    assert sorted(held) == sorted([*told, *of_columns])
    assert told == {
        "privacyUnit": "person",
        "privacyPersonColumn": "patient",
        "privacyMaxRowsPerPerson": 3,
        "privacyNeighbours": "replace-one",
        "privacySamplingRate": "1/10",
        "privacyReleasesEvery": "once",
        "privacyEpsilonCap": 3,
        "privacyDeltaCap": 1e-6,
        "predictedColumn": "died",
        "licence": "internal",
        "dpiclContract": {"version": 2},
    }
    shipped = odcs_text(CONTRACTS["breast_cancer"])  # type: ignore[arg-type]
    assert "privacyPublicBenchmark" in shipped and "privacyEpsilonCap" not in shipped


def test_the_schema_refuses_what_is_no_data_contract() -> None:
    content = yaml.safe_load(odcs_text(contract()))
    content["schema"][0]["properties"][0]["logicalTypeOptions"]["minimum"] = "0"
    assert list(jsonschema.Draft201909Validator(SCHEMA).iter_errors(content))


@pytest.mark.parametrize("kept", [str, (str, int, float)])
def test_a_catalogue_that_keeps_no_lists_and_mappings_loses_no_contract_in_silence(
    kept: Any, tmp_path: Path
) -> None:
    told = yaml.safe_load(odcs_text(contract()))
    for holder in (told, *told["schema"][0]["properties"]):
        custom = holder.get("customProperties", [])
        holder["customProperties"] = [one for one in custom if isinstance(one["value"], kept)]
    (tmp_path / "c.odcs.yaml").write_text(json.dumps(told))
    with pytest.raises(DeclarationError, match="missing beside other properties of a contract"):
        read_schema(tmp_path / "c.odcs.yaml", "rows.csv")


@pytest.mark.parametrize(
    ("change", "phrase"),
    [
        ({"privacyEpsilonCap": None}, "privacyEpsilonCap or privacyPublicBenchmark: missing"),
        ({"privacyNeighbours": None}, "privacyNeighbours: missing beside other properties"),
        ({"dpiclContract": None}, "dpiclContract: missing beside other properties"),
        ({"privacySamplingRate": None}, "privacySamplingRate: missing beside other properties"),
        ({"dpiclHolds": None}, "dpiclHolds: missing beside other properties"),
        ({"dpiclHolds": "privacyUnit"}, "dpiclHolds: is no list of names"),
        ({"privacyUnit": "row"}, "has one of `unit: person` and `person` alone"),
        ({"privacyMaxRowsPerPerson": "3"}, "privacyMaxRowsPerPerson: got '3'; expected a whole"),
        ({"privacyEpsilonCaps": 3}, "privacyEpsilonCaps: unknown property; expected one of"),
        ({"privacyPublicBenchmark": True}, "the budget is unclear"),
        ({"dpiclContract": {"columns": {}}}, "dpiclContract: is no part of a contract"),
        (
            {"dpiclContract": {"privacy": {"unit": "row"}}},
            "privacyUnit: is stated by dpiclContract too; expected one of the two",
        ),
    ],
)
def test_what_is_not_read_back_whole_is_refused(
    change: dict[str, Any], phrase: str, tmp_path: Path
) -> None:
    told = yaml.safe_load(odcs_text(contract()))
    facts = {one["property"]: one["value"] for one in told["customProperties"]} | change
    told["customProperties"] = [
        {"property": name, "value": value} for name, value in facts.items() if value is not None
    ]
    (tmp_path / "c.odcs.yaml").write_text(json.dumps(told))
    with pytest.raises(DeclarationError) as refused:
        read_schema(tmp_path / "c.odcs.yaml", "rows.csv")
    assert str(refused.value).startswith("c.odcs.yaml: customProperties")
    assert phrase in str(refused.value)
