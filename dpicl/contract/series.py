"""Checks of a contract whose table grows: a horizon of periods that are charged together; each
failure is one sentence.
"""

from __future__ import annotations

from datetime import datetime

from dpicl.contract.declared import Declared
from dpicl.contract.models import Contract
from dpicl.contract.text import TextContract
from dpicl.errors import DeclarationError, ParameterError

OF_ALL_ROWS = ("row_count", "both_labels", "unique")
"""Rules that no row by itself keeps or breaks."""


def check_no_series(contract: Declared, file: str) -> None:
    """What is no table with a time of arrival has no horizon. Raises DeclarationError: it states
    one.
    """
    if contract.releases.horizon is not None:
        raise DeclarationError(
            file,
            "releases.horizon",
            "is of rows that say when they arrived, or come in deliveries",
            "no such key",
        )
    if contract.privacy.person and contract.privacy.person.max_rows_in_horizon is not None:
        raise DeclarationError(
            file,
            "privacy.person.max_rows_in_horizon",
            "has no meaning without a horizon",
            "no such key",
        )


def check_text_series(contract: TextContract, file: str) -> None:
    """Texts with a horizon come in deliveries, each of which is used in its period alone: so all
    periods cost what one does (`few_shot.plan`). Raises DeclarationError: names file, key and
    expected shape.
    """
    source, privacy = contract.source, contract.privacy
    if source.deliveries is None and "undelivered" in source.model_fields_set:
        raise DeclarationError(
            file, "source.undelivered", "has no meaning without `deliveries`", "no such key"
        )
    if contract.releases.horizon is None:
        if source.deliveries is not None:
            raise DeclarationError(
                file,
                "source.deliveries",
                "has no meaning without a horizon",
                "no such key, or `releases.horizon`",
            )
        check_no_series(contract, file)
        return
    if source.deliveries is None:
        expected = "a folder with a file for each period: it says when a text arrived"
        raise DeclarationError(file, "source.deliveries", "is missing", expected)
    if contract.generation is None or contract.ensemble is not None:
        expected = "`generation` alone: ensembles answer queries, and have no periods"
        raise DeclarationError(file, "releases.horizon", "is of demonstrations", expected)
    if privacy.budget.benchmark:
        raise DeclarationError(
            file,
            "releases.horizon",
            "has no meaning for a benchmark",
            "no such key: its texts stay as they are",
        )
    # a text may go in one period, and another come in another one
    if privacy.neighbours != "add-or-remove-one":
        expected = "add-or-remove-one: a text that is replaced may come in another period"
        raise DeclarationError(
            file, "privacy.neighbours", f"is {privacy.neighbours} of a horizon of texts", expected
        )


def check_series(contract: Contract, file: str) -> None:
    """A horizon comes with all that its guarantee goes by, and none of it comes alone.
    Raises DeclarationError: names file, key and expected shape.
    """
    privacy, person = contract.privacy, contract.privacy.person
    if contract.source.deliveries is None and "undelivered" in contract.source.model_fields_set:
        raise DeclarationError(
            file, "source.undelivered", "has no meaning without `deliveries`", "no such key"
        )
    if contract.releases.horizon is None:
        for key in ("arrived", "sign", "deliveries"):
            if getattr(contract.source, key) is not None:
                raise DeclarationError(
                    file,
                    f"source.{key}",
                    "has no meaning without a horizon",
                    "no such key, or `releases.horizon`",
                )
        check_no_series(contract, file)
        return
    _check_arrival(contract, file)
    _check_columns(contract, file)
    if privacy.budget.benchmark:
        raise DeclarationError(
            file,
            "releases.horizon",
            "has no meaning for a benchmark",
            "no such key: its rows stay as they are",
        )
    if not privacy.budget.delta:
        raise DeclarationError(
            file,
            "privacy.budget.delta",
            "is missing",
            "a delta, which the Gaussian noise of a horizon needs",
        )
    if contract.split is not None:
        expected = (
            "no such key: a series holds no rows out; `queries` names public rows to measure on"
        )
        raise DeclarationError(file, "split", "is given beside a horizon", expected)
    if person is not None:
        _check_person(person.max_rows, person.max_rows_in_horizon, file)


def _check_columns(contract: Contract, file: str) -> None:
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
            raise DeclarationError(
                file,
                f"source.{key}",
                "is also used otherwise",
                "a column of the source that is used nowhere else",
            )
    # a row and its correction would be two units, each protected by itself
    if contract.source.sign is not None and person is None:
        raise DeclarationError(
            file,
            "source.sign",
            "is given where rows are protected",
            "`unit: person`, whose rows and corrections count together",
        )
    # of both rows of a correction one would enter
    if contract.source.sign is not None and person is not None and person.max_rows < 2:
        raise DeclarationError(
            file,
            "privacy.person.max_rows",
            "is 1, and a correction is two rows of one period",
            "2 or more",
        )


def _check_arrival(contract: Contract, file: str) -> None:
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
            raise DeclarationError(file, "source.arrived", "is missing", expected)
        return
    if source.arrived is not None:
        raise DeclarationError(
            file,
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
            raise DeclarationError(
                file, f"checks.{number}.rule", f"is {check.rule} of deliveries", expected
            )


def _check_person(per_period: int, in_horizon: int | None, file: str) -> None:
    key = "privacy.person.max_rows_in_horizon"
    if in_horizon is None:
        raise DeclarationError(
            file, key, "is missing", "how many rows of a person enter in all periods together"
        )
    if in_horizon < per_period:
        raise DeclarationError(
            file, key, f"is {in_horizon}, fewer than max_rows", f"{per_period} or more"
        )


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
