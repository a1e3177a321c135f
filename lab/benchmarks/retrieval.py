"""Retrieval under an individual filter: 64 processes that ask at once about 10,000 records, and
accuracy beside random draws on TREC.

No language model answers: a reader that repeats the label most frequent among a prompt's
demonstrations shows what retrieval can bring, not what a model makes of it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from dpicl.contract.pipeline import Cell
from dpicl.contract.text import TextContract
from dpicl.data.prompts import asking_query
from dpicl.data.text_files import load_texts, split_texts
from dpicl.ground.randomness import stream
from dpicl.home.settings import Settings
from dpicl.mechanisms.keyed_subsets import MARK_BYTES
from dpicl.methods import Options, unit_of
from dpicl.methods.dp_icl import DpIcl
from dpicl.methods.options import EnsembleOptions, EnsembleVariant
from dpicl.models.embedding import HashedNGrams
from dpicl.models.requests import ModelDescription
from dpicl.release.journal import FileSpending
from lab import in_memory
from lab.benchmarks.figures import Figures, bench, sized

ASKERS, QUERIES_EACH, RECORDS, MOST = sized(64, 4), 4, 10_000, 8
SET, EPSILONS, SHOTS, PARTICIPATIONS = "trec", sized((1.0, 3.0, 8.0), (8.0,)), 4, (4, 16)
SIMILARITIES = (0.2, 0.3)
"""Chosen before anything was measured."""


def _ask(folder: Path, asker: int) -> int:
    """One process: the queries of one asker, half of the records near to each; how many took
    part.
    """
    units = (
        stream(0, "bench", "records", "")
        .words(RECORDS * MARK_BYTES, np.uint8)
        .reshape(RECORDS, MARK_BYTES)
    )
    spending, taken = FileSpending("bench", folder, MOST, b"", set), 0
    for number in range(asker * QUERIES_EACH, (asker + 1) * QUERIES_EACH):
        is_near = stream(0, "bench", "near", str(number)).words(RECORDS, np.uint8) < 128
        taken += int(spending.admit(number, units, is_near).sum())
    return taken


def askers(figures: Figures) -> None:
    """Nobody overspends, and nothing that was admitted is lost."""
    processes = get_context("forkserver")
    processes.set_forkserver_preload(["dpicl.release.journal", "dpicl.methods.dp_icl"])
    with tempfile.TemporaryDirectory() as name, processes.Pool(ASKERS) as pool:
        folder, started = Path(name), time.perf_counter()
        taken = sum(pool.map(partial(_ask, folder), range(ASKERS), chunksize=1))
        took = time.perf_counter() - started
        bits = [
            np.unpackbits(np.fromfile(path, dtype=np.uint8), count=RECORDS)
            for path in folder.glob("*.bits")
        ]
    uses = np.sum(bits, axis=0, dtype=np.int64)
    print(
        f"{ASKERS} processes, {len(bits)} queries, {RECORDS:,} records, {MOST} uses each: "
        f"{took:.1f} s",
        flush=True,
    )
    figures.exactly("record-filter-overspent", int((uses > MOST).sum()), 0)
    figures.exactly("record-filter-lost", int(uses.sum()) - taken, 0)


class Repeating:
    """Prefers the label most frequent in a prompt, and among equals the one nearest to its end."""

    def __init__(self, contract: TextContract) -> None:
        self._answer = asking_query(contract, "\0").split("\0")[1].strip()

    @property
    def description(self) -> ModelDescription:
        """A model that is none."""
        return ModelDescription("repeating", "fake", "1", "", False, "local")

    def score(
        self, prompts: Sequence[str], labels: Sequence[str], *, progress: Any = None
    ) -> np.ndarray:
        """Shape (prompts, labels)."""
        return np.array([self._scores(prompt, labels) for prompt in prompts])

    def _scores(self, prompt: str, labels: Sequence[str]) -> list[float]:
        shown = [
            line.removeprefix(self._answer).strip()
            for line in prompt.split("\n")
            if line.startswith(self._answer)
        ][:-1]
        counts = Counter(shown)
        last = {label: place for place, label in enumerate(shown)}
        return [counts[label.strip()] + 1e-3 * last.get(label.strip(), -1) for label in labels]


def accuracy(figures: Figures) -> None:
    """By random draws and by nearness, at the same epsilon for all queries together."""
    settings = Settings.from_environment()
    if settings.data is None:
        print("DPICL_DATA is not set, not measured")
        return
    contract = settings.texts(SET)
    split = split_texts(load_texts(contract, data_folder=settings.data), contract)
    near = {
        f"near-{round(100 * similarity)}-{most}": EnsembleVariant(
            similarity=similarity, participations=most
        )
        for similarity in SIMILARITIES
        for most in PARTICIPATIONS
    }
    unit = unit_of(
        DpIcl.name,
        contract.name,
        0,
        EPSILONS,
        (SHOTS,),
        (),
        False,
        Options.model_validate({"dp_icl": EnsembleOptions(variants=near)}),
    )
    released, _ = in_memory.of_texts(
        DpIcl(), split.train, split.queries, contract, unit, Repeating(contract), HashedNGrams()
    )
    truth = split.queries.data.column("label").to_pylist()
    right = {
        cell: float(np.mean([one == other for one, other in zip(given, truth, strict=True)]))
        for cell, given in released.items()
    }
    print(f"{SET}, {len(truth)} queries, share of right answers at epsilon {EPSILONS}")
    for system in ("icl", *(f"icl-{name}" for name in near)):
        print(
            f"  {system:12} "
            f"{[round(right[Cell(system, epsilon, SHOTS)], 3) for epsilon in EPSILONS]}",
            flush=True,
        )
    first, last = next(iter(near)), EPSILONS[-1]
    figures.at_least(
        "near-over-random",
        right[Cell(f"icl-{first}", last, SHOTS)] - right[Cell("icl", last, SHOTS)],
        0.0,
    )


PARTS = (askers, accuracy)

if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    bench(PARTS)
