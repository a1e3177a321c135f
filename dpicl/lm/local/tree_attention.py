"""Attention over a prefix tree: one packed row without padding, shared beginnings read once.

Registered with transformers as the attention `dpicl_tree`; outside of `reading` it is plain
scaled-dot-product attention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from dpicl.lm.local.block_attention import Pair

NAME = "dpicl_tree"
Attend = Callable[[torch.Tensor, Pair, float | None], torch.Tensor]
"""From queries, a bank of keys and values, whose heads may be fewer, and the scale of their
products, to what is attended.
"""


class NotShareable(Exception):
    """This model attends in a way that a tree cannot give, such as through a window."""


class Plan(Protocol):
    """How one packed row attends: of the last layer only the tokens `asked`, ascending; positions
    are below `longest`.
    """

    @property
    def attend(self) -> Attend:
        """In all layers but the last."""

    @property
    def attend_last(self) -> Attend:
        """In the last layer."""

    @property
    def last(self) -> int:
        """Number of the last layer."""

    @property
    def asked(self) -> torch.Tensor:
        """Places in the row, shape (asked,)."""

    @property
    def longest(self) -> int:
        """A bound on positions."""

    def bank(self, layer: int, row: Pair) -> Pair:
        """Keys and values that a layer attends to, by those of this row, which may be kept."""


@dataclass(frozen=True)
class Reading:
    """One packed row: how it attends, what is remembered from earlier rows, and what to remember.

    The bank of keys is the remembered ones, then this row's; `kept` are the ranges of it that go to
    `remembered`, layer by layer, and `keep` is told of this row's. Layer `last` attends for the
    tokens `asked` alone.
    """

    attend: Attend
    last: int
    asked: torch.Tensor
    attend_last: Attend
    longest: int
    memory: Mapping[int, Pair]
    kept: Sequence[tuple[int, int]]
    keep: Callable[[int, Pair], None] | None = None
    remembered: dict[int, Pair] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)

    def bank(self, layer: int, row: Pair) -> Pair:
        """Keys and values that a layer attends to: what is remembered, then this row's; what is to
        be remembered of them is kept.
        """
        if self.keep is not None:
            self.keep(layer, row)
        bank = row
        if layer in self.memory:
            keys, values = self.memory[layer]
            bank = (torch.cat((keys, row[0]), 2), torch.cat((values, row[1]), 2))
        if self.kept:  # copied, so that nothing else of the bank stays in memory
            keys, values = (
                torch.cat([stored[:, :, start:stop] for start, stop in self.kept], 2)
                for stored in bank
            )
            self.remembered[layer] = keys, values
        return bank


_READING: ContextVar[Reading | None] = ContextVar("reading", default=None)


@contextmanager
def reading(plan: Reading) -> Iterator[None]:
    """Let the model's attention follow this plan."""
    token = _READING.set(plan)
    try:
        yield
    finally:
        _READING.reset(token)


def _tree_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Any,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """The signature that transformers calls: (1, heads, tokens, width) in, (1, tokens, heads,
    width) out.
    """
    plan = _READING.get()
    if plan is None:
        plain: tuple[torch.Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **options
        )
        return plain
    window = options.get("sliding_window")
    if (
        (window is not None and window < plan.longest)
        or options.get("softcap") is not None
        or options.get("s_aux") is not None
    ):
        raise NotShareable
    layer = int(module.layer_idx)
    if layer in plan.seen:  # one layer attends twice, and has no place for what both must remember
        raise NotShareable
    plan.seen.add(layer)
    bank = plan.bank(layer, (key, value))
    if layer < plan.last:
        return plan.attend(query, bank, scaling).transpose(1, 2), None
    output = torch.zeros_like(query)
    if len(plan.asked):
        asked = plan.asked.to(query.device)  # of several, the last layer's
        output[:, :, asked] = plan.attend_last(query[:, :, asked], bank, scaling)
    return output.transpose(1, 2), None


def _mask(*arguments: Any, **options: Any) -> torch.Tensor | None:
    """A plan needs no mask; everything else gets the usual one."""
    return None if _READING.get() else sdpa_mask(*arguments, **options)


AttentionInterface.register(NAME, _tree_attention)
AttentionMaskInterface.register(NAME, _mask)
