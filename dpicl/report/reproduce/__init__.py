"""A paper's tables beside runs of ours: each printed number, what came out here, and a verdict."""

from __future__ import annotations

from dpicl.report.reproduce.made import Made
from dpicl.report.reproduce.verdict import Verdict
from dpicl.report.reproduce.verdicts import judged

__all__ = ["Made", "Verdict", "judged"]
