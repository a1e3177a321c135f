"""The session's installation for tests of this folder."""

from __future__ import annotations

from tests.harness import place, world

__all__ = ["place", "world"]
