"""Work in pieces that fit the memory: a piece that does not fit is halved, the others are left alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch

from dpicl.errors import ModelError

Item = TypeVar("Item")
Result = TypeVar("Result")
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "ALLOC_FAILED")


def run_with_oom_retry(items: Sequence[Item], attempt: Callable[[Sequence[Item]], Result]) -> Iterator[Result]:
    """The results of all pieces, in order.

    Raises:
        ModelError: a single item does not fit.
    """
    waiting = [items]
    while waiting:
        piece = waiting.pop()
        try:
            result = attempt(piece)
        except RuntimeError as error:  # torch.OutOfMemoryError is one
            if not _is_out_of_memory(error):
                raise
            failed = True
        else:
            failed = False
            yield result
        if failed:  # here, because the error would keep the failed attempt's tensors alive
            waiting += _halves(piece)


def _is_out_of_memory(error: RuntimeError) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or any(text in str(error) for text in _OUT_OF_MEMORY)


def _halves(piece: Sequence[Item]) -> list[Sequence[Item]]:
    """The later half first: the caller takes from the end."""
    if len(piece) == 1:
        raise ModelError("memory does not suffice for one prompt; expected a smaller model, dtype bfloat16 or shorter prompts")
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    middle = len(piece) // 2
    return [piece[middle:], piece[:middle]]
