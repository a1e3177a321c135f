"""Points of texts from a server's `/embeddings`, in the form of OpenAI's.

Answers of private prompts are sent, so that the server must be trusted with private rows
(`lm.embedding.check_embedder`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any

import numpy as np

from dpicl.lm.endpoint.client import Client, Usage
from dpicl.lm.endpoint.protocol import GarbledError
from dpicl.lm.endpoint.scorer import START, key_of
from dpicl.lm.spec import ModelSpec


class EndpointEmbedder:
    """One embedding model of one server; its key is read from the environment here. Raises
    ModelError: there is none where one is named.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self._spec, self._key = spec, key_of(spec)

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """See `Embedder.embed`; texts without content are not sent. Raises ModelError: the server
        does not answer.
        """
        places = [place for place, text in enumerate(texts) if text.strip()]
        # the caller's thread may have an event loop of its own
        with ThreadPoolExecutor(1) as thread:
            found = thread.submit(
                asyncio.run, self._points([texts[place] for place in places])
            ).result()
        points = np.zeros((len(texts), found.shape[1]))
        points[places] = found
        return points

    async def _points(self, texts: Sequence[str]) -> np.ndarray:
        """One request for each text: what a server makes of one private answer, an error too, then
        moves no other from here on.
        """
        async with aclosing(Client(self._spec, self._key, Usage(), float(START))) as client:
            bodies = (
                {"model": self._spec.id, "input": [text], "encoding_format": "float"}
                for text in texts
            )
            points = await asyncio.gather(
                *(client.send("/embeddings", body, _read) for body in bodies)
            )
        return np.stack(points) if points else np.zeros((0, 1))


def _read(reply: Any) -> np.ndarray:
    """A point of norm 1. Raises GarbledError: the reply is of another shape."""
    try:
        (one,) = reply["data"]
        point = np.array(one["embedding"], dtype=np.float64)
        length = float(np.linalg.norm(point))
    except (KeyError, TypeError, ValueError):
        raise GarbledError("the reply holds no embedding") from None
    if point.ndim != 1 or not np.isfinite(length) or not length > 0:
        raise GarbledError("the reply holds no embedding")
    return np.asarray(point / length)
