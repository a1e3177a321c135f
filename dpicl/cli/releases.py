"""The commands that release something, or say what is known from it: `protect`, `synth`, `ask`,
`series`.
"""

from __future__ import annotations

import gc
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpicl.cli import options
from dpicl.cli.options import (
    Aggregation,
    AnsweringModel,
    Anyway,
    ContractName,
    DryRun,
    Embedder,
    Epsilon,
    Method,
    MethodOptions,
    ModelApi,
    ModelDtype,
    Participations,
    Period,
    PricesAsJson,
    Similarity,
    TextContract,
    Trust,
    Window,
    named_model,
)
from dpicl.cli.terminal import check_state, errors, say, stoppable
from dpicl.ground.errors import DpiclError, ParameterError
from dpicl.home.settings import Settings

if TYPE_CHECKING:
    from dpicl.cli.ask import Files
    from dpicl.release.request import ReleaseRequest

_Calibrate = Annotated[
    bool | None,
    typer.Option(
        help="Contextual calibration: correct each prompt's answer by what the model says to "
        "queries without content after the same rows. Default: as the contract says."
    ),
]
_Shots = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=512,
        help="Number of private rows in a prompt, by default 4; with --demos, number of "
        "demonstrations in a prompt, drawn at random, by default all.",
    ),
]
_Draws = Annotated[
    int,
    typer.Option(
        min=1,
        max=64,
        help="With --demos and --shots: number of times that each query is asked, each with "
        "demonstrations drawn anew; the answers are averaged.",
    ),
]
Quality = Annotated[
    Path | None,
    typer.Option(help="A new file for a page on how good the release is; costs nothing."),
]
Card = Annotated[
    bool,
    typer.Option(
        "--card",
        help="Write README.md, a dataset card of Hugging Face, and croissant.json beside the file.",
    ),
]


@stoppable
def protect(
    contract: ContractName,
    out: Annotated[
        Path | None, typer.Option(help="The new file to write; required unless --dry-run is given.")
    ] = None,
    method: Method = None,
    trust: Trust = "central",
    epsilon: Epsilon = "1",
    shots: Annotated[
        int,
        typer.Option(
            "--shots",
            "--texts",
            min=1,
            max=10_000,
            help="Number of demonstrations; of a set of texts, number of texts.",
        ),
    ] = 4,
    form: Annotated[
        str,
        typer.Option(
            "--as",
            help="jsonl (text and answer), text, chat (messages), alpaca or sharegpt; or csv or "
            "parquet, for 10,000 rows or for all texts.",
        ),
    ] = "jsonl",
    option: MethodOptions = None,
    anyway: Anyway = False,
    period: Period = None,
    window: Window = None,
    generator: Annotated[
        str | None,
        typer.Option(
            help="For texts: the local model that reads the private texts and writes new ones. "
            "Default: none, and only what was released before is exported.",
            autocompletion=options.models,
        ),
    ] = None,
    quality: Quality = None,
    card: Card = False,
    dry_run: DryRun = False,
    as_json: PricesAsJson = False,
) -> None:
    """Release demonstrations of a table or a set of texts to a file. Repeating it in the same
    period is free and gives the same bytes.

    A table needs no model. Texts are written by --generator, all charged before the first token; a
    command that was killed goes on when repeated.
    """
    gc.disable()  # a release ends before what it leaves is worth looking for
    from dpicl.cli.ask import Files, chosen_options
    from dpicl.contract.pipeline import read_epsilon
    from dpicl.release.request import ReleaseRequest

    request = ReleaseRequest(
        dataset=contract,
        epsilon=read_epsilon(epsilon),
        method=method,
        trust=trust,
        shots=shots,
        options=chosen_options(option or ()),
        period=period,
        anyway=anyway,
        generator=generator,
        window=window,
    )
    _release(request, Files(out, form, quality=quality, card=card), dry_run, as_json)


@stoppable
def synth(
    contract: ContractName,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The new file to write, .parquet or .csv; required unless --dry-run is given."
        ),
    ] = None,
    rows: Annotated[int, typer.Option(min=1, max=10_000_000, help="Number of rows.")] = 10_000,
    method: Method = None,
    trust: Trust = "central",
    epsilon: Epsilon = "1",
    option: MethodOptions = None,
    anyway: Anyway = False,
    period: Period = None,
    window: Window = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="What all rows have (repeatable): city=north, city='north|east', age=18..30, "
            "came=2026-01-01.., or age= for a missing value. Costs nothing.",
        ),
    ] = None,
    quality: Quality = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="A new file, .png, .svg or .pdf, for a picture of the released columns and of "
            "pairs of them, with error bars; costs nothing."
        ),
    ] = None,
    card: Card = False,
    dry_run: DryRun = False,
    as_json: PricesAsJson = False,
) -> None:
    """Release synthetic rows of a table to a file. Any number of rows costs the same, and repeating
    it is free.
    """
    if out is not None and out.suffix not in (".csv", ".parquet"):
        raise DpiclError(f"out={out.name}: expected a name that ends in .parquet or .csv")
    form = "parquet" if out is None else out.suffix.removeprefix(".")
    gc.disable()  # a release ends before what it leaves is worth looking for
    from dpicl.cli.ask import Files, chosen_options
    from dpicl.contract.pipeline import read_epsilon
    from dpicl.release.request import ReleaseRequest

    request = ReleaseRequest(
        dataset=contract,
        epsilon=read_epsilon(epsilon),
        method=method,
        trust=trust,
        options=chosen_options(option or ()),
        period=period,
        anyway=anyway,
        window=window,
    )
    files = Files(out, form, rows, tuple(where or ()), quality, plot, card)
    _release(request, files, dry_run, as_json)


def _release(request: ReleaseRequest, files: Files, dry_run: bool, as_json: bool) -> None:
    if as_json and not dry_run:
        raise DpiclError(
            "--json needs --dry-run: what a release came to stands in its certificate, beside the "
            "file"
        )
    if files.out is None and not dry_run:
        raise DpiclError(
            "a release goes to a new file; expected --out FILE, or --dry-run, which says what it "
            "would cost"
        )
    from dpicl.cli.ask import print_price, release_to_file, without_pandas
    from dpicl.ground.errors import StageFailed, clean_errors

    def do() -> None:
        if dry_run:
            print_price(request, files, as_json=as_json)
        else:
            release_to_file(request, files)

    try:
        without_pandas()
        check_state()
        clean_errors("protect", do)()
    except StageFailed as error:
        say(f"dpicl: {error}; repeating the command is not charged again", to=errors)
        raise typer.Exit(1) from None
    finally:
        gc.enable()


_OF_DEMOS = ("query", "queries", "demos", "shots", "draws", "model", "dtype", "api")
"""Options of an answer by demonstrations."""


@stoppable
def ask(
    context: typer.Context,
    query: Annotated[str | None, typer.Argument(help="A query.")] = None,
    contract: TextContract = "docstrings",
    queries: Annotated[
        str | None,
        typer.Option(
            help="A file with one query a line; with --demos, of rows in CSV or .jsonl. `-` is "
            "standard input."
        ),
    ] = None,
    demos: Annotated[
        Path | None,
        typer.Option(help="Answer rows with these demonstrations of `dpicl protect`, at no cost."),
    ] = None,
    epsilon: Annotated[
        str, typer.Option(help="Privacy parameter of all --count queries together.")
    ] = "1",
    count: Annotated[
        int,
        typer.Option(
            min=1, max=100_000, help="Number of queries that are charged at once, before the first."
        ),
    ] = 100,
    shots: _Shots = None,
    draws: _Draws = 1,
    model: AnsweringModel = None,
    dtype: ModelDtype = None,
    api: ModelApi = None,
    aggregation: Aggregation = None,
    embedder: Embedder = None,
    subsets: Annotated[
        int | None,
        typer.Option(help="Number of prompts (voters) for each query. Default: the contract's."),
    ] = None,
    similarity: Similarity = None,
    participations: Participations = None,
    calibrate: _Calibrate = None,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Charge another --count queries when the current ones are used up."
        ),
    ] = False,
    period: Period = None,
) -> None:
    """Answer queries from private texts, or rows by demonstrations.

    Texts are charged once for each --count queries, demonstrations cost nothing, and a repeated
    query is free.
    """
    from dpicl.cli.ask import answer_queries, answer_rows, read_queries
    from dpicl.contract.pipeline import read_epsilon
    from dpicl.ground.errors import StageFailed, clean_errors
    from dpicl.release.query_session import request_of

    settings = Settings.from_environment()
    model = named_model(model, dtype, api)
    if demos is not None:
        if query is not None or queries is None or model is None:
            missing = ["--queries (`-` for standard input)"] * (queries is None)
            missing += ["--model"] * (model is None)
            typed = ", and a typed query is no row" * (query is not None)
            raise DpiclError(
                f"--demos answers rows of a file by a model{typed}; "
                f"expected {' and '.join(missing) or 'no typed query'}"
            )
        if unasked := [
            f"--{name.replace('_', '-')}"
            for name in context.params
            if name not in _OF_DEMOS
            and str(context.get_parameter_source(name)).endswith("COMMANDLINE")
        ]:
            raise DpiclError(
                f"{', '.join(unasked)}: only for private texts, and --demos answers rows by what "
                f"was released; expected no such option"
            )
        answer = partial(
            clean_errors("ask", answer_rows),
            demos,
            queries,
            model,
            settings,
            shots=shots,
            draws=draws,
        )
    elif draws > 1:
        raise DpiclError(
            "--draws draws from released demonstrations; expected --demos: another draw of "
            "private rows would be charged"
        )
    else:
        texts = read_queries(query, queries)
        options = {"aggregation": aggregation, "subsets": subsets, "similarity": similarity}
        options |= {"participations": participations, "calibrate": calibrate}
        request = request_of(
            contract,
            epsilon=read_epsilon(epsilon),
            shots=shots or 4,
            count=count,
            model=model,
            options=options,
            settings=settings,
            period=period,
            embedder=embedder,
        )
        answer = partial(clean_errors("ask", answer_queries), request, texts, settings, again=again)
    try:
        answer()
    except StageFailed as error:
        say(f"dpicl: {error}", to=errors)
        raise typer.Exit(1) from None


def series(
    contract: ContractName,
    out: Annotated[Path, typer.Option(help="The new file to write, a page of HTML.")],
    epsilon: Epsilon = "1",
    method: Annotated[
        str | None,
        typer.Option(
            help="The method that counts the horizon. Default: the one whose rows `dpicl synth` "
            "releases.",
            autocompletion=options.methods,
        ),
    ] = None,
    shots: Annotated[
        int,
        typer.Option(
            min=1, help="Number of demonstrations, for a method that has a horizon for each number."
        ),
    ] = 4,
    option: MethodOptions = None,
    window: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of last periods whose quality is shown by itself, beside that of the "
            "periods before.",
        ),
    ] = 30,
) -> None:
    """Write a page about all periods of a series. It shows how good the rows or averages of each
    period are, the budget, how many rows came, with their noise, and which columns drift. No
    private row is read.
    """
    from dpicl.cli.ask import chosen_options
    from dpicl.contract.pipeline import read_epsilon
    from dpicl.ground.files import write_text
    from dpicl.release.request import ReleaseRequest
    from dpicl.report.quality import series_facts, series_page

    if os.path.lexists(out) or not out.parent.is_dir():
        raise ParameterError("out", out.name, "a new file in a folder that is there")
    settings = Settings.from_environment()
    request = ReleaseRequest(
        dataset=contract,
        epsilon=read_epsilon(epsilon),
        method=method,
        shots=shots,
        options=chosen_options(option or ()),
    )
    facts = series_facts(request, settings, window=window)
    write_text(out, series_page(facts))
    say(f"{out.name}: {len(facts.rows)} of {facts.series.periods} periods")
