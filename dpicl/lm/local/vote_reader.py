"""From ballots to exact sums: candidates from the public prompts, then every voter's vote at once.

Public prompts are read by themselves, so that not even rounding lets a voter touch the candidates.
Distributions stay on the device, a batch of voters at a time; candidates and sums leave it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from dpicl.errors import ModelError
from dpicl.lm.local.batching import Tokens
from dpicl.lm.local.padded_reader import Places
from dpicl.lm.votes.integer_votes import candidates_of, whole_votes
from dpicl.lm.votes.voting import VoteRequest, VoteRule, Votes, check_public, fits

_ROWS_AT_ONCE = 64
"""Rows of a large vocabulary in float64 would fill a GPU's memory."""

Key = tuple[int, int]
"""A row: the number of its ballot, and its number among the ballot's distinct voters."""
Rows = Mapping[Key, Tokens]


@dataclass(frozen=True)
class Reader:
    """A model as votes need it.

    Args:
        known: ids of all tokens that may be written, ascending, on the device.
        vocabulary: ids of tokens that can be read are below it; a tokenizer may know more.
        read: rows and the positions wanted of each to places and logits, in no particular order.
    """

    model: Any
    name: str
    device: torch.device
    known: torch.Tensor
    context: int | None
    token_budget: int
    vocabulary: int
    read: Callable[[Sequence[Tokens], Sequence[Sequence[int]]], Iterator[tuple[Places, torch.Tensor]]]


class LastLogits(Protocol):
    """Reads rows and tells what follows them."""

    def after(self, rows: Rows) -> Iterator[tuple[list[Key], torch.Tensor]]:
        """Every row once, in any order: keys and logits of shape (keys, vocabulary), on the device."""
        ...


@dataclass(frozen=True)
class FreshRows:
    """Reads every distinct row from its beginning and keeps nothing."""

    reader: Reader

    def after(self, rows: Rows) -> Iterator[tuple[list[Key], torch.Tensor]]:
        """See `LastLogits.after`; what is read together follows from the set of rows alone."""
        keys: dict[Tokens, list[Key]] = {}
        for key, row in rows.items():
            keys.setdefault(row, []).append(key)
        distinct = sorted(keys)
        for places, logits in self.reader.read(distinct, [(len(row) - 1,) for row in distinct]):
            owners = [(line, key) for line, (row, _) in enumerate(places) for key in keys[distinct[row]]]
            yield [key for _, key in owners], logits[[line for line, _ in owners]]


def count_votes(
    reader: Reader, ballots: Mapping[int, VoteRequest], rule: VoteRule, public: LastLogits, voters: LastLogits
) -> dict[int, Votes]:
    """Votes on every ballot, by its number; see `GeneratorModel.vote`.

    Args:
        public, voters: what reads the public prompts, and what reads the voters'.
    """
    tally = _Tally(reader, rule)
    prompts = {(number, 0): ballot.public + ballot.written for number, ballot in ballots.items()}
    check_public(prompts.values(), name=reader.name, context=reader.context)
    for keys, logits in public.after(prompts):
        for line, (number, _) in enumerate(keys):
            tally.open(number, logits[line])
            if not ballots[number].voters:
                tally.add(number, logits[line : line + 1], [1])
    repeats = {number: list(Counter(ballot.voters).items()) for number, ballot in ballots.items()}
    rows = {
        (number, voter): prompt + ballots[number].written
        for number, distinct in repeats.items()
        for voter, (prompt, _) in enumerate(distinct)
    }
    readable = {key: row for key, row in rows.items() if fits(row, reader.context) and max(row) < reader.vocabulary}
    for keys, logits in voters.after(readable):
        for number, lines in _lines(keys).items():
            tally.add(number, logits[lines], [repeats[number][keys[line][1]][1] for line in lines])
    return tally.told()


def _lines(keys: Sequence[Key]) -> dict[int, list[int]]:
    """Which lines belong to each ballot."""
    found: dict[int, list[int]] = {}
    for line, (number, _) in enumerate(keys):
        found.setdefault(number, []).append(line)
    return found


class _Tally:
    """Candidates and sums of every ballot, on the device until they are told."""

    def __init__(self, reader: Reader, rule: VoteRule) -> None:
        self._reader, self._rule = reader, rule
        self._candidates: dict[int, torch.Tensor] = {}
        self._sums: dict[int, torch.Tensor] = {}

    def open(self, number: int, logits: torch.Tensor) -> None:
        """Take a ballot's candidates from its public prompt's logits, shape (vocabulary,)."""
        if not bool((logits < float("inf")).all()):
            raise ModelError(f"model {self._reader.name!r} answered with numbers that are not finite; expected dtype float32 or bfloat16")
        known = self._reader.known[self._reader.known < len(logits)]
        self._candidates[number] = candidates_of(logits, known, self._rule.candidates, torch)
        self._sums[number] = torch.zeros(len(self._candidates[number]), dtype=torch.int64, device=self._reader.device)

    def add(self, number: int, logits: torch.Tensor, repeats: Sequence[int]) -> None:
        """Add the votes of rows of one ballot: logits of shape (rows, vocabulary), each counted so often."""
        weights = torch.tensor(repeats, dtype=torch.int64, device=self._reader.device).unsqueeze(1)
        for some, weight in zip(torch.split(logits, _ROWS_AT_ONCE), torch.split(weights, _ROWS_AT_ONCE), strict=True):
            self._sums[number] += (whole_votes(some[:, self._candidates[number]], self._rule, torch) * weight).sum(0)

    def told(self) -> dict[int, Votes]:
        """Everything, by number."""
        return {number: Votes(self._candidates[number].cpu().numpy(), sums.cpu().numpy()) for number, sums in self._sums.items()}
