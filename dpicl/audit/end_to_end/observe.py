"""What a world shows: every byte that leaves it, with public nonces made the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dpicl.audit.end_to_end.commands import Command, command_line
from dpicl.audit.end_to_end.world import World

_OWN = ("data", "contracts", "pipelines.yaml")
"""What the world was given."""
_SECRET = (("home", "private"), ("home", "keys"), ("home", "cache"), ("home", "models"))
_PROGRESS = re.compile(r"home/runs/[^/]+/progress/")
"""How long the longest text is that a model writes, while it is written: the release says it too, and its draw is replaced."""
_CLOSED = re.compile(r"(ledger\.db.*|.*anchor.*)$")
"""Files of the ledger, for their owner only: `dpicl budget` is what it shows."""
_NONCES = (
    (re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00| UTC)?"), b"TIME"),
    (re.compile(rb"\d{8}-\d{6}-[0-9a-f]{8}"), b"RUN"),
)


@dataclass(frozen=True)
class Observation:
    """Public bytes by what they are called."""

    seen: Mapping[str, bytes]

    @property
    def code(self) -> int:
        """What the command ended with."""
        return int(self.seen["exit code"])

    @property
    def error(self) -> str:
        """What it said on standard error."""
        return self.seen["stderr"].decode().strip()

    def differing(self, other: Observation) -> list[str]:
        """Names of what the other world shows otherwise, with the first place of it."""
        names = sorted({*self.seen, *other.seen})
        return [_told(name, self.seen.get(name), other.seen.get(name)) for name in names if self.seen.get(name) != other.seen.get(name)]


def observed(world: World, command: Command) -> Observation:
    """Do what is asked in a world, and look at all that is left and was said.

    The caller has entered the world.
    """
    said = command()
    spoken = {"exit code": str(said.code), "stdout": said.out, "stderr": said.err, "log": said.log}
    budget = {" ".join(one): command_line(*one).out for one in (("budget",), ("budget", "shop"))}
    texts = {name: _same(text.encode()) for name, text in (spoken | budget).items()}
    return Observation(texts | {name: content for path in world.root.rglob("*") for name, content in _file(path, world)})


def _file(path: Path, world: World) -> list[tuple[str, bytes]]:
    """A file's content under its name, and its mode beside."""
    parts = path.relative_to(world.root).parts
    if parts[0] in _OWN or (parts[:2] in _SECRET and len(parts) > 2):
        return []
    name = _same("/".join(parts).encode()).decode()
    found = [(f"mode of {name}", oct(path.stat().st_mode).encode())]
    if path.is_file() and not _CLOSED.match(parts[-1]) and not _PROGRESS.match(name):
        found.append((name, _same(path.read_bytes())))
    return found


def _same(content: bytes) -> bytes:
    for nonce, word in _NONCES:
        content = nonce.sub(word, content)
    return content


def _told(name: str, one: bytes | None, other: bytes | None) -> str:
    if one is None or other is None:
        return f"{name}: in one world only"
    first = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    around = [content[max(0, first - 30) : first + 30].decode(errors="replace") for content in (one, other)]
    return f"{name}: {around[0]!r} against {around[1]!r}"
