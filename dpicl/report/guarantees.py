"""What is guaranteed: nominal and amplified epsilon, beside the paper's Table V and its errata."""

from __future__ import annotations

import math

from dpicl.methods.gdp_tabicl import GdpTabicl
from dpicl.methods.published import ACCURACY_TABLES, Erratum, PaperModel, errata, table_v
from dpicl.report import words
from dpicl.report.blocks import Cell, Table
from dpicl.report.load import StatedGuarantee
from dpicl.report.tables import epsilon_heads


def guarantee_table(guarantees: list[StatedGuarantee]) -> Table:
    """Epsilon of whole releases by method, data set and relation, in order of first appearance; without epsilon = inf, which guarantees nothing."""
    private = [stated for stated in guarantees if not math.isinf(stated.grid_epsilon)]
    epsilons = tuple(sorted({stated.grid_epsilon for stated in private}))
    rates: dict[tuple[str, str], set[float | None]] = {}
    by_row: dict[tuple[str, str, str, float | None, str, str, float], dict[float, StatedGuarantee]] = {}
    for stated in private:
        rates.setdefault((stated.method, stated.dataset), set()).add(stated.sampling_rate)
        key = (stated.method, stated.system, stated.dataset, stated.sampling_rate, stated.unit, stated.neighbours, stated.delta)
        by_row.setdefault(key, {})[stated.grid_epsilon] = stated
    rows = []
    for (method, system, dataset, rate, unit, neighbours, delta), row in by_row.items():
        several = len(rates[method, dataset]) > 1
        cells = (_cell(row[epsilon], compare=not several) if epsilon in row else Cell(words.DASH) for epsilon in epsilons)
        label = f"{dataset}, rate {rate:g}" if several and rate is not None else dataset
        label += "" if system == "icl" else f", {words.system_name(system)}"
        rows.append((Cell(words.method_name(method)), Cell(label), *cells, *map(Cell, (f"{delta:g}", neighbours, unit))))
    head = (*Cell.of_text("method", "data set"), *epsilon_heads(epsilons), Cell("δ"), *Cell.of_text("neighbours", "unit"))
    return Table("Guarantees", head, tuple(rows))


def _cell(stated: StatedGuarantee, *, compare: bool) -> Cell:
    total = stated.epsilon if stated.amplified_epsilon is None else stated.amplified_epsilon
    printed = _printed(stated) if compare else None
    if printed is None:
        return Cell(words.number(total))
    differs = abs(total - printed) >= 0.001
    return Cell(words.number(total), quoted=f"paper {words.number(printed)}" + ", differs" * differs, mark="differs" * differs)


def _printed(stated: StatedGuarantee) -> float | None:
    """Table V is of GDP-TabICL, amplified from the grid's epsilon, under add-or-remove-one."""
    spends_more = stated.epsilon > stated.grid_epsilon * (1 + 1e-9)
    if stated.method != GdpTabicl.name or stated.amplified_epsilon is None or stated.neighbours != "add-or-remove-one" or spends_more:
        return None
    cells = {(row.dataset, row.epsilon): row.printed for row in table_v()}
    return cells.get((stated.dataset, stated.grid_epsilon))


def relevant_errata(guarantees: list[StatedGuarantee], methods: set[str], datasets: set[str], model: PaperModel) -> list[Erratum]:
    """Slips in the tables that this report quotes, for its data sets; `methods` are those with results."""
    quoted = {ACCURACY_TABLES[model, method] for method in methods if (model, method) in ACCURACY_TABLES}
    if any(_printed(stated) is not None for stated in guarantees):
        quoted.add("V")
    in_paper = {row.dataset for row in table_v()} & datasets
    return [row for row in errata() if in_paper and row.table in quoted and (row.dataset in in_paper or not row.dataset)]
