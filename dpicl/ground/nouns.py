"""Numbers with what is counted, in words."""

from __future__ import annotations


def many(count: int, noun: str, nouns: str = "") -> str:
    """`1 run`, `2,000 runs`; `nouns` where more are not named by an s at the end."""
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"


def twelve_digits(value: float) -> float:
    """A number without what sums of binary numbers leave behind its twelfth digit."""
    return float(f"{value:.12g}")
