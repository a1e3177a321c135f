"""Constant secrets: every 32 bytes that a process asks the system for are these.

Python imports a module of this name when it starts, in every process that has this folder on
PYTHONPATH: commands, their workers, and workers of Dask and Prefect. Other sizes, as names of
temporary files have, stay random. It does not matter how often, where or in which order keys are
drawn: each is the same.
"""

from __future__ import annotations

import os
import sys

SIZE = 32
SECRET = bytes(range(SIZE))


def _constant(draw):  # type: ignore[no-untyped-def]
    def drawn(size, *flags):  # type: ignore[no-untyped-def]
        return SECRET if size == SIZE else draw(size, *flags)

    return drawn


os.urandom = _constant(os.urandom)
if hasattr(os, "getrandom"):
    os.getrandom = _constant(os.getrandom)
if "random" in sys.modules:  # `secrets` draws from it, and it keeps a reference of its own
    sys.modules["random"]._urandom = os.urandom
