"""What a command of the checklist shows: all that it prints, and the text of what it writes beside
its runs.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

COMMANDS: Mapping[str, list[str]] = yaml.safe_load(
    Path(__file__).with_name("commands.yaml").read_text("utf-8")
)
TEXTS = ("*.md", "results.csv", "plan.json", "releases.json", "demonstrations.json", "*.txt")
SECONDS = 1500


@dataclass(frozen=True)
class Evidence:
    """Exit codes of a command's lines, and all that there is to read, with single spaces."""

    codes: tuple[int, ...]
    text: str

    def shows(self, seen: str) -> bool:
        """Whether the parts of `seen`, which ` … ` separates, stand there in their order; <n> is
        any number.
        """
        parts = (
            re.escape(" ".join(part.split())).replace("<n>", r"[−-]?\d[\d.,]*")
            for part in seen.split(" … ")
        )
        return (
            re.search(r".*?".join(rf"(?<!\w){part}(?!\w)" for part in parts), self.text, re.DOTALL)
            is not None
        )


def run(name: str, folder: Path) -> Evidence:
    """The lines of a command in a home of their own below a folder."""
    environment = {
        **os.environ,
        "DPICL_HOME": str(folder / "home"),
        "DPICL_RUNS": str(folder / "runs"),
        "COLUMNS": "200",
    }
    program, codes, told = str(Path(sys.executable).with_name("dpicl")), [], []
    for line in COMMANDS[name]:
        _, *arguments = shlex.split(line)
        done = subprocess.run(
            [program, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
            cwd=folder,
        )
        codes.append(done.returncode)
        told += [f"$ {line}", done.stdout, done.stderr]
    return Evidence(tuple(codes), " ".join("\n".join([*told, *_written(folder)]).split()))


def _written(folder: Path) -> Iterable[str]:
    """Pages, results, plans and demonstrations."""
    for path in sorted({path for pattern in TEXTS for path in folder.rglob(pattern)}):
        text = path.read_text("utf-8")
        yield (
            f"{path.name}: "
            f"{json.dumps(json.loads(text), ensure_ascii=False) if path.suffix == '.json' else text}"  # noqa: E501
        )
