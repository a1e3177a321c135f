"""A fresh installation, and the session's, for tests of this folder."""

from tests.harness import place, world

__all__ = ["place", "world"]
