"""One report as it is sent: its keys, their types and the version.

    {"version": 1, "collection": "5e1d…", "who": "0a…", "question": 3, "answer": 5}       one cell
    of question 3
    {"version": 1, "collection": "5e1d…", "who": "0a…", "question": 3, "bits": [0, 7]}    unary
    encoded: the cells whose bits are set, rising
    {…, "period": "2026-12-01"}                                                           made for a
    period; left out, for none

`collection` names contract, questions and laws (`methods.collection`). `who` is a pseudonym of 32
hexadecimal digits by which a report that comes twice is known; the client makes another one for
each collection and period, of a secret in its wallet.

Guarantee   `question`, `answer` and `bits` have the collection's; the other keys say that a client
            answers, which is no secret here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dpicl.contract.periods import ONCE

VERSION = 1
SCHEMA = pa.schema(
    {
        "version": pa.int64(),
        "collection": pa.string(),
        "who": pa.string(),
        "period": pa.string(),
        "question": pa.int64(),
        "answer": pa.int64(),
        "bits": pa.list_(pa.int64()),
    }
)
"""Of a report; what is left out is null. Reports in Parquet have these columns, and perhaps
others.
"""
Answer = Mapping[str, Any]
"""What a client answers: `question`, and `answer` or `bits`."""


@dataclass(frozen=True)
class Sender:
    """What stands beside an answer: the collection, who sends, and the period."""

    collection: str
    who: str
    period: str = ONCE

    def report(self, answer: Answer) -> dict[str, Any]:
        """The report as it is sent."""
        period = {} if self.period == ONCE else {"period": self.period}
        return {
            "version": VERSION,
            "collection": self.collection,
            "who": self.who,
            **period,
            **answer,
        }
