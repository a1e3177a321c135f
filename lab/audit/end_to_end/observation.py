"""All that leaves of a command in a world: what it says, what it does, every file it leaves; with
public nonces made the same.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from dpicl.runs.stage import Stage
from lab.audit.end_to_end.commands import Command, command_line
from lab.audit.end_to_end.leaves import MODE, OTHERS, leaf_of, unlisted
from lab.audit.end_to_end.world import NAME, World

_NONCES = (
    (re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00| UTC)?"), b"TIME"),
    (re.compile(rb"\d{8}-\d{6}-[0-9a-f]{8}"), b"RUN"),
    (re.compile(rb"\d\.\d+e\+09"), b"TIME"),
)


@dataclass(frozen=True)
class Observation:
    """Public bytes by what they are called, as the list of what leaves calls them."""

    seen: Mapping[str, bytes]

    @property
    def code(self) -> int:
        """What the command ended with."""
        return int(self.seen["exit code"])

    @property
    def error(self) -> str:
        """Standard error."""
        return self.seen["stderr"].decode().strip()

    def differing(self, other: Observation) -> list[str]:
        """Names of what the other world shows differently, with the first place where it does; and
        of what either shows and is on no list.
        """
        differences = list(dict.fromkeys([*unlisted(self.seen), *unlisted(other.seen)]))
        for name in sorted({*self.seen, *other.seen}):
            mine, theirs = self.seen.get(name), other.seen.get(name)
            if mine is None or theirs is None:
                differences.append(f"{name}: in one world only")
            elif mine != theirs:
                first = next(
                    (at for at, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b),
                    min(len(mine), len(theirs)),
                )
                around = [
                    content[max(0, first - 30) : first + 30].decode(errors="replace")
                    for content in (mine, theirs)
                ]
                differences.append(f"{name}: {around[0]!r} against {around[1]!r}")
        return differences


def observed(world: World, command: Command) -> Observation:
    """Run a command in a world that the caller has entered, and collect what it says and does, and
    all files that it leaves.
    """
    before = set(world.root.rglob("*"))
    with _stages_listed() as stages:
        output = command()
    shown = _files(world, before)  # before anything else looks at them
    texts = {
        "exit code": str(output.code),
        "stdout": output.out,
        "stderr": output.err,
        "log": output.log,
    }
    texts |= {"warnings": output.warnings, "tasks": "\n".join(stages), "ledger": _ledger(world)}
    texts |= {
        " ".join(typed): command_line(*typed).out
        for typed in (("budget",), ("budget", NAME), ("metrics",))
    }
    return Observation(
        shown | {name: without_nonces(text.encode()) for name, text in texts.items()}
    )


def _files(world: World, before: Collection[Path]) -> dict[str, bytes]:
    """All files and folders with their modes, but for what stood among the world's own before, and
    what is hidden from all but the holder.
    """
    shown: dict[str, bytes] = {}
    for path in world.root.rglob("*"):
        parts = path.relative_to(world.root).parts
        if path in before and parts[0] in world.given:
            continue
        name = without_nonces("/".join(parts).encode()).decode()
        leaf, mode = leaf_of(name), path.lstat().st_mode
        if leaf is not None and leaf.is_hidden and not mode & OTHERS:
            continue
        shown[f"{MODE}{name}"] = oct(mode).encode()
        if path.is_file() and (leaf is None or leaf.is_compared):
            shown[name] = without_nonces(path.read_bytes())
    return shown


@contextmanager
def _stages_listed() -> Iterator[list[str]]:
    """The stages that are done meanwhile, in order, with what each is called with and gives back:
    an orchestrator's tasks, and their results.
    """
    done: list[str] = []
    call = Stage.__call__

    def listed(self: Stage, *references: Any) -> str:
        done.append(f"{self.name} {references}")
        done[-1:] = [f"{self.name} {references}: {(line := call(self, *references))}"]
        return line

    with patch.object(Stage, "__call__", listed):
        yield done


def _ledger(world: World) -> str:
    """What the ledger says, as SQL; nothing where there is none."""
    file = world.home / "ledger.db"
    if not file.exists():
        return ""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as ledger:
        return "\n".join(ledger.iterdump())


def without_nonces(content: bytes) -> bytes:
    """With one word for every time, and for every name of a run that was drawn."""
    for nonce, word in _NONCES:
        content = nonce.sub(word, content)
    return content
