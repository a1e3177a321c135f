"""A copy of the working tree in which tests run: the tree itself is never touched."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
_MISSING = re.compile(r"^ERROR: (?:not found: |file or directory not found: )(.+)$", re.MULTILINE)
_A_TEST = "--timeout=180"
CAUGHT, PASSED, NOT_BEGUN, TOO_LONG = 1, 0, 4, -1


def files() -> list[str]:
    """All files of the working tree that git does not ignore."""
    told = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(told, cwd=ROOT, check=True, capture_output=True).stdout  # noqa: S603
    return sorted(name for name in set(names.decode().split("\0")) if (ROOT / name).is_file())


def digest(names: Sequence[str]) -> str:
    """Of these files' names and contents."""
    contents = (hashlib.sha256((ROOT / name).read_bytes()).hexdigest() for name in names)
    return digest_of(part for pair in zip(names, contents, strict=True) for part in pair)


def digest_of(texts: Iterable[str]) -> str:
    """Of these texts in their order."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


@dataclass(frozen=True)
class Outcome:
    """How tests ended: `code` is pytest's, or TOO_LONG; `failed` names tests."""

    code: int
    failed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass
class Checkout:
    """One copy. `folder` is empty at first; one program at a time works in it."""

    folder: Path
    names: Sequence[str]
    changed: str | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        for name in self.names:
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, self.tree / name)
        (self.tree / ".venv").symlink_to(ROOT / ".venv")

    @property
    def tree(self) -> Path:
        """The copy's root."""
        return self.folder / "tree"

    def put(self, name: str, content: bytes) -> None:
        """Let one file have another content; the one before gets its own again."""
        self.restore()
        self._write(name, content)
        self.changed = name

    def restore(self) -> None:
        """As it was copied."""
        if self.changed is not None:
            self._write(self.changed, (ROOT / self.changed).read_bytes())
            self.changed = None

    def _write(self, name: str, content: bytes) -> None:
        file = self.tree / name
        file.write_bytes(content)
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            compiled.unlink()  # it is told from another one by size and second alone

    def test(self, arguments: Sequence[str], seconds: float) -> Outcome:
        """Run these tests, in these seconds at most."""
        temporary = self.folder / "t"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        beside = ROOT.parent / "shared" / "data"
        data = os.environ.get("DPICL_DATA") or (str(beside) if beside.is_dir() else "")
        environment = os.environ | {"PYTHONPATH": str(self.tree), "TMPDIR": str(temporary)}
        environment |= {"DPICL_DATA": data} if data else {}
        options = ["-q", "-p", "no:cacheprovider", "--tb=no", _A_TEST]
        command = [sys.executable, "-m", "pytest", *options, *arguments]
        with subprocess.Popen(  # noqa: S603
            command,
            cwd=self.tree,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as running:
            try:
                told, _ = running.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, signal.SIGKILL)
                return Outcome(TOO_LONG)
        missing = (name.removeprefix(f"{self.tree}/") for name in _MISSING.findall(told))
        return Outcome(running.returncode, tuple(_FAILED.findall(told)), tuple(missing))
