"""Who may be told what: released prompts anybody, rows without noise a local model only."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dpicl.contract import Contract
from dpicl.contract.pipeline import Cell, Unit
from dpicl.ground.errors import ParameterError, PrivacyError
from dpicl.ground.types import PrivatePrompts, ReleasedPrompts
from dpicl.models.kinds.fake import HashScorer
from dpicl.models.requests import CONTINUATIONS, Sampling
from dpicl.models.spec import ModelSpec, check_egress, generate_texts, prompts_of, score_prompts
from dpicl.release.pipelines import Pipeline, units_of
from tests.library.examples import private_contract, small_contract

ROOT = Path(__file__).resolve().parents[3]
NEAR, FAR = (ModelSpec(name=trust, kind="fake", trust=trust) for trust in ("local", "remote"))
TEXTS = ("One. Answer: No", "Two. Answer:")


class Silent(HashScorer):
    """A model that fails if it is told anything."""

    def score(self, *_: object, **__: object) -> np.ndarray:
        raise AssertionError("it was told something")

    def generate(self, *_: object) -> list[str]:
        raise AssertionError("it was told something")


def unit(*epsilons: float, method: str = "ldp_tabicl") -> Unit:
    """A unit of the small table."""
    grid = {
        "title": "t",
        "methods": [method],
        "datasets": ["shop"],
        "epsilons": epsilons,
        "shots": [1, 2],
    }
    return units_of(Pipeline.model_validate(grid))[0]


@pytest.mark.parametrize(
    "contract, private", [(small_contract(), False), (private_contract(), True)]
)
def test_only_noiseless_cells_of_a_table_that_is_not_public_are_private(
    contract: Contract, private: bool
) -> None:
    kinds = {
        cell: type(prompts_of(TEXTS, contract, cell))
        for cell in (
            Cell("zero-shot", shots=0),
            Cell("icl", 5.0, 2),
            Cell("raw-rows", 5.0, 2),
            Cell("icl", float("inf"), 2),
        )
    }
    assert list(kinds.values()) == [ReleasedPrompts] * 3 + [
        PrivatePrompts if private else ReleasedPrompts
    ]


@pytest.mark.parametrize("method", ["ldp_tabicl", "gdp_tabicl"])
def test_true_rows_of_a_private_table_are_planned_for_no_remote_model(method: str) -> None:
    with pytest.raises(PrivacyError) as refused:
        check_egress(private_contract(), unit(1, float("inf"), method=method), FAR)
    assert str(refused.value) == (
        "shop: model 'remote' has trust 'remote', and epsilon=inf sends it rows without noise (2 "
        "cells); "
        "expected a finite epsilon, a local model, or a contract with `benchmark: true`"
    )


def test_everything_else_may_be_planned() -> None:
    check_egress(private_contract(), unit(1, 50), FAR)
    check_egress(small_contract(), unit(1, float("inf")), FAR)
    check_egress(private_contract(), unit(float("inf")), NEAR)


def scores_of(model: HashScorer, prompts: ReleasedPrompts | PrivatePrompts) -> np.ndarray:
    """One door."""
    return score_prompts(model, prompts, CONTINUATIONS)


def texts_of(model: HashScorer, prompts: ReleasedPrompts | PrivatePrompts) -> list[str]:
    """The other."""
    return generate_texts(model, prompts, Sampling(new_tokens=5, stop=("\n",)))


@pytest.mark.parametrize("door", [scores_of, texts_of])
@pytest.mark.parametrize("prompts", [PrivatePrompts(TEXTS), TEXTS, list(TEXTS)])
def test_a_remote_model_is_told_nothing_private(
    door: Callable[..., object], prompts: object
) -> None:
    """And none at all is told texts that do not say what they hold."""
    for trust in ("remote",) if isinstance(prompts, PrivatePrompts) else ("remote", "local"):
        with pytest.raises(PrivacyError) as refused:
            door(Silent("far", trust), prompts)
        assert str(refused.value) == (
            f"model 'far' has trust {trust!r} and may not be sent {type(prompts).__name__}; "
            f"expected released prompts, or private ones for a local model"
        )


@pytest.mark.parametrize(
    "trust, kind",
    [("local", ReleasedPrompts), ("local", PrivatePrompts), ("remote", ReleasedPrompts)],
)
def test_what_may_be_told_is_answered_as_ever(
    trust: str, kind: type[ReleasedPrompts | PrivatePrompts]
) -> None:
    scorer = HashScorer(trust=trust)  # type: ignore[arg-type]
    assert np.array_equal(scores_of(scorer, kind(TEXTS)), scorer.score(TEXTS, CONTINUATIONS))
    wanted = Sampling(new_tokens=5, stop=["\n"])
    assert texts_of(scorer, kind(TEXTS)) == scorer.generate(TEXTS, wanted)


@pytest.mark.parametrize(
    "wrong",
    [
        {"new_tokens": 0},
        {"temperature": -0.5},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"stop": [".", ""]},
        {"stop": "."},
    ],
)
def test_a_text_that_cannot_be_written_is_not_asked_for(wrong: dict[str, object]) -> None:
    with pytest.raises(ParameterError, match=f"^{next(iter(wrong))}="):
        generate_texts(
            Silent(), ReleasedPrompts(TEXTS), Sampling(**{"new_tokens": 5, "stop": ()} | wrong)
        )  # type: ignore[arg-type]


def test_the_door_hands_on_how_a_text_is_wanted() -> None:
    model, prompts = HashScorer(), ReleasedPrompts(("a", "a", "b"))
    for wish in (
        {"temperature": 0.7, "seed": 3},
        {"temperature": 0.7, "seed": 4},
        {"new_tokens": 2},
        {"stop": ("e",)},
    ):
        wanted = {"new_tokens": 5, "stop": (), **wish}
        assert generate_texts(model, prompts, Sampling(**wanted)) == model.generate(
            prompts.texts, Sampling(**wanted)
        )  # type: ignore[arg-type]


def test_stages_ask_a_model_through_these_doors_only() -> None:
    asking = {
        str(path.relative_to(ROOT))
        for folder in ("tasks", "flows", "infra")
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"\.(score|generate)\(", path.read_text())
    }
    assert asking == set()
