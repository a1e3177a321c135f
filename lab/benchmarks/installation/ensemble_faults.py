"""A thousand queries from the command line, to a server with faults, by processes that are killed
every half minute.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

import yaml

from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from lab.benchmarks.endpoint import FAULTS, FAULTY, elsewhere
from lab.benchmarks.figures import Figures, sized
from tests.harness import Place, install_texts, letters, new_place
from tests.library.endpoint_server import Habits
from tests.library.text_contracts import ENSEMBLE, lines, records

QUERIES, KILL_SECONDS, EPSILON = sized(1_000, 20), 30, 3
COMMAND = (
    "ask",
    "--account",
    "letters",
    "--queries",
    "queries.txt",
    "--count",
    str(QUERIES),
    "--epsilon",
    str(EPSILON),
    "--model",
    "server",
)


def _installed(root: Path, url: str) -> Place:
    """Two thousand private texts with a cap, and a server that may see them."""
    place = new_place(root)
    content = letters(
        privacy={"budget": {"epsilon": EPSILON, "delta": 1e-4}},
        ensemble={**ENSEMBLE, "subsets": 10, "delta": "1/10000"},
    )
    for label in content["task"]["labels"].values():
        label["min_rows"] = 1_000
    install_texts(place, content, lines(records(2_000)), lines(records(4)))
    pipelines = yaml.safe_load((root / "pipelines.yaml").read_text())
    server = {
        "kind": "endpoint",
        "id": "m",
        "url": url,
        "trust": "local",
        "api": "completions",
        "max_connections": 32,
        "deadline_seconds": 20,
    }
    pipelines["models"]["server"] = server
    (root / "pipelines.yaml").write_text(yaml.safe_dump(pipelines, sort_keys=False))
    (root / "queries.txt").write_text(
        "".join(f"letter number {number} of whom?\n" for number in range(QUERIES))
    )
    return place


def _until_killed(place: Place) -> tuple[int | None, list[str]]:
    """The exit code, or None of a process that was killed; and the answers that it gave."""
    process = place.start(*COMMAND)
    try:
        out, error = process.communicate(timeout=KILL_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        out, _ = process.communicate()
        return None, out.splitlines()
    assert process.returncode == 0, error[-2000:]
    return process.returncode, out.splitlines()


def measure(figures: Figures) -> None:
    """Ask until a process ends by itself, then once more: that all stands."""
    with (
        tempfile.TemporaryDirectory() as folder,
        elsewhere(
            Habits(echo="ignores", faults=FAULTS, fault_every=FAULTY, delay_seconds=0.05)
        ) as url,
    ):
        place, started = _installed(Path(folder) / "place", url), time.perf_counter()
        ends: list[tuple[int | None, list[str]]] = []
        while not ends or ends[-1][0] is None:
            ends.append(_until_killed(place))
        print(
            f"{QUERIES} queries, {len(ends) - 1} kills, {100 // FAULTY} % faults: "
            f"{time.perf_counter() - started:.0f} s"
        )
        _, again = _until_killed(place)
        with place.entered(), open_ledger(Settings.from_environment()) as ledger:
            ledger.verify()
            charged, spent = len(ledger.entries("letters")), ledger.spent("letters").epsilon
        slots = Counter(path.suffix for path in (place.home / "private").rglob("slots/0*"))
    changed = sum(
        one != other for _, answers in ends for one, other in zip(answers, again, strict=False)
    )
    figures.at_least("ask-kills", len(ends) - 1, 2)
    figures.exactly(
        "ask-queries-answered-once",
        f"{slots['.answer']} answers in {slots['.json']} slots",
        f"{QUERIES} answers in {QUERIES} slots",
    )
    figures.exactly("ask-answers-that-changed", changed + abs(len(again) - QUERIES), 0)
    figures.exactly("ask-releases-charged", charged, 1)
    figures.at_most("ask-spent", spent, EPSILON)
