"""How a model's own pass reads rows that grow: whole rows packed one after another at first, then
the newest token of each.

Keys and values go to the cache that transformers would fill, padded on the left in the same way, so
that either may read on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import Cache

from dpicl.lm.local.batching import pieces_within
from dpicl.lm.local.block_attention import Block, ByBlocks, Pair
from dpicl.lm.local.tree_attention import Attend
from dpicl.lm.local.tree_reader import Pass
from dpicl.lm.requests import Tokens


@dataclass(frozen=True)
class _ToOwnRow:
    """See `tree_attention.Attend`: one query of each row, to the columns that the row has in a
    padded bank (rows, heads, columns, width).
    """

    lengths: np.ndarray

    def __call__(self, query: torch.Tensor, bank: Pair, scaling: float | None) -> torch.Tensor:
        """From (1, heads, rows, width) to the same."""
        rows, heads, columns, width = bank[0].shape
        grouped = (
            query[0].transpose(0, 1).reshape(rows, heads, -1, width)
        )  # of heads that share keys, each is a query
        attended = scaled_dot_product_attention(
            grouped, *bank, attn_mask=self._mask(columns), scale=scaling
        )
        return attended.reshape(rows, -1, width).transpose(0, 1).unsqueeze(0)

    def _mask(self, columns: int) -> torch.Tensor | None:
        if (self.lengths == columns).all():
            return None
        absent = np.arange(columns) < columns - self.lengths[:, np.newaxis]
        return torch.from_numpy(np.where(absent, np.float32("-inf"), np.float32(0)))[:, None, None]


@dataclass(frozen=True)
class _Newest:
    """See `tree_attention.Plan`: a token more of each row, all of which are asked for."""

    cache: Cache
    attend: Attend
    asked: torch.Tensor
    last: int
    longest: int

    @property
    def attend_last(self) -> Attend:
        """As everywhere."""
        return self.attend

    def bank(self, layer: int, row: Pair) -> Pair:
        """All that is kept, and these."""
        keys, values = (states[0].transpose(0, 1).unsqueeze(2) for states in row)
        bank: Pair = self.cache.update(keys, values, layer)
        return bank


@dataclass(frozen=True)
class _Beginnings:
    """See `tree_attention.Plan`: some whole rows, of each of which the last token is asked for.

    Args:
        lines: which of the rows that begin.
        lengths: of all rows that begin.
        kept: keys and values of all rows by layer, shape (rows, columns, heads, width), which this
            fills.
    """

    lines: range
    lengths: np.ndarray
    kept: dict[int, Pair]
    last: int

    @property
    def longest(self) -> int:
        """Columns of what is kept."""
        return int(self.lengths.max())

    @cached_property
    def ends(self) -> list[int]:
        """Of each row in the packed one, after nothing."""
        return [0, *accumulate(self.lengths[self.lines].tolist())]

    @cached_property
    def asked(self) -> torch.Tensor:
        """The last token of every row."""
        return torch.tensor(self.ends[1:]) - 1

    @cached_property
    def attend(self) -> Attend:
        """Every row to itself."""
        return ByBlocks([Block(start, stop, start, ()) for start, stop in pairwise(self.ends)], 0)

    @cached_property
    def attend_last(self) -> Attend:
        """From the last tokens."""
        return _ToOwnRow(self.lengths[self.lines])

    @cached_property
    def positions(self) -> torch.Tensor:
        """Of all tokens in their rows."""
        return torch.cat([torch.arange(length) for length in self.lengths[self.lines].tolist()])

    @cached_property
    def _places(self) -> torch.Tensor:
        """Of all tokens among the columns of all rows."""
        lengths = torch.from_numpy(self.lengths[self.lines])
        firsts = (torch.tensor(self.lines) + 1) * self.longest - lengths
        return self.positions + firsts.repeat_interleave(lengths)

    def bank(self, layer: int, row: Pair) -> Pair:
        """These tokens alone; for the last layer by rows."""
        tokens = [states[0].transpose(0, 1) for states in row]
        if layer not in self.kept:  # padding is read too, with no weight, and must be numbers
            keys, values = (
                states.new_zeros(len(self.lengths), self.longest, *states.shape[1:])
                for states in tokens
            )
            self.kept[layer] = keys, values
        for kept, states in zip(self.kept[layer], tokens, strict=True):
            kept.flatten(0, 1)[self._places] = states
        if layer < self.last:
            return row
        keys, values = (
            kept[self.lines.start : self.lines.stop].transpose(1, 2) for kept in self.kept[layer]
        )
        return keys, values


def read_beginnings(
    own: Pass, rows: Sequence[Tokens], cache: Cache, *, token_budget: int
) -> torch.Tensor:
    """Logits after every row, shape (rows, vocabulary); the cache, empty before, holds them padded
    on the left.
    """
    lengths, kept, logits = np.array([len(row) for row in rows]), dict[int, Pair](), []
    for lines in pieces_within(lengths.tolist(), token_budget):
        plan = _Beginnings(lines, lengths, kept, _last_layer(own))
        tokens = torch.tensor([token for line in lines for token in rows[line]])
        logits.append(own(plan, tokens, plan.positions, plan.asked))
    del plan
    for layer in sorted(kept):  # each goes as it is copied: all twice would be twice the memory
        keys, values = (one.transpose(1, 2) for one in kept.pop(layer))
        cache.update(keys, values, layer)
    return torch.cat(logits)


def read_newest(
    own: Pass,
    tokens: Sequence[int],
    lengths: np.ndarray,
    cache: Cache,
    among: torch.Tensor | None = None,
) -> torch.Tensor:
    """Logits after one more token of each row, shape (rows, vocabulary).

    Args:
        lengths: of rows before, as far as the cache holds them.
        among: ids of tokens: only of these, shape (rows, tokens).
    """
    asked, positions = torch.arange(len(tokens)), torch.from_numpy(lengths)
    plan = _Newest(cache, _ToOwnRow(lengths + 1), asked, _last_layer(own), int(lengths.max()) + 1)
    return own(plan, torch.tensor(tokens), positions, asked, among)


def _last_layer(own: Pass) -> int:
    last: int = own.model.config.num_hidden_layers - 1
    return last
