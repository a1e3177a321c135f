"""A tiny language model of our own making, so that everything runs offline in seconds.

Llama architecture, random weights, and a byte-level tokenizer trained on public text
(the prompt templates). It is *untrained*: its answers mean nothing, they only show that
the parts fit. Two builds from the same text have the same bytes.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from dpicl.ground.errors import ModelError
from dpicl.ground.files import locked, sha256_of
from dpicl.ground.randomness import stream

UNTRAINED_NOTE = "untrained: random weights, for plumbing only"
ANSWERS = (" Yes", " No")
"""Texts that are one token each, whatever the corpus."""

RECIPE = 1
"""Raise it when a change below changes the files; old folders are then left alone."""
_VOCABULARY = 1024
_CONTEXT = 8192
_SHAPE: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 128,
}
_GAIN = 2.0
"""Spread of the weights; at 1, every prompt that ends alike gets the same answer."""
_UNTRAINED: dict[str, Any] = {"dpicl_untrained": True}
"""Stands in config.json, so that the model says so wherever its folder is opened from."""
_FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")


def build_tiny_model(folder: Path, corpus: Sequence[str]) -> Path:
    """Make the tiny model below `folder`, or find the one made before from the same corpus.

    Args:
        folder: where models are kept; created if missing.
        corpus: public texts to train the tokenizer on.

    Returns:
        The model's own folder in the usual transformers layout. It appears complete or
        not at all, also when two processes build it at once.
    """
    digest = sha256_of(json.dumps([RECIPE, *corpus]))
    home = folder / f"tiny-{digest[:12]}"
    if _is_complete(home):
        return home
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".tiny-") as scratch:
        draft = Path(scratch) / "model"
        _write_model(draft, _train_tokenizer(corpus))
        # one builder at a time: none removes what another has just put there
        with locked(folder / ".tiny.lock"):
            if not _is_complete(home):
                shutil.rmtree(home, ignore_errors=True)
                os.rename(draft, home)
    return home


def _is_complete(home: Path) -> bool:
    return all((home / name).is_file() for name in _FILES)


def _train_tokenizer(corpus: Sequence[str]) -> PreTrainedTokenizerFast:
    """The answers stand in the training text more often than any pair of letters can occur in the
    corpus.

    Byte-pair training merges the most frequent pair first, so the answers are whole tokens before
    anything else is merged.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    frequency = 1 + sum(len(text.encode()) for text in corpus)
    tokenizer.train_from_iterator([*corpus, "".join(ANSWERS) * frequency], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    for answer in ANSWERS:
        if len(tokenizer.encode(answer, add_special_tokens=False).ids) != 1:
            raise ModelError(f"the tiny model's tokenizer splits {answer!r}; expected one token")
    options: dict[str, Any] = {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "model_max_length": _CONTEXT,
    }
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **options)


def _write_model(draft: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    """Random weights, drawn in the order of their names."""
    config = LlamaConfig(
        **_SHAPE,
        vocab_size=len(tokenizer),
        max_position_embeddings=_CONTEXT,
        bos_token_id=0,
        eos_token_id=1,
        architectures=["LlamaForCausalLM"],
        dtype="float32",
        **_UNTRAINED,
    )
    with torch.device("meta"):
        shapes = {
            name: weight.shape for name, weight in LlamaForCausalLM(config).state_dict().items()
        }
    generator = stream(RECIPE, "tiny-model", "weights", "0").generator()
    weights = {}
    for name, shape in sorted(shapes.items()):
        if len(shape) == 1:  # a norm's gain
            weights[name] = torch.ones(shape)
            continue
        scale = np.float32(_GAIN / math.sqrt(shape[1]))
        weights[name] = torch.from_numpy(generator.standard_normal(shape, dtype=np.float32) * scale)
    config.save_pretrained(draft)
    tokenizer.save_pretrained(draft)
    save_file(weights, draft / "model.safetensors", metadata={"format": "pt"})
