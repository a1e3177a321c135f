"""One release of a table without any model: the stages of a run up to it, in this process.

Charged, drawn and published like those of a run: requested again, by this or by a run,
the same release is the same bytes and costs nothing.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from dpicl.contract import Contract, Declared
from dpicl.engine.artefacts import read_draws, table_folder
from dpicl.engine.collect import spending_sentences
from dpicl.engine.execute import call_all
from dpicl.engine.order import published, rows_ready
from dpicl.engine.pipelines import Pipeline
from dpicl.engine.plan import begin, periods_of
from dpicl.engine.releases import one_ledger
from dpicl.engine.run_folder import Plan, open_unit, run_folder
from dpicl.engine.settings import Settings
from dpicl.errors import ParameterError
from dpicl.lm.spec import ModelSpec
from dpicl.methods import DEFAULTS, METHODS
from dpicl.pipeline import Cell, Unit, read_epsilon
from dpicl.snapshots import is_free, locked
from dpicl.yaml_file import validate

ONE_RELEASE, ONE_RELEASE_TITLE = "protect", "Demonstrations without a model"
"""Of the plan of a release that is no pipeline's."""
TABULAR = tuple(name for name, method in METHODS.items() if method.data == "table")
_PREFIX, _LOCK = f"{ONE_RELEASE}-", "lock"


@dataclass(frozen=True)
class Published:
    """One release as it stands in the ledger's folder: charged, drawn and published.

    Attributes:
        cell: of the release, and `drawn` what the method decoded of it.
        spent: a sentence per account.
        settings: of the installation; they hold no rows.
        facts: what else names it, of texts.
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
    """Do what `plan_of` plans, unless it was done before. Raises DpiclError: a value breaks a rule, or the budget does not allow it;
    nothing was read then.
    """
    ((key, unit),) = plan.units.items()
    with one_ledger(settings), _private_rows(unit.dataset, run_folder(settings, plan.run_id), settings):
        run = begin(plan, settings)
        with settings.entered():
            call_all(chain(rows_ready(str(run), unit.dataset), published(str(run), key)))
            unit_folder = open_unit(str(run), key)
            ((cell, drawn),) = read_draws(unit_folder).items()
            spent = tuple(spending_sentences(run, {key: unit}, settings))
    shutil.rmtree(run, ignore_errors=True)  # the release stands elsewhere, and nothing goes on with this folder
    without_rows = replace(settings, given=None)
    return Published(unit_folder.contract, unit, cell, drawn, plan.period_of(unit.dataset), spent, without_rows)


@contextmanager
def _private_rows(dataset: str, run: Path, settings: Settings) -> Iterator[None]:
    """A release's folder of private rows is there and locked inside, and gone at the end; what killed processes have left goes first."""
    with ExitStack() as kept:
        with locked(settings.make_home() / f".{ONE_RELEASE}.lock"):  # else a folder might go before its owner has locked it
            for left in (settings.home / "private").glob(f"*/{_PREFIX}*"):
                if is_free(left / _LOCK):
                    shutil.rmtree(left, ignore_errors=True)
            folder = table_folder(settings, dataset, run)
            kept.enter_context(locked(folder / _LOCK))
        try:
            yield
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def plan_of(
    dataset: str,
    method: str | None,
    settings: Settings,
    *,
    epsilon: str,
    shots: int,
    period: str | None = None,
    trust: str = "central",
    options: Mapping[str, Any] | None = None,
    anyway: bool = False,
) -> Plan:
    """A grid of one release, whatever pipelines.yaml says; its name is used once.

    Args:
        method: None is the usual one of `trust`.
        options: of the method, in place of its usual ones.
        anyway: whether a release that would be little but noise at the stated number of rows is made all the same.

    Raises:
        DpiclError: a name or value breaks a rule.
    """
    if trust not in DEFAULTS:
        raise ParameterError("trust", trust, " or ".join(sorted(DEFAULTS)))
    method = method or DEFAULTS[trust]
    if method not in TABULAR or not isinstance(contract := settings.declared(dataset), Contract):
        raise ParameterError("method", method, f"one of {', '.join(TABULAR)} on a table; texts are released by `dpicl run`")
    periods = periods_of([dataset], settings, period)
    read_epsilon(epsilon)
    stated, known = dict(options or {}), METHODS[method].options.model_fields
    if unknown := [name for name in stated if name not in {*known, *METHODS[method].options.earlier.values()}]:
        raise ParameterError("option", unknown[0], f"one of {', '.join(known)}: {METHODS[method].title} has these")
    chosen = {**METHODS[method].default_options(contract, stated), **stated}
    grid = {"datasets": [dataset], "methods": [method], "epsilons": [epsilon], "shots": [shots], "queries": 1, "baselines": False}
    release = {"title": ONE_RELEASE_TITLE, **grid, "anyway": anyway, "options": {method: chosen}}
    pipeline = validate(Pipeline, release, "options of the release")
    run_id = f"{_PREFIX}{dataset}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
    plan = Plan(run_id, ONE_RELEASE, pipeline, ModelSpec(name="tiny", kind="tiny"), periods=periods)
    (unit,) = plan.units.values()
    if stated and len(METHODS[method].releases(contract, unit)) > 1:
        raise ParameterError("options", ", ".join(stated), "those of one release: further variants are for `dpicl run`")
    return plan
