"""Attention of a packed row on a GPU: one call for each layer, which leaves out what no query may
see.

Method      FlexAttention (arXiv 2412.05496), compiled when a model that is loaded is probed, and
            again for other kinds of shapes. Segments are numbered so that every subtree is in one
            piece; segment a is an ancestor of segment b, or b itself, where a <= b < end(a).
            Queries fill whole blocks: FlexAttention's other kernel, for few queries, fails where
            several heads share a key (torch 2.11).
Not covered memory: a mask is written out, a byte for every query and key of a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import pad

from dpicl.lm.local.block_attention import Pair

BLOCK = 128
"""Of queries: see above."""
_KINDS = 64
"""Compiled at most, of number formats, grouped heads, batches of one block and of many; beyond,
torch would compute each score apart, and not say so.
"""


@dataclass(frozen=True)
class ByMask:
    """See `tree_attention.Attend`.

    Args:
        segments: of every token of the bank, which holds ancestors before their descendants.
        ends: of each such segment, the number after its last descendant's.
        places: of every query in the bank.
    """

    segments: torch.Tensor
    ends: torch.Tensor
    places: torch.Tensor
    _masks: dict[torch.device, Any] = field(default_factory=dict)

    def __call__(self, query: torch.Tensor, bank: Pair, scaling: float | None) -> torch.Tensor:
        """Every token to its path, up to itself."""
        if query.device not in self._masks:  # of several devices, each has some of the layers
            self._masks[query.device] = self._mask(query.device)
        mask, grouped, asked = (
            self._masks[query.device],
            query.shape[1] > bank[0].shape[1],
            query.shape[2],
        )
        filled = pad(query, (0, 0, 0, -asked % BLOCK))
        key, value = (part.contiguous() for part in bank)  # other strides would be compiled anew
        with torch.compiler.config.patch(recompile_limit=_KINDS):  # type: ignore[attr-defined]
            attended: torch.Tensor = _kernel(query.device.type)(
                filled.contiguous(), key, value, block_mask=mask, scale=scaling, enable_gqa=grouped
            )
        return attended[:, :, :asked]

    def _mask(self, device: torch.device) -> Any:
        filled = torch.cat([self.places, self.places[-1:].expand(-len(self.places) % BLOCK)])
        segments, ends, places = (
            numbers.to(device) for numbers in (self.segments, self.ends, filled)
        )

        def allowed(_: Any, __: Any, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
            place = places[query]
            return (
                (segments[key] <= segments[place]) & (segments[place] < ends[key]) & (key <= place)
            )

        return create_block_mask(
            allowed, None, None, len(places), len(segments), device=str(device)
        )


@cache
def _kernel(kind: str) -> Callable[..., Any]:
    """On a CPU, where nothing but tests comes here, it is not compiled."""
    plain: Callable[..., Any] = flex_attention
    return plain if kind == "cpu" else torch.compile(plain, dynamic=True)
