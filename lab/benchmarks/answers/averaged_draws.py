"""Answers averaged over eight draws of eight demonstrations from one release, beside those of one
draw and classifiers on all its rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpicl.contract import Contract
from dpicl.contract.pipeline import Cell
from dpicl.ground.types import QueryTable, SplitTable
from dpicl.home.settings import Settings
from dpicl.methods import DEFAULTS, Options, tabular, unit_of
from dpicl.methods.base import draws_for
from dpicl.models.opening import open_scorer
from dpicl.models.requests import Scorer
from dpicl.models.spec import ModelSpec
from lab import in_memory
from lab.benchmarks.figures import Figures, sized
from lab.benchmarks.real_tables import EIGHT, at_hand, real_table

EPSILON, SHOTS, DRAWS, QUERIES, SEEDS = 1.0, 8, sized(8, 2), sized(40, 16), range(1)
GOAL = 0.08
"""Of AUC. One draw itself is byte for byte what it was before there were several: tests say so."""


def _aucs(
    contract: Contract, split: SplitTable, name: str, seed: int, scorer: Scorer
) -> list[float]:
    """On the same queries: one draw, mean over all of them; their average; and classifiers."""
    method, draws = tabular(name), draws_for(contract, seed)
    stated = {name: {**method.default_options(contract, {}, EPSILON), "shot_selection": ()}}
    unit = unit_of(
        name,
        contract.name,
        seed,
        (EPSILON,),
        (SHOTS,),
        (),
        True,
        Options.model_validate(stated),
        DRAWS,
    )
    released = in_memory.of_table(method, split.train, contract, unit, draws)
    # some files are sorted by label
    places = np.linspace(0, split.queries.row_count - 1, QUERIES).astype(int)
    queries = QueryTable(split.queries.data.take(places))
    scores = {
        cell: method.answers.ask_cell(scorer, texts, contract, cell)
        for cell, texts in method.prompts(released, queries, contract, unit, draws).items()
    }
    icl = Cell("icl", EPSILON, SHOTS)
    alone = [
        method.answers.metrics_of({icl: table}, queries, contract)[icl].auc
        for cell, table in scores.items()
        if replace(cell, draw=None) == icl
    ]
    measured = method.answers.metrics_of(scores, queries, contract) | method.baselines(
        released, None, queries, contract, unit, draws
    )
    beside = (Cell("averaged", EPSILON, SHOTS), Cell("lr", EPSILON), Cell("gb", EPSILON))
    return [float(np.mean(alone)), *(measured[cell].auc for cell in beside)]


def measure(figures: Figures) -> None:
    """Means over eight real sets, of each trust's usual method with rows drawn at random."""
    if not at_hand():
        return
    scorer = open_scorer(
        ModelSpec(name="bundled", kind="bundled"),
        models_folder=Settings.from_environment().models,
        corpus=(),
    )
    found: dict[str, list[list[float]]] = {trust: [] for trust in DEFAULTS}
    print(
        f"  {'AUC':12} {'':8}"
        + "".join(f"{name:>10}" for name in ("one draw", "averaged", "lr", "gb"))
    )
    for name in EIGHT:
        contract, split = real_table(name)
        for trust, method in DEFAULTS.items():
            runs = [_aucs(contract, split, method, seed, scorer) for seed in SEEDS]
            found[trust] += runs
            print(
                f"  {name:12} {trust:8}"
                + "".join(f"{mean:10.3f}" for mean in np.nanmean(np.array(runs, float), axis=0)),
                flush=True,
            )
    for trust, runs in found.items():
        means = np.nanmean(np.array(runs, float), axis=0)
        print(f"  {'mean':12} {trust:8}" + "".join(f"{mean:10.3f}" for mean in means), flush=True)
        figures.at_least(
            f"{trust}-averaged-draws-auc-above-one-draw", float(means[1] - means[0]), GOAL
        )
