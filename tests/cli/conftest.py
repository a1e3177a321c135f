"""The session's installation for tests of this folder."""

from tests.harness import world

__all__ = ["world"]
