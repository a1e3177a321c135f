"""Who takes part in a query by being near to it: a public embedder places texts, and every record,
or person, has uses of its own.

Trust       Central: who takes part, and how often it did, is private, and told nobody. Queries and
            the embedder are public.
Guarantee   that of `mechanisms.record_filter`, of which this is the wiring. A text that the
            embedder fails on takes no part, and no other text is touched: each is placed on its
            own, in a call of its own.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from dpicl.lm.embedding import Embedder
from dpicl.lm.isolation import isolated_answers, public_answer
from dpicl.mechanisms.record_filter import near, takes_part, whole_points
from dpicl.methods.ensemble.voting import Placement
from dpicl.methods.memory import StoredVotes
from dpicl.pipeline import Cell
from dpicl.text.prompts import PUBLIC_TEXT


class Spending(Protocol):
    """How often each unit took part in the queries of one release: private, and durable before an
    answer is drawn.
    """

    @property
    def key(self) -> bytes:
        """The secret by which units are marked and placed: the same for the whole release, whatever
        becomes of the rows.
        """
        ...

    def admit(self, number: int, units: np.ndarray, is_near: np.ndarray) -> np.ndarray:
        """Which rows take part in a query, by `record_filter` (2): shape (rows,), bool. Asked again
        for a query, those that took part.

        Args:
            units: marks of the rows' units, shape (rows, bytes).
            is_near: shape (rows,), bool; a unit is near where any of its rows is.
        """
        ...


class Counted:
    """Spending of a release whose queries are all known and admitted in their order: it follows
    from them, and need not be stored.
    """

    def __init__(self, most: int) -> None:
        self._most, self._uses = most, Counter[bytes]()

    def admit(self, _number: int, units: np.ndarray, is_near: np.ndarray) -> np.ndarray:
        """As `Spending.admit`, of the next query."""
        names = [unit.tobytes() for unit in units]
        uses = np.array([self._uses[name] for name in names], dtype=np.int64)
        rows = takes_part(is_near, uses, most=self._most)
        self._uses.update({names[row] for row in np.flatnonzero(rows)})
        return rows


def admitted(
    placement: Placement,
    queries: Sequence[tuple[int, str]],
    embedder: Embedder,
    spending: Spending | None,
    stored: StoredVotes,
    cell: Cell,
) -> dict[int, np.ndarray]:
    """For each numbered query which rows take part, shape (rows,); without `spending` these are all
    queries of a release, in their order. Raises DpiclError: the embedder fails on public texts too.
    """
    shape = placement.shape
    assert shape.similarity is not None and shape.participations is not None
    records = row_points(placement.train.data.column("text"), embedder, stored, cell)
    admit = (spending or Counted(shape.participations)).admit
    taking: dict[int, np.ndarray] = {}
    for number, query in queries:
        (asked,) = whole_points(
            public_answer("embedder", lambda query=query: embedder.embed([query]))  # type: ignore[misc]
        )
        is_near = near(records, asked, similarity=shape.similarity) & placement.entering
        taking[number] = admit(number, placement.units, is_near)
    return taking


def row_points(
    texts: pa.ChunkedArray, embedder: Embedder, stored: StoredVotes, cell: Cell
) -> np.ndarray:
    """Whole points of all rows, shape (rows, dimensions); stored, as a worker may be lost and a
    session asks again and again.
    """
    rows = texts.to_pylist()
    name = "points " + hashlib.sha256("\0".join(rows).encode("utf-8", "surrogatepass")).hexdigest()
    content = stored.read(cell, name)
    if content is None:
        points = _placed(rows, embedder)
        stored.write(cell, name, zlib.compress(points.tobytes(), 1))
        return points
    return np.frombuffer(zlib.decompress(content), dtype=np.int32).reshape(len(rows), -1)


def _placed(rows: Sequence[str], embedder: Embedder) -> np.ndarray:
    def embed(texts: Sequence[str]) -> list[np.ndarray]:
        return list(whole_points(embedder.embed(texts)))

    def public() -> list[np.ndarray]:
        return public_answer("embedder", lambda: embed([PUBLIC_TEXT]))

    (somewhere,) = public()
    points = np.zeros((len(rows), len(somewhere)), dtype=np.int32)
    for row, text in enumerate(rows):
        (point,) = isolated_answers(embed, [text], somewhere * 0, public)
        points[row] = point if len(point) == len(somewhere) else 0
    return points
