"""Attention over a prefix tree: one packed row without padding, shared beginnings read once.

Method      Hydragen (arXiv 2402.05099): every token attends to the trunk, which all share, in
            one product; to the rest of its own path in another; equation (1) joins both.

    (1)  o = (e^l1 o1 + e^l2 o2) / (e^l1 + e^l2)

Symbols     o1, o2 outputs, l1, l2 the logarithms of their softmax sums.

Registered with transformers as the attention `dpicl_tree`; outside of `reading` it is plain
scaled-dot-product attention.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "dpicl_tree"
Pair = tuple[torch.Tensor, torch.Tensor]
"""Keys or outputs with their values or logarithms: (1, heads, tokens, width) each, the latter (1, heads, tokens)."""


class NotShareable(Exception):
    """This model attends in a way that a tree cannot give, such as through a window."""


@dataclass(frozen=True)
class Block:
    """Queries `start:stop` of one segment, where in the bank their own keys begin, and where their earlier keys stand."""

    start: int
    stop: int
    own: int
    before: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Reading:
    """One packed row: its blocks, what is remembered from earlier rows, and what to remember.

    The bank of keys is the remembered ones, then this row's. All blocks attend to its first
    `trunk` tokens; `kept` are the ranges of it that go to `remembered`, layer by layer.
    Layer `last` is asked for the tokens `asked` alone, one `tail` of a block after another.
    """

    blocks: Sequence[Block]
    last: int
    asked: torch.Tensor
    tails: Sequence[Block]
    longest: int
    trunk: int
    memory: Mapping[int, Pair]
    kept: Sequence[tuple[int, int]]
    remembered: dict[int, Pair] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)


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
    """The signature that transformers calls: (1, heads, tokens, width) in, (1, tokens, heads, width) out."""
    plan = _READING.get()
    if plan is None:
        plain: tuple[torch.Tensor, None] = sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **options)
        return plain
    window = options.get("sliding_window")
    if (window is not None and window < plan.longest) or options.get("softcap") is not None or options.get("s_aux") is not None:
        raise NotShareable
    repeats = query.shape[1] // key.shape[1]
    bank = (key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)) if repeats > 1 else (key, value)
    layer = int(module.layer_idx)
    if layer in plan.seen:  # one layer attends twice, and has no place for what both must remember
        raise NotShareable
    plan.seen.add(layer)
    if layer in plan.memory:
        keys, values = plan.memory[layer]
        bank = (torch.cat((keys, bank[0]), 2), torch.cat((values, bank[1]), 2))
    if plan.kept:  # copied, so that nothing else of the bank stays in memory
        keys, values = (torch.cat([stored[:, :, start:stop] for start, stop in plan.kept], 2) for stored in bank)
        plan.remembered[layer] = keys, values
    if layer < plan.last:
        return _follow(query, bank, plan.blocks, plan.trunk, scaling).transpose(1, 2), None
    output = torch.zeros_like(query)
    if plan.tails:
        asked = plan.asked.to(query.device)  # of several, the last layer's
        output[:, :, asked] = _follow(query[:, :, asked], bank, plan.tails, plan.trunk, scaling)
    return output.transpose(1, 2), None


def _follow(query: torch.Tensor, bank: Pair, blocks: Sequence[Block], trunk: int, scaling: float | None) -> torch.Tensor:
    """Every block to itself and its own path; then all of them to the trunk."""
    output = torch.empty_like(query)
    logs = torch.empty(query.shape[:3], device=query.device, dtype=torch.float32)
    for block in blocks:
        part = query[:, :, block.start : block.stop]
        attended = _attend(part, bank, block.own, block.own + block.stop - block.start, scaling, causal=True)
        for start, stop in block.before:
            attended = _merged(attended, _attend(part, bank, start, stop, scaling))
        output[:, :, block.start : block.stop], logs[:, :, block.start : block.stop] = attended
    if not trunk:
        return output
    return _merged((output, logs), _attend(query, bank, 0, trunk, scaling))[0]


def _attend(query: torch.Tensor, bank: Pair, start: int, stop: int, scaling: float | None, *, causal: bool = False) -> Pair:
    """Attention to a part of the bank, and the logarithms of its softmax sums, which PyTorch's public function does not return."""
    keys, values = (stored[:, :, start:stop] for stored in bank)
    if query.device.type == "cpu":
        output, logs = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(query, keys, values, is_causal=causal, scale=scaling)
    elif query.dtype in (torch.float16, torch.bfloat16):
        output, logs, *_ = torch.ops.aten._scaled_dot_product_flash_attention(query, keys, values, is_causal=causal, scale=scaling)
    else:
        output, logs, *_ = torch.ops.aten._scaled_dot_product_efficient_attention(
            query, keys, values, None, True, is_causal=causal, scale=scaling
        )
    return output, logs[:, :, : query.shape[2]]  # some kernels pad it


def _merged(one: Pair, other: Pair) -> Pair:
    """Equation (1)."""
    share = torch.sigmoid(other[1] - one[1]).unsqueeze(-1).to(one[0].dtype)
    return torch.lerp(one[0], other[0], share), torch.logaddexp(one[1], other[1])


def _mask(*arguments: Any, **options: Any) -> torch.Tensor | None:
    """A plan needs no mask; everything else gets the usual one."""
    return None if _READING.get() else sdpa_mask(*arguments, **options)


AttentionInterface.register(NAME, _tree_attention)
AttentionMaskInterface.register(NAME, _mask)
