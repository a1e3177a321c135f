"""Tables: accuracy over seeds beside the majority label and what papers print; seconds by stage;
guarantees beside the paper's Table V, and errata.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

import pandas as pd

from dpicl.contract.pipeline import BY, asked_by
from dpicl.methods.base import ZERO_SHOT
from dpicl.methods.baselines import FITTED
from dpicl.methods.dp_icl import DpIcl
from dpicl.methods.few_shot_generation import FewShotGeneration
from dpicl.methods.gdp_tabicl import GdpTabicl
from dpicl.methods.published import (
    ACCURACY_TABLES,
    Erratum,
    PaperModel,
    ensemble_number,
    errata,
    few_shot_accuracy,
    paper_accuracy,
    table_v,
)
from dpicl.report import words
from dpicl.report.blocks import AnyCell, TableBlock, TableCell
from dpicl.report.cells import anchor
from dpicl.report.load import StatedGuarantee
from dpicl.runs.chain import stages

METRICS = {
    "accuracy": "Accuracy",
    "balanced_accuracy": "Balanced accuracy",
    "auc": "AUC",
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
    "rougeL": "ROUGE-L",
    "bleu": "BLEU",
    "levenshtein": "Levenshtein similarity",
    "absolute_error": "Mean absolute error, in the label's unit",
}
_OWN_COLUMNS = ("majority", "zero-shot")
WITHOUT_PRIVATE = {
    "majority": "always answering the majority label",
    "zero-shot": "answers without demonstrations",
}
"""Systems that need no private row, and in words; the first is it where both do as well."""
_ORDER = {system: place for place, system in enumerate(words.SYSTEMS)}


def metric_tables(
    results: pd.DataFrame,
    metric: str,
    paper: Paper,
    better: Container[Any],
    anchors: Container[str] = (),
) -> list[TableBlock]:
    """One table per method and data set, in order of appearance; `better` names the cells that
    stand out, by `cell_name`, and a number whose answers the page shows links to them.
    """
    epsilons = tuple(sorted(results["epsilon"].dropna().unique()))
    return [
        _table(part, metric, paper, epsilons, better, anchors)
        for part in parts(results)
        if part[metric].notna().any()
    ]


def cell_name(*parts: object) -> tuple[object, ...]:
    """What names a cell, without NaN, which is not equal to itself."""
    return tuple(None if isinstance(part, float) and math.isnan(part) else part for part in parts)


def parts(results: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The rows of each method and data set, in order of appearance."""
    for _, part in results.groupby(["method", "dataset"], sort=False):
        yield part


def of_part(rows: pd.DataFrame, part: pd.DataFrame) -> pd.DataFrame:
    """The rows on the method and data set of a part."""
    first = part.iloc[0]
    return rows[(rows["method"] == first["method"]) & (rows["dataset"] == first["dataset"])]


def has_several_rates(results: pd.DataFrame) -> bool:
    """Whether the sampling rate was varied on some data set, as in the paper's figure 2."""
    icl = results[results["system"] == "icl"]
    return bool((icl.groupby(["method", "dataset"])["sampling_rate"].nunique() > 1).any())


def of_texts(results: pd.DataFrame, metric: str = "rouge1") -> pd.Series:
    """Which rows belong to a method and data set whose answers are whole texts, measured by ROUGE-1
    and not by accuracy alone; or that has another such metric.
    """
    return results.groupby(["method", "dataset"])[metric].transform("count") > 0


def of_numbers(results: pd.DataFrame) -> pd.Series:
    """The same of answers that are numbers, measured by their error."""
    return of_texts(results, "absolute_error")


def main_metrics(results: pd.DataFrame) -> pd.Series:
    """By row, what its method and data set are judged by first: accuracy, ROUGE-1 of whole texts,
    the error of numbers.
    """
    return (
        pd.Series("accuracy", results.index)
        .mask(of_texts(results), "rouge1")
        .mask(of_numbers(results), "absolute_error")
    )


def bare(model: str) -> str:
    """The system in which a model answers without demonstrations; of the run's own, which has no
    name here, it has none either.
    """
    return f"{ZERO_SHOT.system}{BY}{model}" if model else ZERO_SHOT.system


def bar_of(part: pd.DataFrame, metric: str, model: str = "") -> tuple[str, float]:
    """What a method and data set are measured against, as a system and its mean: what does best on
    the same queries without a private row, of the majority label and the model itself, the run's or
    one that is asked beside it.
    """
    means = {
        system: float(part.loc[part["system"] == system, metric].mean())
        for system in ("majority", bare(model))
    }
    known = {system: mean for system, mean in means.items() if not math.isnan(mean)} or {
        "majority": math.nan
    }
    best = (min if metric == "absolute_error" else max)(known, key=lambda system: known[system])
    return best, known[best]


def row_label(system: str, shots: float, rate: float, show_rate: bool) -> str:
    """`in-context, k = 2, rate 0.1`."""
    label = words.system_name(system)
    if not math.isnan(shots):
        label += f", k = {shots:g}"
    return label + (f", rate {rate:g}" if show_rate and not math.isnan(rate) else "")


def spread(values: pd.Series) -> str:
    """Mean ± sample standard deviation over seeds, `0.783 ± 0.012`; without the deviation where one
    run cannot have one.
    """
    mean = values.mean()
    deviation = values.std(ddof=1)
    if math.isnan(mean) or math.isnan(deviation):
        return words.number(mean)
    return f"{mean:.3f} ± {deviation:.3f}"


def epsilon_heads(epsilons: Iterable[float]) -> tuple[str, ...]:
    """Heads of columns by nominal epsilon."""
    return tuple(f"ε = {words.epsilon(epsilon)}" for epsilon in epsilons)


def _table(
    part: pd.DataFrame,
    metric: str,
    paper: Paper,
    epsilons: tuple[float, ...],
    better: Container[Any],
    anchors: Container[str],
) -> TableBlock:
    several = has_several_rates(part)
    is_main = main_metrics(part).iloc[0] == metric
    method, dataset = part[["method", "dataset"]].iloc[0]
    needs_no_shots = part["system"].map(lambda system: asked_by(system)[0]).isin(_OWN_COLUMNS)
    asked = part[~needs_no_shots]
    rows: list[list[AnyCell]] = []
    for system in sorted(
        asked["system"].unique(), key=lambda system: _ORDER.get(asked_by(system)[0], len(_ORDER))
    ):
        queried = is_queried(system)
        quoted = None if queried and several else paper  # the papers' tables have one rate
        beside = [
            spread(part.loc[part["system"] == other, metric]) if queried else words.DASH
            for other in ("majority", bare(asked_by(system)[1]))
        ]
        for (shots, rate), group in asked[asked["system"] == system].groupby(
            ["shots", "sampling_rate"], dropna=False
        ):
            cells: list[AnyCell] = []
            for epsilon in epsilons:
                name = anchor(method, dataset, system, epsilon, shots, rate)
                cell = replace(
                    _cell(group, metric, epsilon, several),
                    quoted=quoted.quote(group.iloc[0], metric, epsilon) if quoted else "",
                    link=name if name in anchors else "",
                )
                stands_out = cell_name(method, dataset, system, shots, rate, epsilon) in better
                is_known = cell.text != words.DASH
                cells.append(replace(cell, mark="above" * (is_main and stands_out and is_known)))
            rows.append([row_label(system, shots, rate, several), *cells, *beside])
    by_epsilon = part[(part["system"] == "icl") & part["amplified_epsilon"].notna()].groupby(
        "epsilon"
    )["amplified_epsilon"]
    amplified = {} if several else {epsilon: _common(values) for epsilon, values in by_epsilon}
    head: list[AnyCell] = [
        "",
        *(
            TableCell(name, f"ε′ {words.number(amplified.get(epsilon))}" if amplified else "")
            for name, epsilon in zip(epsilon_heads(epsilons), epsilons, strict=True)
        ),
        *(TableCell(name, mark="aside") for name in _OWN_COLUMNS),
    ]
    title = f"{words.method_name(method)}, {dataset}"
    counts = asked.loc[asked["system"].map(is_queried), "query_count"].dropna()
    if len(counts):
        low = int(counts.min())
        high = int(counts.max())
        seeds = part["seed"].nunique()
        count = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        title += (
            f" ({count} {'query' if high == 1 else 'queries'}, {seeds} "
            f"{'seed' if seeds == 1 else 'seeds'})"
        )
    return TableBlock.of(title, head, rows)


def fitted_means(results: pd.DataFrame) -> TableBlock | None:
    """Mean accuracy of the baselines, every data set counting alike and none missing; None for one
    data set, or one thing to fit on.
    """
    is_fitted = [
        not is_queried(system) and not system.endswith("-naive") for system in results["system"]
    ]
    fitted = results[pd.Series(is_fitted, index=results.index, dtype=bool)]
    names = fitted[["method", "system"]].drop_duplicates().itertuples(index=False, name=None)
    series = sorted(names, key=lambda name: _ORDER.get(name[1].partition("-")[0], len(_ORDER)))
    if fitted["dataset"].nunique() < 2 or fitted["method"].nunique() < 2:
        return None
    per_set = (
        fitted.groupby(["method", "system", "epsilon", "dataset"])["accuracy"]
        .mean()
        .unstack("dataset")
    )
    means = per_set.mean(axis=1, skipna=False)
    epsilons = tuple(sorted(fitted["epsilon"].dropna().unique()))
    return TableBlock.of(
        "Mean accuracy of the baselines",
        (f"mean of {fitted['dataset'].nunique()} data sets", "fitted on", *epsilon_heads(epsilons)),
        (
            (
                words.SYSTEMS[system.partition("-")[0]],
                words.fitted_name(method, system),
                *(words.number(means.get((method, system, epsilon))) for epsilon in epsilons),
            )
            for method, system in series
        ),
        texts=2,
    )


def is_queried(system: str) -> bool:
    """Baselines are measured on the whole test part, all others on the queries."""
    return system.partition("-")[0] not in FITTED


def _cell(group: pd.DataFrame, metric: str, epsilon: float, show_amplified: bool) -> TableCell:
    """One row's cell."""
    here = group[group["epsilon"] == epsilon]
    seeds = group["seed"].nunique()
    values = here[metric].dropna()
    if values.empty:
        return TableCell(words.DASH)
    notes = [f"{len(values)} of {seeds} seeds"] if len(values) < seeds else []
    if show_amplified and here["amplified_epsilon"].notna().any():
        notes.append(f"ε′ {words.number(_common(here['amplified_epsilon']))}")
    return TableCell(spread(values), ", ".join(notes))


def _common(amplified: pd.Series) -> float:
    """The one value of a column; not a number where cells differ by more than rounding."""
    return float(amplified.max()) if amplified.round(6).nunique() == 1 else math.nan


def stage_seconds(timings: pd.DataFrame) -> pd.DataFrame:
    """Seconds by stage (rows, in the order of a run) and method (columns); not a number where a
    method has no such stage.
    """
    seconds = timings.groupby(["stage", "method"], sort=False)["seconds"].sum().unstack("method")
    known = [stage.name for stage in stages() if stage.name in seconds.index]
    return seconds.reindex(
        index=known + sorted(set(seconds.index) - set(known)), columns=timings["method"].unique()
    )


def guarantee_table(guarantees: list[StatedGuarantee]) -> TableBlock:
    """Epsilon of whole releases by method, data set and relation, in order of first appearance;
    without epsilon = inf, which guarantees nothing.
    """
    private = [stated for stated in guarantees if not math.isinf(stated.grid_epsilon)]
    epsilons = tuple(sorted({stated.grid_epsilon for stated in private}))
    rates: dict[tuple[str, str], set[float | None]] = {}
    by_row: dict[tuple[Any, ...], dict[float, StatedGuarantee]] = {}
    named = attrgetter(
        "method", "system", "dataset", "sampling_rate", "delta", "neighbours", "unit"
    )
    for stated in private:
        rates.setdefault((stated.method, stated.dataset), set()).add(stated.sampling_rate)
        by_row.setdefault(named(stated), {})[stated.grid_epsilon] = stated
    rows = []
    for (method, system, dataset, rate, delta, *protected), row in by_row.items():
        several = len(rates[method, dataset]) > 1
        label = f"{dataset}, rate {rate:g}" if several and rate is not None else dataset
        label += "" if system == "icl" else f", {words.system_name(system)}"
        cells = (_loss(row.get(epsilon), several) for epsilon in epsilons)
        rows.append((words.method_name(method), label, *cells, f"{delta:g}", *protected))
    head: list[AnyCell] = ["method", "data set", *epsilon_heads(epsilons), "δ"]
    head += TableCell.of_text("neighbours", "unit")
    return TableBlock.of("Guarantees", head, rows, texts=2)


def _loss(stated: StatedGuarantee | None, several_rates: bool) -> TableCell:
    """What a release costs, beside what the paper prints for one rate."""
    if stated is None:
        return TableCell(words.DASH)
    printed = None if several_rates else _printed(stated)
    if printed is None:
        return TableCell(words.number(stated.total))
    differs = ", differs" * (abs(stated.total - printed) >= 0.001)
    return TableCell(
        words.number(stated.total),
        quoted=f"paper {words.number(printed)}{differs}",
        mark=differs.removeprefix(", "),
    )


def _printed(stated: StatedGuarantee) -> float | None:
    """Table V is of GDP-TabICL, amplified from the grid's epsilon, under add-or-remove-one."""
    spends_more = stated.epsilon > stated.grid_epsilon * (1 + 1e-9)
    if (
        stated.method != GdpTabicl.name
        or stated.amplified_epsilon is None
        or stated.neighbours != "add-or-remove-one"
        or spends_more
    ):
        return None
    cells = {(row.dataset, row.epsilon): row.amplified_epsilon for row in table_v()}
    return cells.get((stated.dataset, stated.grid_epsilon))


def relevant_errata(
    guarantees: list[StatedGuarantee], methods: set[str], datasets: set[str], model: PaperModel
) -> list[Erratum]:
    """Slips in the tables that this report quotes, for its data sets; `methods` are those with
    results.
    """
    quoted = {
        ACCURACY_TABLES[model, method] for method in methods if (model, method) in ACCURACY_TABLES
    }
    if any(_printed(stated) is not None for stated in guarantees):
        quoted.add("V")
    in_paper = {row.dataset for row in table_v()} & datasets
    return [
        row
        for row in errata()
        if in_paper and row.table in quoted and (row.dataset in in_paper or not row.dataset)
    ]


WRITTEN = FewShotGeneration.name
ENSEMBLE = DpIcl.name
ENSEMBLE_SHOTS = 4
"""Rows in every prompt of DP-ICL's tables."""


@dataclass(frozen=True)
class Paper:
    """Whose numbers stand beside ours: a Llama-2 for tables; GPT-3 Babbage for texts, under this
    mechanism; GPT-3 for ensembles.
    """

    model: PaperModel = "13b"
    mechanism: str = "gaussian"
    aggregations: Mapping[str, str | None] = field(default_factory=dict)
    """Systems of DP-ICL that answer as the paper's, with how their answers become one; None is the
    data set's usual way.
    """

    @staticmethod
    def beside(model_name: str, options: Mapping[str, Mapping[str, Any]]) -> Paper:
        """13B, unless a 7B model answered; the mechanism and the aggregations that the run's
        options name.
        """
        name = model_name.lower()
        mechanism = str(options.get(WRITTEN, {}).get("mechanism", "gaussian"))
        ensemble = options.get(ENSEMBLE, {})
        variants = ensemble.get("variants", ensemble.get("also"))  # earlier runs
        variants = variants if isinstance(variants, Mapping) else {}
        by_system = {
            "icl": ensemble,
            **{f"icl-{variant}": chosen for variant, chosen in variants.items()},
        }
        aggregations = {"few-shot": "few-shot"} | {
            system: chosen.get("aggregation")  # of those that have the paper's noise and sizes
            for system, chosen in by_system.items()
            if isinstance(chosen, Mapping)
            and chosen.get("noise") in (None, "gaussian")
            and not {"subsets", "similarity"}
            & {name for name, value in chosen.items() if value is not None}
        }
        return Paper("7b" if "7b" in name and "llama" in name else "13b", mechanism, aggregations)

    def quote(self, row: pd.Series, metric: str, epsilon: float) -> str:
        """What is printed for a result, as most papers print it: two decimals without the leading
        zero, `.78 ± .01`; three without a deviation, `.783`. Empty where nothing is.
        """
        shots = None if math.isnan(row["shots"]) else int(row["shots"])
        cell = row["method"], row["dataset"], metric, row["system"], shots, epsilon
        if (number := self.number(*cell)) is None:
            return ""
        decimals = 3 if number[1] is None else 2
        short = (
            f"{value:.{decimals}f}".removeprefix("0" if value < 1 else "")
            for value in number
            if value is not None
        )
        return f"paper {' ± '.join(short)}"

    def number(
        self, method: str, dataset: str, metric: str, system: str, shots: int | None, epsilon: float
    ) -> tuple[float, float | None] | None:
        """Mean of one cell and its deviation, if printed; None where nothing is printed."""
        if method == ENSEMBLE:
            if shots != ENSEMBLE_SHOTS or system not in self.aggregations:
                return None
            usual = "votes" if metric == "accuracy" else "embedding"
            printed = ensemble_number(dataset, metric, self.aggregations[system] or usual, epsilon)
            return None if printed is None else (printed, None)
        if metric != "accuracy":
            return None
        if method != WRITTEN:
            return paper_accuracy(self.model, method, dataset, system, shots, epsilon)
        mechanism = {
            "icl": self.mechanism,
            "icl-exponential": "exponential",
            "random-rows": "gaussian",
        }.get(system, "")
        row = "icl" if system.startswith("icl") else system
        if mechanism in ("gaussian", "exponential"):
            return few_shot_accuracy(dataset, row, shots, epsilon, mechanism)
        return None

    def models(self, methods: set[str]) -> str:
        """The models of the papers, for these methods."""
        llama = [f"Llama-2 {self.model.upper()}"] if methods - {WRITTEN, ENSEMBLE} else []
        babbage = ["GPT-3 Babbage"] if WRITTEN in methods else []
        return words.listing(
            [
                *llama,
                *babbage,
                *(["GPT-3 (Babbage where answers are labels)"] if ENSEMBLE in methods else []),
            ]
        )
