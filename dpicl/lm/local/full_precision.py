"""A model of half precision that computes in float32: to tell what a way of reading does from what
rounding does.

Each module's weights are cast while it runs, and put back untouched after it, so that one module's
weights at most are held twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from dpicl.lm.requests import Tokens

HALF = (torch.bfloat16, torch.float16)


def is_half(model: Any) -> bool:
    """Whether its weights are of half precision, and none are quantised."""
    return model.dtype in HALF and all(weight.is_floating_point() for weight in model.parameters())


@contextmanager
def in_float32(model: Any) -> Iterator[None]:
    """Let a model compute so within the block, see `can_be_exact`."""
    held: list[list[tuple[torch.Tensor, torch.Tensor]]] = []

    def cast(module: Any, _: Any) -> None:
        own = [
            weight
            for weight in (*module.parameters(recurse=False), *module.buffers(recurse=False))
            if weight.dtype in HALF
        ]
        held.append([(weight, weight.data) for weight in own])
        for weight in own:
            weight.data = weight.data.float()

    def put_back(*_: Any) -> None:
        for weight, kept in held.pop():
            weight.data = kept

    owners = [
        module
        for module in model.modules()
        if [*module.parameters(recurse=False), *module.buffers(recurse=False)]
    ]
    hooks = [module.register_forward_pre_hook(cast) for module in owners]
    hooks += [module.register_forward_hook(put_back, always_call=True) for module in owners]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        while held:
            put_back()


def can_be_exact(model: Any, row: Tokens, device: torch.device) -> bool:
    """Whether a model in half precision computes in float32 when it is asked to; parts written for
    one number format cannot.
    """
    if not is_half(model):
        return False
    try:
        with torch.inference_mode(), in_float32(model):
            return bool(
                model(input_ids=torch.tensor([row], device=device)).logits.dtype == torch.float32
            )
    except Exception:  # noqa: BLE001 - a model of any kind may fail in any way
        return False
