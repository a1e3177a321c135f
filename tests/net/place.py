"""One installation of the net's own, the commands that run in it, and what is noted of them."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
DIGITS = 9
"""Of a float, as every machine gives them."""
PLACES = 20
"""Of a digest and of a release's name, in hexadecimal."""
QUIET = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "GX_ANALYTICS_ENABLED": "false",
    "HF_HUB_OFFLINE": "1",
}
KEPT = ("PATH", "HOME", "LANG", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "TMPDIR")
TRIED = ("NPY_DISABLE_CPU_FEATURES", "OPENBLAS_CORETYPE", "ATEN_CPU_CAPABILITY", "PYTHONHASHSEED")
"""Set by hand to see whether values go by the processor."""


CHARGED = ("account", "releases", "charged_before", "epsilon", "delta", "allowed", "release")
COUNTED = ("counted", "duplicate", "contradictory", "late", "elsewhen", "foreign", "forged")
MEASURED = ("method", "dataset", "system", "shots", "epsilon", "metric", "first", "second")
KEYS = ("release", "mechanism", "epsilon", "delta", "epsilon_total", "state")
PICKED = {*CHARGED, *COUNTED, *MEASURED}


@dataclass(frozen=True)
class Driver:
    """A process of driver.py."""

    process: subprocess.Popen[str]

    def run(self, words: Sequence[str], folder: Path, env: dict[str, str], given: str) -> Any:
        """Code, output and errors of a command."""
        task = {"words": words, "folder": str(folder), "environment": env, "input": given}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def bare_environment() -> dict[str, str]:
    """Of the caller's environment what says nothing of an installation, and constant secrets."""
    kept = {name: os.environ[name] for name in (*KEPT, *TRIED) if name in os.environ}
    return {
        "OMP_NUM_THREADS": "1",  # the threads of OpenMP do not survive a fork
        **kept,
        **QUIET,
        "PYTHONPATH": os.pathsep.join((str(HERE / "fixed"), str(REPOSITORY))),
    }


@contextmanager
def driver() -> Iterator[Driver]:
    """Ended with the block."""
    command = [sys.executable, "-m", "tests.net.driver"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=bare_environment(), cwd=REPOSITORY, **pipes) as process:
        try:
            yield Driver(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()


@dataclass(frozen=True)
class Place:
    """An installation: a folder in which commands run, whose state begins empty.

    Attributes:
        data: the folder of made-up rows, which many places share.
        cache: of models that are written out once.
    """

    root: Path
    data: Path
    cache: Path
    driver: Driver
    extra: tuple[tuple[str, str], ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        """What the documentation says of where things are."""
        return {
            **bare_environment(),
            "DPICL_HOME": str(self.root / "home"),
            "DPICL_RUNS": str(self.root / "runs"),
            "DPICL_DATA": str(self.data),
            "DPICL_CONTRACTS": str(self.data.parent / "contracts"),
            "DPICL_PIPELINES": str(self.data.parent / "pipelines.yaml"),
            "XDG_CONFIG_HOME": str(self.root / "settings"),
            "XDG_CACHE_HOME": str(self.cache),
            "SHOP_DATABASE": f"sqlite:///{self.data}/shop.db",
            **dict(self.extra),
        }

    @property
    def words(self) -> dict[str, str]:
        """What paths in a line begin with, and where that is."""
        contracts = self.data.parent / "contracts"
        return {"DATA": str(self.data), "CONTRACTS": str(contracts), "ROOT": str(self.root)}

    def run(self, line: str) -> Any:
        """A line as in a terminal: words, then files after `<` and `>`."""
        words, environment = shlex.split(line), dict(self.environment)
        while "=" in words[0]:
            name, _, value = words.pop(0).partition("=")
            environment[name] = value
        given, sent = _taken(words, "<"), _taken(words, ">")
        given = str(self.data / given) if given else os.devnull
        if words[0] == "python" or "prefect" in words:
            done = self._process(words, given)
        else:
            done = self.driver.run(words, self.root, environment, given)
        if sent:
            file = self.root / sent
            file.parent.mkdir(exist_ok=True)
            file.write_text(done["out"], "utf-8")
        return done

    def _process(self, words: list[str], given: str) -> dict[str, Any]:
        command = [str(Path(sys.executable).with_name(words[0])), *words[1:]]
        with Path(given).open() as file:
            done = subprocess.run(
                command,
                env=self.environment,
                cwd=self.root,
                stdin=file,
                capture_output=True,
                text=True,
                check=False,
                timeout=600,
            )
        return {"code": done.returncode, "out": done.stdout, "err": done.stderr}


def _taken(words: list[str], mark: str) -> str:
    """The word behind a mark, both taken out; empty where there is none."""
    if mark not in words:
        return ""
    at = words.index(mark)
    word = words[at + 1]
    del words[at : at + 2]
    return word


def noted(place: Place, line: str) -> str | list[str]:
    """Exit code of a command, and the digest of what it hands out, if it does."""
    words = shlex.split(line)
    handed = [place.root / words[words.index(mark) + 1] for mark in ("--out", ">") if mark in words]
    for file in handed:
        file.unlink(missing_ok=True)
        file.with_name(f"{file.name}.certificate.json").unlink(missing_ok=True)
    done = place.run(line)
    code, found = str(done["code"]), ""
    if os.environ.get("NET_SHOWS"):
        print(line, done["code"], done["out"][-600:], done["err"][-1500:], sep="\n  ")
    if done["code"] == 0 and handed and handed[0].exists():
        found = digest(handed[0])
    elif done["code"] == 0 and "--json" in words:
        found = _sha(canonical(_picked(json.loads(done["out"]))).encode())
    elif done["code"] == 0 and words[:2] == ["dpicl", "ask"]:
        found = _sha(done["out"].encode())
    elif words[0] == "use":
        return [code, *done["out"].splitlines()]
    return f"{code} {found}".strip()


def _picked(content: Any) -> Any:
    """Of documented keys those that say what is charged, counted and measured: others may come."""
    if isinstance(content, list):
        return [_picked(part) for part in content]
    if "cells" in content:
        return _picked(content["cells"])
    return {key: part for key, part in content.items() if key in PICKED}


def digest(file: Path) -> str:
    """SHA-256 of a file's bytes; of Parquet's rows, since its bytes name who wrote them."""
    if file.suffix == ".parquet":
        frame = pd.read_parquet(file)
        types = ",".join(str(kind) for kind in frame.dtypes)
        return _sha((types + "\n" + frame.to_csv(index=False)).encode())
    return _sha(file.read_bytes())


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:PLACES]


def canonical(content: Any) -> str:
    """JSON with sorted keys, and floats of as many digits as every machine gives."""
    return json.dumps(rounded(content), sort_keys=True)


def rounded(content: Any) -> Any:
    """The same content, floats rounded."""
    if isinstance(content, dict):
        return {key: rounded(part) for key, part in content.items()}
    if isinstance(content, list):
        return [rounded(part) for part in content]
    if isinstance(content, float):
        return float(f"{content:.{DIGITS}g}")
    return content


def accounts(place: Place) -> dict[str, Any]:
    """By account its cap, what is spent, and every release in the order of charges; the exit code
    where a ledger is refused.

    A release is its name, mechanism, epsilon, delta, the account's total, and state.
    """
    every = place.run("dpicl budget --json")
    if every["code"] != 0:
        return {"exit code": every["code"]}
    shown: dict[str, Any] = {}
    for account in json.loads(every["out"]):
        name = account["account"]
        if not account["releases"]:  # whether a refusal opens one is nobody's concern
            continue
        releases = json.loads(place.run(f"dpicl budget {name} --json")["out"])
        shown[name] = {
            "spent": account["epsilon_spent"],
            "cap": account["epsilon_cap"],
            "delta_cap": account["delta_cap"],
            "protects": f"{account['unit']}, {account['neighbours']}",
            "releases": [_line(release[key] for key in KEYS) for release in releases],
        }
        assert len(releases) == account["releases"]
    return rounded(shown)


def _line(facts: Iterable[Any]) -> str:
    name, *others = (str(rounded(fact)) for fact in facts)
    return " ".join((name[:PLACES], *others))
