"""Poisson subsampling: every row enters on its own with a public rational rate.

Trust       Central: the curator draws; which rows were drawn stays secret.
Unit        One row.
Neighbours  ADD_OR_REMOVE_ONE.
Guarantee   none spent; amplifies what runs on the sample (`accounting.guarantee`).
Paper       DP-TabICL section V-E. Its program keeps a row when a Poisson(n/N) draw is at
            least 1, which is the rate 1 - e^(-n/N); here the rate is the stated one.

    (1)  P[row kept] = floor(q 2^64) / 2^64 <= q, independently of every other row

Symbols     q sampling rate in (0, 1].
Not covered the sample's size is random and not released.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import Stream

_ROWS_PER_BLOCK = 1 << 16
"""What is drawn for so many rows stays in the processor's cache."""


def poisson_subsample(row_count: int, *, sampling_rate: Fraction, stream: Stream) -> np.ndarray:
    """Positions of the sampled rows, ascending, int64; equation (1). Raises ParameterError: the
    rate is outside (0, 1].
    """
    if not 0 < sampling_rate <= 1:
        raise ParameterError("sampling_rate", sampling_rate, "a number in (0, 1]")
    if sampling_rate == 1:
        return np.arange(row_count)
    threshold = np.uint64((sampling_rate.numerator << 64) // sampling_rate.denominator)
    blocks = range(0, row_count, _ROWS_PER_BLOCK)
    sampled = [
        np.flatnonzero(stream.words(min(_ROWS_PER_BLOCK, row_count - start), np.uint64) < threshold)
        + start
        for start in blocks
    ]
    return np.concatenate(sampled) if sampled else np.arange(0)
