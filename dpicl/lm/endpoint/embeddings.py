"""Points of texts from a server's `/embeddings`, in the form of OpenAI's.

Answers of private prompts are sent, so that the server must be trusted with private rows (`lm.embedding.check_embedder`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import partial
from typing import Any

import numpy as np

from dpicl.lm.endpoint.client import Client, Usage
from dpicl.lm.endpoint.protocol import GarbledError
from dpicl.lm.endpoint.scorer import START, key_of
from dpicl.lm.spec import ModelSpec

_AT_ONCE = 64


class EndpointEmbedder:
    """One embedding model of one server; its key is read from the environment here. Raises ModelError: there is none where one is named."""

    def __init__(self, spec: ModelSpec) -> None:
        self._spec, self._key = spec, key_of(spec)

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """See `Embedder.embed`; texts without content are not sent. Raises ModelError: the server does not answer."""
        places = [place for place, text in enumerate(texts) if text.strip()]
        with ThreadPoolExecutor(1) as thread:  # the caller's thread may have an event loop of its own
            found = thread.submit(asyncio.run, self._points([texts[place] for place in places])).result()
        points = np.zeros((len(texts), found.shape[1]))
        points[places] = found
        return points

    async def _points(self, texts: Sequence[str]) -> np.ndarray:
        parts = []
        async with aclosing(Client(self._spec, self._key, Usage(), float(START))) as client:
            for start in range(0, len(texts), _AT_ONCE):
                some = list(texts[start : start + _AT_ONCE])
                body = {"model": self._spec.id, "input": some, "encoding_format": "float"}
                parts.append(await client.send("/embeddings", body, partial(_read, count=len(some))))
        return np.concatenate(parts) if parts else np.zeros((0, 1))


def _read(reply: Any, *, count: int) -> np.ndarray:
    """Points of norm 1 in the order of the texts. Raises GarbledError: the reply is of another shape."""
    try:
        rows = sorted(reply["data"], key=lambda one: int(one["index"]))
        points = np.array([one["embedding"] for one in rows], dtype=np.float64)
        lengths = np.linalg.norm(points, axis=1, keepdims=True)
    except (KeyError, TypeError, ValueError):
        raise GarbledError("the reply holds no embeddings") from None
    if len(points) != count or not np.isfinite(points).all() or not (lengths > 0).all():
        raise GarbledError("the reply holds no embedding for every text")
    return np.asarray(points / lengths)
