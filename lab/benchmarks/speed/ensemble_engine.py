"""Prompts of several queries asked together, against a loop of plain generate calls, in one run;
random weights, made-up dialogues.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

from dpicl.models.local.model_files import Dtype
from dpicl.models.local.tiny import build_tiny_model
from dpicl.models.local.transformers_backend import TransformersScorer
from dpicl.models.requests import Sampling
from dpicl.release.readers import public_corpus
from lab.benchmarks.figures import Figures, sized
from lab.benchmarks.speed.random_llama import random_llama

NEW_TOKENS, ROUNDS = sized(60, 3), sized(3, 1)
KIND = "cuda" if torch.cuda.is_available() else "cpu"
DTYPE: Dtype = "bfloat16" if KIND == "cuda" else "float32"
SHAPE, QUERIES, PROMPTS, LOOPED, GOAL = {
    "cpu": ("100M", 2, 10, 5, 3),
    "cuda": ("7B", 1, 100, 4, 10),
}[KIND]
"""`LOOPED` prompts of a round are read by the loop."""
WORDS = [
    "meet",
    "tomorrow",
    "bring",
    "cookies",
    "late",
    "train",
    "call",
    "mother",
    "office",
    "dinner",
    "ticket",
    "rain",
    "happy",
    "weekend",
    "shop",
]


def _prompts(seed: int) -> list[str]:
    """Four exemplars and a query in each, of about 60 words."""
    rng = np.random.default_rng(seed)

    def dialogue() -> str:
        return " ".join(rng.choice(WORDS, size=45))

    shown = [
        [
            f"Dialogue: {dialogue()}\nSummary: {' '.join(rng.choice(WORDS, size=12))}"
            for _ in range(4)
        ]
        for _ in range(PROMPTS)
    ]
    queries = [f"Dialogue: {dialogue()}\nSummary:" for _ in range(QUERIES)]
    return ["\n\n".join([*rows, query]) for query in queries for rows in shown]


def _saved(folder: Path) -> str:
    """Random weights behind the tiny model's tokenizer."""
    tiny = build_tiny_model(folder, public_corpus())
    target = folder / "random"
    random_llama(SHAPE, getattr(torch, DTYPE), KIND).save_pretrained(target)
    for path in tiny.glob("token*"):
        shutil.copy(path, target)
    return str(target)


def _loop(model: TransformersScorer, prompts: list[str]) -> None:
    for prompt in prompts:
        tokens = torch.tensor([model.leading + model.encode(prompt)])
        with torch.inference_mode():
            model._model.generate(
                tokens.to(model.device),
                min_new_tokens=NEW_TOKENS,
                max_new_tokens=NEW_TOKENS,
                do_sample=False,
                pad_token_id=0,
            )


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def measure(figures: Figures) -> None:
    """Rounds with prompts of their own."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        model = TransformersScorer(_saved(Path(folder)), name="random", dtype=DTYPE)
        ratios = []
        for seed in range(ROUNDS):
            prompts = _prompts(seed)
            together = _seconds(partial(model.generate, prompts, Sampling(NEW_TOKENS))) / len(
                prompts
            )
            few = prompts[:: len(prompts) // LOOPED]
            alone = _seconds(partial(_loop, model, few)) / len(few)
            print(
                f"one prompt, {NEW_TOKENS} new tokens: {alone:.2f} s in a loop, {together:.2f} s "
                f"together"
            )
            ratios.append(alone / together)
    figures.at_least("ensemble-together-over-loop", statistics.median(ratios), GOAL, "x")
