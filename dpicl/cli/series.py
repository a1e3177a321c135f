"""`dpicl series`: a page over all released periods of a table with a horizon; reads no private row
and charges nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from dpicl.cli import names
from dpicl.cli.options import ContractName, Epsilon, MethodOptions
from dpicl.cli.terminal import say
from dpicl.engine.settings import Settings
from dpicl.errors import ParameterError


def series(
    contract: ContractName,
    out: Annotated[Path, typer.Option(help="The new file to write, a page of HTML.")],
    epsilon: Epsilon = "1",
    method: Annotated[
        str | None,
        typer.Option(
            help="The method that counts the horizon. Default: the one whose rows `dpicl synth` "
            "releases.",
            autocompletion=names.methods,
        ),
    ] = None,
    shots: Annotated[
        int,
        typer.Option(
            min=1, help="Number of demonstrations, where each number is a horizon of its own."
        ),
    ] = 4,
    option: MethodOptions = None,
    window: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of last periods that are judged by themselves, and compared with those "
            "before.",
        ),
    ] = 30,
) -> None:
    """Write a page over all periods of a series. It has how good each period's rows or averages
    are, the budget, rows with their noise, and which columns drift; no private row is read.
    """
    from dpicl.cli.protect import chosen_options
    from dpicl.engine.files import write_text
    from dpicl.engine.request import ReleaseRequest
    from dpicl.pipeline import read_epsilon
    from dpicl.report.series import series_facts, series_page

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
    say(f"{out.name}: {len(facts.rows)} of {facts.periods} periods")
