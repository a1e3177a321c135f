"""Opening a model: the scorer or the generator model of an entry; at most one stays loaded beside
those that need hardly any memory.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import cast

from dpicl.ground.errors import PrivacyError
from dpicl.ground.installed import importing
from dpicl.models.kinds.base import Opened
from dpicl.models.requests import Scorer, TabularModel
from dpicl.models.spec import ModelSpec, Wanted
from dpicl.models.votes import GeneratorModel

_one_at_a_time = Lock()
_opened: dict[tuple[Opened, Path], Scorer] = {}
"""At most one of each little kind, and one of all others: the scorer opened last."""


def open_scorer(
    spec: ModelSpec,
    *,
    models_folder: Path,
    corpus: Sequence[str],
    wanted: Wanted = "scores",
    mode: str = "",
) -> Scorer:
    """The scorer for a model; it stays loaded for all threads until another one is opened.

    Args:
        spec: which model.
        models_folder: where the tiny model is kept; created if missing.
        corpus: public texts for the tiny model's tokenizer.
        wanted: what a server must be able to do; all others score and write.
        mode: how a server is known to answer, as its description says; it is tried first.

    Raises:
        ModelError: the model cannot be loaded.
    """
    kind = spec.of_kind
    loaded = spec.model_copy(update={"api": "auto"}) if kind.is_templated else spec
    made_from = tuple(corpus) if kind.is_made else ()
    key = (loaded, made_from, wanted if kind.is_served else "scores"), models_folder
    with _one_at_a_time:  # two threads must not load the same model twice
        if key not in _opened:
            for other in [*_opened]:
                beside = other[0][0].of_kind
                if beside is kind if kind.is_little else not beside.is_little:
                    del _opened[other]  # first, so that two models never fill the memory together
            _opened[key] = kind.open(*key, mode)
        scorer = _opened[key]
        is_chat = kind.is_templated and spec.api == "chat"
        return scorer.by_template if is_chat else scorer  # type: ignore[attr-defined]


def close_scorers() -> None:
    """Let go of the scorer that is open, and of the GPU memory that it took: other processes are
    about to open it.
    """
    with _one_at_a_time:
        _opened.clear()
    if (torch := sys.modules.get("torch")) is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def open_generator(
    spec: ModelSpec, *, models_folder: Path, corpus: Sequence[str]
) -> GeneratorModel:
    """The same for a model that runs here and may read private texts; it is loaded once for both.

    Raises:
        PrivacyError: the model is one that others run, or a server's.
        ModelError: the model cannot be loaded.
    """
    if spec.of_kind.is_served or spec.trust != "local":
        raise PrivacyError(
            f"model {spec.name!r} has kind {spec.kind!r} and trust {spec.trust!r}; raw rows stay "
            f"local: expected a local model"
        )
    return spec.of_kind.open_generator(spec) or cast(
        GeneratorModel, open_scorer(spec, models_folder=models_folder, corpus=corpus)
    )


def open_tabular(spec: ModelSpec) -> TabularModel:
    """A model of tables; no text is scored by it. Raises ModelError: the model cannot be loaded, or
    is none of tables.
    """
    with _one_at_a_time:
        _opened.clear()
    return spec.of_kind.open_tabular(spec)


def import_backend() -> None:
    """Import the local back end ahead of time, if it is installed; a scorer that is opened
    meanwhile waits.

    Two threads that import `transformers` at once get halves of it.
    """
    with _one_at_a_time, suppress(ImportError), importing():
        from dpicl.models.local import transformers_backend  # noqa: F401 - the import is it
