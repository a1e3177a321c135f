"""Deaths of a release of many texts: killed at random moments, continued by the same command,
compared with one that nobody disturbed.

A small private set, texts written by a stand-in that repeats examples, in several blocks. Two kinds
of trials:

    begun    from a copy of a place in which the first step is journalled: what is released must be
             the bytes of the undisturbed copy
    fresh    from nothing: kills hit reading, charging and publishing too; there is one charge, and
             what stands is never drawn anew

A second draw is a step of the journal, or a published text, that was there at one death and is
another one later.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from lab.benchmarks.figures import Figures, sized
from lab.benchmarks.speed.fork_server import own_fork_server
from tests.harness import Place, install_texts, letters, new_place
from tests.library.text_contracts import lines, records

TEXTS, VOTERS, TOKENS, ROWS = sized(120, 8), 2, 6, 400
KILLS, KILLS_A_TRIAL = sized(120, 1), sized(6, 1)
NAME = "notes"
OPTIONS = ("mechanism=invisible-ink", "batches=fixed", f"voters={VOTERS}", f"max_tokens={TOKENS}")


@dataclass
class Verdict:
    """What a trial has shown."""

    kills: int = 0
    second_draws: int = 0
    charges: int = 0
    released: bytes = b""
    journalled: int = 0
    """Deaths at which some steps were journalled and the release was not published."""
    seen: dict[str, bytes] = field(default_factory=dict)


def release(root: Path, environment: dict[str, str]) -> None:
    """The command, in a process of its own."""
    os.environ.update(environment)
    from dpicl.cli.ask import Files, chosen_options, release_to_file
    from dpicl.release.request import ReleaseRequest

    request = ReleaseRequest(
        dataset=NAME, epsilon=4, shots=TEXTS, options=chosen_options(OPTIONS), generator="fake"
    )
    for number in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)
    release_to_file(request, Files(root / "texts.jsonl", "jsonl"))


@contextmanager
def installed() -> Iterator[Place]:
    """A private set that suffices for these texts, where kills cost little; nothing is released of
    it.
    """
    memory = Path("/dev/shm")
    with (
        tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder,
        own_fork_server(["lab.benchmarks.crash.warm"]),
    ):
        content = letters(NAME, private=True)
        for words in content["task"]["labels"].values():
            words["min_rows"] = VOTERS * TEXTS // 2
        place = new_place(Path(folder) / "place")
        install_texts(place, content, lines(records(ROWS)), lines(records(4)))
        yield place


def started(place: Place) -> Any:
    """A process that releases."""
    process = multiprocessing.get_context("forkserver").Process(
        target=release, args=(place.root, place.environment)
    )
    process.start()
    return process


def journal(place: Place) -> dict[str, bytes]:
    """Every step that stands, and what is published, by name."""
    found = {}
    for path in (
        *place.home.glob("private/journals/**/[0-9s]*"),
        *place.home.glob(f"released/{NAME}/*"),
    ):
        with suppress(FileNotFoundError, IsADirectoryError):
            if path.name == "seed" or path.suffix in ("", ".json"):
                found[f"{path.parent.name}/{path.name}"] = path.read_bytes()
    return found


def look(place: Place, verdict: Verdict) -> None:
    """Compare what stands now with what stood before."""
    now = journal(place)
    verdict.second_draws += sum(
        verdict.seen[name] != content for name, content in now.items() if name in verdict.seen
    )
    verdict.seen |= now
    verdict.journalled += any(name.endswith(".json") for name in now)


def end_of(place: Place, verdict: Verdict) -> Verdict:
    """Let it finish, and read what it left."""
    process = started(place)
    process.join(120)
    assert process.exitcode == 0, f"the release ended with {process.exitcode}"
    look(place, verdict)
    with place.entered(), open_ledger(Settings.from_environment()) as ledger:
        ledger.verify()
        verdict.charges = sum(len(ledger.entries(account.name)) for account in ledger.accounts())
    verdict.released = (place.root / "texts.jsonl").read_bytes()
    return verdict


def trial(place: Place, kills: int, longest: float, chance: random.Random) -> Verdict:
    """Kill so often, each within so many seconds, then let it finish."""
    verdict = Verdict()
    for _ in range(kills):
        process = started(place)
        process.join(chance.uniform(0, longest))
        verdict.kills += process.exitcode is None
        process.kill()
        process.join()
        look(place, verdict)
        # it ended before it could be killed: the file goes, the release stands
        if (place.root / "texts.jsonl").exists():
            for left in place.root.glob("texts.jsonl*"):
                left.unlink()
    return end_of(place, verdict)


def restored(place: Place, copy: Path) -> None:
    """The place as it was; where a set lies is a part of its account, so that it is always the same
    folder.
    """
    shutil.rmtree(place.root)
    shutil.copytree(copy, place.root, symlinks=True)


def begin(place: Place) -> None:
    """Die once the first step stands."""
    process = started(place)
    while process.is_alive() and not list(place.home.glob("private/journals/**/[0-9]*.json")):
        time.sleep(0.001)
    assert process.is_alive(), "it ended before a step was journalled"
    process.kill()
    process.join()


def run_trials(kills: int, seed: int = 0) -> tuple[list[Verdict], list[Verdict], bytes]:
    """Verdicts on begun and on fresh trials, with together so many kills at least, and what the
    undisturbed release is.
    """
    chance, begun, fresh = random.Random(seed), list[Verdict](), list[Verdict]()
    with installed() as place:
        empty, first = place.root.with_name("empty"), place.root.with_name("first")
        shutil.copytree(place.root, empty, symlinks=True)
        begin(place)
        shutil.copytree(place.root, first, symlinks=True)
        clock = time.perf_counter()
        undisturbed = end_of(place, Verdict()).released
        longest = time.perf_counter() - clock
        while sum(verdict.kills for verdict in (*begun, *fresh)) < kills:
            for trials, copy in ((begun, first), (begun, first), (fresh, empty)):
                restored(place, copy)
                trials.append(trial(place, KILLS_A_TRIAL, longest, chance))
    return begun, fresh, undisturbed


def measure(figures: Figures, kills: int = KILLS) -> None:
    """All trials."""
    begun, fresh, undisturbed = run_trials(kills)
    every = [*begun, *fresh]
    print(
        f"{sum(verdict.kills for verdict in every)} kills of {len(every)} releases of {TEXTS} "
        f"texts, "
        f"{sum(verdict.journalled for verdict in every)} of them between the first step and the "
        f"last"
    )
    figures.exactly("texts-kills-second-draws", sum(verdict.second_draws for verdict in every), 0)
    figures.exactly(
        "texts-kills-other-bytes-than-undisturbed",
        sum(verdict.released != undisturbed for verdict in begun),
        0,
    )
    figures.exactly(
        "texts-kills-charges-beside-the-first", sum(verdict.charges - 1 for verdict in every), 0
    )


def main() -> None:
    """Only this."""
    figures = Figures()
    measure(figures)
    figures.finish()


if __name__ == "__main__":
    main()
