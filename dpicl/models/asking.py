"""Asking a model in the way that is right for it, and so that one prompt's failure is that prompt's
alone: a model is given private prompts through here only.

Whether it is asked by its chat template or completes a prompt is decided on public questions in
this package and on no others:

    (1)  by the template where  mean_q log p_chat(right answer) >= mean_q log p_completions(right
         answer),  q a public question

The questions are zero-shot and few-shot, in the forms of our prompts on tables and texts, with as
many right answers of each label.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np

from dpicl.ground.cache import checked
from dpicl.ground.errors import DpiclError, ModelError, TooLongError
from dpicl.models.requests import Scorer, Tokens
from dpicl.models.votes import GeneratorModel, VoteRequest, VoteRule, Votes

QUESTIONS = Path(__file__).with_name("asking.json")


@dataclass(frozen=True)
class LabelledQuestion:
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


def public_questions() -> list[LabelledQuestion]:
    """The questions of this package."""
    stated = json.loads(checked("models/asking.json", QUESTIONS).read_text("utf-8"))
    return [
        LabelledQuestion(
            question["prompt"],
            tuple(question["labels"]),
            question["labels"].index(question["right"]),
        )
        for question in stated
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
    by_chat = None if chat is None else _mean(chat, questions)
    completed = _mean(completions, questions)
    is_chat = by_chat is not None and (completed is None or by_chat >= completed)
    return AskedBy("chat" if is_chat else "completions", by_chat, completed, len(questions))


def _mean(scorer: Scorer, questions: Sequence[LabelledQuestion]) -> float | None:
    """Mean log-probability of the right answers; None where the model cannot be asked so, or not
    with numbers.
    """
    right: list[float] = []
    for labels in dict.fromkeys(question.labels for question in questions):
        asked = [question for question in questions if question.labels == labels]
        try:
            scores = public_answer(
                scorer.description.name,
                lambda asked=asked, labels=labels: scorer.score(
                    [question.prompt for question in asked], [f" {label}" for label in labels]
                ),  # type: ignore[misc]
            )
        except ModelError:  # its template, or its tokenizer, does not let labels be told apart
            return None
        right += [float(row[question.right]) for row, question in zip(scores, asked, strict=True)]
    return float(np.mean(right)) if np.isfinite(right).all() else None


T = TypeVar("T")
Item = TypeVar("Item")


def isolated_answers(
    answer: Callable[[Sequence[str]], list[T]],
    prompts: Sequence[str],
    nothing: T,
    public: Callable[[], object],
) -> Iterator[T]:
    """Answers to all prompts, `nothing` to each that fails.

    Args:
        answer: one answer for every prompt, in order.
        public: gives the model a public prompt in the same way.

    Raises:
        DpiclError: the public prompt fails too; its error.
    """
    for answers in _in_parts(answer, prompts, public):
        yield from [nothing] if answers is None else answers


def _in_parts(
    ask: Callable[[Sequence[Item]], T], items: Sequence[Item], public: Callable[[], object]
) -> Iterator[T | None]:
    """What is answered to items together, in order; what fails is halved, and gets None where it is
    a single item. For `public` see `isolated_answers`.
    """
    if not items:
        return
    is_length = False
    try:
        answered = ask(items)
    except Exception as error:  # noqa: BLE001 - whatever it is, it may follow from a row
        is_length = isinstance(error, TooLongError)
    else:
        yield answered
        return
    if not is_length:  # an item's length is its own
        public()
    if len(items) == 1:
        yield None
        return
    middle = len(items) // 2
    yield from _in_parts(ask, items[:middle], public)
    yield from _in_parts(ask, items[middle:], public)


def isolated_votes(
    model: GeneratorModel, requests: Sequence[VoteRequest], rule: VoteRule
) -> list[Votes]:
    """`GeneratorModel.vote`, where a voter that the model fails on votes 0 for all.

    Raises:
        DpiclError: the model fails on the public prompts too.
    """
    try:
        return model.vote(requests, rule)
    except Exception:  # noqa: BLE001, S110 - whatever it is, it may follow from a row
        pass
    public = public_answer(
        model.description.name,
        lambda: model.vote([replace(request, voters=()) for request in requests], rule),
    )
    sums = [
        np.zeros_like(votes.sums) if request.voters else votes.sums
        for votes, request in zip(public, requests, strict=True)
    ]

    def ask(voters: Sequence[tuple[int, Tokens]]) -> dict[int, Votes]:
        """Votes of these voters alone, by the number of their request."""
        by_request: dict[int, list[Tokens]] = {}
        for number, voter in voters:
            by_request.setdefault(number, []).append(voter)
        asked = [replace(requests[number], voters=tuple(own)) for number, own in by_request.items()]
        return dict(zip(by_request, model.vote(asked, rule), strict=True))

    voters = [
        (number, voter) for number, request in enumerate(requests) for voter in request.voters
    ]
    for answered in _in_parts(ask, voters, lambda: None):
        for number, votes in (answered or {}).items():
            by_token = dict(zip(votes.candidates.tolist(), votes.sums.tolist(), strict=True))
            sums[number] = sums[number] + np.array(
                [by_token.get(token, 0) for token in public[number].candidates.tolist()],
                dtype=np.int64,
            )
    return [replace(votes, sums=total) for votes, total in zip(public, sums, strict=True)]


def public_answer(name: str, ask: Callable[[], T]) -> T:
    """What a model answers to something public; whatever it fails with is its own.

    Args:
        name: of the model, for messages.

    Raises:
        DpiclError: it fails.
    """
    try:
        return ask()
    except DpiclError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, it may follow from a row
        kind = type(error).__name__
    raise ModelError(
        f"model {name!r} fails on a public question ({kind}); expected a model that answers it"
    )
