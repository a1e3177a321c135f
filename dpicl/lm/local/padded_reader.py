"""Reading many token sequences in batches, for models that cannot share beginnings, and in pieces
that fit the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch

from dpicl.errors import ModelError
from dpicl.lm.local.batching import pad_left, plan_batches
from dpicl.lm.requests import Tokens

Item = TypeVar("Item")
Result = TypeVar("Result")
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "ALLOC_FAILED")
Places = list[tuple[int, int]]
"""Row and position of every logit vector."""
Layout = Literal["padded", "unplaced", "equal", "alone"]
"""What is read together: rows padded on the left, with their positions or without; rows of equal
length only; or one row at a time.
"""
READ_AS: dict[Layout, str] = {
    "padded": "padded batches",
    "unplaced": "padded batches, without positions",
    "equal": "batches of equal length",
    "alone": "one prompt at a time",
}
EXACT = 1e-3
"""What rounding may do in float32."""
LAYOUTS: tuple[Layout, ...] = tuple(READ_AS)
"""The faster ones first; `alone` is what transformers itself does with one prompt."""


@dataclass(frozen=True)
class ReadingMode:
    """How a model is read; `reading_mode.find_mode` finds out.

    Args:
        options: what its forward pass takes beside tokens.
        apart: rows of up to so many tokens are read apart from longer ones, for which the model
            turns its positions otherwise.
    """

    layout: Layout = "padded"
    options: frozenset[str] = frozenset({"logits_to_keep", "use_cache"})
    apart: int | None = None

    @property
    def pads(self) -> bool:
        """Whether rows of different lengths may stand together."""
        return self.layout in ("padded", "unplaced")

    def alike(self, length: int) -> int:
        """Equal for lengths of rows that may be read together."""
        return int(self.is_apart(length)) if self.pads else length

    def is_apart(self, length: int) -> bool:
        """Whether the model turns the positions of so long a row otherwise."""
        return self.apart is not None and length > self.apart


def read_padded(
    model: Any,
    rows: Sequence[Tokens],
    wanted: Sequence[Sequence[int]],
    *,
    device: torch.device,
    token_budget: int,
    mode: ReadingMode = ReadingMode(),
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
        options: dict[str, Any] = {"logits_to_keep": -min(from_end, default=-1), "use_cache": False}
        options = {name: value for name, value in options.items() if name in mode.options}
        if mode.pads:
            options["attention_mask"] = torch.as_tensor(padded.mask, device=device)
        if mode.layout == "padded":
            options["position_ids"] = torch.as_tensor(padded.positions, device=device)
        logits = model(input_ids=torch.as_tensor(padded.tokens, device=device), **options).logits
        return places, logits[lines, from_end].to(device)

    for batch in plan_batches(
        [len(row) for row in rows], 0 if mode.layout == "alone" else token_budget, mode.alike
    ):
        yield from run_with_oom_retry(batch, read)


def tolerance_of(model: Any) -> float:
    """What rounding may do to logits, absolutely and relatively, where a model is read in two
    ways.
    """
    return EXACT if model.dtype == torch.float32 else 0.1


def run_with_oom_retry(
    items: Sequence[Item], attempt: Callable[[Sequence[Item]], Result]
) -> Iterator[Result]:
    """The results of all pieces, in order: one that does not fit the memory is halved, the others
    are left alone.

    Raises:
        ModelError: a single item does not fit.
    """
    waiting = [items]
    while waiting:
        piece = waiting.pop()
        try:
            result = attempt(piece)
        except RuntimeError as error:
            if not isinstance(error, torch.OutOfMemoryError) and not any(
                text in str(error) for text in _OUT_OF_MEMORY
            ):
                raise
        else:
            yield result
            continue
        # not in the handler: the error would keep the failed attempt's tensors alive
        if len(piece) == 1:
            raise ModelError(
                "memory does not suffice for one prompt; expected a smaller model, dtype bfloat16 "
                "or shorter prompts"
            )
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        middle = len(piece) // 2
        waiting += [piece[middle:], piece[:middle]]
