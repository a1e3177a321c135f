"""A run in a few lines for a terminal, and on one page: what was protected, what that promises,
what came of it, and what it cost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import pandas as pd

from dpicl.report import words
from dpicl.report.blocks import Bullets, Report
from dpicl.report.clients import sentences_of
from dpicl.report.decision import BESIDE, MOST, better_from, decision, fitted, leading, promised
from dpicl.report.forms import formed
from dpicl.report.gains import gains_of
from dpicl.report.labels import constant_sentences
from dpicl.report.load import Run
from dpicl.report.opening import cost, first_lines, paid
from dpicl.report.sentences import asked, smaller
from dpicl.report.tables import WITHOUT_PRIVATE, main_metrics, of_part, parts


def story(run: Run) -> list[str]:
    """Sentences, in the order in which somebody asks; of released and public facts only."""
    metrics, every = main_metrics(run.results), gains_of(run)
    gains = leading(every)
    draws = run.manifest.grid.draws
    came = [
        _came(part, metrics[part.index[0]], of_part(gains, part), draws)
        for part in parts(run.results)
    ]
    more = [f"and {len(came) - MOST} more in the report"] if len(came) > MOST else []
    return [
        *first_lines(run, every),
        *smaller(run.manifest),
        *_counted(run),
        *came[:MOST],
        *more,
        *formed(run.forms),
        *_meaning(run),
        *asked(run.manifest),
        *cost(run),
    ]


def overview(run: Run, about: str) -> Report:
    """The same on one page, with what private data add in a table; `about` says which run it is."""
    facts = Bullets(
        (
            *constant_sentences(run.labelled),
            *smaller(run.manifest),
            *_counted(run),
            *promised(run.manifest),
            *paid(run.manifest),
            *_meaning(run),
        )
    )
    return Report(run.manifest.title, about, (facts, *decision(run, gains_of(run))), ())


def _counted(run: Run) -> Iterator[str]:
    return sentences_of(run.manifest.reports, with_answers=len(run.results) > 0)


def _meaning(run: Run) -> list[str]:
    random = run.manifest.model is not None and not run.manifest.model.trained and len(run.results)
    return ["the model has random weights: what it answers means nothing"] if random else []


def _came(part: pd.DataFrame, metric: str, gains: pd.DataFrame, draws: int) -> str:
    """One method on one data set: means over seeds by epsilon at the most shots, beside classifiers
    and what needs no private data.
    """
    most = _with_most_shots(part, "icl")
    means = most[most["epsilon"].notna()].groupby("epsilon")[metric].mean()
    private = _by_epsilon(most, metric)
    beside = {
        "without privacy": means.get(math.inf, math.nan),
        **{
            f"by {without}": part.loc[part["system"] == system, metric].mean()
            for system, without in WITHOUT_PRIVATE.items()
        },
    }
    shown = [
        f"{words.number(mean)} {name}" for name, mean in beside.items() if not math.isnan(mean)
    ]
    if shown:
        least = better_from(gains[gains["system"] == "icl"])
        shown.append(
            f"better by more than noise from "
            f"{'no ε' if math.isnan(least) else f'ε = {words.epsilon(least)}'} on"
        )
    about = f"{words.method_name(part['method'].iloc[0])} on {part['dataset'].iloc[0]}"
    return (
        f"{about}: {words.MEASURES[metric]} "
        f"{'; '.join([', '.join(private) or 'not measured', *shown, *_beside(part, metric, draws)])}"  # noqa: E501
    )


def _beside(part: pd.DataFrame, metric: str, draws: int) -> Iterator[str]:
    """Averaged draws, and classifiers, on all released rows or on what the method's baselines
    read.
    """
    if private := _by_epsilon(_with_most_shots(part, "averaged"), metric):
        yield f"averaged over {draws} draws {', '.join(private)}"
    for system in BESIDE:
        if private := _by_epsilon(part[part["system"] == system], metric):
            yield f"{fitted(part['method'].iloc[0], system)} {', '.join(private)}"


def _with_most_shots(part: pd.DataFrame, system: str) -> pd.DataFrame:
    own = part[part["system"] == system]
    return own[own["shots"] == own["shots"].max()] if own["shots"].notna().any() else own


def _by_epsilon(rows: pd.DataFrame, metric: str) -> list[str]:
    """Means over seeds; nothing without privacy."""
    means = rows[rows["epsilon"] < math.inf].groupby("epsilon")[metric].mean().dropna()
    return [
        f"{words.number(mean)} at ε = {words.epsilon(epsilon)}"
        for epsilon, mean in zip(map(float, means.index), means, strict=True)
    ]
