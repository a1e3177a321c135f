"""Releases whose noise is the same each time, for claims that hold of most noise and not of all."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

import dpicl
from dpicl.ground.randomness import Stream
from dpicl.release.release import Release


def protect_alike(*arguments: Any, **choices: Any) -> Release:
    """`dpicl.protect` of a private table, whose mechanisms draw from numbered streams. These still
    say that no seed repeats them, so that all goes the way of a real release. Methods on texts draw
    elsewhere.
    """
    numbers = count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "dpicl.ground.randomness.system_stream",
            lambda: Stream(next(numbers).to_bytes(32, "big"), simulated=False),
        )
        return dpicl.protect(*arguments, **choices)  # type: ignore[return-value]
