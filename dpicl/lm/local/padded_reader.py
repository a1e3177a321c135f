"""Reading many token sequences in padded batches, for models that cannot share beginnings, and in pieces that fit the memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch

from dpicl.errors import ModelError
from dpicl.lm.local.batching import pad_left, plan_batches
from dpicl.lm.requests import Tokens

Item = TypeVar("Item")
Result = TypeVar("Result")
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "ALLOC_FAILED")
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


def run_with_oom_retry(items: Sequence[Item], attempt: Callable[[Sequence[Item]], Result]) -> Iterator[Result]:
    """The results of all pieces, in order: one that does not fit the memory is halved, the others are left alone.

    Raises:
        ModelError: a single item does not fit.
    """
    waiting = [items]
    while waiting:
        piece = waiting.pop()
        try:
            result = attempt(piece)
        except RuntimeError as error:
            if not isinstance(error, torch.OutOfMemoryError) and not any(text in str(error) for text in _OUT_OF_MEMORY):
                raise
        else:
            yield result
            continue
        # not in the handler: the error would keep the failed attempt's tensors alive
        if len(piece) == 1:
            raise ModelError("memory does not suffice for one prompt; expected a smaller model, dtype bfloat16 or shorter prompts")
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        middle = len(piece) // 2
        waiting += [piece[middle:], piece[:middle]]
