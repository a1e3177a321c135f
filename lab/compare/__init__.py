"""Two runs side by side: which is better, where, by how much, by more than noise, and what each
cost.
"""

from __future__ import annotations

from lab.compare.pairs import Comparison, compare
from lab.compare.sides import side_of

__all__ = ["Comparison", "compare", "side_of"]
