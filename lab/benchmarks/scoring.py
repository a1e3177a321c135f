"""The scoring engine: shared beginnings against the usual ways, in one process on one core."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, DynamicCache

from dpicl.methods import Options, tabular, unit_of
from dpicl.methods.base import draws_for
from dpicl.models.local.packed_rows import NAME
from dpicl.models.local.padded_reader import LoadedModel, read_padded
from dpicl.models.local.tiny import build_tiny_model
from dpicl.models.local.transformers_backend import TransformersScorer
from dpicl.models.local.tree_reader import LEAST_SAVING, PrefixTree, grow_tree, read_shared
from lab import in_memory
from lab.benchmarks import endpoint
from lab.benchmarks.answers.plain_tables import plain_tables
from lab.benchmarks.figures import Figures, bench, sized
from lab.benchmarks.real_tables import at_hand, real_table
from lab.benchmarks.speed.random_llama import VOCABULARY, random_llama

CPU = torch.device("cpu")
PREFIX, QUERIES = sized(704, 64), sized(64, 16)
BUDGET = 4096
Rows = Sequence[tuple[int, ...]]


def _rows() -> Rows:
    """Queries of about 120 tokens behind one set of demonstrations."""
    rng = np.random.default_rng(0)
    shared = rng.integers(0, VOCABULARY, PREFIX).tolist()
    return [
        tuple(shared + rng.integers(0, VOCABULARY, rng.integers(105, 136)).tolist())
        for _ in range(QUERIES)
    ]


@torch.inference_mode()
def one_by_one(model: Any, rows: Rows) -> torch.Tensor:
    """Logits of what follows each row, one forward pass for each."""
    return torch.stack(
        [
            model(
                input_ids=torch.tensor([row], device=model.device),
                logits_to_keep=1,
                use_cache=False,
            ).logits[0, 0]
            for row in rows
        ]
    )


def ordered(
    parts: Iterator[tuple[list[tuple[int, int]], torch.Tensor]], count: int
) -> torch.Tensor:
    """The same of what reads rows in an order of its own."""
    found: dict[int, torch.Tensor] = {}
    for places, logits in parts:
        found |= {row: told for (row, _), told in zip(places, logits, strict=True)}
    return torch.stack([found[row] for row in range(count)])


def _padded(model: Any, rows: Rows) -> torch.Tensor:
    return ordered(
        read_padded(LoadedModel(model, CPU, BUDGET), rows, [(len(row) - 1,) for row in rows]),
        len(rows),
    )


def _shared(model: Any, rows: Rows) -> torch.Tensor:
    return ordered(
        read_shared(LoadedModel(model, CPU, BUDGET), rows, [(len(row) - 1,) for row in rows]),
        len(rows),
    )


@torch.inference_mode()
def _prefix_cache(model: Any, rows: Rows, size: int = 8) -> torch.Tensor:
    """What the documentation of transformers shows: one cache of the prefix, repeated for every
    padded batch.
    """
    told = []
    prefix = model(input_ids=torch.tensor([rows[0][:PREFIX]]), use_cache=True).past_key_values
    for start in range(0, len(rows), size):
        tails = [row[PREFIX:] for row in rows[start : start + size]]
        width = max(map(len, tails))
        tokens = torch.tensor([tail + (0,) * (width - len(tail)) for tail in tails])
        cache = DynamicCache(
            [
                (layer.keys.repeat(len(tails), 1, 1, 1), layer.values.repeat(len(tails), 1, 1, 1))
                for layer in prefix.layers
            ]
        )
        logits = model(input_ids=tokens, past_key_values=cache).logits
        told += [logits[line, len(tail) - 1] for line, tail in enumerate(tails)]
    return torch.stack(told)


def _seconds(work: Callable[[], object]) -> float:
    """Processor seconds: other processes of the machine do not count."""
    started = time.process_time()
    work()
    return time.process_time() - started


def central_prompts(figures: Figures) -> None:
    """One prefix, many queries: prompts per second against one at a time, in float32."""
    model, rows, few = random_llama(), _rows(), _rows()[:8]
    seconds = {
        "one at a time": [_seconds(lambda: one_by_one(model, few)) / len(few) for _ in range(3)],
        "padded": [_seconds(lambda: _padded(model, few)) / len(few) for _ in range(3)],
        "prefix cache": [
            _seconds(lambda: _prefix_cache(model, rows)) / len(rows) for _ in range(3)
        ],
        "shared": [_seconds(lambda: _shared(model, rows)) / len(rows) for _ in range(3)],
    }
    medians = {name: float(np.median(taken)) for name, taken in seconds.items()}
    for name, taken in medians.items():
        print(
            f"{name:>14}: {1000 * taken:7.1f} ms a prompt, {medians['one at a time'] / taken:.2f}x"
        )
    bound = sum(map(len, rows)) / (PREFIX + sum(len(row) - PREFIX for row in rows))
    print(f"   token bound: {bound:.2f}x")
    figures.at_least(
        "shared-over-one-at-a-time-float32", medians["one at a time"] / medians["shared"], 5.8, "x"
    )
    difference = float((_shared(model, few) - one_by_one(model, few)).abs().max())
    figures.at_most("shared-largest-difference-of-logits", difference, 1e-3)
    _half(figures, model, rows, few, medians["one at a time"])


def _half(figures: Figures, model: Any, rows: Rows, few: Rows, single: float) -> None:
    """bfloat16 weights with float32 rotary frequencies, as `from_pretrained` loads them."""
    full = _shared(model, rows).float().log_softmax(-1)[:, :2]
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        half = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.bfloat16, attn_implementation=NAME
        ).eval()
    taken = float(np.median([_seconds(lambda: _shared(half, rows)) / len(rows) for _ in range(2)]))
    told = _shared(half, rows).float().log_softmax(-1)[:, :2]
    figures.at_least("shared-bfloat16-over-one-at-a-time-float32", single / taken, 12, "x")
    figures.exactly(
        "shared-bfloat16-decisions-flipped", int((told.argmax(1) != full.argmax(1)).sum()), 0
    )


def local_prompts(figures: Figures) -> None:
    """LDP-TabICL on adult: what of a perfect prefix tree's saving is had, and the sampling
    schemes.
    """
    if not at_hand():
        return
    contract, split = real_table("adult")
    unit = unit_of("ldp_tabicl", "adult", 0, (10.0,), (1, 2, 4, 8), (), False, Options())
    draws = draws_for(contract, 0)
    method = tabular("ldp_tabicl")
    prompts = method.prompts(
        in_memory.of_table(method, split.train, contract, unit, draws),
        split.queries,
        contract,
        unit,
        draws,
    )
    with tempfile.TemporaryDirectory() as folder:
        texts = [text for part in prompts.values() for text in part[:40]]
        scorer = TransformersScorer(str(build_tiny_model(Path(folder), texts)), device="cpu")
        for cell, asked in prompts.items():
            if cell.system == "icl":
                _tree_share(figures, scorer, cell.shots or 0, sorted(set(asked)))
        _never_slower(
            figures,
            scorer,
            sorted(
                set(
                    prompts[
                        next(cell for cell in prompts if cell.shots == 8 and cell.system == "icl")
                    ]
                )
            )[:60],
        )


def _tokens_read(tree: PrefixTree) -> int:
    return sum(len(segment.tokens) for segment in tree.segments)


def _tree_share(
    figures: Figures, scorer: TransformersScorer, shots: int, prompts: list[str]
) -> None:
    rows = [scorer._prompt_tokens(prompt) for prompt in prompts]
    plain, perfect = sum(map(len, rows)), _tokens_read(grow_tree(rows, least_saving=0))
    ours = _tokens_read(grow_tree(rows, least_saving=LEAST_SAVING))
    print(f"k = {shots}: {plain / perfect:.3f}x perfect, {plain / ours:.3f}x ours")
    figures.at_least(
        f"share-of-perfect-tree-k{shots}", 100 * (plain - ours) / (plain - perfect), 90, " %"
    )


def _never_slower(figures: Figures, scorer: TransformersScorer, prompts: list[str]) -> None:
    rows = [scorer._prompt_tokens(prompt) for prompt in prompts]
    model = scorer._model
    ratio = np.median(
        [
            _seconds(lambda: _padded(model, rows)) / _seconds(lambda: _shared(model, rows))
            for _ in range(3)
        ]
    )
    figures.at_least("local-prompts-shared-over-padded", float(ratio), 1.0, "x")


def overhead(figures: Figures) -> None:
    """Time beyond the model's forward passes, and tokens per batch against the budget."""
    model, rows, sizes, inside = random_llama(), _rows(), [], [0.0]

    def before(_: Any, __: Any, inputs: dict[str, Any]) -> None:
        sizes.append(inputs["input_ids"].numel())
        inside.append(-time.process_time())

    model.register_forward_pre_hook(before, with_kwargs=True)
    model.register_forward_hook(lambda *_: inside.append(time.process_time()))
    total = _seconds(lambda: _shared(model, rows))
    figures.at_most(
        "engine-overhead-beyond-forward-passes", 100 * (total - sum(inside)) / total, 5, " %"
    )
    figures.at_most("tokens-of-the-largest-batch-over-the-budget", max(sizes) / BUDGET, 1.1)


PARTS = (plain_tables, local_prompts, overhead, central_prompts, endpoint.measure)

if __name__ == "__main__":
    torch.set_num_threads(1)
    bench(PARTS)
