"""A run is about the edition of a published set that was at hand when it was planned, on every host
and however often it is resumed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpicl.ground.errors import DpiclError, SourceError
from dpicl.home.benchmarks import Content, declare, fetch_published
from dpicl.home.settings import Settings
from dpicl.runs.plan import make_plan
from dpicl.runs.run_folder import open_unit, read_plan, settings_of_run
from tasks.stages import ingest, split
from tests.cli.conftest import Cli
from tests.harness import Place, edited, grid_of, install_texts, letters, publish
from tests.library.hostile_server import HostileServer, ranges
from tests.library.text_contracts import lines, records

WHOLE, SMALL_TRAIN, TEST = lines(records(120)), lines(records(40)), lines(records(4))
REVISION = "b2" * 20
CHANGES = grid_of("letters")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def server() -> Iterator[HostileServer]:
    with HostileServer() as server:
        for name, data in (("train.jsonl", WHOLE), ("test.jsonl", TEST)):
            server.replies[f"/datasets/org/letters/resolve/{REVISION}/{name}"] = [
                ranges(data, most=len(data) - 7),
                ranges(data),
            ]
        yield server


@pytest.fixture
def place(place: Place, monkeypatch: pytest.MonkeyPatch, server: HostileServer) -> Place:
    """Letters as a published set of 60 a label, of which a slice of 20 a label is at hand."""
    install_texts(place, letters(), SMALL_TRAIN, TEST)
    path = place.root / "contracts" / "texts" / "letters.yaml"
    with edited(path) as content:
        source = content["source"]
        files = {split: source.pop(split) for split in ("train", "test")}
        stored = {
            split: {
                "file": one["file"],
                "sha256": sha256((place.root / "data" / one["file"]).read_bytes()),
            }
            for split, one in files.items()
        }
        source["published"] = {
            "hub": "org/letters",
            "revision": REVISION,
            "train": {"file": "train.jsonl", "sha256": sha256(WHOLE), "rows": 120},
            "test": {"file": "test.jsonl", "sha256": sha256(TEST), "rows": 4},
        }
        source["slices"] = {"small": {**stored, "bounds": 20}}
        for label in content["task"]["labels"].values():
            label["min_rows"] = 60
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    return place


def bounds(run: str) -> dict[str, int]:
    (key,) = read_plan(Path(run)).units
    return dict(open_unit(run, key).texts.row_bounds)


def test_a_broken_download_is_continued_by_the_command_and_used_from_then_on(
    place: Place, server: HostileServer, cli: Cli
) -> None:
    assert "slice small" in cli("data list")
    assert Settings.from_environment().texts("letters").row_bounds == {"good": 20, "bad": 20}
    told = cli("data fetch letters")
    assert told.count("letters: ") == 2 and server.starts == [0, len(WHOLE) - 7, 0, len(TEST) - 7]
    assert Settings.from_environment().texts("letters").row_bounds == {"good": 60, "bad": 60}
    assert "edition    published" in cli("contract show letters")
    run = str(make_plan("few-shot-generation", CHANGES, "r"))
    ingest.fn(run, "letters")
    split.fn(run, "letters")  # its content was compared as it was downloaded: it is a benchmark


def test_digests_of_a_download_hold_for_the_commit_that_they_are_of(place: Place) -> None:
    """Without a digest in the contract a mirror is believed for what the hub has said of this
    commit.
    """
    path = place.root / "contracts" / "texts" / "letters.yaml"
    with edited(path) as content:
        for part in ("train", "test"):
            del content["source"]["published"][part]["sha256"]
    digests = {"train.jsonl": sha256(WHOLE), "test.jsonl": sha256(TEST)}

    def fetched(revision: str) -> None:
        settings = Settings.from_environment()
        declare("letters:published", Content("0" * 64, 4), settings, digests, revision)
        fetch_published(settings.texts("letters"), settings)

    with pytest.raises(SourceError, match="no digest of it is stated"):
        fetched("b" * 40)
    fetched(REVISION)


def test_a_run_keeps_the_edition_that_it_was_planned_for(place: Place, cli: Cli) -> None:
    publish(place, "letters")
    run = str(make_plan("few-shot-generation", CHANGES, "r"))
    assert read_plan(Path(run)).editions == {"letters": "small"}
    cli("data fetch letters")
    assert bounds(run) == {"good": 20, "bad": 20}
    with settings_of_run(Path(run)):
        assert Settings.current().texts("letters").row_bounds == {"good": 20, "bad": 20}
    ingest.fn(run, "letters")
    assert json.loads((Path(run) / "plan.json").read_text())["editions"] == {"letters": "small"}
    make_plan("few-shot-generation", {}, "r", resume=True)
    other = str(make_plan("few-shot-generation", CHANGES, "other"))
    assert bounds(other) == {"good": 60, "bad": 60}


def test_an_edition_whose_files_are_gone_is_not_replaced_by_another(place: Place, cli: Cli) -> None:
    run = str(make_plan("few-shot-generation", CHANGES, "r"))
    cli("data fetch letters")
    for path in (place.root / "data").rglob("*.jsonl*"):
        path.unlink()
    with pytest.raises(
        DpiclError,
        match="no texts at hand; expected the published set, which `dpicl data fetch letters` "
        "downloads",
    ):
        ingest.fn(run, "letters")


def test_a_mirror_cannot_make_files_public_that_nobody_has_stated_a_digest_of(
    place: Place, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub's files of trec have no stated digest: another server could serve anything for
    them.
    """
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    told = cli.refused("data fetch trec")
    assert "no digest of it is stated, and HF_ENDPOINT names another server than the hub" in told
    told = cli.refused("data fetch agnews")
    # whose files have stated ones: only the server is missing
    assert "digest" not in told
