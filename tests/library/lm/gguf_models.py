"""A small model as one GGUF file, as llama.cpp's converter writes it, beside the folder that it was
made of.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFWriter, TokenType
from safetensors.numpy import load_file

from dpicl.models.local.tiny import build_tiny_model

TEXTS = [
    "Is it so? Yes or No? Answer:",
    "A clerk of 41 years answered Yes, another one of 63 said No.",
]
_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def write_gguf(file: Path, models: Path, architecture: str = "llama", left_out: str = "") -> Path:
    """Write the tiny model to a file, and give its folder; tensors of the name `left_out` are
    missing.
    """
    folder = build_tiny_model(models, TEXTS)
    config = json.loads((folder / "config.json").read_text())
    tokens = json.loads((folder / "tokenizer.json").read_text())["model"]
    writer = GGUFWriter(file, architecture)
    writer.add_name("tiny")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("gpt2")
    names = sorted(tokens["vocab"], key=tokens["vocab"].__getitem__)
    writer.add_token_list(names)
    writer.add_token_types(
        [TokenType.CONTROL if name in ("<s>", "</s>") else TokenType.NORMAL for name in names]
    )
    writer.add_token_merges([" ".join(pair) for pair in tokens["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_add_bos_token(True)
    for name, weight in load_file(folder / "model.safetensors").items():
        if (translated := _translated(name)) != left_out:
            writer.add_tensor(translated, _turned(weight, translated, config))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return folder


def _translated(name: str) -> str:
    if name in (
        top := {
            "model.embed_tokens.weight": "token_embd.weight",
            "model.norm.weight": "output_norm.weight",
            "lm_head.weight": "output.weight",
        }
    ):
        return top[name]
    _, _, layer, part = name.removesuffix(".weight").split(".", 3)
    return f"blk.{layer}.{_NAMES[part]}.weight"


def _turned(weight: np.ndarray, name: str, config: dict[str, Any]) -> np.ndarray:
    """llama.cpp turns neighbours against each other, transformers the halves of a head."""
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}.get(
        name.split(".")[-2]
    )
    if heads is None:
        return weight
    return np.ascontiguousarray(
        weight.reshape(heads, 2, len(weight) // heads // 2, -1).swapaxes(1, 2).reshape(weight.shape)
    )
