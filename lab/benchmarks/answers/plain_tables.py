"""Prompts of tables 2 and 3 through the engine and through a plain forward pass each: the same
answers, cell by cell.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from dpicl.contract import Contract
from dpicl.contract.pipeline import Cell, Unit
from dpicl.ground.types import SplitTable
from dpicl.methods import Options, tabular, unit_of
from dpicl.methods.base import draws_for
from dpicl.methods.evaluation import answers
from dpicl.models.local.tiny import build_tiny_model
from dpicl.models.local.transformers_backend import TransformersScorer
from dpicl.models.requests import CONTINUATIONS
from dpicl.release.pipelines import MethodName
from dpicl.release.readers import public_corpus
from lab import in_memory
from lab.benchmarks.figures import Figures, sized
from lab.benchmarks.real_tables import EIGHT, at_hand, real_table

EPSILONS, SHOTS, QUERIES = (
    sized((1.0, 10.0, math.inf), (1.0,)),
    sized((1, 2, 4, 8), (1, 8)),
    sized(6, 2),
)
Prompts = Mapping[Cell, list[str]]


def _unit(method: MethodName, contract: Contract) -> Unit:
    return unit_of(method, contract.name, 0, EPSILONS, SHOTS, (), False, Options())


def table_two(split: SplitTable, contract: Contract) -> Prompts:
    """Every prompt of LDP-TabICL on one data set."""
    return _prompts("ldp_tabicl", split, contract)


def table_three(split: SplitTable, contract: Contract) -> Prompts:
    """Every prompt of GDP-TabICL on one data set."""
    return _prompts("gdp_tabicl", split, contract)


def _prompts(name: MethodName, split: SplitTable, contract: Contract) -> Prompts:
    method, unit, draws = tabular(name), _unit(name, contract), draws_for(contract, 0)
    return method.prompts(
        in_memory.of_table(method, split.train, contract, unit, draws),
        split.queries,
        contract,
        unit,
        draws,
    )


class Plain:
    """The usual few lines around a model: one forward pass for every prompt and continuation,
    nothing shared or padded.
    """

    def __init__(self, folder: Path) -> None:
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    @torch.inference_mode()
    def score(self, prompts: list[str]) -> np.ndarray:
        """Summed log-probabilities, shape (prompts, continuations)."""
        return np.array(
            [[self._score(prompt, text) for text in CONTINUATIONS] for prompt in prompts]
        )

    def _score(self, prompt: str, continuation: str) -> float:
        before, whole = (
            self.tokenizer(text, return_tensors="pt").input_ids
            for text in (prompt, prompt + continuation)
        )
        told = self.model(input_ids=whole).logits[0, :-1].log_softmax(-1)
        return float(
            told[
                torch.arange(before.shape[1] - 1, whole.shape[1] - 1), whole[0, before.shape[1] :]
            ].sum()
        )


def plain_tables(figures: Figures) -> None:
    """Answers that differ, and the largest difference of a log-probability, over all eight sets."""
    if not at_hand():
        return
    differing, largest, count = 0, 0.0, 0
    with tempfile.TemporaryDirectory() as home:
        folder = build_tiny_model(Path(home), public_corpus())
        engine, plain = TransformersScorer(str(folder), device="cpu"), Plain(folder)
        for name in EIGHT:
            contract, split = real_table(name)
            for table in (table_two, table_three):
                texts = [
                    text
                    for of_cell in table(split, contract).values()
                    for text in of_cell[:QUERIES]
                ]
                ours, theirs = engine.score(texts, CONTINUATIONS), plain.score(texts)
                differing += int((answers(ours) != answers(theirs)).sum())
                largest, count = (
                    max(largest, float(np.abs(ours - theirs).max())),
                    count + len(texts),
                )
            print(
                f"{name}: {count:,} prompts so far, {differing} answers differ, log-probabilities "
                f"by {largest:.1e} at most",
                flush=True,
            )
    figures.exactly("tables-2-and-3-answers-that-differ-from-plain-passes", differing, 0)
    figures.at_most("tables-2-and-3-largest-difference-of-log-probabilities", largest, 1e-4)
