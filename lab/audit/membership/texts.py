"""Releases of texts with and without a planted one, and what an attacker makes of them who knows
all but that.

    likelihood ratio   of the text that the planted row votes on, by the law of its tokens with that
                       row and without (invisible ink only): the attacker knows every other row, the
                       model, and the key that places rows
    n-gram model       log-likelihood of the planted text in a bigram model of the released texts,
                       less the mean of texts like it
    shared n-grams     how many of the planted text's n-grams, n = 1 to 4, stand in the released
                       texts, the longer the more
    best number, shadow model    of how often each word and each pair of the planted text stands
                                 there, see `attacks`

    (1)  ln P[text | in] - ln P[text | out],   P[token] proportional to exp(r s / (2 S)),   s exact
         scores, see `mechanisms.difference_token`

The planted text begins as others do and goes on with words that are unlikely, and not so unlikely
that texts which are to be ordinary never have them: an outlier by all its words leaves no trace.
The generator repeats an example's words in their order; a trained model does that less surely, so
that what it releases tells less.

Paper       canaries, bigram model and shared n-grams: Meeus, Wutschitz, Zanella-Beguelin, Tople and
            Shokri 2025 (arXiv 2502.14921), who attack texts of a fine-tuned model.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from dpicl.accounting.guarantee import Guarantee
from dpicl.contract import TextContract, parse_contract
from dpicl.ground.randomness import Draws, Stream, stream
from dpicl.ground.types import PrivateTable
from dpicl.mechanisms.difference_token import SPREAD, DifferenceToken
from dpicl.methods import METHODS, Options, unit_of
from dpicl.methods.few_shot_generation import FewShotGeneration, write
from dpicl.methods.few_shot_plan import TextsPlan, plan_release
from dpicl.methods.few_shot_voting import PrivateRows, Text, WritingJob, WritingPrompts, rule_of
from dpicl.methods.grid import points
from dpicl.methods.text_method import Memory
from dpicl.models.requests import Tokens
from dpicl.models.votes import GeneratorModel, VoteRequest
from lab.audit.membership.attacks import Attacked, by_best_number, by_score, by_shadows
from lab.audit.membership.repeating import ODDS, WORDS, RepeatingModel, Unclipped

TEXTS, TOKENS, LIKE_IT = 3, 3, 16
"""Of a release; and texts that the attacker compares the planted one with."""
TEXT_EPSILONS = (1.0, 4.0, 8.0)
_LONGEST, _AT_ONCE, _CERTAIN = 4, 250, 200.0
"""Of shared n-grams; releases that are written side by side; in place of r where there is no
noise.
"""
Words = tuple[str, ...]


@dataclass(frozen=True)
class TextMutant:
    """A broken method: what its noise makes of epsilon, and whether differences are clipped."""

    what_is_wrong: str
    epsilon_times: float = 1.0
    clipped: bool = True


NO_NOISE = {"no-noise": TextMutant("the largest sum of votes is taken as it is", math.inf)}
LESS_NOISE = {"less-noise": TextMutant("noise of a tenth of the scale", 10)}
NO_CLIP = {"no-clip": TextMutant("a row moves a token by as much as it likes", clipped=False)}


@dataclass(frozen=True)
class TextWay:
    """A mechanism with its options."""

    options: Mapping[str, Any]
    mutants: Mapping[str, TextMutant]


INK = "Texts, invisible ink"
TEXT_WAYS: dict[str, TextWay] = {
    INK: TextWay(
        {"mechanism": "invisible-ink", "batches": "fixed", "voters": 1},
        NO_NOISE | LESS_NOISE | NO_CLIP,
    ),
    "Texts, kept batches": TextWay({"mechanism": "clipped-logits", "batches": "fixed"}, NO_NOISE),
    "Texts, fresh batches": TextWay(
        {"mechanism": "gaussian", "voters": 2, "examples": 1}, NO_NOISE
    ),
}
"""By name."""


@dataclass(frozen=True)
class TextTarget:
    """Texts that are not in question, the planted one, and the model that reads and writes; all of
    one label.

    Args:
        like_it: texts of the same kind as the planted one that are in no table.
        texts, tokens: of one release, and of each text.
    """

    contract: TextContract
    model: GeneratorModel
    label: str
    others: tuple[str, ...]
    canary: str
    like_it: tuple[str, ...]
    texts: int = TEXTS
    tokens: int = TOKENS

    def table(self, which: bool) -> PrivateTable:
        """What is released where the planted text is in, as the last row, and where it is not."""
        texts = (*self.others, self.canary) if which else self.others
        return PrivateTable(
            pa.table(
                {
                    "label": pa.array([self.label] * len(texts), pa.string()),
                    "text": pa.array(texts, pa.string()),
                }
            )
        )


def made_up_texts() -> TextTarget:
    """Texts from which the model learns nothing, one for each that is written, and one of words
    that it knows.
    """
    words = {"instruction": "Write.", "label": "Kind", "text": "Text"}
    task = {
        "kind": "extraction",
        "field": "label",
        "min_rows": TEXTS,
        "labels": ["any"],
        "answer_tokens": 1,
    }
    content = {
        "version": 2,
        "kind": "text",
        "name": "made_up_texts",
        "source": {"bundled": "docstrings"},
        "privacy": {"budget": {"benchmark": True}},
        "text": "{text}",
        "max_characters": 60,
        "task": task,
        "query_count": 1,
        "prompts": {"generation": words, "answering": {"text": "Text", "answer": "Kind"}},
        "generation": {
            "subsets": 2,
            "examples": 1,
            "candidates": None,
            "max_tokens": TOKENS,
            "delta": "1/100000",
        },
    }
    contract = parse_contract(content, "made_up_texts")
    assert isinstance(contract, TextContract)
    chance = stream(0, "membership", "made_up_texts", "").generator()
    like_it = tuple(
        " ".join(chance.choice(WORDS, TOKENS, replace=False, p=ODDS).tolist())
        for _ in range(LIKE_IT)
    )
    return TextTarget(
        contract,
        RepeatingModel(),
        "any",
        ("of no words",) * TEXTS,
        " ".join(WORDS[1 : 1 + TOKENS]),
        like_it,
    )


class TextScene:
    """One way at one epsilon on the two tables of a target."""

    def __init__(
        self, way: TextWay, target: TextTarget, epsilon: float, mutant: TextMutant | None = None
    ) -> None:
        self.target, broken = target, mutant or TextMutant("")
        self.model: GeneratorModel = target.model if broken.clipped else Unclipped(target.model)
        self.plan = self._plan(way, epsilon * broken.epsilon_times)
        self.prompts = WritingPrompts(target.contract, self.model, self.plan.shape)
        self.tables = {which: target.table(which) for which in (True, False)}
        self.rule = rule_of(self.plan.shape, self.plan)
        self._likelihoods: dict[tuple[str, tuple[Tokens, ...], Tokens], float] = {}

    def _plan(self, way: TextWay, epsilon: float) -> TextsPlan:
        options = Options.model_validate(
            {FewShotGeneration.name: {**way.options, "max_tokens": self.target.tokens}}
        )
        name = self.target.contract.name
        unit = unit_of(
            FewShotGeneration.name, name, 0, (epsilon,), (self.target.texts,), (), False, options
        )
        (point,) = points(METHODS[FewShotGeneration.name], unit).values()
        return plan_release(self.target.contract, point)

    @property
    def charged(self) -> Guarantee:
        """The price of a release."""
        return self.plan.guarantee

    def released(
        self, which: bool, runs: int, chance: Stream
    ) -> list[tuple[WritingJob, tuple[Words, ...]]]:
        """So many releases: the words of every text."""
        found: list[tuple[WritingJob, tuple[Words, ...]]] = []
        while len(found) < runs:
            draws = [
                Draws(chance.below(1 << 64), "membership", simulated=True)
                for _ in range(min(_AT_ONCE, runs - len(found)))
            ]
            key = self.plan.point.key
            jobs = [WritingJob({key: self.plan}, Memory(draw)) for draw in draws]
            written = write(self.tables[which], self.target.contract, self.model, jobs)
            found += [
                (job, tuple(tuple(text.text.split()) for text in texts[key]))
                for job, texts in zip(jobs, written, strict=True)
            ]
        return found

    def ratio(self, job: WritingJob, texts: Sequence[Words]) -> float:
        """Equation (1)."""
        rows, planted = self._rows, len(self.target.others)
        for shot, words in enumerate(texts):
            text = Text(job, self.plan.point.key, shot, self.plan.labels[shot])
            numbers = rows.batch(text)
            if planted in numbers:
                batches = [
                    tuple(rows.examples(some)) for some in (numbers, numbers[numbers != planted])
                ]
                tokens = self.model.encode(" ".join(words))
                inside, outside = (self._likelihood(text.label, batch, tokens) for batch in batches)
                return inside - outside
        return 0.0

    @cached_property
    def _rows(self) -> PrivateRows:
        return PrivateRows(self.tables[True], self.prompts)

    def _likelihood(self, label: str, batch: tuple[Tokens, ...], tokens: Tokens) -> float:
        """The same texts and batches come again and again."""
        if (label, batch, tokens) not in self._likelihoods:
            self._likelihoods[label, batch, tokens] = self._likelihood_of(label, batch, tokens)
        return self._likelihoods[label, batch, tokens]

    def _likelihood_of(self, label: str, batch: Sequence[Tokens], tokens: Tokens) -> float:
        voters = tuple(self.prompts.voter(label, [example]) for example in batch)
        public = self.prompts.public(label)
        requests = [VoteRequest(public, voters, tokens[:place]) for place in range(len(tokens))]
        found = 0.0
        for votes, token in zip(self.model.vote(requests, self.rule), tokens, strict=True):
            (noise,) = {drawing.noise.token for drawing in self.plan.drawings.values()}
            assert isinstance(noise, DifferenceToken)
            scores = (
                votes.scores.astype(np.float64)
                * (_CERTAIN if noise.amount is None else float(noise.amount))
                / SPREAD
            )
            scores -= scores.max()
            found += float(scores[votes.candidates == token][0] - math.log(np.exp(scores).sum()))
        return found


def attack_texts_once(
    way: TextWay, target: TextTarget, epsilon: float, mutant: str, runs: int, chance: Stream
) -> list[Attacked]:
    """All attacks on so many releases of either table."""
    scene = TextScene(way, target, epsilon, way.mutants[mutant] if mutant else None)
    seen = [scene.released(which, runs, chance) for which in (True, False)]
    found = []
    if scene.plan.shape.kind == "invisible-ink":
        found.append(
            by_score(
                "likelihood ratio",
                *(np.array([scene.ratio(*one) for one in some]) for some in seen),
            )
        )
    texts = [[released for _, released in some] for some in seen]
    canary, like_it = tuple(target.canary.split()), [tuple(one.split()) for one in target.like_it]
    found.append(
        by_score(
            "n-gram model",
            *(np.array([_bigram_score(one, canary, like_it) for one in some]) for some in texts),
        )
    )
    found.append(
        by_score(
            "shared n-grams", *(np.array([_shared(one, canary) for one in some]) for some in texts)
        )
    )
    # texts that shared noise would differ by the planted one
    differ = [np.array([float(len(set(one)) > 1) for one in some]) for some in texts]
    found.append(by_score("texts differ", *differ))
    numbers = [np.array([_counts(one, canary) for one in some]) for some in texts]
    return [*found, by_best_number("best number", *numbers), by_shadows("shadow model", *numbers)]


def _grams(words: Words, length: int) -> list[Words]:
    return [words[place : place + length] for place in range(len(words) - length + 1)]


def _bigram_score(texts: Sequence[Words], canary: Words, like_it: Sequence[Words]) -> float:
    """Log-likelihood of the planted text less the mean of those like it; bigrams are smoothed by
    one half of the words' shares.
    """
    single = Counter(word for words in texts for word in words)
    pairs, before = (
        Counter(pair for words in texts for pair in _grams(words, 2)),
        Counter(word for words in texts for word in words[:-1]),
    )
    total, known = (
        sum(single.values()),
        len({*single, *canary, *(word for words in like_it for word in words)}),
    )

    def one(word: str) -> float:
        return (single[word] + 1) / (total + known)

    def score(words: Words) -> float:
        return math.log(one(words[0])) + sum(
            math.log(
                0.5 * one(pair[1])
                + 0.5 * (pairs[pair] / before[pair[0]] if before[pair[0]] else one(pair[1]))
            )
            for pair in _grams(words, 2)
        )

    return score(canary) - float(np.mean([score(words) for words in like_it]))


def _shared(texts: Sequence[Words], canary: Words) -> float:
    """The planted text's n-grams among those of the texts, each as much as it is long."""
    score = 0.0
    for length in range(1, _LONGEST + 1):
        mine = set(_grams(canary, length))
        score += length * sum(gram in mine for words in texts for gram in _grams(words, length))
    return score


def _counts(texts: Sequence[Words], canary: Words) -> list[float]:
    """How often each word and pair of the planted text stands in the texts."""
    found = Counter(gram for words in texts for length in (1, 2) for gram in _grams(words, length))
    return [
        float(found[gram]) for length in (1, 2) for gram in dict.fromkeys(_grams(canary, length))
    ]
