"""The door to a release, of a table or of texts: made now, unless it was before; or what it would
cost.
"""

from __future__ import annotations

from dataclasses import replace

from dpicl.contract import TextContract
from dpicl.contract.periods import clock
from dpicl.engine.admission import check_window
from dpicl.engine.one_release import Published, check_release, planned_table, release_once
from dpicl.engine.open_ledger import one_ledger
from dpicl.engine.quote import AccountQuote, quote_release
from dpicl.engine.request import PlannedRelease, ReleaseRequest
from dpicl.engine.settings import Settings
from dpicl.errors import ParameterError
from dpicl.methods import METHODS
from dpicl.release.release import Release


def release_of(request: ReleaseRequest, settings: Settings) -> Release:
    """The release that is asked for, made now, unless it was before. Raises DpiclError: a name or
    value breaks a rule, or the budget does not allow it.
    """
    with one_ledger(settings):
        found = _planned(request, settings)
        if isinstance(found, PlannedRelease):
            found = _made(found, request, settings)
    if isinstance(found.contract, TextContract):
        from dpicl.release.texts import TextRelease  # of a table it is not needed

        return TextRelease(found)
    return Release(found)


def quote_of(request: ReleaseRequest, settings: Settings) -> list[AccountQuote]:
    """What `release_of` would charge, by account; nothing for texts that stand. Opens accounts,
    spends nothing, reads no row.

    Raises:
        DpiclError: as `release_of`, but where the budget does not allow it: then `quote.allowed` is
            false.
    """
    with one_ledger(settings):
        planned = _planned(request, settings)
        if not isinstance(planned, PlannedRelease):
            return []
        check_release(planned, settings)
        return quote_release(planned, settings)


def _planned(request: ReleaseRequest, settings: Settings) -> PlannedRelease | Published:
    """What is to be made; or texts that stand."""
    if isinstance(settings.declared(request.dataset), TextContract):
        check_no_window(request.dataset, request.window)
        from dpicl.engine.pipelines import model_named
        from dpicl.engine.text_release import not_released, planned_texts, standing_texts

        wanted = planned_texts(request, settings)
        standing = standing_texts(wanted, settings, request.generator)
        if standing is not None:
            return standing
        if request.generator is None:
            raise not_released(wanted, settings, request.period)
        return replace(wanted, writer=model_named(request.generator, settings))
    if request.generator is not None:
        raise ParameterError(
            "generator", request.generator, f"none: no model reads the rows of {request.dataset}"
        )
    planned = planned_table(request, settings)
    if settings.given is not None:
        from dpicl.engine.given import with_account

        planned = with_account(planned, settings)
    if METHODS[planned.unit.method].is_series(planned.contract):
        from dpicl.engine.series import window_of

        window_of(planned, until=request.period, window=request.window, now=clock())
    else:
        check_window(planned.contract, planned.unit, request.window)
    return planned


def _made(planned: PlannedRelease, request: ReleaseRequest, settings: Settings) -> Published:
    if planned.writer is None and METHODS[planned.unit.method].is_series(planned.contract):
        from dpicl.engine.series import release_planned

        return release_planned(planned, settings, until=request.period, window=request.window)
    return release_once(planned, settings)


def check_no_window(dataset: str, window: int | None) -> None:
    """Refuse a window of what has no periods. Raises ParameterError: one is given."""
    if window is not None:
        raise ParameterError("window", window, f"none: {dataset} has no horizon of periods")
