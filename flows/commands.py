"""The commands of `dpicl` that need Prefect or a server: schedules and metrics.

They are contributed by entry points, which are loaded by every `dpicl` command: packages are looked
for here, and imported by the command.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from dpicl.cli.terminal import console
from dpicl.ground.nouns import many
from dpicl.home.settings import Settings

for _package in ("prefect", "prefect_dask", "prometheus_client"):
    if find_spec(_package) is None:
        raise ModuleNotFoundError(f"No module named {_package!r}", name=_package)


def serve(
    notify: Annotated[
        str | None,
        typer.Option(
            help="A notification block of the server, as type/name, for low budgets, failed checks "
            "and stuck runs."
        ),
    ] = None,
) -> None:
    """Run scheduled pipelines on a Prefect server. Those that name a work pool are left to
    `dpicl deploy`.
    """
    from flows.environment import prepare_environment

    prepare_environment()
    from flows.deployments import serve_pipelines

    serve_pipelines(Settings.from_environment(), console, notify)


def deploy(
    pool: Annotated[
        str | None,
        typer.Option(
            help="Work pool of pipelines whose schedule names none. Default: leave them to `dpicl "
            "serve`."
        ),
    ] = None,
    notify: Annotated[str | None, typer.Option(help="As in `dpicl serve`.")] = None,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("prefect.yaml"),
) -> None:
    """Prepare a Prefect server and write prefect.yaml. From it, `prefect deploy --all` deploys to
    work pools.

    Their workers need the same clone or image, and the same DPICL_HOME.
    """
    from flows.environment import prepare_environment

    prepare_environment()
    from flows.deployments import prepare_server, warn_of_own_ledgers, write_prefect_file

    settings = Settings.from_environment()
    pipelines = prepare_server(settings, console, notify)
    warn_of_own_ledgers(pipelines, pool, settings, console)
    count = write_prefect_file(out, pipelines, pool, settings)
    named = "" if out == Path("prefect.yaml") else f" --prefect-file {out}"
    message = f"{out}: {many(count, 'deployment')}; next: `prefect deploy --all{named}`"
    console.print(message, highlight=False, soft_wrap=True)


def metrics(
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Serve the metrics at this port until interrupted."),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            help="Address to serve at; any but the local one lets others read the metrics."
        ),
    ] = "127.0.0.1",
) -> None:
    """Print or serve metrics of runs and budgets. They are in the text format of Prometheus, and
    served at /metrics.
    """
    from dpicl.home.settings import check_restored
    from flows.metrics import print_metrics, serve_metrics

    settings = Settings.from_environment()
    check_restored(settings.home)
    if port is None:
        print_metrics(settings)
    else:
        serve_metrics(settings, host, port, console)
