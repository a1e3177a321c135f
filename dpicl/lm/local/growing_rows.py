"""Reading rows that grow by a token at a time: keys and values of what was read before are kept.

Rows are read in chunks, padded on the left to the same width; each later step appends as many
tokens to every row of a chunk. A chunk whose rows did not grow alike is read anew, and rows that
are not asked for any more leave it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from transformers import Cache

from dpicl.lm.local.batching import Tokens, pad_left, plan_batches
from dpicl.lm.local.oom_retry import run_with_oom_retry
from dpicl.lm.local.padded_reader import read_padded
from dpicl.lm.local.preallocated_cache import ROOM, PreallocatedCacheLayer
from dpicl.lm.local.vote_reader import FreshRows, Key, Reader, Rows

BUDGETS = 4
"""Token budgets in a chunk: a step reads one token of each row, and few rows leave a machine idle."""
CPU_BYTES = 4 << 30
"""Most that caches may take of a CPU's memory, whose end a process does not live to see; a GPU says so."""
_PROBE = ((1, 2, 3, 4, 5, 6, 7), (3, 4, 5, 2, 1))
_PROBED = (5, 3)
"""What is read of these rows at first; every vocabulary has these tokens."""


@dataclass
class _Chunk:
    """Rows that are read together, how much of each was read, and what the model remembers of it."""

    keys: list[Key]
    lengths: np.ndarray
    width: int = 0
    cache: Cache = field(default_factory=lambda: Cache(layer_class_to_replicate=PreallocatedCacheLayer))

    @torch.inference_mode()
    def read(self, reader: Reader, new: Sequence[Tokens]) -> torch.Tensor:
        """Logits after these further tokens of each row, shape (rows, vocabulary); as many of each, but for the first time."""
        padded = pad_left(new)
        held = np.arange(self.width) >= self.width - self.lengths[:, np.newaxis]

        def there(array: np.ndarray) -> torch.Tensor:
            return torch.from_numpy(array).to(reader.device)

        logits = reader.model(
            input_ids=there(padded.tokens),
            attention_mask=there(np.concatenate([held.astype(np.int64), padded.mask], axis=1)),
            position_ids=there(padded.positions + self.lengths[:, np.newaxis]),
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=1,
        ).logits[:, -1]
        self.width += padded.tokens.shape[1]
        self.lengths = self.lengths + padded.mask.sum(axis=1)
        return logits

    @torch.inference_mode()
    def keep(self, lines: Sequence[int]) -> None:
        """Forget all rows but these."""
        if len(lines) < len(self.keys):
            self.keys, self.lengths = [self.keys[line] for line in lines], self.lengths[lines]
            self.cache.batch_select_indices(torch.tensor(lines))

    @property
    def size(self) -> int:
        """Columns of all rows."""
        return len(self.keys) * (self.width + ROOM)


class GrowingRows:
    """Reads rows of which most were read before, but for their last token.

    Args:
        token_bytes: of the cache, see `token_bytes`.
    """

    def __init__(self, reader: Reader, token_bytes: int) -> None:
        self._reader, self._chunks = reader, list[_Chunk]()
        self._most = CPU_BYTES // token_bytes if reader.device.type == "cpu" else None

    def after(self, rows: Rows) -> Iterator[tuple[list[Key], torch.Tensor]]:
        """See `LastLogits.after`; a row that was read before begins with what was read of it.

        Raises:
            ModelError: memory does not suffice; nothing that is kept can be used again.
        """
        waiting = dict(rows)
        for chunk in list(self._chunks):
            logits = self._grown(chunk, rows)
            if logits is None:
                self._chunks.remove(chunk)
                continue
            for key in chunk.keys:
                del waiting[key]
            yield chunk.keys, logits
        yield from self._begun(waiting)

    def _grown(self, chunk: _Chunk, rows: Rows) -> torch.Tensor | None:
        """Logits after the chunk's rows, or None if they did not grow alike or are all gone."""
        lines = [line for line, key in enumerate(chunk.keys) if key in rows]
        new = [rows[chunk.keys[line]][chunk.lengths[line] :] for line in lines]
        if len({len(tokens) for tokens in new}) != 1 or not new[0]:
            return None
        chunk.keep(lines)
        return next(run_with_oom_retry([chunk], lambda _: chunk.read(self._reader, new)))

    def _begun(self, rows: Rows) -> Iterator[tuple[list[Key], torch.Tensor]]:
        """Rows from their beginning: they are kept as long as there is room."""
        keys = sorted(rows, key=lambda key: (rows[key], key))

        def begin(lines: Sequence[int]) -> tuple[_Chunk, torch.Tensor]:
            chunk = _Chunk([keys[line] for line in lines], np.zeros(len(lines), dtype=np.int64))
            return chunk, chunk.read(self._reader, [rows[key] for key in chunk.keys])

        left: list[Key] = []
        for batch in plan_batches([len(rows[key]) for key in keys], BUDGETS * self._reader.token_budget):
            if not self._has_room(len(batch) * (len(rows[keys[batch[0]]]) + ROOM)):
                left += [keys[line] for line in batch]
                continue
            for chunk, logits in run_with_oom_retry(batch, begin):
                self._chunks.append(chunk)
                yield chunk.keys, logits
        yield from FreshRows(self._reader).after({key: rows[key] for key in left})

    def _has_room(self, size: int) -> bool:
        return self._most is None or size + sum(chunk.size for chunk in self._chunks) <= self._most


def token_bytes(reader: Reader) -> int | None:
    """Bytes that the cache takes for one token, or None if this model cannot be read in steps: a small probe tells."""
    chunk = _Chunk([(0, 0), (0, 1)], np.zeros(2, dtype=np.int64))
    try:
        chunk.read(reader, [row[:length] for row, length in zip(_PROBE, _PROBED, strict=True)])
        logits = chunk.read(reader, [row[length:] for row, length in zip(_PROBE, _PROBED, strict=True)])
        layers: Any = chunk.cache.layers
        size = sum(layer.column_bytes for layer in layers)
    except Exception:  # noqa: BLE001 - models of other kinds, such as hybrid ones, fail in ways of their own
        return None
    wanted = [(len(row) - 1,) for row in _PROBE]
    tolerance = 1e-3 if reader.model.dtype == torch.float32 else 0.1
    for places, whole in read_padded(reader.model, _PROBE, wanted, device=reader.device, token_budget=64):
        if not torch.allclose(whole.float(), logits[[row for row, _ in places]].float(), rtol=tolerance, atol=tolerance):
            return None
    return size
