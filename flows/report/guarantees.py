"""What is guaranteed: nominal and amplified epsilon, beside the paper's Table V and its errata."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpicl.published import ACCURACY_TABLES, Erratum, PaperModel, errata, table_v
from flows.report import words
from flows.report.load import Manifest, StatedGuarantee


@dataclass(frozen=True)
class EpsilonCell:
    """Epsilon of the whole release; what Table V prints there, and whether they differ."""

    text: str = words.DASH
    printed: str = ""
    differs: bool = False


@dataclass(frozen=True)
class GuaranteeRow:
    """One method on one data set, under one relation, over every nominal epsilon."""

    method: str
    dataset: str
    unit: str
    neighbours: str
    delta: str
    cells: tuple[EpsilonCell, ...]


@dataclass(frozen=True)
class GuaranteeTable:
    """Rows by method and data set, columns by nominal epsilon; without epsilon = inf, where nothing is guaranteed."""

    epsilons: tuple[float, ...]
    rows: tuple[GuaranteeRow, ...]

    @property
    def difference_count(self) -> int:
        """How many cells differ from the paper's print."""
        return sum(cell.differs for row in self.rows for cell in row.cells)


def guarantee_table(guarantees: list[StatedGuarantee]) -> GuaranteeTable:
    """Arrange the manifest's guarantees; the order of first appearance is kept."""
    private = [stated for stated in guarantees if not math.isinf(stated.epsilon)]
    epsilons = tuple(sorted({stated.epsilon for stated in private}))
    by_row: dict[tuple[str, str, str, str, float], dict[float, StatedGuarantee]] = {}
    for stated in private:
        key = (stated.method, stated.dataset, stated.unit, stated.neighbours, stated.delta)
        by_row.setdefault(key, {})[stated.epsilon] = stated
    rows = [
        GuaranteeRow(*key[:4], f"{key[4]:g}", tuple(_cell(stated[epsilon]) if epsilon in stated else EpsilonCell() for epsilon in epsilons))
        for key, stated in by_row.items()
    ]
    return GuaranteeTable(epsilons, tuple(rows))


def _cell(stated: StatedGuarantee) -> EpsilonCell:
    total = stated.epsilon if stated.amplified_epsilon is None else stated.amplified_epsilon
    printed = _printed(stated) if stated.amplified_epsilon is not None else None
    if printed is None:
        return EpsilonCell(words.number(total))
    return EpsilonCell(words.number(total), words.number(printed), differs=abs(total - printed) >= 0.001)


def _printed(stated: StatedGuarantee) -> float | None:
    """Table V belongs to GDP-TabICL only."""
    if stated.method != "gdp_tabicl":
        return None
    cells = {(row.dataset, row.epsilon): row.printed for row in table_v()}
    return cells.get((stated.dataset, stated.epsilon))


def relevant_errata(manifest: Manifest, methods: set[str], datasets: set[str], model: PaperModel) -> list[Erratum]:
    """Slips in the tables that this report quotes, for its data sets."""
    quoted = {ACCURACY_TABLES[model, method] for method in methods if (model, method) in ACCURACY_TABLES}
    if any(_printed(stated) is not None for stated in manifest.guarantees):
        quoted.add("V")
    in_paper = {row.dataset for row in table_v()} & datasets
    return [row for row in errata() if in_paper and row.table in quoted and (row.dataset in in_paper or not row.dataset)]
