"""The answer to what a run was made for: who does better or worse with its releases than without
private data, beyond noise and with numbers, and who is not told apart. And everybody who answers
from the releases of one data set, side by side: a picture for runs of few epsilons, and the same in
signs for a terminal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill

import pandas as pd

from dpicl.contract.pipeline import asked_by
from dpicl.ground.nouns import many
from dpicl.report import words
from dpicl.report.blocks import GRID, INK, PHONE, SERIES, drawing, legend, to_svg
from dpicl.report.decision import BESIDE, IN_CONTEXT, LEVEL, Gain, auc_gain, better_from, leading
from dpicl.report.load import Run
from dpicl.report.tables import is_queried, main_metrics, of_part, parts

UNKNOWN = Gain(math.nan, math.nan)


@dataclass(frozen=True)
class Answerer:
    """Who answers from one method's release of a data set at one epsilon: a model or a classifier,
    how good it is with the release and without any private data, and the difference.
    """

    method: str
    dataset: str
    epsilon: float
    name: str
    accuracy: float
    without: float
    gain: Gain
    auc: Gain = UNKNOWN
    """The area under the curve beyond that of chance, of a classifier."""
    count: float = math.nan
    """Of the rows that were asked: a classifier is asked all that are held out, a model some."""

    @property
    def line(self) -> tuple[str, str, str]:
        """Whose release, of what, and who answers: all epsilons together are a line."""
        return self.method, self.dataset, self.name

    @property
    def measured(self) -> str:
        """`accuracy 0.701 against 0.662, on 154 rows`."""
        return (
            f"accuracy {words.number(self.accuracy)} against {words.number(self.without)}"
            f"{self._on_rows}"
        )

    @property
    def difference(self) -> str:
        """`+0.039 (95 % interval -0.041 to +0.119)`; of one query there is no interval."""
        mean, half = self.gain.mean, self.gain.half
        ends = f"{words.signed(mean - half)} to {words.signed(mean + half)}"
        interval = "" if math.isnan(half) else f" ({100 * LEVEL:.0f} % interval {ends})"
        return f"{words.signed(mean)}{interval}"

    @property
    def order(self) -> str:
        """The area under the curve, and that accuracy says no more than noise."""
        return (
            f"AUC {words.number(0.5 + self.auc.mean, 2)} against 0.5{self._on_rows}; accuracy "
            f"{words.number(self.accuracy)} against {words.number(self.without)} is within noise"
        )

    @property
    def _on_rows(self) -> str:
        """Where it is known."""
        return "" if math.isnan(self.count) else f", on {many(round(self.count), 'row')}"


def answerers(run: Run, gains: pd.DataFrame) -> tuple[Answerer, ...]:
    """Of every method, data set and finite epsilon: the models first, with all draws averaged where
    there are several, then logistic regression where it is fitted on what is released. None where
    accuracy is not what a run is judged by.
    """
    shown = leading(gains)
    metrics = main_metrics(run.results)
    return tuple(
        answerer
        for part in parts(run.results)
        if metrics[part.index[0]] == "accuracy"
        for answerer in _of(run, part, of_part(shown, part))
    )


def _of(run: Run, part: pd.DataFrame, gains: pd.DataFrame) -> Iterator[Answerer]:
    """Of one method on one data set, whose gains these are."""
    method, dataset = part[["method", "dataset"]].iloc[0]
    systems = [*filter(is_queried, gains["system"].unique())]
    several = {asked_by(system)[1] for system in systems if asked_by(system)[0] == "averaged"}
    main = run.manifest.model_name
    averaged = words.averaged(run.manifest.grid.draws)
    named = {
        system: (model or main) + ("" if asked == IN_CONTEXT[0] else f" {averaged}")
        for system in systems
        for asked, model in [asked_by(system)]
        if asked != IN_CONTEXT[0] or model not in several
    }
    if not words.reads_rows(method):
        named[BESIDE[0]] = words.SYSTEMS[BESIDE[0]]
    for epsilon in sorted(gains["epsilon"].unique()):
        for system, name in named.items() if 0 < epsilon < math.inf else ():
            rows = gains[(gains["system"] == system) & (gains["epsilon"] == epsilon)]
            auc = UNKNOWN if is_queried(system) else auc_gain(run, part, system, epsilon)
            for gain, (_, bar, _) in zip(rows["gain"][:1], rows["over"][:1], strict=True):
                asked_rows = part[(part["system"] == system) & (part["epsilon"] == epsilon)]
                count = float(asked_rows["query_count"].mean())
                place = method, dataset, float(epsilon), name
                yield Answerer(*place, bar + gain.mean, bar, gain, auc, count)


def answer(run: Run, gains: pd.DataFrame) -> str:
    """Who does better with which release than without private data, who worse, then who is not
    told apart; empty where nothing was measured by accuracy. Without private data is the better one
    of the majority label and the model without demonstrations. Where a release stands beside the
    true rows, what a classifier learns from it is said there.
    """
    has_truth = any(released.truth for unit in run.worth for released in unit.cells.values())
    known = {words.SYSTEMS[BESIDE[0]]} if has_truth else set()
    lines: dict[tuple[str, str, str], list[Answerer]] = {}
    for answerer in answerers(run, gains):
        if answerer.name not in known:
            lines.setdefault(answerer.line, []).append(answerer)
    said: dict[str, dict[tuple[str, str], dict[str, str]]] = {"better": {}, "worse": {}}
    same: dict[str, Answerer] = {}
    moved = set()
    for (method, dataset, name), line in lines.items():
        for verdict, clause in zip(said, (_helped(line), _harmed(line)), strict=True):
            if clause:
                said[verdict].setdefault((method, dataset), {})[name] = clause
                moved.add(name)
        same.setdefault(name, line[-1])
    releases = list(dict.fromkeys(line[:2] for line in lines))
    untouched = [answerer for name, answerer in same.items() if name not in moved]
    sentences = [
        f"{_with(method, dataset)}, {_do([*clauses])} {verdict} than without private data: "
        f"{_each(clauses)}."
        for verdict, by_release in said.items()
        for (method, dataset), clauses in by_release.items()
    ]
    more = [f"{len(sentences) - MOST_SENTENCES} more such findings are below."]
    return " ".join(
        [
            *sentences[:MOST_SENTENCES],
            *more[: len(sentences) > MOST_SENTENCES],
            *_unchanged(releases, untouched),
        ]
    )


def _with(method: str, dataset: str) -> str:
    return f"With what {words.method_name(method)} released of {dataset}"


def _do(names: list[str]) -> str:
    return f"{words.listing(names)} {'does' if len(names) == 1 else 'do'}"


def _each(clauses: Mapping[str, str]) -> str:
    """Who where; of a single one where alone."""
    if len(clauses) == 1:
        return next(iter(clauses.values()))
    return "; ".join(f"{name} {clause}" for name, clause in clauses.items())


def _helped(line: Sequence[Answerer]) -> str:
    """From which epsilon on, by accuracy or else in order; empty where by no more than noise."""
    for by in ("gain", "auc"):
        known = [(answerer.epsilon, getattr(answerer, by)) for answerer in line]
        least = better_from(pd.DataFrame(known, columns=["epsilon", "gain"]))
        for first in (answerer for answerer in line if answerer.epsilon == least):
            where = f"at ε = {words.epsilon(least)}"
            if first is not line[-1]:
                where = f"from ε = {words.epsilon(least)} on"
            there = "there " * (first is not line[-1])
            return f"{where} ({there}{first.measured if by == 'gain' else first.order})"
    return ""


def _harmed(line: Sequence[Answerer]) -> str:
    """At which epsilons, and how good at the least of them."""
    worse = [answerer for answerer in line if answerer.gain.sign < 0]
    if not worse:
        return ""
    epsilons = words.listing([words.epsilon(answerer.epsilon) for answerer in worse])
    first = "" if len(worse) == 1 else f"at ε = {words.epsilon(worse[0].epsilon)} "
    return f"at ε = {epsilons} ({first}{worse[0].measured})"


def _unchanged(releases: Sequence[tuple[str, str]], untouched: Sequence[Answerer]) -> Iterator[str]:
    """That noise may be all there is, which is not that they are equal. With the numbers of the
    largest epsilon where there is one release only.
    """
    if not untouched:
        return
    verb = "is" if len(untouched) == 1 else "are"
    told = (
        f"{words.listing([answerer.name for answerer in untouched])} {verb} not told apart from "
        "using no private data"
    )
    if len(releases) == 1:
        clauses = {
            answerer.name: f"{answerer.measured}, at ε = {words.epsilon(answerer.epsilon)}, a "
            f"difference of {answerer.difference}"
            for answerer in untouched
        }
        yield f"{_with(*releases[0])}, {told}: {_each(clauses)}."
    else:
        yield f"With every release, {told}."


MOST_SENTENCES = 3
MOST_EPSILONS = 3
_COLUMNS, _LONGEST = 24, 20
"""Signs of a bar, and letters of a name on a line of the picture."""


def suits(answerers: Sequence[Answerer], epsilons: Sequence[float]) -> bool:
    """Whether all of them fit into one picture: of one data set, and few epsilons, none of them
    without privacy.
    """
    return (
        0 < len({*epsilons}) <= MOST_EPSILONS
        and math.inf not in epsilons
        and len({answerer.dataset for answerer in answerers}) == 1
    )


def picture(answerers: Sequence[Answerer], width: float = PHONE) -> str:
    """A panel by method, a line by model or classifier: dots by epsilon, at each the interval of
    its difference to the stroke, which is where nothing private was used.
    """
    panels: dict[str, list[Answerer]] = {}
    for answerer in answerers:
        panels.setdefault(answerer.method, []).append(answerer)
    epsilons = [*dict.fromkeys(answerer.epsilon for answerer in answerers)]
    names = {
        method: [*dict.fromkeys(answerer.name for answerer in own)]
        for method, own in panels.items()
    }
    rows = [*map(len, names.values())]
    with drawing(width, 0.9 + 0.34 * len(rows) + 0.31 * sum(rows)) as figure:
        drawn = figure.subplots(
            len(rows), 1, sharex=True, squeeze=False, height_ratios=rows
        ).flatten()
        for axes, (method, own) in zip(drawn, panels.items(), strict=True):
            for answerer in own:
                number = epsilons.index(answerer.epsilon)
                line = names[method].index(answerer.name)
                axes.errorbar(
                    answerer.accuracy,
                    line + 0.24 * (number - (len(epsilons) - 1) / 2),
                    xerr=0.0 if math.isnan(answerer.gain.half) else answerer.gain.half,
                    fmt="os^"[number],
                    color=SERIES[number],
                    elinewidth=0.9,
                    label=_legend(answerer),
                )
                axes.plot(
                    answerer.without,
                    line,
                    "|",
                    color=INK,
                    markersize=13,
                    markeredgewidth=1.6,
                    label="without private data",
                )
            axes.set_yticks(
                range(len(names[method])), [fill(name, _LONGEST) for name in names[method]]
            )
            axes.set_ylim(len(names[method]) - 0.5, -0.5)
            axes.set_xlim(*ends(answerers))
            axes.grid(axis="y", visible=False)
            axes.tick_params(color=GRID)
            axes.set_title(
                words.method_name(method), loc="left", fontweight="bold", parse_math=False
            )
        drawn[-1].set_xlabel("accuracy")
        legend(figure, drawn, 4, 9, handle=1.0)
        told = "; ".join(
            f"{words.method_name(answerer.method)}, {answerer.name}, {_legend(answerer)}: "
            f"{words.number(answerer.accuracy)} against {words.number(answerer.without)}, a "
            f"difference of {answerer.difference}"
            for answerer in answerers
        )
        return to_svg(
            figure,
            "Accuracy of everybody who answers, with private data against without; a bar is the "
            f"interval of the difference, drawn at the point: {told}",
        )


def ends(answerers: Iterable[Answerer]) -> tuple[float, float]:
    """Of the axis of accuracies: every interval is whole on it."""
    ends = [
        end
        for answerer in answerers
        for half in [0.0 if math.isnan(answerer.gain.half) else answerer.gain.half]
        for end in (answerer.accuracy - half, answerer.accuracy + half, answerer.without)
    ]
    return min(ends) - 0.03, max(ends) + 0.03


def _legend(answerer: Answerer) -> str:
    return f"ε = {words.epsilon(answerer.epsilon)}"


def signs(answerers: Sequence[Answerer]) -> Iterator[str]:
    """The same as lines of a terminal: a bar from 0 to 1, in it a stroke where nothing private was
    used.
    """
    width = max((len(answerer.name) for answerer in answerers), default=0)
    heads: dict[tuple[str, float], list[Answerer]] = {}
    for answerer in answerers:
        heads.setdefault((answerer.method, answerer.epsilon), []).append(answerer)
    for (method, epsilon), own in heads.items():
        yield f"{words.method_name(method)}, ε = {words.epsilon(epsilon)} (│ without private data)"
        for answerer in own:
            filled = round(answerer.accuracy * _COLUMNS)
            bar = ["█"] * filled + ["·"] * (_COLUMNS - filled)
            bar[min(_COLUMNS - 1, round(answerer.without * _COLUMNS))] = "│"
            accuracy = words.number(answerer.accuracy, 2)
            yield f"  {answerer.name:<{width}}  {''.join(bar)}  {accuracy}"
