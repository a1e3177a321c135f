"""What the papers print for the cells of a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpicl.published import PaperModel, few_shot_accuracy, paper_accuracy

WRITTEN = "few_shot_generation"


@dataclass(frozen=True)
class Paper:
    """Whose numbers stand beside ours: a Llama-2 for tables; GPT-3 Babbage for texts, under this mechanism."""

    model: PaperModel = "13b"
    mechanism: str = "gaussian"

    @staticmethod
    def beside(model_name: str, options: Mapping[str, Mapping[str, Any]]) -> Paper:
        """13B, unless a 7B model answered; the mechanism that the run's options name."""
        name = model_name.lower()
        mechanism = str(options.get(WRITTEN, {}).get("mechanism", "gaussian"))
        return Paper("7b" if "7b" in name and "llama" in name else "13b", mechanism)

    def accuracy(self, method: str, dataset: str, system: str, shots: int | None, epsilon: float) -> tuple[float, float] | None:
        """Mean and deviation of one cell, or None where nothing is printed."""
        if method != WRITTEN:
            return paper_accuracy(self.model, method, dataset, system, shots, epsilon)
        mechanism = {"icl": self.mechanism, "icl-exponential": "exponential", "random-rows": "gaussian"}.get(system, "")
        printed = "icl" if system.startswith("icl") else system
        return few_shot_accuracy(dataset, printed, shots, epsilon, mechanism) if mechanism in ("gaussian", "exponential") else None

    def models(self, methods: set[str]) -> str:
        """Which models the papers asked, for these methods."""
        llama = [f"Llama-2 {self.model.upper()}"] if methods - {WRITTEN} else []
        return " and ".join([*llama, *(["GPT-3 Babbage"] if WRITTEN in methods else [])])
