"""What the methods share: what a cell costs, what is refused, and the rows of results.

Guarantee   none spent: works on released values and metrics only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from dpicl.accounting.guarantee import Guarantee, Neighbours, to_person, to_replace_one
from dpicl.contract.declared import Declared
from dpicl.contract.models import Contract
from dpicl.errors import ParameterError
from dpicl.evaluation import Metrics, Result
from dpicl.pipeline import Cell, Unit
from dpicl.randomness import Draws

ZERO_SHOT = Cell("zero-shot", shots=0)
MAJORITY = Cell("majority")
MOST_COLUMNS = 500
"""Of methods that look at every pair of columns again for each column that joins: minutes at so
many, hours at 2,000.
"""


@dataclass(frozen=True)
class Cost:
    """What one cell's release costs: as drawn, and after amplification by subsampling."""

    nominal: Guarantee
    amplified: Guarantee | None = None

    @property
    def charged(self) -> Guarantee:
        """What an account is charged: the cost of everything that was done, subsampling
        included.
        """
        return self.amplified or self.nominal


def epsilon_of(cell: Cell) -> float:
    """Of a cell that releases."""
    assert cell.epsilon is not None
    return cell.epsilon


def shots_of(cell: Cell) -> int:
    """Of a cell that has demonstrations."""
    assert cell.shots is not None
    return cell.shots


def check_width(contract: Contract, method: str) -> None:
    """Raises ParameterError: there are more than MOST_COLUMNS."""
    if len(contract.columns) > MOST_COLUMNS:
        expected = (
            f"at most {MOST_COLUMNS:,} of {method}, which takes hours for more, or a method such "
            f"as aim_tabicl, gdp_tabicl or tab_pe"
        )
        raise ParameterError("columns", len(contract.columns), expected)


def draws_for(contract: Declared, seed: int) -> Draws:
    """Seeded streams on benchmarks, the operating system's randomness otherwise."""
    return Draws(seed, contract.name, simulated=contract.privacy.budget.benchmark)


def for_unit(guarantee: Guarantee, contract: Contract) -> Guarantee:
    """A guarantee for added or removed rows, stated for the contract's unit and neighbours."""
    if contract.privacy.person:
        guarantee = to_person(guarantee, contract.privacy.person.max_rows)
    return for_neighbours(guarantee, contract)


def for_neighbours(guarantee: Guarantee, contract: Contract) -> Guarantee:
    """A guarantee for an added or removed row or person, stated for the contract's neighbours."""
    replaced = Neighbours(contract.privacy.neighbours) is Neighbours.REPLACE_ONE
    return to_replace_one(guarantee) if replaced else guarantee


def results(
    unit: Unit, measured: Mapping[Cell, Metrics], costs: Mapping[Cell, Cost]
) -> list[Result]:
    """One row per cell: the model's, the majority's and the baselines'."""
    rows = []
    for cell, metrics in measured.items():
        cost = costs.get(cell.prompts) or costs.get(replace(cell, system="icl"))
        rate = None if cell.sampling_rate is None else float(cell.sampling_rate)
        amplified = cost.amplified.epsilon if cost and cost.amplified else None
        asked = (
            unit.method,
            cell.system,
            unit.dataset,
            unit.seed,
            cell.epsilon,
            cell.shots,
            rate,
            amplified,
        )
        rows.append(Result(*asked, **asdict(metrics)))
    return rows
