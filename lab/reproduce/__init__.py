"""A paper's tables beside runs of ours: each printed number, what came out here, and a verdict."""

from __future__ import annotations

from lab.reproduce.made import Made
from lab.reproduce.verdict import Verdict
from lab.reproduce.verdicts import judged

__all__ = ["Made", "Verdict", "judged"]
