"""From requests to exact sums: candidates from the public prompts, then every voter's vote at once.

Public prompts are read by themselves, so that not even rounding lets a voter touch the candidates.
Distributions stay on the device, a batch of voters at a time; candidates and sums leave it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from dpicl.errors import ModelError
from dpicl.lm.local.padded_reader import Places, ReadingMode
from dpicl.lm.requests import Tokens
from dpicl.lm.votes.integer_votes import candidates_of, public_votes, whole_votes
from dpicl.lm.votes.voting import VoteRequest, VoteRule, Votes, check_public, fits

_ROWS_AT_ONCE = 64
"""Rows of a large vocabulary in float64 would fill a GPU's memory."""

Key = tuple[int, int]
"""A row: the number of its request, and its number among the request's distinct voters."""
Rows = Mapping[Key, Tokens]
LastLogits = Callable[[Rows], Iterator[tuple[list[Key], torch.Tensor]]]
"""Reads every row once, in any order: keys and logits of what follows them, shape (keys, vocabulary), on the device."""


@dataclass(frozen=True)
class Reader:
    """A model as votes need it.

    Args:
        known: ids of all tokens that may be written, ascending, on the device.
        vocabulary: ids of tokens that can be read are below it; a tokenizer may know more.
        mode: how `model` may be read.
        read: rows and the positions wanted of each to places and logits, in no particular order.
    """

    model: Any
    name: str
    device: torch.device
    known: torch.Tensor
    context: int | None
    token_budget: int
    vocabulary: int
    mode: ReadingMode
    read: Callable[[Sequence[Tokens], Sequence[Sequence[int]]], Iterator[tuple[Places, torch.Tensor]]]


def read_fresh(reader: Reader, rows: Rows) -> Iterator[tuple[list[Key], torch.Tensor]]:
    """Every distinct row from its beginning, see `LastLogits`; what is read together follows from the set of rows alone."""
    keys: dict[Tokens, list[Key]] = {}
    for key, row in rows.items():
        keys.setdefault(row, []).append(key)
    distinct = sorted(keys)
    for places, logits in reader.read(distinct, [(len(row) - 1,) for row in distinct]):
        owners = [(line, key) for line, (row, _) in enumerate(places) for key in keys[distinct[row]]]
        yield [key for _, key in owners], logits[[line for line, _ in owners]]


def count_votes(
    reader: Reader,
    requests: Mapping[int, VoteRequest],
    rule: VoteRule,
    public: LastLogits | None = None,
    voters: LastLogits | None = None,
) -> dict[int, Votes]:
    """Votes on every request, by its number; see `GeneratorModel.vote`.

    Args:
        public, voters: what reads the public prompts, and what reads the voters'; by default `read_fresh`.
    """
    prompts = {(number, 0): request.public + request.written for number, request in requests.items()}
    check_public(prompts.values(), name=reader.name, context=reader.context)
    fresh, count = partial(read_fresh, reader), _Count(reader, requests, rule)
    for keys, logits in (public or fresh)(prompts):
        count.public(keys, logits)
    for keys, logits in (voters or fresh)(count.readable):
        count.voters(keys, logits)
    return count.votes()


class _Count:
    """Exact sums as rows are read: the public prompts of all requests first."""

    def __init__(self, reader: Reader, requests: Mapping[int, VoteRequest], rule: VoteRule) -> None:
        self._reader, self._requests, self._rule = reader, requests, rule
        self._candidates: dict[int, torch.Tensor] = {}
        self._publics: dict[int, torch.Tensor] = {}
        self._sums: dict[int, torch.Tensor] = {}
        self._repeats = {number: list(Counter(request.voters).items()) for number, request in requests.items()}
        rows = {
            (number, index): prompt + requests[number].written
            for number, distinct in self._repeats.items()
            for index, (prompt, _) in enumerate(distinct)
        }
        self.readable = {key: row for key, row in rows.items() if fits(row, reader.context) and max(row) < reader.vocabulary}
        self._missing = Counter(number for number, _ in self.readable)
        self._read: dict[int, list[tuple[torch.Tensor, list[int]]]] = {}
        """Rows whose votes are not counted yet: logits at the candidates of their request, and how often each row counts."""

    def public(self, keys: Sequence[Key], logits: torch.Tensor) -> None:
        """Candidates. Raises ModelError: the model's numbers are not finite."""
        if not bool((logits < float("inf")).all()):
            raise ModelError(f"model {self._reader.name!r} answered with numbers that are not finite; expected dtype float32 or bfloat16")
        known = self._reader.known[self._reader.known < logits.shape[1]]
        for line, (number, _) in enumerate(keys):
            candidates = candidates_of(logits[line], known, self._rule, torch)
            self._candidates[number], self._publics[number] = candidates, logits[line][candidates]
            self._sums[number] = torch.zeros(len(candidates), dtype=torch.int64, device=self._reader.device)
            if not self._requests[number].voters:
                self._add(number, self._publics[number].unsqueeze(0), [1])

    def voters(self, keys: Sequence[Key], logits: torch.Tensor) -> None:
        """Votes are counted once for many rows of a request: most of the time of few would go into calls."""
        lines_of: dict[int, list[int]] = {}
        for line, (number, _) in enumerate(keys):
            lines_of.setdefault(number, []).append(line)
        for number, lines in lines_of.items():
            at = torch.tensor(lines, device=logits.device).unsqueeze(1)
            counts = [self._repeats[number][keys[line][1]][1] for line in lines]
            self._read.setdefault(number, []).append((logits[at, self._candidates[number]], counts))
            self._missing[number] -= len(lines)
            if not self._missing[number] or sum(len(some) for some, _ in self._read[number]) >= _ROWS_AT_ONCE:
                together = self._read.pop(number)
                self._add(number, torch.cat([some for some, _ in together]), [one for _, counts in together for one in counts])

    def _add(self, number: int, logits: torch.Tensor, repeats: Sequence[int]) -> None:
        """Add the votes of rows of one request: logits of shape (rows, candidates), each counted so often."""
        weights = torch.tensor(repeats, dtype=torch.int64, device=self._reader.device).unsqueeze(1)
        for some, weight in zip(torch.split(logits, _ROWS_AT_ONCE), torch.split(weights, _ROWS_AT_ONCE), strict=True):
            self._sums[number] += (whole_votes(some, self._rule, torch, self._publics[number]) * weight).sum(0)

    def votes(self) -> dict[int, Votes]:
        """Of all requests, in numpy."""
        weighs = self._rule.kind == "difference"
        return {
            number: Votes(
                self._candidates[number].cpu().numpy(),
                total.cpu().numpy(),
                public_votes(self._publics[number], self._rule, torch).cpu().numpy() if weighs else None,
            )
            for number, total in self._sums.items()
        }
