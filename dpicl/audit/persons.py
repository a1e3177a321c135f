"""Audit of a whole central release that protects persons: somebody with many rows more."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dpicl.accounting.guarantee import Neighbours
from dpicl.audit.bounds import Trial
from dpicl.audit.case import AuditCase, Mutant
from dpicl.audit.neighbours import CATEGORIES, SHOTS, category, in_every_group
from dpicl.audit.releases import in_runs
from dpicl.contract import Contract
from dpicl.methods import Options, gdp_tabicl, unit_of
from dpicl.methods.gdp_tabicl import GdpTabicl
from dpicl.randomness import Draws, Stream
from dpicl.types import PrivateTable

MOST, HELD = 2, 6
"""Rows of a person that may enter, and rows that the person has."""
EPSILON = 0.5
"""Of one row."""


def owned(max_rows: int) -> Contract:
    """Persons' rows of one category column, so many of each may enter."""
    plain = category()
    privacy = {"unit": "person", "person": {"id_column": "who", "max_rows": max_rows}}
    return plain.model_copy(update={"privacy": type(plain.privacy).model_validate({**plain.privacy.model_dump(), **privacy})})


def _owned(table: PrivateTable) -> PrivateTable:
    """Every group's rows are one person's."""
    return PrivateTable(table.data.append_column("who", pa.array(np.arange(table.row_count, dtype=np.int64) // HELD)))


def _trial(max_rows: int) -> Trial:
    """Nobody, and one person with many rows of the last category in every group; bounded, grouped and averaged by the method."""
    contract = owned(max_rows)
    unit = unit_of(GdpTabicl.name, contract.name, 0, (EPSILON,), (SHOTS,), (), False, Options())
    tables = {which: _owned(in_every_group(contract, {"kind": CATEGORIES[-1]}, HELD * which)) for which in (False, True)}

    def draw(which: bool, count: int, stream: Stream) -> np.ndarray:
        def release() -> list[bool]:
            draws = Draws(stream.below(1 << 64), contract.name, simulated=True)
            members = gdp_tabicl.subsample_and_group(tables[which], contract, unit, draws)
            (released,) = gdp_tabicl.aggregate(tables[which], members, contract, unit, draws).values()
            return [group.values["kind"] == CATEGORIES[-1] for group in released.groups]

        return in_runs(count, release)

    return Trial(draw, {"the last": lambda hits: hits})


def person_case() -> AuditCase:
    """A release of one category, of which a person owns many rows."""
    return AuditCase(
        "gdp-release-person",
        f"whole central release, a person with {HELD} rows of which {MOST} may enter",
        MOST * EPSILON,
        Neighbours.ADD_OR_REMOVE_ONE,
        "person",
        _trial(MOST),
        (Mutant("no-contribution-bound", "all rows of a person enter, yet the bound is claimed", _trial(HELD)),),
    )
