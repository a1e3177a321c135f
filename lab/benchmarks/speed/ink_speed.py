"""Tokens a second of invisible ink against kept batches at the same epsilon: the same model,
prompts, reader and reuse of what was read.

One text in the shape of AG News, half written, as in `token_speed`, selection by the mechanism
included. Kept batches have the voters of the pipeline `few-shot-demo`, invisible ink those with
which `answers.ink_texts` judges what the texts teach.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from dpicl.ground.randomness import system_stream
from dpicl.home.settings import Settings
from dpicl.mechanisms.difference_token import DifferenceToken
from dpicl.mechanisms.private_token import TokenNoise
from dpicl.methods import METHODS, Options, unit_of
from dpicl.methods.few_shot_plan import plan_release
from dpicl.methods.few_shot_voting import rule_of
from dpicl.methods.grid import points
from dpicl.models.local.growing_rows import CachedSession
from dpicl.models.local.vote_reader import Reader
from dpicl.models.votes import VoteRule, Votes
from lab.benchmarks.answers.ink_texts import INK, JUDGED, KEPT, WAYS
from lab.benchmarks.figures import Figures
from lab.benchmarks.speed.token_speed import STEPS, TOKENS, reader_of, timed, vote_requests

GOAL = 4
SHOTS = 4


def mechanism(way: str) -> tuple[VoteRule, DifferenceToken | TokenNoise, int]:
    """Rule, selection and voters on AG News at the judged epsilon, for whole texts."""
    contract = Settings.from_environment().texts("agnews")
    name = "few_shot_generation"
    chosen = Options.model_validate({name: {**WAYS[way], "max_tokens": TOKENS}})
    unit = unit_of(name, contract.name, 0, (JUDGED,), (SHOTS,), (), False, chosen)
    (point,) = points(METHODS[name], unit).values()
    plan = plan_release(contract, point)
    voters = WAYS[way]["voters"]
    assert isinstance(voters, int)
    return rule_of(plan.shape, plan), next(iter(plan.drawings.values())).noise.token, voters


def seconds_a_token(reader: Reader, way: str) -> float:
    """Of a text of `TOKENS`: the first token reads all prompts, and steps around the middle stand
    for all others.
    """
    rule, token, voters = mechanism(way)
    (longer, *_) = vote_requests((TOKENS + STEPS) // 2, 0, voters)
    public = () if rule.kind == "difference" else (longer.public,)
    request = replace(longer, voters=(*public, *longer.voters))
    session = CachedSession(reader, [replace(request, written=())], rule)

    def step(tokens: Sequence[int]) -> None:
        (votes,) = session.vote([tuple(tokens)])
        assert isinstance(votes, Votes)
        token.select(votes.scores, system_stream())

    first = timed(partial(step, ()))[1]
    step(request.written[:-STEPS])
    steps = [timed(partial(step, (request.written[place],)))[1] for place in range(-STEPS, 0)]
    return (first + (TOKENS - 1) * float(np.mean(steps))) / TOKENS


def measure(figures: Figures) -> None:
    """Both ways in turn, in one process."""
    torch.set_num_threads(1)
    reader = reader_of()
    seconds = {way: seconds_a_token(reader, way) for way in (KEPT, INK)}
    for way, taken in seconds.items():
        print(
            f"{way:>14}, {mechanism(way)[2]:3d} voters, epsilon {JUDGED:g}: {1000 * taken:7.1f} "
            f"ms a token, {1 / taken:6.2f} tokens/s"
        )
    figures.at_least(
        "invisible-ink-tokens-a-second-over-kept-batches", seconds[KEPT] / seconds[INK], GOAL, "x"
    )


def main() -> None:
    """Only this."""
    figures = Figures()
    measure(figures)
    figures.finish()


if __name__ == "__main__":
    main()
