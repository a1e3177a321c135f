"""Texts that are being written: the blocks that a cell's texts are written in, each journalled
token by token.

Guarantee   none spent: what is chosen here was selected under noise. The blocks are public: they
            follow from the shape and the number of texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from dpicl.lm.requests import Tokens
from dpicl.lm.votes.voting import Votes
from dpicl.methods.few_shot.plan import CellPlan, Shape
from dpicl.methods.few_shot.voting import Job, Prompts, Text
from dpicl.pipeline import Cell
from dpicl.text.parse import plain_text
from dpicl.types import Demonstration

ENDED = -1
"""In place of a token, for a text that has ended before."""
VOTERS_AT_ONCE = 2_000
"""Of fixed batches: as many as may fill the memory with what the model keeps of each."""
TEXTS_A_BLOCK = 50
"""Most texts that share a file of the journal: their tokens of one step are stored at once, and are
lost together by a kill.
"""
Choose = Callable[
    [Sequence[Text], int, Mapping[Text, int], Mapping[Text, Votes]], list[tuple[int, bool]]
]
"""For texts of a block, the number of their token and of private tokens before: the place of each
one's candidate, and whether it is a private token.
"""


class Draft:
    """A block of the texts of one cell, as far as they are written.

    Args:
        first: what the journal calls the block's first step; the others follow.
    """

    def __init__(
        self, job: Job, cell: Cell, texts: Sequence[Text], first: int, prompts: Prompts
    ) -> None:
        self.cell, self.job, self._first = cell, job, first
        self._written: dict[Text, Tokens] = dict.fromkeys(texts, ())
        self._ended: set[Text] = set()
        self._private_tokens: Counter[Text] = Counter()
        self.steps, self.most, self._model = 0, prompts.shape.max_tokens, prompts.model
        while self.is_open and (tokens := job.journal.read(cell, first + self.steps)) is not None:
            self._append(tokens)

    def __len__(self) -> int:
        return len(self._written)

    @property
    def open(self) -> dict[Text, Tokens]:
        """What is written of the texts that go on."""
        return {
            text: tokens
            for text, tokens in self._written.items()
            if self.is_open and text not in self._ended
        }

    @property
    def is_open(self) -> bool:
        """Whether any text goes on."""
        return self.steps < self.most and len(self._ended) < len(self._written)

    def advance(self, votes: Mapping[Text, Votes], choose: Choose) -> None:
        """Steps 4 and 5 for every text that goes on; what was chosen is journalled before anything
        follows from it.
        """
        texts = list(self.open)
        places = choose(texts, self.steps, self._private_tokens, votes)
        chosen = {
            text: 2 * int(votes[text].candidates[place]) + is_private
            for text, (place, is_private) in zip(texts, places, strict=True)
        }
        tokens = tuple(chosen.get(text, ENDED) for text in self._written)
        self._append(self.job.journal.keep(self.cell, self._first + self.steps, tokens))

    def _append(self, numbers: Sequence[int]) -> None:
        """One number per text: twice the token, and 1 more for a private token."""
        for text, number in zip(self._written, numbers, strict=True):
            token, is_private = divmod(number, 2)
            if number == ENDED or token in self._model.ends:
                self._ended.add(text)
            else:
                self._written[text] += (token,)
                self._private_tokens[text] += is_private
        self.steps += 1

    def demonstrations(self) -> tuple[Demonstration, ...]:
        """The finished texts with their labels."""
        decode = self._model.decode
        return tuple(
            Demonstration(text.label, plain_text(decode(tokens)))
            for text, tokens in self._written.items()
        )


def drafts_of(
    job: Job, cell: Cell, labels: Sequence[str], prompts: Prompts, voters: int
) -> list[Draft]:
    """All texts of a cell, in blocks of as many as `texts_a_block`; the steps of a cell's only
    block are 0, 1, ... in the journal, those of block b of several begin at b times the most
    tokens, b = 1, 2, ...

    Args:
        voters: of one text.
    """
    texts = [Text(job, cell, shot, label) for shot, label in enumerate(labels)]
    size, most = texts_a_block(prompts.shape, voters), prompts.shape.max_tokens
    blocks = [texts[start : start + size] for start in range(0, len(texts), size)]
    firsts = [0] if len(blocks) == 1 else [number * most for number in range(1, len(blocks) + 1)]
    return [
        Draft(job, cell, block, first, prompts) for block, first in zip(blocks, firsts, strict=True)
    ]


def shares(plans: Mapping[Cell, CellPlan], parts: int) -> list[list[Cell]]:
    """Cells in so many parts of about equal work, by their public sizes; the costliest first."""
    costs = {cell: _rows_read(plan) for cell, plan in plans.items()}
    shared: list[list[Cell]] = [[] for _ in range(parts)]
    for cell in sorted(costs, key=lambda cell: -costs[cell]):
        min(shared, key=lambda part: sum(costs[one] for one in part)).append(cell)
    return shared


def _rows_read(plan: CellPlan) -> int:
    """For all tokens of all texts of a cell, at most."""
    shape = plan.shape
    voters = shape.voters or max(pool.row_bound for pool in plan.drawings)
    return len(plan.labels) * shape.max_tokens * voters * shape.examples


def texts_a_block(shape: Shape, voters: int) -> int:
    """Of fixed batches no more than have `VOTERS_AT_ONCE`, so that a block never keeps more in
    memory.
    """
    return (
        max(1, min(TEXTS_A_BLOCK, VOTERS_AT_ONCE // max(1, voters)))
        if shape.fixed
        else TEXTS_A_BLOCK
    )


def side_by_side(drafts: Sequence[Draft], shape: Shape, voters: int) -> list[Sequence[Draft]]:
    """Drafts in groups that are written at once: of fixed batches, whose caches are kept, as many
    as `VOTERS_AT_ONCE` allows.

    Args:
        voters: of one text.
    """
    if not shape.fixed:
        return [drafts]
    most = max(1, VOTERS_AT_ONCE // max(1, voters * max(len(draft) for draft in drafts)))
    return [drafts[start : start + most] for start in range(0, len(drafts), most)]
