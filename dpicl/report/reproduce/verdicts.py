"""A verdict on every printed number: within noise, too noisy to tell, differs because of what is known to differ, or not run, and why.

    (1)  d = ours - printed,  half = 1.96 sqrt(m (1 - m) / n + v / S + s^2 / 5),  within noise where |d| <= half

Symbols     m, v, S  our mean, variance over seeds and number of seeds; n queries; s the paper's deviation over its five runs.
            Of measures in [0, 1] that are no shares, m (1 - m) is more than the variance of one answer, so that half is rather too wide.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy.special import stdtr

from dpicl.contract.declared import Declared
from dpicl.contract.text import TextContract
from dpicl.methods.few_shot_generation import FewShotGeneration
from dpicl.methods.published.cells import ALL_SETS, PrintedCell, PrintedTable, slips
from dpicl.methods.published.noise_cells import table_nine
from dpicl.report.compare.sides import Side
from dpicl.report.reproduce.computed import COMPUTED

WITHIN, DIFFERS, UNCLEAR, NOT_RUN = "within noise", "differs", "too noisy to tell", "not run"
WIDEST = 0.1
"""Half an interval, beyond which a number that is near tells little."""
PAPER_RUNS, CERTAIN, SIGNIFICANT = 5, 1.96, 0.05


@dataclass(frozen=True)
class Made:
    """What there is to judge a paper by: finished runs by pipeline and model, and why there is none of a data set or pipeline."""

    runs: Mapping[tuple[str, str], Side]
    models: tuple[str, ...]
    missing: Mapping[str, str] = field(default_factory=dict)
    contracts: Mapping[str, Declared] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """One printed number beside ours, of one model; `ours` is not a number where nothing was run."""

    cell: PrintedCell
    model: str
    kind: str
    why: str = ""
    ours: float = math.nan
    half: float = math.nan


def judged(table: PrintedTable, made: Made) -> list[Verdict]:
    """A verdict per cell, and per model that was asked."""
    if table.name in COMPUTED:
        return [_equal(cell, COMPUTED[table.name](cell)) for cell in table.cells]
    if table.pipeline is None:
        return [_tested(cell, made) for cell in table.cells]
    return [_measured(cell, table, model, made) for model in made.models for cell in table.cells]


def _equal(cell: PrintedCell, ours: float) -> Verdict:
    """Of what is arithmetic: within the last digit that is printed, or (of noise that meets a target) a little below it."""
    same = abs(ours - cell.value) <= 0.0006 or (cell.system.startswith("sigma") and 0.85 * cell.value <= ours <= cell.value)
    return Verdict(cell, "", WITHIN if same else DIFFERS, "" if same else "differs because the printed number is another", ours, 0.0)


def _measured(cell: PrintedCell, table: PrintedTable, model: str, made: Made) -> Verdict:
    side = made.runs.get((str(table.pipeline), model))
    why = made.missing.get(cell.dataset) or made.missing.get(str(table.pipeline)) or made.missing.get(f"{table.pipeline} {model}")
    if side is None or why:
        return Verdict(cell, model, NOT_RUN, f"not run because {why or 'this part was not chosen'}")
    if cell.dataset == ALL_SETS:
        return _against(cell, model, side)
    found = _ours(cell, side)
    if found is None:
        return Verdict(cell, model, NOT_RUN, f"not run because {_left_out(cell, side)}")
    ours, half = found
    close = abs(ours - cell.value) <= half
    if close and half > WIDEST:
        return Verdict(cell, model, UNCLEAR, "", ours, half)
    if cell in slips():
        return Verdict(cell, model, DIFFERS, "differs because the paper prints another model's number", ours, half)
    reasons = "" if close else "; ".join(_reasons(cell, table, side, made)) or "of what is not known"
    return Verdict(cell, model, WITHIN if close else DIFFERS, "" if close else f"differs because {reasons}", ours, half)


def _against(cell: PrintedCell, model: str, side: Side) -> Verdict:
    """The probability of so large a lead over a baseline, mean over seeds and paired over data sets, if there were none."""
    results = side.run.results
    at = results[(results["method"] == cell.method) & (results["epsilon"] == cell.epsilon)]
    own = at[(at["system"] == "icl") & (at["shots"] == cell.shots)].groupby("dataset")["accuracy"].mean()
    lead = (own - at[at["system"] == cell.system].groupby("dataset")["accuracy"].mean()).dropna()
    if len(lead) < 2:
        return Verdict(cell, model, NOT_RUN, "not run because two data sets are needed, at this epsilon and number of shots")
    error = float(lead.std(ddof=1)) / math.sqrt(len(lead))
    p = float(stdtr(len(lead) - 1, -float(lead.mean()) / error)) if error else float(lead.mean() <= 0)
    return _concluded(cell, model, p, f"{model} answered in place of {cell.model}, on {len(lead)} data sets")


def _concluded(cell: PrintedCell, model: str, p: float, differing: str) -> Verdict:
    """Of a p-value: whether it lies on the same side of 0.05."""
    same = (p < SIGNIFICANT) == (cell.value < SIGNIFICANT)
    return Verdict(cell, model, WITHIN if same else DIFFERS, "" if same else f"differs because {differing}", p, 0.0)


def _ours(cell: PrintedCell, side: Side) -> tuple[float, float] | None:
    """Mean and half an interval of the same cell in a run."""
    if cell.metric == "seconds":
        return _seconds(cell, side)
    results = side.run.results
    here = results[(results["method"] == cell.method) & (results["dataset"] == cell.dataset) & (results["system"] == cell.system)]
    for name in ("shots", "epsilon"):
        value = getattr(cell, name)
        if value is not None:
            here = here[here[name] == value]
    if cell.metric == "queries":
        return None if here.empty else (float(here["query_count"].iloc[0]), 0.0)
    means, counts = here[cell.metric].dropna(), here["query_count"].dropna()
    return _interval(means, float(counts.mean()) if len(counts) else 1.0, cell.deviation or 0.0) if len(means) else None


def _interval(means: pd.Series, count: float, printed: float) -> tuple[float, float]:
    """Equation (1)."""
    mean, seeds = float(means.mean()), len(means)
    over_seeds = float(means.var(ddof=1)) / seeds if seeds > 1 else printed**2
    of_queries = max(mean * (1 - mean), 0.25 / max(count, 1)) / max(count, 1)
    return mean, CERTAIN * math.sqrt(of_queries + over_seeds + printed**2 / PAPER_RUNS)


def _seconds(cell: PrintedCell, side: Side) -> tuple[float, float] | None:
    """Of one answer on a data set, in the stage that asks the model."""
    timings, results = side.run.timings, side.run.results
    asked = results[(results["dataset"] == cell.dataset) & results["system"].isin(["icl", "zero-shot"])]["query_count"].sum()
    spent = timings[(timings["dataset"] == cell.dataset) & (timings["stage"] == "score")]["seconds"].sum()
    return (float(spent / asked), 0.0) if asked and spent else None


def _left_out(cell: PrintedCell, side: Side) -> str:
    """Why a run has no such cell."""
    grid = side.plan.pipeline
    for name, value, chosen in (
        ("data set", cell.dataset, grid.datasets),
        ("epsilon", cell.epsilon, grid.epsilons),
        ("shots", cell.shots, grid.shots),
    ):
        if value not in (None, 0.0) and value not in chosen:
            return f"{name} {value if isinstance(value, str) else format(value, 'g')} was not chosen"
    return "the run is not finished" if not side.is_done else f"{cell.system} is not among what dpicl measures there"


def _reasons(cell: PrintedCell, table: PrintedTable, side: Side, made: Made) -> list[str]:
    """What is known to differ, the model first."""
    model, reasons = side.run.manifest.model, []
    named = model.name if model is not None else side.plan.model.name
    if cell.model and cell.metric not in ("queries",) and not _is_same(cell.model, named):
        weights = "" if model is None or model.trained else ", whose weights are random,"
        reasons.append(f"{named}{weights} answered in place of {cell.model}")
    if (size := _size(cell, made.contracts.get(cell.dataset))) is not None:
        reasons.append(size)
    if side.plan.pipeline.queries is not None:
        reasons.append(f"at most {side.plan.pipeline.queries} queries were asked")
    if (tokens := getattr(side.plan.pipeline.options, FewShotGeneration.name).max_tokens) is not None:
        reasons.append(f"texts have at most {tokens} tokens")
    return [*reasons, table.changed] if table.changed else reasons


def _is_same(printed: str, ours: str) -> bool:
    """Whether a name says the paper's model: `Llama-2 13B` as `llama-2-13b`."""
    return printed.lower().replace(" ", "-") in ours.lower()


def _size(cell: PrintedCell, contract: Declared | None) -> str | None:
    """Where fewer private texts are at hand than the paper had."""
    if not isinstance(contract, TextContract):
        return None
    printed = {one.dataset: one.class_row_count for one in table_nine()}.get(cell.dataset)
    here = min(contract.row_bounds.values())
    return f"{here:,} texts of a label are at hand and not {printed:,}" if printed and here < 0.9 * printed else None


def _tested(cell: PrintedCell, made: Made) -> Verdict:
    """Table IV: p of a paired t-test over the epsilons of one data set, between the first two models."""
    sides = [made.runs.get((pipeline, model)) for model in made.models[:2] for pipeline in ("table-2-as-printed", "table-3-as-printed")]
    pairs = [pair for pair in zip(sides[:2], sides[2:], strict=False) if None not in pair]
    if len(made.models) < 2:
        return Verdict(cell, "", NOT_RUN, "not run because it compares two models; expected --model A,B")
    means = [both for pair in pairs if (both := _by_epsilon(cell, pair)) is not None]
    if not means:
        return Verdict(
            cell, "", NOT_RUN, f"not run because {made.missing.get(cell.dataset) or 'both runs are needed, at two epsilons or more'}"
        )
    differences = means[0][0] - means[0][1]
    error = float(differences.std(ddof=1)) / math.sqrt(len(differences))
    p = 2 * float(stdtr(len(differences) - 1, -abs(float(differences.mean())) / error)) if error else (0.0 if differences.any() else 1.0)
    others = " and ".join(made.models[:2])
    return _concluded(cell, others, p, f"{others} were compared")


def _by_epsilon(cell: PrintedCell, pair: Sequence[Side | None]) -> np.ndarray | None:
    """Mean accuracies of both models, shape (2, epsilons), at those that both have."""
    tables = []
    for side in pair:
        assert side is not None
        results = side.run.results
        chosen = (
            (results["method"] == cell.method)
            & (results["dataset"] == cell.dataset)
            & (results["system"] == "icl")
            & (results["shots"] == cell.shots)
        )
        tables.append(results[chosen].groupby("epsilon")["accuracy"].mean())
    both = pd.concat(tables, axis=1, join="inner").dropna()
    return both.to_numpy().T if len(both) > 1 else None
