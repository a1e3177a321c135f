"""The network of a preset, and the weights that its training starts from."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM

from lab.training.encoding import IGNORED, Batch
from lab.training.numbers import NUMBERS
from lab.training.presets import Preset
from lab.training.start import Marks, Scale, wired
from lab.training.token_ids import END_ID, START_ID

THETA = 2.4e11
"""Base of the rotary speeds: the slow half hardly turns over a prompt, so that it can compare
contents at any distance.
"""
ALIKE_WITHIN = (0.15, 0.6)
"""Powers of ten within which two numbers begin alike: the narrow one tells 12 from 17, the wide one
12 from 50.
"""
OTHER_WEIGHT, OTHER_SHARE = 0.1, 0.12
"""Of tokens that are no answers: their weight in the loss, and the share of them that is looked
at.
"""


def new_model(preset: Preset, tokenizer: Any, *, seed: int) -> LlamaForCausalLM:
    """A model with its beginning written into it; the same seed gives the same weights."""
    config = LlamaConfig(
        vocab_size=preset.vocabulary + len(NUMBERS),
        hidden_size=preset.hidden,
        intermediate_size=preset.inner,
        num_hidden_layers=preset.layers,
        num_attention_heads=preset.heads,
        num_key_value_heads=preset.heads,
        head_dim=preset.head_width,
        attention_bias=True,
        tie_word_embeddings=False,
        max_position_embeddings=preset.context,
        rope_parameters={"rope_type": "default", "rope_theta": THETA},
        bos_token_id=START_ID,
        eos_token_id=END_ID,
    )
    return wired(LlamaForCausalLM(config), seed=seed, marks=marks_of(tokenizer))


def marks_of(tokenizer: Any) -> Marks:
    """The tokens that shape a prompt of ours."""

    def last(text: str) -> int:
        return int(tokenizer.encode(text, add_special_tokens=False).ids[-1])

    numbers = Scale(
        tuple(tokenizer.token_to_id(number) for number in NUMBERS),
        tuple(NUMBERS.values()),
        ALIKE_WITHIN,
    )
    return Marks(START_ID, last("\n"), last(" Yes or No? Answer:"), numbers)


def loss_of(
    model: LlamaForCausalLM, batch: Batch, device: torch.device, generator: torch.Generator
) -> tuple[torch.Tensor, np.ndarray]:
    """Loss of one batch, summed over its answers, and of each answer whether it was told from the
    other label's: shape (answers,).

    Every demonstration's answer counts, since each is predicted from those before it; a share of
    all other tokens counts a little, which teaches looking things up.
    """
    tokens = torch.from_numpy(batch.tokens).to(device)
    states = model.model(input_ids=tokens, use_cache=False).last_hidden_state
    task, place = torch.from_numpy(batch.places).to(device).unbind(1)
    targets, others = (
        torch.from_numpy(batch.targets).to(device),
        torch.from_numpy(batch.others).to(device),
    )
    logits = model.lm_head(states[task, place])
    loss = _answered(logits, targets, others, torch.from_numpy(batch.shares).to(device))
    row, column = _others(batch, generator)
    if len(row):
        told = model.lm_head(states[row.to(device), column.to(device)])
        after = tokens[row.to(device), column.to(device) + 1]
        loss = loss + OTHER_WEIGHT * len(targets) * functional.cross_entropy(told, after)
    return loss, _right(logits.detach(), targets, others).cpu().numpy()


def _answered(
    logits: torch.Tensor, targets: torch.Tensor, others: torch.Tensor, shares: torch.Tensor
) -> torch.Tensor:
    """Cross-entropy against targets that are shared between an answer and the other label's,
    summed.
    """
    said = functional.log_softmax(logits.float(), dim=-1)
    return -(shares * said.gather(1, torch.stack([targets, others.clamp(min=0)], dim=1))).sum()


def _others(batch: Batch, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """A share of the places that no answer follows."""
    looked = torch.rand(batch.tokens.shape, generator=generator) < OTHER_SHARE
    looked &= (
        torch.arange(batch.tokens.shape[1])[None] < torch.from_numpy(batch.lengths)[:, None] - 1
    )
    looked[tuple(torch.from_numpy(batch.places).unbind(1))] = False
    row, column = looked.nonzero(as_tuple=True)
    return row, column


def _right(logits: torch.Tensor, targets: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    own, other = logits.gather(1, torch.stack([targets, others.clamp(min=0)], dim=1)).unbind(1)
    return (others != IGNORED) & (own > other)
