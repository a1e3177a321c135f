"""Everything that a training needs to go on as if it had never stopped, in one file without
pickles.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from dpicl.ground.errors import ModelError, ParameterError
from lab.training.curriculum import Progress

FILE, RECORD = "checkpoint.safetensors", "training.json"
_EMA_DECAY = 0.998


@dataclass(frozen=True)
class State:
    """Where a training stands.

    Attributes:
        preset, seed: what it was started with.
        step, tokens, answers: done so far; tokens without padding.
        seconds: spent on them, over all runs.
        progress: the place in the curriculum.
        warmed_from: the step at which the optimiser began with nothing.
    """

    preset: str
    seed: int
    step: int = 0
    tokens: int = 0
    answers: int = 0
    seconds: float = 0.0
    progress: Progress = field(default_factory=Progress)
    warmed_from: int = 0


@dataclass
class Learner:
    """A model, its optimiser, and the running mean of its weights, which is what is evaluated and
    shipped.
    """

    model: Any
    optimiser: torch.optim.AdamW
    mean: dict[str, torch.Tensor]

    def follow(self, step: int) -> None:
        """Move the running mean towards the weights after a step."""
        decay = min(_EMA_DECAY, (1 + step) / (10 + step))
        with torch.no_grad():
            for name, weight in self.model.named_parameters():
                self.mean[name].lerp_(weight, 1 - decay)


def learner_of(model: Any, learning_rate: float) -> Learner:
    """A learner before its first step."""
    optimiser = torch.optim.AdamW(
        model.parameters(), learning_rate, betas=(0.9, 0.98), weight_decay=0.01, fused=True
    )
    return Learner(
        model,
        optimiser,
        {name: weight.detach().clone() for name, weight in model.named_parameters()},
    )


def save_checkpoint(folder: Path, learner: Learner, state: State) -> None:
    """Replace the folder's checkpoint; after a kill there is the old one or the new one, whole."""
    names = [name for name, _ in learner.model.named_parameters()]
    tensors = {
        f"weight.{name}": weight.detach().contiguous()
        for name, weight in learner.model.named_parameters()
    }
    tensors |= {f"mean.{name}": weight for name, weight in learner.mean.items()}
    for index, kept in learner.optimiser.state_dict()["state"].items():
        tensors |= {f"{part}.{names[index]}": value for part, value in kept.items()}
    draft = folder / f"{FILE}.part"
    save_file(
        {name: tensor.cpu() for name, tensor in tensors.items()},
        draft,
        metadata={"state": json.dumps(asdict(state))},
    )
    with draft.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(draft, folder / FILE)


def read_state(folder: Path) -> State:
    """Where the folder's checkpoint stands.

    Raises:
        ModelError: there is none.
    """
    if not (folder / FILE).is_file():
        raise ModelError(
            f"{folder.name} holds no {FILE}; expected the folder of a training that was begun"
        )
    with safe_open(folder / FILE, "pt") as file:
        content = json.loads(file.metadata()["state"])
    return replace(State(**content), progress=Progress(**content["progress"]))


def shipped_state(folder: Path, preset: str) -> State:
    """Where the training of an exported model ended, so that another goes on with new tasks at its
    level.

    Raises:
        ModelError: the folder holds no such model.
        ParameterError: it is of another preset.
    """
    try:
        record = json.loads((folder / RECORD).read_text("utf-8"))
    except FileNotFoundError:
        raise ModelError(
            f"{folder.name} holds no {RECORD}; expected a model that `python -m lab.training` "
            f"has exported"
        ) from None
    if record["preset"] != preset:
        raise ParameterError("preset", preset, f"{record['preset']}, which the weights are of")
    done = {name: record[name] for name in ("seed", "tokens", "answers", "seconds")}
    level = Progress(record["curriculum_level"])
    return State(preset, step=record["steps"], progress=level, warmed_from=record["steps"], **done)


def load_checkpoint(folder: Path, learner: Learner) -> None:
    """Put the checkpoint's weights, means and moments into a learner of the same preset."""
    with safe_open(folder / FILE, "pt", device=str(learner.model.device)) as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    names = [name for name, _ in learner.model.named_parameters()]
    learner.model.load_state_dict({name: tensors[f"weight.{name}"] for name in names})
    learner.mean = {name: tensors[f"mean.{name}"] for name in names}
    moments = {
        index: {
            part: tensors[f"{part}.{name}"].cpu() if part == "step" else tensors[f"{part}.{name}"]
            for part in ("step", "exp_avg", "exp_avg_sq")
        }
        for index, name in enumerate(names)
        if f"step.{name}" in tensors
    }
    learner.optimiser.load_state_dict({**learner.optimiser.state_dict(), "state": moments})
