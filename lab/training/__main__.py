"""`python -m lab.training --preset cpu --out FOLDER`: train the bundled model, or go on with
it.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import torch
from tqdm import tqdm

from dpicl.models.local.loading import choose_device
from lab.training.checkpoint import State, read_state
from lab.training.export import export
from lab.training.held_out import evaluate
from lab.training.presets import PRESETS, preset_of
from lab.training.trainer import Limits, Round, begin, is_begun, open_learner, train


def main() -> None:
    """Read the command line, train, evaluate on held-out tasks and export."""
    asked = _arguments()
    # Trained attention leaves probabilities too small for normal numbers; a CPU is many times
    # slower at those: more than half of a step.
    torch.set_flush_denormal(True)
    if asked.threads:
        torch.set_num_threads(asked.threads)
    device = choose_device(asked.device)
    if not is_begun(asked.out):
        begin(preset_of(asked.preset), asked.out, seed=asked.seed, weights=asked.weights)
    steps = read_state(asked.out).step + asked.steps if asked.steps else asked.until
    with tqdm(unit="tok", unit_scale=True, initial=read_state(asked.out).tokens) as bar:

        def told(state: State, seen: Round) -> None:
            bar.update(state.tokens - bar.n)
            bar.set_postfix_str(
                f"level {seen.level}, right {seen.accuracy:.3f} (vote {seen.vote_accuracy:.3f}), "
                f"loss {seen.loss:.3f}"
            )

        state = train(
            asked.out,
            device,
            Limits(asked.minutes, steps, asked.cool_down),
            told,
            bfloat16=asked.bfloat16,
        )
    learner, _ = open_learner(asked.out, device)
    learner.model.load_state_dict(learner.mean)
    figures = evaluate(learner.model, asked.out, preset_of(state.preset).held_out_tasks, device)
    export(learner.model, asked.out, asked.out / "model", state, figures, device)
    tqdm.write(json.dumps([asdict(figure) for figure in figures], indent=1))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m lab.training", description=__doc__)
    parser.add_argument("--preset", choices=sorted(PRESETS), default="cpu")
    parser.add_argument(
        "--out", type=Path, required=True, help="folder for checkpoints, log and the exported model"
    )
    parser.add_argument(
        "--minutes", type=float, help="stop after so long; without it, --steps or --until, never"
    )
    ends = parser.add_mutually_exclusive_group()
    ends.add_argument("--steps", type=int, help="stop after so many more steps")
    ends.add_argument(
        "--until", type=int, help="stop at this step, counted from the training's first"
    )
    parser.add_argument(
        "--cool-down",
        type=int,
        default=0,
        help="let the learning rate fall to nothing over the last so many steps before --until",
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on at the folder's checkpoint if there is one"
    )
    parser.add_argument(
        "--weights",
        type=Path,
        help="begin with the weights of this model folder, such as the shipped one",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    parser.add_argument(
        "--bfloat16",
        action="store_true",
        help="compute in bfloat16: faster on a CPU whose flags name avx512_bf16 or amx_bf16",
    )
    parser.add_argument("--threads", type=int, help="of torch, on a CPU")
    asked = parser.parse_args()
    if is_begun(asked.out) and not asked.resume:
        parser.error(
            f"{asked.out} holds a training that was begun; go on with --resume, or name another "
            f"folder"
        )
    if asked.cool_down < 0:
        parser.error(f"--cool-down is {asked.cool_down}: a number of steps, 0 or more")
    if asked.cool_down and asked.until is None:
        parser.error("--cool-down needs --until: the step at which the learning rate is nothing")
    return asked


if __name__ == "__main__":
    main()
