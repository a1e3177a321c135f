"""One task: a synthetic table, some of its rows as demonstrations, the last one asked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from lab.training import rendering
from lab.training.columns import Column, NumberColumn, PartsColumn, number_column, parts_column
from lab.training.curriculum import Level
from lab.training.structure import FAMILIES, POPULATION, Population, Shape, population
from lab.training.wording import wording

Kind = Literal["local", "central", "groups", "plain"]


@dataclass(frozen=True)
class Task:
    """A task.

    Attributes:
        rows: texts of the demonstrations in order, answer included; the last is the query.
        features: the same rows for a classifier, shape (rows, features): one column per part,
            numbers standardised.
        labels: shape (rows,), 0 and 1.
        asked: rows whose answers can be told from those before them: bool of shape (rows,).
    """

    rows: tuple[str, ...]
    features: np.ndarray
    labels: np.ndarray
    asked: np.ndarray


def make_task(
    rng: np.random.Generator, level: Level, *, shots: int | None = None, kind: Kind | None = None
) -> Task:
    """Draw a task.

    Args:
        rng: public randomness.
        level: what may occur.
        shots: demonstrations before the query; drawn if None.
        kind: who would have written the prompt; drawn if None.
    """
    count = 1 + (shots or int(rng.integers(*level.shots, endpoint=True)))
    kind = kind or _kind(rng, level)
    shape = Shape(
        int(rng.integers(*level.columns, endpoint=True)),
        rng.uniform(*level.relevant),
        rng.uniform(*level.noise),
    )
    drawn = population(
        rng,
        shape,
        FAMILIES[rng.choice(len(FAMILIES), p=level.families)],
        positive=float(np.clip(rng.beta(3, 3), 0.1, 0.9)),
    )
    columns = [_column(rng, drawn.values[:, index], kind) for index in range(shape.columns)]
    picked = _picked(rng, drawn, count)
    if kind == "groups":
        return _of_groups(rng, columns, drawn, level, count)
    taken = [_take(column, picked) for column in columns]
    return _written(rng, taken, drawn.labels[picked], level, kind, np.arange(count) > 0)


def _kind(rng: np.random.Generator, level: Level) -> Kind:
    kinds: tuple[Kind, ...] = ("local", "central", "groups", "plain")
    return kinds[rng.choice(4, p=level.kinds)]


def _column(rng: np.random.Generator, values: np.ndarray, kind: Kind) -> Column:
    numeric = {"local": 0.0, "plain": 0.35, "central": 0.7, "groups": 0.8}[kind]
    return (
        number_column(rng, values)
        if rng.random() < numeric
        else parts_column(rng, values, brief=kind == "plain")
    )


def _picked(rng: np.random.Generator, drawn: Population, count: int) -> np.ndarray:
    """Rows at random, or as many of one label as of the other."""
    if rng.random() < 0.6:
        return rng.choice(POPULATION, count, replace=False)
    wanted = rng.permutation(np.arange(count) % 2)
    own = [np.flatnonzero(drawn.labels == label) for label in (0, 1)]
    return np.array(
        [rng.choice(own[label] if len(own[label]) else own[1 - label]) for label in wanted]
    )


def _take(column: Column, picked: np.ndarray) -> Column:
    if isinstance(column, NumberColumn):
        return replace(column, numbers=column.numbers[picked])
    return replace(column, parts=column.parts[picked])


def _of_groups(
    rng: np.random.Generator, columns: list[Column], drawn: Population, level: Level, count: int
) -> Task:
    """Averages of the groups that label and up to two cuts make, positive first as the product puts
    them, and single rows after them.
    """
    keys = int(rng.integers(0, 3))
    groups = drawn.labels.copy()
    for index in rng.choice(len(columns), min(keys, len(columns)), replace=False):
        side = drawn.values[:, index] > np.quantile(drawn.values[:, index], rng.uniform(0.3, 0.7))
        groups = groups * 2 + side
    order = np.unique(groups)[::-1]
    order = order if rng.random() < 0.6 else rng.permutation(order)
    members = [np.flatnonzero(groups == group) for group in order]
    singles = rng.choice(POPULATION, max(1, count - len(members)), replace=False)
    noise = rng.uniform(0, 0.15)
    means = [_averaged(rng, column, members, singles, noise) for column in columns]
    labels = np.concatenate(
        [[drawn.labels[rows[0]] for rows in members], drawn.labels[singles]]
    ).astype(np.int64)
    return _written(rng, means, labels, level, "central", np.arange(len(labels)) >= len(members))


def _averaged(
    rng: np.random.Generator,
    column: Column,
    members: list[np.ndarray],
    singles: np.ndarray,
    noise: float,
) -> Column:
    """Noisy means of a number, the most frequent part otherwise; then single rows."""
    if isinstance(column, NumberColumn):
        means = np.array([column.numbers[rows].mean() for rows in members])
        noisy = means + noise * column.numbers.std() * rng.normal(size=len(means))
        return replace(column, numbers=np.concatenate([noisy, column.numbers[singles]]))
    modes = [int(np.bincount(column.parts[rows]).argmax()) for rows in members]
    return replace(column, parts=np.concatenate([modes, column.parts[singles]]).astype(np.int64))


def _written(
    rng: np.random.Generator,
    columns: list[Column],
    labels: np.ndarray,
    level: Level,
    kind: Kind,
    asked: np.ndarray,
) -> Task:
    said = wording(rng, tuple(columns), wordy=rng.uniform(*level.wordy))
    if kind == "plain":
        rows = rendering.plain_rows(rng, columns, labels)
    elif kind == "local":
        rows = rendering.local_rows(
            [column for column in columns if isinstance(column, PartsColumn)], said, labels
        )
    else:
        rows = rendering.central_rows(columns, said, labels)
    return Task(tuple(rows), np.hstack([_features(column) for column in columns]), labels, asked)


def _features(column: Column) -> np.ndarray:
    if isinstance(column, NumberColumn):
        deviation = column.numbers.std() or 1.0
        return ((column.numbers - column.numbers.mean()) / deviation)[:, None]
    return np.eye(len(column.texts))[column.parts]
