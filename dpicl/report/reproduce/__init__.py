"""A paper's tables beside runs of ours: each printed number, what came out here, and a verdict."""

from __future__ import annotations

from dpicl.report.reproduce.verdicts import Made, Verdict, judged

__all__ = ["Made", "Verdict", "judged"]
