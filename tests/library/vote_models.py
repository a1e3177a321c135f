"""Small models of several architectures, requests for them, and comparisons of their votes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GPT2Config,
    GPTNeoXConfig,
    LlamaConfig,
    MistralConfig,
    PreTrainedConfig,
)

from dpicl.models.local.tiny import build_tiny_model
from dpicl.models.local.transformers_backend import TransformersScorer
from dpicl.models.requests import Tokens
from dpicl.models.votes import VoteRequest, VoteRule, Votes

INSTRUCTION = "Given a label of news type, generate the chosen type of news accordingly.\n\n"
EXAMPLES = [
    f"News Type: World\nText: Number {line} of {line * line} was seen{' again' * (line % 5)}.\n\n"
    for line in range(12)
]
HEADER = "News Type: World\nText:"
UNITS = 1 << 20
RULE = VoteRule("probability", 30, UNITS)
RULES = (
    RULE,
    VoteRule("relative", None, UNITS),
    VoteRule("logit", 30, UNITS, clip=5.0),
    VoteRule("difference", 20, UNITS, 5.0, 4),
)
SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "initializer_range": 0.3,
}
MODELS: dict[str, Callable[[int], PreTrainedConfig]] = {
    "grouped queries": lambda vocabulary: LlamaConfig(
        **SMALL, num_key_value_heads=2, vocab_size=vocabulary
    ),
    "absolute positions": lambda vocabulary: GPT2Config(
        n_embd=32,
        n_layer=2,
        n_head=4,
        vocab_size=vocabulary + 7,
        n_positions=400,
        initializer_range=0.3,
    ),
    "parallel layers": lambda vocabulary: GPTNeoXConfig(
        **SMALL, vocab_size=vocabulary, max_position_embeddings=400
    ),
    "a window": lambda vocabulary: MistralConfig(
        **SMALL, num_key_value_heads=2, vocab_size=vocabulary, sliding_window=8
    ),
}


def tiny_model(home: Path) -> Path:
    """The folder of the tiny model that knows these prompts."""
    return build_tiny_model(home, [INSTRUCTION, HEADER, *EXAMPLES])


def model_named(name: str, home: Path) -> Path:
    """The folder of the tiny model, or of one of `MODELS`."""
    folder = tiny_model(home)
    return folder if name == "tiny" else made(folder, home / "other", MODELS[name])


def made(folder: Path, home: Path, config: Callable[[int], PreTrainedConfig]) -> Path:
    """A model of random weights with the tiny model's tokenizer."""
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    AutoModelForCausalLM.from_config(config(len(tokenizer))).save_pretrained(home)
    tokenizer.save_pretrained(home)
    return home


def short_model(folder: Path, home: Path) -> TransformersScorer:
    """A model whose context is 140 tokens."""
    config = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 140}
    return opened(made(folder, home, lambda size: GPT2Config(vocab_size=size, **config)))


def opened(home: Path, **options: Any) -> TransformersScorer:
    return TransformersScorer(str(home), device="cpu", **{"token_budget": 300, **options})


def prompt(writer: TransformersScorer, *examples: str) -> Tokens:
    return writer.leading + writer.encode(INSTRUCTION + "".join(examples) + HEADER)


def vote_requests(writer: TransformersScorer) -> list[VoteRequest]:
    """Three texts: many voters, a repeated one and one without examples, and none."""
    voters = [prompt(writer, *EXAMPLES[line : line + 2]) for line in range(0, 12, 2)]
    public = prompt(writer)
    return [
        VoteRequest(public, tuple(voters), ()),
        VoteRequest(public, (voters[0], public, voters[3], voters[0]), writer.encode(" It was")),
        VoteRequest(public, (), writer.encode(" Number")),
    ]


def assert_alike(
    one: Sequence[Votes | None], other: Sequence[Votes | None], units: float = 1e-4 * UNITS
) -> None:
    """The same but for what rounding does."""
    for mine, yours in zip(one, other, strict=True):
        assert (mine is None) == (yours is None)
        if mine is not None and yours is not None:
            assert dict(zip(mine.candidates.tolist(), mine.sums, strict=True)) == pytest.approx(
                dict(zip(yours.candidates.tolist(), yours.sums, strict=True)), abs=units
            )


def equal(one: Sequence[Votes], other: Sequence[Votes]) -> bool:
    pairs = zip(one, other, strict=True)
    return all(
        np.array_equal(mine.candidates, yours.candidates) and np.array_equal(mine.sums, yours.sums)
        for mine, yours in pairs
    )


@contextmanager
def tokens_read(writer: TransformersScorer) -> Iterator[list[int]]:
    """Grows by the number of tokens of every forward pass."""
    read: list[int] = []
    hook = writer._model.register_forward_pre_hook(
        lambda _, __, inputs: read.append(inputs["input_ids"].numel()), with_kwargs=True
    )
    yield read
    hook.remove()
