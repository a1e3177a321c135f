"""Made-up texts, models without a model, and methods on texts that draw from them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from dpicl.contract import TextContract, parse_contract
from dpicl.contract.pipeline import Point
from dpicl.ground.randomness import Draws
from dpicl.ground.types import PrivateTable
from dpicl.mechanisms.difference_token import DifferenceToken
from dpicl.mechanisms.noisy_embedding import EmbeddingNoise
from dpicl.mechanisms.private_token import TokenNoise
from dpicl.mechanisms.stable_top import StableTop
from dpicl.methods import METHODS, Options, dp_icl, few_shot_generation, grid, unit_of
from dpicl.methods.ensemble_plan import JointNoise, plan_release
from dpicl.methods.ensemble_voting import Public, write_candidates
from dpicl.methods.few_shot_plan import plan_release as plan_texts
from dpicl.models.embedding import HashedNGrams
from dpicl.models.kinds.fake import EchoGenerator, HashScorer
from dpicl.models.requests import ModelDescription, Progress, Sampling
from lab.audit.transcripts.record import HeardMemory, Open
from lab.audit.transcripts.worlds import Case, Price, World

_WORDS = ("ash", "birch", "cedar", "elm", "fir", "oak", "pine", "yew")
_LABELS = ("no", "yes")
_QUERIES = 3
_TOKENS = 6


@dataclass(frozen=True)
class EchoScorer:
    """Answers as the last demonstration of a prompt does, and repeats its text; without one, as
    hashes say.
    """

    hashed: HashScorer = field(default_factory=HashScorer)

    @property
    def description(self) -> ModelDescription:
        """That of hashes."""
        return self.hashed.description

    def score(
        self,
        prompts: Sequence[str],
        continuations: Sequence[str],
        *,
        progress: Progress | None = None,
    ) -> np.ndarray:
        """See `Scorer.score`."""
        scores = self.hashed.score(prompts, continuations, progress=progress) / 100
        for line, prompt in zip(scores, prompts, strict=True):
            last = _answer(prompt)
            line += [2.0 * (last == said.strip()) - 3 for said in continuations]
        return scores

    def generate(self, prompts: Sequence[str], sampling: Sampling) -> list[str]:
        """See `TextGenerator.generate`."""
        hashed = self.hashed.generate(prompts, sampling)
        return [_answer(prompt) or said for prompt, said in zip(prompts, hashed, strict=True)]


def _answer(prompt: str) -> str:
    """Of a prompt's last demonstration."""
    answered = [line for line in prompt.splitlines()[:-1] if line.startswith("Kind:")]
    return answered[-1].removeprefix("Kind:").strip() if answered else ""


@dataclass(frozen=True)
class Kind:
    """How texts are drawn from: options of a pipeline, of labels or of free answers."""

    method: str
    options: Mapping[str, Any]
    epsilon: float = 4.0
    labels: bool = True
    persons: bool = False

    @property
    def has_coins(self) -> bool:
        """Whether rows are sampled, or placed, by bits in their order."""
        is_ink = self.options.get("mechanism") == "invisible-ink"
        return self.method == few_shot_generation.FewShotGeneration.name and not is_ink


def world(kind: Kind, rng: np.random.Generator) -> World:
    """Texts, and one more."""
    contract = _contract(kind)
    options = Options.model_validate({kind.method: kind.options})
    unit = unit_of(kind.method, contract.name, 0, (kind.epsilon,), (2,), (), False, options)
    point = next(iter(grid.points(METHODS[kind.method], unit).values()))
    rows = [_row(rng, kind) for _ in range(int(rng.choice([0, 1, 6, 20])))]
    if rng.integers(3) == 0:
        rows = rows[:1] * len(rows)
    new = _row(rng, kind)
    if rows and rng.integers(3) == 0:
        new = rows[int(rng.integers(len(rows)))]
    # coins of rows are given by their place, so that only a last row leaves the others theirs
    place = len(rows) if kind.has_coins else int(rng.integers(len(rows) + 1))
    own = 1 + int(kind.persons and rng.integers(4))  # of whom some may not enter
    more = [*rows[:place], *[("new", *new[1:])] * own, *rows[place:]]
    tables = [_table(rows, kind), _table(more, kind)]
    if rng.integers(2):
        tables.reverse()
    if kind.method == few_shot_generation.FewShotGeneration.name:
        return World(
            partial(_written, contract, point, tables), _price_of_texts(contract, point), 1
        )
    queries = [" ".join(rng.choice(_WORDS, 3)) for _ in range(_QUERIES)]
    return World(partial(_answered, contract, point, queries, tables), _price(contract, point), 1)


def _row(rng: np.random.Generator, kind: Kind) -> tuple[str, str, str]:
    """A person, a label or an answer, and a text."""
    answer = str(rng.choice(_LABELS)) if kind.labels else " ".join(rng.choice(_WORDS, 2))
    text = " ".join(rng.choice(_WORDS, int(rng.integers(0, 4))))
    return f"p{rng.integers(5)}", answer, text


def _table(rows: Sequence[tuple[str, str, str]], kind: Kind) -> PrivateTable:
    persons, labels, texts = (
        pa.array([row[place] for row in rows], pa.string()) for place in range(3)
    )
    columns = {"label": labels, "text": texts}
    if kind.persons:
        columns["person"] = persons
    return PrivateTable(pa.table(columns))


def _contract(kind: Kind) -> TextContract:
    task: dict[str, Any] = {
        "kind": "classification",
        "field": "label",
        "labels": {label: {"text": label, "min_rows": 16} for label in _LABELS},
    }
    if not kind.labels:
        task = {"kind": "generation", "field": "label", "min_rows": 16, "answer_tokens": 8}
    privacy: dict[str, Any] = {"budget": {"benchmark": True, "delta": 1e-3}}
    if kind.persons:
        privacy |= {"unit": "person", "person": {"id_column": "person", "max_rows": 2}}
    content: dict[str, Any] = {
        "version": 2,
        "kind": "text",
        "name": "audit",
        "source": {"bundled": "docstrings"},
        "privacy": privacy,
        "text": "{text}",
        "max_characters": 40,
        "task": task,
        "query_count": _QUERIES,
        "prompts": {"answering": {"text": "Text", "answer": "Kind"}},
        "ensemble": {"subsets": 4, "delta": "1/1000", "candidates": 4, "keywords": 2},
    }
    if kind.method == few_shot_generation.FewShotGeneration.name:
        content["prompts"]["generation"] = {
            "instruction": "Write.",
            "label": "Kind",
            "text": "Text",
        }
        content["generation"] = {
            "subsets": 4,
            "examples": 1,
            "candidates": 20,
            "max_tokens": _TOKENS,
            "delta": "1/1000",
        }
    contract = parse_contract(content, "audit")
    assert isinstance(contract, TextContract)
    return contract


def _written(
    contract: TextContract,
    point: Point[Any],
    tables: Sequence[PrivateTable],
    which: bool,
    opened: Open,
) -> bytes:
    memory = HeardMemory(Draws(0, contract.name, simulated=False), opened)
    job = few_shot_generation.job_of(contract, [point], memory)
    (drawn,) = few_shot_generation.write(tables[which], contract, EchoGenerator(), [job])
    method = few_shot_generation.FewShotGeneration()
    return json.dumps(method.encode(drawn[point.key])).encode()


def _answered(
    contract: TextContract,
    point: Point[Any],
    queries: Sequence[str],
    tables: Sequence[PrivateTable],
    which: bool,
    opened: Open,
) -> bytes:
    draws = Draws(0, contract.name, simulated=False)
    memory = HeardMemory(draws, opened)
    plans = {point.key: plan_release(contract, point)}
    embedder, model = HashedNGrams(), EchoScorer()
    job = dp_icl.AnsweringJob(contract, plans, draws, memory, memory, embedder)
    numbered = list(enumerate(queries))
    votes = dp_icl.consult(tables[which], numbered, model, job)
    public = Public(write_candidates(queries, contract, 0, model), embedder)
    answers = dp_icl.answer(job, votes, numbered, public)
    return json.dumps(dp_icl.DpIcl().encode(answers[point.key])).encode()


def _price(contract: TextContract, point: Point[Any]) -> Price:
    """What each answer may tell, and how many answers a unit takes part in."""
    plan = plan_release(contract, point)
    noise, uses = plan.noise, plan.shape.uses
    if isinstance(noise, (TokenNoise, EmbeddingNoise)) and plan.shape.gaussian:
        return Price(movement=noise.squared_movement, variance=_variance(noise), steps=uses)
    if isinstance(noise, StableTop):
        assert noise.size_epsilon is not None and noise.test_epsilon is not None
        step = float(max(noise.size_epsilon, noise.test_epsilon))
        return Price(step=step, steps=2 * uses, failed=float(noise.delta) * uses)
    amount = noise.epsilon if isinstance(noise, JointNoise) else noise.amount  # type: ignore[union-attr]
    assert amount is not None
    return Price(step=float(amount), steps=uses)


def _variance(noise: TokenNoise | EmbeddingNoise) -> float:
    """What the price of one step is of."""
    return float(Fraction(str(dict(noise.event().parameters)["variance"])))


def _price_of_texts(contract: TextContract, point: Point[Any]) -> Price:
    """What each token may tell, and for how many tokens a row's label pays."""
    plan = plan_texts(contract, point)
    shape = plan.shape
    texts = max(plan.labels.count(label) for label in plan.labels)
    noise = next(iter(plan.drawings.values())).noise
    token, amount = noise.token, noise.token.amount
    assert amount is not None
    tokens = shape.max_tokens * (1 if shape.fixed else texts)
    if isinstance(token, DifferenceToken):
        return Price(step=float(amount), steps=tokens)
    if token.kind == "gaussian":
        return Price(movement=token.squared_movement, variance=_variance(token), steps=tokens)
    if noise.test is None:
        return Price(step=float(amount), steps=tokens)
    assert shape.private_tokens is not None and noise.test.epsilon is not None
    step = float(max(amount, noise.test.epsilon))
    return Price(step=step, steps=2 * shape.private_tokens)


_FIXED = {"batches": "fixed"}
_INK = {**_FIXED, "mechanism": "invisible-ink", "voters": 4}
_GENERATED: Mapping[str, Mapping[str, Any]] = {
    "fresh, gaussian": {},
    "fresh, sampled": {"temperature": 1.0, "top_k": 3},
    "fresh, exponential": {"mechanism": "exponential"},
    "fixed, gaussian": _FIXED,
    "fixed, clipped logits": {**_FIXED, "mechanism": "clipped-logits"},
    "fixed, private tokens": {**_FIXED, "mechanism": "exponential", "private_tokens": 2},
    "invisible ink": _INK,
}
_VOTED: Mapping[str, Mapping[str, Any]] = {
    "votes, gaussian": {},
    "votes, exponential": {"noise": "exponential"},
    "votes, calibrated": {"calibrate": True},
    "soft votes": {"aggregation": "soft-votes"},
    "retrieved": {"similarity": 0.2, "participations": 2},
}
_FREE: Mapping[str, Mapping[str, Any]] = {
    "embedding": {"aggregation": "embedding"},
    "keywords, joint": {"aggregation": "keywords-joint"},
    "keywords, stable": {"aggregation": "keywords-ptr", "subsets": 8},
}


def cases() -> list[Case]:
    """Of all methods on texts."""
    kinds = {
        f"few_shot_generation: {name}": Kind(few_shot_generation.FewShotGeneration.name, options)
        for name, options in _GENERATED.items()
    }
    kinds |= {
        f"dp_icl: {name}": Kind(dp_icl.DpIcl.name, options) for name, options in _VOTED.items()
    }
    # so that sets of words leave now and then
    kinds |= {
        f"dp_icl: {name}": Kind(dp_icl.DpIcl.name, options, epsilon=40.0, labels=False)
        for name, options in _FREE.items()
    }
    persons = replace(kinds["dp_icl: votes, gaussian"], persons=True)
    kinds["dp_icl: votes, persons"] = persons
    return [Case(name, kind.method, partial(world, kind)) for name, kind in kinds.items()]
