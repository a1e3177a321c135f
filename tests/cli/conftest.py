"""The session's installation for tests of this folder, one of their own, and its command line."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

import pytest

from tests.harness import complaint, place, said, typed, world

__all__ = ["place", "world"]


@dataclass(frozen=True)
class Cli:
    """`dpicl` in this process: a line, split as a shell splits it, and what is not split."""

    capsys: pytest.CaptureFixture[str]

    def __call__(self, line: str, *more: str) -> str:
        """What a command that succeeds prints."""
        return said(self.capsys, *shlex.split(line), *more)

    def whole(self, line: str, *more: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        return typed(self.capsys, *shlex.split(line), *more)

    def ended(self, line: str, *more: str) -> tuple[int, str]:
        """Exit code and standard error."""
        code, _, err = self.whole(line, *more)
        return code, err

    def refused(self, line: str, *more: str) -> str:
        """The one sentence of a command that is refused."""
        return complaint(self.ended(line, *more))


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)
