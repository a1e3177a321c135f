"""What a prompt shows of a column: parts with a text each, or a number.

A column of *parts* is what a client reports of itself: a threshold, a yes or no, a category.
A column of *numbers* is what a curator averages.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpicl.contract.columns.number import format_number
from lab.training.words import word, words

_THRESHOLDS = (
    ("less than {}", "{} or more"),
    ("{} or less", "more than {}"),
    ("at most {}", "more than {}"),
    ("below {}", "at least {}"),
    ("under {}", "over {}"),
    ("not above {}", "above {}"),
)
_FLAGS = (
    ("does not have {}", "has {}"),
    ("do not have any {}", "have {}"),
    ("is not {}", "is {}"),
    ("not {}", "{}"),
    ("no {}", "{}"),
    ("without {}", "with {}"),
    ("was never {}", "was {}"),
    ("no", "yes"),
)
_PHRASES = (
    "{}",
    "{}",
    "{}",
    "is {}",
    "has {}",
    "works in {}",
    "was {} before",
    "a {}",
    "in {}",
    "{} at most",
)


@dataclass(frozen=True)
class PartsColumn:
    """Rows' parts, int64 of shape (rows,), and the text of each part; `phrase` if texts carry their
    own verb.
    """

    parts: np.ndarray
    texts: tuple[str, ...]
    phrase: bool = False


@dataclass(frozen=True)
class NumberColumn:
    """Rows' numbers, shape (rows,), and how many decimals a prompt prints."""

    numbers: np.ndarray
    decimals: int


Column = PartsColumn | NumberColumn


def parts_column(
    rng: np.random.Generator, values: np.ndarray, *, brief: bool = False
) -> PartsColumn:
    """A threshold (the most frequent), a flag or a category made of real values, shape (rows,);
    names of one word each if brief.
    """
    kind = rng.random()
    if kind < 0.5:
        parts = _cut(values, [rng.uniform(0.25, 0.75)])
        cut = format_number(float(_scale(rng)), int(rng.choice([0, 0, 0, 1, 2])))
        return PartsColumn(
            parts, tuple(text.format(cut) for text in _THRESHOLDS[rng.integers(len(_THRESHOLDS))])
        )
    if kind < 0.75:
        name, texts = words(rng, 1, 1 if brief else 3), _FLAGS[rng.integers(len(_FLAGS))]
        parts = _cut(values, [rng.uniform(0.25, 0.75)])
        return PartsColumn(
            parts, tuple(text.format(name) for text in texts), phrase=" {}" in texts[1]
        )
    return _category(rng, values, brief)


def _category(rng: np.random.Generator, values: np.ndarray, brief: bool) -> PartsColumn:
    count = int(rng.choice([2, 2, 3, 3, 4, 5, 6]))
    parts = _cut(values, np.sort(rng.uniform(0.15, 0.85, count - 1)))
    if rng.random() < 0.5:  # names without an order
        parts = rng.permutation(count)[parts]
    wording = "{}" if brief else _PHRASES[rng.integers(len(_PHRASES))]
    texts: list[str] = []
    while len(texts) < count:
        text = wording.format(words(rng, 1, 1 if brief else 2))
        texts += [text] if text not in texts else []
    return PartsColumn(
        parts, tuple(texts), phrase=wording.split(" ")[0] in ("is", "has", "works", "was")
    )


def number_column(rng: np.random.Generator, values: np.ndarray) -> NumberColumn:
    """Numbers on a scale of their own, rising with the real values, some of them with a long
    tail.
    """
    centre, decimals = _scale(rng), int(rng.choice([0, 0, 1, 2, 3]))
    spread = rng.uniform(0.15, 0.6)
    numbers = (
        centre * np.exp(spread * values) if rng.random() < 0.3 else centre * (1 + spread * values)
    )
    return NumberColumn(
        np.maximum(numbers, 0) if rng.random() < 0.8 else numbers,
        decimals + 2 if centre < 3 else decimals,
    )


def _scale(rng: np.random.Generator) -> float:
    """A typical number: from hundredths to tens of thousands, most of them between 3 and 300."""
    return float(np.round(10 ** rng.normal(1.4, 0.9), 2) + 0.05)


def _cut(values: np.ndarray, quantiles: np.ndarray | list[float]) -> np.ndarray:
    return np.searchsorted(np.quantile(values, quantiles), values, side="right")


def entity(rng: np.random.Generator) -> str:
    """What a row is about."""
    return word(rng)
