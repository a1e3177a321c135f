"""What `dpicl advise` shows: a progress bar, a table with the best way first, and what to write into pipelines.yaml."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from dpicl.advise import Advice, advise
from dpicl.contract import Contract
from dpicl.pipeline import read_epsilon


def print_advice(contract: Contract, rows: int, epsilon: str, console: Console) -> None:
    """Every way with the accuracy to be expected, and the options of the best."""
    amount = read_epsilon(epsilon)
    columns = (TextColumn("made-up populations"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        bar = shown.add_task("")
        found = advise(contract, rows, amount, progress=lambda done, total: shown.update(bar, completed=done, total=total))
    table = Table("design", "estimator", "above majority", "best shots", "voting", box=None, header_style="bold")
    for one in found:
        table.add_row(*_cells(one))
    console.print(table)
    best, populations = found[0], len(found[0].gains)
    told = f"{contract.name}, {rows:,} clients, epsilon {epsilon}: accuracy on {populations} made-up populations of this shape"
    chosen = f"options: {{ldp_tabicl: {{design: {best.way.design}, estimator: {best.way.estimator}}}}}, shots: [{best.shots}]"
    for line in (told, chosen):
        console.print(line, highlight=False, soft_wrap=True)


def _cells(one: Advice) -> tuple[str, ...]:
    voting = sum(one.votes) / len(one.votes)
    return one.way.design, one.way.estimator, f"{one.gain:+.3f} ± {one.spread:.3f}", str(one.shots), f"{voting:.3f}"
