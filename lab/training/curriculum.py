"""From few columns and clear labels to tables such as real ones: what a level may show, and when
the next one opens.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Range = tuple[float, float]


@dataclass(frozen=True)
class Level:
    """What tasks of a level look like; pairs are lowest and highest.

    Attributes:
        columns, shots: how many.
        relevant: share of columns that have to do with the label.
        noise: how little they say about it, see `structure.Shape`.
        wordy: length of sentences, see `wording.wording`.
        families: chances of `structure.FAMILIES`.
        kinds: chances of local, central, groups, plain prompts.
    """

    columns: tuple[int, int]
    shots: tuple[int, int]
    relevant: Range
    noise: Range
    wordy: Range
    families: tuple[float, float, float, float]
    kinds: tuple[float, float, float, float]


_FIRST, _ALL = (0.7, 0.0, 0.0, 0.3), (0.4, 0.25, 0.15, 0.2)
_MOST_PLAIN = (0.15, 0.15, 0.25, 0.45)
"""An answer to a plain prompt takes a fourth of the tokens that one among sentences takes:
comparing rows is learned on them.
"""
LEVELS = (
    Level((1, 3), (5, 12), (1, 1), (0.0, 0.05), (0.1, 0.6), _FIRST, (1.0, 0.0, 0.0, 0.0)),
    Level((1, 5), (5, 12), (1, 1), (0.0, 0.15), (0.1, 0.7), _FIRST, (0.95, 0.0, 0.0, 0.05)),
    Level(
        (2, 6),
        (4, 12),
        (0.8, 1),
        (0.0, 0.3),
        (0.1, 0.8),
        (0.5, 0.15, 0.1, 0.25),
        (0.9, 0.0, 0.0, 0.1),
    ),
    Level((2, 7), (4, 14), (0.6, 1), (0.0, 0.4), (0.1, 0.8), _ALL, (0.25, 0.1, 0.05, 0.6)),
    Level((2, 10), (4, 16), (0.4, 1), (0.0, 0.5), (0.1, 1.0), _ALL, _MOST_PLAIN),
    Level((2, 13), (4, 16), (0.3, 1), (0.0, 0.7), (0.1, 1.0), _ALL, _MOST_PLAIN),
    Level((1, 30), (1, 16), (0.2, 1), (0.0, 0.8), (0.0, 1.0), _ALL, _MOST_PLAIN),
)
"""The last one is what the tokenizer is trained and the model evaluated on."""
MARGIN = 0.1
"""How far below the kernel vote's accuracy a model may be where the next level opens."""
_FEWEST_ANSWERS = 2000


def drawn_level(rng: np.random.Generator, reached: int) -> int:
    """The level of a task: the highest one reached, or one of the easier ones that were before it,
    the harder the likelier.

    An answer takes more tokens the higher the level: the higher the ladder, the more is learned
    below its top.
    """
    if reached == 0 or rng.random() < 1.5 / (1.5 + reached):
        return reached
    return int(rng.integers(reached, size=2).max())


@dataclass(frozen=True)
class Progress:
    """Where training stands on the ladder: the highest open level, and answers on it since it
    opened or was last judged.
    """

    reached: int = 0
    answers: int = 0
    right: int = 0
    voted: int = 0

    def after(self, answers: int, right: int, voted: int) -> Progress:
        """With answers to new tasks of the highest open level added: how many, right ones, and
        right ones of the kernel vote.
        """
        return Progress(
            self.reached, self.answers + answers, self.right + right, self.voted + voted
        )

    def judged(self) -> Progress:
        """The next level opens once the model is nearly as often right as the vote."""
        if self.answers < _FEWEST_ANSWERS:
            return self
        good = self.right >= self.voted - MARGIN * self.answers
        return Progress(min(self.reached + good, len(LEVELS) - 1))
