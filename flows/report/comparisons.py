"""Does it beat the majority label? The headline, and paired t-tests."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd
from scipy.stats import ttest_rel

from flows.report import words
from flows.report.tables import has_several_rates, parts, row_label, spread


@dataclass(frozen=True)
class Headline:
    """The best private in-context cell and what stands beside it; all private cells on average.

    What was not measured is a dash.
    """

    where: str
    best: str
    majority: str
    non_private: str
    cell_count: int
    mean_private: str
    mean_majority: str


@dataclass(frozen=True)
class Test:
    """A paired two-sided t-test: mean difference, p value and number of pairs."""

    difference: float
    p: float
    pair_count: int


@dataclass(frozen=True)
class Comparison:
    """In-context answers with one number of shots against majority and logistic regression."""

    method: str
    dataset: str
    label: str
    majority: Test
    lr: Test


def headline(results: pd.DataFrame) -> Headline | None:
    """None where no model answered with private demonstrations."""
    private = _private(results)
    cell = ["method", "dataset", "epsilon", "shots", "sampling_rate"]
    means = private.groupby(cell, dropna=False)["accuracy"].mean().reset_index()
    if means["accuracy"].isna().all():
        return None
    best = means.loc[means["accuracy"].idxmax()]
    here = results[(results["method"] == best["method"]) & (results["dataset"] == best["dataset"])]
    icl = here[(here["system"] == "icl") & _same(here["shots"], best["shots"]) & _same(here["sampling_rate"], best["sampling_rate"])]
    majority = results[results["system"] == "majority"].groupby(["method", "dataset"])["accuracy"].mean()
    return Headline(
        _where(best, has_several_rates(here)),
        spread(icl.loc[icl["epsilon"] == best["epsilon"], "accuracy"]),
        spread(here.loc[here["system"] == "majority", "accuracy"]),
        spread(icl.loc[icl["epsilon"] == math.inf, "accuracy"]),
        len(means),
        words.number(means["accuracy"].mean()),
        words.number(means.join(majority.rename("majority"), on=["method", "dataset"])["majority"].mean()),
    )


def _where(cell: pd.Series, show_rate: bool) -> str:
    rate = f", rate {cell['sampling_rate']:g}" if show_rate else ""
    return f"{words.method_name(cell['method'])} on {cell['dataset']}, ε = {words.epsilon(cell['epsilon'])}, k = {words.epsilon(cell['shots'])}{rate}"


def comparisons(results: pd.DataFrame) -> list[Comparison]:
    """One row per method, data set and number of shots, over the private (epsilon, seed) pairs."""
    return [row for part in parts(results) for row in _of_part(part)]


def _of_part(part: pd.DataFrame) -> list[Comparison]:
    several = has_several_rates(part)
    found = []
    for (shots, rate), icl in _private(part).groupby(["shots", "sampling_rate"], dropna=False):
        majority = _paired(icl, part[part["system"] == "majority"], ["seed"])
        lr = _paired(icl, part[part["system"] == "lr"], ["epsilon", "seed"])
        first = icl.iloc[0]
        found.append(Comparison(first["method"], first["dataset"], row_label("icl", shots, rate, several), majority, lr))
    return found


def _private(results: pd.DataFrame) -> pd.DataFrame:
    finite = results["epsilon"].notna() & (results["epsilon"] != math.inf) & (results["epsilon"] > 0)
    return results[(results["system"] == "icl") & finite]


def _same(column: pd.Series, value: float) -> pd.Series:
    return column.isna() if math.isnan(value) else column == value


def _paired(icl: pd.DataFrame, other: pd.DataFrame, on: list[str]) -> Test:
    """Pair every in-context accuracy with the other system's of the same seed (and epsilon)."""
    beside = other.groupby(on)["accuracy"].mean().rename("other")
    pairs = icl.join(beside, on=on).dropna(subset=["accuracy", "other"])
    difference = pairs["accuracy"] - pairs["other"]
    constant = difference.round(12).nunique() < 2  # no spread, no test
    p = math.nan if constant else float(ttest_rel(pairs["accuracy"], pairs["other"]).pvalue)
    return Test(float(difference.mean()) if len(pairs) else math.nan, p, len(pairs))
