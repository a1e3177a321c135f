"""Texts on one line: what a record brings cannot break the layout of a prompt."""

from __future__ import annotations

import unicodedata

_BLANKS = frozenset({"Cc", "Cf", "Cs", "Zs", "Zl", "Zp"})
"""Unicode categories of control and format characters, lone surrogates and separators."""


def plain_text(text: str) -> str:
    """The text with every run of blanks, line breaks, control and format characters as one blank, none at its ends."""
    if not text.isprintable():
        text = "".join(" " if unicodedata.category(letter) in _BLANKS else letter for letter in text)
    return " ".join(text.split())
