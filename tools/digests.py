"""The digests of all weights and data files that come with the program: `python -m tools.digests`, after one was made anew."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import dpicl
from dpicl.files.shipped import DIGESTS, digests
from dpicl.lm.local.embedding import PACKAGE

SHIPPED = ("lm/bundled", "lm/local/tiny_corpus.json", "methods/published")


def current() -> dict[str, str]:
    """As the files are now."""
    sentence_model, package = find_spec(PACKAGE), Path(dpicl.__file__).parent
    assert sentence_model is not None and sentence_model.origin is not None, "the extra `local` is needed"
    places = {**{name: package / name for name in SHIPPED}, f"{PACKAGE}/model": Path(sentence_model.origin).parent / "model"}
    return {file: digest for name, path in places.items() for file, digest in digests(name, path).items()}


def main() -> None:
    """Write them."""
    DIGESTS.write_text(json.dumps(current(), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
