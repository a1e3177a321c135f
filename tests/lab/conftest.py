"""The session's installation for tests of this folder, and one of their own."""

from tests.cli.conftest import place, world

__all__ = ["place", "world"]
