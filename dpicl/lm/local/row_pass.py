"""How a model's own pass reads rows that grow: whole rows packed one after another at first, shared
beginnings once, then the newest token of each.

Keys and values go to the cache that transformers would fill, padded on the left in the same way, so
that either may read on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import Cache

from dpicl.lm.local.block_attention import Pair
from dpicl.lm.local.prefix_tree import PrefixTree
from dpicl.lm.local.tree_attention import Attend
from dpicl.lm.local.tree_reader import Pass, read_shared
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
        # of heads that share keys, each is a query
        grouped = query[0].transpose(0, 1).reshape(rows, heads, -1, width)
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
class _Kept:
    """Keys and values of whole rows by layer, shape (rows, columns, heads, width), as the segments
    of their tree are read.
    """

    lengths: np.ndarray
    layers: dict[int, Pair] = field(default_factory=dict)

    def by_layer(self, tree: PrefixTree, batch: Sequence[int]) -> Callable[[int, Pair], None]:
        """See `tree_reader.read_shared`: to all rows that a batch's segments stand in."""
        places, longest = dict[int, list[range]](), int(self.lengths.max())
        for row, leaf in enumerate(tree.leaves):
            first = (row + 1) * longest - int(self.lengths[row])
            for index in tree.path(leaf):
                segment = tree.segments[index]
                places.setdefault(index, []).append(
                    range(first + segment.start, first + segment.end)
                )
        read, into, start = list[int](), list[int](), 0
        for index in batch:
            stop = start + len(tree.segments[index].tokens)
            for columns in places[index]:
                read += range(start, stop)
                into += columns
            start = stop
        sources, columns_of_all = torch.tensor(read), torch.tensor(into)

        def keep(layer: int, row: Pair) -> None:
            tokens = [states[0].transpose(0, 1) for states in row]
            if layer not in self.layers:  # padding is read too, with no weight: let it be numbers
                keys, values = (
                    states.new_zeros(len(self.lengths), longest, *states.shape[1:])
                    for states in tokens
                )
                self.layers[layer] = keys, values
            for kept, states in zip(self.layers[layer], tokens, strict=True):
                kept.flatten(0, 1)[columns_of_all] = states[sources]

        return keep


def read_beginnings(
    own: Pass, rows: Sequence[Tokens], cache: Cache, *, token_budget: int
) -> torch.Tensor:
    """Logits after every row, shape (rows, vocabulary), of which shared beginnings are read once;
    the cache, empty before, holds all rows padded on the left.
    """
    kept, order, logits = _Kept(np.array([len(row) for row in rows])), list[int](), []
    for places, part in read_shared(
        own.model,
        rows,
        [(len(row) - 1,) for row in rows],
        device=torch.device("cpu"),
        token_budget=token_budget,
        own_pass=own,
        keep=kept.by_layer,
    ):
        order += [row for row, _ in places]
        logits.append(part)
    for layer in sorted(kept.layers):  # each goes as it is copied: all would be twice the memory
        keys, values = (one.transpose(1, 2) for one in kept.layers.pop(layer))
        cache.update(keys, values, layer)
    return torch.cat(logits)[torch.tensor(order).argsort()]


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
    last = own.model.config.num_hidden_layers - 1
    plan = _Newest(cache, _ToOwnRow(lengths + 1), asked, last, int(lengths.max()) + 1)
    return own(plan, torch.tensor(tokens), positions, asked, among)
