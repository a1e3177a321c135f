"""Price a certificate again: `python -m dpicl.recompute FILE`, or `-` for standard input. Prints
JSON; exit code 1 if a stated price is too small, 2 if the release was not recomputed (also after
300 seconds, or where no noise is stated), FILE is no certificate, or anything else goes wrong.
"""

from __future__ import annotations

import json
import math
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpicl.recompute.stated import Malformed, Stated, stated_of

if TYPE_CHECKING:
    from dpicl.recompute.prices import Price

_MOST_SECONDS = 300


def main(arguments: Sequence[str]) -> int:
    """Price the certificate of a path and print it; gives the exit code."""
    if len(arguments) != 1:
        return _refused("expected the file of one certificate, or -")
    (name,) = arguments
    try:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        stated = stated_of(json.loads(content))
    except (OSError, ValueError, RecursionError, Malformed) as error:
        return _refused(f"{name}: is no certificate that can be read: {error}")
    try:
        return _printed(stated)
    except Exception as error:  # noqa: BLE001 - Python's exit code of it is that of a price too small
        return _refused(f"{name}: could not be priced: {type(error).__name__}: {error}")


def _printed(stated: Stated) -> int:
    """Of the libraries' prices; they are imported here, where whatever they raise is caught."""
    from dpicl.recompute.prices import RELEASE, Price, prices
    from dpicl.recompute.second import IS_INSTALLED

    try:
        found = prices(stated)
    except TimeoutError as late:
        found = [Price(RELEASE, stated.release, reason=str(late))]
    answer = {"prices": list(map(_plain, found)), "has_second": IS_INSTALLED}
    sys.stdout.write(json.dumps(answer, indent=1) + "\n")
    sys.stdout.flush()
    if any(price.holds is False for price in found):
        return 1
    return 0 if found[0].holds else 2


def _refused(why: str) -> int:
    sys.stderr.write(f"dpicl.recompute: {' '.join(why.split())}\n")
    return 2


def _stop_after(seconds: int) -> None:
    """Raise TimeoutError in what runs then."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"it takes more than {seconds} seconds")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)


def _plain(price: Price) -> dict[str, Any]:
    """As JSON, which has no infinity: no bound is null."""
    return {
        "what": price.what,
        "epsilon_stated": _finite(price.stated.epsilon),
        "delta": price.stated.delta,
        "epsilon_recomputed": _finite(price.recomputed),
        "epsilon_low": price.low,
        "epsilon_high": price.high,
        "holds": price.holds,
        "by": price.by,
        "as_stated": price.as_stated,
        "reason": price.reason,
    }


def _finite(epsilon: float | None) -> float | None:
    return None if epsilon is None or math.isinf(epsilon) else epsilon


if __name__ == "__main__":
    _stop_after(_MOST_SECONDS)
    sys.exit(main(sys.argv[1:]))
