"""The tiny model's tokenizer knows the wording that was shipped, and of no other contract that
there is one.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import yaml
from transformers import AutoTokenizer

from dpicl.home.settings import Settings
from dpicl.models.local.tiny import build_tiny_model
from dpicl.models.spec import ModelSpec
from dpicl.release.readers import fingerprint, public_corpus
from tests.harness import Place, shop

CANARY = "Zqwvexia"
TINY = ModelSpec(name="tiny", kind="tiny")


def _with_a_draft(place: Place) -> None:
    """A contract whose categories are what rows say, so often that a tokenizer would learn the
    word.
    """
    content = shop("drafted", private=True, draft=True)
    content["columns"]["colour"] = {
        "type": "category",
        "categories": ["red", "green", "blue"],
        "texts": {"red": f"{CANARY} " * 200},
    }
    (place.root / "contracts" / "drafted.yaml").write_text(yaml.safe_dump(content, sort_keys=False))


def test_another_contract_changes_neither_the_model_s_name_nor_its_tokens(
    place: Place, tmp_path: Path
) -> None:
    settings = Settings.from_environment()
    before = fingerprint(TINY)
    _with_a_draft(place)
    assert "drafted" in settings.contract_names() and settings.contract("drafted").draft
    assert fingerprint(TINY) == before
    tokenizer = AutoTokenizer.from_pretrained(build_tiny_model(tmp_path, public_corpus()))
    assert not any(CANARY in text for text in public_corpus())
    assert len(tokenizer(CANARY, add_special_tokens=False).input_ids) > 3


def test_results_of_before_are_the_tiny_model_s_still() -> None:
    """Its folder, and releases that it wrote, are named by this digest; a change here gives another
    model.
    """
    digest = hashlib.sha256(json.dumps([1, *public_corpus()]).encode()).hexdigest()
    assert digest == "fa31b15d6a2f61bf5c5222caf08a6b6c881619758e080c9ba0621c0a468aa62c"
