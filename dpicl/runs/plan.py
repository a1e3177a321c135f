"""Planning: a pipeline's name and a user's changes become the plan of a run folder; what it would
spend, by account, known before any private byte is read; how its models are asked where nobody
says, which `release.readers` decides of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from dpicl.contract import Contract, Declared, TextContract
from dpicl.contract.load import contract_digest
from dpicl.contract.models import window_places
from dpicl.contract.periods import ONCE, clock, read_period
from dpicl.contract.pipeline import Unit
from dpicl.data.prompts import MOST_SHOTS
from dpicl.data.reading.queries import load_queries
from dpicl.ground.errors import ModelRefusedError, ParameterError, PrivacyError
from dpicl.ground.files import write_json
from dpicl.home.accounts import ledger_key, open_ledger
from dpicl.home.settings import Settings
from dpicl.ledger import Account, Described, Ledger, release_id
from dpicl.ledger import ReleaseCharge as Release
from dpicl.ledger.budget import as_paid
from dpicl.methods import METHODS, on_texts, tabular_method
from dpicl.methods.grid import check, points
from dpicl.methods.row_method import check_rows
from dpicl.methods.text_method import TextMethod
from dpicl.models.asking import AskedBy
from dpicl.models.embedding import check_embedder, embedder_fingerprint
from dpicl.models.opening import close_scorers
from dpicl.models.spec import ModelSpec, check_egress, resolve_model
from dpicl.release.names import PERIOD, ReleaseFacts, accounts_of
from dpicl.release.pipelines import (
    Pipeline,
    asks_models,
    declared_pipelines,
    find_pipeline,
    override,
    registry,
)
from dpicl.release.readers import fingerprint, settled_model
from dpicl.release.releases import (
    AccountQuote,
    check_quotes,
    named_releases,
    paying_account,
    quoted,
)
from dpicl.release.request import (
    check_drawn,
    check_named,
    check_source,
    check_window,
    check_writer,
    period_of,
)
from dpicl.runs.client_reports import as_received, check_reports, counting
from dpicl.runs.run_folder import (
    PLAN,
    Plan,
    check_stored,
    check_versions,
    check_within,
    pin_contracts,
    read_plan,
    run_folder,
    write_plan,
)


def quote_plan(
    plan: Plan, settings: Settings, units: Iterable[Unit] | None = None
) -> list[AccountQuote]:
    """One line per account that a plan's units (or some) spend from; opens no account and
    spends nothing. An edited ledger is refused first, and what another ledger was charged
    for.
    """
    if plan.pipeline.reports is not None:
        return []  # where nothing is charged no ledger is made
    with open_ledger(settings) as ledger:
        ledger.verify()
        trial = ledger.trial()
        return [
            quoted(trial, account.name, releases)
            for account, releases in charges(trial, plan, settings, units)
        ]


class Charges(NamedTuple):
    """What a plan asks of one account: releases by name."""

    account: Account
    releases: dict[str, Release]


def charges(
    ledger: Ledger, plan: Plan, settings: Settings, units: Iterable[Unit] | None = None
) -> list[Charges]:
    """Every release of a plan's units, by the account that pays; what several cells are made from
    is one release. Of clients' reports none pays.
    """
    if plan.pipeline.reports is not None:
        return []
    chosen = list(plan.units.values() if units is None else units)
    key = ledger_key(settings)
    reads = any(METHODS[unit.method].model_reads_rows for unit in chosen)
    writer = fingerprint(plan.writing_model) if reads else ""
    embedder = embedder_fingerprint(plan.embedder) if reads else ""
    accounts = {account.name: account for account in ledger.accounts()}
    by_account: dict[str, Charges] = {}
    for unit in chosen:
        declared = settings.declared(unit.dataset)
        contract = plan.contract_of(unit, declared)
        extra = plan.fewer_queries(unit, declared)
        facts = ReleaseFacts(plan.period_of(unit.dataset), writer, embedder, extra)
        account = paying_account(ledger, contract, unit.method, settings)
        accounts[account.name] = account
        asked = points(METHODS[unit.method], unit).values()
        named = named_releases(account, contract, unit.method, asked, settings, facts).values()
        # what is charged: of a period of texts its horizon
        releases = [release.paying for release in named]
        if contract.evaluation == "charged":
            assert isinstance(contract, Contract)
            releases.append(evaluation_of(key, account, contract, unit, releases, plan))
        asks = by_account.setdefault(account.name, Charges(account, {}))
        asks.releases.update({release.release_id: release for release in releases})
    return [by_account[name]._replace(account=accounts[name]) for name in sorted(by_account)]


def evaluation_of(
    key: bytes,
    account: Account,
    contract: Contract,
    unit: Unit,
    releases: Iterable[Release],
    plan: Plan,
) -> Release:
    """The release that measures a unit's answers on held-out private rows: of these releases, and a
    plan's period, model and queries.
    """
    assert contract.split is not None
    period = plan.period_of(unit.dataset)
    parameters = {
        "method": unit.method,
        "replicate": unit.seed,
        "model": fingerprint(plan.model),
        "cells": [cell.key for cell in tabular_method.measured_cells(unit)],
        # the same cells then stand for other answers
        **({} if unit.draws == 1 else {"draws": unit.draws}),
        "queries": plan.pipeline.queries,
        "epsilon": contract.split.evaluation_epsilon,
        "releases": sorted({release.release_id for release in releases}),
        **({} if period == ONCE else {PERIOD: period}),
    }
    name = release_id(
        key,
        Described(
            tabular_method.MECHANISM, tabular_method.VERSION, parameters, contract_digest(contract)
        ),
        account=account.name,
        neighbours=account.neighbours,
        period=period,
    )
    guarantee = as_paid(tabular_method.cost(contract, unit), account)
    return Release(name, account.name, tabular_method.MECHANISM, parameters, guarantee)


def plan_accounts(plan: Plan, settings: Settings) -> list[Account]:
    """The accounts that a plan's units spend from, as `accounts_of` gives them; of clients' reports
    none.
    """
    if plan.pipeline.reports:
        return []
    return accounts_of(((unit.dataset, unit.method) for unit in plan.units.values()), settings)


ASKED = "asked.json"
"""Of a run: how each of its models is asked and why, by name, where it was decided."""


def as_begun(plan: Plan, settings: Settings) -> Plan:
    """A plan whose models are asked as the run of its name asks them, where it has begun with these
    models and nobody says otherwise.
    """
    folder = run_folder(settings, plan.run_id)
    if not (folder / PLAN).exists():
        return plan
    begun = read_plan(folder)
    writer = (
        begun.writer
        if plan.writer is None and begun.writer == plan.model
        else plan.writer and _as(begun.writer, plan.writer)
    )
    earlier = {spec.name: spec for spec in begun.beside}
    beside = tuple(_as(earlier.get(spec.name), spec) for spec in plan.beside)
    return replace(plan, model=_as(begun.model, plan.model), writer=writer, beside=beside)


def _as(begun: ModelSpec | None, spec: ModelSpec) -> ModelSpec:
    """A model as it was begun with, if it is that one and open."""
    if (
        begun is not None
        and spec.api == "auto"
        and begun.model_copy(update={"api": "auto"}) == spec
    ):
        return begun
    return spec


def settled_plan(
    plan: Plan, settings: Settings, *, measure: bool = True
) -> tuple[Plan, dict[str, AskedBy]]:
    """A plan that states how its models are asked, and what was decided by name; one that has begun
    or leaves nothing open is as it was.

    Votes on tokens follow bare prompts: the model that casts them is named and asked as before.

    Args:
        measure: whether to open a model that is not decided yet; else it stays so.

    Raises:
        ModelError: a model cannot be opened.
    """
    methods = [METHODS[name] for name in plan.pipeline.methods]
    # a forecast's plan is of no run
    begun = plan.run_id and (run_folder(settings, plan.run_id) / PLAN).exists()
    asks = methods and asks_models(plan.pipeline.datasets, settings)
    if begun or not asks or plan.pipeline.api != "auto":
        return plan, {}
    reading = [method for method in methods if method.model_reads_rows]
    votes = any(on_texts(method.name).votes_on_tokens for method in reading)
    charged = not plan.pipeline.reports and (
        reading
        or any(settings.declared(name).evaluation == "charged" for name in plan.pipeline.datasets)
    )
    asked: dict[str, AskedBy] = {}

    def settled(spec: ModelSpec) -> ModelSpec:
        accounts = partial(plan_accounts, plan, settings) if charged else tuple
        decided, found = settled_model(spec, settings, accounts, measure=measure)
        asked.update({spec.name: found} if found else {})
        return decided

    beside = tuple(map(settled, plan.beside))
    model = settled(plan.model)
    writer = plan.writer
    if votes:
        writer = plan.writer or (None if model == plan.model else plan.model)
    elif reading and plan.writer:
        writer = settled(plan.writer)
    return replace(plan, model=model, writer=writer, beside=beside), asked


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
        write_json(folder / ASKED, {name: asdict(how) for name, how in asked.items()}, replace=True)
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
    capped = {name for name in plan.pipeline.datasets if not settings.declared(name).is_benchmark}
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
    pipelines = declared_pipelines(settings)
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
        contract.name: contract.edition_of.name
        for contract in contracts
        if isinstance(contract, TextContract) and contract.edition_of
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
    chosen = None if period is None else read_period(period)
    at = when or clock()
    periods = {
        name: period_of(settings.declared(name), chosen, at, methods, over=over)
        for name in datasets
    }
    return {name: period for name, period in periods.items() if period != ONCE}


def _check_unit(contract: Declared, unit: Unit, plan: Plan) -> None:
    """A contract allows what a unit does with it and shows to the models; no model is opened."""
    method = METHODS[unit.method]
    if isinstance(contract, TextContract):  # of whose kind it declares what a method needs
        kind = "texts"
        names = [
            name
            for name, method in METHODS.items()
            if isinstance(method, TextMethod) and method.sizes(contract) is not None
        ]
    else:
        kind = "a table"
        names = sorted(name for name, method in METHODS.items() if method.data == "table")
    if unit.method not in names:
        raise ParameterError(
            "methods", unit.method, f"one of {', '.join(names)}: {contract.name} holds {kind}"
        )
    if plan.model.most_rows:
        check_rows(method, contract, plan.model.name)
    check_egress(contract, unit, plan.model)
    if plan.beside:
        _check_beside(contract, unit, plan)
    if method.model_reads_rows:
        check_writer(contract, unit.method, plan.writing_model)
        check_embedder(plan.embedder)
    method.refuse_run(contract)
    _check_periods(contract, unit, plan)
    check(method, contract if plan.pipeline.reports is None else as_received(contract), unit)
    check_drawn(contract, method, points(method, unit).values(), anyway=plan.pipeline.anyway)


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
        check_window(contract, unit.method, plan.pipeline.window)
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
