"""The figures of a series: a measure by period, a line for each window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dpicl.installed import extra_missing
from dpicl.report.blocks import Figure, Text
from dpicl.report.svg import SERIES, drawing, to_svg

_MOST_NAMES = 7
"""Of periods below the axis."""


def period_figure(
    label: str,
    all_names: Sequence[str],
    names: Sequence[str],
    lines: Mapping[str, Sequence[float]],
    measure: str,
) -> Figure | Text:
    """Values of the periods `names`, by what each line is of, over all published periods; a
    sentence where there is nothing to draw with.
    """
    if needed := extra_missing("matplotlib"):
        return Text(f"The figure is left out: {needed}.")
    place = {name: number for number, name in enumerate(all_names)}
    ticks = sorted(
        {round(one) for one in np.linspace(0, len(all_names) - 1, min(_MOST_NAMES, len(all_names)))}
    )
    with drawing(7.2, 2.6) as figure:
        axes = figure.subplots()
        for colour, marker, (of, values) in zip(SERIES, "os", lines.items(), strict=False):
            axes.plot(
                [place[name] for name in names],
                list(values),
                color=colour,
                marker=marker if len(names) < 30 else "",
                label=of,
            )
        axes.set_xticks(ticks, [all_names[tick] for tick in ticks], fontsize=8)
        axes.set_ylabel(measure)
        axes.legend(fontsize=8)
        ends = ", ".join(
            f"{of} {values[0]:.3g} to {values[-1]:.3g}" for of, values in lines.items()
        )
        return Figure(label, to_svg(figure, f"{label}, by period: {ends}"))
