"""Audits of DP few-shot generation, whole: one row more among the private texts, and a model that
echoes what it reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np
import pyarrow as pa

from dpicl.accounting.accountant import price
from dpicl.accounting.guarantee import Neighbours
from dpicl.contract import TextContract, parse_contract
from dpicl.contract.pipeline import Point
from dpicl.ground.randomness import Draws, Stream
from dpicl.ground.types import PrivateTable
from dpicl.mechanisms.private_token import UNITS, TokenNoise
from dpicl.methods.few_shot_generation import write
from dpicl.methods.few_shot_plan import Drawing, GenerationShape, Noise, TextsPlan, VoterPool
from dpicl.methods.few_shot_voting import WritingJob
from dpicl.methods.options import FewShotVariant
from dpicl.methods.text_method import Memory
from dpicl.models.requests import ModelDescription, Tokens
from dpicl.models.votes import (
    FreshSession,
    VoteRequest,
    VoteRule,
    Votes,
    VotingSession,
)
from lab.audit.case import LESS_NOISE, AuditCase, Mutant, Trial, less_noise

COMMON, OWN = "a", "b"
"""What the model writes without private rows, and the text of the row that may be there."""
RATE, FRESH_EPSILON = Fraction(1, 2), Fraction(2)
_SHARE = 10
_RUNS_AT_ONCE = 1_000
_POINT = Point("icl,epsilon=1.0,shots=1", 1.0, FewShotVariant(), 1, None, 0)
_POOL = VoterPool(None, 2)


@dataclass(frozen=True)
class EchoingModel:
    """Two words, each a token: a voter gives all it has to the text of its first example, or to
    `COMMON`.
    """

    leading: Tokens = ()
    ends: frozenset[int] = frozenset()
    context: int | None = None

    @property
    def description(self) -> ModelDescription:
        """Says that nothing was trained."""
        return ModelDescription("echoing", "fake", "1", "", False, "local")

    def encode(self, text: str) -> Tokens:
        """Only private texts are read."""
        return (1,) if f": {OWN}\n" in text else ()

    def decode(self, tokens: Sequence[int]) -> str:
        """The words."""
        return "".join((COMMON, OWN)[token] for token in tokens)

    def vote(self, requests: Sequence[VoteRequest], rule: VoteRule) -> list[Votes]:
        """Whole votes for one word each."""
        words = [[(voter or (0,))[0] for voter in request.voters] for request in requests]
        return [
            Votes(np.arange(2), np.array([word.count(0), word.count(1)]) * UNITS) for word in words
        ]

    def session(self, requests: Sequence[VoteRequest], rule: VoteRule) -> VotingSession:
        """The same voters for every token."""
        return FreshSession(requests, partial(self.vote, rule=rule))


def _contract() -> TextContract:
    words = {"instruction": "Write.", "label": "Kind", "text": "Text"}
    content = {
        "version": 2,
        "kind": "text",
        "name": "audit",
        "source": {"bundled": "docstrings"},
        "privacy": {"budget": {"benchmark": True}},
        "text": "{text}",
        "max_characters": 10,
        "task": {
            "kind": "extraction",
            "field": "label",
            "min_rows": 2,
            "labels": ["any"],
            "answer_tokens": 1,
        },
        "query_count": 1,
        "prompts": {"generation": words, "answering": {"text": "Text", "answer": "Kind"}},
        "generation": {
            "subsets": 2,
            "examples": 1,
            "candidates": None,
            "max_tokens": 1,
            "delta": "1/1000",
        },
    }
    contract = parse_contract(content, "audit")
    assert isinstance(contract, TextContract)
    return contract


def _plan(
    shape: GenerationShape, noise: TokenNoise, rate: Fraction, delta: float = 0.0
) -> TextsPlan:
    guarantee = price(
        shape.event(Noise(noise), rate, 1),
        neighbours=Neighbours.ADD_OR_REMOVE_ONE,
        unit="row",
        delta=delta,
    )
    return TextsPlan(_POINT, shape, ("any",), {_POOL: Drawing(rate, Noise(noise))}, guarantee)


def _trial(plan: TextsPlan) -> Trial:
    """No row, and one; whether its text is written."""
    contract = _contract()

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        rows = PrivateTable(
            pa.table(
                {
                    "label": pa.array(["any"] * which, pa.string()),
                    "text": pa.array([OWN] * which, pa.string()),
                }
            )
        )
        hits: list[bool] = []
        while len(hits) < count:
            draws = [
                Draws(stream.below(1 << 64), "audit", simulated=True)
                for _ in range(min(_RUNS_AT_ONCE, count - len(hits)))
            ]
            jobs = [WritingJob({_POINT.key: plan}, Memory(draw)) for draw in draws]
            hits += [
                texts[_POINT.key][0].text == OWN
                for texts in write(rows, contract, EchoingModel(), jobs)
            ]
        return np.array(hits)

    return Trial(draw, {"its text": lambda hits: hits}, delta=plan.guarantee.delta)


_FRESH_NOISE = TokenNoise("exponential", FRESH_EPSILON)
_FRESH = _plan(GenerationShape("exponential", False, 2, 1, None, 1, 1.0), _FRESH_NOISE, RATE)


def _drawn(plan: TextsPlan, rate: Fraction, noise: TokenNoise) -> Trial:
    """By another noise or rate than the plan's guarantee is for."""
    return _trial(replace(plan, drawings={_POOL: Drawing(rate, Noise(noise))}))


CASES = (
    # two subsets that vote on a token, into one of which the row may fall
    AuditCase(
        "few-shot-fresh",
        "one token of DP few-shot generation, exponential noise on fresh subsets",
        _FRESH.guarantee.epsilon,
        _trial(_FRESH),
        share=_SHARE,
    ).with_mutants(
        less_noise(_drawn(_FRESH, RATE, replace(_FRESH_NOISE, amount=FRESH_EPSILON * LESS_NOISE))),
        Mutant(
            "no-subsample",
            "every row takes part, yet amplification is claimed",
            _drawn(_FRESH, Fraction(1), _FRESH_NOISE),
        ),
        Mutant(
            "added-vote",
            "the noise is for an added vote, where one row changes a vote",
            _drawn(_FRESH, RATE, replace(_FRESH_NOISE, row_is_voter=True)),
        ),
    ),
)
