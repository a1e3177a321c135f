"""A real language model's speed beside what a user would pick: a plain loop of transformers, and
llama.cpp on the same GGUF file.

shared       prompts of GDP-TabICL on adult, eight demonstrations: all queries behind one beginning
apart        prompts of LDP-TabICL on adult, whose demonstrations are drawn for each query: they
             share little
voters       the voters of one text that is written token by token: each has demonstrations of its
             own, all get the same next token

Processors are pinned, and what is compared takes turns. Ratios are medians of the rounds' own, of
times on the wall: the machine has to be idle. Times of the processor stand beside them; for one
processor their ratios hold on a busy machine too. The bound is what the matrix products alone take
that any reader of these prompts has to compute, each beginning once.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import linear

from dpicl.models.local.gguf_file import SMOLLM2, gguf_file
from dpicl.models.local.transformers_backend import TransformersScorer
from dpicl.models.local.tree_reader import grow_tree
from dpicl.models.requests import CONTINUATIONS, Tokens
from dpicl.models.votes import VoteRequest, VoteRule
from lab.benchmarks.figures import Figures, sized
from lab.benchmarks.model import prompts_of
from lab.benchmarks.real_tables import at_hand, real_table

PEERS = Path(__file__).parents[2] / ".venv-peers" / "bin" / "python"
ROUNDS, QUERIES, APART, PLAIN = sized(2, 1), sized(200, 3), sized(5, 2), sized(2, 1)
"""Of each kind of prompt so many are asked, and of any so few by the plain loop, which takes as
long for each.
"""
VOTERS, INSTRUCTION, DEMONSTRATIONS, TEXT, STEPS = sized(80, 4), 20, 40, 50, sized(6, 2)
"""Tokens that all voters' prompts begin with, that each has of its own, of a text, and those that
are measured.
"""
RULE = VoteRule("difference", 100, 1 << 20, 2.5, VOTERS)
Times = dict[str, float]
CLOCKS = ("wall", "processor")


def timed(work: Callable[[], object]) -> Times:
    """Seconds on the wall and of the processor."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}


class _Llama:
    """llama.cpp in a process of its own, which has the processors that this one has."""

    def __init__(self) -> None:
        command = [str(PEERS), "-m", "lab.benchmarks.peers.llama", str(gguf_file(SMOLLM2.id))]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.version = self._reply()["version"]

    def __call__(self, job: str, **arguments: Any) -> Any:
        assert self._process.stdin is not None
        print(json.dumps({"job": job, **arguments}), file=self._process.stdin, flush=True)
        return self._reply()

    def _reply(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


@contextmanager
def _pinned(processors: int) -> Iterator[None]:
    """This process, and those that it starts, on so many processors."""
    before, threads = os.sched_getaffinity(0), torch.get_num_threads()
    os.sched_setaffinity(0, sorted(before)[:processors])
    torch.set_num_threads(processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
        torch.set_num_threads(threads)


def asked() -> dict[str, list[str]]:
    """Prompts of adult by kind."""
    contract, split = real_table("adult")
    kinds: tuple[tuple[str, Any, float, int], ...] = (
        ("shared", "gdp_tabicl", 1.0, QUERIES),
        ("apart", "ldp_tabicl", 10.0, APART),
    )
    return {
        name: list(
            dict.fromkeys(
                next(
                    texts
                    for cell, texts in prompts_of(method, split, contract, 0).items()
                    if cell.epsilon == epsilon
                )
            )
        )[:count]
        for name, method, epsilon, count in kinds
    }


@torch.inference_mode()
def _plain(model: Any, rows: Sequence[Tokens]) -> None:
    for row in rows:
        model(input_ids=torch.tensor([row]), logits_to_keep=1, use_cache=False).logits[
            0, -1
        ].log_softmax(-1)


@torch.inference_mode()
def _products(model: Any, rows: Sequence[Tokens]) -> Times:
    """What the matrix products of reading these rows take, of one layer and as many tokens as are
    fast, times all of them.
    """
    segments, config = grow_tree(rows, least_saving=1).segments, model.config
    tokens = sum(len(segment.tokens) for segment in segments)
    context = sum(sum(range(segment.start + 1, segment.end + 1)) for segment in segments) // tokens
    some = min(tokens, 1024)
    weights = [weight for weight in model.model.layers[0].parameters() if weight.ndim == 2]
    inputs = {weight.shape[1]: torch.randn(some, weight.shape[1]) for weight in weights}
    query, bank = (
        torch.randn(config.num_attention_heads, count, config.head_dim) for count in (some, context)
    )

    def multiply() -> None:
        for weight in weights:
            linear(inputs[weight.shape[1]], weight)
        torch.bmm(torch.bmm(query, bank.transpose(1, 2)), bank)

    multiply()
    taken = [timed(multiply) for _ in range(5)]
    return {
        clock: min(one[clock] for one in taken) * config.num_hidden_layers * tokens / some
        for clock in taken[0]
    }


def _prompts(
    figures: Figures,
    processors: int,
    llama: _Llama,
    full: TransformersScorer,
    half: TransformersScorer,
) -> None:
    """Both kinds of prompts, by all four."""
    flipped = []
    for name, texts in asked().items():
        rows, few = [full._prompt_tokens(text) for text in texts], PLAIN
        labels = [full.encode(text)[0] for text in CONTINUATIONS]
        taken, scores = dict[str, list[Times]](), dict[str, np.ndarray]()

        def by(
            who: str, times: Times, count: int = len(rows), taken: dict[str, list[Times]] = taken
        ) -> None:
            taken.setdefault(who, []).append({clock: times[clock] / count for clock in CLOCKS})

        for _ in range(ROUNDS):
            by("products", _products(full._model, rows))
            by("ours", timed(lambda: scores.update(full=full.score(texts, CONTINUATIONS))))  # noqa: B023
            read = llama("prompts", prompts=rows, labels=labels)
            by("llama.cpp", read)
            by(
                "ours in bfloat16",
                timed(lambda: scores.update(half=half.score(texts, CONTINUATIONS))),  # noqa: B023
            )
            by("plain loop", timed(lambda: _plain(full._model, rows[:few])), few)  # noqa: B023
        _print(f"{name} prompts", taken)
        apart = float(np.abs(scores["full"] - np.array(read["scores"])).max())
        print(
            f"{name} prompts, {processors} processors: llama.cpp, whose products are of 8-bit "
            f"numbers, is up to {apart:.2f} nats away"
        )
        flipped += list(scores["full"].argmax(1) != scores["half"].argmax(1))
        goals = {"llama.cpp": 2.0, "plain loop": 12.0} if name == "shared" else {"llama.cpp": 1.5}
        for other, goal in goals.items():
            figures.at_least(
                f"{name} prompts over {other}, {processors} processors",
                _ratio(taken, other, "ours"),
                goal,
                "x",
            )
        share = 100 * _ratio(taken, "products", "ours")
        figures.at_least(
            f"{name} prompts, share of the products' bound, {processors} processors",
            share,
            80,
            " %",
        )
    print(
        f"bfloat16 flips {100 * np.mean(flipped):.1f} % of the answers; a number format counts "
        f"where it flips no more than 1 %"
    )


def _voters(figures: Figures, processors: int, llama: _Llama, full: TransformersScorer) -> None:
    """Tokens a second of one text, from the beginnings of all voters' prompts to its last token."""
    rng, taken = np.random.default_rng(0), dict[str, list[Times]]()

    def tokens(count: int) -> Tokens:
        return tuple(rng.integers(100, full._vocabulary, count).tolist())

    for _ in range(ROUNDS):
        public, more = tokens(INSTRUCTION), tokens(STEPS)
        voters = tuple(
            public + tokens(int(rng.integers(DEMONSTRATIONS - 10, DEMONSTRATIONS + 11)))
            for _ in range(VOTERS)
        )
        session = full.session([VoteRequest(public, voters, ())], RULE)
        begun = timed(lambda: session.vote([()]))  # noqa: B023
        steps = [timed(lambda: session.vote([(token,)])) for token in more]  # noqa: B023
        theirs = llama("voters", voters=voters, more=more)
        plain = timed(lambda: _plain(full._model, [voter + more for voter in voters[:PLAIN]]))  # noqa: B023
        taken.setdefault("ours", []).append(_a_token(begun, steps))
        taken.setdefault("llama.cpp", []).append(_a_token(theirs["begun"], theirs["steps"]))
        taken.setdefault("plain loop", []).append(
            {clock: seconds * VOTERS / PLAIN for clock, seconds in plain.items()}
        )
    _print(f"a token of {VOTERS} voters", taken)
    figures.at_least(
        f"voters over llama.cpp, {processors} processors",
        _ratio(taken, "llama.cpp", "ours"),
        2,
        "x",
    )


def _a_token(begun: Times, steps: Sequence[Times]) -> Times:
    """The mean of a text."""
    return {
        clock: (begun[clock] + (TEXT - 1) * statistics.median(step[clock] for step in steps)) / TEXT
        for clock in begun
    }


def _ratio(taken: dict[str, list[Times]], one: str, other: str) -> float:
    return statistics.median(
        a["wall"] / b["wall"] for a, b in zip(taken[one], taken[other], strict=True)
    )


def _print(what: str, taken: dict[str, list[Times]]) -> None:
    for who, times in taken.items():
        wall, processor = (statistics.median(time[clock] for time in times) for clock in CLOCKS)
        ratios = [
            statistics.median(
                a[clock] / b[clock] for a, b in zip(times, taken["ours"], strict=True)
            )
            for clock in CLOCKS
        ]
        shown = "" if who == "ours" else f"; over ours {ratios[0]:.2f}x, {ratios[1]:.2f}x"
        print(
            f"{what}: {who:>16} {1 / wall:7.2f} a second, {1000 * wall:8.1f} ms, of the processor "
            f"{1000 * processor:8.1f}{shown}",
            flush=True,
        )


def measure(figures: Figures) -> None:
    """On one processor and on two. Nothing where tables or the peers' packages are not at hand."""
    if not PEERS.exists():
        print("`make peers` has not been run: nothing beside llama.cpp is measured")
        return
    if not at_hand():
        return
    for processors in range(1, min(2, len(os.sched_getaffinity(0))) + 1):
        with _pinned(processors):
            full = TransformersScorer(SMOLLM2.id, device="cpu")
            half = TransformersScorer(SMOLLM2.id, device="cpu", dtype="bfloat16")
            llama = _Llama()
            print(
                f"{processors} processors, llama-cpp-python {llama.version}, load "
                f"{' '.join(f'{one:.1f}' for one in os.getloadavg())}"
            )
            _prompts(figures, processors, llama, full, half)
            _voters(figures, processors, llama, full)
            llama.close()
            print(f"load after it {' '.join(f'{one:.1f}' for one in os.getloadavg())}", flush=True)
