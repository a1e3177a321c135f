"""A model to measure with: a Llama architecture of about 100 million random parameters."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoModelForCausalLM, LlamaConfig

from dpicl.lm.local.tree_attention import NAME

VOCABULARY, CONTEXT = 8192, 4096


def random_llama() -> Any:
    """Always the same one, in float32 on the CPU."""
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=12,
        num_attention_heads=12,
        vocab_size=VOCABULARY,
        max_position_embeddings=CONTEXT,
    )
    return AutoModelForCausalLM.from_config(config, attn_implementation=NAME).eval()  # type: ignore[no-untyped-call]
