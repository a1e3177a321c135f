"""Keys that were renamed: files and plans with the earlier names mean the same, to the digest and
to the names of releases.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dpicl.contract import load_contract, parse_contract
from dpicl.contract.base import TODAY, Frozen
from dpicl.contract.load import contract_digest
from dpicl.contract.models import Contract
from dpicl.contract.schema import models
from dpicl.engine.names import parameters_of
from dpicl.engine.pipelines import Pipeline, Pipelines, override
from dpicl.engine.run_folder import Plan, read_plan, write_plan
from dpicl.errors import DeclarationError
from dpicl.lm.spec import ModelSpec
from dpicl.methods import Options, unit_of
from dpicl.pipeline import Cell
from dpicl.yaml_file import read_yaml, validate
from tests.library.table_contracts import small_contract
from tests.upgrades.names import ROOT, contracts

EARLIER = {
    "moved_from": "formerly",
    "bins": "levels",
    "answering": "asking",
    "min_rows": "rows",
    "generator": "writer",
    "variants": "also",
    "shot_selection": "also_sampled",
    "private_tokens": "elections",
    "epsilon_is": "spent",
    "amplified": "in-all",
}
"""{today's name: the earlier one}, the value of `epsilon_is` included."""
RENAMING = {
    name: kind for name, kind in models().items() if issubclass(kind, Frozen) and kind.earlier
}
FILES = sorted((ROOT / "data_contracts").rglob("*.yaml"))
GRID: dict[str, Any] = {
    "title": "All renamed keys",
    "methods": ["ldp_tabicl", "gdp_tabicl", "mst_tabicl"],
    "datasets": ["breast_cancer"],
    "epsilons": [1],
    "shots": [2],
    "generator": "fake",
    "options": {
        "ldp_tabicl": {
            "shot_selection": ["nested"],
            "variants": {"pairs": {"design": "pairs", "estimator": "tree"}},
        },
        "gdp_tabicl": {"epsilon_is": "amplified"},
        "mst_tabicl": {"shot_selection": ["near"]},
        "few_shot_generation": {
            "variants": {
                "fixed": {"mechanism": "clipped-logits", "batches": "fixed", "private_tokens": 3}
            },
        },
        "dp_icl": {"variants": {"soft-votes": {"aggregation": "soft-votes"}}},
    },
}


def earlier(content: Any) -> Any:
    """The same declaration as it was written before."""
    if isinstance(content, dict):
        return {
            EARLIER.get(key, key) if isinstance(key, str) else key: earlier(value)
            for key, value in content.items()
        }
    return (
        [earlier(one) for one in content]
        if isinstance(content, list)
        else EARLIER.get(content, content)
    )


def test_every_renamed_key_is_tested_here() -> None:
    assert {
        pair for kind in RENAMING.values() for pair in kind.earlier.items()
    } == EARLIER.items() - {("amplified", "in-all")}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_contract_is_the_same_under_earlier_keys(path: Path) -> None:
    today = load_contract(path)
    before = parse_contract(earlier(read_yaml(path)), path.name)
    assert before == today and contract_digest(before) == contract_digest(today)


def test_rows_that_were_moved_keep_their_digest_under_the_earlier_key() -> None:
    before, today = (
        small_contract(source={"file": "s3://bucket/people.csv", key: "people.csv"})
        for key in ("formerly", "moved_from")
    )
    assert before == today and contract_digest(before) == contract_digest(today) == contract_digest(
        small_contract()
    )


def test_pipelines_are_the_same_under_earlier_keys() -> None:
    content = read_yaml(ROOT / "pipelines.yaml")
    content["pipelines"]["all-renamed"] = GRID
    today, before = (
        validate(Pipelines, one, "pipelines.yaml") for one in (content, earlier(content))
    )
    assert before == today and before != validate(
        Pipelines, read_yaml(ROOT / "pipelines.yaml"), "pipelines.yaml"
    )


def test_names_of_releases_hold_the_earlier_keys() -> None:
    known = contracts()
    expected = {
        ("breast_cancer", "gdp_tabicl", "icl"): {"spent": "in-all"},
        ("docstrings", "few_shot_generation", "icl-fixed"): {"elections": 3},
    }
    for (dataset, method, system), part in expected.items():
        for options in (GRID["options"], earlier(GRID["options"])):
            unit = unit_of(
                method, dataset, 0, (1.0,), (2,), (), False, Options.model_validate(options)
            )
            parameters = parameters_of(known[dataset], unit, Cell(system, 1.0, 2))
            assert part.items() <= parameters.items() and not EARLIER.keys() & parameters.keys()


def test_a_plan_is_stored_as_before_and_read_under_either_name(tmp_path: Path) -> None:
    plan = Plan(
        "mine", "all-renamed", Pipeline.model_validate(GRID), ModelSpec(name="fake", kind="fake")
    )
    stored = plan.as_json()
    before = earlier(GRID)
    assert (
        stored["pipeline"].keys() >= before.keys()
        and stored["pipeline"]["options"]["gdp_tabicl"]["spent"] == "in-all"
    )
    for name, pipeline in (("before", before), ("today", GRID)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "plan.json").write_text(
            json.dumps({**stored, "pipeline": {**pipeline, "epsilons": ["1"]}})
        )
        assert read_plan(folder).as_json() == stored
    write_plan(tmp_path / "again", plan)
    write_plan(tmp_path / "again", read_plan(tmp_path / "before"))


def test_what_a_list_says_of_a_pipeline_is_no_part_of_its_plan() -> None:
    content = read_yaml(ROOT / "pipelines.yaml")
    about = {"group", "takes", "needs"}
    assert about <= content["pipelines"]["demo"].keys()
    before = {key: value for key, value in content["pipelines"]["demo"].items() if key not in about}
    plans = [
        Plan(
            "mine",
            "demo",
            override(Pipeline.model_validate(one), {}),
            ModelSpec(name="fake", kind="fake"),
        )
        for one in (content["pipelines"]["demo"], before)
    ]
    assert plans[0] == plans[1] and plans[0].as_json() == plans[1].as_json()
    assert not about & plans[0].as_json()["pipeline"].keys()


@pytest.mark.parametrize(
    ("kind", "key"), [(kind, key) for kind in RENAMING.values() for key in kind.earlier]
)
def test_both_names_at_once_are_refused(kind: type[Frozen], key: str) -> None:
    with pytest.raises(
        DeclarationError,
        match=f"has both `{key}` and `{kind.earlier[key]}`, its earlier name; expected `{key}` "
        f"alone$",
    ):
        validate(kind, {key: None, kind.earlier[key]: None}, "a.yaml")


def test_an_error_names_the_key_of_today() -> None:
    with pytest.raises(
        DeclarationError,
        match=r"^a.yaml: options\.ldp_tabicl\.variants\.pairs\.design: got 'trios'",
    ):
        validate(
            Pipeline,
            {**GRID, "options": {"ldp_tabicl": {"also": {"pairs": {"design": "trios"}}}}},
            "a.yaml",
        )
    content = read_yaml(ROOT / "data_contracts" / "adult.yaml")
    content["columns"]["age"] = {"type": "integer", "bounds": [17, 90], "levels": "many"}
    with pytest.raises(DeclarationError, match=r"^a.yaml: columns\.age\.bins: got 'many'"):
        validate(Contract, content, "a.yaml")


def test_an_earlier_key_overrides_as_that_of_today_does() -> None:
    pipeline = Pipeline.model_validate(GRID)
    assert override(pipeline, {"writer": "tiny"}) == override(pipeline, {"generator": "tiny"})
    with pytest.raises(DeclarationError, match="has both `generator` and `writer`"):
        override(pipeline, {"writer": "tiny", "generator": "tiny"})


def test_a_key_that_is_gone_is_read_and_stored_with_its_default_alone() -> None:
    """Calibration of tables: a plan that did not ask for it means the same, one that did is no plan
    of today's.
    """
    stored = json.loads(Options().model_dump_json())
    assert stored["calibrate"] is False and Options.model_validate(stored) == Options()
    assert "calibrate" not in Options().model_dump(context=TODAY)
    with pytest.raises(DeclarationError, match="options.calibrate"):
        validate(Pipeline, {**GRID, "options": {"calibrate": True}}, "pipelines.yaml")
