"""`torch.compile` against the engine's model as it is, on the CPU: why the engine does not compile.
`python -m lab.benchmarks.speed.compiled`.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

from lab.benchmarks.speed.random_llama import VOCABULARY, random_llama

SHAPES = ((8, 120), (4, 400), (1, 700))
ROUNDS = 4


@torch.inference_mode()
def _seconds(model: Any, tokens: torch.Tensor) -> float:
    started = time.perf_counter()
    model(input_ids=tokens, use_cache=False, logits_to_keep=1)
    return time.perf_counter() - started


def main() -> None:
    """How long it takes to compile, and how much faster a batch of each shape (prompts, tokens) is
    read then.
    """
    torch.set_num_threads(1)
    plain = random_llama()
    plain.set_attn_implementation("sdpa")  # the usual attention: the best case for a compiler
    compiled = torch.compile(plain, dynamic=True)
    first = sum(
        _seconds(compiled, torch.randint(VOCABULARY, shape)) for shape in ((2, 100), (4, 120))
    )
    print(f"first two batches, compiling: {first:.0f} s", flush=True)
    for shape in SHAPES:
        tokens = torch.randint(VOCABULARY, shape)
        ratios = [_seconds(plain, tokens) / _seconds(compiled, tokens) for _ in range(ROUNDS)]
        print(f"{shape[0]} prompts of {shape[1]} tokens: {np.median(ratios):.2f}x", flush=True)


if __name__ == "__main__":
    main()
