"""Matplotlib figures as inline SVG that follows the page's colours, light or dark.

Figures are drawn in marker colours that no plot uses otherwise; each is then replaced by a
CSS variable of the page.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

from dpicl.report.html import style_sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, MUTED, GRID = "#010101", "#010102", "#010103"
SERIES = ("#010111", "#010112", "#010113", "#010114", "#010115", "#010116")
BASELINES = ("#010121", "#010122", "#010123")
_VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--grid",
    **{colour: f"--series-{i}" for i, colour in enumerate(SERIES, 1)},
    **{colour: f"--baseline-{i}" for i, colour in enumerate(BASELINES, 1)},
}
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "dpicl",
    "font.size": 9,
    "text.color": INK,
    "axes.facecolor": "none",
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": False,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
}


@contextmanager
def drawing(width: float, height: float) -> Iterator[Figure]:
    """An empty figure on the page's own background, and the style in which it is built and drawn;
    size in inches.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        yield Figure(figsize=(width, height), facecolor="none", layout="constrained")


def to_svg(figure: Figure, description: str) -> str:
    """An `<svg>` element with a text alternative and nothing to fetch."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = io.StringIO()
    FigureCanvasSVG(figure).print_svg(
        buffer, metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
    )  # type: ignore[no-untyped-call]
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # several figures share one page
    for marker, variable in _VARIABLES.items():
        svg = svg.replace(marker, f"var({variable})")
    size = re.search(r'viewBox="0 0 ([\d.]+)', svg)
    width = f"{float(size[1]) / 0.72:.0f}px" if size else "100%"
    head = f'<svg role="img" aria-label="{escape(description)}" style="max-width: {width}"'
    return re.sub(r"^<svg", head, re.sub(r' (?:width|height)="[\d.]+pt"', "", svg, count=2)).strip()


def standalone(svg: str) -> str:
    """A figure as a file of its own, on the page's ground and in its colours: for a README."""
    colours = style_sheet().partition("\n* {")[0]
    head, _, body = svg.partition(">")
    head = (
        head
        if "xmlns=" in head
        else head.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    )
    ground = '<rect width="100%" height="100%" style="fill: var(--paper)"/>'
    return f'{head} font-family="sans-serif"><style>{colours}</style>{ground}{body}\n'
