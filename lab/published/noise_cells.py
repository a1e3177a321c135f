"""Table 9 of DP few-shot generation (arXiv 2309.11765): the parameters of its Table 1, as data.

Two columns are not printed: `compositions`, because the authors' program composes the four shots of
the sets without labels, and `prv_epsilon`, the estimate of prv_accountant for the printed
parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from pydantic import TypeAdapter

from lab.published import read_table


@dataclass(frozen=True)
class NoiseCell:
    """One cell of Table 9: the noise that a data set needs for a target epsilon.

    `sigma` is a noise multiplier, the standard deviation of the noise over what one added or
    removed row moves: noise of sqrt(2) sigma / M on a mean of M distributions. `prv_epsilon` has
    four decimals.
    """

    dataset: str
    epsilon: float
    class_row_count: int
    subset_count: int
    rows_per_subset: int
    reduced_vocabulary: bool
    max_tokens: int
    compositions: int
    sigma: float
    prv_epsilon: float

    @property
    def sampling_rate(self) -> Fraction:
        """M N over the rows of the smallest class."""
        return Fraction(self.subset_count * self.rows_per_subset, self.class_row_count)

    @property
    def delta(self) -> float:
        """One over the rows of the smallest class."""
        return 1 / self.class_row_count


@cache
def table_nine() -> tuple[NoiseCell, ...]:
    """Table 9 by data set and target epsilon, twenty cells."""
    cell = TypeAdapter(NoiseCell)
    return tuple(cell.validate_python(row) for row in read_table("few-shot-table-9"))
