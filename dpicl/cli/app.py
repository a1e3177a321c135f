"""The command line. A user's mistake gets one sentence and exit code 2."""

from __future__ import annotations

import gc
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.exceptions import TyperException

from dpicl import __version__
from dpicl.cli.contributed import contribute, others
from dpicl.cli.data import contract_app, data_app, ledger_app, verify
from dpicl.cli.run import list_pipelines, run
from dpicl.cli.stopping import leave_to_python, stoppable
from dpicl.cli.terminal import (
    ANYWAY,
    EPSILON,
    JSON,
    MANY,
    METHOD,
    OPTION,
    PERIOD,
    TRUST,
    check_state,
    say,
)
from dpicl.engine.settings import Settings
from dpicl.errors import DpiclError
from dpicl.leaving import INTERRUPTED

app = typer.Typer(
    help="In-context learning on private tables and texts, with a differential-privacy guarantee.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(contract_app, name="contract")
app.add_typer(data_app, name="data")
app.add_typer(ledger_app, name="ledger")


def _print_version(asked: bool) -> None:
    if asked:
        say(f"dpicl {__version__}")
        raise typer.Exit


@app.callback()
def about(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")] = False,
) -> None:
    """In-context learning on private tables and texts, with a differential-privacy guarantee."""
    if context.invoked_subcommand not in ("run", "protect", "synth", "ask"):  # those of servers and prompts clean up after themselves
        leave_to_python()


app.command("list")(list_pipelines)
app.command()(stoppable(run))


@app.command()
def report(run_id: Annotated[str, typer.Argument(help="Name of a run below runs/.")]) -> None:
    """Write a run's report again."""
    from dpicl.engine.run_folder import read_plan, run_folder
    from dpicl.report import build_report

    folder = run_folder(Settings.from_environment(), run_id)
    read_plan(folder)
    say(*(f"report: {path}" for path in build_report(folder)))


@app.command()
def budget(
    account: Annotated[str | None, typer.Argument(help="Name of an account. Default: all accounts.")] = None,
    cap: Annotated[float | None, typer.Option(help="Set the account's cap on epsilon, whatever its contract declares.")] = None,
    delta: Annotated[float | None, typer.Option(help="With --cap: the cap on delta. Default: unchanged.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON)] = False,
) -> None:
    """Show what accounts have spent and have left, and what each release was charged; or set an account's cap."""
    from dpicl.cli.budget import change_cap, print_account, print_accounts

    if delta is not None and cap is None:
        raise DpiclError("--delta needs --cap: both caps are set together")
    if cap is not None and as_json:
        raise DpiclError("--json shows accounts, --cap changes one; expected one of them")
    if cap is not None:
        if account is None:
            raise DpiclError("--cap needs an account; `dpicl budget` lists them")
        change_cap(account, cap, delta)
    elif account is None:
        print_accounts(as_json=as_json)
    else:
        print_account(account, as_json=as_json)


@app.command()
@stoppable
def protect(
    contract: Annotated[str, typer.Argument(help="Name of the contract of a table, or of texts that a run has released.")],
    out: Annotated[Path, typer.Option(help="A new file.")],
    method: Annotated[str | None, typer.Option(help=METHOD)] = None,
    trust: Annotated[str, typer.Option(help=TRUST)] = "central",
    epsilon: Annotated[str, typer.Option(help=EPSILON)] = "1",
    shots: Annotated[int, typer.Option(min=1, max=64, help="Number of demonstrations.")] = 4,
    form: Annotated[
        str,
        typer.Option("--as", help="jsonl (text and answer), text, chat (messages), alpaca, sharegpt; or csv or parquet, 10,000 rows."),
    ] = "jsonl",
    option: Annotated[list[str] | None, typer.Option(help=OPTION)] = None,
    anyway: Annotated[bool, typer.Option("--anyway", help=ANYWAY)] = False,
    period: Annotated[str | None, typer.Option(help=PERIOD)] = None,
    generator: Annotated[str | None, typer.Option(help="Of texts: the model that wrote them, where several have.")] = None,
) -> None:
    """Release demonstrations of a table to a file, without any model. Repeating it in the same period is free and gives the same bytes."""
    how = {"method": method, "trust": trust, "epsilon": epsilon, "anyway": anyway, "period": period}
    _release(contract, out, form, shots=shots, options=option or (), generator=generator, **how)


@app.command()
@stoppable
def synth(
    contract: Annotated[str, typer.Argument(help="Name of a table's contract.")],
    out: Annotated[Path, typer.Option(help="A new file that ends in .parquet or .csv.")],
    rows: Annotated[int, typer.Option(min=1, max=10_000_000, help="Number of rows.")] = 10_000,
    method: Annotated[str | None, typer.Option(help=METHOD)] = None,
    trust: Annotated[str, typer.Option(help=TRUST)] = "central",
    epsilon: Annotated[str, typer.Option(help=EPSILON)] = "1",
    option: Annotated[list[str] | None, typer.Option(help=OPTION)] = None,
    anyway: Annotated[bool, typer.Option("--anyway", help=ANYWAY)] = False,
    period: Annotated[str | None, typer.Option(help=PERIOD)] = None,
    quality: Annotated[Path | None, typer.Option(help="A new file for a page on how good the release is; costs nothing.")] = None,
) -> None:
    """Release a table to a file: rows of a private model. Any number of rows costs the same, and repeating it is free."""
    if out.suffix not in (".csv", ".parquet"):
        raise DpiclError(f"out={out.name}: expected a name that ends in .parquet or .csv")
    form = out.suffix.removeprefix(".")
    how = {"method": method, "trust": trust, "epsilon": epsilon, "anyway": anyway, "period": period}
    _release(contract, out, form, rows=rows, options=option or (), quality=quality, **how)


def _release(contract: str, out: Path, form: str, **how: Any) -> None:
    gc.disable()  # a release ends before what it leaves is worth looking for
    from dpicl.cli.protect import release_to_file, without_pandas
    from dpicl.engine.stage import StageFailed, clean_errors

    try:
        without_pandas()
        check_state()
        clean_errors("protect", release_to_file)(contract, out, form, **how)
    except StageFailed as error:
        print(f"dpicl: {error}; repeating the command is not charged again", file=sys.stderr)
        raise typer.Exit(1) from None
    finally:
        gc.enable()


app.command()(verify)


@app.command()
@stoppable
def ask(
    query: Annotated[str | None, typer.Argument(help="A query.")] = None,
    account: Annotated[str, typer.Option(help="Name of the contract whose private texts answer.")] = "docstrings",
    queries: Annotated[
        str | None, typer.Option(help="A file with one query a line; with --demos, of rows in CSV or .jsonl. `-` is standard input.")
    ] = None,
    demos: Annotated[Path | None, typer.Option(help="Demonstrations of `dpicl protect` to answer with, at no cost.")] = None,
    epsilon: Annotated[str, typer.Option(help="Privacy parameter of all --count queries together.")] = "1",
    count: Annotated[int, typer.Option(min=1, max=100_000, help="Queries paid for up front.")] = 100,
    shots: Annotated[int, typer.Option(min=1, max=64, help="Private rows in a prompt.")] = 4,
    model: Annotated[
        str | None, typer.Option(help="A model that may see the rows; required unless they are a benchmark's. With --demos, any model.")
    ] = None,
    aggregation: Annotated[
        str | None,
        typer.Option(help="How the ensemble's answers are combined. Default: votes where the contract lists labels, else embedding."),
    ] = None,
    subsets: Annotated[int | None, typer.Option(help="Prompts per query. Default: the contract's.")] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Charge for another batch of --count queries when the current one is used up.")
    ] = False,
    period: Annotated[str | None, typer.Option(help=PERIOD)] = None,
) -> None:
    """Answer queries from private texts, charged once per --count queries, or by released demonstrations; repeated queries are free."""
    from dpicl.cli.ask import answer_queries, answer_rows, read_queries
    from dpicl.engine.query_session import request_of
    from dpicl.engine.stage import StageFailed, clean_errors

    settings = Settings.from_environment()
    if demos is not None:
        if query is not None or queries is None or model is None:
            raise DpiclError("--demos answers rows of a file by a model; expected --queries (`-` for standard input) and --model")
        answer = partial(clean_errors("ask", answer_rows), demos, queries, model, settings)
    else:
        texts, options = read_queries(query, queries), {"aggregation": aggregation, "subsets": subsets}
        request = request_of(
            account, epsilon=epsilon, shots=shots, count=count, model=model, options=options, settings=settings, period=period
        )
        answer = partial(clean_errors("ask", answer_queries), request, texts, settings, again=again)
    try:
        answer()
    except StageFailed as error:
        print(f"dpicl: {error}", file=sys.stderr)
        raise typer.Exit(1) from None


@app.command()
def plan(
    contract: Annotated[str, typer.Argument(help="Name of a table's contract.")],
    rows: Annotated[
        int | None, typer.Option(min=1, max=10**12, help="Number of rows, as publicly known. Default: the contract's `population`.")
    ] = None,
    epsilon: Annotated[str, typer.Option(help=f"Privacy parameters of a release, {MANY}.")] = "0.3,1,3",
    signal: Annotated[
        str | None,
        typer.Option(help="AUC of a classifier on the raw rows, from public sources; or weak, medium or strong. Default: all three."),
    ] = None,
    trust: Annotated[
        str | None, typer.Option(help="Who sees true rows: central, a curator; local, nobody. Default: both are compared.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON)] = False,
) -> None:
    """Simulate every method on made-up tables of a contract's shape, and recommend one; reads no rows and charges nothing."""
    from dpicl.cli.plan import print_plan

    print_plan(Settings.from_environment().contract(contract), rows=rows, epsilons=epsilon, signal=signal, trust=trust, as_json=as_json)


@app.command()
def audit(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Name of an audit; end-to-end: neighbouring files in, all public bytes of the commands out; membership: attacks on releases."
        ),
    ] = None,
    all_audits: Annotated[bool, typer.Option("--all", help="Run all audits.")] = False,
    runs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Runs on each of two neighbours. Default: 100,000; end-to-end 4,000, membership 2,000. More runs detect smaller leaks.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the bounds; end-to-end draws from the operating system.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for audit.json and audit.svg. Default: `audit` in the state folder.")] = None,
    table: Annotated[str | None, typer.Option(help="membership: a public table to plant a record in, in place of made-up rows.")] = None,
) -> None:
    """Bound each mechanism's epsilon from below, and check that mutants are caught; exit code 1 if not."""
    from dpicl.cli.audit import audit_end_to_end, audit_mechanisms, audit_membership

    folder = out or Settings.from_environment().own("audit")
    if name == "end-to-end" and not all_audits:
        check_state()
        passed = audit_end_to_end(runs=runs, folder=folder)
    elif name == "membership" and not all_audits:
        passed = audit_membership(table, runs=runs, seed=seed, folder=folder)
    else:
        passed = audit_mechanisms(name, all_cases=all_audits, runs=runs, seed=seed, folder=folder)
    if not passed:
        raise typer.Exit(1)


@app.command()
def forecast(as_json: Annotated[bool, typer.Option("--json", help=JSON)] = False) -> None:
    """Forecast how many scheduled periods each budget lasts; reads no rows."""
    from dpicl.cli.budget import print_forecasts

    print_forecasts(as_json=as_json)


contribute(app, "serve", "deploy", "metrics", *others())


def main() -> None:
    """Entry point: a user's mistake becomes one sentence on standard error and exit code 2."""
    try:
        code = app(standalone_mode=False)
    except TyperException as error:
        text = error.format_message()
        if "\n" in text:  # the help of a command group without a command
            print(text, file=sys.stderr)
            sys.exit(2)
        _refuse(text)
    except DpiclError as error:
        _refuse(error.message)
    except OSError as error:
        name = Path(str(error.filename)).name if error.filename else ""
        _refuse(f"{name}: {error.strerror}" if name else error.strerror or type(error).__name__)
    if code == INTERRUPTED:
        print("dpicl: interrupted; repeating the command is not charged again", file=sys.stderr)
    sys.exit(code)


def _refuse(sentence: str) -> NoReturn:
    print("dpicl: " + " ".join(sentence.split()), file=sys.stderr)
    sys.exit(2)
