"""What a tabular in-context learner is asked: rows to label, beside rows with labels; numbers
throughout, no text.

Guarantee   none spent: it is given released rows, and queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpicl.lm.requests import ModelDescription

LEAST_LIKELY = -50.0
"""Nats: the log-probability of an answer that no row in context has, and the least of any."""


@dataclass(frozen=True)
class LabelledRows:
    """Rows in context.

    Attributes:
        values: shape (rows, columns), float64; nan where a value is missing or unknown.
        labels: codes of answers, shape (rows,), int64.
        categorical: positions of columns whose numbers are names, in no order.
    """

    values: np.ndarray
    labels: np.ndarray
    categorical: Sequence[int] = ()


class TabularModel(Protocol):
    """A model that predicts labels of rows from labelled rows beside them, without being fitted."""

    @property
    def description(self) -> ModelDescription:
        """The model that answers."""

    def log_probabilities(
        self, context: LabelledRows, queries: np.ndarray, answers: int
    ) -> np.ndarray:
        """Log-probability of every answer to every query; no query changes what another one gets.

        Args:
            queries: shape (queries, columns), as `LabelledRows.values`.
            answers: how many there are; a label is one of 0 to answers - 1.

        Returns:
            In nats, float64 of shape (queries, answers).

        Raises:
            ModelError: the model takes no such rows.
        """
