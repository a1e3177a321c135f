"""Disjoint subsets: every row draws on its own whether it takes part, and in which subset.

Trust       Central: the curator draws; which row fell where stays secret.
Unit        One row.
Neighbours  ADD_OR_REMOVE_ONE.
Guarantee   none spent. One row stands in one subset at most, and no other row's place depends on
            it; what runs on the subsets is amplified as on a Poisson sample of rate q.
Paper       DP few-shot generation (arXiv 2309.11765), algorithm 1, line "M N samples". Its program
            takes a sample of fixed size with public seeds, and accounts for a Poisson sample.

    (1)  P[row takes part] = floor(q 2^64) / 2^64 <= q,   P[subset = i | takes part] = 1 / M

Symbols     q sampling rate in (0, 1], M subsets.
Not covered sizes of subsets are random, some may be empty; they are not released.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import Stream
from dpicl.mechanisms.poisson_subsample import poisson_subsample
from dpicl.mechanisms.samplers import uniforms

LEFT_OUT = -1
"""Subset of a row that takes no part."""


def disjoint_subsets(
    row_count: int, *, sampling_rate: Fraction, subset_count: int, stream: Stream
) -> np.ndarray:
    """The subset of every row by equation (1), or `LEFT_OUT`: shape (rows,), int64.
    Raises ParameterError: the rate is outside (0, 1], or there is no subset.
    """
    if subset_count < 1:
        raise ParameterError("subset_count", subset_count, "an integer >= 1")
    sampled = poisson_subsample(row_count, sampling_rate=sampling_rate, stream=stream)
    subsets = np.full(row_count, LEFT_OUT, dtype=np.int64)
    subsets[sampled] = uniforms(subset_count, len(sampled), stream)
    return subsets
