"""A run in a few lines for a terminal, and on one page: what was protected, what that promises, what came of it, and what it cost."""

from __future__ import annotations

import math

import pandas as pd

from dpicl.report import words
from dpicl.report.blocks import Bullets, Report
from dpicl.report.decision import MOST, better_from, decision, leading, promised
from dpicl.report.gains import gains_of
from dpicl.report.load import Manifest, Run
from dpicl.report.tables import bar_of, main_metrics, of_part, parts


def story(run: Run) -> list[str]:
    """Sentences, in the order in which somebody asks; of released and public facts only."""
    metrics, gains = main_metrics(run.results), leading(gains_of(run))
    came = [_came(part, metrics[part.index[0]], of_part(gains, part)) for part in parts(run.results)]
    more = [f"and {len(came) - MOST} more in the report"] if len(came) > MOST else []
    return [*promised(run.manifest), *came[:MOST], *more, *_meaning(run), *paid(run.manifest)]


def overview(run: Run, about: str) -> Report:
    """The same on one page, with what private data add in a table; `about` says which run it is."""
    facts = Bullets((*promised(run.manifest), *paid(run.manifest), *_meaning(run)))
    return Report(run.manifest.title, about, (facts, *decision(run, gains_of(run))), ())


def _meaning(run: Run) -> list[str]:
    random = run.manifest.model is not None and not run.manifest.model.trained and len(run.results)
    return ["the model has random weights: what it answers means nothing"] if random else []


def paid(manifest: Manifest) -> list[str]:
    """What a run was charged, and what is spent in all."""
    return ["charged: nothing; the data are public, and the noise is seeded"] if manifest.simulated else manifest.budget


def _came(part: pd.DataFrame, metric: str, gains: pd.DataFrame) -> str:
    """One method on one data set: means over seeds by epsilon at the most shots, beside what needs no private data."""
    icl = part[part["system"] == "icl"]
    most = icl[icl["shots"] == icl["shots"].max()] if icl["shots"].notna().any() else icl
    means = most[most["epsilon"].notna()].groupby("epsilon")[metric].mean()
    private = [f"{words.number(means[one])} at ε = {words.epsilon(one)}" for one in map(float, means.index) if one < math.inf]
    bar, without = bar_of(metric)
    beside = {"without privacy": means.get(math.inf, math.nan), f"by {without}": part.loc[part["system"] == bar, metric].mean()}
    shown = [f"{words.number(mean)} {name}" for name, mean in beside.items() if not math.isnan(mean)]
    if shown:
        least = better_from(gains[gains["system"] == "icl"])
        shown.append(f"better by more than noise from {'no ε' if math.isnan(least) else f'ε = {words.epsilon(least)}'} on")
    about = f"{words.method_name(part['method'].iloc[0])} on {part['dataset'].iloc[0]}"
    return f"{about}: {words.MEASURES[metric]} {'; '.join([', '.join(private) or 'not measured', *shown])}"
