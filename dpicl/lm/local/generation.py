"""Text from a local model: greedy or sampled, in batches that never change what a prompt gets.

Sampling adds Gumbel noise to the logits and takes the largest, which is a draw from the
softmax; each place in the list has a stream of noise of its own, so that a text does not
depend on the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import LogitsProcessor, LogitsProcessorList

from dpicl.lm.local.batching import pad_left, plan_batches
from dpicl.lm.local.padded_reader import ReadingMode, run_with_oom_retry
from dpicl.lm.requests import Tokens, before_stop
from dpicl.randomness import stream


def generate(
    model: Any,
    tokenizer: Any,
    rows: Sequence[Tokens],
    *,
    new_tokens: int,
    stop: Sequence[str],
    temperature: float,
    seed: int,
    token_budget: int,
    device: torch.device,
    mode: ReadingMode,
) -> list[str]:
    """What follows every row, up to a stop string, the model's own end or `new_tokens`.

    Args:
        temperature: 0 takes the likeliest token.
        seed: of the noise; public, as texts from released demonstrations are.

    Raises:
        ModelError: memory does not suffice for one row.
    """
    end = model.generation_config.eos_token_id
    options: dict[str, Any] = {"stop_strings": list(stop), "tokenizer": tokenizer} if stop else {}

    @torch.inference_mode()
    def write(batch: Sequence[int]) -> dict[int, str]:
        padded = pad_left([rows[row] for row in batch])
        noise = _GumbelNoise([stream(seed, "generate", "", str(row)).generator() for row in batch], temperature)
        output = model.generate(
            input_ids=torch.as_tensor(padded.tokens, device=device),
            attention_mask=torch.as_tensor(padded.mask, device=device),
            max_new_tokens=new_tokens,
            do_sample=False,
            num_beams=1,
            pad_token_id=end[0] if isinstance(end, list) else (end or 0),
            logits_processor=LogitsProcessorList([noise]) if temperature else None,
            **options,
        )
        written = tokenizer.batch_decode(output[:, padded.tokens.shape[1] :], skip_special_tokens=True)
        return {row: before_stop(text, stop) for row, text in zip(batch, written, strict=True)}

    texts: dict[int, str] = {}
    together = mode.pads and mode.apart is None  # transformers counts positions by itself here
    for batch in plan_batches([len(row) + new_tokens for row in rows], token_budget if together else 0):
        for written in run_with_oom_retry(batch, write):
            texts |= written
    return [texts[row] for row in range(len(rows))]


class _GumbelNoise(LogitsProcessor):
    """A stream of noise per row: the largest of logits / temperature + noise is a sample."""

    def __init__(self, generators: Sequence[np.random.Generator], temperature: float) -> None:
        self._generators, self._temperature = generators, temperature

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        noise = np.stack([generator.gumbel(size=scores.shape[-1]) for generator in self._generators])
        return scores.float() / self._temperature + torch.from_numpy(noise).to(scores.device, torch.float32)  # type: ignore[return-value]
