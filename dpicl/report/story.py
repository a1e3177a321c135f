"""A run in a few lines for a terminal, or on one page: what was protected, what that promises, what came of it, and what it cost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from dpicl.report import words
from dpicl.report.blocks import Bullets, Cell, Report, Table
from dpicl.report.load import Manifest, Run
from dpicl.report.tables import epsilon_heads, of_numbers, of_texts, parts

MOST, MOST_NAMES = 6, 3
"""Lines on what came of methods and data sets, and names in one of them; more are in the report."""


@dataclass(frozen=True)
class _Outcome:
    """One method on one data set: means over seeds by epsilon at the most shots, and beside them what needs no private data."""

    method: str
    dataset: str
    measure: str
    private: Mapping[float, float]
    beside: Mapping[str, float]

    def __str__(self) -> str:
        private = [f"{words.number(mean)} at ε = {words.epsilon(one)}" for one, mean in self.private.items()]
        beside = [f"{words.number(mean)} {name}" for name, mean in self.beside.items()]
        return f"{self.method} on {self.dataset}: {self.measure} {'; '.join([', '.join(private) or 'not measured', *beside])}"


def story(run: Run) -> list[str]:
    """Sentences, in the order in which somebody asks; of released and public facts only."""
    came = list(map(str, _outcomes(run.results)))
    more = [f"and {len(came) - MOST} more in the report"] if len(came) > MOST else []
    return [*_promised(run.manifest), *came[:MOST], *more, *_meaning(run), *_paid(run.manifest)]


def overview(run: Run, about: str) -> Report:
    """The same on one page, with all that came of it in a table; `about` says which run it is."""
    outcomes = _outcomes(run.results)
    epsilons = sorted({one for outcome in outcomes for one in outcome.private})
    beside = list(dict.fromkeys(name for outcome in outcomes for name in outcome.beside))
    head = (*Cell.of_text("method", "data set", "mean"), *epsilon_heads(epsilons), *map(Cell, beside))
    rows = []
    for one in outcomes:
        means = [*(one.private.get(epsilon) for epsilon in epsilons), *map(one.beside.get, beside)]
        rows.append(tuple(map(Cell, (one.method, one.dataset, one.measure, *map(words.number, means)))))
    facts = Bullets((*_promised(run.manifest), *_paid(run.manifest), *_meaning(run)))
    return Report(run.manifest.title, about, (facts, *([Table("What came of it", head, tuple(rows))] if rows else [])), ())


def _meaning(run: Run) -> list[str]:
    random = run.manifest.model is not None and not run.manifest.model.trained and len(run.results)
    return ["the model has random weights: what it answers means nothing"] if random else []


def _paid(manifest: Manifest) -> list[str]:
    return ["charged: nothing; the data are public, and the noise is seeded"] if manifest.simulated else manifest.budget


def _promised(manifest: Manifest) -> Iterator[str]:
    """Whom the run protects, and how far its least and its greatest epsilon let a suspicion grow."""
    sets: dict[str, list[str]] = {}
    for one in manifest.guarantees:
        named = sets.setdefault(f"one {one.unit} ({one.neighbours})", [])
        named += [one.dataset] if one.dataset not in named else []
    if sets:
        shown = {unit: words.listing(names) if len(names) <= MOST_NAMES else f"{len(names)} data sets" for unit, names in sets.items()}
        yield "protected: " + "; ".join(f"{unit} of {names}" for unit, names in shown.items())
    worst: dict[float, float] = {}  # what a release costs, under replace-one more than its epsilon, amplified less
    for one in manifest.guarantees:
        total = one.epsilon if one.amplified_epsilon is None else one.amplified_epsilon
        if 0 < one.grid_epsilon < math.inf:
            worst[one.grid_epsilon] = max(total, worst.get(one.grid_epsilon, 0.0))
    if worst:
        ends = dict.fromkeys((min(worst), max(worst)))
        grown = [f"at most {100 / (1 + 99 * math.exp(-worst[one])):.3g} % at ε = {words.epsilon(one)}" for one in ends]
        delta = max(one.delta for one in manifest.guarantees)
        but = f", but with a probability of δ = {delta:g}" if delta else ""
        yield f"promised: by one release, a suspicion of 1 % about any of them becomes {', '.join(grown)}{but}"


def _outcomes(results: pd.DataFrame) -> list[_Outcome]:
    metrics = pd.Series("accuracy", results.index).mask(of_texts(results), "rouge1").mask(of_numbers(results), "absolute_error")
    return [_outcome(part, metrics[part.index[0]]) for part in parts(results)]


def _outcome(part: pd.DataFrame, metric: str) -> _Outcome:
    icl = part[part["system"] == "icl"]
    most = icl[icl["shots"] == icl["shots"].max()] if icl["shots"].notna().any() else icl
    means = most[most["epsilon"].notna()].groupby("epsilon")[metric].mean()
    private = {one: means[one] for one in map(float, means.index) if one < math.inf}
    bar, name = ("zero-shot", "without demonstrations") if metric == "rouge1" else ("majority", "for the majority label")
    beside = {"without privacy": means.get(math.inf, math.nan), name: part.loc[part["system"] == bar, metric].mean()}
    known = {name: mean for name, mean in beside.items() if not math.isnan(mean)}
    return _Outcome(words.method_name(part["method"].iloc[0]), part["dataset"].iloc[0], words.MEASURES[metric], private, known)
