"""What only the holder of the rows may see: on a terminal, and in no log, file, page or message."""

from __future__ import annotations

import sys


def tell_holder(sentence: str) -> bool:
    """Print a private fact to a person at a terminal; whether there is one."""
    if sys.stderr is None or not sys.stderr.isatty():
        return False
    sys.stderr.write(f"note: {sentence}\n")
    return True


def tell_left_out(where: str, *, left_out: int, mended: int = 0) -> None:
    """How many rows were left out, or have a value that was taken as missing, for what they hold by
    themselves.
    """
    if left_out:
        tell_holder(f"{where}: {left_out} rows that break the contract by themselves are left out")
    if mended:
        tell_holder(
            f"{where}: {mended} values that break the contract by themselves are taken as missing"
        )
