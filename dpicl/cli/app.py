"""The command line. A user's mistake gets one sentence and exit code 2."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from dpicl import __version__
from dpicl.cli import options
from dpicl.cli.collect import collect
from dpicl.cli.data import contract_app, data_app, ledger_app
from dpicl.cli.executors import contribute
from dpicl.cli.options import MANY, SAME, AsJson, ContractName
from dpicl.cli.releases import ask, protect, series, synth
from dpicl.cli.run import list_pipelines, run
from dpicl.cli.state import model_app, state_app
from dpicl.cli.terminal import INTERRUPTION, leave_to_python, say, show_models, stoppable
from dpicl.cli.verify import verify
from dpicl.ground.errors import DpiclError, ParameterError, closest
from dpicl.ground.printable import filter_streams
from dpicl.ground.progress import QUIET
from dpicl.ground.shutdown import INTERRUPTED
from dpicl.ground.yaml_file import is_number
from dpicl.home.settings import Settings


def _written_number(
    parameter: Any, process: Callable[[Any, Any], Any], context: Any, typed: Any
) -> Any:
    """A number of a command, in the notation of files."""
    if isinstance(typed, str) and not is_number(typed):
        raise ParameterError(parameter.opts[-1], repr(typed[:40]), "a number such as 10 or 0.5")
    return process(context, typed)


_GROUPS = {
    "Protect": ("protect", "synth", "contract", "plan", "series", "collect", "data"),
    "Ask": ("ask", "model"),
    "Run": ("list", "run", "report", "compare", "reproduce"),
    "Prove": ("budget", "verify", "audit", "ledger"),
    "Operate": ("serve", "deploy", "forecast", "metrics", "state"),
}


class _Commands(TyperGroup):
    """All commands, in groups; --quiet may stand before or after a command's name."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        (quiet,) = (option for option in self.params if option.name == "quiet")
        below = list(self.commands.values())
        for command in below:
            below += getattr(command, "commands", {}).values()
            for parameter in command.params:
                parameter.metavar = parameter.metavar or str(parameter.name).upper()
                if getattr(getattr(parameter, "type_descriptor", None), "annotation", None) in (
                    int,
                    float,
                ):
                    vars(parameter)["process_value"] = partial(
                        _written_number, parameter, parameter.process_value
                    )
            command.params.append(quiet)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Each group below its name; what another package adds comes last."""
        named = {name for names in _GROUPS.values() for name in names}
        others = tuple(name for name in self.list_commands(ctx) if name not in named)
        for title, names in (*_GROUPS.items(), ("More", others)):
            if own := {name: self.commands[name] for name in names if name in self.commands}:
                limit = formatter.width - 6 - max(map(len, self.commands))
                rows = [(name, one.get_short_help_str(limit)) for name, one in own.items()]
                with formatter.section(title):
                    formatter.write_dl(rows)


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "token_normalize_func": lambda name: SAME.get(name, name),
    },
)
app.add_typer(contract_app, name="contract")
app.add_typer(data_app, name="data")
app.add_typer(ledger_app, name="ledger")
app.add_typer(model_app, name="model")
app.add_typer(state_app, name="state")


def _print_version(asked: bool) -> None:
    if asked:
        say(f"dpicl {__version__}")
        raise typer.Exit


def _be_quiet(context: typer.Context, asked: bool) -> None:
    if asked:
        QUIET.set()
    elif context.parent is None:
        QUIET.clear()
    show_models()


@app.callback()
def about(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option(
            "-q",
            "--quiet",
            callback=_be_quiet,
            expose_value=False,
            help="Print the result or the error, and nothing else.",
        ),
    ] = False,
) -> None:
    """In-context learning on private tables and texts, with a differential-privacy guarantee."""
    invoked = (
        context.command.commands.get(context.invoked_subcommand or "")
        if isinstance(context.command, TyperGroup)
        else None
    )
    # those of servers and prompts clean up after themselves
    if not getattr(getattr(invoked, "callback", None), "is_stoppable", False):
        leave_to_python()


app.command("list")(list_pipelines)
app.command()(stoppable(run))


@app.command()
def report(
    run_id: Annotated[
        str, typer.Argument(metavar="RUN", help="Name of a run.", autocompletion=options.runs)
    ],
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Show answers by the values of this column of public queries too, such as `sex`.",
        ),
    ] = None,
) -> None:
    """Write the report of a run again."""
    from dpicl.report import build_report
    from dpicl.runs.run_folder import read_plan, run_folder

    folder = run_folder(Settings.from_environment(), run_id)
    read_plan(folder)
    say(*(f"report: {path}" for path in build_report(folder, by)))


app.command()(series)


@app.command()
def budget(
    account: Annotated[
        str | None,
        typer.Argument(
            help="Name of an account. Default: all accounts.", autocompletion=options.accounts
        ),
    ] = None,
    cap: Annotated[
        float | None,
        typer.Option(
            help="Set the account's cap on epsilon. It holds, whatever contracts declare, until it "
            "is set again."
        ),
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="With --cap: the cap on delta. Default: unchanged.")
    ] = None,
    share: Annotated[
        str | None,
        typer.Option(
            help="Set the most epsilon that a user may charge, as USER=EPSILON, whatever contracts "
            "have declared so far."
        ),
    ] = None,
    other_file: Annotated[
        Path | None,
        typer.Option(
            help="This is a new file that happens to have the inode of a deleted one, for which "
            "the account paid."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what accounts have spent and have left; set a cap. Of one account, show what each
    release was charged, and who spent how much; set a user's share.
    """
    from dpicl.cli.budget import (
        change_cap,
        change_share,
        print_account,
        print_accounts,
        state_other_file,
    )

    if other_file is not None:
        if account is None or cap is not None or share is not None or as_json:
            raise DpiclError(
                "--other-file needs an account and stands alone; `dpicl budget` lists accounts"
            )
        state_other_file(account, other_file)
        return
    if share is not None:
        if account is None or cap is not None or delta is not None or as_json:
            raise DpiclError(
                "--share needs an account and stands alone; `dpicl budget` lists accounts"
            )
        change_share(account, share)
        return
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


app.command()(protect)
app.command()(synth)
app.command()(verify)
app.command()(ask)
app.command()(collect)


@app.command()
def plan(
    contract: ContractName,
    rows: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=10**12,
            help="Number of rows, as publicly known. Default: the contract's `population`.",
        ),
    ] = None,
    epsilons: Annotated[
        str, typer.Option(help=f"Privacy parameters of a release, {MANY}.")
    ] = "0.3,1,3",
    signal: Annotated[
        str | None,
        typer.Option(
            help="AUC of a classifier on the raw rows, from public sources; or weak, medium or "
            "strong. Default: all three."
        ),
    ] = None,
    trust: Annotated[
        str | None,
        typer.Option(
            help="Who sees true rows: central, a curator; local, the client alone. Default: both."
        ),
    ] = None,
    fast: Annotated[
        bool,
        typer.Option(
            "--fast",
            help="Seconds instead of a minute: fewer made-up tables, at one signal, of a curator's "
            "methods unless --trust is given.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare the methods for a table, and recommend one. They are simulated on made-up rows: no
    row is read and nothing is charged.
    """
    from dpicl.cli.plan import print_plan

    print_plan(
        Settings.from_environment().contract(contract),
        rows=rows,
        epsilons=epsilons,
        signal=signal,
        trust=trust,
        fast=fast,
        as_json=as_json,
    )


@app.command()
def forecast(as_json: AsJson = False) -> None:
    """Forecast how many scheduled periods each budget lasts. No row is read."""
    from dpicl.cli.plan import print_forecasts

    print_forecasts(as_json=as_json)


contribute(app)


def main() -> None:
    """Entry point: a user's mistake becomes one sentence on standard error and exit code 2."""
    filter_streams()
    try:
        code = app(standalone_mode=False)
    except TyperException as error:
        text = _as_typed(error)
        if "\n" in text:  # the help of a command group without a command
            print(text, file=sys.stderr)
            sys.exit(2)
        _refuse(text)
    except DpiclError as error:
        _refuse(error.told())
    except OSError as error:
        name = Path(str(error.filename)).name if error.filename else ""
        _refuse(f"{name}: {error.strerror}" if name else error.strerror or type(error).__name__)
    if code == INTERRUPTED:
        print(INTERRUPTION, file=sys.stderr)
    sys.exit(code)


def _as_typed(error: TyperException) -> str:
    """What is wrong. An option that a command has not is named as it was typed, not by what it
    means where there is one, and so is the one that was perhaps meant.
    """
    if not hasattr(error, "possibilities"):
        return error.format_message()
    text = error.message
    for name in (
        word.removeprefix("--").partition("=")[0] for word in sys.argv if word.startswith("--")
    ):
        if name in SAME:
            text = re.sub(rf"(No such option: )--{SAME[name]}\b", rf"\g<1>--{name}", text)
    context = getattr(error, "ctx", None)
    known = [option for param in context.command.params for option in param.opts] if context else []
    meant = closest(text.rpartition(" ")[2], known)
    return f"{text}; did you mean {meant}?" if meant else text


def _refuse(sentence: str) -> NoReturn:
    print("dpicl: " + " ".join(sentence.split()), file=sys.stderr)
    sys.exit(2)
