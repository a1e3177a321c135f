"""The model card that is shipped beside the weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TEXT = """---
license: apache-2.0
library_name: transformers
tags: [in-context-learning, tabular, synthetic-data]
---
# The model in the box of dpicl

A teaching and smoke model: {parameters:,} parameters, Llama architecture, preset `{preset}`, trained from scratch on synthetic
tables only. It answers Yes or No to the last row of a prompt of serialised rows by comparing that row with the others. It
**knows no language and no facts**, and is no substitute for a general model.

- Trained on: {tokens:,} tokens of {answers:,} answers, made by `python -m lab.training` (seed {seed}, {steps:,} steps, curriculum
  level {curriculum_level}). Tables are drawn from random structural models; names are single public words or made of syllables.
  No row, column name or category of an evaluation set takes part.
- Began with: heads that look back, compare, pool and match written into the first four layers (`lab/training/start.py`); all weights
  were then trained.
- Reads a number as one token of its power of ten and two digits, then the digits left (`lab/training/numbers.py`); tokens of near
  sizes began alike.
{changed}- Hardware: {hardware}; {hours:.1f} hours; torch {torch}.

| held-out synthetic tasks, 8 shots, AUC | model | logistic regression | kernel vote |
|---|---:|---:|---:|
{rows}

What it cannot do: anything without demonstrations in the prompt; texts; labels other than a pair of words; numbers closer
than a few per cent of each other.
"""  # noqa: E501


def card(record: Mapping[str, Any]) -> str:
    """The card's text, its figures from the training's record."""
    rows = [
        f"| {row['kind']}, {row['tasks']} tasks | {row['model']:.3f} | {row['logistic']:.3f} | "
        f"{row['vote']:.3f} |"
        for row in record["held_out"]
    ]
    lines = [f"  - {line}\n" for line in record["changes"]]
    changed = (
        "- Changed on the way, so that the command repeats this in kind and not bit for bit:\n"
        + "".join(lines)
        if lines
        else ""
    )
    return _TEXT.format(
        **record, hours=record["seconds"] / 3600, rows="\n".join(rows), changed=changed
    )
