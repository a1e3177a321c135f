"""`dpicl run`: plan a pipeline's grid, do it by an executor, and say where the report is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from dpicl.cli import options
from dpicl.cli.options import (
    MANY,
    Anyway,
    AsJson,
    DryRun,
    Embedder,
    ModelApi,
    ModelDtype,
    Period,
    PricesAsJson,
    ReportsPlace,
    Window,
    named_model,
    typed_place,
)
from dpicl.cli.terminal import note, refuse_all, say, show, typed_values, waiting
from dpicl.ground.errors import DeclarationError, DpiclError
from dpicl.home.settings import SHIPPED_PIPELINES, Settings

if TYPE_CHECKING:
    from dpicl.release.pipelines import Pipelines

_Pipeline = Annotated[
    str | None,
    typer.Argument(
        help="Name of a pipeline; `dpicl list` shows them. With --resume it is left out: a run has "
        "its own.",
        autocompletion=options.pipelines,
    ),
]
_Model = Annotated[
    str | None,
    typer.Option(
        help="`smollm2`, a name in pipelines.yaml, a folder, a GGUF file, a hub id "
        "org/name[@revision], or a server's URL#MODEL.",
        autocompletion=options.models,
    ),
]
_Generator = Annotated[
    str | None,
    typer.Option(
        help="The local model that reads private texts and generates demonstrations. Default: "
        "--model.",
        autocompletion=options.models,
    ),
]

_Executor = Annotated[
    str | None,
    typer.Option(
        help="`pool`: worker processes alone; `prefect`: tasks of Prefect on Dask. Default: "
        "prefect where it is installed, else pool."
    ),
]

_Datasets = Annotated[
    str | None,
    typer.Option(
        help=f"Data sets, by the names of their contracts, {MANY}.",
        autocompletion=options.many_contracts,
    ),
]
_Draws = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Number of times that each query is asked, each with demonstrations drawn anew "
        "from what is released; the answers are averaged. Default: 4 where that costs "
        "nothing, else 1.",
    ),
]

_Within = Annotated[
    float | None,
    typer.Option(
        metavar="HOURS",
        help="On benchmarks: start no further seed of a data set once the run, all its "
        "sittings together, has taken this many hours.",
    ),
]


def run(
    pipeline: _Pipeline = None,
    datasets: _Datasets = None,
    methods: Annotated[
        str | None, typer.Option(help=f"Methods, {MANY}.", autocompletion=options.many_methods)
    ] = None,
    epsilons: Annotated[
        str | None, typer.Option(help=f"Privacy parameters, {MANY}; `inf` for no privacy.")
    ] = None,
    shots: Annotated[str | None, typer.Option(help=f"Numbers of demonstrations, {MANY}.")] = None,
    seeds: Annotated[str | None, typer.Option(help=f"Seeds, {MANY}.")] = None,
    sampling_rates: Annotated[
        str | None, typer.Option(metavar="RATES", help=f"Subsampling rates in (0, 1], {MANY}.")
    ] = None,
    queries: Annotated[
        int | None,
        typer.Option(
            min=1, help="Maximum number of held-out rows or texts to query the model with."
        ),
    ] = None,
    draws: _Draws = None,
    model: _Model = None,
    dtype: ModelDtype = None,
    api: ModelApi = None,
    generator: _Generator = None,
    embedder: Embedder = None,
    run_id: Annotated[
        str | None,
        typer.Option(
            metavar="RUN", help="Name of the new run. Default: the pipeline's name and the time."
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Resume this run: only what is missing is done.",
            autocompletion=options.runs,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of worker processes on this machine. Default: one per core."
        ),
    ] = None,
    dry_run: DryRun = False,
    as_json: PricesAsJson = False,
    period: Period = None,
    window: Window = None,
    within_hours: _Within = None,
    reports: ReportsPlace = None,
    anyway: Anyway = False,
    executor: _Executor = None,
) -> None:
    """Run a pipeline and write its report."""
    from dpicl.cli.executors import executor_named
    from dpicl.runs.run_folder import read_plan, run_folder

    lists = {
        "datasets": datasets,
        "methods": methods,
        "epsilons": epsilons,
        "shots": shots,
        "seeds": seeds,
        "sampling_rates": sampling_rates,
    }
    stated = {name: text and typed_values(text) for name, text in lists.items()} | {
        "queries": queries,
        "draws": draws,
        "within_hours": within_hours,
        "window": window,
        "generator": generator,
        "model": named_model(model, dtype, api),
        "embedder": embedder,
        "anyway": anyway or None,
        "reports": typed_place(reports),
    }
    changes = {name: value for name, value in stated.items() if value is not None}
    if as_json and not dry_run:
        raise DpiclError(
            "--json needs --dry-run: what a run came to stands in its folder, in manifest.json "
            "and results.csv"
        )
    if resume is not None:
        if pipeline or changes or run_id or period:
            raise DpiclError(
                "--resume uses the run's own plan; expected no pipeline and no other option"
            )
        pipeline = read_plan(run_folder(Settings.from_environment(), resume)).pipeline_name
        run_id = resume
    if pipeline is None:
        raise DpiclError("which pipeline? `dpicl list` shows them, `dpicl run demo` runs the demo")
    with waiting("starting"):
        execute = executor_named(executor)
    with Settings.from_environment().entered():
        if dry_run:
            from dpicl.cli.planned_run import print_dry_run

            print_dry_run(
                pipeline, changes, run_id, resume=resume is not None, period=period, as_json=as_json
            )
            return
        from dpicl.cli.planned_run import do_run, story_of

        folder = do_run(
            pipeline,
            changes,
            run_id,
            execute,
            resume=resume is not None,
            workers=workers,
            period=period,
        )
    note(*story_of(folder))
    say(f"report: {folder / 'report.html'}")


def own_entries(file: str, own: Pipelines) -> Iterator[str]:
    """Which pipelines and models are of the user's file, and which of them stand in the place of
    shipped ones.
    """
    from dpicl.release.pipelines import load_pipelines

    shipped = load_pipelines(SHIPPED_PIPELINES)
    names = [*own.pipelines, *(f"model {name}" for name in own.models)]
    yield f"of your {file}: {', '.join(names) or 'nothing'}; all others are shipped"
    for kind, yours, theirs in (
        ("pipeline", own.pipelines, shipped.pipelines),
        ("model", own.models, shipped.models),
    ):
        for name, entry in yours.items():
            if name in theirs and entry != theirs[name]:
                yield f"{name}: your own {kind} stands in the place of the shipped one"


def list_pipelines(as_json: AsJson = False) -> None:
    """List pipelines and models, and what they need."""
    from dpicl.cli.answers import Listing
    from dpicl.contract.base import IN_FULL
    from dpicl.models.local.gguf_file import PACKAGED
    from dpicl.release.pipelines import Pipeline, declared_pipelines, load_pipelines

    settings = Settings.from_environment()
    try:
        declared = declared_pipelines(settings)
    except DeclarationError as error:
        refuse_all(error.problems or (error,))
    own = load_pipelines(settings.pipelines) if settings.own_pipelines else None
    apart = [key for key, field in Pipeline.model_fields.items() if field.exclude]
    pipelines = [
        {"name": name, **pipeline.model_dump(mode="json", context=IN_FULL)}
        | {key: getattr(pipeline, key) for key in apart}
        | {"is_own": own is not None and name in own.pipelines}
        for name, pipeline in declared.pipelines.items()
    ]
    listing = Listing(pipelines, list(dict.fromkeys([*declared.models, *PACKAGED])))
    show(listing, listing.lines(), as_json=as_json)
    if not as_json:
        if own is not None:
            say(*own_entries(settings.pipelines.name, own))
        note(
            "`dpicl data fetch NAME` downloads a table, texts are put below DPICL_DATA; `dpicl "
            "data list` shows what is here"
        )
