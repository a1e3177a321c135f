"""One release of texts: the one that stands, found by what names it, or one that is made now by the
model that reads the private texts.

Texts that stand were charged by a run or by this command; they are read as they were published, at
no cost. Others are planned here as a grid of one release: everything is charged before the first
token, and `one_release` does it.

Guarantee   none spent: reads the ledger and published bytes only, and writes plans.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dpicl.contract import TextContract
from dpicl.contract.periods import ONCE
from dpicl.engine.collect import spending_sentence
from dpicl.engine.models import fingerprint
from dpicl.engine.names import WRITER
from dpicl.engine.one_release import Published, own_run_id
from dpicl.engine.open_ledger import one_ledger, open_ledger
from dpicl.engine.payers import open_account
from dpicl.engine.pipelines import Pipeline, load_pipelines, units_of
from dpicl.engine.plan import editions_of, model_named, periods_of
from dpicl.engine.releases import UnitReleases
from dpicl.engine.request import ReleaseRequest
from dpicl.engine.run_folder import ONE_RELEASE, ONE_RELEASE_TITLE, Plan, UnitFolder
from dpicl.engine.settings import Settings
from dpicl.errors import LedgerError, ParameterError
from dpicl.methods import METHODS, on_texts
from dpicl.methods.text_method import TextMethod
from dpicl.pipeline import Cell, Unit
from dpicl.tabular.prompts.shots import MOST_SHOTS
from dpicl.yaml_file import validate

TEXTUAL = {
    name: one
    for name, one in METHODS.items()
    if isinstance(one, TextMethod) and not one.answers_queries
}
"""Methods whose releases are texts for any query."""


@dataclass(frozen=True)
class WantedTexts:
    """What names a release of texts, but for the model that writes them; `periods` is empty where
    they are released once.
    """

    contract: TextContract
    pipeline: Pipeline
    unit: Unit
    cell: Cell
    periods: Mapping[str, str]

    @property
    def period(self) -> str:
        """The period of the release."""
        return self.periods.get(self.contract.name, ONCE)


def wanted_texts(request: ReleaseRequest, settings: Settings) -> WantedTexts:
    """The release of these choices at the first seed, of the usual method where none is named;
    `shots` is the number of texts. Raises DpiclError: a name or value breaks a rule, or the rows of
    a label do not suffice for so many texts.
    """
    dataset = request.dataset
    contract = settings.texts(dataset)
    if request.trust != "central":
        raise ParameterError(
            "trust", request.trust, f"central: a model reads the texts of {dataset}"
        )
    method = request.method or next(name for name, one in TEXTUAL.items() if one.is_default)
    if method not in TEXTUAL:
        raise ParameterError("method", method, f"one of {', '.join(TEXTUAL)} on texts")
    given = {
        "datasets": [dataset],
        "methods": [method],
        "epsilons": [request.epsilon],
        "shots": [request.shots],
        "options": {method: dict(request.options)},
    }
    pipeline = validate(
        Pipeline,
        {"title": ONE_RELEASE_TITLE, **given, "baselines": False},
        "options of the release",
    )
    (unit,) = units_of(pipeline)
    METHODS[method].check(contract, unit)
    cell, *further = METHODS[method].releases(contract, unit)
    if further:
        raise ParameterError(
            "options",
            ", ".join(request.options),
            "those of one release: further variants are for `dpicl run`",
        )
    return WantedTexts(
        contract,
        pipeline,
        unit,
        cell,
        periods_of([dataset], settings, request.period, methods=[method]),
    )


def standing_texts(
    wanted: WantedTexts, settings: Settings, generator: str | None = None
) -> Published | None:
    """The release as it was published, by this or another command; None where no such texts stand.
    `generator`, the model that wrote them, may be left out where one has written such a release.
    Raises DpiclError: it is to be named, or what stands is not what was published.
    """
    contract, unit, cell = wanted.contract, wanted.unit, wanted.cell
    with one_ledger(settings), open_ledger(settings) as ledger:
        if generator is None:
            charged = [
                entry.release
                for entry in ledger.entries(
                    open_account(ledger, contract, unit.method, settings).name
                )
            ]
            writers = [
                str(release.parameters[WRITER])
                for release in charged
                if release.mechanism == unit.method
            ]
        else:
            writers = [fingerprint(model_named(generator, settings))]
        # by the model that wrote it, what is published under the name that a run gives it
        standing: dict[str, UnitReleases] = {}
        for writer in dict.fromkeys(writers):
            one = UnitReleases.drawn(
                ledger,
                UnitFolder(Path(), unit, contract, settings),
                period=wanted.period,
                writer=writer,
            )
            if (
                ledger.find(one.named[cell].release_id) is not None
                and ledger.published(one.named[cell].release_id) is not None
            ):
                standing[writer] = one
        if not standing:
            return None
        if len(standing) > 1:
            raise ParameterError(
                "generator",
                None,
                f"the model that wrote them: {len(standing)} models wrote such texts of "
                f"{contract.name}",
            )
        ((writer, releases),) = standing.items()
        content = releases.read(ledger, cell)
        spent = spending_sentence(ledger, releases.named[cell].account, 1, 0)
    drawn = on_texts(unit.method).decode(json.loads(content))
    return Published(
        contract, unit, cell, drawn, wanted.period, (spent,), settings, {WRITER: writer}
    )


def texts_plan(wanted: WantedTexts, generator: str, settings: Settings) -> Plan:
    """The plan of making them now, by this model. Raises DpiclError: there is no such model."""
    dataset, model = wanted.contract.name, model_named(generator, settings)
    editions = editions_of([dataset], settings)
    return Plan(
        own_run_id(dataset),
        ONE_RELEASE,
        wanted.pipeline,
        model,
        periods=wanted.periods,
        editions=editions,
    )


def not_released(wanted: WantedTexts, settings: Settings, period: str | None) -> LedgerError:
    """No such texts stand, and no model is named: which commands make them."""
    dataset, pipeline, unit = wanted.contract.name, wanted.pipeline, wanted.unit
    made = (
        f"{dataset}: no such texts were released; expected --generator MODEL, with which this "
        f"command makes them"
    )
    pipelines = load_pipelines(settings.pipelines).pipelines.items()
    alike = (
        name
        for name, one in pipelines
        if (one.methods, one.options, one.kind)
        == (pipeline.methods, pipeline.options, pipeline.kind)
    )
    name = next(alike, None)
    if name is None or unit.shots[0] > MOST_SHOTS:
        return LedgerError(made)
    added = "" if period is None else f" --period {shlex.quote(period)}"
    grid = (
        f"--datasets {dataset} --epsilons {pipeline.epsilons[0]:g} --shots {unit.shots[0]} "
        f"--seeds 0"
    )
    return LedgerError(
        f"{made}; `dpicl run {name} {grid}{added} --generator MODEL` makes them and asks with them"
    )
