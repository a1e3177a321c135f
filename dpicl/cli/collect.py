"""`dpicl collect`: clients' reports are counted, and rows or demonstrations made of them; reads no
private row and charges nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from dpicl.cli.options import AsJson, ContractName
from dpicl.cli.terminal import counted, errors, note, say, say_json, stoppable
from dpicl.ground.errors import DpiclError, ParameterError
from dpicl.home.settings import Settings

if TYPE_CHECKING:
    from dpicl.ground.types import Estimator

_AS_AT_CLIENTS = "As the clients were told."
_Reports = Annotated[
    str,
    typer.Argument(
        help="A folder of files of reports, one such file (.jsonl, .ndjson, .gz of either, "
        ".parquet), or an address s3://…."
    ),
]
_Epsilon = Annotated[
    float, typer.Option(help=f"Privacy parameter of a client's answer. {_AS_AT_CLIENTS}")
]
_Out = Annotated[
    Path | None,
    typer.Option(
        help="The new file to write: rows (.csv, .parquet) or demonstrations (any other). Left "
        "out, reports are only counted."
    ),
]
_Rows = Annotated[int, typer.Option(min=1, max=10_000_000, help="Number of rows.")]
_Shots = Annotated[int, typer.Option(min=1, max=10_000, help="Number of demonstrations.")]
_Form = Annotated[
    str,
    typer.Option(
        "--as",
        help="Of demonstrations: jsonl (text and answer), text, chat (messages), alpaca or "
        "sharegpt.",
    ),
]
_Design = Annotated[
    str,
    typer.Option(
        help=f"Which columns a client reports: one-column, pairs, subset or agreement. "
        f"{_AS_AT_CLIENTS}"
    ),
]
_Columns = Annotated[
    int | None, typer.Option(help=f"With subset: number of columns in a report. {_AS_AT_CLIENTS}")
]
_About = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME", help=f"An attribute that is asked for; may be repeated. {_AS_AT_CLIENTS}"
    ),
]
_LabelAlone = Annotated[
    bool,
    typer.Option(
        "--label-alone",
        help=f"About one client in eight is asked for the label alone. {_AS_AT_CLIENTS}",
    ),
]
_SendingEpsilon = Annotated[
    float | None,
    typer.Option(
        help=f"Privacy parameter of one sending, where clients add noise anew for each period. "
        f"{_AS_AT_CLIENTS}"
    ),
]
_Period = Annotated[
    str,
    typer.Option(
        help="The period whose reports are counted, such as 2026-12-01; reports for earlier "
        "ones count as late."
    ),
]
_Close = Annotated[
    Path | None,
    typer.Option(
        help="Close the period: its counts are written to this file, once, and are final; "
        "reports that come later count as late."
    ),
]
_Estimator = Annotated[
    str | None,
    typer.Option(
        help="How rows are estimated from the counts: log-linear, em or tree. Default: by "
        "the number of cells."
    ),
]


@stoppable
def collect(
    contract: ContractName,
    reports: _Reports,
    epsilon: _Epsilon,
    out: _Out = None,
    rows: _Rows = 10_000,
    shots: _Shots = 4,
    form: _Form = "jsonl",
    design: _Design = "subset",
    columns: _Columns = None,
    about: _About = None,
    label_alone: _LabelAlone = False,
    sending_epsilon: _SendingEpsilon = None,
    period: _Period = "once",
    close: _Close = None,
    estimator: _Estimator = None,
    as_json: AsJson = False,
) -> None:
    """Make rows or demonstrations of clients' reports. Nothing is charged here: each client's own
    wallet paid.
    """
    from dpicl.cli.ask import without_pandas
    from dpicl.contract.periods import read_period
    from dpicl.methods.collection import Collection
    from dpicl.release.collected import collect as collected
    from dpicl.release.collected import count_collection
    from dpicl.release.demonstrations import FORMS
    from dpicl.release.release import TABLE_FORMS

    if out is not None:
        if os.path.lexists(out) or not out.parent.is_dir():
            raise ParameterError("out", out.name, "a new file in a folder that is there")
        form = out.suffix.removeprefix(".") if out.suffix.removeprefix(".") in TABLE_FORMS else form
        if form not in (*FORMS, *TABLE_FORMS):
            raise DpiclError(f"as={form[:40]}: expected one of {', '.join(FORMS)}")
    without_pandas()
    settings = Settings.from_environment()
    collection = Collection.of(
        settings.contract(contract),
        epsilon=epsilon,
        design=design,
        columns=columns,
        about=about or (),
        label_alone=label_alone,
        sending_epsilon=sending_epsilon,
        estimator=cast("Estimator | None", estimator),  # which the collection checks
    )
    with counted("reading", "files") as count:
        counts = count_collection(
            collection, reports, read_period(period), close=close, progress=count.update
        )
        release = collected(collection, counts, settings, shots)
    what = (
        ()
        if out is None
        else (
            f"{out.name}: {release.write(out, form, rows if form in TABLE_FORMS else None)}",
            release.statement,
        )
    )
    if as_json:
        note(*what, to=errors)
        say_json(release.received)
    elif what:
        note(*what, *release.caveats)
    else:
        say(str(release.received))
