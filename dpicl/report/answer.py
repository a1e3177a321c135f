"""The one sentence that answers what a run was made for: whom its first release at the least
epsilon helps, with the number of each.

Everybody who answers from the releases of one data set, side by side: a picture for runs of few
epsilons, narrow enough for a phone, and the same in signs for a terminal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from dpicl.contract.pipeline import asked_by
from dpicl.report import words
from dpicl.report.blocks import GRID, INK, SERIES, drawing, to_svg
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


def answerers(run: Run, gains: pd.DataFrame) -> tuple[Answerer, ...]:
    """Of every method, data set and finite epsilon: the models first, with all draws averaged where
    there are several, then logistic regression. None where accuracy is not what a run is judged by.
    """
    shown = leading(gains)
    return tuple(
        one
        for part in parts(run.results)
        if main_metrics(run.results)[part.index[0]] == "accuracy"
        for one in _of(run, part, shown)
    )


def _of(run: Run, part: pd.DataFrame, gains: pd.DataFrame) -> Iterator[Answerer]:
    own = of_part(gains, part)
    systems = [
        system for system in own["system"].unique() if is_queried(system) or system == BESIDE[0]
    ]
    several = {asked_by(system)[1] for system in systems if asked_by(system)[0] == "averaged"}
    main = run.manifest.model.name if run.manifest.model else ""
    order = [
        *(system for system in systems if is_queried(system)),
        *(system for system in systems if not is_queried(system)),
    ]
    for epsilon in sorted(one for one in own["epsilon"].unique() if 0 < one < math.inf):
        for system in order:
            asked, model = asked_by(system)
            if asked == IN_CONTEXT[0] and model in several:
                continue
            rows = own[(own["system"] == system) & (own["epsilon"] == epsilon)]
            for gain, (_, bar) in zip(rows["gain"][:1], rows["over"][:1], strict=True):
                name = (model or main) if is_queried(system) else words.SYSTEMS[system]
                first = part.iloc[0]
                yield Answerer(
                    first["method"],
                    first["dataset"],
                    float(epsilon),
                    name,
                    bar + gain.mean,
                    bar,
                    gain,
                )


def answer(run: Run, gains: pd.DataFrame) -> str:
    """Of the pipeline's first method on its first data set, at the least epsilon; empty where
    nothing was measured by accuracy.
    """
    every = answerers(run, gains)
    first = [
        one
        for one in every
        if (one.method, one.dataset, one.epsilon)
        == (every[0].method, every[0].dataset, every[0].epsilon)
    ]
    said = []
    for sign, verdict in _VERDICTS.items():
        alike = [
            f"{one.name} ({words.number(one.accuracy)} against {words.number(one.without)})"
            for one in first
            if one.gain.sign == sign
        ]
        said += [f"{verdict} {words.listing(alike)}"] if alike else []
    if not said:
        return ""
    where = (
        f"{words.method_name(first[0].method)} releases of {first[0].dataset} at ε = "
        f"{words.epsilon(first[0].epsilon)}"
    )
    return (
        f"What {where} {' and '.join(said)}: accuracy with it against the best without private "
        f"data, by the majority label or by the model "
        "without demonstrations."
    )


MOST_EPSILONS = 3
_INCHES, _COLUMNS = 4.1, 24


def suits(answerers: Sequence[Answerer], epsilons: Sequence[float]) -> bool:
    """Whether all of them fit into one picture: of one data set, and few epsilons, none of them
    without privacy.
    """
    return (
        0 < len({*epsilons}) <= MOST_EPSILONS
        and math.inf not in epsilons
        and len({one.dataset for one in answerers}) == 1
    )


def picture(answerers: Sequence[Answerer]) -> str:
    """A panel by method, a line by model or classifier: dots by epsilon with their intervals, and a
    stroke where nothing private was used.
    """
    methods, epsilons = (
        [*dict.fromkeys(getattr(one, name) for one in answerers)] for name in ("method", "epsilon")
    )
    rows = [len({one.name for one in answerers if one.method == method}) for method in methods]
    with drawing(_INCHES, 0.9 + 0.34 * len(methods) + 0.31 * sum(rows)) as figure:
        panels = figure.subplots(
            len(methods), 1, sharex=True, squeeze=False, height_ratios=rows
        ).flatten()
        for axes, method in zip(panels, methods, strict=True):
            own = [one for one in answerers if one.method == method]
            names = [*dict.fromkeys(one.name for one in own)]
            for one in own:
                number = epsilons.index(one.epsilon)
                place, colour = (
                    names.index(one.name) + 0.24 * (number - (len(epsilons) - 1) / 2),
                    SERIES[number],
                )
                bar = 0.0 if math.isnan(one.gain.half) else one.gain.half
                axes.errorbar(
                    one.accuracy,
                    place,
                    xerr=bar,
                    fmt="os^"[number],
                    color=colour,
                    elinewidth=0.9,
                    label=_legend(one),
                )
                axes.plot(
                    one.without,
                    names.index(one.name),
                    "|",
                    color=INK,
                    markersize=13,
                    markeredgewidth=1.6,
                    label="without private data",
                )
            axes.set_yticks(range(len(names)), names)
            axes.set_ylim(len(names) - 0.5, -0.5)
            axes.set_xlim(
                max(0.0, min(one.accuracy for one in answerers) - 0.15),
                min(1.0, max(one.accuracy for one in answerers) + 0.15),
            )
            axes.grid(axis="y", visible=False)
            axes.tick_params(color=GRID)
            axes.set_title(
                words.method_name(method), loc="left", fontweight="bold", parse_math=False
            )
        panels[-1].set_xlabel("accuracy")
        entries = {
            label: handle
            for axes in panels
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        figure.legend(
            entries.values(),
            entries.keys(),
            loc="outside upper left",
            ncols=4,
            fontsize=9,
            handlelength=1.0,
            columnspacing=1.0,
        )
        told = "; ".join(
            f"{words.method_name(one.method)}, {one.name}, {_legend(one)}: "
            f"{words.number(one.accuracy)}"
            for one in answerers
        )
        return to_svg(
            figure, f"Accuracy of everybody who answers, with and without private data: {told}"
        )


def _legend(one: Answerer) -> str:
    return f"ε = {words.epsilon(one.epsilon)}"


def signs(answerers: Sequence[Answerer]) -> Iterator[str]:
    """The same as lines of a terminal: a bar from 0 to 1, in it a stroke where nothing private was
    used.
    """
    width = max((len(one.name) for one in answerers), default=0)
    heads: dict[tuple[str, float], list[Answerer]] = {}
    for one in answerers:
        heads.setdefault((one.method, one.epsilon), []).append(one)
    for (method, epsilon), own in heads.items():
        yield f"{words.method_name(method)}, ε = {words.epsilon(epsilon)} (│ without private data)"
        for one in own:
            filled = round(one.accuracy * _COLUMNS)
            bar = ["█"] * filled + ["·"] * (_COLUMNS - filled)
            bar[min(_COLUMNS - 1, round(one.without * _COLUMNS))] = "│"
            yield f"  {one.name:<{width}}  {''.join(bar)}  {words.number(one.accuracy, 2)}"
