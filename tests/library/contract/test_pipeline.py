"""pipelines.yaml: what may stand there, how a grid becomes units, how the command line overrides
it.
"""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dpicl.contract import Contract
from dpicl.contract.pipeline import Cell, parse_epsilon
from dpicl.ground.errors import DeclarationError, ParameterError
from dpicl.home.settings import SHIPPED_PIPELINES, Settings
from dpicl.methods import METHODS, Options
from dpicl.models.local.gguf_file import PACKAGED
from dpicl.models.spec import ModelSpec
from dpicl.release.pipelines import (
    Pipeline,
    Pipelines,
    declared_pipelines,
    find_pipeline,
    load_pipelines,
    model_named,
    override,
    units_of,
)
from dpicl.runs.run_folder import Plan, read_plan, write_plan
from tests.library.examples import ROOT, changed
from tests.library.text_contracts import TEXT_CONTRACTS

GRID: dict[str, Any] = {
    "title": "t",
    "methods": ["ldp_tabicl", "gdp_tabicl"],
    "datasets": ["adult", "car"],
    "epsilons": [1, 2.5, "inf"],
    "shots": [1, 4],
    "seeds": [0, 3],
}


DAILY = {"cron": "0 6 * * *"}


def _load(folder: Path, pipeline: dict[str, Any], **top: Any) -> Pipelines:
    path = folder / "pipelines.yaml"
    path.write_text(
        yaml.safe_dump({"version": 1, "models": {}, "pipelines": {"mine": pipeline}, **top})
    )
    return load_pipelines(path)


def _pipeline(folder: Path, **changes: Any) -> Pipeline:
    return find_pipeline(_load(folder, {**GRID, **changes}), "mine")


@pytest.mark.parametrize(
    ("value", "epsilon"),
    [(1, 1.0), ("1", 1.0), (0.5, 0.5), ("1e-3", 1e-3), ("inf", math.inf), (float("inf"), math.inf)],
)
def test_epsilons_are_positive_numbers_or_inf(value: object, epsilon: float) -> None:
    assert parse_epsilon(value) == epsilon


@pytest.mark.parametrize(
    "value",
    [0, "-1", "nan", math.nan, -math.inf, "", None, True, [1], {"a": 1}, "1,5"],
)
def test_other_epsilons_are_refused_in_one_sentence(value: object, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected a number >= 1e-06, or inf"):
        parse_epsilon(value)
    got = "is not filled in" if value is None else "got .*"
    with pytest.raises(
        DeclarationError,
        match=rf"^pipelines\.yaml: pipelines\.mine\.epsilons\.1: {got}; expected a number >= 1e-06, "  # noqa: E501
        rf"or inf$",
    ):
        _pipeline(tmp_path, epsilons=[1, value])


@pytest.mark.parametrize(
    ("place", "value", "phrase", "key"),
    [
        (place, value, phrase, *(key or [place]))
        for place, value, phrase, *key in (
            ("epsilons", [], "expected a list with at least 1 item"),
            ("epsilons", list(range(1, 102)), "at most 100"),
            ("epsilons", [1, 1.0], "epsilons lists a value twice; expected distinct values", ""),
            ("seeds", [0, 0], "seeds lists a value twice", ""),
            ("sampling_rates", ["1/10", 0.1], "sampling_rates lists a value twice", ""),
            ("sampling_rates", [0], "expected rates in \\(0, 1\\]"),
            ("sampling_rates", ["3/2"], "expected rates in \\(0, 1\\]"),
            ("sampling_rates", ["often"], "expected a number or a fraction", "sampling_rates.0"),
            (
                "sampling_rates",
                ["1e999999999"],
                "expected a number or a fraction",
                "sampling_rates.0",
            ),
            ("queries", 0, "expected greater than or equal to 1"),
            ("methods", [], "expected at least one of each", ""),
            ("shots", [], "expected at least one of each", ""),
            ("shots", [0], "expected greater than or equal to 1", "shots.0"),
            ("shots", [513], "expected at most 512 with these methods", ""),
            ("draws", 0, "expected greater than or equal to 1"),
            ("seeds", [-1], "expected greater than or equal to 0", "seeds.0"),
            ("datasets", [], "expected a list with at least 1 item"),
            ("datasets", ["../adult"], "expected text of the form", "datasets.0"),
            (
                "methods",
                ["icl"],
                f"expected one of {', '.join(METHODS)}",
                "methods.0",
            ),
            (
                "options.few_shot_generation.mechanism",
                "clipped-logits",
                "expected `batches: fixed`",
                "options.few_shot_generation",
            ),
            (
                "options.few_shot_generation",
                {"batches": "fixed", "examples": 2},
                "expected none: every row",
            ),
            (
                "options.few_shot_generation.private_tokens",
                3,
                "expected `batches: fixed` and another mechanism",
                "options.few_shot_generation",
            ),
            (
                "options.few_shot_generation.variants",
                {"Other": {}},
                "text of the form",
                "options.few_shot_generation.variants.Other.*",
            ),
            ("epsilon", [1], "unknown key"),
            ("options.ldp_tabicl.estimator", "dense", "expected 'simplex', 'clip', 'none', 'em'"),
            (
                "options.ldp_tabicl.design",
                "pairs",
                "expected log-linear, em or tree",
                "options.ldp_tabicl",
            ),
            (
                "options.ldp_tabicl",
                {"design": "subset", "estimator": "em", "encoding": "one-hot"},
                "expected k-ary: one answer names one category",
            ),
            ("options.ldp_tabicl.columns", 2, "expected `design: subset`", "options.ldp_tabicl"),
            *(
                (
                    "options.ldp_tabicl.variants",
                    {name: {}},
                    "means something else; expected another name",
                    "options.ldp_tabicl",
                )
                for name in ("nested", "icl", "raw-rows", "naive")
            ),
            ("schedule.cron", "daily", "expected text of the form"),
            (
                "schedule.parameters",
                {"epsilon": [1]},
                "expected 'datasets', 'methods', 'epsilons'",
                "schedule.parameters.epsilon.*",
            ),
            (
                "schedule.parameters",
                {"options": {}},
                "expected 'datasets', 'methods'",
                "schedule.parameters.options.*",
            ),
            ("schedule.work_pool", "", "expected text of the form"),
            ("schedule.concurrency_limit", 0, "expected greater than or equal to 1"),
            ("schedule.timeout_hours", 0, "expected greater than 0"),
        )
    ],
)
def test_a_broken_pipeline_is_one_sentence_with_its_key(
    tmp_path: Path, place: str, value: Any, phrase: str, key: str
) -> None:
    whole = {
        **GRID,
        "options": {"ldp_tabicl": {}, "few_shot_generation": {}},
        "schedule": {**DAILY},
    }
    path = rf"pipelines\.mine{chr(92) + '.' if key else ''}{key}"
    with pytest.raises(DeclarationError, match=rf"^pipelines\.yaml: {path}: .*{phrase}"):
        _load(tmp_path, changed(whole, {place: value}))


@pytest.mark.parametrize(
    ("parameters", "phrase"),
    [
        ({"shots": [1, 1]}, "shots lists a value twice"),
        ({"shots": [0]}, "shots.0: .*; expected greater than or equal to 1"),
        ({"epsilons": 5}, "epsilons: .*; expected a list"),
        ({"epsilons": [-math.inf]}, r"epsilons.0: .*; expected a number >= 1e-06, or inf"),
        ({"sampling_rates": [2]}, "sampling_rates: .*; expected rates in"),
        ({"model": 5}, "model: got '5' without quotes; expected text"),
    ],
)
def test_what_a_schedule_replaces_is_checked_as_the_file_is_read(
    tmp_path: Path, parameters: dict[str, Any], phrase: str
) -> None:
    with pytest.raises(
        DeclarationError,
        match=rf"^pipelines\.yaml: pipelines\.mine\.schedule\.parameters: .*{phrase}",
    ):
        _pipeline(tmp_path, schedule={**DAILY, "parameters": parameters})


def test_what_a_schedule_replaces_can_be_kept_by_a_server_and_in_a_plan(tmp_path: Path) -> None:
    """JSON has no infinity."""
    pipeline = _pipeline(
        tmp_path, schedule={**DAILY, "parameters": {"epsilons": [1, math.inf], "seeds": [7]}}
    )
    stored = json.loads(json.dumps(pipeline.schedule.parameters, allow_nan=False))
    assert stored == {"epsilons": [1, "inf"], "seeds": [7]}
    replaced = override(pipeline, stored)
    assert (replaced.epsilons, replaced.seeds, replaced.shots) == ((1.0, math.inf), (7,), (1, 4))
    assert (
        Pipeline.model_validate_json(
            pipeline.model_dump_json(exclude={"epsilons"}).replace("{", '{"epsilons": [1],', 1)
        ).schedule
        == pipeline.schedule
    )


def test_an_entry_without_a_title_has_its_name(tmp_path: Path) -> None:
    grid = {key: value for key, value in GRID.items() if key != "title"}
    pipelines = _load(tmp_path, grid)
    assert pipelines.pipelines["mine"].title == "mine"
    assert override(pipelines.pipelines["mine"], {"seeds": [7]}).title == "mine"


def test_a_model_is_found_whatever_is_wrong_with_a_pipeline(tmp_path: Path) -> None:
    text = "models: {own: {kind: fake}}\npipelines: {mine: {title: 3, seedz: [1]}}"
    settings = _settings(tmp_path, text)
    assert model_named("own", settings).kind == "fake"
    assert model_named("bundled", settings).kind == "bundled"
    with pytest.raises(DeclarationError, match="seedz: unknown key"):
        declared_pipelines(settings)


def test_an_unknown_key_at_the_top_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=r"pipelines\.yaml: modells: unknown key"):
        _load(tmp_path, GRID, modells={})


def test_a_missing_pipeline_is_answered_with_the_names(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="pipeline=yours: expected one of mine"):
        find_pipeline(_load(tmp_path, GRID), "yours")


def test_a_grid_becomes_units_with_seeds_outermost(tmp_path: Path) -> None:
    units = units_of(_pipeline(tmp_path))
    assert [(unit.seed, unit.dataset, unit.method) for unit in units] == [
        (seed, dataset, method)
        for seed in (0, 3)
        for dataset in ("adult", "car")
        for method in ("ldp_tabicl", "gdp_tabicl")
    ]
    assert len({unit.key for unit in units}) == 8 and units[0].key == "ldp_tabicl__adult__seed0"
    assert {unit.epsilons for unit in units} == {(1.0, 2.5, math.inf)}


def test_a_unit_spans_its_cells(tmp_path: Path) -> None:
    plain = units_of(_pipeline(tmp_path))[0]
    assert [cell.key for cell in plain.cells("icl")] == [
        f"icl,epsilon={epsilon},shots={shots}"
        for epsilon in ("1.0", "2.5", "inf")
        for shots in (1, 4)
    ]
    rated = units_of(_pipeline(tmp_path, sampling_rates=["1/10", 0.25]))[0]
    cells = list(rated.cells("icl"))
    assert cells[0].sampling_rate == Fraction(1, 10)
    assert cells[0].key == "icl,epsilon=1.0,shots=1,rate=1/10"
    assert len({cell.key for cell in cells}) == len(cells) == 12


def test_cells_without_numbers_have_plain_keys() -> None:
    assert (Cell("majority").key, Cell("zero-shot", shots=0).key, Cell("lr", 5.0).key) == (
        "majority",
        "zero-shot,shots=0",
        "lr,epsilon=5.0",
    )


def test_the_command_line_replaces_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    pipeline = _pipeline(
        tmp_path, sampling_rates=["1/3"], options={"gdp_tabicl": {"sum_origin": "lower"}}
    )
    assert override(pipeline, {}) == pipeline
    other = override(pipeline, {"epsilons": ["7", "inf"], "seeds": [5]})
    assert other == pipeline.model_copy(update={"epsilons": (7.0, math.inf), "seeds": (5,)})
    assert override(pipeline, {"sampling_rates": ["1/7"]}).sampling_rates == (Fraction(1, 7),)


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilons": ["0"]},
        {"epsilons": ["abc"]},
        {"shots": [0]},
        {"sampling_rates": ["2"]},
        {"model": ""},
        {"colour": 1},
    ],
)
def test_a_broken_command_line_is_one_sentence_too(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    with pytest.raises(DeclarationError, match=r"^command line: [a-z_.0-9]+: .*; expected "):
        override(_pipeline(tmp_path), changes)


def test_a_table_of_costs_needs_no_methods_or_shots(tmp_path: Path) -> None:
    bare = {"title": "t", "kind": "amplification", "datasets": ["car"], "epsilons": [1]}
    assert units_of(find_pipeline(_load(tmp_path, bare), "mine")) == ()


def test_defaults_are_the_mended_choices() -> None:
    options = Options()
    assert (options.ldp_tabicl.encoding, options.ldp_tabicl.estimator) == ("k-ary", "simplex")
    assert (options.gdp_tabicl.allocation, options.gdp_tabicl.sum_origin) == (
        "paid-columns",
        "centre",
    )


@given(st.floats(min_value=1e-6, allow_nan=False, allow_infinity=True))
def test_an_epsilon_survives_its_text(epsilon: float) -> None:
    assert parse_epsilon(str(epsilon)) == epsilon


def test_shipped_pipelines_name_shipped_contracts_models_and_numbers_of_shots(
    contracts: dict[str, Contract],
) -> None:
    shipped = load_pipelines(ROOT / "pipelines.yaml")
    for name, pipeline in shipped.pipelines.items():
        known = set(
            TEXT_CONTRACTS
            if set() < set(pipeline.methods) <= {"few_shot_generation", "dp_icl"}
            else contracts
        )
        assert set(pipeline.datasets) <= known, name
        assert {pipeline.model, *pipeline.beside} <= {*shipped.models, *PACKAGED}, name
        assert all(
            set(pipeline.shots) <= set(contracts[dataset].shots)
            for dataset in pipeline.datasets
            if dataset in contracts
        ), name


def _settings(folder: Path, text: str) -> Settings:
    path = folder / "pipelines.yaml"
    path.write_text(text)
    return Settings(folder, None, folder, path, folder / "runs")


def test_own_pipelines_and_models_lie_over_the_shipped_ones(tmp_path: Path) -> None:
    shipped = load_pipelines(SHIPPED_PIPELINES)
    own = yaml.safe_dump({"pipelines": {"mine": GRID}, "models": {"near": {"kind": "fake"}}})
    declared = declared_pipelines(_settings(tmp_path, own))
    assert declared.version == 1
    assert [*declared.pipelines] == ["mine", *shipped.pipelines]
    assert declared.models == {**shipped.models, "near": {"kind": "fake"}}
    assert model_named("bundled", _settings(tmp_path, own)).kind == "bundled"
    assert declared.pipelines["gdp-tabicl"] == shipped.pipelines["gdp-tabicl"]
    unchanged = Settings(tmp_path, None, tmp_path, SHIPPED_PIPELINES, tmp_path / "runs")
    assert declared_pipelines(unchanged) == shipped


def test_an_own_entry_has_no_key_of_the_shipped_one_of_its_name(tmp_path: Path) -> None:
    """A server that is called as a local model is not trusted with private rows, and a pipeline is
    not without baselines, because the shipped one is.
    """
    shipped = load_pipelines(SHIPPED_PIPELINES).pipelines
    assert shipped["ablation-subsample"].baselines is False
    server = {"kind": "endpoint", "url": "http://127.0.0.1:8000/v1", "id": "some-model"}
    settings = _settings(
        tmp_path,
        yaml.safe_dump({"models": {"bundled": server}, "pipelines": {"ablation-subsample": GRID}}),
    )
    assert model_named("bundled", settings).trust == "remote"
    own = declared_pipelines(settings).pipelines["ablation-subsample"]
    assert own == Pipeline.model_validate(GRID)
    assert own.baselines is True and own.group is None


def test_a_folder_of_the_users_is_not_hidden_by_a_shipped_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = _settings(tmp_path, "models: {}")
    assert model_named("tiny", settings).kind == "tiny"
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "config.json").write_text("{}")
    assert model_named("tiny", settings).id == str(tmp_path / "tiny")


def test_behind_an_own_file_no_shipped_pipeline_is_scheduled(tmp_path: Path) -> None:
    assert load_pipelines(SHIPPED_PIPELINES).pipelines["demo"].schedule is not None
    own = yaml.safe_dump({"pipelines": {"mine": {**GRID, "schedule": DAILY}}})
    declared = declared_pipelines(_settings(tmp_path, own)).pipelines
    assert [name for name, pipeline in declared.items() if pipeline.schedule] == ["mine"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("version: 2", "pipelines.yaml: version: got '2'; expected 1"),
        ("version:", "pipelines.yaml: version: is not filled in; expected 1"),
        ("pipeline: {}", "pipelines.yaml: pipeline: unknown key"),
        ("", "pipelines.yaml: is empty or not a mapping"),
    ],
)
def test_a_wrong_file_is_not_passed_over(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(DeclarationError, match=f"^{re.escape(sentence)}"):
        declared_pipelines(_settings(tmp_path, text))


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    """With every key of a pipeline that has another word in the names of releases."""
    options = {
        "ldp_tabicl": {
            "shot_selection": ["nested"],
            "variants": {"pairs": {"design": "pairs", "estimator": "tree"}},
        },
        "gdp_tabicl": {"epsilon_is": "amplified"},
        "few_shot_generation": {
            "variants": {
                "fixed": {"mechanism": "clipped-logits", "batches": "fixed", "private_tokens": 3}
            }
        },
    }
    pipeline = Pipeline.model_validate({**GRID, "generator": "fake", "options": options})
    plan = Plan("mine", "mine", pipeline, ModelSpec(name="fake", kind="fake"))
    write_plan(tmp_path, plan)
    assert read_plan(tmp_path) == plan
    write_plan(tmp_path, read_plan(tmp_path))


def test_what_a_list_says_of_a_pipeline_is_no_part_of_its_plan() -> None:
    content = yaml.safe_load((ROOT / "pipelines.yaml").read_text())["pipelines"]["demo"]
    about = {"group", "takes", "needs"}
    assert about <= content.keys()
    plans = [
        Plan(
            "mine",
            "demo",
            override(Pipeline.model_validate(one), {}),
            ModelSpec(name="fake", kind="fake"),
        )
        for one in (content, {key: value for key, value in content.items() if key not in about})
    ]
    assert plans[0] == plans[1] and plans[0].as_json() == plans[1].as_json()
    assert not about & plans[0].as_json()["pipeline"].keys()
