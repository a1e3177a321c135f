"""Eight demonstrations of a release at epsilon 1, as `protect` picks them, beside eight drawn at
random: what the bundled model makes of them.
"""

from __future__ import annotations

import numpy as np

from dpicl.contract import Contract
from dpicl.ground.types import QueryTable, SplitTable
from dpicl.home.settings import Settings
from dpicl.methods import DEFAULTS, Options, tabular, unit_of
from dpicl.methods.base import ZERO_SHOT, draws_for
from dpicl.models.opening import open_scorer
from dpicl.models.requests import Scorer, prompt
from dpicl.models.spec import ModelSpec
from lab import in_memory
from lab.benchmarks.figures import Figures, sized
from lab.benchmarks.real_tables import EIGHT, at_hand, real_table

EPSILON, SHOTS, QUERIES, SEEDS = 1.0, 8, sized(40, 16), range(sized(2, 1))
GOAL = 0.0
"""Of AUC, above a draw at random, which differs by as much as .2 between two of them on one set."""


def _aucs(
    contract: Contract, split: SplitTable, name: str, seed: int, scorer: Scorer
) -> tuple[float, float]:
    """As picked, and at random: the same for all queries."""
    method, draws = tabular(name), draws_for(contract, seed)
    options = Options.model_validate({name: method.default_options(contract, {}, EPSILON)})
    unit = unit_of(name, contract.name, seed, (EPSILON,), (SHOTS,), (), False, options)
    released = in_memory.of_table(method, split.train, contract, unit, draws)
    # some files are sorted by label
    places = np.linspace(0, split.queries.row_count - 1, QUERIES).astype(int)
    queries = QueryTable(split.queries.data.take(places))
    asked = method.prompts(released, queries, contract, unit, draws)[ZERO_SHOT]
    scores = {
        cell: method.answers.ask_cell(
            scorer, [prompt(shown, query) for query in asked], contract, cell
        )
        for cell, shown in method.examples(released, contract, unit, draws).items()
    }
    aucs = {
        cell.system: one.auc
        for cell, one in method.answers.metrics_of(scores, queries, contract).items()
    }
    return aucs[method.handed_out(unit)], aucs["icl"]


def measure(figures: Figures) -> None:
    """Means over eight real sets, of each trust's usual method."""
    if not at_hand():
        return
    scorer = open_scorer(
        ModelSpec(name="bundled", kind="bundled"),
        models_folder=Settings.from_environment().models,
        corpus=(),
    )
    found: dict[str, list[tuple[float, float]]] = {trust: [] for trust in DEFAULTS}
    for name in EIGHT:
        contract, split = real_table(name)
        for trust, method in DEFAULTS.items():
            pairs = [_aucs(contract, split, method, seed, scorer) for seed in SEEDS]
            found[trust] += pairs
            picked, drawn = np.nanmean(pairs, axis=0)
            print(
                f"  {name:12} {trust:8} as picked {picked:.3f}, at random {drawn:.3f}", flush=True
            )
    for trust, pairs in found.items():
        picked, drawn = np.nanmean(pairs, axis=0)
        print(f"  {'mean':12} {trust:8} as picked {picked:.3f}, at random {drawn:.3f}", flush=True)
        figures.at_least(f"{trust}-demonstrations-auc-above-random", float(picked - drawn), GOAL)
