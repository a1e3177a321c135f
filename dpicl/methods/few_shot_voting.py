"""Steps 2 and 3 of DP few-shot generation: from private rows to voters, and to exact sums of votes.

Trust       Central; everything here is private until a token is selected.
Guarantee   none spent. One row changes the prompt of one voter, or is one voter, of each token; a
            row is cut to its own length, and a subset to what fits, whatever stands elsewhere. A
            voter that the model fails on casts no vote, whatever the failure is; a row that is no
            tokens is empty.

From `TextBlock` on: texts that are being written: the blocks that a cell's texts are written in,
each journalled token by token.

Guarantee   none spent: what is chosen here was selected under noise. The blocks are public: they
            follow from the shape and the number of texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal, Protocol

import numpy as np

from dpicl.contract.text import TextContract
from dpicl.data.prompts import example_piece, header_piece, instruction_piece
from dpicl.data.text_records import plain_text
from dpicl.ground.errors import ModelError
from dpicl.ground.randomness import Stream
from dpicl.ground.types import Demonstration, PrivateTable
from dpicl.mechanisms.difference_token import UNCLIPPED, DifferenceToken
from dpicl.mechanisms.disjoint_subsets import disjoint_subsets
from dpicl.mechanisms.keyed_subsets import KEY_BYTES, identities, keyed_subsets, record_marks
from dpicl.mechanisms.private_token import UNITS
from dpicl.methods.few_shot_plan import GenerationShape, TextsPlan, TokenKind, VoterPool, pool_of
from dpicl.methods.text_method import Secrets
from dpicl.models.asking import isolated_votes
from dpicl.models.requests import Tokens
from dpicl.models.votes import GeneratorModel, VoteRequest, VoteRule, Votes, VotingSession

SHORTEST = 8
"""Fewest tokens of an example: a context that leaves less is too small."""
VOTES: dict[TokenKind, Literal["probability", "relative", "logit", "difference"]] = {
    "gaussian": "probability",
    "exponential": "relative",
    "clipped-logits": "logit",
    "invisible-ink": "difference",
}
"""What a voter's vote is, by mechanism."""


class Journal(Secrets, Protocol):
    """What was selected so far, token by token: of two that select the same token the first one
    stands.
    """

    def read(self, key: str, step: int) -> tuple[int, ...] | None:
        """The tokens of a step, one per text of a release; None where it has not been taken."""
        ...

    def keep(self, key: str, step: int, tokens: tuple[int, ...]) -> tuple[int, ...]:
        """Keep the tokens of a step, and give those that stand."""
        ...


@dataclass(frozen=True, eq=False)
class WritingJob:
    """One unit's share of the work: the releases that are written, by their keys, and where draws
    come from and tokens are journalled.
    """

    plans: Mapping[str, TextsPlan]
    journal: Journal


@dataclass(frozen=True, eq=False)
class Text:
    """One demonstration that is to be written, itself a key; `shot` is its index in its release."""

    job: WritingJob
    key: str
    shot: int
    label: str

    @property
    def plan(self) -> TextsPlan:
        """How its release is drawn."""
        return self.job.plans[self.key]

    def stream(self, purpose: str, number: int) -> Stream:
        """Secret randomness for one token, or for one private token's test."""
        return self.job.journal.stream(self.key, f"{purpose} {self.shot} {number}")


Written = Mapping[Text, Tokens]


class Voting(Protocol):
    """Votes on the next token of some texts, given what was written of each."""

    def votes(self, written: Written) -> dict[Text, Votes]:
        """Candidates and exact sums; private, but for texts that no row votes on."""
        ...


@dataclass(frozen=True)
class WritingPrompts:
    """Prompts for one generator model: pieces are made tokens one by one, so that no row's text
    changes another's.
    """

    contract: TextContract
    model: GeneratorModel
    shape: GenerationShape

    def public(self, label: str) -> Tokens:
        """Instruction and header, no example."""
        return self._before + self._headers[label]

    def voter(self, label: str, examples: Sequence[Tokens]) -> Tokens:
        """As many of the examples as fit, from the first on."""
        room = self.shape.examples * self.example_tokens
        fitting: list[int] = []
        for example in examples:
            room -= len(example)
            if room < 0:
                break
            fitting += example
        return (*self._before, *fitting, *self._headers[label])

    def example(self, text: str, label: str) -> Tokens:
        """One row, cut to `example_tokens`."""
        tokens = tuple(self.model.encode(example_piece(self.contract, text, label)))
        if len(tokens) <= self.example_tokens:
            return tokens
        end = tuple(self.model.encode("\n\n"))
        return tokens[: self.example_tokens - len(end)] + end

    @cached_property
    def example_tokens(self) -> int:
        """Most tokens of one example: public, from the model's context and the contract.
        Raises ModelError: the context is too small for the examples of a subset.
        """
        longest = max(len(self.public(label)) for label in self.contract.demonstrated)
        most = self.contract.max_characters
        if self.model.context is None:
            return most
        room = (self.model.context - longest - self.shape.max_tokens) // self.shape.examples
        if room < SHORTEST:
            raise ModelError(
                f"model {self.model.description.name!r} reads {self.model.context} tokens, which "
                f"leaves {max(room, 0)} for each of {self.shape.examples} examples; expected at "
                f"least {SHORTEST}: fewer examples, fewer max_tokens or a longer context"
            )
        return min(room, most)

    @cached_property
    def _before(self) -> Tokens:
        return (*self.model.leading, *self.model.encode(instruction_piece(self.contract)))

    @cached_property
    def _headers(self) -> dict[str, Tokens]:
        piece = {
            label: header_piece(self.contract, self.contract.label_text(label))
            for label in self.contract.demonstrated
        }
        return {label: tuple(self.model.encode(text)) for label, text in piece.items()}


class PrivateRows:
    """The rows by pool, each made tokens when it first votes."""

    def __init__(self, train: PrivateTable, prompts: WritingPrompts) -> None:
        self._labels = np.array(train.data.column("label").to_pylist(), dtype=object)
        self._texts = train.data.column("text")
        self._prompts = prompts
        self._examples: dict[int, Tokens] = {}
        self._pools: dict[VoterPool, np.ndarray] = {}
        self._batches: dict[tuple[WritingJob, str, VoterPool], dict[int, np.ndarray]] = {}

    def of(self, pool: VoterPool) -> np.ndarray:
        """Numbers of a pool's rows, ascending."""
        if pool not in self._pools:
            is_all = pool.label is None
            self._pools[pool] = (
                np.arange(len(self._labels))
                if is_all
                else np.flatnonzero(self._labels == pool.label)
            )
        return self._pools[pool]

    def batch(self, text: Text) -> np.ndarray:
        """Numbers of the rows that vote on a text in fixed batches: those of one label are split
        once, among its texts.
        """
        pool = pool_of(self._prompts.contract, text.label)
        key = (text.job, text.key, pool)
        if key not in self._batches:
            self._batches[key] = self._split(text, pool)
        return self._batches[key][text.shot]

    def _split(self, text: Text, pool: VoterPool) -> dict[int, np.ndarray]:
        """The batch of every text that this pool's rows vote on, by the text's shot."""
        shots = [shot for shot, label in enumerate(text.plan.labels) if pool.label in (None, label)]
        numbers = self.of(pool)
        rate = text.plan.drawings[pool].rate
        stream = text.job.journal.stream(text.key, f"batches {pool.label}")
        # places by what a row holds, wherever it stands
        if text.plan.shape.kind == "invisible-ink":
            secret = stream.bytes(KEY_BYTES)
            marks = record_marks(self.identities(numbers), key=secret)
            places = keyed_subsets(
                marks, key=secret, query=0, sampling_rate=rate, subset_count=len(shots)
            )
        else:
            places = disjoint_subsets(
                len(numbers), sampling_rate=rate, subset_count=len(shots), stream=stream
            )
        order = np.argsort(places, kind="stable")
        ends = np.searchsorted(places[order], np.arange(len(shots) + 1))
        return {
            shot: numbers[order[ends[place] : ends[place + 1]]] for place, shot in enumerate(shots)
        }

    def identities(self, numbers: np.ndarray) -> list[bytes]:
        """What each of these rows is called by what it holds."""
        return identities(
            [
                f"{self._labels[number]}\n{self._texts[int(number)].as_py()}".encode(
                    errors="replace"
                )
                for number in numbers
            ]
        )

    def examples(self, numbers: Sequence[int] | np.ndarray) -> list[Tokens]:
        """These rows as examples."""
        for number in {number for number in map(int, numbers) if number not in self._examples}:
            label = self._prompts.contract.label_text(str(self._labels[number]))
            try:
                self._examples[number] = self._prompts.example(self._texts[number].as_py(), label)
            except Exception:  # noqa: BLE001 - a tokenizer may fail on a text in any way, and that must not show
                self._examples[number] = ()
        return [self._examples[int(number)] for number in numbers]


@dataclass(frozen=True)
class FreshVoting:
    """New subsets of a label's rows vote on every token."""

    rows: PrivateRows
    prompts: WritingPrompts
    rule: VoteRule

    def votes(self, written: Written) -> dict[Text, Votes]:
        """See `Voting`."""
        requests = []
        for text, tokens in written.items():
            pool = pool_of(self.prompts.contract, text.label)
            numbers = self.rows.of(pool)
            rate = text.plan.drawings[pool].rate
            stream = text.stream("subsets", len(tokens))
            places = disjoint_subsets(
                len(numbers),
                sampling_rate=rate,
                subset_count=self.prompts.shape.voters or 1,
                stream=stream,
            )
            requests.append(
                VoteRequest(
                    self.prompts.public(text.label),
                    self.voters(text.label, numbers, places),
                    tokens,
                )
            )
        return dict(
            zip(written, isolated_votes(self.prompts.model, requests, self.rule), strict=True)
        )

    def voters(self, label: str, numbers: np.ndarray, places: np.ndarray) -> tuple[Tokens, ...]:
        """One prompt per subset, for rows of which each stands in the subset of its place."""
        order = np.argsort(places, kind="stable")  # of many rows few take part
        ends = np.searchsorted(places[order], np.arange((self.prompts.shape.voters or 1) + 1))
        return tuple(
            self.prompts.voter(label, self.rows.examples(numbers[order[start:end]]))
            for start, end in pairwise(ends)
        )


class FixedVoting:
    """Every row votes on the tokens of one text, all by itself; one voter more knows no row, but
    where votes are differences to it.

    The model keeps the voters from token to token as long as none fails; after that every token is
    voted on afresh.
    """

    def __init__(self, rows: PrivateRows, prompts: WritingPrompts, rule: VoteRule) -> None:
        self._rows = rows
        self._prompts = prompts
        self._rule = rule
        self._session: VotingSession | None = None
        self._failed = False
        self._texts: list[Text] = []
        self._read: dict[Text, int] = {}
        """How many tokens of a text the session's voters have read."""

    def votes(self, written: Written) -> dict[Text, Votes]:
        """See `Voting`; the texts of the first call are all that there will be."""
        if not self._failed:
            try:
                if self._session is None:
                    self._texts = list(written)
                    self._session = self._prompts.model.session(self._requests(written), self._rule)
                    self._read = {text: len(tokens) for text, tokens in written.items()}
                new_tokens = [
                    written[text][self._read[text] :] if text in written else None
                    for text in self._texts
                ]
                self._read |= {text: len(tokens) for text, tokens in written.items()}
                votes = zip(self._texts, self._session.vote(new_tokens), strict=True)
                return {text: of_text for text, of_text in votes if of_text is not None}
            except Exception:  # noqa: BLE001 - a tokenizer may fail on a text in any way, and that must not show
                self._failed = True
                self._session = None
        return dict(
            zip(
                written,
                isolated_votes(self._prompts.model, self._requests(written), self._rule),
                strict=True,
            )
        )

    def _requests(self, written: Written) -> list[VoteRequest]:
        requests = []
        for text, tokens in written.items():
            public = self._prompts.public(text.label)
            voters = (
                self._prompts.voter(text.label, [example])
                for example in self._rows.examples(self._rows.batch(text))
            )
            without = () if self._rule.kind == "difference" else (public,)
            requests.append(VoteRequest(public, (*without, *voters), tokens))
        return requests


@dataclass(frozen=True)
class PublicVoting:
    """The model alone: what it writes from the instruction."""

    prompts: WritingPrompts

    def votes(self, written: Written) -> dict[Text, Votes]:
        """See `Voting`."""
        rule = VoteRule("probability", self.prompts.shape.candidates, UNITS)
        requests = [
            VoteRequest(self.prompts.public(text.label), (), tokens)
            for text, tokens in written.items()
        ]
        return dict(zip(written, self.prompts.model.vote(requests, rule), strict=True))


def open_voting(rows: PrivateRows, prompts: WritingPrompts, rule: VoteRule) -> Voting:
    """How texts are voted on by these rows."""
    return (FixedVoting if prompts.shape.fixed else FreshVoting)(rows, prompts, rule)


def rule_of(shape: GenerationShape, plan: TextsPlan | None = None) -> VoteRule:
    """What a vote is, the same for all texts of a release; without a plan, of differences that are
    not clipped.
    """
    if shape.kind != "invisible-ink":
        return VoteRule(
            VOTES[shape.kind],
            shape.candidates,
            UNITS,
            shape.clip if shape.kind == "clipped-logits" else None,
        )
    tokens = [drawing.noise.token for drawing in plan.drawings.values()] if plan else []
    clips = [token.clip for token in tokens if isinstance(token, DifferenceToken)]
    return VoteRule(
        VOTES[shape.kind], shape.candidates, UNITS, max(clips, default=UNCLIPPED), shape.voters
    )


ENDED = -1
"""In place of a token, for a text that has ended before."""
VOTERS_AT_ONCE = 2_000
"""Of fixed batches: as many as may fill the memory with what the model keeps of each."""
TEXTS_A_BLOCK = 50
"""Most texts that share a file of the journal: their tokens of one step are stored at once, and are
lost together by a kill.
"""
Choose = Callable[
    [Sequence[Text], int, Mapping[Text, int], Mapping[Text, Votes]], list[tuple[int, bool]]
]
"""For texts of a block, the number of their token and of private tokens before: the place of each
one's candidate, and whether it is a private token.
"""


class TextBlock:
    """A block of the texts of one release, as far as they are written.

    Args:
        first: what the journal calls the block's first step; the others follow.
    """

    def __init__(
        self,
        job: WritingJob,
        key: str,
        texts: Sequence[Text],
        first: int,
        prompts: WritingPrompts,
    ) -> None:
        self.key = key
        self.job = job
        self._first = first
        self._written: dict[Text, Tokens] = dict.fromkeys(texts, ())
        self._ended: set[Text] = set()
        self._private_tokens: Counter[Text] = Counter()
        self.steps = 0
        self.most = prompts.shape.max_tokens
        self._model = prompts.model
        while self.is_open and (tokens := job.journal.read(key, first + self.steps)) is not None:
            self._append(tokens)

    def __len__(self) -> int:
        return len(self._written)

    @property
    def open(self) -> dict[Text, Tokens]:
        """What is written of the texts that go on."""
        return {
            text: tokens
            for text, tokens in self._written.items()
            if self.is_open and text not in self._ended
        }

    @property
    def is_open(self) -> bool:
        """Whether any text goes on."""
        return self.steps < self.most and len(self._ended) < len(self._written)

    def advance(self, votes: Mapping[Text, Votes], choose: Choose) -> None:
        """Steps 4 and 5 for every text that goes on; what was chosen is journalled before anything
        follows from it.
        """
        texts = list(self.open)
        places = choose(texts, self.steps, self._private_tokens, votes)
        chosen = {
            text: 2 * int(votes[text].candidates[place]) + is_private
            for text, (place, is_private) in zip(texts, places, strict=True)
        }
        tokens = tuple(chosen.get(text, ENDED) for text in self._written)
        self._append(self.job.journal.keep(self.key, self._first + self.steps, tokens))

    def _append(self, numbers: Sequence[int]) -> None:
        """One number per text: twice the token, and 1 more for a private token."""
        for text, number in zip(self._written, numbers, strict=True):
            token, is_private = divmod(number, 2)
            if number == ENDED or token in self._model.ends:
                self._ended.add(text)
            else:
                self._written[text] += (token,)
                self._private_tokens[text] += is_private
        self.steps += 1

    def demonstrations(self) -> tuple[Demonstration, ...]:
        """The finished texts with their labels."""
        decode = self._model.decode
        return tuple(
            Demonstration(text.label, plain_text(decode(tokens)))
            for text, tokens in self._written.items()
        )


def drafts_of(
    job: WritingJob, key: str, labels: Sequence[str], prompts: WritingPrompts, voters: int
) -> list[TextBlock]:
    """All texts of a release, in blocks of as many as `texts_a_block`; the steps of its only block
    are 0, 1, ... in the journal, those of block b of several begin at b times the most tokens,
    b = 1, 2, ...

    Args:
        voters: of one text.
    """
    texts = [Text(job, key, shot, label) for shot, label in enumerate(labels)]
    size = texts_a_block(prompts.shape, voters)
    most = prompts.shape.max_tokens
    blocks = [texts[start : start + size] for start in range(0, len(texts), size)]
    firsts = [0] if len(blocks) == 1 else [number * most for number in range(1, len(blocks) + 1)]
    return [
        TextBlock(job, key, block, first, prompts)
        for block, first in zip(blocks, firsts, strict=True)
    ]


def shares(plans: Mapping[str, TextsPlan], parts: int) -> list[list[str]]:
    """Releases in so many parts of about equal work, by their public sizes; the costliest first."""
    costs = {key: _rows_read(plan) for key, plan in plans.items()}
    shared: list[list[str]] = [[] for _ in range(parts)]
    for key in sorted(costs, key=lambda key: -costs[key]):
        min(shared, key=lambda part: sum(costs[other] for other in part)).append(key)
    return shared


def _rows_read(plan: TextsPlan) -> int:
    """For all tokens of all texts of a release, at most."""
    shape = plan.shape
    voters = shape.voters or max(pool.row_bound for pool in plan.drawings)
    return len(plan.labels) * shape.max_tokens * voters * shape.examples


def texts_a_block(shape: GenerationShape, voters: int) -> int:
    """Of fixed batches no more than have `VOTERS_AT_ONCE`, so that a block never keeps more in
    memory.
    """
    if shape.fixed:
        return max(1, min(TEXTS_A_BLOCK, VOTERS_AT_ONCE // max(1, voters)))
    return TEXTS_A_BLOCK


def side_by_side(
    drafts: Sequence[TextBlock], shape: GenerationShape, voters: int
) -> list[Sequence[TextBlock]]:
    """Drafts in groups that are written at once: of fixed batches, whose caches are kept, as many
    as `VOTERS_AT_ONCE` allows.

    Args:
        voters: of one text.
    """
    if not shape.fixed:
        return [drafts]
    most = max(1, VOTERS_AT_ONCE // max(1, voters * max(len(draft) for draft in drafts)))
    return [drafts[start : start + most] for start in range(0, len(drafts), most)]
