"""Token sequences as a tree of shared beginnings, cut into batches. Pure, no model needed.

Every distinct beginning is read once. A *segment* is a run of tokens that all rows below it
share; it is read after its ancestors, which the model remembers. Beginnings that are shared
by so few, or are so short, that they save next to nothing are read again by each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from dpicl.lm.requests import Tokens

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
    for one, other in pairwise(arrays):
        length = min(len(one), len(other))
        differing = np.flatnonzero(one[:length] != other[:length])
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
