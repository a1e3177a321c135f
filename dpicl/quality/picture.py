"""Pictures of what was released: bars of a column's bins with their errors, and cells of pairs of
columns.

Bars of a number's bins that are not equally wide stand where the bins do, and their areas are the
shares: height = share / width. Missing values have no place on that axis: their share is stated
above the bars. Where most rows would be a sliver of it, as of incomes, or a bin could not be seen,
all bars are equally wide, their heights are the shares, and the edges of the bins are named.

Guarantee   none spent: drawn from what was released.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from dpicl.ground.errors import DpiclError
from dpicl.ground.installed import extra_missing
from dpicl.quality.shown import Shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BESIDE, _WIDTH, _HEIGHT, _LETTER = 3, 2.6, 2.2, 0.055
"""Panels side by side at most, the size of each in inches, and of a letter of a name beside it."""
_MOST_TICKS, _LONGEST, _TITLE = 16, 25, 28
"""Names below an axis, letters of each, and of a line of a title."""
_EVEN, _MOST_ENDS, _LINE = 1.05, 5, 28
"""Widths of bins that are called equal, to the least; names of ends beside each other, and letters
of all of these.
"""
_SLIVER, _NARROW, _SPIKE = 0.1, 0.02, 0.005
"""The part of an axis that is too little for half of the rows, for a bin of one value, and for any.
"""
_FLAT, _SHORT = 6, 14
"""Names, and letters of each, that are read at a slant."""
_UNEQUAL, _APART = "bins of unequal width", 0.5
"""What is said below bars that are equally wide all the same, and the gap before missing values."""


@dataclass(frozen=True)
class Colours:
    """Of text, rules, what recedes, bars, and the ground."""

    ink: str
    muted: str
    grid: str
    bar: str
    paper: str


_ON_WHITE = Colours("#1d2126", "#5d6570", "#e2e3e0", "#0072b2", "#ffffff")


def columns_figure(panels: Sequence[Shown]) -> Figure:
    """A figure of matplotlib, on white. Raises DpiclError: it is not installed."""
    if needed := extra_missing("matplotlib"):
        raise DpiclError(f"plot: {needed}")
    from matplotlib.figure import Figure

    figure = Figure(figsize=size_of(panels), facecolor="white", layout="constrained")
    draw_columns(figure, panels, _ON_WHITE)
    return figure


def size_of(panels: Sequence[Shown], beside: int = BESIDE) -> tuple[float, float]:
    """Width and height, in inches: with room for the longest names."""
    pairs = [panel for panel in panels if len(panel.columns) > 1]
    left = max((len(name) for panel in pairs for name in _names(panel.bins[1]).values()), default=0)
    below = [
        _edges(panel) if _is_by_edge(panel) else [*_names(panel.bins[0]).values()]
        for panel in panels
    ]
    upright = max((max(map(len, names)) for names in below if _is_upright(names)), default=0)
    width, height = _WIDTH + _LETTER * left, _HEIGHT + _LETTER * upright
    return width * max(1, min(len(panels), beside)), height * max(1, ceil(len(panels) / beside))


def draw_columns(
    figure: Figure, panels: Sequence[Shown], colours: Colours, beside: int = BESIDE
) -> None:
    """A panel each, so many side by side at most, on an empty figure."""
    columns = max(1, min(len(panels), beside))
    places = figure.subplots(max(1, ceil(len(panels) / beside)), columns, squeeze=False).ravel()
    for axes, panel in zip(places, panels, strict=False):
        title = fill(" and ".join(panel.columns), _TITLE)
        if len(panel.columns) > 1:
            title += f"\n{_scale(panel)}"
        elif _is_by_area(panel):
            title = "\n".join([title, *_missing(panel)])
        axes.set_title(title, fontsize=8, loc="left", color=colours.ink)
        axes.set_axisbelow(True)
        draw = _cells if len(panel.columns) > 1 else _areas if _is_by_area(panel) else _bars
        draw(axes, panel, colours)
        axes.tick_params(labelsize=7, color=colours.grid, labelcolor=colours.ink)
        for side, spine in axes.spines.items():
            spine.set_color(colours.muted)
            spine.set_visible(side in ("left", "bottom"))
    for axes in places[len(panels) :]:
        axes.set_axis_off()


def _bars(axes: Axes, panel: Shown, colours: Colours) -> None:
    shares, errors = panel.table(panel.shares), panel.table(panel.errors)
    places = np.arange(len(shares), dtype=float)
    if _is_by_edge(panel):
        places[len(panel.ends) - 1 :] += _APART
    axes.bar(
        places,
        100 * shares,
        width=0.85,
        color=colours.bar,
        yerr=100 * np.stack([np.minimum(errors, shares), errors]) if errors.any() else None,
        ecolor=colours.ink,
        error_kw={"elinewidth": 0.8, "capsize": 1.5},
    )
    if panel.true:
        axes.hlines(
            100 * np.array(panel.true),
            places - 0.43,
            places + 0.43,
            color=colours.ink,
            linewidth=1.4,
        )
    _scaled(axes, "% of rows", colours)
    if _is_by_edge(panel):
        names = _edges(panel)
        ends = np.arange(len(panel.ends)) - 0.5
        axes.set_xticks(
            [*ends, *places[len(ends) - 1 :]], names, rotation=90 if _is_long(names) else 0
        )
        axes.set_xlabel(_UNEQUAL, fontsize=7, color=colours.ink)
    else:
        _name(axes, panel.bins[0], 0)


def _areas(axes: Axes, panel: Shown, colours: Colours) -> None:
    """Bars as wide as their bins, of which the areas are shares."""
    ends = np.array(panel.ends)
    left, width = ends[:-1], np.diff(ends)
    unit = 10.0 ** np.floor(np.log10(np.median(width)))
    shares, errors, true = (
        100 * unit * np.array(values[: len(width)]) / width if values else np.array([])
        for values in (panel.shares, panel.errors, panel.true)
    )
    axes.bar(
        left,
        shares,
        width=width,
        align="edge",
        color=colours.bar,
        edgecolor=colours.paper,
        linewidth=0.6,
        yerr=np.stack([np.minimum(errors, shares), errors]) if errors.any() else None,
        ecolor=colours.ink,
        error_kw={"elinewidth": 0.8, "capsize": 1.5},
    )
    if len(true):
        axes.hlines(true, left, left + width, color=colours.ink, linewidth=1.4)
    is_plain = all(map(_is_number, panel.end_names))
    _scaled(axes, f"% of rows per {unit:,g}" if is_plain else "density of rows", colours)
    axes.set_xlim(ends[0], ends[-1])
    _name_ends(axes, ends, panel.end_names)


def _scaled(axes: Axes, label: str, colours: Colours) -> None:
    """The axis of shares, from 0 on."""
    axes.grid(axis="x", visible=False)
    axes.grid(axis="y", color=colours.grid)
    axes.set_ylabel(label, fontsize=7, color=colours.ink)
    axes.set_ylim(bottom=0)


def _name_ends(axes: Axes, ends: np.ndarray, names: Sequence[str]) -> None:
    """Of those that lie apart by enough for their names: the first and the last among them."""
    apart = (ends[-1] - ends[0]) / _MOST_ENDS
    shown = [0]
    for place in range(1, len(ends) - 1):
        if ends[place] - ends[shown[-1]] >= apart and ends[-1] - ends[place] >= apart:
            shown.append(place)
    shown.append(len(ends) - 1)
    texts = [names[place] for place in shown]
    axes.set_xticks(ends[shown], texts, rotation=90 if _is_long(texts) else 0)


def _is_uneven(panel: Shown) -> bool:
    """Whether the bins of a number are not equally wide."""
    widths = np.diff(panel.ends)
    return len(widths) > 1 and bool(widths.max() > _EVEN * widths.min())


def _is_by_area(panel: Shown) -> bool:
    """Whether bars as wide as uneven bins can be read: all of them are seen, and the densest that
    hold half of the rows are no sliver.
    """
    if not _is_uneven(panel):
        return False
    parts = np.diff(panel.ends) / (panel.ends[-1] - panel.ends[0])
    is_value = np.array([" to " not in name for name in panel.bins[0][: len(parts)]])
    shares = np.array(panel.shares[: len(parts)])
    densest = np.argsort(-shares / parts)
    held = np.cumsum(shares[densest])
    half = parts[densest][: 1 + int(np.searchsorted(held, held[-1] / 2))].sum()
    return bool((parts >= np.where(is_value, _NARROW, _SPIKE)).all() and half >= _SLIVER)


def _is_by_edge(panel: Shown) -> bool:
    """Whether bars of uneven bins are equally wide."""
    return _is_uneven(panel) and not _is_by_area(panel)


def _edges(panel: Shown) -> list[str]:
    """Names of the ends of bins, as short as they can be told apart, and of missing values."""
    shortened = [_shortened(name) for name in panel.end_names]
    names = shortened if len(set(shortened)) == len(shortened) else panel.end_names
    return [*names, *panel.bins[0][len(panel.ends) - 1 :]]


def _shortened(name: str) -> str:
    """3.9k of 3,906, and the date of a time."""
    if not _is_number(name):
        return re.sub(r"^(\d{4}-\d\d-\d\d)T.*", r"\1", name)
    number, unit = float(name.replace(",", "")), ""
    for unit_of_next in "kMGT":
        if abs(number) < 1000:
            break
        number, unit = number / 1000, unit_of_next
    return (f"{number:.0f}" if abs(number) >= 10 else f"{number:.2g}") + unit


def _is_number(name: str) -> bool:
    return bool(re.fullmatch(r"-?[\d,.]+(e[-+]\d+)?", name))


def _missing(panel: Shown) -> list[str]:
    """A line on missing values, which have no bar."""
    return [
        f"{panel.bins[0][place]}: {100 * panel.shares[place]:.2g} %"
        + (f" ± {100 * panel.errors[place]:.1g}" if panel.errors[place] else "")
        + (f", in truth {100 * panel.true[place]:.2g} %" if panel.true else "")
        for place in range(len(panel.ends) - 1, len(panel.bins[0]))
    ]


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
    _name(axes, panel.bins[0], 0)
    _name(axes, panel.bins[1], 1)


def _scale(panel: Shown) -> str:
    """What the palest and the darkest cell of a pair are, and the error of a cell."""
    most, error = 100 * max(panel.shares), 100 * float(np.mean(panel.errors))
    return f"0 to {most:.2g} %, ± {error:.1g}"


def _names(bins: Sequence[str]) -> dict[int, str]:
    """By place the names of all bins, and of more than there is room for of some."""
    return {
        place: bins[place] if len(bins[place]) <= _LONGEST else f"{bins[place][: _LONGEST - 1]}…"
        for place in range(0, len(bins), ceil(len(bins) / _MOST_TICKS))
    }


def _is_upright(names: Sequence[str]) -> bool:
    """Whether names below an axis are many or long, and would cover each other at a slant."""
    return len(names) > _FLAT or max(map(len, names)) > _SHORT


def _is_long(names: Sequence[str]) -> bool:
    """Whether names below an axis have no room beside each other."""
    return len(names) * max(map(len, names)) > _LINE


def _name(axes: Axes, bins: Sequence[str], axis: int) -> None:
    """Below an axis, or beside it."""
    places, names = map(list, zip(*_names(bins).items(), strict=True))
    if axis == 1:
        axes.set_yticks(places, names)
    elif _is_upright(names):
        axes.set_xticks(places, names, rotation=90)
    else:
        axes.set_xticks(places, names, rotation=30, ha="right")
