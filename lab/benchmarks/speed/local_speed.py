"""The client's side and the inverse of the distortion at scale, against what a user would do with
numpy.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from dpicl.contract import Contract, parse_contract
from dpicl.data.local.observed import inverse_matrix, invert
from dpicl.data.reading.encode import LocalEncoding
from dpicl.ground.randomness import system_stream
from dpicl.ground.types import PrivateTable, ReleasedRows
from dpicl.mechanisms.randomised_response import Response, randomise, response
from dpicl.methods.base import draws_for
from dpicl.methods.baselines import local_design, local_models
from dpicl.methods.collection import collect
from dpicl.methods.options import LdpVariant
from lab.benchmarks.figures import Figures, best_of, seconds, sized

CLIENTS, COLUMNS, EPSILON = sized(1_000_000, 10_000), 13, 5.0
MIXED = (2, 7, 16, 7, 14, 6, 5, 2, 12, 3, 3, 9, 2)
INVERTED = {20: 0.015, 24: 0.4, 26: 2.0}
"""Bits of a domain, and seconds."""


def _plain(codes: np.ndarray, law: Response, rng: np.random.Generator) -> np.ndarray:
    """What a user writes: a uniform number, another category, where."""
    lies = rng.integers(law.categories - 1, size=len(codes))
    return np.where(rng.random(len(codes)) < law.truth_probability, codes, lies + (lies >= codes))


def _randomising(
    figures: Figures, name: str, sizes: tuple[int, ...], goal: float, over_numpy: float
) -> None:
    rng = np.random.default_rng(0)
    laws = [response(epsilon=EPSILON / COLUMNS, categories=size) for size in sizes]
    truth = [rng.integers(size, size=CLIENTS).astype(np.uint8) for size in sizes]

    def ours() -> None:
        secret = system_stream()
        for codes, law in zip(truth, laws, strict=True):
            randomise(codes, law, secret)

    own, numpy = best_of(
        (ours, lambda: [_plain(codes, law, rng) for codes, law in zip(truth, laws, strict=True)]), 7
    )
    figures.at_least(f"randomise-1M-x-13-{name}", CLIENTS * COLUMNS / own / 1e6, goal, " M cells/s")
    figures.at_least(f"randomise-1M-x-13-{name}-over-numpy", numpy / own, over_numpy, "x")


def _copied(figures: Figures) -> None:
    """Ten million rows against a memory copy."""
    law, truth = (
        response(epsilon=EPSILON / COLUMNS, categories=2),
        np.random.default_rng(0).integers(2, size=10_000_000).astype(np.uint8),
    )
    target, secret = np.empty_like(truth), system_stream()
    copied, own = best_of(
        (lambda: np.copyto(target, truth), lambda: randomise(truth, law, secret)), 9
    )
    figures.at_least("randomise-10M-share-of-a-copy", 100 * copied / own, 30, " %")


def _inverting(figures: Figures) -> None:
    laws, shares = (
        [response(epsilon=EPSILON, categories=2)] * 14,
        np.random.default_rng(0).random(2**14),
    )
    matrices = [inverse_matrix(law) for law in laws]
    dense = seconds(lambda: reduce(np.kron, matrices) @ shares, 3)
    figures.at_least(
        "reconstruct-2^14-over-dense",
        dense / seconds(lambda: invert(shares, laws), 20),
        20_000,
        "x",
    )
    for bits, goal in INVERTED.items():
        laws, shares = [response(epsilon=EPSILON, categories=2)] * bits, np.ones(2**bits)
        figures.at_most(
            f"reconstruct-2^{bits}",
            seconds(partial(invert, shares, laws), 3),
            goal,
            " s",
        )
    _inverting_beside_others(figures)


def _inverting_beside_others(figures: Figures) -> None:
    """The same while another process works on one of the cores."""
    laws, shares = [response(epsilon=EPSILON, categories=2)] * 20, np.ones(2**20)

    def spent() -> float:
        return seconds(lambda: invert(shares, laws), 20)

    alone = spent()
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        try:
            figures.at_most("reconstruct-2^20-beside-another-process", spent() / alone, 2, "x")
        finally:
            other.kill()


def _collecting(figures: Figures) -> None:
    """What a user runs, from a million typed rows to what the collector gets: every column, or a
    question about a few.
    """
    rng, words = np.random.default_rng(0), ["a", "b", "c", "d", "e"]
    columns: dict[str, Any] = {
        f"n{place}": {"type": "integer", "bounds": [0, 100]} for place in range(6)
    }
    columns |= {f"c{place}": {"type": "category", "categories": words} for place in range(6)}
    columns["y"] = {"type": "category", "categories": ["no", "yes"]}
    label = {"column": "y", "parts": [["no"], ["yes"]], "question": "Yes?"}
    budget = {"budget": {"epsilon": 30}}
    contract = parse_contract(
        {
            "version": 2,
            "name": "clients",
            "source": {"file": "clients.csv"},
            "privacy": budget,
            "columns": columns,
            "label": label,
        },
        "clients.yaml",
    )
    assert isinstance(contract, Contract)
    stored = {
        name: pa.array(rng.integers(101, size=CLIENTS))
        if declared["type"] == "integer"
        else pa.DictionaryArray.from_arrays(
            pa.array(rng.integers(len(declared["categories"]), size=CLIENTS, dtype=np.int32)),
            declared["categories"],
        )
        for name, declared in columns.items()
    }
    table, draws = PrivateTable(pa.table(stored)), draws_for(contract, 0)
    for design, estimator in (("all-columns", "simplex"), ("subset", "log-linear")):
        chosen = LdpVariant.model_validate({"design": design, "estimator": estimator})
        (spent,) = best_of((partial(collect, table, contract, chosen, EPSILON, draws),), 7)
        figures.at_most(f"collect-1M-x-13-{design}", 1000 * spent, 60, " ms")


def _fitting(figures: Figures) -> None:
    """Baselines on a million released rows of twelve bits and a label: on the rows, and on distinct
    ones with their counts.
    """
    rng, encoding = (
        np.random.default_rng(0),
        LocalEncoding("k-ary", tuple(f"a{i}" for i in range(COLUMNS)), (2,) * COLUMNS),
    )
    features = (rng.random((CLIENTS, COLUMNS - 1)) < rng.random(COLUMNS - 1)).astype(np.uint8)
    label = features @ rng.normal(size=COLUMNS - 1) + rng.normal(size=CLIENTS) > 0
    rows = ReleasedRows(np.column_stack([features, label]).astype(np.uint8))

    def on_rows() -> list[Any]:
        levels = encoding.decode(rows.codes)
        return [
            model.fit(local_design(levels, encoding), levels[:, -1])
            for model in (LogisticRegression(max_iter=1000), GaussianNB())
        ]

    plain, weighted = on_rows(), local_models(rows, encoding)
    assert isinstance(weighted, dict)
    slow, fast = best_of((on_rows, lambda: local_models(rows, encoding)), 3)
    figures.at_least("baselines-on-weighted-cells-over-rows", slow / fast, 20, "x")
    figures.at_most(
        "baselines-on-weighted-cells-lr-largest-difference",
        float(np.abs(plain[0].coef_ - weighted["lr"].coef_).max()),
        1e-4,
    )
    figures.at_most(
        "baselines-on-weighted-cells-gnb-largest-difference",
        float(np.abs(plain[1].theta_ - weighted["gnb"].theta_).max()),
        1e-9,
    )


def measure(figures: Figures) -> None:
    """Everything, on one core as far as numpy leaves it there."""
    _randomising(figures, "binary", (2,) * COLUMNS, 1500, 16)
    _randomising(figures, "mixed", MIXED, 800, 9)
    _copied(figures)
    _fitting(figures)
    _inverting(figures)
    _collecting(figures)
