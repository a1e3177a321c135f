"""Voting on tokens in the shape of AG News: seconds a token against a plain loop over the subsets,
in one process.

M = 10 voters, 20 on a GPU, for each of four texts, one of each label, as a set of four shots is
written; prompts of about 150 tokens, 20 of them the instruction; T = 100 tokens a text, the 100
likeliest candidates. The plain loop reads the public prompt and every voter's in a forward pass
each and sums in numpy; it takes as long for a token however many texts there are, so one of them is
measured. All times are those of texts half written: they grow evenly with what was written, so that
these are the means of a text.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
import torch

from dpicl.models.local.growing_rows import ROOM, CachedSession
from dpicl.models.local.padded_reader import LoadedModel
from dpicl.models.local.tree_reader import read_shared
from dpicl.models.local.vote_reader import Reader, count_votes
from dpicl.models.requests import Tokens
from dpicl.models.votes import VoteRequest, VoteRule, Votes
from lab.benchmarks.figures import Figures, sized
from lab.benchmarks.speed.random_llama import CONTEXT, SHAPES, random_llama

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
BUDGET = {"cpu": 4096, "cuda": 16384}[DEVICE.type]
SHAPE, DTYPE, APART = {"cpu": ("100M", torch.float32, 1e-4), "cuda": ("7B", torch.bfloat16, 2e-2)}[
    DEVICE.type
]
VOCABULARY = SHAPES[SHAPE][-1]
FRESH_GOAL, FIXED_GOAL = 1, 20
TEXTS, VOTERS, TOKENS = 4, {"cpu": sized(10, 2), "cuda": 20}[DEVICE.type], 100
FRESH_TEXTS = {"cpu": 1, "cuda": TEXTS}[DEVICE.type]
"""Fresh prompts of several texts are no faster on a CPU, which one text keeps busy."""
UNITS, ROUNDS, STEPS = 1 << 20, sized(3, 1), ROOM + 1
RULE = VoteRule("probability", 100, UNITS)
Sums = dict[int, float]
Result = TypeVar("Result")


def reader_of() -> Reader:
    """Reads with random parameters."""
    model = random_llama(SHAPE, DTYPE, DEVICE.type)
    known = torch.arange(VOCABULARY, device=DEVICE)
    read = partial(read_shared, LoadedModel(model, DEVICE, BUDGET))
    return Reader(model, DEVICE, BUDGET, "random", known, CONTEXT, VOCABULARY, read)


def vote_requests(written: int, seed: int, voters: int = VOTERS) -> list[VoteRequest]:
    """Instruction, two examples of about 60 tokens and a header in every voter's prompt."""
    rng = np.random.default_rng(seed)

    def tokens(count: int) -> Tokens:
        return tuple(rng.integers(0, VOCABULARY, count).tolist())

    def voter(header: Tokens) -> Tokens:
        one, other = (tokens(int(rng.integers(50, 71))) for _ in range(2))
        return instruction + header + one + header + other + header

    instruction = tokens(20)
    headers = [tokens(6) for _ in range(TEXTS)]
    return [
        VoteRequest(
            instruction + header, tuple(voter(header) for _ in range(voters)), tokens(written)
        )
        for header in headers
    ]


@torch.inference_mode()
def _plain(reader: Reader, request: VoteRequest) -> Sums:
    """Sums of probabilities by candidate."""

    def after(prompt: Tokens) -> np.ndarray:
        row = torch.tensor([prompt + request.written], device=DEVICE)
        logits = reader.model(input_ids=row, logits_to_keep=1, use_cache=False).logits[0, -1]
        return np.asarray(logits.double().cpu().numpy())

    candidates = np.argsort(-after(request.public), kind="stable")[: RULE.candidates]
    sums = np.zeros(len(candidates))
    for voter in request.voters:
        weights = np.exp(after(voter)[candidates])
        sums += weights / weights.sum()
    return dict(zip(candidates.tolist(), sums.tolist(), strict=True))


def _fresh(reader: Reader, requests: list[VoteRequest]) -> list[Votes]:
    votes = count_votes(reader, dict(enumerate(requests)), RULE)
    return [votes[number] for number in range(len(requests))]


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """Seconds beside the result; on a CPU those of the processor, so that other processes do not
    count.
    """
    clock = time.process_time if DEVICE.type == "cpu" else time.perf_counter
    started = clock()
    result = work()
    return result, clock() - started


def _fixed(reader: Reader, requests: list[VoteRequest]) -> tuple[list[Votes | None], float]:
    """Votes at the end, and seconds for a token of one text in fixed batches.

    The first token reads all prompts. As many steps as bring one growth of the caches, around the
    middle of a text, stand for all others.
    """
    session = CachedSession(reader, [replace(request, written=()) for request in requests], RULE)
    votes, first = timed(partial(session.vote, [() for _ in requests]))
    session.vote([request.written[:-STEPS] for request in requests])
    steps = []
    for step in range(-STEPS, 0):
        votes, seconds = timed(
            partial(session.vote, [(request.written[step],) for request in requests])
        )
        steps.append(seconds)
    return votes, (first + (TOKENS - 1) * float(np.mean(steps))) / TOKENS / len(requests)


def _difference(votes: Votes | None, sums: Sums) -> float:
    """The largest difference of a mean probability; infinite if the candidates are others."""
    if votes is None or set(votes.candidates.tolist()) != set(sums):
        return float("inf")
    pairs = zip(votes.candidates.tolist(), votes.sums.tolist(), strict=True)
    return max(abs(told / UNITS - sums[token]) for token, told in pairs) / VOTERS


def measure(figures: Figures) -> None:
    """Rounds over all ways, each with prompts of its own; fixed batches of a single text, and
    differences, in the last round.
    """
    torch.set_num_threads(1)
    reader = reader_of()
    _plain(reader, vote_requests(5, 0)[0])
    seconds: dict[str, list[float]] = {"plain loop": [], "fresh": [], "fixed": []}
    for seed in range(ROUNDS):
        longer = vote_requests((TOKENS + STEPS) // 2, seed)
        middle = [replace(request, written=request.written[: TOKENS // 2]) for request in longer]
        sums, plain = timed(partial(_plain, reader, middle[0]))
        votes, fresh = timed(partial(_fresh, reader, middle[:FRESH_TEXTS]))
        told, fixed = _fixed(reader, longer)
        for name, taken in (
            ("plain loop", plain),
            ("fresh", fresh / FRESH_TEXTS),
            ("fixed", fixed),
        ):
            seconds[name].append(taken)
    medians = {name: float(np.median(taken)) for name, taken in seconds.items()}
    medians["fixed, one text"] = _fixed(reader, longer[:1])[1]
    for name, taken in medians.items():
        print(
            f"{name:>16}: {1000 * taken:7.1f} ms a token, {1 / taken:6.2f} tokens/s, "
            f"{medians['plain loop'] / taken:.2f}x"
        )
    differences = _difference(votes[0], sums), _difference(told[0], _plain(reader, longer[0]))
    figures.at_least("fresh-batches-over-a-plain-loop", _ratio(seconds, "fresh"), FRESH_GOAL, "x")
    figures.at_least("fixed-batches-over-a-plain-loop", _ratio(seconds, "fixed"), FIXED_GOAL, "x")
    figures.at_most("voting-largest-difference-of-probabilities", max(differences), APART)


def _ratio(seconds: dict[str, list[float]], name: str) -> float:
    """The median of the rounds' own ratios."""
    return float(
        np.median(
            [
                plain / taken
                for plain, taken in zip(seconds["plain loop"], seconds[name], strict=True)
            ]
        )
    )


def main() -> None:
    """Only this."""
    figures = Figures()
    measure(figures)
    figures.finish()


if __name__ == "__main__":
    main()
