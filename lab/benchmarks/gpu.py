"""Scoring on a GPU: prompts of adult with eight rows, random weights of Llama's shapes in bfloat16;
on a machine without one, a small shape.

A word of a prompt is a token. The bound is what the device's own matrix products would take for the
tokens of the tree, no attention counted; beside it stand one prompt at a time and padded batches.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

import torch

from dpicl.home.settings import Settings
from dpicl.models.local.padded_reader import LoadedModel, read_padded
from dpicl.models.local.tree_reader import LEAST_SAVING, grow_tree, read_shared
from dpicl.models.requests import Tokens
from lab.benchmarks.figures import Figures, bench, best_of, sized
from lab.benchmarks.model import prompts_of, rows_of
from lab.benchmarks.scoring import one_by_one, ordered
from lab.benchmarks.speed import ensemble_engine, token_speed
from lab.benchmarks.speed.random_llama import SHAPES, random_llama

DEVICE, KIND, BUDGET = token_speed.DEVICE, token_speed.DEVICE.type, token_speed.BUDGET
SHAPES_HERE = ("7B", "13B", "8B") if KIND == "cuda" else ("100M",)
DTYPE = {"cpu": torch.float32, "cuda": torch.bfloat16}[KIND]
FEW, ROUNDS, SIDE = sized(8, 2), sized(3, 1), {"cpu": 1024, "cuda": 8192}[KIND]


def _rows(texts: Sequence[str], vocabulary: int) -> list[Tokens]:
    return [
        tuple(zlib.crc32(word.encode()) % vocabulary for word in text.split())
        for text in sorted(set(texts))
    ]


def _seconds(work: Callable[[], object]) -> float:
    """The least of a few; the first of them compiles."""

    def whole() -> None:
        work()
        if KIND == "cuda":
            torch.cuda.synchronize()

    return best_of([whole], ROUNDS)[0]


def _products_per_second() -> float:
    """Multiplications and additions of large matrices in this number format."""
    one, other = (torch.randn(SIDE, SIDE, dtype=DTYPE, device=DEVICE) for _ in range(2))
    return 2 * SIDE**3 / _seconds(lambda: one @ other)


def scoring(figures: Figures, shape: str, name: str, texts: Sequence[str]) -> None:
    """Prompts a second by way of reading, the share of the bound, memory, and how far answers are
    from one prompt at a time.
    """
    model, rows = random_llama(shape, DTYPE, KIND), _rows(texts, SHAPES[shape][-1])
    wanted, loaded = [(len(row) - 1,) for row in rows], LoadedModel(model, DEVICE, BUDGET)
    few = rows[:FEW]
    single = _seconds(lambda: one_by_one(model, few)) / len(few)
    padded = _seconds(lambda: list(read_padded(loaded, few, wanted[:FEW]))) / len(few)
    shared = _seconds(lambda: list(read_shared(loaded, rows, wanted))) / len(rows)
    tree = sum(
        len(segment.tokens) for segment in grow_tree(rows, least_saving=LEAST_SAVING).segments
    )
    weights = sum(
        one.numel()
        for part, one in model.named_parameters()
        if "embed" not in part and "lm_head" not in part
    )
    bound = 2 * weights * tree / _products_per_second() / len(rows)
    memory = f", {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB" if KIND == "cuda" else ""
    print(
        f"{shape} {name}: one at a time {1 / single:.1f}/s, padded {1 / padded:.1f}/s, shared "
        f"{1 / shared:.1f}/s, bound {1 / bound:.1f}/s{memory}"
    )
    alone, both = (
        one_by_one(model, rows)[:, :2],
        ordered(read_shared(loaded, rows, wanted), len(rows))[:, :2],
    )
    figures.at_least(f"shared-over-one-at-a-time-{shape}-{name}", single / shared, 5, "x")
    figures.at_least(
        f"share-of-the-arithmetic-bound-{shape}-{name}", 100 * bound / shared, 50, " %"
    )
    figures.exactly(
        f"decisions-flipped-{shape}-{name}", int((alone.argmax(1) != both.argmax(1)).sum()), 0
    )


def shapes(figures: Figures) -> None:
    """Scoring by shape and method."""
    print(
        torch.cuda.get_device_name()
        if KIND == "cuda"
        else "no GPU: a small shape on one core, whose figures say nothing of one"
    )
    contract, split = rows_of(Settings.from_environment(), "adult")
    for method in ("gdp_tabicl", "ldp_tabicl"):
        texts = next(
            asked
            for cell, asked in prompts_of(method, split, contract, 0).items()
            if cell.epsilon == 1.0
        )
        for shape in SHAPES_HERE:
            scoring(figures, shape, method[:3], texts)


PARTS = (shapes, token_speed.measure, ensemble_engine.measure)

if __name__ == "__main__":
    bench(PARTS)
