"""Whether a model is asked by its chat template or completes a prompt, decided on public questions
in this package and on no others.

    (1)  by the template where  mean_q log p_chat(right answer) >= mean_q log p_completions(right
         answer),  q a public question

The questions are zero-shot and few-shot, in the forms of our prompts on tables and texts, with as
many right answers of each label.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from dpicl.errors import ModelError
from dpicl.files.shipped import checked
from dpicl.lm.isolation import public_answer
from dpicl.lm.requests import Scorer

QUESTIONS = Path(__file__).with_name("asking.json")


@dataclass(frozen=True)
class Question:
    """A whole prompt, its labels, and the place of the right one among them."""

    prompt: str
    labels: tuple[str, ...]
    right: int


@dataclass(frozen=True)
class AskedBy:
    """How a model is asked, and why: by each way the mean log-probability of the right answers, in
    nats.

    Without means it was not measured: an account was charged for answers that came about so. One
    mean is missing where the model cannot be asked in that way.
    """

    api: Literal["chat", "completions"]
    chat: float | None = None
    completions: float | None = None
    questions: int = 0

    @property
    def sentence(self) -> str:
        """In plain words, without a name."""
        ways = {
            "chat": ("its chat template", self.chat),
            "completions": ("completion", self.completions),
        }
        (way, mean), (other, otherwise) = ways.pop(self.api), *ways.values()
        if mean is None:
            return f"asked by {way}, as for what its account was charged before"
        means = (
            f"of {self.questions} public questions the right answers have a mean log-probability "
            f"of {mean:.2f} nats by {way}"
        )
        return f"asked by {way}: {means}, " + (
            f"and it cannot be asked by {other}"
            if otherwise is None
            else f"{otherwise:.2f} by {other}"
        )


def public_questions() -> list[Question]:
    """The questions of this package."""
    stated = json.loads(checked("lm/asking.json", QUESTIONS).read_text("utf-8"))
    return [
        Question(one["prompt"], tuple(one["labels"]), one["labels"].index(one["right"]))
        for one in stated
    ]


def asked_by(chat: Scorer | None, completions: Scorer) -> AskedBy:
    """Equation (1).

    Args:
        chat, completions: the same model asked in either way; no `chat` where it has no template
            that can be used.

    Raises:
        ModelError: it fails on a question for another reason than the way in which it is asked.
    """
    questions = public_questions()
    by_chat, completed = (
        None if chat is None else _mean(chat, questions),
        _mean(completions, questions),
    )
    is_chat = by_chat is not None and (completed is None or by_chat >= completed)
    return AskedBy("chat" if is_chat else "completions", by_chat, completed, len(questions))


def _mean(scorer: Scorer, questions: Sequence[Question]) -> float | None:
    """Mean log-probability of the right answers; None where the model cannot be asked so, or not
    with numbers.
    """
    right: list[float] = []
    for labels in dict.fromkeys(one.labels for one in questions):
        asked = [one for one in questions if one.labels == labels]
        try:
            scores = public_answer(
                scorer.description.name,
                lambda asked=asked, labels=labels: scorer.score(
                    [one.prompt for one in asked], [f" {label}" for label in labels]
                ),  # type: ignore[misc]
            )
        except ModelError:  # its template, or its tokenizer, does not let labels be told apart
            return None
        right += [float(row[one.right]) for row, one in zip(scores, asked, strict=True)]
    return float(np.mean(right)) if np.isfinite(right).all() else None
