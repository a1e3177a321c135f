"""A contract leaves as an ODCS data contract: one by the standard's own schema, of which the same
columns are made again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from dpicl.contract import Contract, parse_contract
from dpicl.contract.columns.category import CategoryColumn
from dpicl.contract.draft import Draft
from dpicl.contract.draft_schema import read_schema
from dpicl.contract.odcs import odcs_text
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


def facts(made: Contract) -> dict[str, Any]:
    """What has to come back of every column."""
    return {
        name: (
            column.type,
            column.nullable,
            (
                column.categories,
                column.value_type,
                # each of which is in itself, said or not
                {code: group for code, group in column.groups.items() if code != group},
            )
            if isinstance(column, CategoryColumn)
            else column.bounds,
        )
        for name, column in made.columns.items()
    }


def again(made: Contract, folder: Path) -> Contract:
    """What `contract new --schema` makes of its export."""
    path = folder / "any.odcs.yaml"
    path.write_text(odcs_text(made))
    schema = read_schema(path, "rows.csv")
    assert not schema.ignored
    label = made.label_column
    draft = Draft("again", "rows.csv", schema.columns, label, (), origin=schema.origin)
    assert not draft.open_count
    return draft.contract()


def test_columns_come_back_as_they_were(tmp_path: Path) -> None:
    jsonschema.Draft201909Validator(SCHEMA).validate(yaml.safe_load(odcs_text(contract())))
    assert facts(again(contract(), tmp_path)) == facts(contract())


@pytest.mark.parametrize(
    "name", [name for name, made in CONTRACTS.items() if isinstance(made, Contract)]
)
def test_shipped_contracts_leave_and_come_back(name: str, tmp_path: Path) -> None:
    made = CONTRACTS[name]
    assert isinstance(made, Contract)
    jsonschema.Draft201909Validator(SCHEMA).validate(yaml.safe_load(odcs_text(made)))
    assert facts(again(made, tmp_path)) == facts(made)


def test_what_is_promised_is_among_the_custom_properties() -> None:
    custom = yaml.safe_load(odcs_text(contract()))["customProperties"]
    assert {one["property"]: one["value"] for one in custom} == {
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
    }
    shipped = odcs_text(CONTRACTS["breast_cancer"])  # type: ignore[arg-type]
    assert "privacyPublicBenchmark" in shipped and "privacyEpsilonCap" not in shipped


def test_the_schema_refuses_what_is_no_data_contract() -> None:
    content = yaml.safe_load(odcs_text(contract()))
    content["schema"][0]["properties"][0]["logicalTypeOptions"]["minimum"] = "0"
    assert list(jsonschema.Draft201909Validator(SCHEMA).iter_errors(content))
