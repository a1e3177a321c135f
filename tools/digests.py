"""The digests of all weights and data files that come with the program: `python -m tools.digests`,
after one was made anew.
"""

from __future__ import annotations

import json
from pathlib import Path

import dpicl
from dpicl.ground.cache import DIGESTS, digests

SHIPPED = (
    "models/bundled",
    "models/asking.json",
    "models/local/tiny_corpus.json",
    "methods/published",
    "data/reading/shipped",
)


def current() -> dict[str, str]:
    """As the files are now."""
    package = Path(dpicl.__file__).parent
    return {
        file: digest for name in SHIPPED for file, digest in digests(name, package / name).items()
    }


def main() -> None:
    """Write them."""
    DIGESTS.write_text(json.dumps(current(), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
