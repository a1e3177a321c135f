"""The numbers of docs/guarantee.md are what its formulas give."""

from __future__ import annotations

import re
from math import exp, log

from tests.docs.pages import DOCS

PAGE = (DOCS / "guarantee.md").read_text("utf-8")


def suspicion(chance: float, epsilon: float) -> float:
    """The most that a chance can become: odds times e^epsilon."""
    odds = exp(epsilon) * chance / (1 - chance)
    return odds / (1 + odds)


def agrees(written: str, value: float) -> bool:
    """Whether a number is the value, rounded to the digits that are written."""
    return written == f"{value:.{len(written.partition('.')[2])}f}"


def test_the_odds() -> None:
    rows = re.findall(
        r"^\| ([\d.]+) \| ([\d.]+) \| ([\d.]+) % \| ([\d.]+) % \|$", PAGE, re.MULTILINE
    )
    assert len(rows) == 6
    for epsilon, factor, rare, even in rows:
        assert agrees(factor, exp(float(epsilon))), factor
        assert agrees(rare, 100 * suspicion(0.01, float(epsilon))), rare
        assert agrees(even, 100 * suspicion(0.5, float(epsilon))), even


def test_the_subsample() -> None:
    (sentence,) = re.findall(r"With q = .*?\d\.\s", PAGE, re.DOTALL)
    found = []
    for part, share in zip(" ".join(sentence.split()).split(";"), (1 / 2, 1 / 10), strict=True):
        for epsilon, cost in re.findall(r"ε = (\d) costs (\d\.\d+)", part):
            found.append(agrees(cost, log(1 + share * (exp(int(epsilon)) - 1))))
    assert found == [True] * 4


def test_a_wrong_digit_would_be_noticed() -> None:
    assert agrees("0.620", log(1 + (exp(1) - 1) / 2)) and not agrees(
        "0.621", log(1 + (exp(1) - 1) / 2)
    )
