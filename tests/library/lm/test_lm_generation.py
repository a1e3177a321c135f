"""Claims about generated texts, checked against plain forward passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from dpicl.ground.errors import ModelError
from dpicl.models.local.tiny import build_tiny_model
from dpicl.models.local.transformers_backend import TransformersScorer
from dpicl.models.requests import Sampling

torch.set_num_threads(1)

PROMPTS = [
    "\n".join(["A row. Yes or No? Answer: Yes"] * (line % 3) + [f"Row {line}. Yes or No? Answer:"])
    for line in range(8)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("models"), PROMPTS)


@pytest.fixture(scope="module")
def scorer(folder: Path) -> TransformersScorer:
    return TransformersScorer(str(folder), device="cpu", token_budget=400)


@pytest.fixture(scope="module")
def plain(folder: Path) -> tuple[Any, Any]:
    return AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)


def greedy(plain: tuple[Any, Any], prompt: str, new_tokens: int) -> str:
    """One plain forward pass for every token."""
    tokenizer, model = plain
    ids = tokenizer(prompt).input_ids
    start = len(ids)
    for _ in range(new_tokens):
        with torch.inference_mode():
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
        if ids[-1] == model.generation_config.eos_token_id:
            break
    return str(tokenizer.decode(ids[start:], skip_special_tokens=True))


def test_greedy_text_is_the_likeliest_token_again_and_again(
    scorer: TransformersScorer, plain: tuple[Any, Any]
) -> None:
    assert scorer.generate(PROMPTS[:3], Sampling(new_tokens=6)) == [
        greedy(plain, prompt, 6) for prompt in PROMPTS[:3]
    ]


def test_a_text_ends_before_its_first_stop_string(scorer: TransformersScorer) -> None:
    whole = scorer.generate(PROMPTS[:1], Sampling(new_tokens=12))[0]
    mark = whole[4:6]
    assert scorer.generate(PROMPTS[:1], Sampling(new_tokens=12, stop=[mark, "never seen"])) == [
        whole[: whole.find(mark)]
    ]


def test_samples_depend_on_the_seed_and_on_no_batch(
    scorer: TransformersScorer, folder: Path
) -> None:
    single = TransformersScorer(str(folder), device="cpu", token_budget=1)
    drawn, alone, other = (
        one.generate(PROMPTS, Sampling(new_tokens=5, temperature=1.0, seed=seed))
        for one, seed in ((scorer, 3), (single, 3), (scorer, 4))
    )
    assert drawn == alone != other


def test_samples_follow_the_softmax(scorer: TransformersScorer, plain: tuple[Any, Any]) -> None:
    """The first token of many samples of one prompt, at a low temperature, where few tokens have
    all the weight.
    """
    temperature, count = 0.05, 400
    tokenizer, model = plain
    with torch.inference_mode():
        logits = model(torch.tensor([tokenizer(PROMPTS[0]).input_ids])).logits[0, -1]
    weights = (logits.double() / temperature).softmax(0).numpy()
    likeliest = int(weights.argmax())
    sampling = Sampling(new_tokens=1, temperature=temperature)
    seen = scorer.generate(PROMPTS[:1] * count, sampling).count(tokenizer.decode([likeliest]))
    assert abs(seen / count - weights[likeliest]) < 5 * np.sqrt(0.25 / count)


def test_prompt_and_text_must_fit_the_context_together(scorer: TransformersScorer) -> None:
    with pytest.raises(ModelError, match="reads at most 8192"):
        scorer.generate(PROMPTS[:1], Sampling(new_tokens=8190))
