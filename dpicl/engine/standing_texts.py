"""Texts that a run released, found again by what names them: read as they were published, charged nothing.

Guarantee   none spent: reads the ledger and published bytes only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpicl.contract.periods import ONCE
from dpicl.engine.accounts import open_account
from dpicl.engine.collect import spending_sentence
from dpicl.engine.models import fingerprint
from dpicl.engine.names import WRITER
from dpicl.engine.one_release import ONE_RELEASE_TITLE, Published
from dpicl.engine.pipelines import Pipeline, load_pipelines, units_of
from dpicl.engine.plan import model_named, periods_of
from dpicl.engine.releases import UnitReleases, named_releases, one_ledger, open_ledger
from dpicl.engine.run_folder import UnitFolder
from dpicl.engine.settings import Settings
from dpicl.errors import LedgerError, ParameterError
from dpicl.methods import METHODS, on_texts
from dpicl.methods.text_method import TextMethod
from dpicl.yaml_file import validate

ABLE = {name: one for name, one in METHODS.items() if isinstance(one, TextMethod) and not one.answers_queries}
"""Methods whose releases are texts for any query."""


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
    """The release that a run of these choices made, at its first seed.

    Args:
        method: None is the usual one.
        generator: the model that read the private texts; may be left out where one has written such a release.
        options: of the method.

    Raises:
        LedgerError: no such texts stand; says which command makes them.
        DpiclError: a name or value breaks a rule, or what stands is not what was published.
    """
    contract = settings.texts(dataset)
    if trust != "central":
        raise ParameterError("trust", trust, f"central: a model reads the texts of {dataset}")
    method = method or next(name for name, one in ABLE.items() if one.is_default)
    if method not in ABLE:
        raise ParameterError("method", method, f"one of {', '.join(ABLE)} on texts")
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
    """The command that makes them."""
    pipelines = load_pipelines(settings.pipelines).pipelines.items()
    alike = (name for name, one in pipelines if (one.methods, one.options, one.kind) == (wanted.methods, wanted.options, wanted.kind))
    if (name := next(alike, None)) is None:
        return f"expected a run of a pipeline with `methods: [{wanted.methods[0]}]` and these options"
    added = "" if period is None else f" --period {period}"
    grid = f"--datasets {wanted.datasets[0]} --epsilons {wanted.epsilons[0]:g} --shots {wanted.shots[0]} --seeds 0"
    return f"`dpicl run {name} {grid}{added} --generator {generator or 'MODEL'}` makes them"
