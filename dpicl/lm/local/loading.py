"""Loading a language model in the usual transformers layout, and special tokens of its tokenizer.

No code from a model's folder is run, and no pickled weights are read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.utils import logging as transformers_logging

from dpicl.errors import ModelError, ParameterError
from dpicl.lm.local.model_files import Dtype
from dpicl.lm.requests import Tokens


def choose_device(device: str) -> torch.device:
    """The device that `auto`, `cpu`, `cuda` or `cuda:N` means here.

    Raises:
        ParameterError: this machine does not have it.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    chosen = torch.device(device)
    if chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count():
        raise ParameterError("device", device, f"auto or cpu; the number of CUDA devices here is {torch.cuda.device_count()}")
    return chosen


def load(folder: Path, name: str, dtype: Dtype) -> tuple[Any, Any]:
    """Tokenizer and model from a folder, offline.

    `dtype` goes to `from_pretrained`, which keeps the rotary frequencies in float32; a
    later `.to(torch.bfloat16)` would round them and move decisions in long prompts.

    Raises:
        ModelError: files are missing, broken or not of a model that can be scored.
    """
    transformers_logging.disable_progress_bar()
    safely: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    weights: dict[str, Any] = {"dtype": getattr(torch, dtype), "use_safetensors": True, "output_loading_info": True}
    loaded: Any
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **safely)
        loaded = AutoModelForCausalLM.from_pretrained(folder, **weights, **safely)
    except Exception as error:  # noqa: BLE001 - every architecture fails in ways of its own
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200].rstrip(" .:")
        raise ModelError(f"model {name!r} cannot be loaded ({reason}); expected config, safetensors and tokenizer files") from None
    model, report = loaded
    missing = len(report["missing_keys"]) + len(report["mismatched_keys"])
    if missing:
        raise ModelError(f"model {name!r} lacks {missing} of its weights; expected complete safetensors files")
    # its own penalties, forced tokens and the like would make the likeliest token another one
    model.generation_config = GenerationConfig(eos_token_id=model.generation_config.eos_token_id)
    return tokenizer, model


def vocabulary_of(model: Any, name: str) -> int:
    """Ids of tokens that a model can read are below it. Raises ModelError: it has no such table."""
    try:
        return int(model.get_input_embeddings().weight.shape[0])
    except Exception:  # noqa: BLE001 - as above
        raise ModelError(f"model {name!r} is a {type(model).__name__} without a table of tokens; expected a language model") from None


def leading_tokens(tokenizer: Any) -> Tokens:
    """What this tokenizer puts before a text by itself, such as a start token."""
    plain = tokenizer("a", add_special_tokens=False).input_ids
    marked = tokenizer("a").input_ids
    return tuple(marked[: marked.index(plain[0])])


def known_tokens(tokenizer: Any) -> list[int]:
    """Ids that the tokenizer has a text for, ascending; a model's own vocabulary may be padded beyond them."""
    return sorted(set(tokenizer.get_vocab().values()))


def ending_tokens(tokenizer: Any, model: Any) -> frozenset[int]:
    """The model's own ends, all tokens that hold a line break, and " END" where it is one token after a text."""
    ends = model.generation_config.eos_token_id
    own = [tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])]
    known = known_tokens(tokenizer)
    breaks = [token for token, text in zip(known, tokenizer.batch_decode([[token] for token in known]), strict=True) if "\n" in text]
    before, whole = (tokenizer(text, add_special_tokens=False).input_ids for text in (":", ": END"))
    marks = whole[len(before) :] if whole[:-1] == before else []
    return frozenset(int(token) for token in (*own, *breaks, *marks) if token is not None)
