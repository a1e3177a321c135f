"""What may be sent to which model: released demonstrations to any, true rows to local ones only.

A model that others run (`trust: remote`) keeps what it is sent. Without noise (epsilon = inf)
a demonstration is a true row, and only a table that is public anyway may send one there. The
plan checks before a row is read, and every stage that uses a model before it opens the model.

Not covered public queries, which are sent as they are, wherever the model runs; held-out private
rows stay local.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpicl.contract.declared import Declared
from dpicl.errors import ParameterError, PrivacyError
from dpicl.lm.requests import ModelDescription, Progress, Scorer, TextGenerator
from dpicl.lm.spec import ModelSpec
from dpicl.pipeline import Cell, Unit
from dpicl.types import PrivatePrompts, ReleasedPrompts


def prompts_of(
    texts: Sequence[str], contract: Declared, cell: Cell
) -> ReleasedPrompts | PrivatePrompts:
    """Texts with their trust: those of a noiseless cell are private unless the table is public,
    those that ask held-out private rows always.
    """
    noiseless = cell.epsilon is not None and math.isinf(cell.epsilon)
    private = (
        noiseless and not contract.privacy.budget.benchmark
    ) or contract.evaluation == "charged"
    kind = PrivatePrompts if private else ReleasedPrompts
    return kind(tuple(texts))


def check_egress(contract: Declared, unit: Unit, model: ModelSpec) -> None:
    """Refuse a unit that would send private rows to a model that others run.

    Raises:
        PrivacyError: names the table and the model; nothing was read, nothing was opened.
    """
    if contract.evaluation == "charged" and model.trust != "local":
        raise PrivacyError(
            f"{contract.name}: model {model.name!r} has trust {model.trust!r}, and "
            f"`split.evaluation_epsilon` asks it held-out private rows; "
            f"expected a local model, or public rows to ask: `queries`"
        )
    private = sum(
        isinstance(prompts_of((), contract, cell), PrivatePrompts) for cell in unit.cells("icl")
    )
    if private and model.trust != "local":
        raise PrivacyError(
            f"{contract.name}: model {model.name!r} has trust {model.trust!r}, and epsilon=inf "
            f"sends it rows without noise "
            f"({private} cells); expected a finite epsilon, a local model, or a contract with "
            f"`benchmark: true`"
        )


def score_prompts(
    scorer: Scorer,
    prompts: ReleasedPrompts | PrivatePrompts,
    continuations: Sequence[str],
    *,
    progress: Progress | None = None,
) -> np.ndarray:
    """`Scorer.score` for prompts with their trust; shape (prompts, continuations), in nats.

    Raises:
        PrivacyError: the texts hold private rows and the model is not local, or they have no trust
            type.
    """
    _check_trust(scorer.description, prompts)
    return scorer.score(prompts.texts, continuations, progress=progress)


def generate_texts(
    generator: TextGenerator,
    prompts: ReleasedPrompts | PrivatePrompts,
    *,
    new_tokens: int,
    stop: Sequence[str],
    temperature: float = 0.0,
    seed: int = 0,
) -> list[str]:
    """`TextGenerator.generate` for prompts with their trust.

    A text is as private as the prompt that it follows.

    Raises:
        PrivacyError: as `score_prompts`.
        ParameterError: no token is allowed, the temperature is no number from 0 on, or a stop
            string is empty.
    """
    _check_trust(generator.description, prompts)
    if new_tokens < 1:
        raise ParameterError("new_tokens", new_tokens, "at least 1")
    if not 0 <= temperature < math.inf:
        raise ParameterError("temperature", temperature, "a number from 0 on")
    if isinstance(stop, str) or "" in stop:
        raise ParameterError("stop", stop, "a list of strings that are not empty")
    return generator.generate(
        prompts.texts, new_tokens=new_tokens, stop=stop, temperature=temperature, seed=seed
    )


def _check_trust(model: ModelDescription, prompts: ReleasedPrompts | PrivatePrompts) -> None:
    allowed = ReleasedPrompts | PrivatePrompts if model.trust == "local" else ReleasedPrompts
    if not isinstance(prompts, allowed):
        raise PrivacyError(
            f"model {model.name!r} has trust {model.trust!r} and may not be sent "
            f"{type(prompts).__name__}; "
            f"expected released prompts, or private ones for a local model"
        )
