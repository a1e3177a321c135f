"""What a reader decides by: what was promised, what it is worth against no private data and against
baselines, and from which epsilon on.

Without private data there are the majority label and the model as it is, without demonstrations: a
gain is over whichever of them does better.

Paper       Cameron, Gelbach, Miller 2011, two-way clustered variances: (1), (2). Satterthwaite
            1946: (3).

    (1)  V_q = (sum_i (m_i - m)^2 + s^2) / (n (n - 1)),   V_s = sum_j (m_j - m)^2 / (S (S - 1)),
         V_qs = sum_ij (d_ij - m)^2 / (nS (nS - 1))
    (2)  V = V_q + max(0, V_s - V_qs)
    (3)  degrees of freedom = V^2 / (V_q^2 / (n - 1) + V_s^2 / (S - 1)), at least 1
    (4)  V_q of an area under the curve: `auc_variance`, plus 1 / n^2

Symbols     d_ij    of query i and seed j, what an answer is better by than one without private
            data; m, m_i, m_j its means.
            n, S    numbers of queries, and of seeds, each a release of its own; all seeds have the
                    same queries.
            s       the largest |d|, or 1 of what lies in [0, 1]: without it, few queries that all
                    agree would leave no doubt.

Where single answers are not known, as of baselines, V_q is that of two independent proportions:
more than it is, as both are right on much the same rows. Of one seed alone the interval is over
queries only; of two that differ much it covers nine of ten.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import stdtrit  # scipy.stats takes a second more to import

from dpicl.contract.pipeline import asked_by
from dpicl.ground.nouns import many
from dpicl.quality.measures import auc_variance
from dpicl.report import words
from dpicl.report.blocks import Block, Bullets, FoldedBlock, Paragraph, TableBlock, TableCell
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

IN_CONTEXT = ("icl", "averaged")
BESIDE = ("lr", "gb")
"""Systems of the first screen: answers of the model, and classifiers beside them."""
MOST = 6
"""Sentences on methods and data sets, and rows of the table that stands open, times two."""


def promised(manifest: Manifest) -> Iterator[str]:
    """Whom the run protects, and how far its least and its greatest epsilon let a suspicion
    grow.
    """
    sets: dict[str, list[str]] = {}
    for stated in manifest.guarantees:
        named = sets.setdefault(f"one {stated.unit} ({stated.neighbours})", [])
        named += [stated.dataset] if stated.dataset not in named else []
    if sets:
        shown = {
            unit: words.listing(names) if len(names) <= 3 else f"{len(names)} data sets"
            for unit, names in sets.items()
        }
        yield "protected: " + "; ".join(f"{unit} of {names}" for unit, names in shown.items())
    worst = _worst(manifest)
    if worst:
        grown = [
            f"at most {100 / (1 + 99 * math.exp(-worst[end])):.3g} % at ε = {words.epsilon(end)}"
            for end in dict.fromkeys((min(worst), max(worst)))
        ]
        yield (
            f"promised: by one release, a suspicion of 1 % about any of them becomes "
            f"{', '.join(grown)}{_but(manifest)}"
        )


def in_odds(manifest: Manifest) -> str:
    """What epsilon bounds, in one sentence; empty where nothing is promised."""
    worst = _worst(manifest)
    factors = [
        f"{math.exp(total):,.{2 if total < 3 else 0}f} at ε = {words.epsilon(epsilon)}"
        for epsilon, total in sorted(worst.items())[:3]
    ]
    if not factors:
        return ""
    return (
        "In odds: one release multiplies the odds of any suspicion about one of them by at most "
        f"{', '.join(factors)} (e^ε, with the ε that is charged){_but(manifest)}."
    )


def _but(manifest: Manifest) -> str:
    delta = max(stated.delta for stated in manifest.guarantees)
    return f", except with probability δ = {delta:g}" if delta else ""


def _worst(manifest: Manifest) -> dict[float, float]:
    """By epsilon of the grid the most that one release costs."""
    worst: dict[float, float] = {}
    for stated in manifest.guarantees:
        if 0 < stated.grid_epsilon < math.inf:
            worst[stated.grid_epsilon] = max(stated.total, worst.get(stated.grid_epsilon, 0.0))
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
    for epsilon, gain in gains.sort_values("epsilon", ascending=False)[
        ["epsilon", "gain"]
    ].itertuples(index=False):
        if not 0 < epsilon < math.inf:
            continue
        if gain.sign < 1:
            break
        least = epsilon
    return least


def found(run: Run, gains: pd.DataFrame) -> list[str]:
    """A sentence on every method and data set."""
    shown = leading(gains)
    return [
        _sentence(run, part, shown)
        for part in parts(run.results)
        if (of_part(shown, part)["epsilon"] < math.inf).any()
    ]


def decision(run: Run, gains: pd.DataFrame) -> Iterator[Block]:
    """These sentences, and the table that they are read from."""
    sentences = found(run, gains)
    if not sentences:
        return
    yield Bullets(tuple(sentences[:MOST]))
    if len(sentences) > MOST:
        yield Paragraph(f"And {len(sentences) - MOST} more in the table.", "small")
    table = gain_table(run.results, leading(gains))
    yield (
        table
        if len(table.rows) <= 2 * MOST
        else FoldedBlock(f"{table.label} ({len(table.rows)} rows)", (table,))
    )
    yield Paragraph(_how(run), "small")


def gain_table(results: pd.DataFrame, gains: pd.DataFrame) -> TableBlock:
    """Gains by epsilon; what is no more than noise is not marked."""
    epsilons = tuple(sorted(gains["epsilon"].dropna().unique()))
    means = results.groupby(["method", "dataset", *CELL], dropna=False)["auc"].mean().reset_index()
    auc = {cell_name(*name): mean for *name, mean in means.itertuples(index=False, name=None)}
    rows = []
    named = ["method", "dataset", *CELL[:3]]
    for _, row in gains.groupby(named, dropna=False, sort=False):
        method, dataset, system, shots, rate = name = row.iloc[0][named]
        by_epsilon = dict(zip(row["epsilon"], row["gain"], strict=True))
        bar, mean, count = row["over"].iloc[0]
        rows.append(
            (
                words.method_name(method),
                dataset,
                f"{words.system_name(bar)} {words.number(mean)}{on_rows(count)}",
                row_label(system, shots, rate, True)
                if is_queried(system)
                else fitted(method, system),
                *(
                    _cell(by_epsilon.get(epsilon), auc.get(cell_name(*name, epsilon), math.nan))
                    for epsilon in epsilons
                ),
                words.epsilon(better_from(row)),
            )
        )
    head = ("method", "data set", "over", "answers", *epsilon_heads(epsilons), "from ε =")
    return TableBlock.of("Gain over using no private data", head, rows, texts=4)


def _cell(gain: Gain | None, auc: float) -> TableCell:
    if gain is None:
        return TableCell(words.DASH)
    text = words.signed(gain.mean) + ("" if math.isnan(gain.half) else f" ± {gain.half:.3f}")
    return TableCell(
        text,
        "" if math.isnan(auc) else f"AUC {auc:.2f}",
        mark={1: "above", 0: "", -1: "differs"}[gain.sign],
    )


def on_rows(count: float) -> str:
    """` on 154 rows`, where that is known: a model is asked fewer rows than a classifier."""
    return "" if math.isnan(count) else f" on {many(round(count), 'row')}"


def fitted(method: str, system: str) -> str:
    """A baseline, and what it was fitted on."""
    return f"{words.SYSTEMS[system.partition('-')[0]]} on {words.fitted_name(method, system)}"


def answers_named(system: str, draws: int) -> str:
    """Answers of a model, in a sentence."""
    asked, model = asked_by(system)
    averaged = f" {words.averaged(draws)}" if asked == "averaged" else ""
    return f"in-context answers{f' of {model}' if model else ''}{averaged}"


def _sentence(run: Run, part: pd.DataFrame, gains: pd.DataFrame) -> str:
    own = of_part(gains, part)
    metric = main_metrics(run.results)[part.index[0]]
    method = part["method"].iloc[0]
    dataset = part["dataset"].iloc[0]
    bar, mean = bar_of(part, metric)
    better, worse = [], []
    for _, row in own.groupby(CELL[:3], dropna=False, sort=False):
        system = row["system"].iloc[0]
        least = better_from(row)
        name = (
            answers_named(system, run.manifest.grid.draws)
            if is_queried(system)
            else fitted(method, system)
        )
        gains_at = dict(zip(row["epsilon"], row["gain"], strict=True))
        if not math.isnan(least):
            gain = gains_at[least]
            better.append(
                f"{name} from ε = {words.epsilon(least)} on ({words.signed(gain.mean)} ± "
                f"{gain.half:.3f} there)"
            )
        elif at := [
            words.epsilon(epsilon)
            for epsilon, gain in gains_at.items()
            if 0 < epsilon < math.inf and gain.sign < 0
        ]:
            worse.append(f"{name} at ε = {words.listing(at)}")
    than = _bars([*own["over"]] or [(bar, mean, math.nan)])
    about = f"{words.method_name(method)} on {dataset}"
    said = (
        f"{about}, better than {than} by more than noise: {'; '.join(better)}"
        if better
        else f"{about}: in {words.MEASURES[metric]} nothing was better than {than} by more than "
        f"noise"
    )
    return f"{said}; worse: {'; '.join(worse)}." if worse else f"{said}."


def _bars(over: Sequence[tuple[str, float, float]]) -> str:
    """What needs no private data and does best, and how good it is on the rows of each that is
    compared with it.
    """
    means: dict[str, dict[str, None]] = {}
    for bar, mean, count in over:
        known = {} if math.isnan(mean) else {f"{words.number(mean)}{on_rows(count)}": None}
        means.setdefault(bar, {}).update(known)
    return " or ".join(
        WITHOUT_PRIVATE[bar] + (f" ({', '.join(known)})" if known else "")
        for bar, known in means.items()
    )


def _how(run: Run) -> str:
    metrics = list(dict.fromkeys(main_metrics(run.results)))
    return (
        f"Gains in {words.listing([words.MEASURES[metric] for metric in metrics])} over what does "
        "best without private data, the majority label or the model without demonstrations "
        f"(zero-shot); ± is half of {intervals(run)}. Marked: intervals that exclude 0. Nothing "
        "was picked by its result: shots are the largest number of the run, and “from” holds at "
        "every larger ε of the run."
        f"{' At ε = ∞ nothing is protected.' * run.manifest.is_unprotected}"
    )


def intervals(run: Run, of: str = "") -> str:
    """What the intervals of gains are; `of` says of what, where a picture does not."""
    over = (
        "queries and seeds"
        if run.results["seed"].nunique() > 1
        else "queries alone, as there is one seed"
    )
    return f"a {100 * LEVEL:.0f} % interval{of} over {over}"


LEVEL = 0.95
CELL = ["system", "shots", "sampling_rate", "epsilon"]
"""Columns that name a cell of a method and data set, but for its seed."""


@dataclass(frozen=True)
class Gain:
    """How much better a cell is than without private data, and half the length of its interval,
    which may be unknown.
    """

    mean: float
    half: float

    @property
    def sign(self) -> int:
        """1 where it is better and -1 where it is worse by more than noise, else 0."""
        return int(math.copysign(1, self.mean)) if abs(self.mean) > self.half else 0


def gain_of(differences: np.ndarray, *, scale: float = 1.0) -> Gain:
    """The mean of differences of shape (seeds, queries), with the half of its interval by (1) to
    (3); `scale` is s, which no half exceeds.
    """
    seeds, queries = differences.shape
    mean = float(differences.mean()) if queries else math.nan
    if queries < 2:
        return Gain(mean, math.nan)
    of_queries = (((differences.mean(axis=0) - mean) ** 2).sum() + scale**2) / (
        queries * (queries - 1)
    )
    of_seeds = of_both = 0.0
    if seeds > 1:
        of_seeds = ((differences.mean(axis=1) - mean) ** 2).sum() / (seeds * (seeds - 1))
        of_both = ((differences - mean) ** 2).sum() / (differences.size * (differences.size - 1))
    return Gain(mean, min(scale, _half(of_queries, queries - 1, of_seeds, seeds - 1, of_both)))


def gain_of_means(
    means: np.ndarray, bar: float | np.ndarray, counts: tuple[float, float], *, added: float = 0.0
) -> Gain:
    """The same of the means of every seed, shape (seeds,), where single answers are not known:
    shares of `counts` queries and rows.

    Args:
        bar: what they are compared with, of all seeds or of each, shape (seeds,).
        added: variance of one seed's difference that no query explains: of noisy counts.
    """
    seeds = len(means)
    shares = (float(means.mean()), float(np.mean(bar)))
    if min(counts) < 2:  # a noisy count may be anything
        return Gain(shares[0] - shares[1], math.nan)
    of_queries = sum(
        (share * (1 - share) + 1 / count) / count
        for share, count in zip(shares, counts, strict=True)
    )
    drawn = zip(shares, counts, strict=True) if np.ndim(bar) else [(shares[0], counts[0])]
    of_both = sum(share * (1 - share) / count for share, count in drawn) / seeds
    of_seeds = max(
        float((means - bar).var(ddof=1)) / seeds if seeds > 1 else 0.0,
        added / seeds + of_both if added else 0.0,
    )
    half = _half(of_queries, min(counts) - 1, of_seeds, max(seeds - 1, 1), of_both)
    return Gain(shares[0] - shares[1], min(1.0, half))


def auc_gain(run: Run, part: pd.DataFrame, system: str, epsilon: float) -> Gain:
    """How far the area under a classifier's curve is above that of chance, by (2), (3) and (4);
    unknown where the shares of two labels are.
    """
    dataset = part["dataset"].iloc[0]
    rows = part[(part["system"] == system) & (part["epsilon"] == epsilon)]
    areas = rows["auc"].dropna().to_numpy()
    larger = run.manifest.majority.get(dataset, math.nan)
    count = float(rows["query_count"].mean())
    groups = (larger * count, (1 - larger) * count)
    labels = {cell.label_count for cell in run.labelled if cell.dataset == dataset}
    if not len(areas) or labels != {2} or not min(groups) >= 1:
        return Gain(math.nan, math.nan)
    area = float(areas.mean())
    of_queries = max(auc_variance(area, *groups), auc_variance(area, *groups[::-1])) + count**-2
    of_seeds = float(areas.var(ddof=1)) / len(areas) if len(areas) > 1 else 0.0
    half = _half(of_queries, min(groups), of_seeds, max(len(areas) - 1, 1))
    return Gain(area - 0.5, min(1.0, half))


def gain_over_seeds(means: np.ndarray, bar: float | np.ndarray) -> Gain:
    """The same of means that are no shares, of shape (seeds,), as `bar` may be: seeds alone tell
    how sure they are, if they differ.
    """
    seeds = len(means)
    mean = float(means.mean()) - float(np.mean(bar))
    variance = float((means - bar).var(ddof=1)) / seeds if seeds > 1 else 0.0
    return Gain(mean, _half(0.0, 1, variance, seeds - 1) if variance > 0 else math.nan)


def _half(
    of_queries: float, queries: float, of_seeds: float, seeds: float, of_both: float = 0.0
) -> float:
    """Equations (2) and (3), given degrees of freedom."""
    variance = of_queries + max(0.0, of_seeds - of_both)
    if not variance > 0:
        return 0.0
    freedom = max(
        1.0, variance**2 / (of_queries**2 / queries + (of_seeds**2 / seeds if of_seeds else 0.0))
    )
    return float(stdtrit(freedom, (1 + LEVEL) / 2)) * math.sqrt(variance)


def answers_by_cell(
    values: pd.DataFrame, cell: list[str]
) -> dict[tuple[object, ...], pd.DataFrame]:
    """How good single answers are, shape (seeds, queries), by the columns that name a cell."""
    groups = values.groupby(cell, dropna=False)
    return {
        cell_name(*key): group.pivot_table(index="seed", columns="query", values="value")
        for key, group in groups
    }


def noise_variance(manifest: Manifest, method: str, dataset: str, count: float) -> float:
    """Of an accuracy that is a quotient of noisy counts, or of two that share the number of rows; 0
    where it is exact.
    """
    deviations = [
        noise.deviation
        for noise in manifest.evaluation_noise
        if (noise.method, noise.dataset) == (method, dataset)
    ]
    return 2 * (deviations[0] / max(count, 1)) ** 2 if deviations else 0.0


def gains_of(run: Run) -> pd.DataFrame:
    """A row per method, data set and cell that was asked or fitted: columns `method`, `dataset`,
    those of CELL, `gain`, and `over`: what the gain is over, its mean, and on how many rows.
    """
    metrics = main_metrics(run.results)
    rows = [row for part in parts(run.results) for row in _rows(run, part, metrics[part.index[0]])]
    return pd.DataFrame(rows, columns=["method", "dataset", *CELL, "gain", "over"])


def _rows(run: Run, part: pd.DataFrame, metric: str) -> Iterator[tuple[object, ...]]:
    method, dataset = part[["method", "dataset"]].iloc[0]
    own = of_part(run.values, part)
    sign = -1 if metric == "absolute_error" else 1
    judged = answers_by_cell(own, CELL)
    whole = run.manifest.majority.get(dataset)
    for key, group in part[part["epsilon"].notna()].groupby(CELL, dropna=False):
        system = str(key[0])
        count = float(group["query_count"].mean())
        bar_system, bar = bar_of(part, metric, asked_by(system)[1])
        bar_count = float(part.loc[part["system"] == bar_system, "query_count"].mean())
        bars = own[own["system"] == bar_system].groupby("query")["value"].first()
        over = bar_system, bar, bar_count
        means = group[metric].dropna().to_numpy()
        if not len(means) or system.endswith("-naive") or system == bar_system:
            continue
        if not is_queried(system):
            # of all held-out rows, as the classifier is
            if metric != "accuracy" or whole is None:
                continue
            if bar_system == "majority" or not bar > whole:
                over = ("majority", whole, count)
                bar_count = count
            gain = gain_of_means(means, over[1], (count, bar_count))
        elif cell_name(*key) in judged and len(bars):
            table = judged[cell_name(*key)].dropna(axis=1)
            differences = (table - bars.reindex(table.columns)).to_numpy() * sign
            scale = float(np.abs(differences).max(initial=0)) if sign < 0 else 1.0
            gain = gain_of(differences, scale=scale)
        elif math.isnan(bar):
            continue
        elif metric == "accuracy":
            added = noise_variance(run.manifest, method, dataset, count)
            gain = gain_of_means(means, bar, (count, bar_count), added=added)
        else:
            gain = gain_over_seeds(sign * means, sign * bar)
        yield method, dataset, *key, gain, over
