"""Models to measure with: Llama architectures of random parameters."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoModelForCausalLM, LlamaConfig

from dpicl.models.local.packed_rows import NAME

VOCABULARY, CONTEXT = 8192, 4096
SHAPES = {
    "100M": (768, 2048, 12, 12, 12, VOCABULARY),
    "7B": (4096, 11008, 32, 32, 32, 32000),
    "13B": (5120, 13824, 40, 40, 40, 32000),
    "8B": (4096, 14336, 32, 32, 8, 128256),
}
"""Width, width inside, layers, heads of queries and of keys, vocabulary: two of Llama 2 and one of
Llama 3.
"""


def random_llama(
    shape: str = "100M", dtype: torch.dtype = torch.float32, device: str = "cpu"
) -> Any:
    """Always the same one."""
    torch.manual_seed(0)
    width, inside, layers, heads, shared, vocabulary = SHAPES[shape]
    config = LlamaConfig(
        hidden_size=width,
        intermediate_size=inside,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=shared,
        vocab_size=vocabulary,
        max_position_embeddings=CONTEXT,
    )
    with torch.device(device):
        return AutoModelForCausalLM.from_config(
            config, attn_implementation=NAME, dtype=dtype
        ).eval()
