"""The one sentence that answers what a run was made for: whom its first release at the least
epsilon helps, with the number of each. And everybody who answers from the releases of one data set,
side by side: a picture for runs of few epsilons, narrow enough for a phone, and the same in signs
for a terminal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from dpicl.contract.pipeline import asked_by
from dpicl.report import words
from dpicl.report.blocks import GRID, INK, PHONE, SERIES, drawing, legend, to_svg
from dpicl.report.decision import BESIDE, IN_CONTEXT, Gain, leading
from dpicl.report.load import Run
from dpicl.report.tables import is_queried, main_metrics, of_part, parts

_VERDICTS = {1: "helps", 0: "makes no difference beyond noise to", -1: "is worse than nothing for"}


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

    @property
    def place(self) -> tuple[str, str, float]:
        """Whose release, of what, and at which epsilon."""
        return self.method, self.dataset, self.epsilon


def answerers(run: Run, gains: pd.DataFrame) -> tuple[Answerer, ...]:
    """Of every method, data set and finite epsilon: the models first, with all draws averaged where
    there are several, then logistic regression. None where accuracy is not what a run is judged by.
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
    systems = [*filter(is_queried, gains["system"].unique())]
    several = {asked_by(system)[1] for system in systems if asked_by(system)[0] == "averaged"}
    main = run.manifest.model_name
    named = {
        system: model or main
        for system in systems
        for asked, model in [asked_by(system)]
        if asked != IN_CONTEXT[0] or model not in several
    }
    named[BESIDE[0]] = words.SYSTEMS[BESIDE[0]]
    method, dataset = part[["method", "dataset"]].iloc[0]
    for epsilon in sorted(gains["epsilon"].unique()):
        for system, name in named.items() if 0 < epsilon < math.inf else ():
            rows = gains[(gains["system"] == system) & (gains["epsilon"] == epsilon)]
            for gain, (_, bar) in zip(rows["gain"][:1], rows["over"][:1], strict=True):
                accuracy = bar + gain.mean
                yield Answerer(method, dataset, float(epsilon), name, accuracy, bar, gain)


def answer(run: Run, gains: pd.DataFrame) -> str:
    """Of the pipeline's first method on its first data set, at the least epsilon; empty where
    nothing was measured by accuracy. Without private data is the better one of the majority label
    and the model without demonstrations.
    """
    everybody = answerers(run, gains)
    if not everybody:
        return ""
    method, dataset, epsilon = everybody[0].place
    said = []
    for sign, verdict in _VERDICTS.items():
        alike = [
            f"{answerer.name} (accuracy {words.number(answerer.accuracy)}, without private data "
            f"{words.number(answerer.without)})"
            for answerer in everybody
            if (answerer.place, answerer.gain.sign) == (everybody[0].place, sign)
        ]
        said += [f"{verdict} {words.listing(alike)}"] if alike else []
    return (
        f"What {words.method_name(method)} releases of {dataset} at ε = {words.epsilon(epsilon)} "
        f"{' and '.join(said)}."
    )


MOST_EPSILONS = 3
_COLUMNS = 24


def suits(answerers: Sequence[Answerer], epsilons: Sequence[float]) -> bool:
    """Whether all of them fit into one picture: of one data set, and few epsilons, none of them
    without privacy.
    """
    return (
        0 < len({*epsilons}) <= MOST_EPSILONS
        and math.inf not in epsilons
        and len({answerer.dataset for answerer in answerers}) == 1
    )


def picture(answerers: Sequence[Answerer]) -> str:
    """A panel by method, a line by model or classifier: dots by epsilon with their intervals, and a
    stroke where nothing private was used.
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
    accuracies = [answerer.accuracy for answerer in answerers]
    with drawing(PHONE, 0.9 + 0.34 * len(rows) + 0.31 * sum(rows)) as figure:
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
            axes.set_yticks(range(len(names[method])), names[method])
            axes.set_ylim(len(names[method]) - 0.5, -0.5)
            axes.set_xlim(max(0.0, min(accuracies) - 0.15), min(1.0, max(accuracies) + 0.15))
            axes.grid(axis="y", visible=False)
            axes.tick_params(color=GRID)
            axes.set_title(
                words.method_name(method), loc="left", fontweight="bold", parse_math=False
            )
        drawn[-1].set_xlabel("accuracy")
        legend(figure, drawn, 4, 9, handle=1.0)
        told = "; ".join(
            f"{words.method_name(answerer.method)}, {answerer.name}, {_legend(answerer)}: "
            f"{words.number(answerer.accuracy)}"
            for answerer in answerers
        )
        return to_svg(
            figure, f"Accuracy of everybody who answers, with and without private data: {told}"
        )


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
