"""One release of a table without any model: the stages of a run up to it, in this process.

Charged, drawn and published like those of a run: requested again, by this or by a run,
the same release is the same bytes and costs nothing.
"""

from __future__ import annotations

import secrets
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

from dpicl.contract import Contract
from dpicl.contract.load import contract_digest
from dpicl.engine.artefacts import remove_private
from dpicl.engine.collect import spending_sentences
from dpicl.engine.execute import call_all
from dpicl.engine.files import read_json
from dpicl.engine.order import released, rows_ready
from dpicl.engine.pipelines import Pipeline
from dpicl.engine.plan import begin, periods_of
from dpicl.engine.run_folder import Plan, read_plan, run_folder
from dpicl.engine.settings import Settings
from dpicl.engine.stages.serialize import DEMONSTRATIONS, demonstrate
from dpicl.errors import ParameterError
from dpicl.lm.spec import ModelSpec
from dpicl.methods import METHODS
from dpicl.methods.common import epsilon_of
from dpicl.pipeline import Cell, read_epsilon
from dpicl.snapshots import is_free, locked
from dpicl.yaml_file import validate as validate_yaml

ONE_RELEASE, ONE_RELEASE_TITLE = "protect", "Demonstrations without a model"
"""Of the plan of a release that is no pipeline's."""
TABULAR = tuple(name for name, method in METHODS.items() if method.data == "table")
_PREFIX, _LOCK = f"{ONE_RELEASE}-", "lock"
_SIMULATED = "Its contract is a public benchmark: the noise is seeded, and anyone with the seed can remove it. Not a release."
_HELD_OUT = "Rows that the contract's split holds out were not used."


@dataclass(frozen=True)
class Protected:
    """Released demonstrations with their answers, the guarantee in a sentence, what was spent, and what to keep in mind."""

    dataset: str
    method: str
    epsilon: float
    contract_sha256: str
    demonstrations: tuple[tuple[str, str], ...]
    statement: str
    spent: tuple[str, ...]
    caveats: tuple[str, ...]


def protect(dataset: str, method: str, settings: Settings, *, epsilon: str, shots: int, period: str | None = None) -> Protected:
    """Release `shots` demonstrations of a table, by the method's usual options.

    Raises:
        DpiclError: a name or value breaks a rule, or the budget does not allow it; nothing was read then.
    """
    plan = plan_of(dataset, method, settings, epsilon=epsilon, shots=shots, period=period)
    for folder in (settings.home / "private").glob(f"*/{_PREFIX}*"):  # of killed processes: one that lives holds the lock of its run
        run = run_folder(settings, folder.name)
        if not run.is_dir() or is_free(run / _LOCK):
            remove_private(run, settings)
    run = begin(plan, settings)
    (key,) = read_plan(run).units
    with settings.entered(), locked(run / _LOCK):
        try:
            call_all(chain(rows_ready(str(run), dataset), released(str(run), key)))
            demonstrate(str(run), key)
            protected = _protected(run, key, Cell("icl", read_epsilon(epsilon), shots), settings)
        finally:
            remove_private(run, settings)
    shutil.rmtree(run, ignore_errors=True)  # the release stands elsewhere, and nothing goes on with this folder
    return protected


def plan_of(dataset: str, method: str, settings: Settings, *, epsilon: str, shots: int, period: str | None = None) -> Plan:
    """A grid of one release, whatever pipelines.yaml says; its name is used once.

    Raises:
        DpiclError: a name or value breaks a rule.
    """
    if method not in TABULAR or not isinstance(settings.declared(dataset), Contract):
        raise ParameterError("method", method, f"one of {', '.join(TABULAR)} on a table; texts are released by `dpicl run`")
    periods = periods_of([dataset], settings, period)
    grid = {"datasets": [dataset], "methods": [method], "epsilons": [epsilon], "shots": [shots], "queries": 1, "baselines": False}
    pipeline = validate_yaml(Pipeline, {"title": ONE_RELEASE_TITLE, **grid}, "command line")
    run_id = f"{_PREFIX}{dataset}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
    return Plan(run_id, ONE_RELEASE, pipeline, ModelSpec(name="tiny", kind="tiny"), periods=periods)


def _protected(run: Path, key: str, cell: Cell, settings: Settings) -> Protected:
    units = read_plan(run).units
    unit = units[key]
    contract = settings.contract(unit.dataset)
    texts = read_json(run / "units" / key / DEMONSTRATIONS)[cell.key]
    cost = METHODS[unit.method].costs(contract, unit)[cell]
    statement = METHODS[unit.method].statement(contract, unit, cell, cost)
    spent = spending_sentences(run, units, settings)
    demonstrations = tuple((before, answer) for before, _, answer in (text.rpartition(" ") for text in texts))
    caveats = (*([_SIMULATED] if contract.privacy.budget.benchmark else []), *([_HELD_OUT] if contract.split else []))
    epsilon, digest = epsilon_of(cell), contract_digest(contract)
    return Protected(unit.dataset, unit.method, epsilon, digest, demonstrations, statement, tuple(spent), caveats)
