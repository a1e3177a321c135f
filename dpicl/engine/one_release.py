"""One release: of a table without any model, the stages of a run up to it, in this process; of texts, one that a run made, found again.

Of a table it is charged, drawn and published like those of a run: requested again, by this or by a run, the same release is the same
bytes and costs nothing. Texts are found by what names them and read as they were published, charged nothing.

Guarantee   of texts none spent: reads the ledger and published bytes only.
"""

from __future__ import annotations

import json
import secrets
import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from dpicl.contract import Contract, Declared
from dpicl.contract.periods import ONCE
from dpicl.engine.accounts import open_account
from dpicl.engine.artefacts import read_draws, table_folder
from dpicl.engine.collect import spending_sentence, spending_sentences
from dpicl.engine.execute import call_all
from dpicl.engine.models import fingerprint
from dpicl.engine.names import WRITER
from dpicl.engine.order import published, rows_ready
from dpicl.engine.pipelines import Pipeline, load_pipelines, units_of
from dpicl.engine.plan import begin, model_named, periods_of
from dpicl.engine.releases import UnitReleases, named_releases, one_ledger, open_ledger
from dpicl.engine.run_folder import BEGIN_LOCK, ONE_RELEASE, RELEASE_LOCK, Plan, UnitFolder, open_unit, run_folder
from dpicl.engine.settings import Settings
from dpicl.errors import LedgerError, ParameterError
from dpicl.files.locks import is_free, locked
from dpicl.leaving import passing
from dpicl.lm.spec import ModelSpec
from dpicl.methods import DEFAULTS, METHODS, on_texts
from dpicl.methods.text_method import TextMethod
from dpicl.pipeline import Cell, Unit, read_epsilon
from dpicl.yaml_file import validate

ONE_RELEASE_TITLE = "Demonstrations without a model"
"""Of the plan of a release that is no pipeline's."""
TEXTUAL = {name: one for name, one in METHODS.items() if isinstance(one, TextMethod) and not one.answers_queries}
"""Methods whose releases are texts for any query."""
TABULAR = tuple(name for name, method in METHODS.items() if method.data == "table")
_PREFIX = f"{ONE_RELEASE}-"


@dataclass(frozen=True)
class Published:
    """One release as it stands in the ledger's folder: charged, drawn and published. `drawn` is what the method decoded, `spent` a sentence
    per account, `settings` hold no rows, and `facts` are what else names a release of texts.
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
    with one_ledger(settings), private_rows(unit.dataset, folder := run_folder(settings, plan.run_id), settings), passing(folder):
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
def private_rows(dataset: str, run: Path, settings: Settings) -> Iterator[None]:
    """A release's folder of private rows is there and locked inside, and gone at the end; what killed processes have left goes first."""
    with ExitStack() as kept:
        with locked(settings.make_home() / BEGIN_LOCK):  # else a folder might go before its owner has locked it
            for left in settings.private_home.glob(f"*/{_PREFIX}*"):
                if (left / RELEASE_LOCK).exists() and is_free(left / RELEASE_LOCK):  # a run may have such a name
                    shutil.rmtree(left, ignore_errors=True)
            kept.enter_context(passing(folder := settings.private_home / dataset / run.name))
            table_folder(settings, dataset, run)
            kept.enter_context(locked(folder / RELEASE_LOCK))
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
    """A grid of one release, whatever pipelines.yaml says; its name is used once. No `method` is the usual one of `trust`, `options` are of
    the method in place of its usual ones, and `anyway` makes one all the same that would be little but noise at the stated number of rows.
    """
    if trust not in DEFAULTS:
        raise ParameterError("trust", trust, " or ".join(sorted(DEFAULTS)))
    method = method or (_of_series(settings.declared(dataset)) if trust == "central" else None) or DEFAULTS[trust]
    if method not in TABULAR or not isinstance(contract := settings.declared(dataset), Contract):
        raise ParameterError("method", method, f"one of {', '.join(TABULAR)} on a table; texts are released by `dpicl run`")
    if METHODS[method].is_series(contract):  # named by its first period; `series` makes those that are over
        calendar = contract.releases.calendar
        periods = {dataset: calendar.periods[0]}
        _ = period is None or calendar.index(period)
    else:
        periods = periods_of([dataset], settings, period)
    stated, known = dict(options or {}), METHODS[method].options.model_fields
    if unknown := [name for name in stated if name not in {*known, *METHODS[method].options.earlier.values()}]:
        raise ParameterError("option", unknown[0], f"one of {', '.join(known)}: {METHODS[method].title} has these")
    chosen = {**METHODS[method].default_options(contract, stated, read_epsilon(epsilon)), **stated}
    grid = {"datasets": [dataset], "methods": [method], "epsilons": [epsilon], "shots": [shots], "queries": 1, "baselines": False}
    release = {"title": ONE_RELEASE_TITLE, **grid, "anyway": anyway, "options": {method: chosen}}
    pipeline = validate(Pipeline, release, "options of the release")
    run_id = f"{_PREFIX}{dataset}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
    plan = Plan(run_id, ONE_RELEASE, pipeline, ModelSpec(name="tiny", kind="tiny"), periods=periods)
    (unit,) = plan.units.values()
    if stated and len(METHODS[method].releases(contract, unit)) > 1:
        raise ParameterError("options", ", ".join(stated), "those of one release: further variants are for `dpicl run`")
    return plan


def _of_series(contract: Declared) -> str | None:
    """The method that counts the periods of a contract's horizon; None where it has none."""
    return next((name for name, one in METHODS.items() if one.is_series(contract)), None)


def standing_texts(
    dataset: str,
    method: str | None,
    settings: Settings,
    *,
    epsilon: str,
    shots: int,
    period: str | None = None,
    trust: str = "central",
    generator: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Published:
    """The release that a run of these choices made, at its first seed, of the usual method where none is named; the model that read the
    private texts, `generator`, may be left out where one has written such a release.

    Raises:
        LedgerError: no such texts stand; says which command makes them.
        DpiclError: a name or value breaks a rule, or what stands is not what was published.
    """
    contract = settings.texts(dataset)
    if trust != "central":
        raise ParameterError("trust", trust, f"central: a model reads the texts of {dataset}")
    method = method or next(name for name, one in TEXTUAL.items() if one.is_default)
    if method not in TEXTUAL:
        raise ParameterError("method", method, f"one of {', '.join(TEXTUAL)} on texts")
    given = {"datasets": [dataset], "methods": [method], "epsilons": [epsilon], "shots": [shots], "options": {method: dict(options or {})}}
    pipeline = validate(Pipeline, {"title": ONE_RELEASE_TITLE, **given}, "options of the release")
    (unit,) = units_of(pipeline)
    METHODS[method].check(contract, unit)
    cell, *further = METHODS[method].releases(contract, unit)
    if further:
        raise ParameterError("options", ", ".join(options or {}), "those of one release: further variants are for `dpicl run`")
    now = periods_of([dataset], settings, period).get(dataset, ONCE)
    with one_ledger(settings), open_ledger(settings) as ledger:
        if generator is None:
            charged = [entry.release for entry in ledger.entries(open_account(ledger, contract, method, settings).name)]
            writers = [str(release.parameters[WRITER]) for release in charged if release.mechanism == method]
        else:
            writers = [fingerprint(model_named(generator, settings))]
        standing = {}  # by the model that wrote it, what is published under the name that a run gives it
        for writer in dict.fromkeys(writers):
            named = named_releases(ledger, contract, unit, settings, period=now, writer=writer)
            if ledger.find(named[cell].release_id) is not None and ledger.published(named[cell].release_id) is not None:
                standing[writer] = named
        if not standing:
            raise LedgerError(f"{dataset}: no such texts were released; {_how(pipeline, settings, period, generator)}")
        if len(standing) > 1:
            raise ParameterError("generator", None, f"the model that wrote them: {len(standing)} models wrote such texts of {dataset}")
        ((writer, named),) = standing.items()
        content = UnitReleases(UnitFolder(Path(), unit, contract, settings), named).read(ledger, cell)
        spent = spending_sentence(ledger, named[cell].account, 1, 0)
    return Published(contract, unit, cell, on_texts(method).decode(json.loads(content)), now, (spent,), settings, {WRITER: writer})


def _how(wanted: Pipeline, settings: Settings, period: str | None, generator: str | None) -> str:
    pipelines = load_pipelines(settings.pipelines).pipelines.items()
    alike = (name for name, one in pipelines if (one.methods, one.options, one.kind) == (wanted.methods, wanted.options, wanted.kind))
    if (name := next(alike, None)) is None:
        return f"expected a run of a pipeline with `methods: [{wanted.methods[0]}]` and these options"
    added = "" if period is None else f" --period {period}"
    grid = f"--datasets {wanted.datasets[0]} --epsilons {wanted.epsilons[0]:g} --shots {wanted.shots[0]} --seeds 0"
    return f"`dpicl run {name} {grid}{added} --generator {shlex.quote(generator or 'MODEL')}` makes them"
