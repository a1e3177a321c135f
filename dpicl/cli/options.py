"""Arguments and options that several commands take: one word for one thing, with what it means and
what completes it.

An option is plural where it takes several values, as the keys of pipelines.yaml are. `SAME` makes
the other number mean the same, without a place in the help.

Names that a shell completes: read from folders and files as they are, at once, with nothing checked
and nothing made.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from dpicl.ground.errors import DpiclError, ParameterError
from dpicl.ground.installed import contributed
from dpicl.home.settings import LEDGER, SHIPPED_PIPELINES, Settings

_OPENED = """SELECT json_extract(content, '$.name') FROM records WHERE kind = 'opened'
UNION SELECT key FROM records, json_each(content, '$.accounts') WHERE kind = 'adopted'"""


def _declared(part: str) -> dict[str, Any]:
    """A part of pipelines.yaml, the user's and the shipped one, whatever is wrong with the
    others.
    """
    import yaml

    files = SHIPPED_PIPELINES, Settings.from_environment().pipelines
    parts = (yaml.safe_load(file.read_bytes()).get(part, {}) for file in files)
    return {name: entry for entries in parts for name, entry in entries.items()}


def _accounts() -> list[str]:
    """Of a ledger in a file; one on a server is not asked."""
    with closing(
        sqlite3.connect(
            f"{(Settings.from_environment().home / LEDGER).as_uri()}?mode=ro&immutable=1", uri=True
        )
    ) as ledger:
        return [name for (name,) in ledger.execute(_OPENED)]


def _methods() -> set[str]:
    """Of pipelines.yaml, and of other packages."""
    used = {
        name for pipeline in _declared("pipelines").values() for name in pipeline.get("methods", ())
    }
    return used | contributed("dpicl.methods").names


def _models() -> list[str]:
    from dpicl.models.local.gguf_file import PACKAGED

    return [*_declared("models"), *PACKAGED]


def _completing(
    names: Callable[[], Iterable[str]], *, many: bool = False
) -> Callable[[str], list[str]]:
    """What completes a name, or the last of several with commas between them; nothing where the
    names cannot be read.
    """

    def complete(incomplete: str) -> list[str]:
        before, comma, _ = incomplete.rpartition(",") if many else ("", "", "")
        with suppress(Exception):  # whatever is wrong is said by the command itself
            return sorted(before + comma + name for name in set(names()) - set(before.split(",")))
        return []

    return complete


def _contracts() -> list[str]:
    return [
        *Settings.from_environment().contract_names(),
        *Settings.from_environment().text_names(),
    ]


accounts = _completing(_accounts)
contracts = _completing(_contracts)
many_contracts = _completing(_contracts, many=True)
methods = _completing(_methods)
many_methods = _completing(_methods, many=True)
models = _completing(_models)
pipelines = _completing(lambda: _declared("pipelines"))
runs = _completing(
    lambda: (
        folder.parent.name for folder in Settings.from_environment().runs.glob("[!.]*/plan.json")
    )
)
SAME = {
    "account": "contract",
    **{
        name: f"{name}s"
        for name in ("dataset", "epsilon", "method", "option", "sampling-rate", "seed")
    },
}
"""Names of options by other ones; in a command whose option is called as the other one is, both are
that option.
"""
MANY = "comma-separated"
ContractName = Annotated[
    str,
    typer.Argument(
        help="Name of a contract; `dpicl data list` shows them.", autocompletion=contracts
    ),
]
Method = Annotated[
    str | None,
    typer.Option(
        help="A method for tables. Default: aim_tabicl, or ldp_tabicl with --trust local.",
        autocompletion=methods,
    ),
]
Trust = Annotated[
    str, typer.Option(help="Who sees true rows: central, a curator; local, the client alone.")
]
Epsilon = Annotated[str, typer.Option(help="Privacy parameter of the release.")]
MethodOptions = Annotated[
    list[str] | None,
    typer.Option("--option", help="An option of the method, NAME=VALUE; may be repeated."),
]
Anyway = Annotated[
    bool,
    typer.Option(
        "--anyway",
        help="Make the release even where it would be little but noise at the contract's "
        "population.",
    ),
]
Period = Annotated[
    str | None,
    typer.Option(
        help="Make a new release for this period, such as 2026-12 or once. Default: the contract's "
        "current period."
    ),
]
Window = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="For a table with a horizon: use only its last periods, this many. Default: all.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Make all checks that come before a row is read, print what would be charged, and "
        "stop.",
    ),
]
PricesAsJson = Annotated[
    bool, typer.Option("--json", help="With --dry-run: print JSON in place of a table.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON in place of a table.")]
ModelDtype = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        help="Type of --model's weights: auto, float32, tf32, bfloat16 or float16. Default: the "
        "checkpoint's own.",
    ),
]
Embedder = Annotated[
    str | None,
    typer.Option(
        help="The encoder that measures how similar texts are: a folder or hub id of a "
        "sentence encoder, or an endpoint's entry. Default: hashed n-grams.",
        autocompletion=models,
    ),
]
TextContract = Annotated[
    str,
    typer.Option(help="Name of the contract whose private texts answer.", autocompletion=contracts),
]
AnsweringModel = Annotated[
    str | None,
    typer.Option(
        help="The model that answers; required unless the rows are a benchmark's. It is "
        "shown private rows, and must be trusted with them (`trust: local`); with "
        "--demos it sees released ones, and any model will do. A model on this machine, `bundled` "
        "too, needs torch: `pip install './dpicl[local]'`; a server needs none.",
        autocompletion=models,
    ),
]
Aggregation = Annotated[
    str | None,
    typer.Option(
        help="How the ensemble's answers are combined. Default: votes where the contract lists "
        "labels, else embedding."
    ),
]
Similarity = Annotated[
    float | None,
    typer.Option(
        help="Put into prompts only texts whose cosine similarity to the query, by "
        "--embedder, is at least this. Default: a random sample of all texts."
    ),
]
Participations = Annotated[
    int | None,
    typer.Option(
        help="With --similarity: maximum number of queries that one text is used for. Default: 8."
    ),
]
ModelApi = Annotated[
    str | None,
    typer.Option(
        "--api",
        help="How --model is queried: completions, or chat with its chat template. Default: "
        "of a local model with a template what does no worse on public questions, else "
        "completions.",
    ),
]
ReportsPlace = Annotated[
    str | None,
    typer.Option(
        "--reports",
        metavar="PLACE",
        help="Count clients' reports, in a folder, a file or at an address s3://…, in place "
        "of rows; no account is charged.",
    ),
]


def named_model(model: str | None, dtype: str | None, api: str | None) -> str | None:
    """The model's name with what `--dtype` and `--api` say of it. Raises DpiclError: they say it of
    none.
    """
    if model is None and (dtype is not None or api is not None):
        raise DpiclError(
            "--dtype and --api say how --model is loaded and queried; expected --model"
        )
    from dpicl.models.spec import with_changes

    return None if model is None else with_changes(model, dtype, api)


def typed_place(typed: str | None) -> str | None:
    """A path that begins at the working directory, as one that begins nowhere else; an address of a
    store as it is. Raises ParameterError: it is empty, which would be the whole directory.
    """
    from dpicl.ground.objects import SCHEME

    if typed is not None and not typed.strip():
        raise ParameterError("reports", repr(typed[:40]), "a folder, a file or an address s3://…")
    return typed if typed is None or typed.startswith(SCHEME) else str(Path(typed).resolve())
