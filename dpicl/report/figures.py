"""The figures of a run: accuracy or ROUGE-1 against epsilon or the sampling rate, what baselines
reach on releases, what private data add, time by stage; and of a series a measure by period, a line
for each window.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from dpicl.contract.pipeline import asked_by
from dpicl.ground.installed import extra_missing
from dpicl.report import words
from dpicl.report.answer import answerers, picture, suits
from dpicl.report.blocks import (
    BASELINES,
    GRID,
    INK,
    MUTED,
    PHONE,
    SERIES,
    WIDE,
    Figure,
    Paragraph,
    drawing,
    legend,
    to_svg,
)
from dpicl.report.decision import fitted, leading
from dpicl.report.load import Run
from dpicl.report.sentences import caption
from dpicl.report.tables import (
    METRICS,
    has_several_rates,
    is_queried,
    main_metrics,
    of_texts,
    stage_seconds,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = "os^DvP"
_INFINITY_GAP = 0.4
_FEWEST = 2
"""Epsilons of a line: of fewer there is none to see."""
_SHORT = 22
"""Letters of a name of which two fit side by side on a phone."""
_BASELINE_LOOKS = {"lr": ("--", "x"), "gnb": ("-.", "+"), "gb": ("--", "2")}
_RULE: dict[str, Any] = {"color": INK, "linewidth": 1.1, "zorder": 1.5}
"""How what needs no private data is drawn: a line across."""
_GAIN_LOOKS = {"icl": ("-", ""), "averaged": ("-.", ""), "lr": ("--", "x"), "gb": (":", "2")}
"""Line and marker, that of the method where there is none."""


class Drawn(NamedTuple):
    """A picture, and the same for a phone's width where it is wider than that."""

    svg: str = ""
    narrow: str = ""


@dataclass(frozen=True)
class Figures:
    """`<svg>` elements in which only our own text and escaped names stand; empty where there is
    nothing to draw.
    """

    by_method: tuple[tuple[str, Figure], ...]
    """Methods with the metric, `GDP-TabICL: accuracy`."""
    fitted: Drawn
    time: Drawn
    gain: Drawn
    """What private data add; one picture of the whole run."""
    missing: str = ""
    """Why there are none."""
    is_side_by_side: bool = False
    """Whether the one of gains is `answer.picture`."""


def figures_of(run: Run, gains: pd.DataFrame) -> Figures:
    """One figure by method, whole texts apart; accuracy of logistic regression on releases; time by
    stage.

    A plain installation has nothing to draw with: its reports have the tables alone.
    """
    if needed := extra_missing("matplotlib"):
        return Figures((), Drawn(), Drawn(), Drawn(), f"Figures are left out: {needed}.")
    drawn: list[tuple[str, str, Drawn, str]] = []
    for (method, texts), part in run.results.groupby(["method", of_texts(run.results)], sort=False):
        by_rate = has_several_rates(part)
        metric = "rouge1" if texts else "accuracy"
        name = words.method_name(str(method))
        measure = words.MEASURES[metric]
        if not by_rate and part["epsilon"].nunique() < _FEWEST:
            continue  # its table says the same
        picture_of = (rate_figure if by_rate else epsilon_figure)(part, metric)
        drawn.append((f"{name}: {measure}", name, picture_of, caption(measure, part, by_rate)))
    following = [text for *_, text in drawn[1:]] + [""]
    by_method = tuple(  # one caption below all figures that it belongs to
        (title, Figure(name, both.svg, "" if text == after else text, both.narrow))
        for (title, name, both, text), after in zip(drawn, following, strict=False)
    )
    bars = Drawn()
    if len(run.timings):
        bars = Drawn(time_figure(run.timings, WIDE), time_figure(run.timings))
    few = answerers(run, gains)
    is_side_by_side = suits(few, run.manifest.grid.epsilons)
    gain = (
        Drawn(picture(few, WIDE), picture(few))
        if is_side_by_side
        else gain_figure(run.results, leading(gains))
    )
    return Figures(
        by_method,
        fitted_figure(run.results, run.manifest.majority),
        bars,
        gain,
        is_side_by_side=is_side_by_side,
    )


def epsilon_figure(part: pd.DataFrame, metric: str) -> Drawn:
    """A metric of one method against epsilon, one panel per data set; the last tick is without
    privacy.
    """
    place = epsilon_places(part["epsilon"].dropna().unique())

    def draw(axes: Axes, of_dataset: pd.DataFrame) -> None:
        by_system = dict(iter(of_dataset.set_index("epsilon").groupby("system")))
        for system, line, also in (("icl", "-", ""), ("averaged", "-.", ", draws averaged")):
            if system in by_system:
                for i, (shots, group) in enumerate(by_system[system].groupby("shots")):
                    label = f"k = {shots:g}{also}"
                    look = _Look(*_look(i), line, i)
                    _epsilon_line(axes, group[metric], place, label, look)
        for colour, (system, (line, marker)) in zip(
            BASELINES, _BASELINE_LOOKS.items(), strict=True
        ):
            if system in by_system:
                look = _Look(colour, marker, line, -1)
                _epsilon_line(axes, by_system[system][metric], place, words.SYSTEMS[system], look)
        _draw_baselines(axes, of_dataset, metric)
        _epsilon_axis(axes, place)
        if math.inf in place and len(place) > 1:
            axes.axvline(
                place[math.inf] - _INFINITY_GAP / 2,
                color=MUTED,
                linewidth=0.8,
                linestyle=(0, (2, 3)),
            )

    return _panels(
        part,
        draw,
        metric,
        f"{METRICS[metric]} against epsilon, {_method(part)}, one panel per data set",
    )


def fitted_figure(results: pd.DataFrame, majority: Mapping[str, float]) -> Drawn:
    """Accuracy of logistic regression on every method's and variant's release, one panel per data
    set; empty where there is one only.

    `majority` is by data set, on the same rows as these: all that were held out.
    """
    fitted = results[results["system"].str.match(r"lr(?!-naive)")]
    series = list(fitted[["method", "system"]].drop_duplicates().itertuples(index=False, name=None))
    if len(series) < 2 or fitted["epsilon"].nunique() < _FEWEST:
        return Drawn()
    place = epsilon_places(fitted["epsilon"].dropna().unique())
    least = fitted.groupby(["dataset", "method", "system", "epsilon"])["accuracy"].mean().min()

    def draw(axes: Axes, of_dataset: pd.DataFrame) -> None:
        axes.set_ylim(max(0.0, least - 0.05), 1.0)  # bars of few seeds may reach far below
        for i, (method, system) in enumerate(series):
            own = of_dataset[
                (of_dataset["method"] == method) & (of_dataset["system"] == system)
            ].set_index("epsilon")
            label = words.fitted_name(method, system)
            _epsilon_line(axes, own["accuracy"], place, label, _Look(*_look(i), shift=i))
        if (name := of_dataset["dataset"].iloc[0]) in majority:
            axes.axhline(majority[name], label=words.SYSTEMS["majority"], **_RULE)
        _epsilon_axis(axes, place)

    return _panels(
        fitted,
        draw,
        "accuracy",
        "Accuracy of logistic regression against epsilon, by what it was fitted on",
    )


def rate_figure(part: pd.DataFrame, metric: str) -> Drawn:
    """A metric of one method against the sampling rate, one panel per data set, as the paper's
    figure 2.
    """

    def draw(axes: Axes, of_dataset: pd.DataFrame) -> None:
        icl = of_dataset[of_dataset["system"] == "icl"]
        for i, ((shots, _), group) in enumerate(icl.groupby(["shots", "epsilon"])):
            of_rate = group.groupby("sampling_rate")[metric].agg(["mean", "std"])
            colour, marker = _look(i)
            axes.errorbar(
                of_rate.index * 100,
                of_rate["mean"],
                of_rate["std"].fillna(0),
                label=f"k = {shots:g}, ε = {words.epsilon(group['epsilon'].iloc[0])}",
                color=colour,
                marker=marker,
            )
        _draw_baselines(axes, of_dataset, metric)
        _quiet_axis(axes)
        axes.set_xlabel("rows sampled, %")

    return _panels(
        part,
        draw,
        metric,
        f"{METRICS[metric]} against the sampling rate, {_method(part)}, one panel per data set",
    )


def gain_figure(results: pd.DataFrame, gains: pd.DataFrame) -> Drawn:
    """What in-context answers and classifiers gain over no private data, one panel per data set;
    empty where nothing is known.
    """
    gains = gains[
        gains["dataset"].isin(results.loc[main_metrics(results) != "absolute_error", "dataset"])
    ]
    series = list(gains[["method", "system"]].drop_duplicates().itertuples(index=False, name=None))
    if not series or has_several_rates(results) or gains["epsilon"].nunique() < _FEWEST:
        return Drawn()
    place = epsilon_places(gains["epsilon"].unique())
    methods = list(gains["method"].unique())
    least, most = (end(0.0, *(gain.mean for gain in gains["gain"])) for end in (min, max))

    def draw(axes: Axes, of_dataset: pd.DataFrame) -> None:
        axes.axhline(0, label="best without private data", **_RULE)
        axes.set_ylim(least - 0.15, most + 0.15)  # bars of few seeds may reach far beyond
        for i, (method, system) in enumerate(series):
            own = of_dataset[
                (of_dataset["method"] == method) & (of_dataset["system"] == system)
            ].sort_values("epsilon")
            own = own[own["epsilon"].isin(list(place))]  # at epsilon 0 nothing private was read
            colour, marker = _look(methods.index(method))
            x = [place[epsilon] + 0.016 * i for epsilon in own["epsilon"]]
            means = [gain.mean for gain in own["gain"]]
            halves = [gain.half for gain in own["gain"]]
            look = _GAIN_LOOKS[asked_by(system)[0]]
            line = look[0]
            marker = look[1] or marker
            name = (
                f"{words.method_name(method)}, {words.system_name(system)}"
                if is_queried(system)
                else fitted(method, system)
            )
            axes.errorbar(
                x, means, halves, fmt=marker, color=colour, elinewidth=0.9, linestyle="none"
            )
            axes.plot(x, means, color=colour, linestyle=line, marker=marker, label=name)
        _epsilon_axis(axes, place)

    return _panels(
        gains,
        draw,
        "gain",
        "What the private data add: gain over using none against epsilon, one panel per data set",
    )


def time_figure(timings: pd.DataFrame, width: float = PHONE) -> str:
    """Wall time by stage, as bars."""
    seconds = stage_seconds(timings).sum(axis=1)
    names = list(seconds.index)
    durations = [words.duration(value) for value in seconds]
    with drawing(width, 0.5 + 0.26 * len(names)) as figure:
        axes = figure.subplots()
        bars = axes.barh(names, list(seconds), color=SERIES[0], height=0.62)
        axes.bar_label(bars, durations, padding=4)
        axes.invert_yaxis()
        axes.grid(visible=False)
        axes.spines[["bottom", "left"]].set_visible(False)
        axes.tick_params(left=False, bottom=False, labelbottom=False)
        axes.margins(x=0.25)
        return to_svg(
            figure,
            "Wall time by stage: "
            + ", ".join(f"{name} {value}" for name, value in zip(names, durations, strict=True)),
        )


def epsilon_places(epsilons: Iterable[float]) -> dict[float, float]:
    """The position of each epsilon on the axis: its logarithm, and infinity one step to the
    right.
    """
    ordered = sorted(epsilons)
    places = {epsilon: math.log10(epsilon) for epsilon in ordered if 0 < epsilon < math.inf}
    if math.inf in ordered:
        places[math.inf] = max(places.values(), default=0.0) + _INFINITY_GAP
    return places


def _method(part: pd.DataFrame) -> str:
    return words.method_name(part["method"].iloc[0])


class _Look(NamedTuple):
    """Of a line, and how far it is shifted."""

    colour: str
    marker: str
    line: str = "-"
    shift: int = 0


def _look(i: int) -> tuple[str, str]:
    return SERIES[i % len(SERIES)], _MARKERS[i % len(_MARKERS)]


def _panels(
    part: pd.DataFrame, draw: Callable[[Axes, pd.DataFrame], None], metric: str, description: str
) -> Drawn:
    """Below each other for a phone, and two side by side where there are several."""
    beside = min(2, part["dataset"].nunique())
    wide, narrow = (
        _grid(part, draw, metric, description, columns, width)
        for columns, width in ((beside, WIDE), (1, PHONE))
    )
    return Drawn(wide, narrow)


def _grid(
    part: pd.DataFrame,
    draw: Callable[[Axes, pd.DataFrame], None],
    metric: str,
    description: str,
    columns: int,
    width: float,
) -> str:
    datasets = list(part["dataset"].unique())
    rows = math.ceil(len(datasets) / columns)
    with drawing(width, 2.4 * rows) as figure:
        grid = figure.subplots(rows, columns, sharey=True, squeeze=False).flatten()
        for axes, dataset in zip(grid, datasets, strict=False):
            draw(axes, part[part["dataset"] == dataset])
            axes.set_title(dataset, loc="left", fontweight="bold", parse_math=False)
        for axes in grid[len(datasets) :]:
            axes.set_visible(False)
        for axes in grid[::columns]:
            axes.set_ylabel(words.MEASURES[metric])
        shown = grid[: len(datasets)]
        names = {name for axes in shown for name in axes.get_legend_handles_labels()[1]}
        beside = round(width / PHONE) * (2 if max(map(len, names), default=0) <= _SHORT else 1)
        legend(figure, shown, beside, 9, handle=2.6 if width > PHONE else 1.8)
        # below the axes
        figure.set_figheight(figure.get_figheight() + 0.4 + 0.17 * math.ceil(len(names) / beside))
        return to_svg(figure, description)


def _epsilon_line(
    axes: Axes, values: pd.Series, place: dict[float, float], label: str, look: _Look
) -> None:
    """Mean and deviation by epsilon; the step to infinity is dotted. Lines are shifted a little so
    that bars do not overlap.
    """
    by_epsilon = values.groupby("epsilon").agg(["mean", "std"]).fillna({"std": 0.0})
    by_epsilon = by_epsilon[by_epsilon.index.isin(list(place))]
    if by_epsilon.empty:
        return
    x = [place[epsilon] + 0.016 * look.shift for epsilon in by_epsilon.index]
    means = by_epsilon["mean"]
    axes.errorbar(
        x,
        means,
        by_epsilon["std"],
        fmt=look.marker,
        color=look.colour,
        elinewidth=0.9,
        alpha=0.9,
        linestyle="none",
    )
    finite = int((by_epsilon.index != math.inf).sum())
    axes.plot(
        x[:finite],
        means.iloc[:finite],
        color=look.colour,
        linestyle=look.line,
        marker=look.marker,
        label=label,
    )
    if finite and finite < len(x):
        axes.plot(x[-2:], means.iloc[-2:], color=look.colour, linestyle=":", linewidth=1.0)


def _draw_baselines(axes: Axes, of_dataset: pd.DataFrame, metric: str) -> None:
    for system, line in (("majority", "-"), ("zero-shot", (0, (1, 2)))):
        mean = of_dataset.loc[of_dataset["system"] == system, metric].mean()
        if not math.isnan(mean):
            axes.axhline(mean, linestyle=line, label=words.SYSTEMS[system], **_RULE)


def _epsilon_axis(axes: Axes, place: dict[float, float]) -> None:
    _quiet_axis(axes)
    axes.set_xticks(list(place.values()), [words.epsilon(epsilon) for epsilon in place])
    axes.set_xlabel("ε")


def _quiet_axis(axes: Axes) -> None:
    axes.grid(axis="x", visible=False)
    axes.tick_params(color=GRID)


_LETTERS = {PHONE: 42, WIDE: 90}
"""Of names of periods below the axis, by its width."""


def period_figure(
    label: str,
    all_names: Sequence[str],
    names: Sequence[str],
    lines: Mapping[str, Sequence[float]],
    measure: str,
) -> Figure | Paragraph:
    """Values of the periods `names`, by what each line is of, over all published periods; a
    sentence where there is nothing to draw with.
    """
    if needed := extra_missing("matplotlib"):
        return Paragraph(f"The figure is left out: {needed}.")
    wide, narrow = (
        _period_svg(label, all_names, names, lines, measure, width) for width in (WIDE, PHONE)
    )
    return Figure(label, wide, narrow=narrow)


def _period_svg(
    label: str,
    all_names: Sequence[str],
    names: Sequence[str],
    lines: Mapping[str, Sequence[float]],
    measure: str,
    width: float,
) -> str:
    place = {name: number for number, name in enumerate(all_names)}
    most = max(2, _LETTERS[width] // (max(map(len, all_names)) + 3))
    step = max(1, math.ceil((len(all_names) - 1) / (most - 1)))
    ticks = range(0, len(all_names), step)
    with drawing(width, 2.6) as figure:
        axes = figure.subplots()
        for colour, marker, (of, values) in zip(SERIES, "os", lines.items(), strict=False):
            axes.plot(
                [place[name] for name in names],
                list(values),
                color=colour,
                marker=marker if len(names) < 30 else "",
                label=of,
            )
        axes.set_xticks(ticks, [all_names[tick] for tick in ticks])
        axes.set_ylabel(measure)
        axes.legend()
        ends = ", ".join(
            f"{of} {values[0]:.3g} to {values[-1]:.3g}" for of, values in lines.items()
        )
        return to_svg(figure, f"{label}, by period: {ends}")
