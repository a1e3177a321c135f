"""The command line. A user's mistake gets one sentence and exit code 2."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from typer.exceptions import TyperException

from dpicl.cli.contributed import contribute, others
from dpicl.cli.data import contract_app, data_app
from dpicl.cli.ledger import ledger_app
from dpicl.cli.options import PERIOD
from dpicl.cli.terminal import INTERRUPTED, console
from dpicl.engine.settings import Settings
from dpicl.errors import DpiclError

app = typer.Typer(
    help="In-context learning on private tables with a differential-privacy guarantee.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(contract_app, name="contract")
app.add_typer(data_app, name="data")
app.add_typer(ledger_app, name="ledger")


@app.command("list")
def list_pipelines() -> None:
    """Show the pipelines of pipelines.yaml and the models they may ask."""
    from dpicl.engine.pipelines import load_pipelines

    pipelines = load_pipelines(Settings.from_environment().pipelines)
    table = Table("pipeline", "what it runs", "data sets", "units", "schedule", box=None, header_style="bold")
    for name, pipeline in pipelines.pipelines.items():
        units = len(pipeline.datasets) * len(pipeline.methods) * len(pipeline.seeds)
        sets = ", ".join(pipeline.datasets) if len(pipeline.datasets) < 4 else f"{len(pipeline.datasets)} data sets"
        table.add_row(name, pipeline.title, sets, str(units), pipeline.schedule.cron if pipeline.schedule else "")
    console.print(table)
    console.print(
        f"models: {', '.join(pipelines.models)}, a folder, a hub id org/name[@revision], or a server's URL#MODEL", highlight=False
    )


contribute(app, "run")


@app.command()
def report(run_id: Annotated[str, typer.Argument(help="Name of a run below runs/.")]) -> None:
    """Write the report of a run again."""
    from dpicl.engine.run_folder import read_plan, run_folder
    from dpicl.report import build_report

    folder = run_folder(Settings.from_environment(), run_id)
    read_plan(folder)
    html, markdown = build_report(folder)
    console.print(f"report: {html}\nreport: {markdown}", highlight=False, soft_wrap=True)


@app.command()
def budget(
    account: Annotated[str | None, typer.Argument(help="Name of an account; all accounts if left out.")] = None,
    cap: Annotated[float | None, typer.Option(help="Let the account spend so much epsilon in all, whatever its contract says.")] = None,
    delta: Annotated[float | None, typer.Option(help="With --cap: and so much delta; as before if left out.")] = None,
) -> None:
    """Show accounts, what is spent and left, and what each entry bought; or change an account's cap."""
    from dpicl.cli.budget import change_cap, print_account, print_accounts

    if delta is not None and cap is None:
        raise DpiclError("--delta: goes with --cap, since both are decided together")
    if cap is not None:
        if account is None:
            raise DpiclError("--cap: of which account? `dpicl budget` shows them")
        change_cap(account, cap, delta, console)
    elif account is None:
        print_accounts(console)
    else:
        print_account(account, console)


@app.command()
def protect(
    contract: Annotated[str, typer.Argument(help="Name of a table's contract.")],
    out: Annotated[Path, typer.Option(help="A new file for the demonstrations.")],
    method: Annotated[str | None, typer.Option(help="A method on tables; group averages, GDP-TabICL, if left out.")] = None,
    epsilon: Annotated[str, typer.Option(help="What the release may cost.")] = "1",
    shots: Annotated[int, typer.Option(min=1, max=64, help="Demonstrations.")] = 4,
    form: Annotated[str, typer.Option("--as", help="jsonl (text and answer), chat (messages) or prompt (plain text).")] = "jsonl",
    period: Annotated[str | None, typer.Option(help=PERIOD)] = None,
) -> None:
    """Release demonstrations of a table to a file; asks no model. Done again in the same period it costs nothing and gives the same."""
    from dpicl.cli.protect import print_protected
    from dpicl.engine.stage import StageFailed, clean_errors

    _check_state()
    try:
        clean_errors("protect", print_protected)(
            contract, method, epsilon=epsilon, shots=shots, out=out, form=form, console=console, period=period
        )
    except StageFailed as error:
        print(f"dpicl: {error}; done again it is not charged again", file=sys.stderr)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        print("dpicl: interrupted; done again it is not charged again", file=sys.stderr)
        sys.exit(INTERRUPTED)


@app.command()
def ask(
    query: Annotated[str | None, typer.Argument(help="A query.")] = None,
    account: Annotated[str, typer.Option(help="Whose private texts answer: the name of a contract over texts.")] = "docstrings",
    queries: Annotated[
        str | None, typer.Option(help="A file with one query a line; with --demos, of rows in CSV or .jsonl. `-` is standard input.")
    ] = None,
    demos: Annotated[Path | None, typer.Option(help="Answer by these demonstrations of `dpicl protect`, at no cost.")] = None,
    epsilon: Annotated[str, typer.Option(help="What all queries together may cost.")] = "1",
    count: Annotated[int, typer.Option(min=1, max=100_000, help="How many queries are charged for at the first.")] = 100,
    shots: Annotated[int, typer.Option(min=1, max=64, help="Private rows in a prompt.")] = 4,
    model: Annotated[
        str | None, typer.Option(help="A model that may see the rows, always named unless they are a benchmark's; with --demos, any.")
    ] = None,
    aggregation: Annotated[str | None, typer.Option(help="How answers become one; the contract's if left out.")] = None,
    subsets: Annotated[int | None, typer.Option(help="Prompts for each query; the contract's if left out.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Charge for as many queries more where all are answered.")] = False,
    period: Annotated[str | None, typer.Option(help=PERIOD)] = None,
) -> None:
    """Answer by released demonstrations, or from private texts under one charge for a number of queries; asked again it is free."""
    from dpicl.cli.ask_demos import answer_rows
    from dpicl.cli.ask_view import answer_all, queries_from, wish_for
    from dpicl.engine.stage import StageFailed, clean_errors

    settings = Settings.from_environment()
    told = Console(markup=False, emoji=False, stderr=True)
    if demos is not None:
        if query is not None or queries is None or model is None:
            raise DpiclError("--demos answers rows of a file by a model: name them with --queries (`-` for standard input) and --model")
        answering = partial(clean_errors("ask", answer_rows), demos, queries, model, settings)
    else:
        asked, options = queries_from(query, queries), {"aggregation": aggregation, "subsets": subsets}
        wish = wish_for(account, epsilon=epsilon, shots=shots, count=count, model=model, options=options, settings=settings, period=period)
        answering = partial(clean_errors("ask", answer_all), wish, asked, settings, again=again)
    try:
        answering(answers=console, told=told)
    except StageFailed as error:
        told.print(f"dpicl: {error}", highlight=False, soft_wrap=True)
        raise typer.Exit(1) from None


@app.command()
def advise(
    account: Annotated[str, typer.Argument(help="Name of a table's contract.")],
    rows: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many clients will report.")],
    epsilon: Annotated[str, typer.Option(help="What one report may cost its client.")] = "1",
) -> None:
    """Try local collections on made-up populations of a contract's shape, and say which to choose; reads no row."""
    from dpicl.cli.advise_view import print_advice

    print_advice(Settings.from_environment().contract(account), rows, epsilon, console)


@app.command()
def audit(
    name: Annotated[
        str | None, typer.Argument(help="Name of an audit, or end-to-end for the whole machine, files in and all public bytes out.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Run all audits.")] = False,
    runs: Annotated[
        int | None,
        typer.Option(min=1, help="Runs on each of two neighbours, 100,000 if left out (of end-to-end 4,000); more find smaller leaks."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same bounds; end-to-end draws from the operating system.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for audit.json and audit.svg; `audit` in the state folder if left out.")] = None,
) -> None:
    """Bound each mechanism's epsilon from below, and check that mutants are caught; exit code 1 if not."""
    folder = out or Settings.from_environment().own("audit")
    if name == "end-to-end" and not every:
        from dpicl.cli.audit_end_to_end import RUNS, audit_end_to_end

        _check_state()
        passed = audit_end_to_end(runs=runs or RUNS, folder=folder, console=console)
    else:
        from dpicl.cli.audit_view import audit_all

        passed = audit_all(name, every, runs=runs or 100_000, seed=seed, folder=folder, console=console)
    if not passed:
        raise typer.Exit(1)


@app.command()
def forecast() -> None:
    """Say for how many scheduled runs on new data every budget lasts; reads no row."""
    from dpicl.cli.budget import print_forecasts

    print_forecasts(console)


contribute(app, "serve", "deploy", "metrics", *others())


def _check_state() -> None:
    """Refuse a wrong format of logs, or budgets in two places, before anything is charged."""
    from dpicl.engine.settings import log_format
    from dpicl.engine.state_home import check_one_home

    log_format()
    check_one_home(Settings.from_environment().home)


def main() -> None:
    """Entry point: a user's mistakes become one sentence on standard error and exit code 2."""
    try:
        code = app(standalone_mode=False)
    except TyperException as error:
        _refuse_usage(error)
    except DpiclError as error:
        _refuse(error.message)
    except OSError as error:
        name = Path(str(error.filename)).name if error.filename else ""
        _refuse(f"{name}: {error.strerror}" if name else error.strerror or type(error).__name__)
    if code == INTERRUPTED:
        print("dpicl: interrupted; `dpicl run --resume RUN` goes on where it stopped", file=sys.stderr)
    sys.exit(code)


def _refuse(sentence: str) -> NoReturn:
    print("dpicl: " + " ".join(sentence.split()), file=sys.stderr)
    sys.exit(2)


def _refuse_usage(error: TyperException) -> NoReturn:
    """A wrong option gets one sentence; a command group without a command shows its help."""
    text = error.format_message()
    if "\n" in text:
        print(text, file=sys.stderr)
        sys.exit(2)
    _refuse(text)
