"""How far one voter's prompt moves the votes of all others: by rounding, because prompts are read
in batches.

What the price is for leaves this out, so it must be small: as a share of what one voter may move.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from dpicl.models.local.packed_rows import NAME
from dpicl.models.local.padded_reader import LoadedModel, read_padded
from dpicl.models.local.tree_reader import read_shared
from dpicl.models.local.vote_reader import Reader, count_votes
from dpicl.models.votes import VoteRequest, VoteRule
from lab.benchmarks.figures import Figures
from lab.benchmarks.speed.token_speed import BUDGET, DEVICE, UNITS, reader_of, vote_requests

RULES = (
    VoteRule("probability", 100, UNITS),
    VoteRule("relative", 100, UNITS),
    VoteRule("logit", 100, UNITS, clip=10.0),
    VoteRule("difference", 100, UNITS, 2.5, 8),
)
GOAL = 1e-4
"""In float32, which is what private texts are written with."""


def measure(figures: Figures) -> None:
    """Three changes of one prompt, all kinds of votes, in both number formats."""
    torch.set_num_threads(1)
    for name, reader in (("float32", reader_of()), ("bfloat16", _in_sixteen_bits(reader_of()))):
        largest = {rule.kind: max(_shares(reader, rule)) for rule in RULES}
        print(
            f"{name}: others moved by at most "
            + ", ".join(f"{share:.1e} ({kind})" for kind, share in largest.items())
        )
        if name == "float32":
            figures.at_most("others-moved-by-rounding-float32", max(largest.values()), GOAL)


def _in_sixteen_bits(reader: Reader) -> Reader:
    with tempfile.TemporaryDirectory() as folder:
        reader.model.save_pretrained(folder)
        model = (
            AutoModelForCausalLM.from_pretrained(
                folder, dtype=torch.bfloat16, attn_implementation=NAME
            )
            .eval()
            .to(DEVICE)
        )
    read = partial(
        read_shared if DEVICE.type == "cpu" else read_padded,
        LoadedModel(model, DEVICE, BUDGET),
    )
    return replace(reader, model=model, read=read)


def _shares(reader: Reader, rule: VoteRule) -> Iterator[float]:
    """Of the l2 norm, or of the difference of two candidates, that one changed vote may move."""
    request = vote_requests(10, 0)[0]
    first, others = request.voters[0], request.voters[1:]
    before = _others(reader, request, rule, first)
    for changed in (first + (5,) * 30, others[0][:80] + first[80:], first[:60]):
        moved = (_others(reader, request, rule, changed) - before).astype(np.float64)
        yield (
            float(np.linalg.norm(moved)) / (2**0.5 * UNITS)
            if rule.kind == "probability"
            else float(np.ptp(moved)) / (2 * UNITS)
        )


def _others(
    reader: Reader, request: VoteRequest, rule: VoteRule, first: tuple[int, ...]
) -> np.ndarray:
    """Votes of all but the first voter, read in one batch with it: equal prompts of two requests
    are read once.
    """
    everybody = replace(request, voters=(first, *request.voters[1:]))
    both = {0: everybody, 1: replace(request, voters=request.voters[1:])}
    return count_votes(reader, both, rule)[1].sums
