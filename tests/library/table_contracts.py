"""A small contract and rows that fit it, for tests of reading, sources and checks."""

from __future__ import annotations

from typing import Any

from dpicl.contract import Contract, parse_contract

HEADER = "age,height,colour,y"
ROWS = ("31,1.75,red,no", "48,1.6,blue,yes", "67,1.82,red,yes", "22,1.7,green,no")
GOOD_CSV = "\n".join((HEADER, *ROWS)) + "\n"


def small_contract(
    *, source: dict[str, Any] | None = None, checks: tuple[dict[str, Any], ...] = ()
) -> Contract:
    """Four columns: age (integer), height (real), colour and y (categories)."""
    return parse_contract(
        {
            "version": 1,
            "name": "people",
            "description": "Four columns.",
            "source": {
                "title": "t",
                "licence": "l",
                "citation": "c",
                "file": "people.csv",
                **(source or {}),
            },
            "privacy": {"budget": {"benchmark": True}},
            "split": {"test_fraction": 0.5},
            "columns": {
                "age": {"type": "integer", "bounds": [0, 120]},
                "height": {"type": "real", "bounds": [0.5, 2.5]},
                "colour": {"type": "category", "categories": ["red", "green", "blue"]},
                "y": {"type": "category", "categories": ["no", "yes"]},
            },
            "label": {"column": "y", "parts": [["no"], ["yes"]], "question": "Yes?"},
            "groups": {2: ["label"]},
            "local": [{"name": "band", "column": "age", "cuts": [40], "texts": ["young", "old"]}],
            "prompts": {
                "local": {"text": "{band}"},
                "central": {"text": "{age} {height} {colour}"},
            },
            "checks": list(checks),
        },
        "people.yaml",
    )
