"""Retrieval under an individual privacy filter: a record takes part in the queries that it is near
to, until its own uses are spent.

Trust       Central: the curator reads records and how often each took part; only what the queries'
            mechanism answers leaves.
Unit        One row, or one person: then all rows of a person count together, and fall into one
            prompt.
Neighbours  ADD_OR_REMOVE_ONE; REPLACE_ONE where the noise of every query is Gaussian.
Guarantee   all queries together, however many, and however they were chosen after earlier answers:
            that of `most` uses of the event of one. A record more changes nothing for any other
            record: neither which queries it takes part in, nor what it has left.
Paper       [FZ21] Feldman and Zrnic, individual filters for Rényi divergences (arXiv 2008.11193);
            [KTH23] Koskela, Tobaben and Honkela, for Gaussian noise (2209.15596); [ZDW22] Zhu, Dong
            and Wang, dominating pairs (2106.08567). [KKZ25] Koskela, Kulkarni and Zumot, DP-ICL by
            nearest neighbours (2511.04332), filters the k nearest. A rank depends on the others: a
            record that is displaced from the k nearest spends less, takes part later instead and
            displaces others there. Hence a public threshold, (1).

    (1)  near:        q . x >= r   in whole numbers, r a public threshold; of the record and the
         query alone
    (2)  takes part:  near, was there when the session was opened, and took part in fewer than
         `most` queries before

(1) is a sum of whole numbers, each rounded on its own: not even the rounding of a product with
    other records beside it enters.

Proof: docs/proofs.md, lemma F. For Rényi bounds the sum over the uses is the one of [FZ21]. Of many
who ask at once, one is admitted after another, durably and before its answer is drawn. Under
REPLACE_ONE a record and its successor have `most` uses each, which cost what `most` events do under
that relation [KTH23].

Symbols     q, x points of norm at most 1 of a public embedder, cut to units of `SCALE`; r in (0,
            1].
Not covered that a query was near to few or many: the noise covers its answer, not the time that it
took; an embedder that places a text by
            its neighbours in a batch: give it one at a time.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from dpicl.ground.errors import ParameterError

SCALE = 1 << 20
"""Units of a whole point's length."""
_LONGEST = 1.001
"""An embedder's norm of 1 is one up to its rounding."""


def whole_points(points: np.ndarray) -> np.ndarray:
    """Points in whole numbers, each on its own: shape (points, dimensions), int32. One that is no
    number, or longer than 1, lies nowhere: zeros.
    """
    exact = np.asarray(points, dtype=np.float64)
    lengths = np.sqrt((np.where(np.isfinite(exact), exact, 2.0) ** 2).sum(axis=1, keepdims=True))
    return np.rint(np.where(lengths <= _LONGEST, exact, 0.0) * SCALE).astype(np.int32)


def near(records: np.ndarray, query: np.ndarray, *, similarity: float) -> np.ndarray:
    """Equation (1): shape (records,), bool; `records` and `query` are of `whole_points`, shapes
    (records, dimensions) and (dimensions,). Raises ParameterError: the similarity is outside (0,
    1].
    """
    if not 0 < similarity <= 1:
        raise ParameterError("similarity", similarity, "a number in (0, 1]")
    used = np.flatnonzero(query)
    products = np.einsum("rd,d->r", records[:, used].astype(np.int64), query[used].astype(np.int64))
    return np.asarray(products >= math.ceil(Fraction(similarity) * SCALE**2))


def takes_part(is_near: np.ndarray, uses: np.ndarray, *, most: int) -> np.ndarray:
    """Equation (2) of records that were there from the first query on: each by its own two numbers.
    Raises ParameterError: `most` is below 1.
    """
    if most < 1:
        raise ParameterError("most", most, "a whole number >= 1")
    return np.asarray(is_near & (uses < most))
