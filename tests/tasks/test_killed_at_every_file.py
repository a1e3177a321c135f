"""A run that is killed at every single file it writes ends like one that was left alone."""

from __future__ import annotations

import json
import signal
import stat
from pathlib import Path

import pytest

from dpicl.ground.files import read_arrays
from dpicl.home.settings import ANCHOR
from dpicl.ledger.keys import Anchor
from dpicl.release.table_files import kept_table, read_table
from dpicl.runs.run_folder import SPENDING
from dpicl.runs.stage import VERDICTS
from tests.harness import (
    SMALL,
    Place,
    content,
    differences,
    install,
    install_texts,
    is_temporary,
    letters,
    new_place,
    rows,
    shop,
    shop_rows,
)
from tests.tasks.stages import End, in_process

PLAIN = {**SMALL, "datasets": ["shop"], "epsilons": ["1"]}
WRITTEN = {
    "methods": ["few_shot_generation", "dp_icl"],
    "datasets": ["letters"],
    "shots": [2],
    # Gaussian noise would be priced again after every death
    "options": {
        "few_shot_generation": {"mechanism": "exponential"},
        "dp_icl": {
            "noise": "exponential",
            "variants": {"near": {"noise": "exponential", "similarity": 0.2, "participations": 1}},
        },
    },
}
REWRITTEN = ("timings", "progress", "manifest.json", "report.")
"""Times and dates differ from run to run."""
BENCHMARK_TEXTS, JOURNALS = "benchmark texts", "journals/"
ANCHORS = (ANCHOR, "newest.json")
READERS = {
    ".json": lambda path: (
        Anchor(path).read() if path.name in ANCHORS else json.loads(path.read_text())
    ),
    ".npz": read_arrays,
    ".parquet": read_table,
    ".arrow": kept_table,
    ".csv": rows,
}


def shop_place(root: Path, *, private: bool) -> Place:
    place = new_place(root)
    install(place, shop(private=private), shop_rows(80))
    install_texts(place, letters(private=private))
    return place


def attempt(place: Place, end: End, method: str = "") -> int:
    """Do the run: of one method on private rows, or of those for tables on a benchmark; or on
    benchmark texts.
    """
    if method == BENCHMARK_TEXTS:
        return in_process(place.environment, "demo", {**PLAIN, **WRITTEN}, "r", end)
    chosen = {**PLAIN, **(WRITTEN if method in WRITTEN["methods"] else {}), "methods": [method]}
    return in_process(
        place.environment, *(("private", chosen) if method else ("demo", PLAIN)), "r", end
    )


def parse_all(folder: Path) -> None:
    """Read every file of a known kind, or fail."""
    for path in folder.rglob("*"):
        if path.is_file() and not is_temporary(path):
            READERS.get(path.suffix, Path.read_bytes)(path)


def kept(folder: Path) -> dict[str, bytes]:
    """A run's files that stay as they are once they are there; what was charged differs with the
    deaths.
    """
    return {
        name: data
        for name, data in content(folder).items()
        if not name.startswith(REWRITTEN) and Path(name).name != SPENDING
    }


def chain(place: Place, end: End, method: str = "") -> tuple[int, dict[str, bytes]]:
    """Start the run again after every death; gives the number of deaths and every file as first
    seen.
    """
    seen: dict[str, bytes] = {}
    for deaths in range(200):
        code = attempt(place, end, method)
        parse_all(place.home)
        now = {**kept(place.run("r")), **journals(place)}
        gone = [name for name in seen if name not in now and not name.startswith(JOURNALS)]
        assert not gone, f"death {deaths}: {gone} are gone"
        changed = [name for name in seen if name in now and now[name] != seen[name]]
        assert not changed, f"death {deaths}: {changed} changed after they were there"
        check_modes(place.home / "private")
        seen |= now
        if code == 0:
            left = {
                path.relative_to(place.home / "private").parts[0]
                for path in (place.home / "private").rglob("*")
                if path.is_file()
            }
            assert left <= {"drawn-from", VERDICTS}
            return deaths, seen
        assert code == -signal.SIGKILL
    pytest.fail("the run never ends")


def journals(place: Place) -> dict[str, bytes]:
    """Tokens and seeds of texts that are being written; with their release they go."""
    return {
        JOURNALS + name: data for name, data in content(place.home / "private" / "journals").items()
    }


def check_modes(folder: Path) -> None:
    """What is private is for its owner only, drafts included."""
    for path in (folder, *folder.rglob("*")) if folder.exists() else ():
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("method", "end"), [("", "torn"), ("", "placed"), (BENCHMARK_TEXTS, "placed")]
)
def test_a_benchmark_run_killed_at_every_file_equals_an_uninterrupted_one(
    tmp_path: Path, end: End, method: str
) -> None:
    left_alone, killed = (
        shop_place(tmp_path / name, private=False) for name in ("left_alone", "killed")
    )
    assert attempt(left_alone, "finished", method) == 0
    deaths, seen = chain(killed, end, method)
    assert deaths >= 20
    assert (
        differences(
            {name: data for name, data in seen.items() if not name.startswith(JOURNALS)},
            kept(left_alone.run("r")),
        )
        == []
    )


RELEASED = {
    "ldp_tabicl": "released_reports.npz",
    "gdp_tabicl": "released_groups.json",
    "mst_tabicl": "released_counts.json",
    "few_shot_generation": "released_texts.json",
    "dp_icl": "released_answers.json",
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", RELEASED)
def test_a_private_run_killed_at_every_file_keeps_every_release_it_made(
    tmp_path: Path, method: str
) -> None:
    deaths, seen = chain(shop_place(tmp_path / "place", private=True), "placed", method)
    assert deaths >= 12
    assert {RELEASED[method], "results.json"} <= {Path(name).name for name in seen}
