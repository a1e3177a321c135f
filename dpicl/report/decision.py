"""What a reader decides by: what was promised, what it is worth against no private data and against
baselines, and from which epsilon on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import pandas as pd

from dpicl.pipeline import asked_by
from dpicl.report import words
from dpicl.report.blocks import Block, Bullets, Cell, Fold, Table, Text
from dpicl.report.gains import CELL, LEVEL, Gain
from dpicl.report.load import Manifest, Run
from dpicl.report.tables import (
    WITHOUT_PRIVATE,
    bar_of,
    cell_name,
    epsilon_heads,
    is_queried,
    main_metrics,
    of_part,
    parts,
    row_label,
)

IN_CONTEXT, BESIDE = ("icl", "averaged"), ("lr", "gb")
"""Systems of the first screen: answers of the model, and classifiers beside them."""
MOST = 6
"""Sentences on methods and data sets, and rows of the table that stands open, times two."""


def promised(manifest: Manifest) -> Iterator[str]:
    """Whom the run protects, and how far its least and its greatest epsilon let a suspicion
    grow.
    """
    sets: dict[str, list[str]] = {}
    for one in manifest.guarantees:
        named = sets.setdefault(f"one {one.unit} ({one.neighbours})", [])
        named += [one.dataset] if one.dataset not in named else []
    if sets:
        shown = {
            unit: words.listing(names) if len(names) <= 3 else f"{len(names)} data sets"
            for unit, names in sets.items()
        }
        yield "protected: " + "; ".join(f"{unit} of {names}" for unit, names in shown.items())
    worst = _worst(manifest)
    if worst:
        ends = dict.fromkeys((min(worst), max(worst)))
        grown = [
            f"at most {100 / (1 + 99 * math.exp(-worst[one])):.3g} % at ε = {words.epsilon(one)}"
            for one in ends
        ]
        yield (
            f"promised: by one release, a suspicion of 1 % about any of them becomes "
            f"{', '.join(grown)}{_but(manifest)}"
        )


def in_odds(manifest: Manifest) -> str:
    """What epsilon bounds, in one sentence; empty where nothing is promised."""
    worst = _worst(manifest)
    factors = [
        f"{math.exp(worst[one]):,.{2 if worst[one] < 3 else 0}f} at ε = {words.epsilon(one)}"
        for one in sorted(worst)[:3]
    ]
    if not factors:
        return ""
    return (
        f"In odds: one release multiplies the odds of any suspicion about one of them by at most "
        f"{', '.join(factors)} (e to the power of what "
        f"it costs){_but(manifest)}."
    )


def _but(manifest: Manifest) -> str:
    delta = max(one.delta for one in manifest.guarantees)
    return f", except with probability δ = {delta:g}" if delta else ""


def _worst(manifest: Manifest) -> dict[float, float]:
    """By epsilon of the grid the most that one release costs: under replace-one more than that,
    amplified less.
    """
    worst: dict[float, float] = {}
    for one in manifest.guarantees:
        total = one.epsilon if one.amplified_epsilon is None else one.amplified_epsilon
        if 0 < one.grid_epsilon < math.inf:
            worst[one.grid_epsilon] = max(total, worst.get(one.grid_epsilon, 0.0))
    return worst


def leading(gains: pd.DataFrame) -> pd.DataFrame:
    """The gains that are shown first: in-context answers with the most shots, of one draw and of
    several, and logistic regression and gradient boosting, on what was released or privately on the
    rows.
    """
    icl = gains[gains["system"].map(lambda system: asked_by(system)[0]).isin(IN_CONTEXT)]
    most = icl.groupby(["method", "dataset"])["shots"].transform("max")
    return gains[
        gains.index.isin(icl[(icl["shots"] == most) | most.isna()].index)
        | gains["system"].isin(BESIDE)
    ]


def better_from(gains: pd.DataFrame) -> float:
    """The least epsilon from which on all finite ones are better than no private data by more than
    noise; NaN where there is none.
    """
    least = math.nan
    for epsilon, gain in sorted(
        zip(gains["epsilon"], gains["gain"], strict=True), reverse=True, key=lambda one: one[0]
    ):
        if not 0 < epsilon < math.inf:
            continue
        if gain.sign < 1:
            break
        least = epsilon
    return least


def decision(run: Run, gains: pd.DataFrame) -> Iterator[Block]:
    """Sentences on every method and data set, and the table that they are read from."""
    shown = leading(gains)
    sentences = [
        _sentence(run, part, shown)
        for part in parts(run.results)
        if (of_part(shown, part)["epsilon"] < math.inf).any()
    ]
    if not sentences:
        return
    yield Bullets(tuple(sentences[:MOST]))
    if len(sentences) > MOST:
        yield Text(f"And {len(sentences) - MOST} more in the table.", "small")
    table = gain_table(run.results, shown)
    yield (
        table
        if len(table.rows) <= 2 * MOST
        else Fold(f"{table.label} ({len(table.rows)} rows)", (table,))
    )
    yield Text(_how(run), "small")


def gain_table(results: pd.DataFrame, gains: pd.DataFrame) -> Table:
    """Gains by epsilon; what is no more than noise is not marked."""
    epsilons = tuple(sorted(gains["epsilon"].dropna().unique()))
    means = results.groupby(["method", "dataset", *CELL], dropna=False)["auc"].mean().reset_index()
    auc = {cell_name(*name): mean for *name, mean in means.itertuples(index=False, name=None)}
    rows = []
    for _, row in gains.groupby(["method", "dataset", *CELL[:3]], dropna=False, sort=False):
        method, dataset, system, shots, rate = row.iloc[0][["method", "dataset", *CELL[:3]]]
        by_epsilon = dict(zip(row["epsilon"], row["gain"], strict=True))
        cells = (
            _cell(
                by_epsilon.get(one),
                auc.get(cell_name(method, dataset, system, shots, rate, one), math.nan),
            )
            for one in epsilons
        )
        name = (
            row_label(system, shots, rate, not math.isnan(rate))
            if is_queried(system)
            else fitted(method, system)
        )
        bar, mean = row["over"].iloc[0]
        first = (
            Cell(words.method_name(method)),
            Cell(dataset),
            Cell(f"{words.system_name(bar)} {words.number(mean)}"),
            Cell(name),
        )
        rows.append((*first, *cells, Cell(words.epsilon(better_from(row)))))
    head = (
        *Cell.of_text("method", "data set", "over", "answers"),
        *epsilon_heads(epsilons),
        Cell("from ε ="),
    )
    return Table("Gain over using no private data", head, tuple(rows))


def _cell(gain: Gain | None, auc: float) -> Cell:
    if gain is None:
        return Cell(words.DASH)
    text = words.signed(gain.mean) + ("" if math.isnan(gain.half) else f" ± {gain.half:.3f}")
    return Cell(
        text,
        "" if math.isnan(auc) else f"AUC {auc:.2f}",
        mark={1: "above", 0: "", -1: "differs"}[gain.sign],
    )


def fitted(method: str, system: str) -> str:
    """A baseline, and what it was fitted on."""
    return f"{words.SYSTEMS[system.partition('-')[0]]} on {words.fitted_name(method, system)}"


def answers_named(system: str, draws: int) -> str:
    """Answers of a model, in a sentence."""
    asked, model = asked_by(system)
    averaged = f" averaged over {draws} draws" if asked == "averaged" else ""
    return f"in-context answers{f' of {model}' if model else ''}{averaged}"


def _sentence(run: Run, part: pd.DataFrame, gains: pd.DataFrame) -> str:
    own, metric = of_part(gains, part), main_metrics(run.results)[part.index[0]]
    method, dataset = part["method"].iloc[0], part["dataset"].iloc[0]
    bar, mean = bar_of(part, metric)
    said = []
    for _, row in own.groupby(CELL[:3], dropna=False, sort=False):
        system = row["system"].iloc[0]
        name, least = (
            answers_named(system, run.manifest.grid.draws)
            if is_queried(system)
            else fitted(method, system),
            better_from(row),
        )
        worse = [
            words.epsilon(one)
            for one, gain in zip(row["epsilon"], row["gain"], strict=True)
            if 0 < one < math.inf and gain.sign < 0
        ]
        if math.isnan(least):
            said.append(
                f"{name} from no ε "
                f"on{f', and worse at ε = {words.listing(worse)}' if worse else ''}"
            )
        else:
            gain = row.loc[row["epsilon"] == least, "gain"].iloc[0]
            said.append(
                f"{name} from ε = {words.epsilon(least)} on ({words.signed(gain.mean)} ± "
                f"{gain.half:.3f} there)"
            )
    than = WITHOUT_PRIVATE[bar] + ("" if math.isnan(mean) else f" ({words.number(mean)})")
    return (
        f"{words.method_name(method)} on {dataset}, better than {than} by more than noise: "
        f"{'; '.join(said)}."
    )


def _how(run: Run) -> str:
    metrics = list(dict.fromkeys(main_metrics(run.results)))
    return (
        f"Gains in {words.listing([words.MEASURES[metric] for metric in metrics])} over what does "
        f"best without private data, the majority label or "
        f"the model without demonstrations (zero-shot); ± is half of {intervals(run)}. "
        "Marked: intervals that exclude 0. Nothing was picked by its result: shots are the "
        "largest number of the run, and “from” holds at "
        "every larger ε of the run. At ε = ∞ nothing is protected."
    )


def intervals(run: Run) -> str:
    """What the intervals of gains are."""
    over = (
        "queries and seeds"
        if run.results["seed"].nunique() > 1
        else "queries alone, as there is one seed"
    )
    return f"a {100 * LEVEL:.0f} % interval over {over}"
