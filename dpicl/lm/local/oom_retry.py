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
