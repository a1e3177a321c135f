"""`dpicl model check`: what a run asks of a model before anything is charged, without a run: on
public text, through the same code.

Dry runs remember that a run's models answered: asked the same, the same files of models answer
alike under the same program.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np

import dpicl
from dpicl.ground.errors import DpiclError, ModelError
from dpicl.ground.files import read_json, sha256_of, write_json
from dpicl.ground.nouns import many
from dpicl.ground.processes import gpus_here
from dpicl.home.settings import Settings
from dpicl.methods.public_questions import check_scores, check_votes
from dpicl.models.asking import public_answer
from dpicl.models.embedding import embedder_fingerprint
from dpicl.models.opening import open_tabular
from dpicl.models.requests import (
    CONTINUATIONS,
    LabelledRows,
    Sampling,
    Scorer,
    TextGenerator,
    prompt,
)
from dpicl.models.spec import ModelSpec
from dpicl.models.votes import GeneratorModel, VoteRequest, VoteRule
from dpicl.release.readers import fingerprint, reader_of, settled_model
from dpicl.runs.probe import questions_digest, tolerance_of
from dpicl.runs.run_folder import Plan

_EXAMPLE = (
    "This person is {} years old and works as a clerk. Does this person earn more than $50,000? "
    "Yes or No? Answer:"
)
PROMPTS = [
    prompt(
        [_EXAMPLE.format(30 + 7 * line) + CONTINUATIONS[line % 2] for line in range(shots)],
        _EXAMPLE.format(41),
    )
    for shots in (0, 1, 2)
]
PROMPTS += [
    prompt(
        [_EXAMPLE.format(30 + 7 * line) + CONTINUATIONS[line % 2] for line in range(2)],
        _EXAMPLE.format(63),
    )
]
"""Of several lengths, and two that share a beginning."""
_BEGUN = (" 1", " 10", " 100")
_RULE = VoteRule("probability", 30, 1 << 20)
_NEW_TOKENS = 8


@dataclass(frozen=True)
class CheckedStep:
    """One thing that was checked: whether it holds, and what there is to know."""

    check: str
    holds: bool
    detail: str


def check_model(spec: ModelSpec, settings: Settings) -> Iterator[CheckedStep]:
    """The checks one by one; the first that does not hold is the last. Nothing is charged, and no
    private text is read.
    """
    try:
        yield from _steps(spec, settings)
    except DpiclError as error:
        yield CheckedStep("usable", False, str(error))
    else:
        yield CheckedStep("usable", True, f"model {spec.name!r} can be used")


def _steps(spec: ModelSpec, settings: Settings) -> Iterator[CheckedStep]:
    if spec.most_rows:
        yield from _rows_steps(spec)
        return
    if memory := spec.of_kind.memory(spec):
        yield CheckedStep("fits the memory", True, memory)
    started = time.monotonic()
    scorer = _opened(spec, settings)
    about = scorer.description
    seconds = time.monotonic() - started
    if spec.of_kind.is_served:
        yield CheckedStep("answers", True, f"{about.mode}; {about.note}; {seconds:.1f} s")
    else:
        where = getattr(scorer, "device", "cpu")
        yield CheckedStep(
            "loads",
            True,
            f"{spec.number_format} on {where}, {seconds:.1f} "
            f"s{'' if about.trained else '; random weights'}",
        )
    spec, asked = settled_model(spec, settings)
    if asked:
        scorer = _opened(spec, settings)
        yield CheckedStep("asked by its chat template, or by completion", True, asked.sentence)
    yield _scores(scorer, spec)
    if spec.of_kind.is_served or spec.of_kind.is_exact:
        yield _exclusive(scorer, spec)
    yield from _votes(scorer, spec)
    if isinstance(scorer, TextGenerator):
        generate = partial(scorer.generate, PROMPTS[:2], Sampling(_NEW_TOKENS))
        texts = public_answer(spec.name, generate)
        yield CheckedStep(
            "writes",
            True,
            f"{many(sum(map(len, texts)), 'character')} in {many(len(texts), 'text')}",
        )


def _opened(spec: ModelSpec, settings: Settings) -> Scorer:
    return public_answer(spec.name, lambda: reader_of(spec, settings))


def _rows_steps(spec: ModelSpec) -> Iterator[CheckedStep]:
    """Of a model of tables: it answers about a few made-up rows."""
    started = time.monotonic()
    model = public_answer(spec.name, lambda: open_tabular(spec))
    about = model.description
    yield CheckedStep(
        "loads",
        True,
        f"{about.mode}, {time.monotonic() - started:.1f} "
        f"s{'' if about.trained else '; random weights'}",
    )
    rows = np.arange(64)
    values = np.stack([rows % 7, rows % 5, rows // 8], axis=1).astype(np.float64)
    context = LabelledRows(values, rows // 3 % 2, [0])

    def ask(queries: np.ndarray) -> np.ndarray:
        return public_answer(spec.name, lambda: model.log_probabilities(context, queries, 2))

    alone = np.concatenate([ask(values[[place]]) for place in range(3)])
    together = ask(values[:3])
    check_scores(about, alone, together, tolerance=tolerance_of(spec))
    yield CheckedStep(
        "answers rows one by one as in a batch",
        True,
        f"log-probabilities differ by at most {np.abs(alone - together).max():.1g}",
    )


def _scores(scorer: Scorer, spec: ModelSpec) -> CheckedStep:
    """Labels told apart, and scored alike alone, in a batch and with a shared beginning."""
    alone = np.concatenate(
        [
            public_answer(spec.name, lambda one=one: scorer.score([one], CONTINUATIONS))  # type: ignore[misc]
            for one in PROMPTS
        ]
    )
    together = public_answer(spec.name, lambda: scorer.score(PROMPTS, CONTINUATIONS))
    check_scores(scorer.description, alone, together, tolerance=tolerance_of(spec))
    tally = getattr(scorer, "tally", None)
    sent = (
        f"; {tally(PROMPTS, CONTINUATIONS)['calls'] / len(PROMPTS):.3g} requests a prompt, with "
        f"those of the probe"
        if tally
        else ""
    )
    reads = f"; reads {scorer.reads}" if hasattr(scorer, "reads") else ""
    return CheckedStep(
        "scores labels one by one as in a batch",
        True,
        f"log-probabilities differ by at most {np.abs(alone - together).max():.1g}{reads}{sent}",
    )


def _exclusive(scorer: Scorer, spec: ModelSpec) -> CheckedStep:
    """Of labels of which one begins another only one can be said; a server that cannot be asked for
    them can be used for others.
    """
    check = "scores labels of which one begins another"
    try:
        alone = np.concatenate(
            [
                public_answer(spec.name, lambda one=one: scorer.score([one], _BEGUN))  # type: ignore[misc]
                for one in PROMPTS[:2]
            ]
        )
    except ModelError as error:
        if spec.of_kind.is_served:
            return CheckedStep(check, True, f"no: {error}")
        raise
    check_scores(
        scorer.description,
        alone,
        scorer.score(PROMPTS[:3], _BEGUN)[:2],
        tolerance=tolerance_of(spec),
    )
    return CheckedStep(check, True, "with what ends them")


def _votes(scorer: Scorer, spec: ModelSpec) -> Iterator[CheckedStep]:
    """Only a model that runs here reads private texts."""
    if not spec.of_kind.is_exact:
        return
    model = cast(GeneratorModel, scorer)
    public, *voters = (model.leading + model.encode(text) for text in PROMPTS)
    requests = [VoteRequest(public, tuple(voters), ()), VoteRequest(voters[0], (), ())]
    for name, kept in (("votes on a text", False), ("votes on a text that is read once", True)):
        public_answer(spec.name, lambda kept=kept: check_votes(model, requests, _RULE, kept=kept))  # type: ignore[misc]
        yield CheckedStep(
            name,
            True,
            "read anew for every token"
            if not kept
            else "the same votes"
            if getattr(scorer, "steps", False)
            else "it cannot: read anew for every token, slower",
        )


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
    if not all(spec.of_kind.is_exact for spec in specs):
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
            platform.node(),
            *gpus_here(),
        ]
        return settings.models / FOLDER / f"{sha256_of(json.dumps(parts))}.json"
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
