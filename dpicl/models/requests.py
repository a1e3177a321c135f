"""What models are asked, and what they answer.

A language model is asked for the scores of a few continuations after each prompt, or for the text
that follows it; a tabular in-context learner to label rows beside rows with labels, numbers
throughout. A model's `description` says which one answered, so that a run can record it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, Protocol, TypeVar, runtime_checkable

import numpy as np

from dpicl.ground.errors import ParameterError

Trust = Literal["local", "remote"]
"""`local`: prompts stay on machines that may see private rows; `remote`: they leave them."""
CONTINUATIONS = (" No", " Yes")
"""What is scored after a prompt over a table: column 0 and 1 of every score table."""
Tokens = tuple[int, ...]
Answer = TypeVar("Answer", str, tuple[int, ...])
Progress = Callable[[int], None]
"""Called now and then with the number of prompts finished so far."""


def prompt(demonstrations: Sequence[str], query: str) -> str:
    """One prompt as in DP-TabICL: demonstrations, one a line, then the query; without
    demonstrations the zero-shot prompt.
    """
    return "\n".join([*demonstrations, query])


def prompt_digest(prompt: str) -> bytes:
    """sha256 of a prompt, 32 bytes: its identity where the text must not be stored."""
    return hashlib.sha256(prompt.encode()).digest()


def prompt_ending(prompt: str) -> str:
    """A prompt's last word and the blanks around it: the tokens of a continuation depend on nothing
    before.
    """
    words = prompt.rstrip()
    return prompt[max(words.rfind(" "), words.rfind("\n"), 0) :]


def overlap(answers: Iterable[Answer]) -> bool:
    """Whether one of these texts, or token sequences, begins another or is it: whoever says the
    longer has said the shorter.

    Log-probabilities of such answers cannot be compared: of 1 and 10 the first would never be the
    less likely. So all answers of such a set are scored with what ends them; all, since an end
    costs each of them about as much. Other sets need none, and are scored without.
    """
    return any(longer[: len(answer)] == answer for answer, longer in pairwise(sorted(answers)))


def line_end(prompt: str) -> str:
    """What ends an answer in a prompt: the end of its line, or an empty line where the prompt has
    such, as between texts.
    """
    return "\n\n" if "\n\n" in prompt else "\n"


def before_stop(text: str, stop: Sequence[str]) -> str:
    """The text before the first stop string."""
    return text[: min((text.find(mark) for mark in stop if mark in text), default=len(text))]


@dataclass(frozen=True)
class ModelDescription:
    """Which model answered; every run records it."""

    name: str
    kind: str
    revision: str
    """Commit of the published model; empty when there is none."""
    digest: str
    """sha256 that changes when the model's files do; see the back end for what it covers."""
    trained: bool
    """False: the answers mean nothing and only show that the parts fit."""
    trust: Trust
    note: str = ""
    mode: str = ""
    """How a server is asked, or what a tabular model reads; of a language model in this process its
    number format and chat template, empty for float32 and completions.
    """


class Scorer(Protocol):
    """Anything that can score continuations."""

    @property
    def description(self) -> ModelDescription:
        """The model that answers."""

    def score(
        self,
        prompts: Sequence[str],
        continuations: Sequence[str],
        *,
        progress: Progress | None = None,
    ) -> np.ndarray:
        """Log-probability of each continuation, such as " Yes", after each whole prompt; a repeated
        prompt is computed once.

        Only one of them can be said: where one begins another, all are scored with what ends them
        (`overlap`).

        Returns:
            Sums over the continuation's tokens, in nats, float64 of shape (prompts,
            continuations), in the order given; it never changes a prompt's scores.

        Raises:
            ModelError: the model cannot answer; nothing is truncated to make it fit.
        """


@dataclass(frozen=True)
class Sampling:
    """What is to be written after every prompt.

    Args:
        new_tokens: most tokens of a text.
        stop: a text ends before the first of these strings.
        temperature: 0 takes the likeliest token, and computes a repeated prompt once.
        seed: of samples, public; each place in the list is a sample of its own.

    Raises:
        ParameterError: no token is allowed, the temperature is no number from 0 on, or a stop
            string is empty.
    """

    new_tokens: int
    stop: Sequence[str] = ()
    temperature: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.new_tokens < 1:
            raise ParameterError("new_tokens", self.new_tokens, "at least 1")
        if not 0 <= self.temperature < math.inf:
            raise ParameterError("temperature", self.temperature, "a number from 0 on")
        if isinstance(self.stop, str) or "" in self.stop:
            raise ParameterError("stop", self.stop, "a list of strings that are not empty")


@runtime_checkable
class TextGenerator(Protocol):
    """Anything that can write text."""

    @property
    def description(self) -> ModelDescription:
        """The model that answers."""

    def generate(self, prompts: Sequence[str], sampling: Sampling) -> list[str]:
        """The text that follows each whole prompt, in the order given, without stop strings.

        Raises:
            ModelError: the model cannot answer; nothing is truncated to make it fit.
        """


@runtime_checkable
class Tallying(Protocol):
    """A model whose answers are not all of one kind, and cost something."""

    def tally(self, prompts: Sequence[str], continuations: Sequence[str]) -> dict[str, float]:
        """Public counts of prompts that `score` has answered, by how they were answered, and of
        what was spent since the last tally.

        Without continuations, of the texts that these prompts got in the last `generate` that
        held them. No text, nothing of a single prompt.
        """


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
