"""Words that synthetic tables are named with.

`words.txt` holds common English words, written down for this purpose. Words of the evaluation
sets' column names and categories are left out.
"""

from __future__ import annotations

from importlib import resources

import numpy as np

WORDS = tuple(resources.files("lab.training").joinpath("words.txt").read_text("utf-8").split())
_ONSETS = (
    "b",
    "br",
    "c",
    "ch",
    "d",
    "dr",
    "f",
    "g",
    "gr",
    "h",
    "k",
    "l",
    "m",
    "n",
    "p",
    "pl",
    "r",
    "s",
    "st",
    "t",
    "tr",
    "v",
    "z",
    "",
)
_VOWELS = ("a", "e", "i", "o", "u", "ea", "io", "y")
_CODAS = ("", "n", "r", "l", "s", "t", "m", "ck", "ld", "nt")
_MADE_UP = 0.2
"""Share of words that are put together from syllables: at use, most names are new to the model."""


def word(rng: np.random.Generator) -> str:
    """One word of small letters, from the list or made of syllables."""
    if rng.random() < _MADE_UP:
        return "".join(_syllable(rng) for _ in range(rng.integers(1, 4))) + "a"
    return WORDS[rng.integers(len(WORDS))]


def words(rng: np.random.Generator, fewest: int, most: int) -> str:
    """So many words, separated by blanks."""
    return " ".join(word(rng) for _ in range(rng.integers(fewest, most + 1)))


def _syllable(rng: np.random.Generator) -> str:
    return "".join(part[rng.integers(len(part))] for part in (_ONSETS, _VOWELS, _CODAS))
