"""A run in a few lines for a terminal: what was protected, what that promises, what came of it, and what it cost."""

from __future__ import annotations

import math

import pandas as pd

from dpicl.report import words
from dpicl.report.decision import MOST, better_from, leading, promised
from dpicl.report.gains import gains_of
from dpicl.report.load import Run
from dpicl.report.tables import main_metrics, of_part, parts


def story(run: Run) -> list[str]:
    """Sentences, in the order in which somebody asks; of released and public facts only."""
    results, manifest = run.results, run.manifest
    metrics, gains = main_metrics(results), leading(gains_of(run))
    came = [_came(part, metrics[part.index[0]], of_part(gains, part)) for part in parts(results)]
    more = [f"and {len(came) - MOST} more in the report"] if len(came) > MOST else []
    random = manifest.model is not None and not manifest.model.trained
    more += ["the model has random weights: what it answers means nothing"] if random and came else []
    paid = ["charged: nothing; the data are public, and the noise is seeded"] if manifest.simulated else manifest.budget
    return [*promised(manifest), *came[:MOST], *more, *paid]


def _came(part: pd.DataFrame, metric: str, gains: pd.DataFrame) -> str:
    """One method on one data set: means over seeds by epsilon at the most shots, beside what needs no private data."""
    icl = part[part["system"] == "icl"]
    most = icl[icl["shots"] == icl["shots"].max()] if icl["shots"].notna().any() else icl
    means = most[most["epsilon"].notna()].groupby("epsilon")[metric].mean()
    private = [f"{words.number(means[one])} at ε = {words.epsilon(one)}" for one in map(float, means.index) if one < math.inf]
    beside = {"without privacy": means.get(math.inf, math.nan)}
    bar = "zero-shot" if metric == "rouge1" else "majority"
    beside["without demonstrations" if metric == "rouge1" else "for the majority label"] = part.loc[part["system"] == bar, metric].mean()
    shown = [f"{words.number(mean)} {name}" for name, mean in beside.items() if not math.isnan(mean)]
    if shown:
        least = better_from(gains[gains["system"] == "icl"])
        shown += [
            "better at no ε by more than noise" if math.isnan(least) else f"better by more than noise from ε = {words.epsilon(least)} on"
        ]
    about = f"{words.method_name(part['method'].iloc[0])} on {part['dataset'].iloc[0]}"
    return f"{about}: {words.MEASURES[metric]} {'; '.join([', '.join(private) or 'not measured', *shown])}"
