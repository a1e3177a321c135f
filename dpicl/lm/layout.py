"""How demonstrations and a query make a prompt.

Paper       DP-TabICL: demonstrations joined by newlines, a newline, the query with its cue;
            the answer follows after a blank.
"""

from __future__ import annotations

from collections.abc import Sequence

CONTINUATIONS = (" No", " Yes")
"""What is scored after a prompt: column 0 and 1 of every score table."""


def prompt(demonstrations: Sequence[str], query: str) -> str:
    """One prompt; no demonstrations give the zero-shot prompt."""
    return "\n".join([*demonstrations, query])
