"""Random structural models: what decides the label of a synthetic table.

A population of rows is drawn at once; every column is a real number that stands behind what
a prompt will show. Four families share the work:

    clusters    the label comes first and moves every relevant column its own way
    linear      the sign of a weighted sum of the columns, which have common causes
    rules       one column beyond a cut, or two of them joined by and, or, unless
    prototypes  a few exemplary rows with labels of their own, the others near one of them
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

POPULATION = 192
"""Rows that thresholds, shots and group means are taken from."""
FAMILIES = ("clusters", "linear", "rules", "prototypes")


@dataclass(frozen=True)
class Shape:
    """How hard a table is.

    Attributes:
        columns: how many there are.
        relevant: share of columns that have to do with the label, at least one of them.
        noise: 0 where the columns decide the label; at 1 they hardly matter.
    """

    columns: int
    relevant: float
    noise: float


@dataclass(frozen=True)
class Population:
    """A population: `values` (rows, columns), `labels` (rows,) of 0 and 1, `relevant`
    (columns,).
    """

    values: np.ndarray
    labels: np.ndarray
    relevant: np.ndarray


def population(
    rng: np.random.Generator, shape: Shape, family: str, *, positive: float
) -> Population:
    """Draw a population.

    Args:
        rng: public randomness.
        shape: how hard it is.
        family: one of `FAMILIES`.
        positive: share of rows with label 1 that is aimed at, in (0, 1).
    """
    relevant = rng.random(shape.columns) < shape.relevant
    relevant[rng.integers(shape.columns)] = True
    if family == "clusters":
        values, labels = _clusters(rng, shape, relevant, positive)
    elif family == "prototypes":
        values, labels = _prototypes(rng, shape, relevant, positive)
    else:
        values = _with_common_causes(rng, shape.columns)
        score = (
            _linear(rng, values, relevant) if family == "linear" else _rule(rng, values, relevant)
        )
        score = score + rng.normal(size=POPULATION) * shape.noise * score.std()
        labels = _above(score, 1 - positive)
    if rng.random() < 0.5:  # so that no direction of a column means yes
        values = -values
    return Population(values, labels, relevant)


def _clusters(
    rng: np.random.Generator, shape: Shape, relevant: np.ndarray, positive: float
) -> tuple[np.ndarray, np.ndarray]:
    labels = (rng.random(POPULATION) < positive).astype(np.int64)
    strength = np.where(
        relevant, (3 * (1 - shape.noise) + 0.7) * rng.uniform(0.6, 1.4, shape.columns), 0.0
    )
    signs = rng.choice([-1.0, 1.0], shape.columns)
    values = (labels[:, None] - positive) * strength * signs + rng.normal(
        size=(POPULATION, shape.columns)
    )
    return values, labels


def _prototypes(
    rng: np.random.Generator, shape: Shape, relevant: np.ndarray, positive: float
) -> tuple[np.ndarray, np.ndarray]:
    count = int(rng.integers(2, 7))
    marks = (np.arange(count) < np.clip(round(positive * count), 1, count - 1)).astype(np.int64)
    member = rng.integers(count, size=POPULATION)
    centres = 1.5 * rng.normal(size=(count, shape.columns)) * relevant
    spread = np.where(relevant, 0.15 + shape.noise, 1.0)
    return centres[member] + spread * rng.normal(size=(POPULATION, shape.columns)), marks[member]


def _with_common_causes(rng: np.random.Generator, columns: int) -> np.ndarray:
    """Columns that go together: each is a cause of its own and a share of up to three common
    ones.
    """
    causes = rng.normal(size=(POPULATION, int(rng.integers(1, 4))))
    loads = rng.normal(size=(causes.shape[1], columns)) * rng.uniform(0, 1.5)
    values = causes @ loads + rng.normal(size=(POPULATION, columns))
    return values / values.std(axis=0)


def _linear(rng: np.random.Generator, values: np.ndarray, relevant: np.ndarray) -> np.ndarray:
    return np.asarray(values @ (rng.normal(size=len(relevant)) * relevant))


def _rule(rng: np.random.Generator, values: np.ndarray, relevant: np.ndarray) -> np.ndarray:
    chosen = rng.choice(np.flatnonzero(relevant), min(2, int(relevant.sum())), replace=False)
    sides = values[:, chosen] * rng.choice([-1.0, 1.0], len(chosen))
    return np.asarray(sides.min(axis=1) if rng.random() < 0.5 else sides.max(axis=1))


def _above(score: np.ndarray, quantile: float) -> np.ndarray:
    return (score > np.quantile(score, quantile)).astype(np.int64)
