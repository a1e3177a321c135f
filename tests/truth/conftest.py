"""Where most claims are tried."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import Place, new_place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A fresh installation that this process works in."""
    place = new_place(tmp_path / "place")
    with place.entered():
        yield place
