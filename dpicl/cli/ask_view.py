"""What the command line shows of answers of private ensembles: one line per answer, and what each costs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from dpicl.cli.budget import print_unheeded
from dpicl.contract.periods import ONCE
from dpicl.engine.asking import Wish
from dpicl.engine.desk import Answered, Desk
from dpicl.engine.pipelines import load_pipelines
from dpicl.engine.plan import check_named, check_writer, periods_of, registry
from dpicl.engine.quote import accounts_of
from dpicl.engine.settings import Settings
from dpicl.errors import ParameterError
from dpicl.lm.spec import resolve_model
from dpicl.methods import METHODS
from dpicl.methods.dp_icl import DpIcl
from dpicl.methods.options import EnsembleOptions
from dpicl.pipeline import Cell, read_epsilon
from dpicl.text.plain import plain_text
from dpicl.yaml_file import validate


def wish_for(
    account: str,
    *,
    epsilon: str,
    shots: int,
    count: int,
    model: str | None,
    options: dict[str, Any],
    settings: Settings,
    period: str | None = None,
) -> Wish:
    """What a user asks for, checked before any private byte is read; a model that is not named is `tiny`, on benchmarks only.

    Raises:
        DpiclError: a name or value breaks a rule, or the model may not see private rows.
    """
    amount, contract = read_epsilon(epsilon), settings.texts(account)
    if model is None:
        check_named(contract, "--model")
    spec = resolve_model(model or "tiny", registry(load_pipelines(settings.pipelines), settings.pipelines.name))
    chosen = validate(EnsembleOptions, {name: value for name, value in options.items() if value is not None}, "command line")
    at = periods_of([account], settings, period).get(account, ONCE)
    wish = Wish(contract.model_copy(update={"query_count": count}), Cell("icl", amount, shots), spec, chosen, at)
    check_writer(contract, wish.unit(0), spec)
    METHODS[DpIcl.name].check(contract, wish.unit(0))
    return wish


def queries_from(query: str | None, file: str | None) -> list[str]:
    """The query given, or every line of a file, `-` for standard input.

    Raises:
        ParameterError: there is none, or the file cannot be read.
    """
    if (query is None) == (file is None):
        raise ParameterError(
            "query", "both" if query else "none", "a query, or --queries FILE with one query a line, `-` for standard input"
        )
    try:
        text = query or (sys.stdin.read() if file == "-" else Path(str(file)).read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ParameterError("queries", str(file), f"a text file that can be read ({type(error).__name__})") from None
    found = [plain_text(line) for line in text.splitlines() if line.strip()]
    if not found:
        raise ParameterError("query", "nothing", "at least one query that is not empty")
    return found


def answer_all(wish: Wish, queries: Sequence[str], settings: Settings, *, again: bool, answers: Console, told: Console) -> None:
    """Print answers one a line, and elsewhere what each costs."""
    print_unheeded(accounts_of([(wish.contract.name, DpIcl.name)], settings), settings, told)
    for one in Desk(wish, settings, again=again).answer(queries):
        answers.print(one.answer, highlight=False, soft_wrap=True)
        told.print(_cost(one), highlight=False, soft_wrap=True, style="dim")


def _cost(one: Answered) -> str:
    alone, whole = one.per_query, one.whole
    now = "charged now" if one.charged else "charged before"
    if one.repeated:
        return f"query {one.number} of {one.queries}: asked before, nothing spent"
    return (
        f"query {one.number} of {one.queries}: ({alone.epsilon:.3g}, {alone.delta:.2g})-DP alone; "
        f"all {one.queries} together ({whole.epsilon:.4g}, {whole.delta:.2g})-DP, {now}"
    )
