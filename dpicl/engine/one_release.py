"""One release: the stages of a run up to it, in this process. A table needs no model for it, texts
the one that writes; see `text_release`.

It is charged, drawn and published like those of a run: requested again, by this or by a run, the
same release is the same bytes and costs nothing. Killed, it is made by the same command again: what
was charged is free, and texts go on at the token that was lost.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dpicl.contract import Contract, Declared, TextContract
from dpicl.engine.artefacts import read_draws, read_texts, rows_stay_here, table_folder
from dpicl.engine.collect import spending_sentences
from dpicl.engine.execute import call_all
from dpicl.engine.models import fingerprint
from dpicl.engine.names import WRITER
from dpicl.engine.open_ledger import one_ledger
from dpicl.engine.pipelines import Pipeline
from dpicl.engine.plan import begin, periods_of
from dpicl.engine.request import ReleaseRequest
from dpicl.engine.run_folder import (
    BEGIN_LOCK,
    ONE_RELEASE,
    ONE_RELEASE_TITLE,
    RELEASE_LOCK,
    Plan,
    UnitFolder,
    open_unit,
    run_folder,
)
from dpicl.engine.settings import Settings
from dpicl.engine.stages.probe import check_reading
from dpicl.engine.verdicts import remove_verdicts
from dpicl.errors import ParameterError
from dpicl.files.locks import is_free, locked
from dpicl.leaving import passing
from dpicl.lm.spec import ModelSpec
from dpicl.methods import DEFAULTS, METHODS
from dpicl.pipeline import Cell, Unit
from dpicl.runs.chain import published, rows_ready
from dpicl.yaml_file import validate

TABULAR = tuple(name for name, method in METHODS.items() if method.data == "table")
_PREFIX = f"{ONE_RELEASE}-"


@dataclass(frozen=True)
class Published:
    """One release as it stands in the ledger's folder: charged, drawn and published. `drawn` is
    what the method decoded, `spent` a sentence per account, `settings` hold no rows, and `facts`
    are what else names a release of texts.
    """

    contract: Declared
    unit: Unit
    cell: Cell
    drawn: Any
    period: str
    spent: tuple[str, ...]
    settings: Settings
    facts: Mapping[str, Any] = field(default_factory=dict)


def release_once(plan: Plan, settings: Settings) -> Published:
    """Do what `plan_of` plans, unless it was done before. Raises DpiclError: a value breaks a rule,
    or the budget does not allow it; nothing was read then.
    """
    ((key, unit),) = plan.units.items()
    with (
        one_ledger(settings),
        private_rows(unit.dataset, folder := run_folder(settings, plan.run_id), settings),
        passing(folder),
    ):
        run = begin(plan, settings)
        with settings.entered():
            unit_folder = open_unit(str(run), key)
            if isinstance(unit_folder.declared, TextContract):
                check_reading(run, plan, unit, unit_folder.declared, settings)
            call_all(rows_ready, str(run), unit.dataset)
            call_all(published, str(run), key)
            ((cell, drawn),) = _drawn(unit_folder).items()
            spent = tuple(spending_sentences(run, {key: unit}, settings))
    # the release stands elsewhere, and nothing goes on with this folder
    shutil.rmtree(run, ignore_errors=True)
    facts = (
        {WRITER: fingerprint(plan.writing_model)} if METHODS[unit.method].model_reads_rows else {}
    )
    return Published(
        unit_folder.declared,
        unit,
        cell,
        drawn,
        plan.period_of(unit.dataset),
        spent,
        replace(settings, given=None),
        facts,
    )


def _drawn(unit: UnitFolder) -> Mapping[Cell, Any]:
    return read_draws(unit) if unit.method.data == "table" else read_texts(unit)[0]


@contextmanager
def private_rows(dataset: str, run: Path, settings: Settings) -> Iterator[None]:
    """A release's folder of private rows is there and locked inside, and gone at the end; what
    killed processes have left goes first.
    """
    with ExitStack() as kept:
        # else a folder might go before its owner has locked it
        with locked(settings.make_home() / BEGIN_LOCK):
            _sweep(settings)
            kept.enter_context(passing(folder := settings.private_home / dataset / run.name))
            table_folder(settings, dataset, run)
            kept.enter_context(locked(folder / RELEASE_LOCK))
        try:
            with rows_stay_here():
                yield
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            remove_verdicts(run.name, settings)


def sweep_private(settings: Settings) -> None:
    """Remove the folders of private rows that killed releases have left."""
    with locked(settings.make_home() / BEGIN_LOCK):
        _sweep(settings)


def _sweep(settings: Settings) -> None:
    for left in settings.private_home.glob(f"*/{_PREFIX}*"):
        # a run may have such a name
        if (left / RELEASE_LOCK).exists() and is_free(left / RELEASE_LOCK):
            shutil.rmtree(left, ignore_errors=True)
            remove_verdicts(left.name, settings)


def plan_of(request: ReleaseRequest, settings: Settings) -> Plan:
    """A grid of one release of a table, whatever pipelines.yaml says; its name is used once. Raises
    DpiclError: a name or value breaks a rule.
    """
    dataset, trust = request.dataset, request.trust
    if trust not in DEFAULTS:
        raise ParameterError("trust", trust, " or ".join(sorted(DEFAULTS)))
    method = (
        request.method
        or (_of_series(settings.declared(dataset)) if trust == "central" else None)
        or DEFAULTS[trust]
    )
    if method not in TABULAR or not isinstance(contract := settings.declared(dataset), Contract):
        raise ParameterError("method", method, f"one of {', '.join(TABULAR)} on a table")
    # named by its first period; `series` makes those that are over
    if METHODS[method].is_series(contract):
        calendar = contract.releases.calendar
        periods = {dataset: calendar.periods[0]}
        _ = request.period is None or calendar.index(request.period)
    else:
        periods = periods_of([dataset], settings, request.period)
    stated, known = dict(request.options), METHODS[method].options.model_fields
    if unknown := [name for name in stated if name not in known]:
        raise ParameterError(
            "option", unknown[0], f"one of {', '.join(known)}: {METHODS[method].title} has these"
        )
    chosen = {**METHODS[method].default_options(contract, stated, request.epsilon), **stated}
    grid = {
        "datasets": [dataset],
        "methods": [method],
        "epsilons": [request.epsilon],
        "shots": [request.shots],
        "queries": 1,
        "baselines": False,
    }
    release = {
        "title": ONE_RELEASE_TITLE,
        **grid,
        "anyway": request.anyway,
        "options": {method: chosen},
    }
    pipeline = validate(Pipeline, release, "options of the release")
    plan = Plan(
        own_run_id(dataset),
        ONE_RELEASE,
        pipeline,
        ModelSpec(name="tiny", kind="tiny"),
        periods=periods,
    )
    (unit,) = plan.units.values()
    if stated and len(METHODS[method].releases(contract, unit)) > 1:
        raise ParameterError(
            "options",
            ", ".join(stated),
            "those of one release: further variants are for `dpicl run`",
        )
    return plan


def _of_series(contract: Declared) -> str | None:
    """The method that counts the periods of a contract's horizon where none is named; None where it
    has no horizon.
    """
    return next(
        (
            name
            for name, one in METHODS.items()
            if one.is_default_of_series and one.is_series(contract)
        ),
        None,
    )


def own_run_id(dataset: str) -> str:
    """The name of a run folder that is used once, for one release."""
    return f"{_PREFIX}{dataset}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
