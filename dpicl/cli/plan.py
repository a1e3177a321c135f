"""`dpicl plan`: every method simulated on made-up tables of a contract's shape, and the one to
choose.
"""

from __future__ import annotations

import os

from dpicl.cli.json_output.plans import Plan, PlanWay
from dpicl.cli.terminal import console, counted, new_table, note, say, say_json, split_values
from dpicl.contract import Contract
from dpicl.methods import METHODS, tabular
from dpicl.pipeline import read_epsilon
from dpicl.planning.outlook import Outlook, TablePlan
from dpicl.planning.table_plan import plan_table


def print_plan(
    contract: Contract,
    *,
    rows: int | None,
    epsilons: str,
    signal: str | None,
    trust: str | None,
    as_json: bool,
) -> None:
    """Expected AUC and errors of every method by epsilon, the recommendation, and the command that
    follows it.

    Raises:
        ParameterError: a value is out of range, or no method fits.
    """
    asked = [read_epsilon(text) for text in split_values(epsilons)]
    with counted("simulating", "made-up tables") as count:
        plan = plan_table(
            contract,
            rows,
            asked,
            signal=signal,
            trust=trust,
            processes=os.cpu_count() or 1,
            progress=count.update,
        )
    if as_json:
        say_json(_for_programs(plan))
        return
    ordered = sorted({one.epsilon for one in plan.outlooks})
    by_way: dict[tuple[str, str], dict[float, Outlook]] = {}
    for one in (one for one in plan.outlooks if one.signal == plan.middle):
        options = ", ".join(
            [
                *one.options.values(),
                *([] if tabular(one.method).derive_stage else [f"{one.shots} shots"]),
            ]
        )
        by_way.setdefault((one.method, options), {})[one.epsilon] = one
    raw = "" if plan.middle is None else f" (a classifier on the raw rows: {plan.middle:.2f})"
    simulated = "" if plan.rows == plan.simulated_rows else f", as of {plan.simulated_rows:,}"
    say(
        f"{plan.dataset}, {plan.rows:,} rows{simulated}: expected AUC with a 90 % interval{raw}, "
        f"and expected error of a column",
        "",
    )
    table = new_table(
        "method",
        "options",
        *(head for epsilon in ordered for head in (f"ε = {epsilon:g}", "error")),
    )
    for (method, options), row in sorted(
        by_way.items(), key=lambda item: -max(one.value for one in item[1].values())
    ):
        table.add_row(
            method,
            options,
            *(
                text
                for epsilon in ordered
                for text in (_auc(row[epsilon]), f"{row[epsilon].column_error:.3f}")
            ),
        )
    console.print(table)
    if len(plan.signals) > 1:
        table = new_table("raw rows", *(f"best at ε = {epsilon:g}" for epsilon in ordered))
        for name, strength in plan.signals.items():
            bests = [plan.best(epsilon, strength) for epsilon in ordered]
            table.add_row(
                f"{name}, {strength:.2f}", *(f"{one.method} {_auc(one)}" for one in bests)
            )
        say("")
        console.print(table)
    for name, why in plan.refused.items():
        say(f"{METHODS[name].title} is left out: {why}")
    say("", plan.sentence)
    if plan.command is not None:
        say(plan.command)
    if contract.source.query is not None:
        note(
            f"no database was asked: which account pays, and what it has left, is told by `dpicl "
            f"protect {contract.name} --dry-run`"
        )


def _auc(outlook: Outlook) -> str:
    return (
        ""
        if outlook.auc is None or outlook.auc_loss is None
        else f"{outlook.auc:.2f} ±{outlook.auc_loss.half:.2f}"
    )


def _for_programs(plan: TablePlan) -> Plan:
    """Every way at every epsilon and signal, with 90 % intervals, and the one that is recommended,
    null where none is useful.
    """
    ways = [
        PlanWay(
            method=one.method,
            options=dict(one.options),
            shots=one.shots,
            epsilon=one.epsilon,
            charged=one.charged,
            signal=one.signal,
            auc=one.auc,
            auc_interval=one.auc_interval,
            columns=dict(one.columns),
            column_error=one.column_error,
            pair_error=one.pair_error,
            recommended=one is plan.recommended,
        )
        for one in plan.outlooks
    ]
    about = plan.dataset, plan.rows, plan.simulated_rows, dict(plan.signals), dict(plan.refused)
    return Plan(*about, ways, plan.sentence, plan.command)
