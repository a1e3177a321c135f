"""Training: rounds of steps on new tasks, a look at the curriculum after each, a checkpoint every
minute or so.

A round is what resumes: its tasks follow from seed, step and level, and the place in the curriculum
changes between rounds only. A training that was killed goes on at its last checkpoint and ends with
the same weights, bit for bit on one machine, as one that never stopped.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.utils import clip_grad_norm_

from lab.training.batches import Generators, Job, StepBatches, generators
from lab.training.checkpoint import (
    FILE,
    Learner,
    State,
    learner_of,
    load_checkpoint,
    read_state,
    save_checkpoint,
    shipped_state,
)
from lab.training.export import take_changes
from lab.training.model import loss_of, new_model
from lab.training.presets import Preset, preset_of
from lab.training.tokenizer import TOKENIZER_FILE, load_tokenizer, save_tokenizer

LOG = "log.jsonl"
_WARM_UP, _CONSTANT = 40, 8000
"""Steps to the full learning rate, and after which it falls with the root of the step."""
_SAVE_EVERY_SECONDS = 75.0


@dataclass(frozen=True)
class Limits:
    """When a run ends, whichever comes first; None is never.

    Attributes:
        minutes: of this run.
        steps: of the whole training.
        cool_down: of them, the last ones, over which the learning rate falls to nothing.
    """

    minutes: float | None = None
    steps: int | None = None
    cool_down: int = 0

    def reached(self, state: State, began: float) -> bool:
        """Whether it is time."""
        late = self.minutes is not None and time.monotonic() - began >= 60 * self.minutes
        return late or (self.steps is not None and state.step >= self.steps)

    def warmth(self, step: int) -> float:
        """Share of the learning rate that is left at a step: 1 before the cool-down, above 0 at the
        last step.
        """
        if self.steps is None or not self.cool_down:
            return 1.0
        return min(1.0, max(0.0, (self.steps - step) / self.cool_down))


@dataclass(frozen=True)
class Round:
    """What a round showed, as the log keeps it; accuracies are over answers whose label's rival was
    shown before.
    """

    step: int
    tokens: int
    level: int
    loss: float
    accuracy: float
    vote_accuracy: float
    tokens_per_second: float
    seconds: float


def begin(preset: Preset, out: Path, *, seed: int, weights: Path | None = None) -> None:
    """Write the tokenizer and the first checkpoint: from nothing, or from an exported model, which
    keeps its seed and its count.

    Raises:
        ModelError: the weights are not an exported model.
        ParameterError: they are of another preset.
    """
    state = State(preset.name, seed) if weights is None else shipped_state(weights, preset.name)
    out.mkdir(parents=True, exist_ok=True)
    save_tokenizer(preset, out, seed=seed, like=weights)
    model = new_model(preset, load_tokenizer(out), seed=seed)
    if weights is not None:
        model.load_state_dict(
            type(model).from_pretrained(weights, dtype=torch.float32).state_dict()
        )
        take_changes(weights, out)
    save_checkpoint(out, learner_of(model, preset.learning_rate), state)


def open_learner(out: Path, device: torch.device) -> tuple[Learner, State]:
    """The learner of a folder's checkpoint, and where it stands."""
    state = read_state(out)
    preset = preset_of(state.preset)
    model: Any = new_model(preset, load_tokenizer(out), seed=state.seed)
    learner = learner_of(model.to(device), preset.learning_rate)
    load_checkpoint(out, learner)
    return learner, state


def train(
    out: Path,
    device: torch.device,
    limits: Limits,
    told: Callable[[State, Round], None],
    *,
    bfloat16: bool = False,
) -> State:
    """Go on from the folder's checkpoint until a limit is reached.

    Args:
        out: folder that `begin` has written to.
        device: where to compute.
        limits: looked at after every round.
        told: hears of every round.
        bfloat16: compute products in bfloat16, as a GPU always does; a CPU without such
            instructions is slower for it.
    """
    learner, state = open_learner(out, device)
    # it plans anew for every shape, and no two batches have the same: four fifths of a step
    torch.backends.cuda.enable_cudnn_sdp(False)
    mixed = torch.autocast(device.type, torch.bfloat16, enabled=bfloat16 or device.type == "cuda")
    preset, began, saved = preset_of(state.preset), time.monotonic(), time.monotonic()
    with generators(preset.generators) as source:
        run = _Run(preset, out / TOKENIZER_FILE, source, mixed, limits)
        while not limits.reached(state, began):
            state, seen = _round(learner, state, run)
            ended = limits.reached(state, began)
            if ended or time.monotonic() - saved > _SAVE_EVERY_SECONDS:
                save_checkpoint(out, learner, state)
                saved = time.monotonic()
            with (out / LOG).open("a", encoding="utf-8") as log:
                log.write(json.dumps(asdict(seen)) + "\n")
            told(state, seen)
    return state


@dataclass(frozen=True)
class _Run:
    """What stays the same over the rounds of a run."""

    preset: Preset
    tokenizer: Path
    source: Generators
    mixed: torch.autocast
    limits: Limits

    def jobs(self, state: State) -> list[Job]:
        """The steps of the round that begins here."""
        sizes = (self.preset.step_tokens, self.preset.batch_tokens, self.tokenizer)
        steps = range(state.step, state.step + self.preset.round_steps)
        return [Job(state.seed, step, state.progress.reached, *sizes) for step in steps]


def _round(learner: Learner, state: State, run: _Run) -> tuple[State, Round]:
    began, first, jobs = time.monotonic(), state, run.jobs(state)
    loss = right = voted = told = 0.0
    for made in run.source.steps(jobs):
        _set_rate(
            learner.optimiser,
            run.preset.learning_rate * run.limits.warmth(made.step),
            made.step,
            state.warmed_from,
        )
        step = _step(learner, made, state.seed, run.mixed)
        loss, right, voted, told = (
            loss + step.loss,
            right + step.right.sum(),
            voted + step.voted.sum(),
            told + step.told.sum(),
        )
        top = step.told & (step.levels == state.progress.reached)
        state = replace(
            state,
            step=state.step + 1,
            tokens=state.tokens + step.tokens,
            answers=state.answers + step.answers,
            progress=state.progress.after(
                int(top.sum()), int(step.right[top].sum()), int(step.voted[top].sum())
            ),
        )
    seconds = time.monotonic() - began
    state = replace(state, seconds=state.seconds + seconds, progress=state.progress.judged())
    speed = (state.tokens - first.tokens) / seconds
    shown = Round(
        state.step,
        state.tokens,
        first.progress.reached,
        loss / len(jobs),
        right / told,
        voted / told,
        speed,
        state.seconds,
    )
    return state, shown


@dataclass(frozen=True)
class _Step:
    """Sums over one step; and of each answer whether its label's rival was shown before, whether it
    was right, the vote too, and its level.
    """

    loss: float
    tokens: int
    answers: int
    told: np.ndarray
    right: np.ndarray
    voted: np.ndarray
    levels: np.ndarray


def _step(learner: Learner, made: StepBatches, seed: int, mixed: torch.autocast) -> _Step:
    generator = torch.Generator().manual_seed(seed * 1_000_003 + made.step)
    answers = sum(len(batch.targets) for batch in made.batches)
    learner.optimiser.zero_grad(set_to_none=True)
    total, right = 0.0, list[np.ndarray]()
    for batch in made.batches:
        with mixed:
            loss, good = loss_of(learner.model, batch, learner.model.device, generator)
        (loss / answers).backward()  # type: ignore[no-untyped-call]
        total, right = total + float(loss.detach()), [*right, good]
    clip_grad_norm_(learner.model.parameters(), 1.0)
    learner.optimiser.step()
    learner.follow(made.step)
    told = np.concatenate([batch.others >= 0 for batch in made.batches])
    return _Step(
        loss=total / answers,
        tokens=sum(int(batch.lengths.sum()) for batch in made.batches),
        answers=answers,
        told=told,
        right=np.concatenate(right),
        voted=np.concatenate([batch.voted for batch in made.batches]) & told,
        levels=np.concatenate([batch.levels for batch in made.batches]),
    )


def _set_rate(optimiser: torch.optim.AdamW, peak: float, step: int, warmed_from: int) -> None:
    rate = (
        peak
        * min(1.0, (step - warmed_from + 1) / _WARM_UP)
        * min(1.0, (_CONSTANT / (step + 1)) ** 0.5)
    )
    for group in optimiser.param_groups:
        group["lr"] = rate


def is_begun(out: Path) -> bool:
    """Whether the folder holds a checkpoint."""
    return (out / FILE).is_file()
