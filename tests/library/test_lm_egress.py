"""Who may be told what: released prompts anybody, rows without noise a local model only."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpicl.contract import Contract
from dpicl.errors import PrivacyError
from dpicl.lm import HashScorer, ModelSpec
from dpicl.lm.egress import ask, check_egress, prompts_of
from dpicl.lm.layout import CONTINUATIONS
from dpicl.pipeline import Cell, Pipeline, Unit, units_of
from dpicl.types import PrivatePrompts, ReleasedPrompts
from tests.library.examples import private_contract, small_contract

ROOT = Path(__file__).resolve().parents[2]
NEAR, FAR = (ModelSpec(name=trust, kind="fake", trust=trust) for trust in ("local", "remote"))
TEXTS = ("One. Answer: No", "Two. Answer:")


class Silent(HashScorer):
    """A scorer that fails if it is told anything."""

    def score(self, *_: object, **__: object) -> np.ndarray:
        raise AssertionError("it was told something")


def unit(*epsilons: float, method: str = "ldp_tabicl") -> Unit:
    """A unit of the small table."""
    grid = {"title": "t", "methods": [method], "datasets": ["shop"], "epsilons": epsilons, "shots": [1, 2]}
    return units_of(Pipeline.model_validate(grid))[0]


@pytest.mark.parametrize(("contract", "private"), [(small_contract(), False), (private_contract(), True)])
def test_only_noiseless_cells_of_a_table_that_is_not_public_are_private(contract: Contract, private: bool) -> None:
    kinds = {
        cell: type(prompts_of(TEXTS, contract, cell))
        for cell in (Cell("zero-shot", shots=0), Cell("icl", 5.0, 2), Cell("raw-rows", 5.0, 2), Cell("icl", float("inf"), 2))
    }
    assert list(kinds.values()) == [ReleasedPrompts] * 3 + [PrivatePrompts if private else ReleasedPrompts]


@pytest.mark.parametrize("method", ["ldp_tabicl", "gdp_tabicl"])
def test_true_rows_of_a_private_table_are_planned_for_no_remote_model(method: str) -> None:
    with pytest.raises(PrivacyError) as refused:
        check_egress(private_contract(), unit(1, float("inf"), method=method), FAR)
    assert str(refused.value) == (
        "shop: model 'remote' has trust 'remote', and epsilon=inf sends it rows without noise (2 cells); "
        "expected a finite epsilon, a local model, or a contract with `benchmark: true`"
    )


def test_everything_else_may_be_planned() -> None:
    check_egress(private_contract(), unit(1, 50), FAR)
    check_egress(small_contract(), unit(1, float("inf")), FAR)
    check_egress(private_contract(), unit(float("inf")), NEAR)


def test_a_remote_scorer_is_told_nothing_private() -> None:
    for prompts in (PrivatePrompts(TEXTS), TEXTS, list(TEXTS)):
        with pytest.raises(PrivacyError, match=f"may not be told {type(prompts).__name__}; expected released prompts"):
            ask(Silent("far", "remote"), prompts, CONTINUATIONS)  # type: ignore[arg-type]


def test_no_scorer_is_told_texts_that_do_not_say_what_they_hold() -> None:
    with pytest.raises(PrivacyError, match="may not be told tuple"):
        ask(Silent(), TEXTS, CONTINUATIONS)  # type: ignore[arg-type]


@pytest.mark.parametrize(("trust", "kind"), [("local", ReleasedPrompts), ("local", PrivatePrompts), ("remote", ReleasedPrompts)])
def test_what_may_be_told_is_answered_as_ever(trust: str, kind: type[ReleasedPrompts | PrivatePrompts]) -> None:
    scorer = replace(HashScorer(), trust=trust)  # type: ignore[arg-type]
    assert np.array_equal(ask(scorer, kind(TEXTS), CONTINUATIONS), scorer.score(TEXTS, CONTINUATIONS))


def test_stages_ask_a_scorer_through_this_door_only() -> None:
    asking = {
        str(path.relative_to(ROOT))
        for folder in ("tasks", "flows", "infra")
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"\.score\(", path.read_text())
    }
    assert asking == set()


WRONG = """
from dpicl.contract import Contract
from dpicl.lm import HashScorer
from dpicl.lm.egress import ask
from dpicl.tabular.serialize import central_demonstrations, central_queries, local_demonstrations, local_queries
from dpicl.types import LocalReports, PrivateCodes, PrivateTable, QueryTable, ReleasedGroups, ReleasedPrompts, ReleasedRows

def right(c: Contract, q: QueryTable, g: ReleasedGroups, r: ReleasedRows) -> None:
    central_queries(q, c)
    central_demonstrations(g, c)
    local_demonstrations(r, lambda codes: codes, c)
    ask(HashScorer(), ReleasedPrompts(("a",)), [" No"])

def wrong(c: Contract, p: PrivateTable, k: PrivateCodes) -> None:
    central_queries(p, c)
    central_demonstrations(p, c)
    local_demonstrations(k, lambda codes: codes, c)
    local_queries(k, c)
    ask(HashScorer(), ["a"], [" No"])
"""


def test_a_skipped_noise_step_is_a_type_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mypy import api

    (tmp_path / "snippet.py").write_text(WRONG)
    monkeypatch.chdir(ROOT)
    out, _, code = api.run(["--config-file", str(ROOT / "pyproject.toml"), str(tmp_path / "snippet.py")])
    lines = {int(number) for number in re.findall(r"snippet\.py:(\d+): error", out)}
    first = WRONG.splitlines().index("def wrong(c: Contract, p: PrivateTable, k: PrivateCodes) -> None:") + 2
    assert code == 1 and lines == set(range(first, first + 5)), out
