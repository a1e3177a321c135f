"""The session's Prefect server for tests of this folder."""

from __future__ import annotations

from tests.harness import world

__all__ = ["world"]
