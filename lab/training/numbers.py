"""Numbers as the bundled model reads them: one token for the power of ten and two leading digits,
then the digits that are left.

Spelled digit by digit, a number's size is known at its end only, while what it is compared by
stands at its beginning. Here 12.92 is the token of 12, then `.92`, and 0.117 the token of 0.11,
then `7`. Tokens of near sizes begin with near embeddings (`start.Wiring.in_order`).
"""

from __future__ import annotations

import math
from string import ascii_lowercase

from tokenizers import Regex, normalizers

_OPEN, _CLOSE = "⟪", "⟫"
_SMALLEST, _LARGEST = -4, 8
"""Powers of ten; numbers beyond them are left digit by digit."""
_ZERO = f"{_OPEN}zero{_CLOSE}"
_START, _END = rf"(?<![\d.{_CLOSE}])", r"(?!\d)"


def _mark(power: int) -> str:
    """Letters only: a digit would be taken for a number in turn."""
    return f"{_OPEN}{ascii_lowercase[power - _SMALLEST]}{_CLOSE}"


def _steps() -> list[normalizers.Normalizer]:
    zero = [normalizers.Replace(Regex(rf"{_START}0(\.0+)?(?!\.?\d)"), _ZERO)]
    small = [
        normalizers.Replace(Regex(rf"{_START}0\.{'0' * (-power - 1)}(?=[1-9])"), _mark(power))
        for power in range(_SMALLEST, 0)
    ]
    large = [
        normalizers.Replace(Regex(rf"{_START}(?=[1-9]\d{{{power}}}{_END})"), _mark(power))
        for power in range(_LARGEST + 1)
    ]
    two_digits = [
        normalizers.Replace(Regex(rf"(?<={_CLOSE}\d)\.(?=\d)"), ""),
        normalizers.Replace(Regex(rf"(?<={_CLOSE}\d){_END}"), "0"),
    ]
    return [*zero, *small, *large, *two_digits, normalizers.Replace(f" {_OPEN}", _OPEN)]


def number_normalizer() -> normalizers.Normalizer:
    """Puts a mark of its size before every number in the blank's place, and makes two digits follow
    it.
    """
    return normalizers.Sequence(_steps())


NUMBERS: dict[str, float] = {
    _ZERO: _SMALLEST - 1.0,
    **{
        f"{_mark(power)}{leading}": power + math.log10(leading / 10)
        for power in range(_SMALLEST, _LARGEST + 1)
        for leading in range(10, 100)
    },
}
"""Every number's token, and its logarithm to base ten; zero lies a power below the smallest."""
