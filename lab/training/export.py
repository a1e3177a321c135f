"""The trained model as it is shipped: half-precision safetensors in small shards, tokenizer,
figures and card.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from dpicl.ground.errors import ModelError
from lab.training.card import card
from lab.training.checkpoint import RECORD, State
from lab.training.held_out import Figure
from lab.training.tokenizer import TOKENIZER_FILES

SHARD_MIB, ALL_MIB = 16, 48
CHANGES = "changes.txt"
"""In a training's folder: what somebody changed by hand while it went on, a line each; record and
card tell it.
"""
NOTE = (
    "a teaching model: trained on made-up tables only, it compares rows and knows no language and "
    "no facts"
)
"""Stands in config.json, so that whoever reports its answers says so."""


def export(
    model: Any,
    trained: Path,
    home: Path,
    state: State,
    figures: Sequence[Figure],
    device: torch.device,
) -> Path:
    """Write the model's folder anew.

    Args:
        model: with the weights to ship, which are rounded to half precision in place.
        trained: the training's folder, which holds the tokenizer.
        home: where the model goes; what was there is replaced.
        state, figures: what the record and the card tell.
        device: what it was trained on.

    Raises:
        ModelError: the weights are larger than a repository should hold.
    """
    draft = home.with_name(f"{home.name}.part")
    model.config.dpicl_note = NOTE
    shutil.rmtree(draft, ignore_errors=True)
    model.to(torch.float16).save_pretrained(draft, max_shard_size=f"{SHARD_MIB * 2**20 // 10**6}MB")
    for name in TOKENIZER_FILES:
        shutil.copyfile(trained / name, draft / name)
    record = _record(model, state, figures, device) | {"changes": changes_of(trained)}
    (draft / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    (draft / "README.md").write_text(card(record), encoding="utf-8")
    _check_sizes(draft)
    for path in draft.iterdir():
        path.chmod(0o644)  # safetensors writes files that only their owner may read
    shutil.rmtree(home, ignore_errors=True)
    os.replace(draft, home)
    return home


def changes_of(trained: Path) -> list[str]:
    """Lines of the training's `changes.txt`; none without that file."""
    file = trained / CHANGES
    return file.read_text("utf-8").splitlines() if file.exists() else []


def take_changes(exported: Path, trained: Path) -> None:
    """Go on with what an exported model's record tells of changes."""
    told = json.loads((exported / RECORD).read_text("utf-8")).get("changes", [])
    (trained / CHANGES).write_text("".join(f"{line}\n" for line in told), encoding="utf-8")


def _record(
    model: Any, state: State, figures: Sequence[Figure], device: torch.device
) -> dict[str, Any]:
    hardware = (
        torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else f"CPU, {platform.machine()}, {os.cpu_count()} cores"
    )
    return {
        "preset": state.preset,
        "seed": state.seed,
        "steps": state.step,
        "tokens": state.tokens,
        "answers": state.answers,
        "curriculum_level": state.progress.reached,
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "hardware": hardware,
        "torch": torch.__version__,
        "seconds": round(state.seconds),
        "held_out": [asdict(figure) for figure in figures],
    }


def _check_sizes(folder: Path) -> None:
    sizes = [path.stat().st_size for path in folder.glob("*.safetensors")]
    if max(sizes) > SHARD_MIB * 2**20 or sum(sizes) > ALL_MIB * 2**20:
        raise ModelError(
            f"the weights take {sum(sizes) >> 20} MiB, a shard {max(sizes) >> 20}; expected "
            f"{ALL_MIB} and {SHARD_MIB} at most"
        )
