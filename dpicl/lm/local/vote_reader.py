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
    candidates: dict[int, torch.Tensor] = {}
    sums: dict[int, torch.Tensor] = {}
    publics: dict[int, torch.Tensor] = {}

    def add(number: int, logits: torch.Tensor, repeats: Sequence[int]) -> None:
        """Add the votes of rows of one request: logits of shape (rows, vocabulary), each counted so often."""
        weights = torch.tensor(repeats, dtype=torch.int64, device=reader.device).unsqueeze(1)
        for some, weight in zip(torch.split(logits, _ROWS_AT_ONCE), torch.split(weights, _ROWS_AT_ONCE), strict=True):
            sums[number] += (whole_votes(some[:, candidates[number]], rule, torch, publics[number]) * weight).sum(0)

    prompts = {(number, 0): request.public + request.written for number, request in requests.items()}
    check_public(prompts.values(), name=reader.name, context=reader.context)
    fresh = partial(read_fresh, reader)
    for keys, logits in (public or fresh)(prompts):
        for line, (number, _) in enumerate(keys):
            if not bool((logits[line] < float("inf")).all()):
                raise ModelError(f"model {reader.name!r} answered with numbers that are not finite; expected dtype float32 or bfloat16")
            known = reader.known[reader.known < logits.shape[1]]
            candidates[number] = candidates_of(logits[line], known, rule, torch)
            publics[number] = logits[line][candidates[number]]
            sums[number] = torch.zeros(len(candidates[number]), dtype=torch.int64, device=reader.device)
            if not requests[number].voters:
                add(number, logits[line : line + 1], [1])
    repeats = {number: list(Counter(request.voters).items()) for number, request in requests.items()}
    rows = {
        (number, index): prompt + requests[number].written
        for number, distinct in repeats.items()
        for index, (prompt, _) in enumerate(distinct)
    }
    readable = {key: row for key, row in rows.items() if fits(row, reader.context) and max(row) < reader.vocabulary}
    for keys, logits in (voters or fresh)(readable):
        lines_of: dict[int, list[int]] = {}
        for line, (number, _) in enumerate(keys):
            lines_of.setdefault(number, []).append(line)
        for number, lines in lines_of.items():
            add(number, logits[lines], [repeats[number][keys[line][1]][1] for line in lines])
    weighed = {number: public_votes(logits, rule, torch).cpu().numpy() for number, logits in publics.items() if rule.kind == "difference"}
    return {number: Votes(candidates[number].cpu().numpy(), total.cpu().numpy(), weighed.get(number)) for number, total in sums.items()}
