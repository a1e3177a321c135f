"""`dpicl model check`: what a run asks of a model before anything is charged, without a run: on
public text, through the same code.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from dpicl.engine.asked import settled_model
from dpicl.engine.readers import public_corpus
from dpicl.engine.settings import Settings
from dpicl.engine.stages.probe import tolerance_of
from dpicl.errors import DpiclError, ModelError
from dpicl.lm.isolation import public_answer
from dpicl.lm.models import estimated_memory, number_format, open_scorer, open_tabular
from dpicl.lm.requests import CONTINUATIONS, Scorer, TextGenerator, prompt
from dpicl.lm.spec import ModelSpec
from dpicl.lm.tables import LabelledRows
from dpicl.lm.votes.voting import GeneratorModel, VoteRequest, VoteRule
from dpicl.methods.public_questions import IN_PROCESS, check_scores, check_votes

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
class Step:
    """One thing that was checked: whether it holds, and what there is to know."""

    check: str
    holds: bool
    detail: str


def check_model(spec: ModelSpec, settings: Settings) -> Iterator[Step]:
    """The checks one by one; the first that does not hold is the last. Nothing is charged, and no
    private text is read.
    """
    try:
        yield from _steps(spec, settings)
    except DpiclError as error:
        yield Step("usable", False, str(error))
    else:
        yield Step("usable", True, f"model {spec.name!r} can be used")


def _steps(spec: ModelSpec, settings: Settings) -> Iterator[Step]:
    if spec.most_rows:
        yield from _rows_steps(spec)
        return
    if spec.kind not in ("endpoint", "fake"):
        yield Step("fits the memory", True, estimated_memory(spec))
    started = time.monotonic()
    scorer = _opened(spec, settings)
    about, seconds = scorer.description, time.monotonic() - started
    if spec.kind == "endpoint":
        yield Step("answers", True, f"{about.mode}; {about.note}; {seconds:.1f} s")
    else:
        where = getattr(scorer, "device", "cpu")
        yield Step(
            "loads",
            True,
            f"{number_format(spec)} on {where}, {seconds:.1f} "
            f"s{'' if about.trained else '; random weights'}",
        )
    spec, asked = settled_model(spec, settings)
    if asked:
        scorer = _opened(spec, settings)
        yield Step("asked by its chat template, or by completion", True, asked.sentence)
    yield _scores(scorer, spec)
    if spec.kind == "endpoint" or spec.kind in IN_PROCESS:
        yield _exclusive(scorer, spec)
    yield from _votes(scorer, spec)
    if isinstance(scorer, TextGenerator):
        yield _writes(scorer, spec)


def _opened(spec: ModelSpec, settings: Settings) -> Scorer:
    return public_answer(
        spec.name, lambda: open_scorer(spec, models_folder=settings.models, corpus=public_corpus())
    )


def _rows_steps(spec: ModelSpec) -> Iterator[Step]:
    """Of a model of tables: it answers about a few made-up rows."""
    started = time.monotonic()
    model = public_answer(spec.name, lambda: open_tabular(spec))
    about = model.description
    yield Step(
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

    alone, together = np.concatenate([ask(values[[place]]) for place in range(3)]), ask(values[:3])
    check_scores(about, alone, together, tolerance=tolerance_of(spec))
    yield Step(
        "answers rows alike, alone and together",
        True,
        f"apart by {np.abs(alone - together).max():.1g} nats",
    )


def _scores(scorer: Scorer, spec: ModelSpec) -> Step:
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
    reads = f"; read by {scorer.reads}" if hasattr(scorer, "reads") else ""
    return Step(
        "scores labels alike, alone and together",
        True,
        f"apart by {np.abs(alone - together).max():.1g} nats{reads}{sent}",
    )


def _exclusive(scorer: Scorer, spec: ModelSpec) -> Step:
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
        if spec.kind == "endpoint":
            return Step(check, True, f"no: {error}")
        raise
    check_scores(
        scorer.description,
        alone,
        scorer.score(PROMPTS[:3], _BEGUN)[:2],
        tolerance=tolerance_of(spec),
    )
    return Step(check, True, "with what ends them")


def _votes(scorer: Scorer, spec: ModelSpec) -> Iterator[Step]:
    """Only a model that runs here reads private texts."""
    if spec.kind not in IN_PROCESS:
        return
    model = cast(GeneratorModel, scorer)
    public, *voters = (model.leading + model.encode(one) for one in PROMPTS)
    requests = [VoteRequest(public, tuple(voters), ()), VoteRequest(voters[0], (), ())]
    for name, kept in (("votes on a text", False), ("votes, with what was read kept", True)):
        public_answer(spec.name, lambda kept=kept: check_votes(model, requests, _RULE, kept=kept))  # type: ignore[misc]
        yield Step(
            name,
            True,
            ""
            if not kept
            else "kept"
            if getattr(scorer, "steps", False)
            else "nothing can be kept: read anew, slower",
        )


def _writes(scorer: Any, spec: ModelSpec) -> Step:
    texts = public_answer(spec.name, lambda: scorer.generate(PROMPTS[:2], new_tokens=_NEW_TOKENS))
    return Step("writes", True, f"{sum(map(len, texts))} characters in {len(texts)} texts")
