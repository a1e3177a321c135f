"""One record more or less changes the prompt of one voter, or is one voter: over many made-up sets
of texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa

from dpicl.ground.randomness import stream
from dpicl.ground.types import PrivateTable
from dpicl.mechanisms.disjoint_subsets import disjoint_subsets
from dpicl.mechanisms.private_token import UNITS, NoiseKind, TokenNoise
from dpicl.methods.few_shot_plan import GenerationShape
from dpicl.methods.few_shot_voting import VOTES, FreshVoting, PrivateRows, WritingPrompts
from dpicl.models.kinds.fake import EchoGenerator
from dpicl.models.requests import Tokens
from dpicl.models.votes import VoteRequest, VoteRule
from lab.audit import CASES, run_audits
from lab.benchmarks.figures import Figures, sized
from tests.library.text_contracts import text_contract

LABEL = "good"
SETS, RUNS, AUDITS = (
    sized(10_000, 50),
    sized(200_000, 2_000),
    ("few-shot-fresh", "sparse-vector"),
)
_KINDS: tuple[NoiseKind, ...] = ("gaussian", "exponential")


@dataclass(frozen=True)
class Moved:
    """What one record did: voters whose prompt changed, and how far their votes moved the sums, as
    shares of what is allowed.
    """

    voters: int
    share: float


def moved(seed: int) -> Moved:
    """A set of texts with one record more, and without it, all others drawn alike.

    Some texts are too long for their share of the context, some subsets have more texts than fit.
    """
    generator = stream(seed, "subset-prompts", "", "").generator()
    count, voters = int(generator.integers(1, 40)), int(generator.integers(1, 6))
    shape = GenerationShape(
        _KINDS[seed % 2],
        False,
        voters,
        int(generator.integers(1, 4)),
        [None, 20][seed % 3 > 0],
        8,
        10.0,
    )
    prompts = WritingPrompts(
        text_contract(), EchoGenerator(context=int(generator.integers(200, 400))), shape
    )
    texts = [
        "".join(generator.choice(list("abc  "), size=generator.integers(1, 90)))
        for _ in range(count)
    ]
    places = disjoint_subsets(
        count,
        sampling_rate=Fraction(3, 4),
        subset_count=voters,
        stream=stream(seed, "places", "", ""),
    )
    gone = int(generator.integers(count))
    kept = [number for number in range(count) if number != gone]
    pair = [
        _voters(prompts, texts, places),
        _voters(prompts, [texts[number] for number in kept], places[kept]),
    ]
    return Moved(sum(one != other for one, other in zip(*pair, strict=True)), _share(prompts, pair))


def measure(figures: Figures) -> None:
    """Ten thousand sets, and audits of whole tokens with a model that echoes what it reads."""
    found = [moved(seed) for seed in range(SETS)]
    print(
        f"{SETS:,} sets of texts: the votes moved by {max(one.share for one in found):.4g} of "
        f"what they may at most"
    )
    figures.exactly("voters-that-one-record-changes", max(one.voters for one in found), 1)
    figures.exactly("sets-in-which-votes-moved-too-far", sum(one.share > 1 for one in found), 0)
    results = run_audits([CASES[name] for name in AUDITS], runs=RUNS, seed=0)
    for result in results:
        print(
            f"{result.case.name}: at least {result.epsilon_at_least:.3f} of "
            f"{result.case.stated_epsilon:.3f} stated"
        )
    figures.exactly(
        "audits-above-what-is-stated",
        sum(result.epsilon_at_least > result.case.stated_epsilon for result in results),
        0,
    )
    mutants = [mutant for result in results for mutant in result.mutants]
    figures.exactly("mutants-caught", sum(mutant.caught for mutant in mutants), len(mutants))


def _voters(
    prompts: WritingPrompts, texts: Sequence[str], places: np.ndarray
) -> tuple[Tokens, ...]:
    labels = pa.array([LABEL] * len(texts), pa.string())
    table = PrivateTable(pa.table({"label": labels, "text": pa.array(list(texts), pa.string())}))
    voting = FreshVoting(PrivateRows(table, prompts), prompts, _rule(prompts.shape))
    return voting.voters(LABEL, np.arange(len(texts)), places)


def _rule(shape: GenerationShape) -> VoteRule:
    return VoteRule(VOTES[shape.kind], shape.candidates, UNITS)


def _share(prompts: WritingPrompts, pair: Sequence[tuple[Tokens, ...]]) -> float:
    """Of the movement that the noise is for: the squared l2 norm, or the spread."""
    requests = [
        VoteRequest(prompts.public(LABEL), voters, prompts.model.encode(" ")) for voters in pair
    ]
    one, other = (votes.sums for votes in prompts.model.vote(requests, _rule(prompts.shape)))
    assert prompts.shape.kind != "invisible-ink"
    noise, difference = TokenNoise(prompts.shape.kind, None), (one - other).astype(object)
    if prompts.shape.kind == "gaussian":
        return float(Fraction(int((difference**2).sum()), noise.squared_movement))
    return float(Fraction(int(difference.max() - difference.min()), noise.spread))
