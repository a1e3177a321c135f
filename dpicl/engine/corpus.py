"""Public text to train the tokenizer of the tiny model on: the wording of the contracts that came with the first version.

Kept as it was then, and read from no contract: categories of a private one, or of a draft, which hold
what rows say, would otherwise come out in texts that the model writes for another account.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

import dpicl

_FILE = Path(dpicl.__file__).parent / "lm" / "local" / "tiny_corpus.json"


@lru_cache
def public_corpus() -> tuple[str, ...]:
    """Numbers, then templates, texts and questions with both answers; the model is named by them."""
    return tuple(json.loads(_FILE.read_text(encoding="utf-8")))
