"""The client's side and the inverse of the distortion at scale, against what a user would do with numpy."""

from __future__ import annotations

from functools import reduce

import numpy as np

from benchmarks.figures import Figures, seconds
from dpicl.mechanisms.randomised_response import Response, randomise, response
from dpicl.randomness import system_stream
from dpicl.tabular.questions import questionnaire
from dpicl.tabular.reconstruct import inverse_matrix, invert
from dpicl.tabular.tally import tally
from dpicl.types import PrivateCodes

CLIENTS, COLUMNS, EPSILON = 1_000_000, 13, 5.0
MIXED = (2, 7, 16, 7, 14, 6, 5, 2, 12, 3, 3, 9, 2)
INVERTED = {20: 0.015, 24: 0.4, 26: 2.0}
"""Bits of a domain, and seconds."""


def _plain(codes: np.ndarray, law: Response, rng: np.random.Generator) -> np.ndarray:
    """What a user writes: a uniform number, another category, where."""
    lies = rng.integers(law.categories - 1, size=len(codes))
    return np.where(rng.random(len(codes)) < law.truth_probability, codes, lies + (lies >= codes))


def _randomising(figures: Figures, name: str, sizes: tuple[int, ...], goal: float, over_numpy: float) -> None:
    rng = np.random.default_rng(0)
    laws = [response(epsilon=EPSILON / COLUMNS, categories=size) for size in sizes]
    truth = [rng.integers(size, size=CLIENTS).astype(np.uint8) for size in sizes]

    def ours() -> None:
        secret = system_stream()
        for codes, law in zip(truth, laws, strict=True):
            randomise(codes, law, secret)

    own = seconds(ours)
    numpy = seconds(lambda: [_plain(codes, law, rng) for codes, law in zip(truth, laws, strict=True)], 3)
    figures.at_least(f"randomise-1M-x-13-{name}", CLIENTS * COLUMNS / own / 1e6, goal, " M cells/s")
    figures.at_least(f"randomise-1M-x-13-{name}-over-numpy", numpy / own, over_numpy, "x")


def _copied(figures: Figures) -> None:
    """Ten million rows against a memory copy."""
    law, truth = response(epsilon=EPSILON / COLUMNS, categories=2), np.random.default_rng(0).integers(2, size=10_000_000).astype(np.uint8)
    target, secret = np.empty_like(truth), system_stream()
    share = seconds(lambda: np.copyto(target, truth), 9) / seconds(lambda: randomise(truth, law, secret))
    figures.at_least("randomise-10M-share-of-a-copy", 100 * share, 30, " %")


def _inverting(figures: Figures) -> None:
    laws, shares = [response(epsilon=EPSILON, categories=2)] * 14, np.random.default_rng(0).random(2**14)
    matrices = [inverse_matrix(law) for law in laws]
    dense = seconds(lambda: reduce(np.kron, matrices) @ shares, 1)
    figures.at_least("reconstruct-2^14-over-dense", dense / seconds(lambda: invert(shares, laws), 20), 20_000, "x")
    for bits, goal in INVERTED.items():
        laws, shares = [response(epsilon=EPSILON, categories=2)] * bits, np.ones(2**bits)
        figures.at_most(f"reconstruct-2^{bits}", seconds(lambda laws=laws, shares=shares: invert(shares, laws), 3), goal, " s")  # type: ignore[misc]


def _asking(figures: Figures) -> None:
    """Questions to a million clients."""
    codes = PrivateCodes(np.random.default_rng(0).integers(2, size=(CLIENTS, COLUMNS)).astype(np.uint8))
    asked = questionnaire((2,) * COLUMNS, "subset", EPSILON)
    chance = system_stream()
    spent = seconds(lambda: tally(codes, asked, chance=chance, secret=system_stream()), 3)
    print(f"a subset of columns asked of 1M clients, {len(asked.questions)} questions: {spent:.2f} s")


def measure(figures: Figures) -> None:
    """Everything, on one core as far as numpy leaves it there."""
    _randomising(figures, "binary", (2,) * COLUMNS, 1500, 15)
    _randomising(figures, "mixed", MIXED, 700, 7)
    _copied(figures)
    _inverting(figures)
    _asking(figures)
