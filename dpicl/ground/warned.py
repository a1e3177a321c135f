"""Warnings that point to the line of the program that called dpicl, however deep they arise."""

from __future__ import annotations

import sys
import warnings

_PACKAGE = __name__.partition(".")[0]


def warn(sentence: str) -> None:
    """A `UserWarning` at the first line outside the package."""
    level = 2
    frame = sys._getframe(1)
    while frame.f_back and frame.f_globals["__name__"].partition(".")[0] == _PACKAGE:
        level += 1
        frame = frame.f_back
    warnings.warn(sentence, stacklevel=level)
