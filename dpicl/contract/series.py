"""Checks of a contract whose table grows: a horizon of periods that are charged together; each
failure is one sentence.
"""

from __future__ import annotations

from datetime import datetime

from dpicl.contract.base import Problems
from dpicl.contract.declared import Declared
from dpicl.contract.models import Contract
from dpicl.contract.text import TextContract
from dpicl.errors import ParameterError

OF_ALL_ROWS = ("row_count", "both_labels", "unique")
"""Rules that no row by itself keeps or breaks."""


def check_no_series(contract: Declared) -> Problems:
    """What is no table with a time of arrival has no horizon."""
    if contract.releases.horizon is not None:
        yield (
            "releases.horizon",
            "is of rows that say when they arrived, or come in deliveries",
            "no such key",
        )
    if contract.privacy.person and contract.privacy.person.max_rows_in_horizon is not None:
        yield (
            "privacy.person.max_rows_in_horizon",
            "has no meaning without a horizon",
            "no such key",
        )


def check_text_series(contract: TextContract) -> Problems:
    """Texts with a horizon come in deliveries, each of which is used in its period alone: so all
    periods cost what one does (`few_shot.plan`).
    """
    source, privacy = contract.source, contract.privacy
    if source.deliveries is None and "undelivered" in source.model_fields_set:
        yield "source.undelivered", "has no meaning without `deliveries`", "no such key"
    if contract.releases.horizon is None:
        if source.deliveries is not None:
            yield (
                "source.deliveries",
                "has no meaning without a horizon",
                "no such key, or `releases.horizon`",
            )
        yield from check_no_series(contract)
        return
    if source.deliveries is None:
        expected = "a folder with a file for each period: it says when a text arrived"
        yield "source.deliveries", "is missing", expected
    if contract.generation is None or contract.ensemble is not None:
        expected = "`generation` alone: ensembles answer queries, and have no periods"
        yield "releases.horizon", "is of demonstrations", expected
    if privacy.budget.benchmark:
        yield (
            "releases.horizon",
            "has no meaning for a benchmark",
            "no such key: its texts stay as they are",
        )
    # a text may go in one period, and another come in another one
    if privacy.neighbours != "add-or-remove-one":
        expected = "add-or-remove-one: a text that is replaced may come in another period"
        yield "privacy.neighbours", f"is {privacy.neighbours} of a horizon of texts", expected


def check_series(contract: Contract) -> Problems:
    """A horizon comes with all that its guarantee goes by, and none of it comes alone."""
    privacy, person = contract.privacy, contract.privacy.person
    if contract.source.deliveries is None and "undelivered" in contract.source.model_fields_set:
        yield "source.undelivered", "has no meaning without `deliveries`", "no such key"
    if contract.releases.horizon is None:
        for key in ("arrived", "sign", "deliveries"):
            if getattr(contract.source, key) is not None:
                yield (
                    f"source.{key}",
                    "has no meaning without a horizon",
                    "no such key, or `releases.horizon`",
                )
        yield from check_no_series(contract)
        return
    yield from _check_arrival(contract)
    yield from _check_columns(contract)
    if privacy.budget.benchmark:
        yield (
            "releases.horizon",
            "has no meaning for a benchmark",
            "no such key: its rows stay as they are",
        )
    if not privacy.budget.delta:
        yield (
            "privacy.budget.delta",
            "is missing",
            "a delta, which the Gaussian noise of a horizon needs",
        )
    if contract.split is not None:
        expected = (
            "no such key: a series holds no rows out; `queries` names public rows to measure on"
        )
        yield "split", "is given beside a horizon", expected
    if person is not None:
        yield from _check_person(person.max_rows, person.max_rows_in_horizon)


def _check_columns(contract: Contract) -> Problems:
    """What says when a row arrived, and whether it takes another one back, is used for nothing
    else.
    """
    person = contract.privacy.person
    used = (*contract.columns, *contract.source.ignore, *([person.id_column] if person else []))
    for key, column, others in (
        ("arrived", contract.source.arrived, used),
        ("sign", contract.source.sign, (*used, contract.source.arrived)),
    ):
        if column is not None and column in others:
            yield (
                f"source.{key}",
                "is also used otherwise",
                "a column of the source that is used nowhere else",
            )
    # a row and its correction would be two units, each protected by itself
    if contract.source.sign is not None and person is None:
        yield (
            "source.sign",
            "is given where rows are protected",
            "`unit: person`, whose rows and corrections count together",
        )
    # of both rows of a correction one would enter
    if contract.source.sign is not None and person is not None and person.max_rows < 2:
        yield (
            "privacy.person.max_rows",
            "is 1, and a correction is two rows of one period",
            "2 or more",
        )


def _check_arrival(contract: Contract) -> Problems:
    """A row's period is said, and once. No rule is about how many rows a delivery has: that it was
    refused would tell.
    """
    source = contract.source
    if source.deliveries is None:
        if source.arrived is None:
            expected = (
                "the column with the day on which a row arrived, or `source.deliveries`, a folder "
                "with a file for each period"
            )
            yield "source.arrived", "is missing", expected
        return
    if source.arrived is not None:
        yield (
            "source.arrived",
            "is given beside `deliveries`",
            "one of them: either says when a row arrived",
        )
    for number, check in enumerate(contract.checks):
        if check.rule in OF_ALL_ROWS:
            expected = (
                f"none of {', '.join(OF_ALL_ROWS)}: a delivery is read alone, and may have any "
                f"number of rows"
            )
            yield f"checks.{number}.rule", f"is {check.rule} of deliveries", expected


def _check_person(per_period: int, in_horizon: int | None) -> Problems:
    key = "privacy.person.max_rows_in_horizon"
    if in_horizon is None:
        yield key, "is missing", "how many rows of a person enter in all periods together"
    elif in_horizon < per_period:
        yield key, f"is {in_horizon}, fewer than max_rows", f"{per_period} or more"


def window_places(
    contract: Declared, *, until: str | None, window: int | None, now: datetime
) -> tuple[int, int]:
    """The first and last period that rows are made of, counted from 1: so many up to `until`, all
    and the last one that is over if left out. Raises ParameterError: that one is not over, or
    belongs to no period of the horizon; or a window of none.
    """
    calendar = contract.releases.calendar
    over = calendar.over_by(now, contract.releases.every)
    last = over if until is None else calendar.index(until)
    if not 1 <= last <= over:
        named = calendar.periods[0] if until is None else until
        raise ParameterError(
            "period",
            named,
            f"a period of {contract.name} that is over in UTC; its rows are counted then",
        )
    if window is not None and window < 1:
        raise ParameterError("window", window, "a number of periods, 1 or more")
    return max(1, last - (window or last) + 1), last
