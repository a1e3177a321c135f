"""Dry runs remember that a run's models answered: asked the same, the same files of models answer
alike under the same program.

A dry run that opens no model takes a fifth of the time. Nothing is charged on the strength of it: a
run asks its models itself. Servers are asked each time.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import dpicl
from dpicl.engine.files import read_json, write_json
from dpicl.engine.readers import fingerprint
from dpicl.engine.run_folder import Plan
from dpicl.engine.settings import Settings
from dpicl.engine.stages.probe import questions_digest
from dpicl.errors import DpiclError
from dpicl.lm.embedding import embedder_fingerprint
from dpicl.methods.public_questions import IN_PROCESS
from dpicl.processes import gpus_here

FOLDER = "answered"
"""Below the folder of models, which is made again where it is gone."""


def remembered(plan: Plan, settings: Settings) -> Path | None:
    """Where it is remembered that a plan's models answered, or will be; None where they are asked
    each time. Nothing is loaded.

    The name is a digest of the questions and the units, of the models' files, of this program and
    all that is installed beside it, and of the machine.
    """
    specs = [
        plan.model,
        plan.writing_model,
        *plan.beside,
        *([plan.embedder] if plan.embedder else []),
    ]
    if any(spec.kind not in IN_PROCESS for spec in specs):
        return None
    with suppress(DpiclError):  # a model that is not there is refused where it is opened
        files = [
            *map(fingerprint, (plan.model, plan.writing_model, *plan.beside)),
            embedder_fingerprint(plan.embedder),
        ]
        # the longest prompt has as many shots as they ask for
        units = sorted(map(repr, plan.units.values()))
        stored = [line for spec in specs for line in _stored(spec.id or "")]
        parts = [
            questions_digest(plan, settings),
            *units,
            *files,
            *stored,
            *_program(),
            *_machine(),
        ]
        return (
            settings.models
            / FOLDER
            / f"{hashlib.sha256(json.dumps(parts).encode()).hexdigest()}.json"
        )
    return None


def day_of(place: Path | None) -> str | None:
    """The day on which the models answered, in UTC; None where it is not remembered."""
    return str(read_json(place)["utc"]) if place is not None and place.exists() else None


def remember(place: Path | None) -> None:
    """The models have answered."""
    if place is not None:
        write_json(place, {"utc": f"{datetime.now(UTC):%Y-%m-%d}"}, replace=True)


def _stored(folder: str) -> list[str]:
    """Every file of a model's folder with its size and time: a fingerprint has those of its weights
    alone. Nothing of other models.
    """
    path = Path(folder).expanduser()
    files = sorted(path.iterdir()) if folder and path.is_dir() else ()
    return [f"{file.name} {(about := file.stat()).st_size} {about.st_mtime_ns}" for file in files]


def _machine() -> list[str]:
    """Its name, and which of its GPUs may be used."""
    return [platform.node(), *gpus_here()]


def _program() -> list[str]:
    """Every package that is installed, with its version, and every file of this one with its size
    and time.
    """
    folders = [folder for folder in map(Path, sys.path) if folder.is_dir()]
    installed = sorted(path.name for folder in folders for path in folder.glob("*.dist-info"))
    ours = sorted(
        Path(folder, name)
        for folder, _, names in os.walk(Path(dpicl.__file__).parent)
        for name in names
        if name.endswith(".py")
    )
    return [
        sys.version,
        *installed,
        *(f"{path} {(about := path.stat()).st_size} {about.st_mtime_ns}" for path in ours),
    ]
