"""`dpicl plan`: every method simulated on made-up tables of a contract's shape, and the one to
choose.
"""

from __future__ import annotations

import os

from dpicl.cli.answers import Plan, PlanWay, answer_of
from dpicl.cli.terminal import counted, note, show, split_values
from dpicl.contract import Contract
from dpicl.pipeline import read_epsilon
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
    ways = [answer_of(PlanWay, way, recommended=way is plan.recommended) for way in plan.outlooks]
    answer = answer_of(Plan, plan, ways=ways)
    show(answer, answer.lines(), as_json=as_json)
    if contract.source.query is not None and not as_json:
        note(
            f"no database was asked: which account pays, and what it has left, is told by `dpicl "
            f"protect {contract.name} --dry-run`"
        )
