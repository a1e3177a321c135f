"""Voters that stay for a whole text: rows that grow by a token at a time, with keys and values of
what was read before kept.

Rows are read in chunks, padded on the left to the same width; each later step appends as many
tokens to every row of a chunk. A chunk whose rows did not grow alike is read anew, and rows that
are not needed any more leave it. A model's own pass packs whole rows one after another at first,
shared beginnings once, and then reads the newest token of each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import Cache, DynamicLayer

from dpicl.models.local.packed_rows import PackedRow, Pair
from dpicl.models.local.padded_reader import (
    LoadedModel,
    pad_left,
    plan_batches,
    read_padded,
    run_with_oom_retry,
    tolerance_of,
)
from dpicl.models.local.tree_reader import Pass, PrefixTree, pass_of, read_shared
from dpicl.models.local.vote_reader import (
    Key,
    KeyedLogits,
    LastLogits,
    Reader,
    Rows,
    count_votes,
    distinct_voters,
    read_fresh,
)
from dpicl.models.requests import Tokens
from dpicl.models.votes import OpenRequests, VoteRequest, VoteRule, Votes

BUDGETS = 8
"""Token budgets in a chunk: a step reads one token of each row, and few rows leave a machine
idle.
"""
LEFT = 0.75
"""Share of a chunk's rows from which on those that are not needed any more are read along: to copy
all others takes longer.
"""
ROOM = 32
"""Columns that a cache grows by at once: everything is copied every so many tokens, not at each."""
CPU_BYTES = 4 << 30
"""Most that caches may take of a CPU's memory, whose end a process does not live to see; a GPU
reports it.
"""
_PROBE = ((1, 2, 3, 4, 5, 6, 7), (3, 4, 5, 2, 1))
_PROBED = ((5, 3), (6, 4), (7, 5))
"""Up to where these rows are read, one time after another; every vocabulary has these tokens."""


class PreallocatedCacheLayer(DynamicLayer):
    """One layer of a transformers cache, which grows into columns that it has allocated, so that a
    step copies only what is new.

    Keys and values are of shape (rows, heads, columns, width).
    """

    _stores: list[torch.Tensor]
    """Keys and values with columns to grow into, once there are any."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append columns to all rows."""
        new = (key_states, value_states)
        if not self.is_initialized:
            self.lazy_initialization(*new)
            self._stores = [states[:, :, :0] for states in new]
        start = self.get_seq_length()
        stop = start + key_states.shape[2]
        if stop > self._stores[0].shape[2]:
            for index, store in enumerate(self._stores):
                wider = store.new_empty((*store.shape[:2], stop + ROOM, store.shape[3]))
                wider[:, :, :start] = store[:, :, :start]
                self._stores[index] = wider
        for store, states in zip(self._stores, new, strict=True):
            store[:, :, start:stop] = states
        self.keys, self.values = (store[:, :, :stop] for store in self._stores)
        return self.keys, self.values

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep these rows."""
        if self.is_initialized:
            stop = self.get_seq_length()
            self._stores = [store[indices] for store in self._stores]
            self.keys, self.values = (store[:, :, :stop] for store in self._stores)

    @property
    def column_bytes(self) -> int:
        """Of one column of one row."""
        return sum(store[:1, :, :1].nbytes for store in self._stores)


@dataclass
class _Chunk:
    """Rows that are read together, how much of each was read, and the cache of it; `own_pass` reads
    where it can.
    """

    keys: list[Key]
    lengths: np.ndarray
    own_pass: Pass | None = None
    width: int = 0
    cache: Cache = field(
        default_factory=lambda: Cache(layer_class_to_replicate=PreallocatedCacheLayer)
    )

    @torch.inference_mode()
    def read(
        self, reader: Reader, new: Sequence[Tokens], among: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Logits after these further tokens of each row, shape (rows, tokens): see `LastLogits`; as
        many of each, but for the first time.
        """
        own = pass_of(reader.model, self.own_pass)
        most = max(map(len, new))
        if own is not None and not self.width:
            logits = read_beginnings(own, new, self.cache, token_budget=reader.token_budget)
        elif own is not None and most == 1:
            logits = read_newest(own, [token for (token,) in new], self.lengths, self.cache, among)
            among = None
        else:
            logits = self._by_transformers(reader, new)
        self.width += most
        self.lengths = self.lengths + [len(tokens) for tokens in new]
        return logits if among is None else logits[:, among]

    def _by_transformers(self, reader: Reader, new: Sequence[Tokens]) -> torch.Tensor:
        padded = pad_left(new)
        held = np.arange(self.width) >= self.width - self.lengths[:, np.newaxis]
        output = reader.model(
            input_ids=reader.on_device(padded.tokens),
            attention_mask=reader.on_device(
                np.concatenate([held.astype(np.int64), padded.mask], axis=1)
            ),
            position_ids=reader.on_device(padded.positions + self.lengths[:, np.newaxis]),
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: torch.Tensor = output.logits[:, -1].to(reader.device)
        return logits

    @torch.inference_mode()
    def keep(self, lines: Sequence[int]) -> None:
        """Forget all rows but these."""
        if len(lines) < len(self.keys):
            self.keys = [self.keys[line] for line in lines]
            self.lengths = self.lengths[lines]
            self.cache.batch_select_indices(torch.tensor(lines))


class GrowingRows:
    """Reads rows of which most were read before, but for their last token.

    Args:
        token_bytes: of the cache, see `token_bytes`.
        own_pass: in place of transformers' own, see `steps_of`.
    """

    def __init__(self, reader: Reader, token_bytes: int, own_pass: Pass | None) -> None:
        self._reader = reader
        self._own_pass = own_pass
        self._chunks = list[_Chunk]()
        self._most_columns = CPU_BYTES // token_bytes if reader.device.type == "cpu" else None

    def after(self, rows: Rows, among: torch.Tensor | None = None) -> KeyedLogits:
        """See `vote_reader.LastLogits`; a row that was read before begins with what was read of it.

        Raises:
            ModelError: memory does not suffice; nothing that is kept can be used again.
        """
        waiting = dict(rows)
        for chunk in list(self._chunks):
            lines = [line for line, key in enumerate(chunk.keys) if key in rows]
            new = [rows[chunk.keys[line]][chunk.lengths[line] :] for line in lines]
            # they did not grow alike, or are all gone
            if len({len(tokens) for tokens in new}) != 1 or not new[0]:
                self._chunks.remove(chunk)
                continue
            fits = (
                self._reader.context is None
                or chunk.lengths.max() + len(new[0]) <= self._reader.context
            )
            if len(lines) < LEFT * len(chunk.keys) or not fits:
                chunk.keep(lines)
                lines = list(range(len(lines)))
            of_line = dict(zip(lines, new, strict=True))
            nothing = (0,) * len(new[0])
            read = [of_line.get(line, nothing) for line in range(len(chunk.keys))]
            logits = next(
                run_with_oom_retry(
                    [chunk],
                    lambda _, chunk=chunk, read=read: chunk.read(self._reader, read, among),  # type: ignore[misc]
                )
            )
            keys = [chunk.keys[line] for line in lines]
            for key in keys:
                del waiting[key]
            yield keys, logits if len(lines) == len(chunk.keys) else logits[lines]
        yield from self._begin(waiting, among)

    def _begin(self, rows: Rows, among: torch.Tensor | None) -> KeyedLogits:
        """Rows from their beginning: they are kept as long as there is room."""
        keys = sorted(rows, key=lambda key: (rows[key], key))

        def begin(lines: Sequence[int]) -> tuple[_Chunk, torch.Tensor]:
            chunk = _Chunk(
                [keys[line] for line in lines], np.zeros(len(lines), dtype=np.int64), self._own_pass
            )
            return chunk, chunk.read(self._reader, [rows[key] for key in chunk.keys], among)

        left: list[Key] = []
        for batch in plan_batches(
            [len(rows[key]) for key in keys], BUDGETS * self._reader.token_budget
        ):
            columns = len(batch) * (len(rows[keys[batch[0]]]) + ROOM) + sum(
                len(chunk.keys) * (chunk.width + ROOM) for chunk in self._chunks
            )
            if self._most_columns is not None and columns > self._most_columns:
                left += [keys[line] for line in batch]
                continue
            for chunk, logits in run_with_oom_retry(batch, begin):
                self._chunks.append(chunk)
                yield chunk.keys, logits
        yield from read_fresh(self._reader, {key: rows[key] for key in left}, among)


def token_bytes(reader: Reader) -> int | None:
    """Bytes that the cache takes for one token, or None if this model cannot be read in steps: a
    small probe decides.
    """
    if reader.mode.layout != "padded" or reader.mode.apart is not None:
        return None
    chunk = _probed(reader, None, _PROBED[::2])
    if chunk is None:
        return None
    layers: Any = chunk.cache.layers
    return sum(layer.column_bytes for layer in layers)


def steps_of(reader: Reader) -> Pass | None:
    """The model's own pass, if it can be read so in steps too: the same probe decides, a token at a
    time.
    """
    own = pass_of(reader.model, reader.own_pass)
    return None if own is None or _probed(reader, own, _PROBED) is None else own


def _probed(reader: Reader, own_pass: Pass | None, ends: Sequence[Sequence[int]]) -> _Chunk | None:
    """The probe's rows, read up to one end after another; None where logits there are not those of
    rows that are read whole.
    """
    chunk = _Chunk([(0, 0), (0, 1)], np.zeros(len(_PROBE), dtype=np.int64), own_pass)
    starts = ((0,) * len(_PROBE), *ends)
    try:
        steps = [
            chunk.read(
                reader,
                [row[start:stop] for row, start, stop in zip(_PROBE, before, after, strict=True)],
            )
            for before, after in pairwise(starts)
        ]
    except Exception:  # noqa: BLE001 - models of other kinds, such as hybrid ones, fail in ways of their own
        return None
    wanted = [tuple(end - 1 for end in of_row) for of_row in zip(*ends, strict=True)]
    tolerance = tolerance_of(reader.model)
    plain = LoadedModel(reader.model, reader.device, 64)
    for places, whole in read_padded(plain, _PROBE, wanted):
        found = torch.stack([steps[wanted[row].index(place)][row] for row, place in places])
        if not torch.allclose(whole.float(), found.float(), rtol=tolerance, atol=tolerance):
            return None
    return chunk


class CachedSession:
    """A `VotingSession` that keeps what was read, and reads voters again where that fails, for
    memory or another reason.

    What becomes of the voters, who are private, never changes how the public prompts are read:
    candidates follow from these alone.
    """

    def __init__(self, reader: Reader, requests: Sequence[VoteRequest], rule: VoteRule) -> None:
        self._reader = reader
        self._rule = rule
        self._requests = OpenRequests(requests)
        self._distinct = {
            number: distinct_voters(reader, request)
            for number, request in self._requests.open.items()
        }
        size = token_bytes(reader)
        own = steps_of(reader)
        self._public, self._voters = (
            None if size is None else GrowingRows(reader, size, own).after for _ in range(2)
        )

    def vote(self, written: Sequence[Tokens | None]) -> list[Votes | None]:
        """See `VotingSession.vote`."""
        self._requests.append(written)
        read: list[tuple[list[Key], torch.Tensor]] = []
        if (kept := self._public) is not None:

            def public(rows: Rows, among: torch.Tensor | None) -> KeyedLogits:
                """Once in a step."""
                if not read:
                    read.extend(kept(rows, among))
                yield from read

            try:
                return self._counted(public, self._voters)
            except Exception:  # noqa: BLE001 - models of other kinds, such as hybrid ones, fail in ways of their own
                self._voters = (
                    None  # and nothing else holds it: its memory is free for what follows
                )
                if read:
                    return self._counted(public)
                self._public = None
        return self._counted()

    def _counted(
        self, public: LastLogits | None = None, voters: LastLogits | None = None
    ) -> list[Votes | None]:
        return self._requests.in_order(
            count_votes(
                self._reader, self._requests.open, self._rule, public, voters, self._distinct
            )
        )


@dataclass(frozen=True)
class _ToOwnRow:
    """See `packed_rows.Attend`: one query of each row, to the columns that the row has in a
    padded bank (rows, heads, columns, width).
    """

    lengths: np.ndarray

    def __call__(self, query: torch.Tensor, bank: Pair, scaling: float | None) -> torch.Tensor:
        """From (1, heads, rows, width) to the same."""
        rows, heads, columns, width = bank[0].shape
        # of heads that share keys, each is a query
        grouped = query[0].transpose(0, 1).reshape(rows, heads, -1, width)
        attended = scaled_dot_product_attention(
            grouped, *bank, attn_mask=self._mask(columns), scale=scaling
        )
        return attended.reshape(rows, -1, width).transpose(0, 1).unsqueeze(0)

    def _mask(self, columns: int) -> torch.Tensor | None:
        if (self.lengths == columns).all():
            return None
        absent = np.arange(columns) < columns - self.lengths[:, np.newaxis]
        return torch.from_numpy(np.where(absent, np.float32("-inf"), np.float32(0)))[:, None, None]


@dataclass(frozen=True)
class _Newest(PackedRow):
    """A token more of each row, all of which are asked for."""

    cache: Cache

    def bank(self, layer: int, row: Pair) -> Pair:
        """All that is kept, and these."""
        keys, values = (states[0].transpose(0, 1).unsqueeze(2) for states in row)
        bank: Pair = self.cache.update(keys, values, layer)
        return bank


@dataclass(frozen=True)
class _Kept:
    """Keys and values of whole rows by layer, shape (rows, columns, heads, width), as the segments
    of their tree are read.
    """

    lengths: np.ndarray
    layers: dict[int, Pair] = field(default_factory=dict)

    def by_layer(self, tree: PrefixTree, batch: Sequence[int]) -> Callable[[int, Pair], None]:
        """See `tree_reader.read_shared`: to all rows that a batch's segments stand in."""
        places = dict[int, list[range]]()
        longest = int(self.lengths.max())
        for row, leaf in enumerate(tree.leaves):
            first = (row + 1) * longest - int(self.lengths[row])
            for index in tree.path(leaf):
                segment = tree.segments[index]
                places.setdefault(index, []).append(
                    range(first + segment.start, first + segment.end)
                )
        read = list[int]()
        into = list[int]()
        start = 0
        for index in batch:
            stop = start + len(tree.segments[index].tokens)
            for columns in places[index]:
                read += range(start, stop)
                into += columns
            start = stop
        sources = torch.tensor(read)
        columns_of_all = torch.tensor(into)

        def keep(layer: int, row: Pair) -> None:
            tokens = [states[0].transpose(0, 1) for states in row]
            if layer not in self.layers:  # padding is read too, with no weight: let it be numbers
                keys, values = (
                    states.new_zeros(len(self.lengths), longest, *states.shape[1:])
                    for states in tokens
                )
                self.layers[layer] = keys, values
            for kept, states in zip(self.layers[layer], tokens, strict=True):
                kept.flatten(0, 1)[columns_of_all] = states[sources]

        return keep


def read_beginnings(
    own: Pass, rows: Sequence[Tokens], cache: Cache, *, token_budget: int
) -> torch.Tensor:
    """Logits after every row, shape (rows, vocabulary), of which shared beginnings are read once;
    the cache, empty before, holds all rows padded on the left.
    """
    kept = _Kept(np.array([len(row) for row in rows]))
    order = list[int]()
    logits = []
    for places, part in read_shared(
        LoadedModel(own.model, torch.device("cpu"), token_budget),
        rows,
        [(len(row) - 1,) for row in rows],
        own_pass=own,
        keep=kept.by_layer,
    ):
        order += [row for row, _ in places]
        logits.append(part)
    for layer in sorted(kept.layers):  # each goes as it is copied: all would be twice the memory
        keys, values = (states.transpose(1, 2) for states in kept.layers.pop(layer))
        cache.update(keys, values, layer)
    return torch.cat(logits)[torch.tensor(order).argsort()]


def read_newest(
    own: Pass,
    tokens: Sequence[int],
    lengths: np.ndarray,
    cache: Cache,
    among: torch.Tensor | None = None,
) -> torch.Tensor:
    """Logits after one more token of each row, shape (rows, vocabulary).

    Args:
        lengths: of rows before, as far as the cache holds them.
        among: ids of tokens: only of these, shape (rows, tokens).
    """
    asked = torch.arange(len(tokens))
    positions = torch.from_numpy(lengths)
    last = own.model.config.num_hidden_layers - 1
    attend = _ToOwnRow(lengths + 1)
    longest = int(lengths.max()) + 1
    row = _Newest(
        torch.tensor(tokens), positions, attend, attend, asked, asked, last, longest, cache
    )
    return own(row, among)
