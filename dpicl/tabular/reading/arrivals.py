"""In which period of a horizon a row arrived: said by the row's own day, or by the file that it was
delivered in (`deliveries`).

Trust       as the method that calls it: how many rows a period has stays secret.
Unit        One row.
Neighbours  both: a row's period depends on that row alone, so that one that comes, goes or changes
            moves no other.
Guarantee   none spent; stability 1 (`stability`). A row whose period was counted before it came is
            late, and enters nowhere: periods that are counted are not read again.

Symbols     periods are counted from 1; rows of days before the first belong to it, those of days
            after the last to none, 0.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np

from dpicl.contract.models import Contract
from dpicl.contract.periods import period_at
from dpicl.tabular.reading.deliveries import PERIOD, were_read
from dpicl.types import PrivateTable

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY, _LAST_DAY = (
    (end.replace(tzinfo=UTC) - _EPOCH).days for end in (datetime.min, datetime.max)
)
"""Of the calendar; a column of dates may hold others."""


def arrival_periods(table: PrivateTable, contract: Contract) -> np.ndarray:
    """The period of each row: shape (rows,), int64; the column of a row's day has days since
    1970.
    """
    if contract.is_delivered:
        return table.numbers(PERIOD)
    releases = contract.releases
    days, places = np.unique(table.numbers(str(contract.source.arrived)), return_inverse=True)
    number = {name: index for index, name in enumerate(releases.calendar.periods, 1)}
    first = (releases.first_day - _EPOCH).days

    def period_of(day: int) -> int:
        if day > _LAST_DAY:
            return 0
        return number.get(
            period_at(releases.every, _EPOCH + timedelta(days=max(day, _FIRST_DAY))),
            1 if day < first else 0,
        )

    return np.array([period_of(int(day)) for day in days], dtype=np.int64)[places]


def has_arrivals(table: PrivateTable, contract: Contract, period: int) -> bool:
    """Whether a table holds the rows of a period, if there are any: of deliveries, only of those
    that were read.
    """
    return not contract.is_delivered or period in were_read(table.data)
