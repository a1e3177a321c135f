"""A small contract over texts and records that fit it, for tests of reading, parting and
prompts.
"""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from dpicl.contract import TextContract, load_contract, parse_contract
from dpicl.contract.load import edition, edition_names
from dpicl.contract.text import PUBLISHED

from .examples import ROOT

TEXT_CONTRACTS = {
    path.stem: load_contract(path)
    for path in sorted((ROOT / "data_contracts" / "texts").glob("*.yaml"))
}
every_text_contract = pytest.mark.parametrize(
    "contract", TEXT_CONTRACTS.values(), ids=TEXT_CONTRACTS
)
EDITIONS = {
    name if one == PUBLISHED else f"{name}:{one}": edition(contract, one)
    for name, contract in TEXT_CONTRACTS.items()
    for one in edition_names(contract)
}
"""Of published sets the whole, by the contract's name, and every slice."""
ENSEMBLE = {"subsets": 2, "delta": "1/100", "candidates": 4, "keywords": 3}
TRAIN, TEST = "mail/train.jsonl", "mail/test.jsonl.gz"


def text_tree() -> dict[str, Any]:
    """A valid contract over texts as YAML gives it; a fresh copy."""
    return {
        "version": 1,
        "kind": "text",
        "name": "mail",
        "description": "Made-up letters.",
        "source": {
            "title": "t",
            "licence": "l",
            "citation": "c",
            "train": {"file": TRAIN},
            "test": {"file": TEST},
        },
        "privacy": {"budget": {"benchmark": True}},
        "text": "{head}: {body}",
        "max_characters": 60,
        "task": {
            "kind": "classification",
            "field": "class",
            "labels": {
                "good": {"text": "Wanted", "min_rows": 4},
                "bad": {"text": "Unwanted", "min_rows": 4},
            },
        },
        "query_count": 2,
        "prompts": {
            "generation": {"instruction": "Write a letter.", "label": "Kind", "text": "Letter"},
            "answering": {
                "instruction": "Is the letter wanted?",
                "text": "Letter",
                "answer": "Kind",
            },
        },
        "generation": {
            "subsets": 2,
            "examples": 2,
            "candidates": None,
            "max_tokens": 10,
            "delta": "1/100",
        },
    }


def text_contract(
    change: Callable[[dict[str, Any]], object] = lambda content: None,
) -> TextContract:
    """The contract of `text_tree`, after `change` was made to it."""
    content = text_tree()
    change(content)
    contract = parse_contract(content, "mail.yaml")
    assert isinstance(contract, TextContract)
    return contract


def as_extraction(content: dict[str, Any]) -> None:
    """A change: the answer is a phrase below `slots.Name`."""
    content["task"] = {
        "kind": "extraction",
        "field": "slots.Name",
        "min_rows": 4,
        "labels": ["ann", "bob"],
        "answer_tokens": 5,
    }
    content["text"] = "{body}"


def as_ensemble(content: dict[str, Any]) -> None:
    """A change: answered by ensembles too, of two prompts."""
    content["ensemble"] = dict(ENSEMBLE)


def as_free_text(content: dict[str, Any]) -> None:
    """A change: the answer is a text of its own, and only ensembles answer."""
    content["task"] = {"kind": "generation", "field": "head", "min_rows": 4, "answer_tokens": 5}
    content["text"] = "{body}"
    content["prompts"] = {
        "answering": {"text": "Letter", "answer": "Head", "keywords": "Use these words"}
    }
    as_ensemble(content)
    del content["generation"]


def records(count: int) -> list[dict[str, Any]]:
    """Records that fit the contract, in either form of its task."""
    labels = ("good", "bad")
    return [
        {
            "class": labels[number % 2],
            "head": f"Re {number}",
            "body": f"letter {number} of ann",
            "slots": {"Name": ["ann", f"{number}"]},
        }
        for number in range(count)
    ]


def lines(content: Sequence[Any]) -> bytes:
    """JSON Lines."""
    return b"".join(json.dumps(record).encode() + b"\n" for record in content)


def write_files(folder: Path, train: bytes | None = None, test: bytes | None = None) -> Path:
    """Both files below a data folder; ten and four fitting records where none are given."""
    (folder / "mail").mkdir(parents=True, exist_ok=True)
    (folder / TRAIN).write_bytes(lines(records(10)) if train is None else train)
    (folder / TEST).write_bytes(gzip.compress(lines(records(4)) if test is None else test))
    return folder


def changed(count: int, *changes: dict[str, Any]) -> bytes:
    """`count` records, of which the first ones are changed: a value of None drops the field."""
    content = copy.deepcopy(records(count))
    for record, change in zip(content, changes, strict=False):
        record.update(change)
        for field in [field for field, value in change.items() if value is None]:
            del record[field]
    return lines(content)
