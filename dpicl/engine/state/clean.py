"""Retention: runs that are old enough, and whatever killed processes have left, are removed;
budgets and releases never.

Safe beside anything that works here, safe twice at once, and safe if it is killed: what it had
renamed goes the next time.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dpicl.accounting.ledger import horizons
from dpicl.accounting.ledger.chain import folded_up_to, read_end
from dpicl.accounting.ledger.database import SCHEMA, schema_of
from dpicl.accounting.ledger.fold import Fold
from dpicl.contract.periods import was_over
from dpicl.engine.frozen import FOLDER
from dpicl.engine.open_ledger import ledger_file, looked_at
from dpicl.engine.settings import Settings
from dpicl.engine.state.leftovers import DAY, Leftover, expired, orphans
from dpicl.engine.state_home import check_restored
from dpicl.errors import LedgerRefusedError


@dataclass(frozen=True)
class Removed:
    """What went, or would go; bytes are None of private files."""

    path: Path
    what: str
    size: int | None
    is_run: bool


def clean(settings: Settings, keep_days: int | None, *, dry_run: bool = False) -> Iterator[Removed]:
    """Remove what may go, one after another; with `dry_run` only say so.

    Args:
        keep_days: how long runs are kept after their last change; None for ever.

    Raises:
        LedgerRefusedError: a move or a restore is not finished.
    """
    check_restored(settings.home)
    now = time.time()
    before = -math.inf if keep_days is None else now - keep_days * DAY
    old = () if keep_days is None else expired(settings, before)
    seen: set[Path] = set()
    for leftover in (
        *orphans(settings, now, published(settings), rows_elsewhere=before),
        *_ended(settings, before),
        *old,
    ):
        if leftover.path in seen:
            continue
        seen.add(leftover.path)
        removed = Removed(leftover.path, leftover.what, leftover.size, leftover.is_run)
        if dry_run or leftover.remove():
            yield removed


def published(settings: Settings) -> set[str]:
    """Names of the releases that are published by the ledger; none where there is no ledger."""
    charges = _fold(settings).charges.values()
    return {charge.release_id for charge in charges if charge.artefact_sha256 is not None}


def _fold(settings: Settings) -> Fold:
    """What the ledger says, as it is and unchecked; nothing where there is none of this schema."""
    file = ledger_file(settings)
    if file is None or file.exists():
        with looked_at(settings) as connection:
            if schema_of(connection) == SCHEMA:
                return folded_up_to(connection, None, read_end(connection, None))
    return Fold()


def _ended(settings: Settings, before: float) -> Iterator[Leftover]:
    """Private counts of horizons that go no further: the ledger came back since, or the last period
    was over before that time.
    """
    folders = list((settings.home / FOLDER).glob("[0-9a-f]*"))
    fold = _fold(settings) if folders else Fold()
    for folder in folders:
        if (horizon := fold.charges.get(folder.name)) is None:
            continue
        if math.isfinite(before) and was_over(
            json.loads(horizon.parameters)["last"], datetime.fromtimestamp(before, UTC)
        ):
            yield Leftover(folder, "counts of a horizon that is over", is_private=True)
            continue
        try:
            horizons.check_kept(fold, horizon)
        except LedgerRefusedError:
            yield Leftover(folder, "counts of a horizon that cannot go on", is_private=True)
