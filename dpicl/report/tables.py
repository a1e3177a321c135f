"""Tables: accuracy over seeds beside the majority label and the paper; seconds by stage; guarantees
beside the paper's Table V, and errata.

The numbers that the papers print for the cells of a report.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
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
from dpicl.report.blocks import TableBlock, TableCell
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
    return tuple(None if isinstance(one, float) and math.isnan(one) else one for one in parts)


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


def of_texts(results: pd.DataFrame) -> pd.Series:
    """Which rows belong to a method and data set whose answers are whole texts, measured by ROUGE-1
    and not by accuracy alone.
    """
    return results.groupby(["method", "dataset"])["rouge1"].transform("count") > 0


def of_numbers(results: pd.DataFrame) -> pd.Series:
    """Which rows belong to a method and data set whose answers are numbers, measured by their
    error.
    """
    return results.groupby(["method", "dataset"])["absolute_error"].transform("count") > 0


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
    mean, deviation = values.mean(), values.std(ddof=1)
    return (
        words.number(mean)
        if math.isnan(mean) or math.isnan(deviation)
        else f"{mean:.3f} ± {deviation:.3f}"
    )


def epsilon_heads(epsilons: Iterable[float]) -> tuple[TableCell, ...]:
    """Heads of columns by nominal epsilon."""
    return tuple(TableCell(f"ε = {words.epsilon(epsilon)}") for epsilon in epsilons)


def _table(
    part: pd.DataFrame,
    metric: str,
    paper: Paper,
    epsilons: tuple[float, ...],
    better: Container[Any],
    anchors: Container[str],
) -> TableBlock:
    several, is_main = has_several_rates(part), main_metrics(part).iloc[0] == metric
    rows = []
    for system in sorted(
        part.loc[~_needs_no_shots(part), "system"].unique(),
        key=lambda system: _ORDER.get(asked_by(system)[0], len(_ORDER)),
    ):
        queried = is_queried(system)
        quoted = None if queried and several else paper  # the papers' tables have one rate
        for (shots, rate), group in part[part["system"] == system].groupby(
            ["shots", "sampling_rate"], dropna=False
        ):
            name = cell_name(*part[["method", "dataset"]].iloc[0], system, shots, rate)
            cells = (
                _cell(group, metric, one, quoted, is_main and (*name, one) in better, several)
                for one in epsilons
            )
            without = ("majority", bare(asked_by(system)[1]))
            beside = (
                TableCell(
                    spread(part.loc[part["system"] == one, metric]) if queried else words.DASH
                )
                for one in without
            )
            names = (
                anchor(
                    part["method"].iloc[0], part["dataset"].iloc[0], system, epsilon, shots, rate
                )
                for epsilon in epsilons
            )
            linked = (
                replace(cell, link=name if name in anchors else "")
                for cell, name in zip(cells, names, strict=True)
            )
            rows.append((TableCell(row_label(system, shots, rate, several)), *linked, *beside))
    by_epsilon = part[(part["system"] == "icl") & part["amplified_epsilon"].notna()].groupby(
        "epsilon"
    )["amplified_epsilon"]
    amplified = {} if several else {epsilon: _common(values) for epsilon, values in by_epsilon}
    notes = (
        f"ε′ {words.number(amplified.get(epsilon))}" if amplified else "" for epsilon in epsilons
    )
    heads = (
        replace(head, note=note) for head, note in zip(epsilon_heads(epsilons), notes, strict=True)
    )
    head = (
        *TableCell.of_text(""),
        *heads,
        *(TableCell(name, mark="aside") for name in _OWN_COLUMNS),
    )
    title = f"{words.method_name(part['method'].iloc[0])}, {part['dataset'].iloc[0]}"
    counts = part.loc[
        part["system"].map(is_queried) & ~_needs_no_shots(part), "query_count"
    ].dropna()
    if len(counts):
        low, high, seeds = int(counts.min()), int(counts.max()), part["seed"].nunique()
        count = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        title += (
            f" ({count} {'query' if high == 1 else 'queries'}, {seeds} "
            f"{'seed' if seeds == 1 else 'seeds'})"
        )
    return TableBlock(title, head, tuple(rows))


def _needs_no_shots(part: pd.DataFrame) -> pd.Series:
    return part["system"].map(lambda system: asked_by(system)[0]).isin(_OWN_COLUMNS)


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
    rows = []
    for method, system in series:
        cells = (
            TableCell(words.number(means.get((method, system, epsilon)))) for epsilon in epsilons
        )
        rows.append(
            (
                TableCell(words.SYSTEMS[system.partition("-")[0]]),
                TableCell(words.fitted_name(method, system)),
                *cells,
            )
        )
    head = (
        *TableCell.of_text(f"mean of {fitted['dataset'].nunique()} data sets", "fitted on"),
        *epsilon_heads(epsilons),
    )
    return TableBlock("Mean accuracy of the baselines", head, tuple(rows))


def is_queried(system: str) -> bool:
    """Baselines are measured on the whole test part, all others on the queries."""
    return system.partition("-")[0] not in FITTED


def _cell(
    group: pd.DataFrame,
    metric: str,
    epsilon: float,
    paper: Paper | None,
    stands_out: bool,
    show_amplified: bool,
) -> TableCell:
    """One row's cell."""
    here = group[group["epsilon"] == epsilon]
    values = here[metric].dropna()
    row, printed = group.iloc[0], ""
    if paper:
        shots = None if math.isnan(row["shots"]) else int(row["shots"])
        number = paper.number(row["method"], row["dataset"], metric, row["system"], shots, epsilon)
        # two decimals without the leading zero, as most papers print: `.78 ± .01`; three without a
        # deviation: `.783`
        if number:
            decimals = 3 if number[1] is None else 2
            short = (
                f"{value:.{decimals}f}".removeprefix("0" if value < 1 else "")
                for value in number
                if value is not None
            )
            printed = f"paper {' ± '.join(short)}"
    if values.empty:
        return TableCell(words.DASH, quoted=printed)
    seed_count = group["seed"].nunique()
    notes = [f"{len(values)} of {seed_count} seeds"] if len(values) < seed_count else []
    if show_amplified and here["amplified_epsilon"].notna().any():
        notes.append(f"ε′ {words.number(_common(here['amplified_epsilon']))}")
    return TableCell(spread(values), ", ".join(notes), printed, "above" if stands_out else "")


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
    by_row: dict[
        tuple[str, str, str, float | None, str, str, float], dict[float, StatedGuarantee]
    ] = {}
    for stated in private:
        rates.setdefault((stated.method, stated.dataset), set()).add(stated.sampling_rate)
        key = (
            stated.method,
            stated.system,
            stated.dataset,
            stated.sampling_rate,
            stated.unit,
            stated.neighbours,
            stated.delta,
        )
        by_row.setdefault(key, {})[stated.grid_epsilon] = stated
    rows = []
    for (method, system, dataset, rate, unit, neighbours, delta), row in by_row.items():
        several = len(rates[method, dataset]) > 1
        cells = []
        for found in map(row.get, epsilons):
            total = (
                None
                if found is None
                else found.epsilon
                if found.amplified_epsilon is None
                else found.amplified_epsilon
            )
            printed = None if several or found is None else _printed(found)
            if total is None or printed is None:
                cells.append(TableCell(words.number(total)))
                continue
            differs = ", differs" * (abs(total - printed) >= 0.001)
            cells.append(
                TableCell(
                    words.number(total),
                    quoted=f"paper {words.number(printed)}{differs}",
                    mark=differs.removeprefix(", "),
                )
            )
        label = f"{dataset}, rate {rate:g}" if several and rate is not None else dataset
        label += "" if system == "icl" else f", {words.system_name(system)}"
        rows.append(
            (
                TableCell(words.method_name(method)),
                TableCell(label),
                *cells,
                *map(TableCell, (f"{delta:g}", neighbours, unit)),
            )
        )
    head = (
        *TableCell.of_text("method", "data set"),
        *epsilon_heads(epsilons),
        TableCell("δ"),
        *TableCell.of_text("neighbours", "unit"),
    )
    return TableBlock("Guarantees", head, tuple(rows))


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


WRITTEN, ENSEMBLE = FewShotGeneration.name, DpIcl.name
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
        return (
            few_shot_accuracy(dataset, row, shots, epsilon, mechanism)
            if mechanism in ("gaussian", "exponential")
            else None
        )

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
