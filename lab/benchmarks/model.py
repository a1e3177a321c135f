"""The model in the box: held-out synthetic tasks, and real tables with prompts as the pipelines
make them.

held-out    8 shots: area under the curve against logistic regression and a kernel vote on the same
            shots
real        eight sets and breast_cancer, 8 shots: without noise, and at epsilon = 1, 5, 10
beside it   a kernel vote, logistic regression and the training's own teacher, a Gaussian process,
            on the very same rows: what 8 shots tell whoever knows nothing else
swapped     the same prompts with the other order of rows, and with Yes and No exchanged
speed       prompts a second on two threads
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from tqdm import tqdm
from transformers import AutoModelForCausalLM

from dpicl.contract import Contract
from dpicl.contract.pipeline import Cell
from dpicl.data.reading.split import fewer
from dpicl.ground.types import SplitTable
from dpicl.home.settings import Settings
from dpicl.methods import Options, tabular, tabular_answers, unit_of
from dpicl.methods.base import draws_for
from dpicl.models.kinds.local import BUNDLED
from dpicl.models.opening import open_scorer
from dpicl.models.requests import CONTINUATIONS, Scorer
from dpicl.models.spec import ModelSpec
from dpicl.release.pipelines import MethodName
from lab import in_memory
from lab.benchmarks.figures import Figures, bench, seconds, sized
from lab.benchmarks.real_tables import EIGHT, at_hand, real_table
from lab.training.held_out import evaluate
from lab.training.rendering import parted
from lab.training.teacher import taught
from lab.training.vote import logistic, vote

SETS = (*EIGHT, "breast_cancer")
SHOTS, SEEDS, QUERIES, EPSILONS = 8, sized((0, 1), (0,)), sized(100, 4), (1.0, 5.0, 10.0, math.inf)
METHODS: tuple[MethodName, ...] = ("ldp_tabicl", "gdp_tabicl")
HELD_OUT_TASKS = sized(400, 8)
CLAUSE_END = re.compile(r"[.,;:] | and ")


def prompts_of(
    method: MethodName, split: SplitTable, contract: Contract, seed: int
) -> dict[Cell, list[str]]:
    """The in-context prompts of one unit, as its flow sends them."""
    unit, draws = (
        unit_of(method, contract.name, seed, EPSILONS, (SHOTS,), (), False, Options()),
        draws_for(contract, seed),
    )
    released = in_memory.of_table(tabular(method), split.train, contract, unit, draws)
    found = tabular(method).prompts(released, split.queries, contract, unit, draws)
    return {cell: texts for cell, texts in found.items() if cell.system == "icl"}


def auc(scorer: Scorer, texts: Sequence[str], truth: np.ndarray) -> float:
    """Area under the curve of the log-odds of Yes."""
    said = scorer.score(texts, CONTINUATIONS)
    return float(roc_auc_score(truth, said[:, 1] - said[:, 0]))


def as_features(text: str) -> tuple[np.ndarray, np.ndarray]:
    """A prompt's rows for a classifier, the query last: which clauses each has, and the answers (0
    for the query).
    """
    *shown, query = text.split("\n")
    rows = [*(parted(row) for row in shown), (query, "")]
    clauses = [set(CLAUSE_END.split(body)) for body, _ in rows]
    known = sorted(set().union(*clauses))
    features = np.array([[clause in row for clause in known] for row in clauses], dtype=np.float64)
    return features, np.array([answer == CONTINUATIONS[1] for _, answer in rows], dtype=np.int64)


def of_same_shots(
    classifier: Callable[[np.ndarray, np.ndarray], float], texts: Sequence[str], truth: np.ndarray
) -> float:
    """Area of a classifier that sees the same rows."""
    return float(roc_auc_score(truth, [classifier(*as_features(text)) for text in texts]))


def reversed_rows(text: str) -> str:
    """The demonstrations the other way round."""
    *rows, query = text.split("\n")
    return "\n".join([*rows[::-1], query])


def other_answers(text: str) -> str:
    """Every demonstration with the other answer."""
    *rows, query = text.split("\n")
    return "\n".join([*(_exchanged(row) for row in rows), query])


def _exchanged(row: str) -> str:
    body, answer = parted(row)
    no, yes = CONTINUATIONS
    return body + (no if answer == yes else yes)


def rows_of(settings: Settings, name: str) -> tuple[Contract, SplitTable]:
    """A real table, and at most `QUERIES` of its held-out rows to ask about."""
    contract, split = real_table(name)
    return contract, replace(split, query_positions=fewer(split.query_positions, QUERIES, name))


def real(
    scorer: Scorer, settings: Settings
) -> tuple[dict[tuple[str, str, float], float], dict[tuple[str, str], float]]:
    """Mean areas over the seeds, by set, method and epsilon; and of the exact rows by set and who
    was asked or what was swapped.
    """
    areas: dict[tuple[str, str, float], float] = {}
    beside: dict[tuple[str, str], float] = {}
    for name in tqdm(SETS, unit="set"):
        contract, split = rows_of(settings, name)
        truth = tabular_answers.truth_of(split.queries, contract)
        prompts = {
            (method, seed): prompts_of(method, split, contract, seed)
            for method in METHODS
            for seed in SEEDS
        }
        for method, epsilon in product(METHODS, EPSILONS):
            found = [
                auc(scorer, prompts[method, seed][Cell("icl", epsilon, SHOTS)], truth)
                for seed in SEEDS
            ]
            areas[name, method, epsilon] = float(np.mean(found))
        exact = [prompts["ldp_tabicl", seed][Cell("icl", math.inf, SHOTS)] for seed in SEEDS]
        found_beside = {
            who: float(np.mean([ask(texts, truth) for texts in exact]))
            for who, ask in others(scorer).items()
        }
        beside.update({(name, who): area for who, area in found_beside.items()})
        told = "  ".join(
            f"{method[:3]} " + " ".join(f"{areas[name, method, e]:.3f}" for e in EPSILONS)
            for method in METHODS
        )
        tqdm.write(
            f"{name:14} epsilon 1, 5, 10, inf: {told}  "
            + "  ".join(f"{who} {area:.3f}" for who, area in found_beside.items())
        )
    return areas, beside


def others(scorer: Scorer) -> dict[str, Callable[[Sequence[str], np.ndarray], float]]:
    """What answers beside the model: classifiers on the same rows, and the model itself on
    exchanged ones.
    """
    return {
        "vote": partial(of_same_shots, lambda features, labels: float(vote(features, labels)[-1])),
        "logistic regression": partial(of_same_shots, logistic),
        "teacher": partial(
            of_same_shots, lambda features, labels: float(taught(features, labels)[-1])
        ),
        "order": lambda texts, truth: auc(scorer, [reversed_rows(text) for text in texts], truth),
        "answers": lambda texts, truth: (
            1 - auc(scorer, [other_answers(text) for text in texts], truth)
        ),
    }


def held_out(figures: Figures) -> None:
    """Synthetic tasks that no training draws."""
    model = AutoModelForCausalLM.from_pretrained(
        BUNDLED, dtype=torch.float32, local_files_only=True
    )
    for found in evaluate(model, BUNDLED, HELD_OUT_TASKS, torch.device("cpu")):
        print(
            f"held-out {found.kind}: model {found.model:.3f}, logistic regression "
            f"{found.logistic:.3f}, vote {found.vote:.3f}"
        )
        figures.at_least(f"held-out-{found.kind}-above-vote", found.model - found.vote, 0)
        figures.at_least(
            f"held-out-{found.kind}-above-logistic-regression", found.model - found.logistic, -0.03
        )


def _bundled(settings: Settings) -> Scorer:
    return open_scorer(
        ModelSpec(name="bundled", kind="bundled"), models_folder=settings.models, corpus=()
    )


def on_real_sets(figures: Figures) -> None:
    """Mean and worst area without noise, beside it both methods at three budgets, and what an
    exchange changes.
    """
    if not at_hand():
        return
    areas, beside = real(_bundled(settings := Settings.from_environment()), settings)
    exact = {name: areas[name, "ldp_tabicl", math.inf] for name in SETS}
    figures.at_least("real-sets-mean-auc", float(np.mean(list(exact.values()))), 0.70)
    figures.at_least("real-sets-worst-auc", min(exact.values()), 0.52)
    for method, epsilon in product(METHODS, EPSILONS):
        mean = np.mean([areas[name, method, epsilon] for name in SETS])
        print(f"{method} at epsilon = {epsilon:g}: mean AUC {mean:.3f}")
    for who in ("vote", "logistic regression", "teacher"):
        print(
            f"{who} on the same rows without noise: mean AUC "
            f"{np.mean([beside[name, who] for name in SETS]):.3f}"
        )
    for what in ("order", "answers"):
        change = np.mean([abs(beside[name, what] - exact[name]) for name in SETS])
        figures.at_most(f"change-by-swapped-{what}", float(change), 0.05)


def speed(figures: Figures) -> None:
    """Prompts whose demonstrations are drawn afresh for each, on two threads."""
    if not at_hand():
        return
    scorer = _bundled(settings := Settings.from_environment())
    contract, split = rows_of(settings, "adult")
    texts = prompts_of("ldp_tabicl", split, contract, 0)[Cell("icl", math.inf, SHOTS)]
    torch.set_num_threads(2)
    figures.at_least(
        "prompts-per-second", len(texts) / seconds(lambda: scorer.score(texts, CONTINUATIONS), 3), 5
    )


PARTS = (held_out, on_real_sets, speed)

if __name__ == "__main__":
    bench(PARTS)
