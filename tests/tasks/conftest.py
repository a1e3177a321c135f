"""A fresh installation, and the session's, for tests of this folder."""

from tests.cli.conftest import cli, place, world

__all__ = ["cli", "place", "world"]
