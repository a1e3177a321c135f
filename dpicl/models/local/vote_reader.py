"""From requests to exact sums: candidates from the public prompts, then every voter's vote at once.

Public prompts are read by themselves, so that not even rounding lets a voter touch the candidates.
Distributions stay on the device, a batch of voters at a time; candidates and sums leave it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch.nn.utils.rnn import pad_sequence

from dpicl.ground.errors import ModelError
from dpicl.models.local.padded_reader import LoadedModel, PlacedLogits
from dpicl.models.local.tree_reader import Pass
from dpicl.models.requests import Tokens
from dpicl.models.votes import (
    VoteRequest,
    VoteRule,
    Votes,
    candidates_of_all,
    check_public,
    counted_chances,
    fits,
    log_chances,
    whole_votes,
)

_ROWS_AT_ONCE = 64
"""Rows of a large vocabulary in float64 would fill a GPU's memory; many of a small one, a
processor's cache.
"""

_FEW = 8
"""So many times fewer than the vocabulary are few."""
Key = tuple[int, int]
"""A row: the number of its request, and its number among the request's distinct voters."""
Rows = Mapping[Key, Tokens]
KeyedLogits = Iterator[tuple[list[Key], torch.Tensor]]
"""Logits in parts, a line for each key."""
LastLogits = Callable[[Rows, torch.Tensor | None], KeyedLogits]
"""Reads every row once, in any order: keys and logits of what follows them, shape (keys,
vocabulary), on the device.

Where ids of tokens are given, ascending, only theirs: shape (keys, tokens).
"""


@dataclass(frozen=True)
class Reader(LoadedModel):
    """A model as votes need it.

    Args:
        known: ids of all tokens that may be written, ascending, on the device.
        vocabulary: ids of tokens that can be read are below it; a tokenizer may know more.
        read: rows and the positions wanted of each to places and logits, in no particular order.
        own_pass: a faster one over packed rows than transformers' own, if the model has it.
    """

    name: str
    known: torch.Tensor
    context: int | None
    vocabulary: int
    read: Callable[[Sequence[Tokens], Sequence[Sequence[int]]], PlacedLogits]
    own_pass: Pass | None = None


def read_fresh(reader: Reader, rows: Rows, among: torch.Tensor | None = None) -> KeyedLogits:
    """Every distinct row from its beginning, see `LastLogits`; what is read together follows from
    the set of rows alone.
    """
    keys: dict[Tokens, list[Key]] = {}
    for key, row in rows.items():
        keys.setdefault(row, []).append(key)
    distinct = sorted(keys)
    for places, logits in reader.read(distinct, [(len(row) - 1,) for row in distinct]):
        owners = [
            (line, key) for line, (row, _) in enumerate(places) for key in keys[distinct[row]]
        ]
        lines = [line for line, _ in owners]
        yield (
            [key for _, key in owners],
            logits[lines] if among is None else logits[lines][:, among],
        )


def distinct_voters(reader: Reader, request: VoteRequest) -> list[tuple[Tokens, int]]:
    """Prompts of a text's voters that consist of the model's tokens, and how often each stands
    there.
    """
    counts = Counter(request.voters).items()
    return [
        (prompt, count)
        for prompt, count in counts
        if max(prompt, default=reader.vocabulary) < reader.vocabulary
    ]


def count_votes(
    reader: Reader,
    requests: Mapping[int, VoteRequest],
    rule: VoteRule,
    public: LastLogits | None = None,
    voters: LastLogits | None = None,
    distinct: Mapping[int, Sequence[tuple[Tokens, int]]] | None = None,
) -> dict[int, Votes]:
    """Votes on every request, by its number; see `GeneratorModel.vote`.

    Args:
        public, voters: what reads the public prompts, and what reads the voters'; by default
            `read_fresh`.
        distinct: `distinct_voters` of every request, where they are known.
    """
    prompts = {
        (number, 0): request.public + request.written for number, request in requests.items()
    }
    check_public(prompts.values(), name=reader.name, context=reader.context)
    distinct = distinct or {
        number: distinct_voters(reader, request) for number, request in requests.items()
    }
    fresh = partial(read_fresh, reader)
    count = _Count(reader, requests, rule, distinct)
    for keys, logits in (public or fresh)(prompts, None):
        count.public(keys, logits)
    for keys, logits in (voters or fresh)(count.readable, count.among):
        count.voters(keys, logits)
    return count.votes()


class _Count:
    """Exact sums as rows are read: the public prompts of all requests first. Candidates of several
    requests lie in one array, padded.
    """

    def __init__(
        self,
        reader: Reader,
        requests: Mapping[int, VoteRequest],
        rule: VoteRule,
        distinct: Mapping[int, Sequence[tuple[Tokens, int]]],
    ) -> None:
        self._reader = reader
        self._requests = requests
        self._rule = rule
        self._distinct = distinct
        self._candidates: dict[int, torch.Tensor] = {}
        self._publics: dict[int, torch.Tensor] = {}
        self._lines = {number: line for line, number in enumerate(requests)}
        """Of each request in padded arrays."""
        rows = {
            (number, index): prompt + request.written
            for number, request in requests.items()
            if max(request.written, default=0) < reader.vocabulary
            for index, (prompt, _) in enumerate(distinct[number])
        }
        self.readable = {key: row for key, row in rows.items() if fits(row, reader.context)}

    def public(self, keys: Sequence[Key], logits: torch.Tensor) -> None:
        """Candidates. Raises ModelError: the model's numbers are not finite."""
        if not bool((logits < float("inf")).all()):
            raise ModelError(
                f"model {self._reader.name!r} answered with numbers that are not finite; expected "
                f"dtype float32 or bfloat16"
            )
        known = self._reader.known[self._reader.known < logits.shape[1]]
        for start in range(0, len(keys), _ROWS_AT_ONCE):
            some = logits[start : start + _ROWS_AT_ONCE]
            for (number, _), candidates, row in zip(
                keys[start:], candidates_of_all(some, known, self._rule, torch), some, strict=False
            ):
                self._candidates[number], self._publics[number] = candidates, row[candidates]

    def voters(self, keys: Sequence[Key], logits: torch.Tensor) -> None:
        """Add the votes of rows, of whichever requests."""
        lines = [self._lines[number] for number, _ in keys]
        device = logits.device
        repeats = [self._distinct[number][index][1] for number, index in keys]
        self._add(torch.tensor(lines, device=device), logits, torch.tensor(repeats, device=device))

    def _add(self, lines: torch.Tensor, logits: torch.Tensor, repeats: torch.Tensor) -> None:
        """The votes of rows that each count so often, at the candidates of their request."""
        for some, of_rows, weights in zip(
            *(torch.split(part, _ROWS_AT_ONCE) for part in (lines, logits, repeats)), strict=True
        ):
            chosen = self._columns.index_select(0, some)
            present = None if self._present is None else self._present.index_select(0, some)
            public = (
                self._padded_publics.index_select(0, some)
                if self._rule.kind == "difference"
                else None
            )
            votes = whole_votes(of_rows.gather(1, chosen), self._rule, torch, public, present)
            self._sums.index_add_(
                0, some, votes * weights.unsqueeze(1) if (weights > 1).any() else votes
            )

    @cached_property
    def among(self) -> torch.Tensor | None:
        """All candidates, ascending, where they are few: no other token of a voter counts."""
        if not self._lines:
            return None
        candidates: torch.Tensor = torch.unique(self._padded)
        return candidates if _FEW * len(candidates) <= self._reader.vocabulary else None

    @cached_property
    def _columns(self) -> torch.Tensor:
        """Of the candidates of every request in voters' logits."""
        return self._padded if self.among is None else torch.searchsorted(self.among, self._padded)

    @cached_property
    def _padded(self) -> torch.Tensor:
        """Candidates of every request, shape (requests, most candidates)."""
        return pad_sequence([self._candidates[number] for number in self._lines], batch_first=True)

    @cached_property
    def _present(self) -> torch.Tensor | None:
        """Which of them are candidates and no padding; None where all are."""
        sizes = [len(self._candidates[number]) for number in self._lines]
        if len({*sizes}) == 1:
            return None
        counts = torch.tensor(sizes, device=self._padded.device)
        return torch.arange(self._padded.shape[1], device=self._padded.device) < counts.unsqueeze(1)

    @cached_property
    def _padded_publics(self) -> torch.Tensor:
        """The public prompts' log-probabilities at them; of padding -inf."""
        publics = [self._publics[number] for number in self._lines]
        return log_chances(
            pad_sequence(publics, batch_first=True, padding_value=-float("inf")).double(), torch
        )

    @cached_property
    def _sums(self) -> torch.Tensor:
        """Of all requests; where a request has no voters, its public prompt votes alone."""
        sums = torch.zeros(self._padded.shape, dtype=torch.int64, device=self._padded.device)
        for number, line in self._lines.items():
            if not self._requests[number].voters:
                public = self._publics[number]
                sums[line, : len(public)] = whole_votes(
                    public.unsqueeze(0), self._rule, torch, public
                )[0]
        return sums

    def votes(self) -> dict[int, Votes]:
        """Of all requests, in numpy."""
        if not self._lines:
            return {}
        candidates = self._padded.cpu().numpy()
        sums = self._sums.cpu().numpy()
        weighs = self._rule.kind == "difference"
        publics = (
            counted_chances(self._padded_publics, self._rule, torch).cpu().numpy()
            if weighs
            else None
        )
        found = {}
        for number, line in self._lines.items():
            own = slice(len(self._candidates[number]))
            public = None if publics is None else publics[line, own].copy()
            found[number] = Votes(candidates[line, own].copy(), sums[line, own].copy(), public)
        return found
