"""Small models with random weights, of every architecture: a config's fields are shrunk by their
names.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

Fields = dict[str, Any]
MOST_PARAMETERS = 40_000_000
WIDTH, HEADS, HEAD_WIDTH, WINDOW, PLACES = 64, 4, 16, 16, 1024
"""Windows and chunks are shorter than the prompts that are read, so that what happens at their ends
is seen.
"""
SPARE = 64
"""Ids beyond the tokenizer's, for the special tokens that a config names."""
GAIN = 1.5
"""Spread of the weights: with an architecture's own, every prompt of a small model gets nearly the
same answer.
"""
_GAINS = {"qwen3_5_moe": 1.0, "qwen3_5_moe_text": 1.0}
"""Where that spread makes what float32 rounds in one plain prompt larger than the tolerance."""

_SIZES: tuple[tuple[int, str], ...] = (  # names of fields by the size that they get
    (
        WIDTH,
        """hidden_size n_embd d_model embedding_dim emb_dim embedding_size word_embed_proj_dim hidden_size_global attention_hidden_size
        lru_width input_size out_hidden_size backbone_hidden_size input_embedding_size output_embedding_size pronunciation_embed_dim
        shape_embed_dim downsample_hidden_size adapter_out_dim projector_output_dim hidden_size_per_layer_input prompt_mid_dim
        vision_output_dim""",  # noqa: E501
    ),
    (
        HEADS,
        """num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads swa_num_attention_heads
        index_n_heads num_query_groups n_routed_experts num_experts num_local_experts moe_num_experts num_kv_heads num_quantizers
        mamba_num_heads mamba_n_heads linear_num_heads linear_num_key_heads linear_num_value_heads linear_num_attention_heads""",  # noqa: E501
    ),
    (
        HEAD_WIDTH,
        """head_dim qk_nope_head_dim v_head_dim index_head_dim linear_key_head_dim linear_value_head_dim linear_head_dim
        swa_head_dim global_head_dim d_kv dim_head d_head kv_channels attention_head_size mamba_d_state ssm_state_size state_size
        q_lora_rank kv_lora_rank o_lora_rank laurel_rank hc_lowrank adapter_rank mamba_dt_rank time_step_rank mamba_head_dim
        router_hidden_size ple_embed_dim lora_rank qk_dim chunk_size mamba_chunk_size attention_chunk_size floor_scale num_buckets
        prompt_length""",  # noqa: E501
    ),
    (8, "qk_rope_head_dim rotary_dim"),
    (
        WINDOW,
        """sliding_window sliding_window_size attention_window_size window_size local_attention
        index_block_size local_attention_window_len rel_extent block_size compress_block_size""",
    ),
    (
        2 * WIDTH,
        """intermediate_size moe_intermediate_size ffn_dim d_ff dim_ff dff decoder_ffn_dim encoder_ffn_dim d_inner n_inner
        ffn_hidden_size expert_ffn_hidden_size shared_expert_intermediate_size shared_experts_intermediate_size intermediate_size_mlp
        shared_intermediate_size dense_intermediate_size moe_shared_expert_intermediate_size mlp_dim feed_forward_size mamba_d_ssm
        attention_head_dim""",  # noqa: E501
    ),
    (
        PLACES,
        """max_source_positions encoder_hash_byte_group_vocab ngram_vocab_size_base codebook_size""",  # noqa: E501
    ),
    (
        2,
        (
            "num_experts_per_tok moe_topk num_group n_groups num_experts_per_token moe_k "
            "topk_group "
            "n_group num_shared_experts zero_expert_num num_key_value_heads swa_num_key_value_heads"
        ),
    ),
)
_LAYERS = (
    "num_hidden_layers",
    "n_layer",
    "n_layers",
    "num_layers",
    "decoder_layers",
    "encoder_layers",
    "num_blocks",
    "depth",
)
"""Fields that count layers; they grow together until every kind of layer is there."""
_SIZE_OF = {name: size for size, names in _SIZES for name in names.split()}
_PLACES = (
    "max_position_embeddings",
    "n_positions",
    "n_ctx",
    "max_seq_len",
    "model_max_length",
    "context_length",
    "max_target_positions",
    "index_topk",
)
_VOCABULARIES = (
    "vocab_size",
    "unpadded_vocab_size",
    "decoder_vocab_size",
    "vocab_size_per_layer_input",
)
_INDEXER = {
    "indexer_n_heads": 4,
    "indexer_kv_heads": 1,
    "indexer_head_dim": HEAD_WIDTH,
    "indexer_budget": PLACES,
    "indexer_compress_ratio": 4,
}
_OWN: dict[str, Fields] = {
    "cohere_compass_text": {
        "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 10000.0}}
    },
    "dbrx": {
        "attn_config": {"rope_theta": 10000.0, "kv_n_heads": 2, "clip_qkv": 8},
        "ffn_config": {
            "ffn_hidden_size": 64,
            "moe_num_experts": 4,
            "moe_top_k": 2,
            "hidden_size": WIDTH,
        },
    },
    "dots3_note": {"text_config": {"per_layer_config": None, "head_dim": 24}},
    "dots3_note_text": {"per_layer_config": None, "head_dim": 24},
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "longcat_flash": {"head_dim": 8},
    "gemma3n_text": {
        "intermediate_size": 2 * WIDTH,
        "num_hidden_layers": 10,
        "num_kv_shared_layers": 5,
    },
    "gpt_neo": {"attention_types": [[["global", "local"], 2]]},
    "hunyuan_v1_dense": {"head_dim": HEAD_WIDTH},
    "hunyuan_v1_moe": {"head_dim": HEAD_WIDTH},
    "lfm2_moe": {"layer_types": ["conv", "conv", "full_attention", "conv"]},
    "mamba2": {"num_heads": 8, "head_dim": 16},
    "ministral": {"head_dim": HEAD_WIDTH},
    "nemotron": {"num_key_value_heads": 2},
    "qwen4_exp": {"text_config": _INDEXER},
    "qwen4_exp_text": _INDEXER,
    "reformer": {
        "is_decoder": True,
        "attn_layers": ["local", "lsh"] * 2,
        "axial_pos_embds": False,
        "num_buckets": 8,
    },
    "zamba": {
        "num_hidden_layers": 8,
        "attention_hidden_size": 2 * WIDTH,
        "attention_head_dim": 2 * HEAD_WIDTH,
    },
    "zamba2": {"layers_block_type": ["linear_attention", "hybrid", "linear_attention", "hybrid"]},
    "gemma2 capped": {"attn_logit_softcapping": 5.0, "final_logit_softcapping": 5.0},
    "llama dynamic": {
        "rope_parameters": {
            "rope_type": "dynamic",
            "factor": 4.0,
            "original_max_position_embeddings": 256,
            "rope_theta": 10000.0,
        }
    },
    "llama linear": {
        "rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}
    },
    "llama yarn": {
        "rope_parameters": {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 64,
            "rope_theta": 10000.0,
        }
    },
    "llama llama3": {
        "rope_parameters": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
            "rope_theta": 10000.0,
        }
    },
    "phi3 longrope": {
        "original_max_position_embeddings": 64,
        "rope_parameters": {
            "rope_type": "longrope",
            "short_factor": [1.0] * 8,
            "long_factor": [4.0] * 8,
            "original_max_position_embeddings": 64,
            "rope_theta": 10000.0,
        },
    },
    "falcon alibi": {"alibi": True},
    "mistral window": {"sliding_window": WINDOW},
    "bert decoder": {"is_decoder": True},
    "roberta decoder": {"is_decoder": True},
    "bamba": {"attn_layer_indices": [1, 3]},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"] * 2},
    "xmod": {"default_language": "en_XX"},
}
"""Fields of single architectures, and of further variants: an architecture's name and a word."""


def names() -> list[str]:
    """Every architecture of a causal language model that transformers knows."""
    return sorted({*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *_OWN})


def small_config(name: str, vocabulary: int) -> PreTrainedConfig:
    """A config of this architecture with few and narrow layers, of every kind that its usual config
    has.
    """
    kind = CONFIG_MAPPING[name.partition(" ")[0]]
    usual = kind()
    for layers in (4, 6, 8, 12):
        config = kind(**_merged(_shrunk(usual, vocabulary, layers), _OWN.get(name, {})))
        if _kinds(config) >= _kinds(usual):
            return config
    return config


def _merged(fields: Fields, own: Fields) -> Fields:
    """Fields with others in their place, in the configs within too."""
    both = {
        key: _merged(fields[key], own[key])
        for key in fields.keys() & own.keys()
        if isinstance(own[key], dict) and "_config" in key
    }
    return {**fields, **own, **both}


def _kinds(config: PreTrainedConfig) -> set[str]:
    """The kinds of layers of a config and of what it consists of."""
    lists = (
        value
        for key, value in config.to_dict().items()
        if key in ("layer_types", "layers_block_type", "attention_layers")
    )
    return {str(item) for part in lists if isinstance(part, (list, tuple)) for item in part}


def _shrunk(usual: PreTrainedConfig, vocabulary: int, layers: int) -> Fields:
    """Fields of a config that make it small."""
    fields: Fields = {}
    heads = vars(usual).get("num_attention_heads")
    # what is derived from them is not stated again
    for key in sorted(field.name for field in dataclasses.fields(usual)):
        value = vars(usual).get(usual.attribute_map.get(key, key))
        if isinstance(value, PreTrainedConfig):
            fields[key] = _shrunk(value, vocabulary, layers)
        elif isinstance(value, int) and not isinstance(value, bool):
            small = (
                HEADS
                if key == "num_key_value_heads" and value == heads
                else _small(key, value, vocabulary, layers)
            )
            fields |= {} if small is None else {key: small}
    return fields


def _small(key: str, value: int, vocabulary: int, layers: int) -> int | None:
    """A number for a field of this name and usual value; None leaves it alone."""
    if key in _VOCABULARIES:
        return vocabulary
    if key.endswith(("_token_id", "_token_index")):
        return value if value < 2 else vocabulary - 1 - sum(map(ord, key)) % SPARE
    if key == "qk_head_dim":
        return HEAD_WIDTH + _SIZE_OF["qk_rope_head_dim"]
    if key in _PLACES:
        return PLACES
    most = layers if key in _LAYERS else _SIZE_OF.get(key)
    return None if most is None else min(value, most)


def write_small(name: str, tokenizer_folder: Path, home: Path) -> None:
    """A small model of an architecture, in the usual layout, with the tokenizer of another.

    Raises:
        Exception: of any kind; the architecture cannot be built so.
    """
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    config = small_config(name, len(tokenizer) + SPARE)
    with torch.device("meta"):
        size = sum(
            weight.numel() for weight in AutoModelForCausalLM.from_config(config).parameters()
        )
    if size > MOST_PARAMETERS:
        raise ValueError(f"has {size:,} parameters though small")
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1 and 0 < float(weight.std()) < 0.06:
                weight.normal_(0, _GAINS.get(name, GAIN) / weight.shape[-1] ** 0.5)
    model.save_pretrained(home)
    tokenizer.save_pretrained(home)
