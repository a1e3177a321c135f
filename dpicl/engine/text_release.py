"""One release of texts: the one that stands, found by what names it, or one that is made now by the
model that reads the private texts.

Texts that stand were charged by a run or by this command; they are read as they were published, at
no cost. Others are planned here, and made by `one_release`: everything is charged before the first
token.

Guarantee   none spent: reads the ledger and published bytes only.
"""

from __future__ import annotations

import json
import shlex

from dpicl.contract.periods import clock, read_period
from dpicl.engine.admission import period_of
from dpicl.engine.names import WRITER, ReleaseFacts
from dpicl.engine.one_release import Published, planned_unit
from dpicl.engine.open_ledger import one_ledger, open_ledger
from dpicl.engine.payers import open_account
from dpicl.engine.pipelines import load_pipelines, model_named
from dpicl.engine.quote import spending_sentence
from dpicl.engine.readers import fingerprint
from dpicl.engine.releases import UnitReleases
from dpicl.engine.request import PlannedRelease, ReleaseRequest
from dpicl.engine.settings import Settings
from dpicl.errors import LedgerError, ParameterError
from dpicl.methods import METHODS, on_texts
from dpicl.tabular.prompts.shots import MOST_SHOTS

TEXTUAL = {
    name: entry
    for name, entry in METHODS.entries.items()
    if entry.data == "texts" and not entry.answers_queries
}
"""Methods whose releases are texts for any query."""


def planned_texts(request: ReleaseRequest, settings: Settings) -> PlannedRelease:
    """The release of these choices, of the usual method where none is named, by a model that is yet
    to be known; `shots` is the number of texts. Raises DpiclError: a name or value breaks a rule.
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
    unit, cell = planned_unit(request, contract, method, dict(request.options))
    METHODS[method].check(contract, unit)
    chosen = None if request.period is None else read_period(request.period)
    return PlannedRelease(contract, unit, cell, period_of(contract, chosen, clock(), [method]))


def standing_texts(
    planned: PlannedRelease, settings: Settings, generator: str | None = None
) -> Published | None:
    """The release as it was published, by this or another command; None where no such texts stand.
    `generator`, the model that wrote them, may be left out where one has written such a release.
    Raises DpiclError: it is to be named, or what stands is not what was published.
    """
    contract, unit, cell = planned.contract, planned.unit, planned.cell
    with one_ledger(settings), open_ledger(settings) as ledger:
        if generator is None:
            account = open_account(ledger, contract, unit.method, settings)
            charged = [entry.release for entry in ledger.entries(account.name)]
            writers = [
                str(release.parameters[WRITER])
                for release in charged
                if release.mechanism == unit.method
            ]
        else:
            writers = [fingerprint(model_named(generator, settings))]
        # by the model that wrote it, what is published under the name that a run gives it
        standing: list[tuple[ReleaseFacts, UnitReleases]] = []
        for writer in dict.fromkeys(writers):
            facts = ReleaseFacts(planned.period, writer)
            releases = UnitReleases.of(ledger, contract, unit, settings, facts)
            name = releases.named[cell].release_id
            if ledger.find(name) is not None and ledger.published(name) is not None:
                standing.append((facts, releases))
        if not standing:
            return None
        if len(standing) > 1:
            raise ParameterError(
                "generator",
                None,
                f"the model that wrote them: {len(standing)} models wrote such texts of "
                f"{contract.name}",
            )
        ((facts, releases),) = standing
        content = releases.read(ledger, cell)
        spent = spending_sentence(ledger, releases.named[cell].account, 1, 0)
    drawn = on_texts(unit.method).decode(json.loads(content))
    return Published(contract, unit, cell, drawn, (spent,), settings, facts)


def not_released(planned: PlannedRelease, settings: Settings, period: str | None) -> LedgerError:
    """No such texts stand, and no model is named: which commands make them."""
    dataset, unit = planned.contract.name, planned.unit
    made = (
        f"{dataset}: no such texts were released; expected --generator MODEL, with which this "
        f"command makes them"
    )
    pipelines = load_pipelines(settings.pipelines).pipelines.items()
    alike = (
        name
        for name, one in pipelines
        if (one.methods, one.options, one.kind) == ((unit.method,), unit.options, "grid")
    )
    name = next(alike, None)
    if name is None or unit.shots[0] > MOST_SHOTS:
        return LedgerError(made)
    added = "" if period is None else f" --period {shlex.quote(period)}"
    grid = f"--datasets {dataset} --epsilons {unit.epsilons[0]:g} --shots {unit.shots[0]} --seeds 0"
    return LedgerError(
        f"{made}; `dpicl run {name} {grid}{added} --generator MODEL` makes them and asks with them"
    )
