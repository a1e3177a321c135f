"""One prompt's failure is that prompt's alone: a model is given private prompts through here only.

Whether there is an answer must not reveal what stands in a row. So a failure, of whatever kind, is
first put to the test: the model is given a public prompt in the same way. Where that fails too, it
is the model, and the public prompt's error is raised, which is the same for every table. Where it
is answered, the failure was the private prompt's: it is found by halving, and counts nothing.

Not covered a prompt that takes the model down with it, and running time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from dpicl.errors import DpiclError, ModelError, TooLongError
from dpicl.lm.requests import Tokens
from dpicl.lm.votes.voting import GeneratorModel, VoteRequest, VoteRule, Votes

T = TypeVar("T")


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
    is_length = False
    try:
        answers = answer(prompts) if prompts else []
    except Exception as error:  # noqa: BLE001 - whatever it is, it may follow from a row
        is_length = isinstance(error, TooLongError)
    else:
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
        np.zeros_like(one.sums) if request.voters else one.sums
        for one, request in zip(public, requests, strict=True)
    ]
    waiting = [
        [(number, voter) for number, request in enumerate(requests) for voter in request.voters]
    ]
    while waiting:
        voters = waiting.pop()
        by_request: dict[int, list[Tokens]] = {}
        for number, voter in voters:
            by_request.setdefault(number, []).append(voter)
        try:
            votes = (
                model.vote(
                    [
                        replace(requests[number], voters=tuple(own))
                        for number, own in by_request.items()
                    ],
                    rule,
                )
                if voters
                else []
            )
        except Exception:  # noqa: BLE001 - whatever it is, it may follow from a row
            if len(voters) > 1:
                waiting += [voters[: len(voters) // 2], voters[len(voters) // 2 :]]
            continue
        for number, one in zip(by_request, votes, strict=True):
            by_token = dict(zip(one.candidates.tolist(), one.sums.tolist(), strict=True))
            sums[number] = sums[number] + np.array(
                [by_token.get(token, 0) for token in public[number].candidates.tolist()],
                dtype=np.int64,
            )
    return [replace(one, sums=total) for one, total in zip(public, sums, strict=True)]


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
