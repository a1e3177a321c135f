"""A sentence encoder on this machine: a transformers encoder whose tokens' vectors are pooled, in
the layout of sentence-transformers or plain.

No code from a model's folder is run, and no pickled weights are read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from transformers.utils import logging as transformers_logging

from dpicl.errors import ModelError
from dpicl.lm.local.memory import choose_device
from dpicl.lm.local.model_files import find_model_files
from dpicl.lm.spec import ModelSpec

_AT_ONCE = 1
"""In a batch the length of one text would move the points of others by rounding: one private answer
moves its own point only.
"""
_MODULES = {
    f"sentence_transformers.models.{name}" for name in ("Transformer", "Pooling", "Normalize")
}
_one_at_a_time = Lock()


class SentenceEncoder:
    """One encoder, in float32. A folder without a pooling of its own is pooled by the mean; texts
    are cut at its longest.

    Raises:
        ModelError: files are missing, broken, or not of an encoder; or it has further parts, whose
            code or weights are not read.
    """

    def __init__(self, spec: ModelSpec) -> None:
        folder, _ = find_model_files(str(spec.id), spec.revision)
        _check_modules(folder, spec.name)
        transformers_logging.disable_progress_bar()
        try:
            self._model = SentenceTransformer(
                str(folder),
                device=str(choose_device(spec.device)),
                local_files_only=True,
                trust_remote_code=False,
                model_kwargs={"use_safetensors": True, "dtype": torch.float32},
            )
        except Exception as error:  # noqa: BLE001 - every architecture fails in ways of its own
            reason = (
                (str(error).strip() or type(error).__name__).splitlines()[0][:200].rstrip(" .:")
            )
            raise ModelError(
                f"embedder {spec.name!r} cannot be loaded ({reason}); expected a sentence encoder "
                f"with safetensors"
            ) from None

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """See `Embedder.embed`."""
        with _one_at_a_time:
            points = self._model.encode(
                list(texts), batch_size=_AT_ONCE, normalize_embeddings=True, show_progress_bar=False
            )
        has_content = np.array([bool(text.strip()) for text in texts], dtype=bool)
        return (
            np.asarray(points, dtype=np.float64).reshape(len(texts), -1)
            * has_content[:, np.newaxis]
        )


def _check_modules(folder: Path, name: str) -> None:
    """Of a folder that names its parts: only those that hold no code and no pickled weights."""
    stated = folder / "modules.json"
    if not stated.exists():
        return
    try:
        kinds = [str(one["type"]) for one in json.loads(stated.read_text("utf-8"))]
    except (ValueError, KeyError, TypeError):
        raise ModelError(
            f"embedder {name!r}: its modules.json is damaged; expected that of "
            f"sentence-transformers"
        ) from None
    if odd := [kind for kind in kinds if _plain(kind) not in _MODULES]:
        raise ModelError(
            f"embedder {name!r} has a part {odd[0][:80]!r}; expected an encoder, its pooling and "
            f"a normalisation alone"
        )


def _plain(kind: str) -> str:
    """A part's class as all versions of the library have named it."""
    return (
        f"sentence_transformers.models.{kind.rpartition('.')[2]}"
        if kind.startswith("sentence_transformers.")
        else kind
    )
