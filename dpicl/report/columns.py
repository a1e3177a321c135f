"""Pictures of released columns in a page's own colours."""

from __future__ import annotations

from collections.abc import Sequence

from dpicl.quality.picture import BESIDE, Colours, draw_columns, size_of
from dpicl.quality.shown import Shown
from dpicl.report.blocks import GRID, INK, MUTED, PAPER, SERIES, drawing, to_svg

_OF_PAGE = Colours(INK, MUTED, GRID, SERIES[0], PAPER)


_PAGE = 8.0
"""Inches; wider figures would be shown smaller than their letters can be read."""


def columns_svg(panels: Sequence[Shown], most: int = BESIDE) -> str:
    """An `<svg>` element, so many panels side by side at most, and no more than a page is wide."""
    width, _ = size_of(panels, 1)
    beside = max(1, min(most, int(_PAGE / width)))
    with drawing(*size_of(panels, beside)) as figure:
        draw_columns(figure, panels, _OF_PAGE, beside)
        names = "; ".join(" and ".join(panel.columns) for panel in panels)
        return to_svg(figure, f"Released shares, with errors, of {names}")
