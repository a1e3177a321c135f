"""A run in a few lines for a terminal: what was protected, what that promises, what came of it, and what it cost."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pandas as pd

from dpicl.report import words
from dpicl.report.load import Manifest, Run
from dpicl.report.tables import of_numbers, of_texts, parts

MOST, MOST_NAMES = 6, 3
"""Lines on what came of methods and data sets, and names in one of them; more are in the report."""


def story(run: Run) -> list[str]:
    """Sentences, in the order in which somebody asks; of released and public facts only."""
    results, manifest = run.results, run.manifest
    metrics = pd.Series("accuracy", results.index).mask(of_texts(results), "rouge1").mask(of_numbers(results), "absolute_error")
    came = [_came(part, metrics[part.index[0]]) for part in parts(results)]
    more = [f"and {len(came) - MOST} more in the report"] if len(came) > MOST else []
    random = manifest.model is not None and not manifest.model.trained
    more += ["the model has random weights: what it answers means nothing"] if random and came else []
    paid = ["charged: nothing; the data are public, and the noise is seeded"] if manifest.simulated else manifest.budget
    return [*_promised(manifest), *came[:MOST], *more, *paid]


def _promised(manifest: Manifest) -> Iterator[str]:
    """Whom the run protects, and how far its least and its greatest epsilon let a suspicion grow."""
    sets: dict[str, list[str]] = {}
    for one in manifest.guarantees:
        named = sets.setdefault(f"one {one.unit} ({one.neighbours})", [])
        named += [one.dataset] if one.dataset not in named else []
    if sets:
        shown = {unit: words.listing(names) if len(names) <= MOST_NAMES else f"{len(names)} data sets" for unit, names in sets.items()}
        yield "protected: " + "; ".join(f"{unit} of {names}" for unit, names in shown.items())
    worst: dict[float, float] = {}  # what a release costs, under replace-one more than its epsilon, amplified less
    for one in manifest.guarantees:
        total = one.epsilon if one.amplified_epsilon is None else one.amplified_epsilon
        if 0 < one.grid_epsilon < math.inf:
            worst[one.grid_epsilon] = max(total, worst.get(one.grid_epsilon, 0.0))
    if worst:
        ends = dict.fromkeys((min(worst), max(worst)))
        grown = [f"at most {100 / (1 + 99 * math.exp(-worst[one])):.3g} % at ε = {words.epsilon(one)}" for one in ends]
        delta = max(one.delta for one in manifest.guarantees)
        but = f", but with a probability of δ = {delta:g}" if delta else ""
        yield f"promised: by one release, a suspicion of 1 % about any of them becomes {', '.join(grown)}{but}"


def _came(part: pd.DataFrame, metric: str) -> str:
    """One method on one data set: means over seeds by epsilon at the most shots, beside what needs no private data."""
    icl = part[part["system"] == "icl"]
    most = icl[icl["shots"] == icl["shots"].max()] if icl["shots"].notna().any() else icl
    means = most[most["epsilon"].notna()].groupby("epsilon")[metric].mean()
    private = [f"{words.number(means[one])} at ε = {words.epsilon(one)}" for one in map(float, means.index) if one < math.inf]
    beside = {"without privacy": means.get(math.inf, math.nan)}
    bar = "zero-shot" if metric == "rouge1" else "majority"
    beside["without demonstrations" if metric == "rouge1" else "for the majority label"] = part.loc[part["system"] == bar, metric].mean()
    shown = [f"{words.number(mean)} {name}" for name, mean in beside.items() if not math.isnan(mean)]
    about = f"{words.method_name(part['method'].iloc[0])} on {part['dataset'].iloc[0]}"
    return f"{about}: {words.MEASURES[metric]} {'; '.join([', '.join(private) or 'not measured', *shown])}"
