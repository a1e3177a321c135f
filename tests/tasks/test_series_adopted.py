"""A night that was charged and not published is not drawn once its ledger came back from receipts:
it may have been seen.
"""

from __future__ import annotations

import pytest

from dpicl.ground.errors import LedgerRefusedError
from dpicl.home.settings import Settings
from dpicl.installation.restore import adopt
from dpicl.methods.mst_series import Series
from tests.harness import Place
from tests.tasks.test_series import killed_at, night, place, published

__all__ = ["place"]


def test_a_charged_night_is_not_drawn_in_a_ledger_from_receipts(place: Place) -> None:
    night(2)
    with killed_at(Series, "draw"):
        night(3)
    settings = Settings.current()
    for name in ("ledger.db", "ledger.anchor.json"):
        (settings.home / name).unlink()
    adopt(settings)
    with pytest.raises(LedgerRefusedError, match="came back from a backup or from receipts"):
        night(3)
    assert len(published()) == 2
