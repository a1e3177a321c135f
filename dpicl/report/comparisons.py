"""Headlines and paired t-tests: private answers against the majority label, or against zero-shot where answers are whole texts."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pandas as pd
from scipy.stats import ttest_rel

from dpicl.report import words
from dpicl.report.blocks import Block, Cell, Pairs, Table, Text
from dpicl.report.tables import has_several_rates, of_numbers, of_texts, parts, row_label, spread


def headlines(results: pd.DataFrame) -> list[Block]:
    """The best private in-context cell beside its baselines, and the average over all cells; none where no model answered privately.

    Once for labels, once for numbers, once for whole texts. The bar is the majority label's accuracy or error, or the ROUGE-1 of
    zero-shot answers.
    """
    texts, numbers = of_texts(results), of_numbers(results)
    return [
        *_headline(results[~texts & ~numbers], "accuracy", "majority"),
        *_headline(results[numbers], "absolute_error", "majority"),
        *_headline(results[texts], "rouge1", "zero-shot"),
    ]


def _headline(results: pd.DataFrame, metric: str, bar: str) -> Iterator[Block]:
    means = _private(results).groupby(["method", "dataset", "epsilon", "shots", "sampling_rate"], dropna=False)[metric].mean().reset_index()
    if means[metric].isna().all():
        return
    best = means.iloc[means[metric].argmin() if metric == "absolute_error" else means[metric].argmax()]
    here = results[(results["method"] == best["method"]) & (results["dataset"] == best["dataset"])]
    icl = here[(here["system"] == "icl") & _same(here["shots"], best["shots"]) & _same(here["sampling_rate"], best["sampling_rate"])]
    rate = f", rate {best['sampling_rate']:g}" if has_several_rates(here) else ""
    where = f"{words.method_name(best['method'])} on {best['dataset']}, ε = {words.epsilon(best['epsilon'])}"
    best_mean = spread(icl.loc[icl["epsilon"] == best["epsilon"], metric])
    bar_mean = spread(here.loc[here["system"] == bar, metric])
    non_private = spread(icl.loc[icl["epsilon"] == math.inf, metric])

    sentence = f"The best private in-context {words.MEASURES[metric]} is {best_mean} ({where}, k = {words.epsilon(best['shots'])}{rate})."
    if bar_mean != words.DASH:
        without = "always answering the majority label scores" if bar == "majority" else "answers without demonstrations score"
        sentence += f" On the same queries, {without} {bar_mean}"
        sentence += f", and the same shots without privacy {non_private}." if non_private != words.DASH else "."
    if len(means) > 1:
        bars = results[results["system"] == bar].groupby(["method", "dataset"])[metric].mean().rename("bar")
        average = words.number(means.join(bars, on=["method", "dataset"])["bar"].mean())
        sentence += (
            f" Choosing the best of {len(means)} cells is optimistic: averaged over all of them, private in-context answers score "
            f"{words.number(means[metric].mean())} and {'the majority label' if bar == 'majority' else 'those without demonstrations'} {average}."
        )
    yield Text(sentence)
    name = "Majority label" if bar == "majority" else "Zero-shot"
    tiles = {f"{name}, same queries": bar_mean, "Same shots, no privacy": non_private}
    shown = ((name, mean) for name, mean in tiles.items() if mean != words.DASH)
    yield Pairs((("Best private in-context cell", best_mean), *shown), are_tiles=True)


def comparisons(results: pd.DataFrame) -> Iterator[Block]:
    """One row per method, data set and number of shots, over the private (epsilon, seed) pairs; whole texts have no majority label."""
    rows = []
    for part in parts(results[~of_texts(results)]):
        several = has_several_rates(part)
        for _, icl in _private(part).groupby(["shots", "sampling_rate"], dropna=False):
            first = icl.iloc[0]
            label = row_label("icl", first["shots"], first["sampling_rate"], several)
            majority = _paired(icl, part[part["system"] == "majority"], ["seed"])
            lr = _paired(icl, part[part["system"] == "lr"], ["epsilon", "seed"])
            rows.append((*map(Cell, (words.method_name(first["method"]), first["dataset"], label)), *majority, *lr))
    head = (*Cell.of_text("method", "data set", "answers"), *map(Cell, ("− majority", "p", "pairs", "− log. regression", "p", "pairs")))
    if rows:
        tested = " Logistic regression is tested on the whole test split." if "lr" in set(results["system"]) else ""
        yield Text(
            "Two-sided paired t-tests of in-context accuracy over all private (ε, seed) pairs. Pairs of one seed share their queries and the "
            f"p values are not corrected for their number, so they are if anything too small.{tested} Bold: p below 0.05."
        )
        yield Table("Paired t-tests", head, tuple(rows))


def _private(results: pd.DataFrame) -> pd.DataFrame:
    finite = results["epsilon"].notna() & (results["epsilon"] != math.inf) & (results["epsilon"] > 0)
    return results[(results["system"] == "icl") & finite]


def _same(column: pd.Series, value: float) -> pd.Series:
    return column.isna() if math.isnan(value) else column == value


def _paired(icl: pd.DataFrame, other: pd.DataFrame, on: list[str]) -> tuple[Cell, Cell, Cell]:
    """Mean difference, p and number of pairs of in-context accuracies and the other system's of the same seed (and epsilon)."""
    beside = other.groupby(on)["accuracy"].mean().rename("other")
    pairs = icl.join(beside, on=on).dropna(subset=["accuracy", "other"])
    difference = pairs["accuracy"] - pairs["other"]
    constant = difference.round(12).nunique() < 2  # no spread, no test
    p = math.nan if constant else float(ttest_rel(pairs["accuracy"], pairs["other"]).pvalue)
    mean = float(difference.mean()) if len(pairs) else math.nan
    shown = "< 0.001" if p < 0.001 else words.number(p)
    return Cell(words.signed(mean)), Cell(shown, mark="strong" if p < 0.05 else ""), Cell(str(len(pairs)))
