"""The commands of `dpicl` that need Prefect or a server: runs, schedules and metrics.

They are contributed by entry points, which are loaded by every `dpicl` command: packages are looked for here, and imported by the command.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from dpicl.cli.terminal import MANY, PERIOD, console, split_values
from dpicl.engine.settings import Settings
from dpicl.errors import DpiclError

for _package in ("prefect", "prefect_dask", "prometheus_client"):
    if find_spec(_package) is None:
        raise ModuleNotFoundError(f"No module named {_package!r}", name=_package)


def run(
    pipeline: Annotated[str | None, typer.Argument(help="Name of a pipeline; `dpicl list` shows them.")] = None,
    datasets: Annotated[str | None, typer.Option(help=f"Data sets, {MANY}.")] = None,
    methods: Annotated[str | None, typer.Option(help=f"Methods, {MANY}.")] = None,
    epsilons: Annotated[str | None, typer.Option(help=f"Privacy parameters, {MANY}; `inf` for no privacy.")] = None,
    shots: Annotated[str | None, typer.Option(help=f"Numbers of demonstrations, {MANY}.")] = None,
    seeds: Annotated[str | None, typer.Option(help=f"Seeds, {MANY}.")] = None,
    sampling_rates: Annotated[str | None, typer.Option(help=f"Subsampling rates in (0, 1], {MANY}.")] = None,
    queries: Annotated[int | None, typer.Option(min=1, help="Maximum number of held-out rows of a table to query the model with.")] = None,
    model: Annotated[
        str | None, typer.Option(help="A name in pipelines.yaml, a folder, a hub id org/name[@revision], or a server's URL#MODEL.")
    ] = None,
    generator: Annotated[
        str | None, typer.Option(help="The local model that reads private texts and generates demonstrations. Default: --model.")
    ] = None,
    writer: Annotated[str | None, typer.Option(hidden=True, help="Earlier name of --generator.")] = None,
    run_id: Annotated[str | None, typer.Option(help="Name of the run's folder. Default: made from the current time.")] = None,
    resume: Annotated[str | None, typer.Option(help="Resume this run; only missing stages are done.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes of the local cluster. Default: one per core.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what the run would be charged, and run nothing.")] = False,
    period: Annotated[str | None, typer.Option(help=PERIOD)] = None,
) -> None:
    """Run a pipeline and write its report."""
    from dpicl.engine.run_folder import read_plan, run_folder
    from flows.console import run_with_progress

    wanted = {
        "datasets": datasets,
        "methods": methods,
        "epsilons": epsilons,
        "shots": shots,
        "seeds": seeds,
        "sampling_rates": sampling_rates,
    }
    changes: dict[str, Any] = {name: split_values(text) for name, text in wanted.items() if text is not None}
    single = {"queries": queries, "model": model, "generator": generator, "writer": writer}
    changes |= {name: value for name, value in single.items() if value is not None}
    if resume is not None:
        if pipeline or changes or run_id or period:
            raise DpiclError("--resume uses the run's own plan; expected no pipeline and no other option")
        pipeline, run_id = read_plan(run_folder(Settings.from_environment(), resume)).pipeline_name, resume
    if pipeline is None:
        raise DpiclError("which pipeline? `dpicl list` shows them, `dpicl run demo` runs the demo")
    if dry_run:
        from dpicl.cli.budget import print_quotes

        print_quotes(pipeline, changes, period=period)
        return
    folder = run_with_progress(pipeline, changes, run_id, resume=resume is not None, workers=workers, console=console, period=period)
    console.print(f"report: {folder / 'report.html'}", highlight=False, soft_wrap=True)


def serve(
    notify: Annotated[
        str | None, typer.Option(help="A notification block of the server, as type/name, for low budgets, failed checks and stuck runs.")
    ] = None,
) -> None:
    """Serve the pipelines that name no work pool to a Prefect server, as deployments with their schedules."""
    from flows.environment import prepare_environment

    prepare_environment()
    from flows.deployments import serve_pipelines

    serve_pipelines(Settings.from_environment(), console, notify)


def deploy(
    pool: Annotated[
        str | None,
        typer.Option(help="Work pool of pipelines whose schedule names none. Default: leave them to `dpicl serve`."),
    ] = None,
    notify: Annotated[str | None, typer.Option(help="As in `dpicl serve`.")] = None,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("prefect.yaml"),
) -> None:
    """Prepare a Prefect server and write prefect.yaml, from which `prefect deploy --all` deploys to work pools.

    Their workers need this package and the same DPICL_HOME.
    """
    from flows.environment import prepare_environment

    prepare_environment()
    from flows.deployments import prepare_server, write_prefect_file

    pipelines = prepare_server(Settings.from_environment(), console, notify)
    count = write_prefect_file(out, pipelines, pool)
    named = "" if out == Path("prefect.yaml") else f" --prefect-file {out}"
    message = f"{out}: {count} deployments; next: `prefect deploy --all{named}`"
    console.print(message, highlight=False, soft_wrap=True)


def metrics(
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Serve the metrics at this port until interrupted.")] = None,
    host: Annotated[str, typer.Option(help="Address to serve at; any but the local one lets others read the metrics.")] = "127.0.0.1",
) -> None:
    """Print metrics of runs and budgets in the text format of Prometheus, or serve them at /metrics."""
    from dpicl.engine.state_home import check_one_home
    from flows.metrics import print_metrics, serve_metrics

    settings = Settings.from_environment()
    check_one_home(settings.home)
    if port is None:
        print_metrics(settings)
    else:
        serve_metrics(settings, host, port, console)
