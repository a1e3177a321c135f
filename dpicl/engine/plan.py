"""Planning: a pipeline's name and a user's changes become the plan of a run folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

from dpicl.contract import Contract, Declared, TextContract
from dpicl.contract.periods import ONCE, clock, read_period
from dpicl.contract.series import window_places
from dpicl.engine.admission import (
    check_drawn,
    check_named,
    check_source,
    check_window,
    check_writer,
    period_of,
)
from dpicl.engine.files import write_json
from dpicl.engine.pipelines import Pipeline, find_pipeline, load_pipelines, override, registry
from dpicl.engine.plan_asked import ASKED, as_begun, settled_plan
from dpicl.engine.quote import check_quotes
from dpicl.engine.received import as_received, check_reports, counting
from dpicl.engine.run_folder import (
    Plan,
    check_stored,
    check_versions,
    pin_contracts,
    read_plan,
    run_folder,
    write_plan,
)
from dpicl.engine.run_quote import quote_plan
from dpicl.engine.running_time import check_within
from dpicl.engine.settings import Settings
from dpicl.errors import (
    ModelRefusedError,
    ParameterError,
    PrivacyError,
)
from dpicl.lm.egress import check_egress
from dpicl.lm.embedding import check_embedder
from dpicl.lm.models import close_scorers
from dpicl.lm.spec import ModelSpec, resolve_model
from dpicl.methods import METHODS
from dpicl.methods.row_contexts import check_rows
from dpicl.methods.text_method import TextMethod
from dpicl.pipeline import Unit
from dpicl.tabular.prompts.shots import MOST_SHOTS
from dpicl.tabular.reading.queries import load_queries

USUAL_DRAWS = 4
"""How often each query is asked where that is free and nobody says another number."""


def make_plan(
    pipeline_name: str,
    changes: Mapping[str, Any],
    run_id: str | None,
    *,
    resume: bool = False,
    period: str | None = None,
    when: datetime | None = None,
) -> Path:
    """Check everything that can be checked before any private byte is read, and write the plan;
    returns the run's folder.

    The arguments are those of `plan_for`. Raises DpiclError: a name, value or file breaks a rule;
    nothing was written.
    """
    settings = Settings.current()
    plan = plan_for(
        pipeline_name, changes, settings, run_id, resume=resume, period=period, when=when
    )
    settings = plan.settings(settings)
    folder = run_folder(settings, plan.run_id) if resume else begin(plan, settings)
    pin_contracts(folder, plan, settings)
    return folder


def plan_for(
    pipeline_name: str,
    changes: Mapping[Any, Any],
    settings: Settings,
    run_id: str | None = None,
    *,
    resume: bool = False,
    period: str | None = None,
    when: datetime | None = None,
) -> Plan:
    """The plan of a run that goes on or begins now; one that begins is not checked yet, see
    `check_plan`.

    Args:
        changes: fields of the pipeline that replace the file's.
        run_id: folder name of the run; made from the pipeline and the time if None.
        resume: go on with the run `run_id` and its own plan, periods included.
        period, when: as `periods_of` takes them.
    """
    _ = settings.power_watts  # refused before anything is done, if it is no number
    if resume and run_id is not None:
        folder = run_folder(settings, run_id)
        plan = read_plan(folder)
        check_versions(folder, plan)
        return plan
    name = run_id or f"{pipeline_name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    return as_begun(
        draft_plan(pipeline_name, changes, settings, name, period=period, when=when), settings
    )


def begin(plan: Plan, settings: Settings) -> Path:
    """Check a plan as `check_plan` and `check_caps` do, decide how its models are asked, and write
    it, where no rule is broken; returns the run's folder.
    """
    check_plan(plan, settings)
    plan, asked = settled_plan(plan, settings)
    check_caps(plan, settings)
    folder = run_folder(settings, plan.run_id)
    settings.make_runs()
    if asked:
        write_json(folder / ASKED, {name: asdict(one) for name, one in asked.items()}, replace=True)
        close_scorers()  # workers are about to open them
    write_plan(folder, plan)
    return folder


def check_plan(plan: Plan, settings: Settings) -> None:
    """What a run refuses before it reads a row, and a dry run and a quote with it: contracts,
    methods, models, sources, public queries.

    Whether the account can pay is left to `check_caps`, and whether the model answers to the stage
    `probe`.
    """
    check_stored(run_folder(settings, plan.run_id), plan)
    check_within(plan, settings)
    for name in plan.pipeline.datasets:
        contract = settings.declared(name)
        for unit in (unit for unit in plan.units.values() if unit.dataset == name):
            _check_unit(plan.contract_of(unit, contract), unit, plan)
    for name in dict.fromkeys(unit.dataset for unit in plan.units.values()):
        contract = settings.declared(name)
        if plan.pipeline.reports is None:
            check_source(contract, settings)
        elif isinstance(contract, Contract):
            check_reports(plan.pipeline.reports, plan, contract, settings)
            load_queries(contract, data_folder=settings.data)


def check_caps(plan: Plan, settings: Settings) -> None:
    """Refuse a plan whose new releases would pass a cap, as `check_quotes` does."""
    capped = {
        name
        for name in plan.pipeline.datasets
        if not settings.declared(name).privacy.budget.benchmark
    }
    if capped:
        check_quotes(
            quote_plan(
                plan, settings, [unit for unit in plan.units.values() if unit.dataset in capped]
            )
        )


def draft_plan(
    pipeline_name: str,
    changes: Mapping[Any, Any],
    settings: Settings,
    run_id: str = "",
    *,
    period: str | None = None,
    when: datetime | None = None,
) -> Plan:
    """The plan that a pipeline and a user's changes make; nothing is checked against contracts yet
    but when they release.
    """
    pipelines = load_pipelines(settings.pipelines)
    pipeline = counting(override(find_pipeline(pipelines, pipeline_name), changes), settings)
    if pipeline.shots and max(pipeline.shots) > MOST_SHOTS:
        raise ParameterError(
            "shots",
            max(pipeline.shots),
            f"at most {MOST_SHOTS} in a run, whose prompts hold them all; `dpicl protect` "
            f"releases more",
        )
    models = registry(pipelines, settings.pipelines.name)
    model = resolve_model(pipeline.model, models)
    times = _usual_draws(pipeline, model, settings) if pipeline.draws is None else pipeline.draws
    pipeline = pipeline.model_copy(update={"draws": times})
    writer = None if pipeline.generator is None else resolve_model(pipeline.generator, models)
    embedder = None if pipeline.embedder is None else resolve_model(pipeline.embedder, models)
    beside = tuple(
        resolve_model(name, models) for name in dict.fromkeys(pipeline.beside) if name != model.name
    )
    stated = {*find_pipeline(pipelines, pipeline_name).model_fields_set, *changes}
    # baselines that nobody pays for are left out where they are a default, and refused where
    # somebody asks for them
    for name, method in (
        product(pipeline.datasets, pipeline.methods)
        if "baselines" in stated and pipeline.baselines
        else ()
    ):
        if left_out := METHODS[method].without_baselines(settings.declared(name)):
            raise PrivacyError(
                f"{name}: `baselines: true` asks for classifiers; expected no such key, or "
                f"`baselines: false`. {left_out}"
            )
    if "model" not in stated and any(
        METHODS[method].model_reads_rows for method in pipeline.methods
    ):
        for name in pipeline.datasets:
            check_named(settings.declared(name), "--model")
    periods = periods_of(
        pipeline.datasets,
        settings,
        period,
        when,
        pipeline.methods,
        over=pipeline.reports is not None,
    )
    editions = editions_of(pipeline.datasets, settings)
    return Plan(run_id, pipeline_name, pipeline, model, writer, periods, embedder, editions, beside)


def _usual_draws(pipeline: Pipeline, model: ModelSpec, settings: Settings) -> int:
    """How often queries are asked where nobody says it: several times where answers differ by draw,
    and no account pays for measuring them.
    """
    drawn = not model.most_rows and any(METHODS[method].draws_shots for method in pipeline.methods)
    charged = drawn and any(
        settings.declared(name).evaluation == "charged" for name in pipeline.datasets
    )
    return USUAL_DRAWS if drawn and not charged else 1


def editions_of(datasets: Iterable[str], settings: Settings) -> dict[str, str]:
    """The edition at hand of each published set of texts."""
    contracts = (settings.declared(name) for name in datasets)
    return {
        one.name: one.edition_of.name
        for one in contracts
        if isinstance(one, TextContract) and one.edition_of
    }


def periods_of(
    datasets: Iterable[str],
    settings: Settings,
    period: str | None = None,
    when: datetime | None = None,
    methods: Sequence[str] = (),
    *,
    over: bool = False,
) -> dict[str, str]:
    """The period of each data set's releases, but those that are made once: `period` for all of
    them, or what their contracts say of the time `when`, now if None. Where the `methods` count a
    horizon, or it must be `over`, it is the last period that is over then. Raises ParameterError:
    `period` is none, or some methods count a horizon and others do not.
    """
    chosen, at = None if period is None else read_period(period), when or clock()
    periods = {
        name: period_of(settings.declared(name), chosen, at, methods, over=over)
        for name in datasets
    }
    return {name: one for name, one in periods.items() if one != ONCE}


def _check_unit(contract: Declared, unit: Unit, plan: Plan) -> None:
    """A contract allows what a unit does with it and shows to the models; no model is opened."""
    method = METHODS[unit.method]
    if isinstance(contract, TextContract):  # of whose kind it declares what a method needs
        kind = "texts"
        names = [
            name
            for name, one in METHODS.items()
            if isinstance(one, TextMethod) and one.sizes(contract) is not None
        ]
    else:
        kind, names = (
            "a table",
            sorted(name for name, one in METHODS.items() if one.data == "table"),
        )
    if unit.method not in names:
        raise ParameterError(
            "methods", unit.method, f"one of {', '.join(names)}: {contract.name} holds {kind}"
        )
    if plan.model.most_rows:
        check_rows(method, contract, unit, plan.model.name)
    check_egress(contract, unit, plan.model)
    if plan.beside:
        _check_beside(contract, unit, plan)
    if method.model_reads_rows:
        check_writer(contract, unit, plan.writing_model)
        check_embedder(plan.embedder)
    method.refuse_run(contract)
    _check_periods(contract, unit, plan)
    method.check(contract if plan.pipeline.reports is None else as_received(contract), unit)
    check_drawn(contract, unit, anyway=plan.pipeline.anyway)


def _check_beside(contract: Declared, unit: Unit, plan: Plan) -> None:
    """Raises ModelRefusedError: another model than the run's cannot be asked the same prompts, or
    may not see them.
    """
    named = ", ".join(spec.name for spec in plan.beside)
    if METHODS[unit.method].data != "table" or contract.evaluation != "public":
        expected = "tables whose queries are public, or no such key"
        raise ModelRefusedError(
            f"{contract.name}: `beside: [{named}]` asks further models what {unit.method} asks; "
            f"expected {expected}"
        )
    if plan.model.most_rows or any(spec.most_rows for spec in plan.beside):
        raise ModelRefusedError(
            f"`beside: [{named}]` asks models the same prompts, and one of kind tabular reads "
            f"none; expected language models"
        )
    for spec in plan.beside:
        check_egress(contract, unit, spec)


def _check_periods(contract: Declared, unit: Unit, plan: Plan) -> None:
    """What a run makes of a horizon is over, and a window is of one."""
    if not METHODS[unit.method].is_series(contract):
        check_window(contract, unit, plan.pipeline.window)
        return
    if isinstance(contract, TextContract) and plan.pipeline.window is not None:
        raise ParameterError(
            "window",
            plan.pipeline.window,
            f"no such option: demonstrations of {contract.name} are of one period each",
        )
    window_places(
        contract, until=plan.period_of(unit.dataset), window=plan.pipeline.window, now=clock()
    )
