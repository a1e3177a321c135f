"""What is said of one printed number."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lab.published.cells import PrintedCell
from lab.reproduce.constant import Beside
from lab.reproduce.meanings import MISPRINTED, NOT_RUN


@dataclass(frozen=True)
class Verdict:
    """One printed number beside ours, of one model; `ours` is not a number where nothing was
    run.
    """

    cell: PrintedCell
    model: str
    kind: str
    reasons: tuple[str, ...] = ()
    """Of what was checked on this very number: why it was not run, what the paper misprints, how
    much less a bound is.
    """
    ours: float = math.nan
    half: float = math.nan
    known: tuple[str, ...] = ()
    """What is known to differ, whether the numbers agree or not."""
    beside: Beside | None = None

    @property
    def text(self) -> str:
        """The kind, its reasons, and what is known to differ."""
        reasons, link = "; ".join(self.reasons), " because " if self.kind == NOT_RUN else ": "
        kind = "" if self.kind == MISPRINTED else f"{self.kind}{link if reasons else ''}"
        return f"{kind}{reasons}" + (
            f"; known to differ: {'; '.join(self.known)}" if self.known else ""
        )
