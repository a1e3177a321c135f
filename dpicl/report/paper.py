"""The numbers that the papers print for the cells of a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dpicl.methods.dp_icl import DpIcl
from dpicl.methods.few_shot_generation import FewShotGeneration
from dpicl.methods.published import PaperModel, ensemble_number, few_shot_accuracy, paper_accuracy
from dpicl.report import words

WRITTEN, ENSEMBLE = FewShotGeneration.name, DpIcl.name
ENSEMBLE_SHOTS = 4
"""Rows in every prompt of DP-ICL's tables."""


@dataclass(frozen=True)
class Paper:
    """Whose numbers stand beside ours: a Llama-2 for tables; GPT-3 Babbage for texts, under this
    mechanism; GPT-3 for ensembles.
    """

    model: PaperModel = "13b"
    mechanism: str = "gaussian"
    aggregations: Mapping[str, str | None] = field(default_factory=dict)
    """Systems of DP-ICL that answer as the paper's, with how their answers become one; None is the
    data set's usual way.
    """

    @staticmethod
    def beside(model_name: str, options: Mapping[str, Mapping[str, Any]]) -> Paper:
        """13B, unless a 7B model answered; the mechanism and the aggregations that the run's
        options name.
        """
        name = model_name.lower()
        mechanism = str(options.get(WRITTEN, {}).get("mechanism", "gaussian"))
        ensemble = options.get(ENSEMBLE, {})
        variants = ensemble.get("variants", ensemble.get("also"))  # earlier runs
        variants = variants if isinstance(variants, Mapping) else {}
        by_system = {
            "icl": ensemble,
            **{f"icl-{variant}": chosen for variant, chosen in variants.items()},
        }
        aggregations = {"few-shot": "few-shot"} | {
            system: chosen.get("aggregation")  # of those that have the paper's noise and sizes
            for system, chosen in by_system.items()
            if isinstance(chosen, Mapping)
            and chosen.get("noise") in (None, "gaussian")
            and not {"subsets", "similarity"}
            & {name for name, value in chosen.items() if value is not None}
        }
        return Paper("7b" if "7b" in name and "llama" in name else "13b", mechanism, aggregations)

    def number(
        self, method: str, dataset: str, metric: str, system: str, shots: int | None, epsilon: float
    ) -> tuple[float, float | None] | None:
        """Mean of one cell and its deviation, if printed; None where nothing is printed."""
        if method == ENSEMBLE:
            if shots != ENSEMBLE_SHOTS or system not in self.aggregations:
                return None
            usual = "votes" if metric == "accuracy" else "embedding"
            printed = ensemble_number(dataset, metric, self.aggregations[system] or usual, epsilon)
            return None if printed is None else (printed, None)
        if metric != "accuracy":
            return None
        if method != WRITTEN:
            return paper_accuracy(self.model, method, dataset, system, shots, epsilon)
        mechanism = {
            "icl": self.mechanism,
            "icl-exponential": "exponential",
            "random-rows": "gaussian",
        }.get(system, "")
        row = "icl" if system.startswith("icl") else system
        return (
            few_shot_accuracy(dataset, row, shots, epsilon, mechanism)
            if mechanism in ("gaussian", "exponential")
            else None
        )

    def models(self, methods: set[str]) -> str:
        """The models of the papers, for these methods."""
        llama = [f"Llama-2 {self.model.upper()}"] if methods - {WRITTEN, ENSEMBLE} else []
        babbage = ["GPT-3 Babbage"] if WRITTEN in methods else []
        return words.listing(
            [
                *llama,
                *babbage,
                *(["GPT-3 (Babbage where answers are labels)"] if ENSEMBLE in methods else []),
            ]
        )
