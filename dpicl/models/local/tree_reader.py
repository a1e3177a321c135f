"""Reading many token sequences as a tree of shared beginnings, each of which is read once.

The tree is cut into batches, which are read in its order. What later segments attend to stays in
memory: the path to the next segment, which holds every ancestor that any later segment may miss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Literal, Protocol

import numpy as np
import torch

from dpicl.models.local.packed_rows import (
    Attend,
    Block,
    ByBlocks,
    ByMask,
    PackedRow,
    Pair,
    Reading,
    reading,
)
from dpicl.models.local.padded_reader import LoadedModel, PlacedLogits, Places, run_with_oom_retry
from dpicl.models.requests import Tokens

ROOT = -1
"""Parent of the segments that start a row."""


@dataclass(frozen=True)
class Segment:
    """A run of tokens; `start` is the position of the first one in its rows."""

    parent: int
    start: int
    tokens: Tokens

    @property
    def end(self) -> int:
        """Position after the last token."""
        return self.start + len(self.tokens)


@dataclass(frozen=True)
class PrefixTree:
    """Segments, parents before children and every subtree in one piece; `leaves` has each row's
    last segment.
    """

    segments: tuple[Segment, ...]
    leaves: tuple[int, ...]

    def path(self, index: int) -> tuple[int, ...]:
        """A segment's ancestors, from the start of the row, and itself."""
        ancestors = []
        while index != ROOT:
            ancestors.append(index)
            index = self.segments[index].parent
        return tuple(reversed(ancestors))

    @cached_property
    def afters(self) -> tuple[int, ...]:
        """The number after each segment's last descendant."""
        afters = list(range(1, len(self.segments) + 1))
        for index in range(len(self.segments) - 1, -1, -1):
            parent = self.segments[index].parent
            if parent != ROOT:
                afters[parent] = max(afters[parent], afters[index])
        return tuple(afters)

    def holder(self, row: int, position: int) -> int:
        """The segment that holds one position of a row."""
        return next(
            index for index in self.path(self.leaves[row]) if self.segments[index].end > position
        )


def grow_tree(rows: Sequence[Tokens], *, least_saving: int) -> PrefixTree:
    """The tree of distinct, non-empty token sequences.

    Args:
        least_saving: tokens that reading a beginning once must save for it to be shared.
    """
    order = sorted(range(len(rows)), key=lambda row: rows[row])
    arrays = [np.asarray(rows[row], dtype=np.int64) for row in order]
    common = []  # length of the beginning that neighbours in sorted order have in common
    for row, following in pairwise(arrays):
        length = min(len(row), len(following))
        differing = np.flatnonzero(row[:length] != following[:length])
        common.append(int(differing[0]) if len(differing) else length)
    segments: list[Segment] = []
    leaves = [ROOT] * len(rows)
    waiting = [(0, len(rows), 0, ROOT)] if rows else []
    while waiting:
        low, high, depth, parent = waiting.pop()
        shared = min(common[low : high - 1], default=len(arrays[low]))
        # groups agree on more than `shared` tokens, or are equal and end there
        cuts = [
            low,
            *(place + 1 for place in range(low, high - 1) if common[place] == shared),
            high,
        ]
        groups = list(pairwise(cuts))
        ends_here = len(arrays[low]) == shared
        if len(groups) == 1 or (len(groups) - 1) * (shared - depth) >= least_saving:
            if shared > depth:
                segments.append(Segment(parent, depth, rows[order[low]][depth:shared]))
                parent = len(segments) - 1
            if ends_here:
                first = groups.pop(0)
                for place in range(*first):
                    leaves[order[place]] = parent
            depth = shared
        waiting += [(*group, depth, parent) for group in reversed(groups)]
    return PrefixTree(tuple(segments), tuple(leaves))


def plan_batches(tree: PrefixTree, *, token_budget: int, trunk: int) -> list[list[int]]:
    """Segments in the tree's order, a batch as soon as the budget is full.

    A segment that is longer than the budget stands alone, and one of at least `trunk` tokens
    that others follow closes its batch: they attend to it as a whole, without copies.
    """
    followed = {segment.parent for segment in tree.segments}
    batches: list[list[int]] = []
    room = 0
    for index, segment in enumerate(tree.segments):
        length = len(segment.tokens)
        if length > room:
            batches.append([])
            room = token_budget
        batches[-1].append(index)
        room = 0 if length >= trunk and index in followed else room - length
    return batches


TRUNK_TOKENS = 64
"""From this length on, blocks attend in one product to what all of them share."""
LEAST_SAVING = 8
"""Tokens that a shared beginning must save to be worth a segment of its own."""
Engine = Literal["blocks", "mask"]
ENGINES: Mapping[str, Engine] = {"cpu": "blocks", "cuda": "mask"}
"""How each kind of device attends."""
Ranges = Mapping[int, tuple[int, int]]
"""Of segments, by their numbers."""
Keep = Callable[[PrefixTree, Sequence[int]], Callable[[int, Pair], None]]
"""Of a batch of a tree's segments, what is to be done with a layer's keys and values."""


class Pass(Protocol):
    """A model's pass over a packed row that is not transformers' own."""

    @property
    def model(self) -> Any:
        """Whose pass it is: another model, and one that something watches, is read by
        transformers.
        """

    @property
    def is_watched(self) -> bool:
        """Whether something is to be told of the model's forward passes."""

    def __call__(self, row: PackedRow, among: torch.Tensor | None = None) -> torch.Tensor:
        """Logits at the wanted places of a row, shape (wanted, vocabulary).

        Args:
            among: ids of tokens: only of these, shape (wanted, tokens).
        """


def read_shared(
    loaded: LoadedModel,
    rows: Sequence[Tokens],
    wanted: Sequence[Sequence[int]],
    *,
    engine: Engine | None = None,
    own_pass: Pass | None = None,
    keep: Keep | None = None,
) -> PlacedLogits:
    """Logits at the wanted positions of every row, in no particular order.

    Args:
        engine: by default the device's.
        own_pass: in place of transformers' own.
        keep: what becomes of keys and values.

    Yields:
        Places and their logits, shape (places, vocabulary), on the device.

    Raises:
        ModelError: memory does not suffice for one segment.
        NotShareable: the model attends in a way that a tree cannot give.
    """
    tree = grow_tree(rows, least_saving=LEAST_SAVING)
    engine = engine or ENGINES[loaded.device.type]
    wanted_of: dict[int, dict[int, Places]] = {}
    for row, positions in enumerate(wanted):
        for position in positions:
            wanted_of.setdefault(tree.holder(row, position), {}).setdefault(position, []).append(
                (row, position)
            )
    reader = {"blocks": _BlockReader, "mask": _MaskReader}[engine](loaded, tree, own_pass, keep)
    budget = loaded.token_budget
    for batch in plan_batches(
        tree, token_budget=budget, trunk=TRUNK_TOKENS if engine == "blocks" else budget
    ):
        for places, logits in run_with_oom_retry(
            batch, lambda piece: reader.read(piece, wanted_of)
        ):
            lines = [index for index, owners in enumerate(places) for _ in owners]
            if lines:  # of a beginning that others share nothing may be asked
                yield [owner for owners in places for owner in owners], logits[lines]


def pass_of(model: Any, own_pass: Pass | None) -> Pass | None:
    """The pass, where it is this model's and nothing watches the model; else transformers is to
    read.
    """
    if own_pass is None or own_pass.model is not model or own_pass.is_watched:
        return None
    return own_pass


class _Reader:
    """Reads the segments of one tree in order, and remembers what the next ones need."""

    def __init__(
        self, loaded: LoadedModel, tree: PrefixTree, own_pass: Pass | None, keep: Keep | None
    ) -> None:
        self._loaded = loaded
        self._tree = tree
        self._keep = keep
        self._pass = pass_of(loaded.model, own_pass) or self._by_transformers
        self._longest = max((segment.end for segment in tree.segments), default=0)
        self._last = loaded.model.config.get_text_config().num_hidden_layers - 1
        self._path: tuple[int, ...] = ()
        self._memory: dict[int, Pair] = {}

    def attends(
        self, batch: Sequence[int], places: Ranges, first: Mapping[int, int]
    ) -> tuple[Attend, Attend]:
        """How the tokens of a batch attend, and how those do that are asked for.

        Args:
            batch: its segments.
            places: in the bank, of segments that are remembered and then of the batch's.
            first: of segments that are asked for, the place in the bank from which on.
        """
        raise NotImplementedError

    @torch.inference_mode()
    def read(
        self, batch: Sequence[int], wanted_of: Mapping[int, Mapping[int, Places]]
    ) -> tuple[list[Places], torch.Tensor]:
        """The next segments of the tree; what is remembered changes only when all went well."""
        segments = self._tree.segments
        ends = accumulate(len(segments[index].tokens) for index in batch)  # in the packed row
        starts = {
            index: end - len(segments[index].tokens) for index, end in zip(batch, ends, strict=True)
        }
        remembered = segments[self._path[-1]].end if self._path else 0
        places = {index: (segments[index].start, segments[index].end) for index in self._path}
        places |= {
            index: (remembered + start, remembered + start + len(segments[index].tokens))
            for index, start in starts.items()
        }
        first = {
            index: places[index][0] + min(wanted_of[index]) - segments[index].start
            for index in batch
            if index in wanted_of
        }
        asked = [
            place - remembered
            for index, start in first.items()
            for place in range(start, places[index][1])
        ]
        attend, attend_last = self.attends(batch, places, first)
        path = self._tree.path(batch[-1] + 1)[:-1] if batch[-1] + 1 < len(segments) else ()
        kept = _joined([places[index] for index in path])
        wanted = [
            (starts[index] + position - segments[index].start, owners)
            for index in batch
            for position, owners in wanted_of.get(index, {}).items()
        ]
        positions = [
            position
            for index in batch
            for position in range(segments[index].start, segments[index].end)
        ]
        row = Reading(
            self._row([token for index in batch for token in segments[index].tokens]),
            self._row(positions),
            attend,
            attend_last,
            self._row(asked),
            self._row([place for place, _ in wanted]),
            self._last,
            self._longest,
            self._memory,
            kept,
            self._keep and self._keep(self._tree, batch),
        )
        logits = self._pass(row)
        self._path = path
        self._memory = row.remembered
        return [owners for _, owners in wanted], logits.to(self._loaded.device)

    def _by_transformers(self, row: Reading, among: torch.Tensor | None = None) -> torch.Tensor:
        """See `Pass`."""
        with reading(row):
            logits: torch.Tensor = self._loaded.model(
                input_ids=row.tokens.unsqueeze(0),
                position_ids=row.positions.unsqueeze(0),
                logits_to_keep=row.wanted,
                use_cache=False,
            ).logits[0]
        return logits if among is None else logits[:, among]

    def _row(self, numbers: Sequence[int]) -> torch.Tensor:
        return torch.tensor(numbers, dtype=torch.long, device=self._loaded.device)


class _BlockReader(_Reader):
    def attends(
        self, batch: Sequence[int], places: Ranges, first: Mapping[int, int]
    ) -> tuple[Attend, Attend]:
        segments = self._tree.segments
        remembered = places[batch[0]][0]
        common = set(self._tree.path(batch[-1]))
        trunk = max((segments[index].end for index in self._path if index in common), default=0)
        trunk = trunk if trunk >= TRUNK_TOKENS else 0
        blocks = list[Block]()
        tails = list[Block]()
        asked = 0
        for index in batch:
            ancestors = [
                places[ancestor]
                for ancestor in self._tree.path(index)[:-1]
                if segments[ancestor].start >= trunk
            ]
            own, stop = places[index]
            blocks.append(Block(own - remembered, stop - remembered, own, _joined(ancestors)))
            if index in first:
                begun = first[index]
                size = stop - first[index]
                tails.append(
                    Block(
                        asked,
                        asked + size,
                        begun,
                        _joined([*ancestors, (own, begun)] if begun > own else ancestors),
                    )
                )
                asked += size
        return ByBlocks(blocks, trunk), ByBlocks(tails, trunk)


class _MaskReader(_Reader):
    def attends(
        self, batch: Sequence[int], places: Ranges, first: Mapping[int, int]
    ) -> tuple[Attend, Attend]:
        held = [
            (index, self._tree.afters[index])
            for index, (start, stop) in places.items()
            for _ in range(start, stop)
        ]
        segments, ends = torch.tensor(
            held, dtype=torch.int32, device=self._loaded.device
        ).T.contiguous()
        asked = [
            place for index, start in first.items() for place in range(start, places[index][1])
        ]
        everyone = self._row(range(places[batch[0]][0], len(held)))
        return ByMask(segments, ends, everyone), ByMask(segments, ends, self._row(asked))


def _joined(ranges: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Neighbouring ranges as one."""
    joined: list[tuple[int, int]] = []
    for start, stop in ranges:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((start, stop))
    return tuple(joined)
