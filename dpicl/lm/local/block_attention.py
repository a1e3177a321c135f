"""Attention of a packed row on a CPU: small products, whose parts stay in its cache.

Method      Hydragen (arXiv 2402.05099): every token attends to the trunk, which all share, in
            one product; to the rest of its own path in another; equation (1) joins both.

    (1)  o = (e^l1 o1 + e^l2 o2) / (e^l1 + e^l2)

Symbols     o1, o2 outputs, l1, l2 the logarithms of their softmax sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

Pair = tuple[torch.Tensor, torch.Tensor]
"""Keys or outputs with their values or logarithms: (1, heads, tokens, width) each, the latter (1,
heads, tokens).
"""


@dataclass(frozen=True)
class Block:
    """Queries `start:stop` of one segment, where in the bank their own keys begin, and where their
    earlier keys stand.
    """

    start: int
    stop: int
    own: int
    before: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class ByBlocks:
    """See `tree_attention.Attend`; all blocks attend to the first `trunk` tokens of the bank."""

    blocks: Sequence[Block]
    trunk: int

    def __call__(self, query: torch.Tensor, bank: Pair, scaling: float | None) -> torch.Tensor:
        """Every block to itself and its own path; then all of them to the trunk."""
        repeats = query.shape[1] // bank[0].shape[1]
        if repeats > 1:
            bank = (bank[0].repeat_interleave(repeats, 1), bank[1].repeat_interleave(repeats, 1))
        output = torch.empty_like(query)
        logs = torch.empty(query.shape[:3], dtype=torch.float32)
        for block in self.blocks:
            part = query[:, :, block.start : block.stop]
            attended = _attend(
                part, bank, block.own, block.own + block.stop - block.start, scaling, causal=True
            )
            for start, stop in block.before:
                attended = _merged(attended, _attend(part, bank, start, stop, scaling))
            output[:, :, block.start : block.stop], logs[:, :, block.start : block.stop] = attended
        # PyTorch divides by the number of queries: of none the process would die
        if not self.trunk or not query.shape[2]:
            return output
        return _merged((output, logs), _attend(query, bank, 0, self.trunk, scaling))[0]


def _attend(
    query: torch.Tensor,
    bank: Pair,
    start: int,
    stop: int,
    scaling: float | None,
    *,
    causal: bool = False,
) -> Pair:
    """Attention to a part of the bank, and the logarithms of its softmax sums, which PyTorch's
    public function does not return.
    """
    keys, values = (stored[:, :, start:stop] for stored in bank)
    output, logs = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, keys, values, is_causal=causal, scale=scaling
    )
    return output, logs


def _merged(one: Pair, other: Pair) -> Pair:
    """Equation (1)."""
    share = torch.sigmoid(other[1] - one[1]).unsqueeze(-1).to(one[0].dtype)
    return torch.lerp(one[0], other[0], share), torch.logaddexp(one[1], other[1])
