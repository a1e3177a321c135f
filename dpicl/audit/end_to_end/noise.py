"""The exact privacy loss of a release whose noise is discrete Laplace: what one row moves against the scale of what covers it.

Noise is replaced below the sampler by a nothing that remembers its scale, and what it is added to is noted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any
from unittest.mock import patch

from dpicl.audit.end_to_end.claims import Broken
from dpicl.audit.end_to_end.draws import AuditCell, cells, drawn
from dpicl.audit.end_to_end.world import SourceRow
from dpicl.mechanisms import samplers
from dpicl.methods.gdp_tabicl import GdpTabicl
from dpicl.methods.mst_tabicl import MstTabicl

Noised = list[tuple[Fraction, int]]
"""Scales, and the exact numbers that got noise of them, in order."""
COVERED = (MstTabicl.name, GdpTabicl.name)
"""Methods all of whose noise on these tables is discrete Laplace."""
_SLACK = 1e-9


class _Nothing(int):
    """Zero, which notes what it is added to."""

    noised: Noised
    scale: Fraction

    def __sub__(self, other: int) -> _Nothing:
        return self

    def __radd__(self, exact: int) -> int:
        self.noised.append((self.scale, exact))
        return exact


def _noised(cell: AuditCell, rows: Sequence[SourceRow]) -> tuple[Noised, float]:
    """What got noise in one release, and the epsilon that was charged for it."""
    noised: Noised = []

    def nothings(scale: Fraction, count: int, _stream: Any) -> list[_Nothing]:
        drawn = [_Nothing() for _ in range(count)]
        for nothing in drawn:
            nothing.noised, nothing.scale = noised, scale
        return drawn

    with patch.object(samplers, "_geometrics", nothings):
        return noised, drawn(replace(cell, draws=1), rows, 1).epsilon


def covered(method: str) -> Broken:
    """On worst-case neighbours no method's exact numbers differ by more than their noise's scales times what is charged."""
    broken = []
    for cell in cells():
        if cell.method != method:
            continue
        (one, charged), (other, _) = _noised(cell, cell.one), _noised(cell, cell.other)
        if not one or [scale for scale, _ in one] != [scale for scale, _ in other]:
            broken.append(f"{cell.name}: how much noise is drawn depends on the rows")
            continue
        loss = float(sum((abs(a - b) / scale for (scale, a), (_, b) in zip(one, other, strict=True)), Fraction(0)))
        if loss > charged * (1 + _SLACK):
            broken.append(f"{cell.name}: a loss of {loss:.4g}, charged {charged:.4g}")
    return broken
