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

from dpicl.lm.local.batching import Tokens, pad_left, plan_batches
from dpicl.lm.local.oom_retry import run_with_oom_retry
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
) -> list[str]:
    """What follows every row, up to a stop string, the model's own end or `new_tokens`.

    Args:
        temperature: 0 takes the likeliest token.
        seed: of the noise; public, as texts from released demonstrations are.

    Raises:
        ModelError: memory does not suffice for one row.
    """
    texts: dict[int, str] = {}
    for batch in plan_batches([len(row) + new_tokens for row in rows], token_budget):

        def attempt(piece: Sequence[int]) -> dict[int, str]:
            noise = _Noise([stream(seed, "generate", "", str(row)).generator() for row in piece], temperature)
            told = _generate(model, tokenizer, [rows[row] for row in piece], new_tokens, stop, noise, device)
            return dict(zip(piece, told, strict=True))

        for told in run_with_oom_retry(batch, attempt):
            texts |= told
    return [texts[row] for row in range(len(rows))]


@torch.inference_mode()
def _generate(
    model: Any, tokenizer: Any, rows: Sequence[Tokens], new_tokens: int, stop: Sequence[str], noise: _Noise, device: torch.device
) -> list[str]:
    padded = pad_left(rows)
    end = model.generation_config.eos_token_id
    output = model.generate(
        input_ids=torch.from_numpy(padded.tokens).to(device),
        attention_mask=torch.from_numpy(padded.mask).to(device),
        max_new_tokens=new_tokens,
        do_sample=False,
        num_beams=1,
        pad_token_id=end[0] if isinstance(end, list) else (end or 0),
        logits_processor=LogitsProcessorList([noise]) if noise.temperature else None,
        **({"stop_strings": list(stop), "tokenizer": tokenizer} if stop else {}),
    )
    texts = tokenizer.batch_decode(output[:, padded.tokens.shape[1] :], skip_special_tokens=True)
    return [_cut(text, stop) for text in texts]


def _cut(text: str, stop: Sequence[str]) -> str:
    """The text before the first stop string."""
    return text[: min((text.find(mark) for mark in stop if mark in text), default=len(text))]


class _Noise(LogitsProcessor):
    """Gumbel noise, a stream per row: the largest of logits / temperature + noise is a sample."""

    def __init__(self, generators: Sequence[np.random.Generator], temperature: float) -> None:
        self.temperature = temperature
        self._generators = generators

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        noise = np.stack([generator.gumbel(size=scores.shape[-1]) for generator in self._generators])
        return scores.float() / self.temperature + torch.from_numpy(noise).to(scores.device, torch.float32)  # type: ignore[return-value]
