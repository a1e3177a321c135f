"""One prompt's failure is that prompt's alone: whoever asks a model with private rows asks it through here.

Whether there is an answer must not tell what stands in a row. So a failure, of whatever kind, is first
put to the test: the model is asked a public question in the same way. Where that fails too, it is the
model, and the public question's error is raised, which is the same for every table. Where it is
answered, the failure was the prompt's: it is found by halving, and counts nothing.

Not covered a prompt that takes the model down with it, and running time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from dpicl.errors import DpiclError, ModelError, TooLongError
from dpicl.lm.local.batching import Tokens
from dpicl.lm.votes.voting import GeneratorModel, VoteRequest, VoteRule, Votes

T = TypeVar("T")
Voter = tuple[int, Tokens]
"""The number of a ballot, and one of its voters."""


def isolated_answers(
    answer: Callable[[Sequence[str]], list[T]], prompts: Sequence[str], nothing: T, public: Callable[[], object]
) -> Iterator[T]:
    """Answers to all prompts, `nothing` to each that fails.

    Args:
        answer: one answer for every prompt, in order.
        public: asks a public question in the same way.

    Raises:
        DpiclError: the public question fails too; its error.
    """
    answers: list[T] | None = None
    is_length = False
    try:
        answers = answer(prompts) if prompts else []
    except Exception as error:  # noqa: BLE001 - whatever it is, it may follow from a row
        is_length = isinstance(error, TooLongError)
    if answers is not None:
        yield from answers
        return
    if not is_length:  # a prompt's length is its own
        public()
    if len(prompts) == 1:
        yield nothing
        return
    middle = len(prompts) // 2
    yield from isolated_answers(answer, prompts[:middle], nothing, public)
    yield from isolated_answers(answer, prompts[middle:], nothing, public)


def isolated_votes(writer: GeneratorModel, ballots: Sequence[VoteRequest], rule: VoteRule) -> list[Votes]:
    """`GeneratorModel.vote`, where a voter that the model fails on votes for nobody.

    Raises:
        DpiclError: the model fails on the public prompts too.
    """
    try:
        return writer.vote(ballots, rule)
    except Exception:  # noqa: BLE001, S110 - whatever it is, it may follow from a row
        pass
    votes = public_answer(writer.description.name, lambda: writer.vote([replace(ballot, voters=()) for ballot in ballots], rule))
    sums = [one.sums if not ballot.voters else np.zeros_like(one.sums) for one, ballot in zip(votes, ballots, strict=True)]
    waiting = [[(number, voter) for number, ballot in enumerate(ballots) for voter in ballot.voters]]
    while waiting:
        voters = waiting.pop()
        counted = _counted(writer, ballots, voters, rule) if voters else {}
        if counted is None and len(voters) > 1:
            waiting += [voters[: len(voters) // 2], voters[len(voters) // 2 :]]
        for number, told in (counted or {}).items():
            by_token = dict(zip(told.candidates.tolist(), told.sums.tolist(), strict=True))
            sums[number] = sums[number] + np.array([by_token.get(token, 0) for token in votes[number].candidates.tolist()], dtype=np.int64)
    return [Votes(one.candidates, total) for one, total in zip(votes, sums, strict=True)]


def _counted(writer: GeneratorModel, ballots: Sequence[VoteRequest], voters: Sequence[Voter], rule: VoteRule) -> dict[int, Votes] | None:
    """Votes of these voters alone, by ballot; None where the model fails."""
    own: dict[int, list[Tokens]] = {}
    for number, voter in voters:
        own.setdefault(number, []).append(voter)
    try:
        votes = writer.vote([replace(ballots[number], voters=tuple(mine)) for number, mine in own.items()], rule)
    except Exception:  # noqa: BLE001 - as above
        return None
    return dict(zip(own, votes, strict=True))


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
    except Exception as error:  # noqa: BLE001 - a model of any kind may fail in any way
        kind = type(error).__name__
    raise ModelError(f"model {name!r} fails on a public question ({kind}); expected a model that answers it")
