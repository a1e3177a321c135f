"""Price a certificate again: `python -m dpicl.recompute FILE`, or `-` for standard input. Prints
JSON; exit code 1 if a stated price is too small, 2 if the release was not recomputed, or FILE is no
certificate.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpicl.recompute.prices import Price, prices
from dpicl.recompute.second import IS_INSTALLED
from dpicl.recompute.stated import Malformed, stated_of


def main(arguments: Sequence[str]) -> int:
    """Price the certificate of a path and print it; gives the exit code."""
    if len(arguments) != 1:
        sys.stderr.write("dpicl.recompute: expected the file of one certificate, or -\n")
        return 2
    (name,) = arguments
    try:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        stated = stated_of(json.loads(content))
    except (OSError, ValueError, RecursionError, Malformed) as error:
        sys.stderr.write(f"dpicl.recompute: {name}: is no certificate that can be read: {error}\n")
        return 2
    found = prices(stated)
    answer = {"prices": list(map(_plain, found)), "has_second": IS_INSTALLED}
    sys.stdout.write(json.dumps(answer, indent=1) + "\n")
    if any(price.holds is False for price in found):
        return 1
    return 0 if found[0].holds else 2


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
    sys.exit(main(sys.argv[1:]))
