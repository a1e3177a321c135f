"""Reading many token sequences in padded batches: for models that cannot share beginnings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from dpicl.lm.local.batching import pad_left, plan_batches
from dpicl.lm.local.oom_retry import run_with_oom_retry
from dpicl.lm.requests import Tokens

Places = list[tuple[int, int]]
"""Row and position of every logit vector."""


def read_padded(
    model: Any, rows: Sequence[Tokens], wanted: Sequence[Sequence[int]], *, device: torch.device, token_budget: int
) -> Iterator[tuple[Places, torch.Tensor]]:
    """Logits at the wanted positions of every row, in no particular order.

    Yields:
        Places and their logits, shape (places, vocabulary), on the device.

    Raises:
        ModelError: memory does not suffice for one row.
    """

    @torch.inference_mode()
    def read(batch: Sequence[int]) -> tuple[Places, torch.Tensor]:
        padded = pad_left([rows[row] for row in batch])
        places = [(row, position) for row in batch for position in wanted[row]]
        lines = [line for line, row in enumerate(batch) for _ in wanted[row]]
        from_end = [position - len(rows[row]) for row, position in places]
        logits = model(
            input_ids=torch.as_tensor(padded.tokens, device=device),
            attention_mask=torch.as_tensor(padded.mask, device=device),
            position_ids=torch.as_tensor(padded.positions, device=device),
            logits_to_keep=-min(from_end, default=-1),
            use_cache=False,
        ).logits
        return places, logits[lines, from_end]

    for batch in plan_batches([len(row) for row in rows], token_budget):
        yield from run_with_oom_retry(batch, read)
