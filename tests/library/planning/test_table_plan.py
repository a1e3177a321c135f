"""Plans: made-up tables of a contract's shape, released by every method; no row is read."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from dpicl.contract import Contract, parse_contract
from dpicl.data.central.exact_counts import row_bins, row_encoding
from dpicl.ground.errors import ParameterError, PrivacyError
from dpicl.methods import METHODS, tabular
from dpicl.methods.grid import points
from dpicl.quality.gate import check_noise
from dpicl.quality.measures import answer_quality
from dpicl.quality.outlook import TablePlan, half_width, plan_table
from dpicl.quality.simulate import FRESH, candidates, population
from dpicl.quality.worth import Quality, ReleasePoint
from tests.harness import call_main, complaint
from tests.library.examples import CONTRACTS, private_contract, small_contract

FEATURES: dict[str, dict[str, Any]] = {
    "age": {"type": "integer", "bounds": [0, 100]},
    "income": {"type": "real", "bounds": [0, 9000], "nullable": True},
    "since": {"type": "date", "bounds": ["2010-01-01", "2025-12-31"]},
    "region": {"type": "category", "categories": ["north", "south", "west"], "nullable": True},
    "size": {"type": "category", "categories": ["s", "m", "l", "xl"]},
}
LABELS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "binary": (
        {"type": "category", "categories": ["no", "yes"]},
        {"parts": [["no"], ["yes"]], "question": "Left?"},
    ),
    "classes": ({"type": "category", "categories": ["a", "b", "c"]}, {}),
    "number": ({"type": "integer", "bounds": [0, 40], "bins": [10, 20, 30]}, {}),
}


def contract_of(kind: str, **privacy: Any) -> Contract:
    """Five columns, and a label of this kind."""
    content: dict[str, Any] = {"version": 2, "name": "planned", "source": {"file": "planned.csv"}}
    content["privacy"] = {"budget": {"epsilon": 10}, **privacy}
    column, label = LABELS.get(kind, (None, None))
    content["columns"] = FEATURES if column is None else {**FEATURES, "answer": column}
    return parse_contract(
        content if label is None else {**content, "label": {"column": "answer", **label}},
        "planned.yaml",
    )


@pytest.mark.parametrize("kind", [*LABELS, "none"])
def test_a_population_has_the_contract_s_shape_and_the_stated_signal(kind: str) -> None:
    contract = contract_of(kind)
    made = population(contract, 4000, 0.8, np.random.default_rng(3))
    assert np.array_equal(row_bins(made.table, contract), made.codes)
    assert len(made.codes) == 4000 + FRESH
    assert (made.codes.max(axis=0) < row_encoding(contract).sizes).all()
    assert made.truth is None if kind == "none" else abs(made.truth.auc - 0.8) < 0.03


def test_a_published_split_and_persons_are_made_up_too() -> None:
    for contract in (
        *CONTRACTS.values(),
        contract_of("binary", unit="person", person={"id_column": "who", "max_rows": 2}),
    ):
        made = population(contract, 300, 0.75, np.random.default_rng(0))
        assert np.array_equal(row_bins(made.table, contract), made.codes)


def test_quality_is_scikit_learn_s() -> None:
    rng = np.random.default_rng(0)
    scores, truth = rng.dirichlet(np.ones(3), size=500).round(2), rng.integers(3, size=500)
    expected = np.mean([roc_auc_score(truth == code, scores[:, code]) for code in range(3)])
    assert answer_quality(scores, truth).auc == pytest.approx(expected)


def test_an_interval_is_where_one_more_population_would_fall() -> None:
    rng = np.random.default_rng(0)
    inside = 0
    for *values, last in rng.normal(size=(4000, 7)):
        inside += abs(last - np.mean(values)) <= half_width(values)
    assert inside / 4000 == pytest.approx(0.9, abs=0.015)


def plan_of(contract: Contract, rows: int = 4000, *epsilons: float, **how: Any) -> TablePlan:
    return plan_table(contract, rows, epsilons or (1.0,), populations=2, **how)


@pytest.mark.parametrize(
    "kind", [*(pytest.param(kind, marks=pytest.mark.exhaustive) for kind in LABELS), "none"]
)
def test_every_method_is_simulated_whatever_is_predicted(kind: str) -> None:
    told: list[tuple[int, int]] = []
    signal = "medium" if kind == "number" else None
    plan = plan_of(
        contract_of(kind), signal=signal, progress=lambda done, total: told.append((done, total))
    )
    weighed = {
        name
        for name, method in METHODS.items()
        if method.data == "table" and method.alternatives(contract_of(kind))
    }
    assert {one.way.method for one in plan.outlooks} == weighed
    assert weighed >= {"ldp_tabicl", "gdp_tabicl", "mst_tabicl", "aim_tabicl"}
    assert len(plan.signals) == {"none": 0, "number": 1}.get(kind, 3)
    assert told[-1] == (len(told), len(told))
    for one in (outlook.quality for outlook in plan.outlooks):
        assert (one.auc is None) == (kind == "none") and 0 <= one.column_error <= 1
        assert {error.columns for error in one.columns} == {(name,) for name in FEATURES}
        assert one.pair_error is None or one.pair_error > one.column_error
    assert METHODS[plan.recommended.way.method].trust == "central"
    assert "Recommended" in plan.sentence


@pytest.mark.exhaustive
def test_the_same_question_gets_the_same_plan() -> None:
    one, other = (plan_of(contract_of("binary"), 1000, 1.0, signal="weak") for _ in range(2))
    assert one == other


@pytest.mark.exhaustive
def test_more_epsilon_and_rows_lose_less() -> None:
    plan = plan_of(contract_of("binary"), 2000, 0.1, 10.0, signal=0.85)
    for method in ("mst_tabicl", "ldp_tabicl"):
        little, much = (
            min(
                one.quality.column_error
                for one in plan.outlooks
                if (one.way.method, one.epsilon) == (method, at)
            )
            for at in (0.1, 10.0)
        )
        assert much < little / 2
    assert plan.best(10.0, 0.85).quality.value > plan.best(0.1, 0.85).quality.value + 0.05


def test_at_a_small_epsilon_one_question_is_worth_more_than_all_columns() -> None:
    plan = plan_of(CONTRACTS["breast_cancer"], 5000, 1.0, signal="strong", trust="local")
    by_design = {
        one.way.options.get("design", "all-columns"): one.quality.value
        for one in sorted(plan.outlooks, key=lambda one: one.quality.value)
    }
    assert plan.best(1.0, plan.middle).way.options["design"] in ("subset", "pairs")
    assert max(by_design["subset"], by_design["pairs"]) > by_design["all-columns"] + 0.05


def test_nothing_useful_is_an_answer() -> None:
    plan = plan_of(contract_of("binary"), 150, 0.01, signal="medium")
    assert plan.recommended is plan.command is None
    assert plan.sentence.startswith("Nothing useful at epsilon 0.01 and 150 rows")


@pytest.mark.exhaustive
def test_the_command_names_what_was_simulated() -> None:
    plan = plan_of(contract_of("binary"), 20_000, 3.0, signal="medium", trust="local")
    words = shlex.split(plan.command)
    assert words[:3] == ["dpicl", "synth", "planned"] and "--option" in words
    assert all(f"{name}={value}" in words for name, value in plan.recommended.way.options.items())
    outlooks = plan_of(contract_of("binary")).outlooks
    averages = next(one for one in outlooks if one.way.method == "gdp_tabicl")
    assert averages.command("planned").startswith("dpicl protect planned")
    assert averages.way.options["epsilon_is"] == "amplified"
    assert averages.charged == pytest.approx(1.0)


def test_what_the_contract_refuses_is_left_out_by_name() -> None:
    """A split of private rows: the number of clients would be seen."""
    split = small_contract(lambda content: content["privacy"].update(budget={"epsilon": 100}))
    ways, refused = candidates(split, (1.0,))
    assert refused.keys() == {"ldp_tabicl"} and "split" in refused["ldp_tabicl"]
    assert "ldp_tabicl" not in {way.method for way in ways}
    assert not candidates(private_contract(), (1.0,))[1]


@pytest.mark.parametrize(
    ("rows", "epsilon", "how", "phrase"),
    [
        (None, 1.0, {}, r"rows=unknown: expected --rows NUMBER \(`rows=NUMBER`\), as"),
        (0, 1.0, {}, "rows=0"),
        (10, 0.0, {}, "epsilons=.0.0.: expected a number >= 1e-06"),
        (10, math.inf, {}, "epsilons="),
        (10, 1.0, {"signal": "great"}, "signal='great': expected weak, medium, strong"),
        (10, 1.0, {"signal": 0.5}, "signal="),
        (10, 1.0, {"trust": "nobody"}, "trust="),
    ],
)
def test_what_cannot_be_planned_is_refused(
    rows: int | None, epsilon: float, how: dict[str, Any], phrase: str
) -> None:
    with pytest.raises(ParameterError, match=phrase):
        plan_table(contract_of("binary"), rows, [epsilon], **how)


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        (("nowhere", "--rows", "10"), "expected one of"),
        (("heart", "--rows", "10", "--epsilon", "much"), "epsilon=much"),
        (("heart", "--rows", "0"), "greater than or equal to 1"),
        (
            ("breast_cancer",),
            "or `population: NUMBER`, which breast_cancer does not state",
        ),
        (("heart", "--rows", "10", "--signal", "1"), "signal='1'"),
    ],
)
def test_a_mistake_is_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], phrase: str
) -> None:
    assert phrase in complaint(call_main(["plan", *arguments], capsys))


@pytest.mark.parametrize(("rows", "epsilon"), [(200, 1.0), (600, 0.5)])
def test_what_a_plan_recommends_is_never_refused_and_what_is_refused_it_calls_useless(
    rows: int, epsilon: float
) -> None:
    contract = contract_of("binary").model_copy(update={"population": rows})
    plan = plan_table(contract, rows, [epsilon], signal="medium", trust="central")
    for outlook in plan.outlooks:
        method = tabular(outlook.way.method)
        unit = outlook.way.unit(contract, (epsilon,))
        (point,) = points(method, unit).values()
        try:
            check_noise([ReleasePoint(contract, method, point)], anyway=False)
        except PrivacyError as error:
            assert outlook is not plan.recommended
            assert not outlook.quality.is_useful
            assert f"{rows} rows and epsilon {epsilon:g}" in str(error)


def test_a_fast_plan_is_of_the_medium_signal_and_a_curator_s_methods() -> None:
    contract = contract_of("binary")
    plan = plan_table(contract, 2000, [1.0], fast=True)
    assert list(plan.signals) == ["medium"]
    assert {METHODS[outlook.way.method].trust for outlook in plan.outlooks} == {"central"}
    assert plan.recommended is not None


def parts_of(value: Any) -> Iterator[Any]:
    """What a plan is made of, whatever is asked of it."""
    yield value
    if isinstance(value, tuple | list):
        below: list[Any] = list(value)
    elif is_dataclass(value) and type(value).__module__.startswith("dpicl.quality"):
        below = [getattr(value, field.name) for field in fields(value)]
    else:
        return
    for one in below:
        yield from parts_of(one)


@pytest.mark.parametrize("kind", [*LABELS, "none"])
def test_all_that_a_plan_returns_can_be_shown(kind: str) -> None:
    """Of a release that is only planned no rows say how good a classifier seems."""
    plan = plan_table(contract_of(kind), 2000, [1.0, 3.0], fast=True)
    assert plan.recommended is not None
    seen = [*parts_of(plan), plan.recommended]
    assert any(isinstance(part, Quality) for part in seen)
    for part in seen:
        texts = [str(part), repr(part), f"{part}"]
        if hasattr(part, "_repr_html_"):
            texts.append(part._repr_html_())
        if isinstance(part, Quality | TablePlan):
            assert not any("None" in text or "nan" in text for text in texts)
    for outlook in plan.outlooks:
        outlook.quality.to_frame()
    said = str(plan.recommended.quality)
    assert ("fitted on released rows: 0." in said) is (kind != "none")
    assert "it would seem" not in said


def test_of_a_number_without_bins_it_is_said_before_the_charge_what_its_bins_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    contract = contract_of("number")
    open_ = contract.model_copy(
        update={
            "columns": {
                **contract.columns,
                "answer": contract.columns["answer"].model_copy(
                    update={"bins": None, "bounds": (0, 20_000)}
                ),
            }
        }
    )
    sentence = "columns.answer: bounds from 0 to 20000 make eight equal bins; if it is publicly"
    for stated, is_said in ((open_, True), (contract, False)):
        plan = plan_table(stated, 2000, [1.0], fast=True)
        assert (sentence in plan.sentence) is is_said and (sentence in str(plan)) is is_said
        assert plan.recommended is not None
        caplog.clear()
        check_noise([plan.recommended.quality.point], anyway=True)
        assert (sentence in caplog.text) is is_said
