"""Does it beat the majority label, or where answers are whole texts, no demonstrations at all? Headlines, and paired t-tests."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd
from scipy.stats import ttest_rel

from dpicl.report import words
from dpicl.report.blocks import Cell, Table
from dpicl.report.tables import has_several_rates, of_texts, parts, row_label, spread


@dataclass(frozen=True)
class Headline:
    """The best private in-context cell and what stands beside it; all private cells on average.

    The bar is the majority label's accuracy, or the ROUGE-1 of zero-shot answers. What was not
    measured is a dash.
    """

    metric: str
    where: str
    best: str
    bar: str
    non_private: str
    cell_count: int
    mean_private: str
    mean_bar: str

    @property
    def sentence(self) -> str:
        """What came out, the best cell set right by the average."""
        texts = self.metric != "accuracy"
        told = f"The best private in-context {words.MEASURES[self.metric]} is {self.best} ({self.where})."
        if self.bar != words.DASH:
            without = "answers without demonstrations score" if texts else "always answering the majority label scores"
            told += f" On the same queries, {without} {self.bar}"
            told += f", and the same shots without privacy {self.non_private}." if self.non_private != words.DASH else "."
        if self.cell_count > 1:
            told += (
                f" The best of {self.cell_count} cells flatters: on average over all of them, private in-context answers score "
                f"{self.mean_private} and {'those without demonstrations' if texts else 'the majority label'} {self.mean_bar}."
            )
        return told

    @property
    def tiles(self) -> tuple[tuple[str, str], ...]:
        """The same as names with one number each."""
        bar = "Majority label" if self.metric == "accuracy" else "Zero-shot"
        named = {f"{bar}, same queries": self.bar, "Same shots, no privacy": self.non_private}
        return ("Best private in-context cell", self.best), *((name, text) for name, text in named.items() if text != words.DASH)


def headlines(results: pd.DataFrame) -> list[Headline]:
    """One for accuracies, one for whole texts; none where no model answered with private demonstrations."""
    texts = of_texts(results)
    found = (_headline(results[~texts], "accuracy", "majority"), _headline(results[texts], "rouge1", "zero-shot"))
    return [one for one in found if one is not None]


def _headline(results: pd.DataFrame, metric: str, bar: str) -> Headline | None:
    private = _private(results)
    cell = ["method", "dataset", "epsilon", "shots", "sampling_rate"]
    means = private.groupby(cell, dropna=False)[metric].mean().reset_index()
    if means[metric].isna().all():
        return None
    best = means.iloc[means[metric].argmax()]
    here = results[(results["method"] == best["method"]) & (results["dataset"] == best["dataset"])]
    icl = here[(here["system"] == "icl") & _same(here["shots"], best["shots"]) & _same(here["sampling_rate"], best["sampling_rate"])]
    bars = results[results["system"] == bar].groupby(["method", "dataset"])[metric].mean()
    return Headline(
        metric,
        _where(best, has_several_rates(here)),
        spread(icl.loc[icl["epsilon"] == best["epsilon"], metric]),
        spread(here.loc[here["system"] == bar, metric]),
        spread(icl.loc[icl["epsilon"] == math.inf, metric]),
        len(means),
        words.number(means[metric].mean()),
        words.number(means.join(bars.rename("bar"), on=["method", "dataset"])["bar"].mean()),
    )


def _where(cell: pd.Series, show_rate: bool) -> str:
    rate = f", rate {cell['sampling_rate']:g}" if show_rate else ""
    return f"{words.method_name(cell['method'])} on {cell['dataset']}, ε = {words.epsilon(cell['epsilon'])}, k = {words.epsilon(cell['shots'])}{rate}"


def comparisons(results: pd.DataFrame) -> Table | None:
    """One row per method, data set and number of shots, over the private (epsilon, seed) pairs; whole texts have no majority to beat."""
    rows = tuple(row for part in parts(results[~of_texts(results)]) for row in _of_part(part))
    head = (*Cell.of_text("method", "data set", "answers"), *map(Cell, ("− majority", "p", "pairs", "− log. regression", "p", "pairs")))
    return Table("Paired t-tests", head, rows) if rows else None


def _of_part(part: pd.DataFrame) -> Iterator[tuple[Cell, ...]]:
    several = has_several_rates(part)
    for _, icl in _private(part).groupby(["shots", "sampling_rate"], dropna=False):
        first = icl.iloc[0]
        label = row_label("icl", first["shots"], first["sampling_rate"], several)
        majority = _paired(icl, part[part["system"] == "majority"], ["seed"])
        lr = _paired(icl, part[part["system"] == "lr"], ["epsilon", "seed"])
        yield *map(Cell, (words.method_name(first["method"]), first["dataset"], label)), *majority, *lr


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
    return Cell(words.signed(mean)), Cell(words.p_value(p), mark="strong" if p < 0.05 else ""), Cell(str(len(pairs)))
