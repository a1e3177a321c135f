"""Votes of naive Bayes teachers on disjoint parts of the rows.

Trust       Central: the curator reads every row; only numbers of votes with noise leave.
Unit        One row; or one person, all of whose rows teach one teacher.
Neighbours  ADD_OR_REMOVE_ONE: one row (or person) more or less changes one teacher, and so at most
            one vote on each query.
Guarantee   epsilon-DP, delta = 0, for the votes on all queries together; as often as a person's
            teacher changes, not as the person has rows.
Paper       [PAEGT17] Papernot, Abadi, Erlingsson, Goodfellow and Talwar, PATE (arXiv 1610.05755),
            with noise for every query alike: no bound that depends on the votes.

    (1)  teacher of a row    by a keyed hash of its content and ordinal among equal rows, or of the
         person's id          `keyed_subsets`
    (2)  P_m(y | x)          proportional to  (n_y + 1 / K) prod_i (n_y(x_i) + 1 / s_i) / (n_y + 1),
         counts n of the rows of teacher m
    (3)  v_q(y)              #{m: y is the first of the largest P_m(. | x_q)}
    (4)  released            v_q(y) + Z,   Z discrete Laplace of scale Q s / epsilon;   of two
         labels v_q of the second, and the rest of M

Every teacher votes on every query, one without rows too, so that M is the sum of the votes on each:
of two labels one row moves one number by 1 (s = 1), of more it moves two of them (s = 2).

Symbols     M teachers, Q queries, K labels, s_i bins of column i.
Not covered running time.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import sqrt

import numpy as np

from dpicl.mechanisms.keyed_subsets import identities, keyed_subsets, record_marks
from dpicl.mechanisms.noisy_count import noisy_counts
from dpicl.randomness import Stream

MOST_TEACHERS, MOST_QUERIES = 10_000, 4096
_TEACHERS, _QUERIES, _FEWEST, _USUAL_MOST = 12, 4, 8, 512
_AT_ONCE = 1 << 22
"""Odds of labels in memory."""


def usual_teachers(units: int) -> int:
    """For so many rows, or persons: twelve times their root, of three each at least."""
    return int(min(max(2, min(units / 3, _TEACHERS * sqrt(units))), MOST_TEACHERS))


def usual_queries(teachers: int, epsilon: float) -> int:
    """Few where noise is large beside the votes: it grows with every query."""
    return int(min(max(_FEWEST, _QUERIES * sqrt(min(epsilon, 1e6) * teachers)), _USUAL_MOST))


def teachers_of(
    codes: np.ndarray, persons: np.ndarray | None, *, teachers: int, key: bytes
) -> np.ndarray:
    """Equation (1): the teacher of each row of codes of shape (rows, columns), or of each person by
    a 64-bit id: shape (rows,), int64.
    """
    names = (
        identities([row.tobytes() for row in codes])
        if persons is None
        else [person.tobytes() for person in persons]
    )
    return keyed_subsets(
        record_marks(names, key=key),
        key=key,
        query=0,
        sampling_rate=Fraction(1),
        subset_count=teachers,
    )


def votes(
    codes: np.ndarray,
    taught: np.ndarray,
    queries: np.ndarray,
    sizes: Sequence[int],
    *,
    teachers: int,
) -> np.ndarray:
    """Equations (2) and (3): private numbers of votes by label, shape (queries, labels).

    Args:
        codes: of rows, shape (rows, columns), the label last; `taught` is each row's teacher.
        queries: codes of shape (queries, columns but the label).
        sizes: bins of every column, the label last.
    """
    labels, counted, size = (
        sizes[-1],
        np.zeros((len(queries), sizes[-1]), dtype=np.int64),
        max(1, _AT_ONCE // (len(queries) * sizes[-1])),
    )
    having = np.bincount(taught, minlength=teachers) > 0
    taught, present = (np.cumsum(having) - 1)[taught], int(having.sum())
    # to one without rows all labels are as likely, and the first is said
    counted[:, 0] = teachers - present
    order = np.argsort(taught, kind="stable")
    for first in range(0, present, size):
        some = min(size, present - first)
        mine = order[slice(*np.searchsorted(taught, (first, first + some), sorter=order))]
        cells = (taught[mine] - first) * labels + codes[mine, -1]
        of_label = np.bincount(cells, minlength=some * labels).reshape(some, 1, labels)
        odds = np.repeat(np.log(of_label + 1 / labels), len(queries), axis=1)
        for column, bins in enumerate(sizes[:-1]):
            counts = np.bincount(
                codes[mine, column] * np.int64(some * labels) + cells,
                minlength=bins * some * labels,
            )
            shares = np.log(counts.reshape(bins, some, labels) + 1 / bins) - np.log(
                of_label[:, 0] + 1
            )
            odds += shares[queries[:, column]].transpose(1, 0, 2)
        said = odds.argmax(axis=2)
        counted += np.stack([(said == label).sum(axis=0) for label in range(labels)], axis=1)
    return counted


def moved_by_one(labels: int) -> int:
    """By how much one changed vote changes the numbers that are released of one query, added up."""
    return 1 if labels == 2 else 2


def noisy_votes(exact: np.ndarray, *, epsilon: Fraction | None, stream: Stream) -> np.ndarray:
    """Equation (4) of votes of shape (queries, labels), int64: of the same shape."""
    queries, labels = exact.shape
    released = exact[:, 1:] if labels == 2 else exact
    share = None if epsilon is None else epsilon / (queries * moved_by_one(labels))
    noisy = np.array(
        noisy_counts(released.ravel().tolist(), epsilon=share, stream=stream), dtype=np.int64
    ).reshape(released.shape)
    return noisy if labels > 2 else np.hstack([int(exact[0].sum()) - noisy, noisy])


def labelled_rows(
    queries: np.ndarray, noisy: np.ndarray, count: int, chance: np.random.Generator
) -> np.ndarray:
    """So many rows of the queries in turn, each with a label as often as its share of the votes:
    shape (count, columns), int64.
    """
    shares = np.maximum(noisy, 0) + 1e-9
    cumulative = np.cumsum(shares / shares.sum(axis=1, keepdims=True), axis=1)
    which = np.resize(chance.permutation(len(queries)), count)
    even = (np.arange(count) // len(queries) + chance.random(count)) / -(-count // len(queries))
    labels = (even[:, np.newaxis] >= cumulative[which, :-1]).sum(axis=1)
    return chance.permutation(np.column_stack([queries[which], labels]).astype(np.int64))


def public_queries(sizes: Sequence[int], count: int, chance: np.random.Generator) -> np.ndarray:
    """Every bin as often as any other: shape (count, columns but the label), int64."""
    return np.column_stack([chance.integers(size, size=count) for size in sizes[:-1]])


def drawn_queries(
    counts: Sequence[np.ndarray], count: int, chance: np.random.Generator
) -> np.ndarray:
    """Every column by its noisy counts, apart from the others: shape (count, columns), int64."""
    positive = [np.maximum(one, 0) + 1e-9 for one in counts]
    return np.column_stack(
        [chance.choice(len(one), size=count, p=one / one.sum()) for one in positive]
    )
