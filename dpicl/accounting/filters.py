"""Stub until the filter lands."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpicl.accounting.accountant import Cost
from dpicl.accounting.guarantee import Guarantee


@dataclass(frozen=True)
class Spent:
    """Stub."""

    count: int = 0
    epsilon: Fraction | None = Fraction(0)

    @staticmethod
    def nothing() -> Spent:
        return Spent()

    def plus(self, guarantee: Guarantee) -> Spent:
        if self.epsilon is None or guarantee.delta or math.isinf(guarantee.epsilon):
            return Spent(self.count + 1, None)
        return Spent(self.count + 1, self.epsilon + Fraction(guarantee.epsilon))

    def cost(self, delta: float) -> Cost:
        return Cost(math.inf, delta, "no filter") if self.epsilon is None else Cost(float(self.epsilon), 0.0, "pure sum")

    def as_json(self) -> dict[str, Any]:
        return {"count": self.count, "epsilon": None if self.epsilon is None else str(self.epsilon)}

    @staticmethod
    def from_json(content: dict[str, Any]) -> Spent:
        return Spent(content["count"], None if content["epsilon"] is None else Fraction(content["epsilon"]))
