"""What DP few-shot generation printed (arXiv 2309.11765): accuracies of GPT-3 Babbage, and its noise.

Tables 1, 2 and 4 hold accuracies as fractions, mean and deviation over five runs; the cells that
they share agree. Table 9 holds the parameters of Table 1. Two of its columns are not printed:
`compositions`, because the authors' program composes the four shots of the sets without labels,
and `prv_epsilon`, the estimate of prv_accountant for the printed parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from pydantic import TypeAdapter

from dpicl.errors import ParameterError
from dpicl.methods.published.files import read_table

MECHANISMS = ("gaussian", "exponential")

_Cell = tuple[str, str, str, int | None, float | None]


@dataclass(frozen=True)
class NoiseCell:
    """One cell of Table 9: the noise that a data set needs for a target epsilon.

    `sigma` is a noise multiplier, the standard deviation of the noise over what one added or removed
    row moves: noise of sqrt(2) sigma / M on a mean of M distributions. `prv_epsilon` has four decimals.
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


def few_shot_accuracy(
    dataset: str, system: str, shots: int | None, epsilon: float | None, mechanism: str = "gaussian"
) -> tuple[float, float] | None:
    """Mean and deviation that Tables 1, 2 and 4 print for a cell, or None where they print none.

    Systems: `icl` with generated demonstrations (epsilon 0: from the instruction alone; inf: sigma = 0),
    `random-rows` with private rows as they are (inf), and `zero-shot`, whatever the shots and epsilon.
    Table 1 prints the better of the two at inf, and it is given for `icl`: sigma = 0 on agnews,
    dbpedia, trec and mit_genre, but random rows on mit_director.

    Raises:
        ParameterError: the mechanism is not one of the paper's.
    """
    if mechanism not in MECHANISMS:
        raise ParameterError("mechanism", mechanism, f"one of {', '.join(MECHANISMS)}")
    if system == "zero-shot":
        return _accuracies().get((system, "", dataset, None, None))
    drawn = mechanism if system == "icl" and epsilon != 0 else ""
    return _accuracies().get((system, drawn, dataset, shots, epsilon))


@cache
def table_nine() -> tuple[NoiseCell, ...]:
    """Table 9 by data set and target epsilon, twenty cells."""
    cell = TypeAdapter(NoiseCell)
    return tuple(cell.validate_python(row) for row in read_table("few-shot-table-9"))


@cache
def _accuracies() -> dict[_Cell, tuple[float, float]]:
    """Cells by system, mechanism (empty where no noise was drawn), data set, shots and epsilon."""
    cells: dict[_Cell, tuple[float, float]] = {}
    for table in (1, 2, 4):
        for row in read_table(f"few-shot-table-{table}"):
            shots = int(row["shots"]) if row["shots"] else None
            epsilon = float(row["epsilon"]) if row["epsilon"] else None
            cells[row["system"], row["mechanism"], row["dataset"], shots, epsilon] = (float(row["mean"]), float(row["std"]))
    return cells
