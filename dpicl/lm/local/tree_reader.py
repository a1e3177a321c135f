"""Reading many token sequences with their shared beginnings read once.

Batches are read in the tree's order. What later segments attend to stays in memory: the
path to the next segment, which holds every ancestor that any later segment may miss.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import torch

from dpicl.lm.local.padded_reader import Places, run_with_oom_retry
from dpicl.lm.local.prefix_tree import PrefixTree, grow_tree, plan_batches
from dpicl.lm.local.tree_attention import Block, Pair, Reading, reading
from dpicl.lm.requests import Tokens

TRUNK_TOKENS = 64
"""From this length on, what all blocks share is attended to in one product."""
LEAST_SAVING = {"cpu": 8, "cuda": 64}
"""Tokens that a shared beginning must save to be worth its own products of attention."""


def read_shared(
    model: Any, rows: Sequence[Tokens], wanted: Sequence[Sequence[int]], *, device: torch.device, token_budget: int
) -> Iterator[tuple[Places, torch.Tensor]]:
    """Logits at the wanted positions of every row, in no particular order.

    Yields:
        Places and their logits, shape (places, vocabulary), on the device.

    Raises:
        ModelError: memory does not suffice for one segment.
        NotShareable: the model attends in a way that a tree cannot give.
    """
    tree = grow_tree(rows, least_saving=LEAST_SAVING[device.type])
    wanted_of: dict[int, dict[int, Places]] = {}
    for row, positions in enumerate(wanted):
        for position in positions:
            wanted_of.setdefault(tree.holder(row, position), {}).setdefault(position, []).append((row, position))
    reader = _Reader(model, tree, device)
    for batch in plan_batches(tree, token_budget=token_budget, trunk=TRUNK_TOKENS):
        for places, logits in run_with_oom_retry(batch, lambda piece: reader.read(piece, wanted_of)):
            lines = [index for index, owners in enumerate(places) for _ in owners]
            yield [owner for owners in places for owner in owners], logits[lines]


class _Reader:
    """Reads the segments of one tree in order, and remembers what the next ones need."""

    def __init__(self, model: Any, tree: PrefixTree, device: torch.device) -> None:
        self._model, self._tree, self._device = model, tree, device
        self._longest = max((segment.end for segment in tree.segments), default=0)
        self._last = model.config.get_text_config().num_hidden_layers - 1
        self._path: tuple[int, ...] = ()
        self._memory: dict[int, Pair] = {}

    @torch.inference_mode()
    def read(self, batch: Sequence[int], wanted_of: Mapping[int, Mapping[int, Places]]) -> tuple[list[Places], torch.Tensor]:
        """The next segments of the tree; what is remembered changes only when all went well."""
        segments = self._tree.segments
        ends = accumulate(len(segments[index].tokens) for index in batch)  # in the packed row
        starts = {index: end - len(segments[index].tokens) for index, end in zip(batch, ends, strict=True)}
        remembered = segments[self._path[-1]].end if self._path else 0
        places = {index: (segments[index].start, segments[index].end) for index in self._path}
        places |= {index: (remembered + start, remembered + start + len(segments[index].tokens)) for index, start in starts.items()}
        common = set(self._tree.path(batch[-1]))
        trunk = max((segments[index].end for index in self._path if index in common), default=0)
        trunk = trunk if trunk >= TRUNK_TOKENS else 0
        blocks, tails, asked = list[Block](), list[Block](), list[int]()
        for index, start in starts.items():
            ancestors = [places[ancestor] for ancestor in self._tree.path(index)[:-1] if segments[ancestor].start >= trunk]
            stop, own = start + len(segments[index].tokens), remembered + start
            blocks.append(Block(start, stop, own, _joined(ancestors)))
            if index in wanted_of:  # from the first token that is
                first = start + min(wanted_of[index]) - segments[index].start
                before = _joined([*ancestors, (own, remembered + first)] if first > start else ancestors)
                tails.append(Block(len(asked), len(asked) + stop - first, remembered + first, before))
                asked += range(first, stop)
        path = self._tree.path(batch[-1] + 1)[:-1] if batch[-1] + 1 < len(segments) else ()
        kept = _joined([places[index] for index in path])
        plan = Reading(blocks, self._last, self._row(asked)[0], tails, self._longest, trunk, self._memory, kept)
        wanted = [
            (starts[index] + position - segments[index].start, owners)
            for index in batch
            for position, owners in wanted_of.get(index, {}).items()
        ]
        with reading(plan):
            logits = self._model(
                input_ids=self._row([token for index in batch for token in segments[index].tokens]),
                position_ids=self._row([position for index in batch for position in range(segments[index].start, segments[index].end)]),
                logits_to_keep=self._row([place for place, _ in wanted])[0],
                use_cache=False,
            ).logits[0]
        self._path, self._memory = path, plan.remembered
        return [owners for _, owners in wanted], logits.to(self._device)

    def _row(self, numbers: Sequence[int]) -> torch.Tensor:
        return torch.tensor([numbers], dtype=torch.long, device=self._device)


def _joined(ranges: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Neighbouring ranges as one."""
    joined: list[tuple[int, int]] = []
    for start, stop in ranges:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((start, stop))
    return tuple(joined)
