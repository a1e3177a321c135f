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


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state home of its own, and nothing else that is set."""
    for name in ("DPICL_RUNS", "DPICL_CONTRACTS", "DPICL_DATA", "DPICL_LOG_FORMAT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DPICL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"
