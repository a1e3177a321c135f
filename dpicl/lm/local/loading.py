"""Loading a language model in the usual transformers layout, and special tokens of its tokenizer.

No code from a model's folder is run, and no pickled weights are read.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.utils import logging as transformers_logging

from dpicl.errors import ModelError
from dpicl.lm.local.config_file import package_of, quantisation, read_config
from dpicl.lm.local.memory import choose_device, placed
from dpicl.lm.local.model_files import Dtype
from dpicl.lm.requests import Tokens


def load(folder: Path, name: str, dtype: Dtype, device: str) -> tuple[Any, Any]:
    """Tokenizer and model from a folder, offline, on its device or devices.

    `dtype` goes to `from_pretrained`, which keeps the rotary frequencies in float32; a
    later `.to(torch.bfloat16)` would round them and move decisions in long prompts.
    Weights go straight to their device, and those of a model that one GPU does not hold to several.

    Raises:
        ModelError: files are missing, broken or not of a model that can be scored, or memory does
            not suffice.
        ParameterError: this machine does not have the device.
    """
    chosen = choose_device(device)
    config = read_config(str(folder), None)
    method = quantisation(config)
    package = package_of(method) if method else None
    if package and find_spec(package) is None:
        raise ModelError(
            f"model {name!r} is quantised by {method}; type `pip install {package}`, or expected "
            f"a checkpoint that is not"
        )
    places = placed(folder, name, dtype, chosen, several=device == "auto")
    transformers_logging.disable_progress_bar()
    # one model is open at a time
    torch.set_float32_matmul_precision("high" if dtype == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = dtype == "tf32"
    safely: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    weights: dict[str, Any] = {
        "dtype": torch.float32 if dtype == "tf32" else getattr(torch, dtype),
        "use_safetensors": True,
    }
    weights |= {"output_loading_info": True, "device_map": places}
    loaded: Any
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **safely)
        loaded = AutoModelForCausalLM.from_pretrained(folder, **weights, **safely)
    except torch.OutOfMemoryError:
        raise ModelError(
            f"model {name!r} does not fit on {chosen}; expected dtype bfloat16 or a smaller model"
        ) from None
    except Exception as error:  # noqa: BLE001 - every architecture fails in ways of its own
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200].rstrip(" .:")
        raise ModelError(
            f"model {name!r} cannot be loaded ({reason}); expected config, safetensors and "
            f"tokenizer files"
        ) from None
    model, report = loaded
    missing = len(report["missing_keys"]) + len(report["mismatched_keys"])
    if missing:
        raise ModelError(
            f"model {name!r} lacks {missing} of its weights; expected complete safetensors files"
        )
    # its own penalties, forced tokens and the like would make the likeliest token another one
    model.generation_config = GenerationConfig(eos_token_id=model.generation_config.eos_token_id)
    return tokenizer, model


def vocabulary_of(model: Any, name: str) -> int:
    """Ids of tokens that a model can read are below it. Raises ModelError: it has no such table."""
    try:
        return int(model.get_input_embeddings().weight.shape[0])
    except Exception:  # noqa: BLE001 - as above
        raise ModelError(
            f"model {name!r} is a {type(model).__name__} without a table of tokens; expected a "
            f"language model"
        ) from None


def leading_tokens(tokenizer: Any) -> Tokens:
    """What this tokenizer puts before a text by itself, such as a start token."""
    plain = tokenizer("a", add_special_tokens=False).input_ids
    marked = tokenizer("a").input_ids
    return tuple(marked[: marked.index(plain[0])])


def known_tokens(tokenizer: Any) -> list[int]:
    """Ids that the tokenizer has a text for, ascending; a model's own vocabulary may be padded
    beyond them.
    """
    return sorted(set(tokenizer.get_vocab().values()))


def ending_tokens(tokenizer: Any, model: Any) -> frozenset[int]:
    """The model's own ends, all tokens that hold a line break, and " END" where it is one token
    after a text.
    """
    ends = model.generation_config.eos_token_id
    own = [tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])]
    known = known_tokens(tokenizer)
    breaks = [
        token
        for token, text in zip(
            known, tokenizer.batch_decode([[token] for token in known]), strict=True
        )
        if "\n" in text
    ]
    before, whole = (tokenizer(text, add_special_tokens=False).input_ids for text in (":", ": END"))
    marks = whole[len(before) :] if whole[:-1] == before else []
    return frozenset(int(token) for token in (*own, *breaks, *marks) if token is not None)
