"""A kind of model that says the label that stands most often in its prompt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpicl.models.kinds.base import ModelKind, Opened, text_digest
from dpicl.models.requests import ModelDescription, Progress, Scorer

if TYPE_CHECKING:
    from dpicl.models.spec import ModelSpec


class Counting(ModelKind):
    """Counts labels; nothing is loaded for it."""

    name = "counting"

    def open(self, opened: Opened, models_folder: Path, mode: str = "") -> Scorer:
        return CountingScorer(opened[0])

    def fingerprint(self, spec: ModelSpec, corpus: Sequence[str]) -> str:
        return text_digest(spec)


class CountingScorer:
    """See `Scorer`."""

    def __init__(self, spec: ModelSpec) -> None:
        self.description = ModelDescription(spec.name, spec.kind, "", "1", True, spec.trust)

    def score(
        self,
        prompts: Sequence[str],
        continuations: Sequence[str],
        *,
        progress: Progress | None = None,
    ) -> np.ndarray:
        """The logarithm of each label's share of all that stand there, one more of each."""
        counts = [[1 + prompt.count(label) for label in continuations] for prompt in prompts]
        shares = np.array(counts, dtype=np.float64).reshape(len(prompts), len(continuations))
        return np.log(shares / shares.sum(axis=1, keepdims=True))
