"""One release, from what is asked for to published bytes, in this process; a table needs no model
for it, texts the one that writes.

    plan      what the request comes to: contract, method, period (`planned_table`, `texts`)
    check     contract, source, model and cap, before a row is read
    read      rows, their rules, what is held out
    charge    durable, before a mechanism reads
    draw      what is charged and not published
    publish   the first one wins, and is read back

It is the same release as a run's: requested again, by this or by a run, it is the same bytes and
costs nothing. Killed anywhere, it is made by the same command again: what was charged is free, and
texts go on at the token that was lost.
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from dpicl.contract import Contract, Declared, TextContract
from dpicl.contract.base import Frozen
from dpicl.contract.models import window_places
from dpicl.contract.periods import clock, read_period
from dpicl.contract.pipeline import MOST_TEXTS, read_epsilon
from dpicl.ground.errors import (
    ChargedElsewhereError,
    DeclarationError,
    ParameterError,
    clean_errors,
    one_of,
)
from dpicl.ground.files import is_free, locked
from dpicl.ground.printable import tell_holder
from dpicl.ground.shutdown import passing
from dpicl.ground.validation import validate
from dpicl.home.accounts import OF_CALL, differing_caps, one_ledger, open_ledger
from dpicl.home.settings import Settings
from dpicl.ledger import Ledger
from dpicl.methods import DEFAULTS, METHODS, Options, on_texts, tabular, unit_of
from dpicl.methods.base import draws_for
from dpicl.methods.grid import points
from dpicl.release.names import ReleaseFacts, account_of
from dpicl.release.releases import check_quotes, name_of, quote_release, spending_sentence
from dpicl.release.request import (
    PlannedRelease,
    ReleaseRequest,
    check_drawn,
    check_source,
    check_writer,
    period_of,
)
from dpicl.release.rows import Rows, check_rules, drafted, marked, note_state, warnings_of

TABULAR = tuple(name for name, entry in METHODS.entries.items() if entry.data == "table")
BEGIN_LOCK = ".protect.lock"
RELEASE_LOCK = "lock"
"""Of the home while a release by itself begins, and of its folder of private rows while it is
made.
"""
_PREFIX = "protect-"


@dataclass(frozen=True)
class PublishedRelease:
    """One release as it stands in the ledger's folder: charged, drawn and published. `drawn` is
    what the method decoded, `spent` a sentence per account, and `settings` hold no rows.
    """

    planned: PlannedRelease
    drawn: Any
    spent: tuple[str, ...]
    settings: Settings
    facts: ReleaseFacts


class _Choices(Frozen):
    """What a request chooses, as a pipeline writes it."""

    shots: tuple[Annotated[int, Field(ge=1, le=MOST_TEXTS)], ...]
    options: Options


def planned_release(
    request: ReleaseRequest, contract: Declared, method: str, options: dict[str, Any], period: str
) -> PlannedRelease:
    """The one release of these options, at the first seed. Raises DpiclError: a value breaks a
    rule; ParameterError: it would be several releases.
    """
    where = "options of the release"
    chosen = validate(_Choices, {"shots": [request.shots], "options": {method: options}}, where)
    most = METHODS[method].most_shots
    if request.shots > most:
        expected = f"at most {most} with these methods"
        raise DeclarationError(where, "", f"shots lists {request.shots}", expected)
    epsilon = read_epsilon(request.epsilon)
    unit = unit_of(method, contract.name, 0, (epsilon,), chosen.shots, (), False, chosen.options)
    point, *further = points(METHODS[method], unit).values()
    if further:
        raise ParameterError(
            "options",
            ", ".join(request.options),
            "those of one release: further variants are for `dpicl run`",
        )
    _ = METHODS[method].cost(contract, point)
    return PlannedRelease(
        contract, method, chosen.options, chosen.shots[0], point, period, anyway=request.anyway
    )


def planned_table(request: ReleaseRequest, settings: Settings) -> PlannedRelease:
    """The release of a table that is asked for. Raises DpiclError: a name or value breaks a
    rule.
    """
    trust = request.trust
    contract = settings.declared(request.dataset)
    if trust not in DEFAULTS:
        raise ParameterError("trust", trust, " or ".join(sorted(DEFAULTS)))
    has_horizon = trust == "central" and contract.releases.horizon is not None
    counting = (
        name
        for name, entry in METHODS.entries.items()
        if has_horizon and entry.counts_series and METHODS[name].is_series(contract)
    )
    of_series = next(counting, None)
    method = request.method or of_series or DEFAULTS[trust]
    if method not in TABULAR or not isinstance(contract, Contract):
        raise ParameterError("method", method, one_of(method, TABULAR, " on a table"))
    chosen = None if request.period is None else read_period(request.period)
    # named by its first period; `series` makes those that are over
    if METHODS[method].is_series(contract):
        calendar = contract.releases.calendar
        period = calendar.periods[0]
        _ = request.period is None or calendar.index(request.period)
    else:
        period = period_of(contract, chosen, clock())
    stated = dict(request.options)
    known = METHODS[method].options.model_fields
    if unknown := [name for name in stated if name not in known]:
        raise ParameterError(
            "option", unknown[0], one_of(unknown[0], known, f": {METHODS[method].title} has these")
        )
    usual = METHODS[method].default_options(contract, stated, request.epsilon)
    return planned_release(request, contract, method, usual | stated, period)


def check_release(planned: PlannedRelease, settings: Settings) -> None:
    """What is refused before a row is read, but for caps. Raises DpiclError: a rule is broken, or
    the rows are not at hand.
    """
    contract = planned.contract
    method = METHODS[planned.method]
    if planned.writer is not None:
        check_writer(contract, planned.method, planned.writer)
    method.check(contract, planned.point)
    method.refuse_run(contract)
    if isinstance(contract, TextContract) and method.is_series(contract):
        window_places(contract, until=planned.period, window=None, now=clock())
    check_drawn(contract, method, [planned.point], anyway=planned.anyway)
    check_source(contract, settings)


def check_cap(planned: PlannedRelease, settings: Settings) -> None:
    """Refuse a release that would pass its account's cap. Raises BudgetError: it would; and
    ChargedElsewhereError, of an account that is open then, so that a cap can be stated.
    """
    if planned.contract.is_benchmark:
        return
    try:
        check_quotes(quote_release(planned, settings))
    except ChargedElsewhereError:
        with open_ledger(settings) as ledger:
            name_of(ledger, planned, settings)
        raise


def release_once(planned: PlannedRelease, settings: Settings) -> PublishedRelease:
    """Make a release, unless it was made before. Raises DpiclError: a value breaks a rule, or the
    budget does not allow it; nothing was read then.
    """
    contract = planned.contract
    method = planned.method
    check_release(planned, settings)
    with one_ledger(settings), open_ledger(settings) as ledger:
        check_cap(planned, settings)
        with private_rows(contract, settings) as rows:
            made = clean_errors("release", _made)(planned, settings, ledger, rows)
        spent = [
            spending_sentence(
                ledger, made.account, 1, int(made.is_new), published=made.published_utc
            )
        ]
        if settings.given is not None and settings.states_cap:
            stated = replace(account_of(contract, method), name=made.account)
            spent += differing_caps([stated], settings, OF_CALL)
    if isinstance(contract, Contract):
        drawn: Any = tabular(method).decode(made.content, contract, planned.point)
    else:
        drawn = on_texts(method).decode(json.loads(made.content))
    settings = replace(settings, given=None)
    return PublishedRelease(planned, drawn, tuple(spent), settings, planned.facts)


class _Made(NamedTuple):
    """The published bytes, whether they were charged now, by which account, and when they were
    published, if that was before this call.
    """

    content: bytes
    is_new: bool
    account: str
    published_utc: str


def _made(planned: PlannedRelease, settings: Settings, ledger: Ledger, rows: Rows) -> _Made:
    contract = planned.contract
    method = planned.method
    asked = [planned.point]
    if planned.writer is not None:
        from dpicl.release.readers import check_reading

        assert isinstance(contract, TextContract)
        check_reading(planned.writer, None, method, asked, contract, settings)
    ready(rows, planned.period)
    named = name_of(ledger, planned, settings)
    reserved = named.reserve(ledger)
    release = named.charge.release_id
    is_ours = False
    published_utc = ""
    if not reserved.is_missing and not contract.is_benchmark:
        entry = ledger.find(release)
        published_utc = entry.published_utc or "" if entry is not None else ""
    if reserved.is_missing:
        if planned.writer is None:
            draft = drafted(rows, method, asked, marked(rows, method, asked))[named.key]
        else:
            ledger.begin_drawing(release)
            draft = _written(planned, settings, rows, release)
        if ledger.published(release) is None:  # else a twin was faster
            is_ours = named.publish(ledger, draft)
    content = named.read(ledger)
    if not contract.is_benchmark:
        note_state(rows, {release}, {release} if is_ours else set())
    if planned.writer is not None:
        from dpicl.release.journal import forget

        forget(settings, release)
    return _Made(content, reserved.is_new, named.paying.account, published_utc)


def ready(
    rows: Rows, period: str, uncounted: Callable[[Contract], Sequence[int]] | None = None
) -> None:
    """Read rows, refuse those that break a rule, and hold out what is asked; the arguments are
    those of `Rows.read`. Raises DataError: names column, rule and count.
    """
    rows.read(period, uncounted)
    rules, violated = rows.verdicts()
    check_rules(rules, violated, rows.contract.name)
    if violated and not rows.contract.is_benchmark:
        tell_holder(warnings_of(rules, violated, rows.contract.name))
    rows.split(None if isinstance(rows.contract, TextContract) else 1)


def _written(planned: PlannedRelease, settings: Settings, rows: Rows, release: str) -> bytes:
    """What the model writes from private texts; every token is stored before the next is drawn."""
    from dpicl.methods import few_shot_generation
    from dpicl.release.journal import FileJournal
    from dpicl.release.readers import writer_of

    contract = planned.contract
    point = planned.point
    assert isinstance(contract, TextContract)
    assert planned.writer is not None
    journal = FileJournal(
        settings, {point.key: release}, draws_for(contract, point.seed), rows.state
    )
    (texts,) = few_shot_generation.write(
        rows.train(),
        contract,
        writer_of(planned.writer, settings),
        [few_shot_generation.job_of(contract, [point], journal)],
    )
    method = on_texts(planned.method)
    return json.dumps(method.encode(texts[point.key]), ensure_ascii=False).encode()


@contextmanager
def private_rows(contract: Declared, settings: Settings) -> Iterator[Rows]:
    """Inside, the rows of a release that is made here alone may be read. Whole tables are in
    memory, batches in a folder that is locked; all of it is gone at the end, and what killed
    processes have left goes first.
    """
    now = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
    name = f"{_PREFIX}{contract.name}-{now}"
    folder = settings.private_home / contract.name / name
    held: dict[str, Any] = {}
    with ExitStack() as kept:
        # else a folder might go before its owner has locked it
        with locked(settings.make_home() / BEGIN_LOCK):
            _sweep(settings)
            kept.enter_context(passing(folder))
            settings.private(contract.name, name)
            kept.enter_context(locked(folder / RELEASE_LOCK))
        try:
            yield Rows(contract, settings, folder, held)
        finally:
            held.clear()  # whoever looks into the frames of an error finds no rows
            shutil.rmtree(folder, ignore_errors=True)
            with locked(settings.home / BEGIN_LOCK), suppress(OSError):
                folder.parent.rmdir()  # where nothing of this contract stays


def sweep_private(settings: Settings) -> None:
    """Remove the folders of private rows that killed releases have left."""
    with locked(settings.make_home() / BEGIN_LOCK):
        _sweep(settings)


def _sweep(settings: Settings) -> None:
    for left in settings.private_home.glob(f"*/{_PREFIX}*"):
        # a run may have such a name
        if (left / RELEASE_LOCK).exists() and is_free(left / RELEASE_LOCK):
            shutil.rmtree(left, ignore_errors=True)
