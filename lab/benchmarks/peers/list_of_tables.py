"""The tables that systems are compared on: fixed before the runs. Large ones are cut to
`MOST_TRAIN` rows and `MOST_TEST` held-out ones.

    contracts     the eight sets of `DPICL_DATA` and breast_cancer, with the bounds, categories and
                  bins of their contracts, split as these say
    scikit-learn  wine, digits (means of 2 x 2 pixels), the diabetes regression in three classes;
                  bounds are those that its pages state
    xor           the label is the exclusive or of 1 to 4 of 10 bits, 20,000 rows
    wide          20 columns of 800 rows and 30 of 5,000; four columns say something of the label

A number without bins of a contract is in `BINS` equal parts of its bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn import datasets

from dpicl.contract import Contract
from dpicl.data.central.exact_counts import row_bins, row_encoding
from dpicl.ground.types import PrivateTable, QueryTable, SplitTable
from dpicl.methods.baselines import central_design
from lab.benchmarks.figures import sized
from lab.benchmarks.real_tables import EIGHT, real_table

MOST_TRAIN, MOST_TEST, BINS = 10_000, 5_000, 8
CONTRACTS = (*EIGHT, "breast_cancer")
XORS = {f"xor{order}": order for order in (1, 2, 3, 4)}
WIDE = {"wide20": (20, 800), "wide30": (30, 5_000)}
TABLES = sized((*CONTRACTS, "wine", "digits", "regression", *XORS, *WIDE), ("wine",))
_WINE = (
    "11 14.8 .74 5.8 1.36 3.23 10.6 30 70 162 .98 3.88 .34 5.08 .13 .66 .41 3.58 1.3 13 .48 1.71 "
    "1.27 4 278 1680"
)
_REGRESSION_CUTS = (100, 200)


@dataclass(frozen=True)
class Columns:
    """What is publicly known of columns, each of shape (columns,): bounds, and of a category how
    many, else 0.
    """

    low: np.ndarray
    high: np.ndarray
    categories: np.ndarray

    @staticmethod
    def numbers(low: np.ndarray, high: np.ndarray) -> Columns:
        """Of numbers alone."""
        return Columns(
            np.asarray(low, float), np.asarray(high, float), np.zeros(len(low), dtype=np.int64)
        )


def write_table(path: Path, name: str, seed: int) -> None:
    """One table for one seed, as arrays that any environment reads."""
    if name in CONTRACTS:
        _write_contract(path, name, seed)
    elif name in XORS:
        _write(path, *_xor(XORS[name], seed), seed)
    elif name in WIDE:
        _write(path, *_wide(*WIDE[name], seed), seed)
    else:
        _write(path, *_bundled(name), seed)


def contract_split(name: str, seed: int) -> tuple[Contract, SplitTable]:
    """A set with a contract, cut to the most rows."""
    chance = np.random.default_rng(seed)
    contract, split = real_table(name)
    train = chance.permutation(split.train.row_count)[:MOST_TRAIN]
    test = chance.permutation(split.test.row_count)[:MOST_TEST]
    return contract, SplitTable(
        PrivateTable(split.train.data.take(train)),
        QueryTable(split.test.data.take(test)),
        np.arange(0),
    )


def _write_contract(path: Path, name: str, seed: int) -> None:
    contract, split = contract_split(name, seed)
    codes = [row_bins(part, contract).astype(np.int64) for part in (split.train, split.test)]
    designs = [central_design(part, contract, one_hot=False) for part in (split.train, split.test)]
    listed = contract.listed
    categories = [listed[name].count() if name in listed else 0 for name in contract.features]
    columns = Columns(designs[0].low, designs[0].high, np.array(categories))
    _save(path, columns, [design.matrix for design in designs], codes, row_encoding(contract).sizes)


def _write(
    path: Path, columns: Columns, values: np.ndarray, labels: np.ndarray, train: int, seed: int
) -> None:
    """The first rows of a permutation train."""
    order = np.random.default_rng(seed).permutation(len(values))
    values, labels = (
        np.clip(values, columns.low, columns.high)[order],
        labels[order].astype(np.int64),
    )
    bins = (
        ((values - columns.low) / (columns.high - columns.low) * BINS)
        .astype(np.int64)
        .clip(0, BINS - 1)
    )
    codes = np.column_stack(
        [np.where(columns.categories > 0, values.astype(np.int64), bins), labels]
    )
    sizes = (*(int(count) or BINS for count in columns.categories), int(labels.max()) + 1)
    test = slice(train, train + MOST_TEST)
    _save(path, columns, [values[:train], values[test]], [codes[:train], codes[test]], sizes)


def _save(
    path: Path,
    columns: Columns,
    values: list[np.ndarray],
    codes: list[np.ndarray],
    sizes: tuple[int, ...],
) -> None:
    kinds = {
        "low": columns.low,
        "high": columns.high,
        "categories": columns.categories,
        "sizes": np.array(sizes),
    }
    part = path.with_suffix(".part.npz")
    np.savez(
        part,
        allow_pickle=True,
        train=values[0],
        test=values[1],
        train_codes=codes[0],
        test_codes=codes[1],
        **kinds,
    )
    part.replace(path)


def _bundled(name: str) -> tuple[Columns, np.ndarray, np.ndarray, int]:
    """Three quarters train."""
    if name == "wine":
        values, labels = datasets.load_wine(return_X_y=True)
        low, high = np.array(_WINE.split(), dtype=float).reshape(-1, 2).T
    elif name == "digits":
        pixels, labels = datasets.load_digits(return_X_y=True)
        values = pixels.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)
        low, high = np.zeros(16), np.full(16, 16.0)
    else:
        values, numbers = datasets.load_diabetes(return_X_y=True)
        labels = np.digitize(numbers, _REGRESSION_CUTS)
        # of columns with mean 0 and sum of squares 1
        low, high = (
            np.full(10, -0.2),
            np.full(10, 0.2),
        )
    return Columns.numbers(low, high), values, labels, len(values) * 3 // 4


def _xor(order: int, seed: int) -> tuple[Columns, np.ndarray, np.ndarray, int]:
    bits = np.random.default_rng(seed).integers(0, 2, size=(20_000 + MOST_TEST, 10))
    columns = Columns(np.zeros(10), np.ones(10), np.full(10, 2))
    return (
        columns,
        bits.astype(float),
        np.bitwise_xor.reduce(bits[:, 1 : 1 + 2 * order : 2], axis=1),
        20_000,
    )


def _wide(count: int, rows: int, seed: int) -> tuple[Columns, np.ndarray, np.ndarray, int]:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(rows + MOST_TEST, count))
    odds = -1.35 + values[:, [0, 2, 4, 6]] @ np.array([1.2, 0.9, -0.9, 0.6])
    labels = rng.random(len(values)) < 1 / (1 + np.exp(-odds))
    return Columns.numbers(np.full(count, -3.0), np.full(count, 3.0)), values, labels, rows
