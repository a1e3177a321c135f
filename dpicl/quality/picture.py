"""Pictures of what was released: bars of a column's bins with their errors, and cells of pairs of
columns.

Guarantee   none spent: drawn from what was released.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from dpicl.ground.errors import DpiclError
from dpicl.ground.installed import extra_missing
from dpicl.quality.shown import Shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BESIDE, _WIDTH, _HEIGHT = 3, 2.6, 2.2
"""Panels side by side at most, and the size of each in inches."""
_MOST_TICKS, _LONGEST = 6, 14
"""Names below an axis, and letters of each."""


@dataclass(frozen=True)
class Colours:
    """Of text, rules, what recedes, and bars."""

    ink: str
    muted: str
    grid: str
    bar: str


_ON_WHITE = Colours("#1d2126", "#5d6570", "#e2e3e0", "#0072b2")


def columns_figure(panels: Sequence[Shown]) -> Figure:
    """A figure of matplotlib, on white. Raises DpiclError: it is not installed."""
    if needed := extra_missing("matplotlib"):
        raise DpiclError(f"plot: {needed}")
    from matplotlib.figure import Figure

    figure = Figure(figsize=size_of(panels), facecolor="white", layout="constrained")
    draw_columns(figure, panels, _ON_WHITE)
    return figure


def size_of(panels: Sequence[Shown], beside: int = BESIDE) -> tuple[float, float]:
    """Width and height, in inches."""
    return _WIDTH * max(1, min(len(panels), beside)), _HEIGHT * max(1, ceil(len(panels) / beside))


def draw_columns(
    figure: Figure, panels: Sequence[Shown], colours: Colours, beside: int = BESIDE
) -> None:
    """A panel each, so many side by side at most, on an empty figure."""
    columns = max(1, min(len(panels), beside))
    places = figure.subplots(max(1, ceil(len(panels) / beside)), columns, squeeze=False).ravel()
    for axes, panel in zip(places, panels, strict=False):
        axes.set_title(" and ".join(panel.columns), fontsize=9, loc="left", color=colours.ink)
        axes.set_axisbelow(True)
        (_bars if len(panel.columns) == 1 else _cells)(axes, panel, colours)
        axes.tick_params(labelsize=7, color=colours.grid, labelcolor=colours.ink)
        for side, spine in axes.spines.items():
            spine.set_color(colours.muted)
            spine.set_visible(side in ("left", "bottom"))
    for axes in places[len(panels) :]:
        axes.set_axis_off()


def _bars(axes: Axes, panel: Shown, colours: Colours) -> None:
    shares, errors = panel.table(panel.shares), panel.table(panel.errors)
    axes.bar(
        np.arange(len(shares)),
        100 * shares,
        width=0.85,
        color=colours.bar,
        yerr=100 * np.stack([np.minimum(errors, shares), errors]),
        ecolor=colours.ink,
        error_kw={"elinewidth": 0.8, "capsize": 1.5},
    )
    axes.grid(axis="x", visible=False)
    axes.grid(axis="y", color=colours.grid)
    axes.set_ylabel("% of rows", fontsize=7, color=colours.ink)
    axes.set_ylim(bottom=0)
    _name(axes, panel.bins[0], 0)


def _cells(axes: Axes, panel: Shown, colours: Colours) -> None:
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    # paths, which take a page's colours; a page shows no image that it would have to fetch
    shares = panel.table(panel.shares)
    cells = [
        Rectangle((x - 0.5, y - 0.5), 1, 1)
        for x in range(len(shares))
        for y in range(shares.shape[1])
    ]
    depth = (shares / max(float(shares.max()), 1e-12)).ravel()
    axes.add_collection(
        PatchCollection(cells, facecolors=colours.bar, alpha=depth, edgecolors="none")
    )
    axes.set_xlim(-0.5, len(shares) - 0.5)
    axes.set_ylim(-0.5, shares.shape[1] - 0.5)
    axes.grid(visible=False)
    most, error = 100 * shares.max(), 100 * float(np.mean(panel.errors))
    told = f"0 to {most:.2g} %, ± {error:.1g}"
    axes.set_title(told, fontsize=7, loc="right", color=colours.muted)
    _name(axes, panel.bins[0], 0)
    _name(axes, panel.bins[1], 1)


def _name(axes: Axes, bins: Sequence[str], axis: int) -> None:
    """Some of the names below an axis, or beside it."""
    some = range(0, len(bins), max(1, ceil(len(bins) / _MOST_TICKS)))
    shown = [
        bins[place] if len(bins[place]) <= _LONGEST else f"{bins[place][: _LONGEST - 1]}…"
        for place in some
    ]
    if axis == 0:
        axes.set_xticks(list(some), shown, rotation=30, ha="right")
    else:
        axes.set_yticks(list(some), shown)
