"""Figures on held-out synthetic tasks: 8 shots, against logistic regression and a kernel vote on
the same shots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from dpicl.ground.randomness import stream
from dpicl.models.requests import CONTINUATIONS
from lab.training.curriculum import LEVELS
from lab.training.encoding import encode_task
from lab.training.tasks import Kind, Task, make_task
from lab.training.tokenizer import load_tokenizer
from lab.training.vote import logistic, vote

SHOTS = 8
_KINDS: tuple[Kind, ...] = ("local", "central", "groups")
_LEVEL = len(LEVELS) - 2
_SEED = 20_261_122
"""Of tasks that no training draws: their stream has a name of its own."""


@dataclass(frozen=True)
class Figure:
    """Areas under the curve on one kind of prompt; `tasks` prompts were asked."""

    kind: str
    tasks: int
    model: float
    logistic: float
    vote: float


def evaluate(model: Any, folder: Path, count: int, device: torch.device) -> list[Figure]:
    """One figure per kind of prompt, `count` tasks each; the folder holds the tokenizer."""
    return [_figure(model, folder, kind, count, device) for kind in _KINDS]


def _figure(model: Any, folder: Path, kind: Kind, count: int, device: torch.device) -> Figure:
    rng = stream(_SEED, "held-out", "bundled", kind).generator()
    tasks = [make_task(rng, LEVELS[_LEVEL], shots=SHOTS, kind=kind) for _ in range(count)]
    truth = np.array([task.labels[-1] for task in tasks])
    said = (
        scores(model, folder, tasks, device),
        [logistic(t.features, t.labels) for t in tasks],
        [vote(t.features, t.labels)[-1] for t in tasks],
    )
    return Figure(kind, count, *(float(roc_auc_score(truth, score)) for score in said))


@torch.no_grad()
def scores(model: Any, folder: Path, tasks: Sequence[Task], device: torch.device) -> np.ndarray:
    """Log-odds of Yes after each task's query: shape (tasks,)."""
    tokenizer = load_tokenizer(folder)
    no, yes = (tokenizer.encode(text, add_special_tokens=False).ids[0] for text in CONTINUATIONS)
    said = []
    for task in tasks:
        tokens = torch.from_numpy(encode_task(tokenizer, task).tokens)[None].to(device)
        logits = model(input_ids=tokens, use_cache=False, logits_to_keep=1).logits[0, -1].float()
        said.append(float(logits[yes] - logits[no]))
    return np.array(said)
