"""`dpicl advise`: LDP designs simulated on synthetic data, the best first, and the options that choose it."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dpicl.advise import advise
from dpicl.cli.terminal import console, new_table, say
from dpicl.contract import Contract
from dpicl.pipeline import read_epsilon


def print_advice(contract: Contract, rows: int, epsilon: str) -> None:
    """Every design with its expected accuracy, and the pipeline options of the best."""
    amount = read_epsilon(epsilon)
    columns = (TextColumn("synthetic populations"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("")
        results = advise(contract, rows, amount, progress=lambda done, total: progress.update(bar, completed=done, total=total))
    table = new_table("design", "estimator", "above majority", "best shots", "voting")
    for result in results:
        gain, voting = f"{result.gain:+.3f} ± {result.spread:.3f}", sum(result.votes) / len(result.votes)
        table.add_row(result.variant.design, result.variant.estimator, gain, str(result.shots), f"{voting:.3f}")
    console.print(table)
    best = results[0]
    say(
        f"{contract.name}, {rows:,} clients, epsilon {epsilon}: accuracy on {len(best.gains)} synthetic populations of this shape",
        f"options: {{ldp_tabicl: {{design: {best.variant.design}, estimator: {best.variant.estimator}}}}}, shots: [{best.shots}]",
    )
