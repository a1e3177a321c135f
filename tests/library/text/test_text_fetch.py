"""A published set of texts is downloaded once, in as many tries as it takes, and is the published
one or is refused.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpicl.contract import TextContract
from dpicl.contract.load import edition, edition_names
from dpicl.data.text_fetch import fetch_texts
from dpicl.data.text_files import edition_at_hand, load_texts
from dpicl.ground.errors import PrivacyError, SourceError
from dpicl.home.benchmarks import check_published, content_digest, fetch_published
from dpicl.home.settings import Settings

from ..hostile_server import HostileServer, good, hang_up, ranges, status
from ..repositories import LIMITS
from ..text_contracts import lines, records, text_contract, write_files

REVISION = "a1" * 20
TRAIN_FILE, TEST_FILE = "data/train-00000-of-00001.parquet", "data/test-00000-of-00001.parquet"


def parquet(count: int, between: str = ": ") -> bytes:
    """Records as the hub has them: a text of its own, and labels by number."""
    made = records(count)
    texts = [f"{one['head']}{between}{one['body']}" for one in made]
    labels = [number % 2 for number in range(count)]
    file = io.BytesIO()
    pq.write_table(pa.table({"text": texts, "label": pa.array(labels, pa.int64())}), file)
    return file.getvalue()


TRAIN, TEST = parquet(40), parquet(4)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def on_hub(change: Callable[[dict[str, Any]], object] = lambda source: None) -> TextContract:
    """The letters as a published set of 20 texts a label, with a slice of 4."""

    def declare(content: dict[str, Any]) -> None:
        source = content["source"]
        files = {
            part: {**source.pop(part), "sha256": sha256(data)}
            for part, data in (("train", lines(records(10))), ("test", b"-"))
        }
        source["published"] = {
            "hub": "org/letters",
            "revision": REVISION,
            "train": {"file": TRAIN_FILE, "sha256": sha256(TRAIN), "rows": 40},
            "test": {"file": TEST_FILE, "sha256": sha256(TEST), "rows": 4},
            "text": "{text}",
            "field": "label",
            "labels": {0: "good", 1: "bad"},
        }
        source["slices"] = {"small": {**files, "bounds": 4, "deltas": {"generation": "1/50"}}}
        for label in content["task"]["labels"].values():
            label["min_rows"] = 20
        change(source)

    return text_contract(declare)


def unstated(source: dict[str, Any]) -> None:
    for part in ("train", "test"):
        del source["published"][part]["sha256"]


CONTRACT = on_hub()


@pytest.fixture
def server() -> Iterator[HostileServer]:
    with HostileServer() as server:
        for file, data in ((TRAIN_FILE, TRAIN), (TEST_FILE, TEST)):
            server.replies[path(file)] = [ranges(data)]
        yield server


def path(file: str) -> str:
    return f"/datasets/org/letters/resolve/{REVISION}/{file}"


def fetch(
    server: HostileServer,
    cache: Path,
    contract: TextContract = CONTRACT,
    pinned: dict[str, str] | None = None,
) -> Any:
    return fetch_texts(contract, cache, pinned=pinned or {}, endpoint=server.url, limits=LIMITS)


def finals(cache: Path) -> list[str]:
    """Files that appeared; no locks, and nothing unfinished."""
    return sorted(
        one.name for one in cache.rglob("*") if one.is_file() and not one.name.startswith(".")
    )


def test_a_published_set_is_read_as_it_was_published(server: HostileServer, tmp_path: Path) -> None:
    fetched = fetch(server, tmp_path)
    assert fetched.table.num_rows == 44 and fetched.table.slice(0, 2).to_pylist() == [
        {"part": "train", "label": "good", "text": "Re 0: letter 0 of ann"},
        {"part": "train", "label": "bad", "text": "Re 1: letter 1 of ann"},
    ]
    assert [path.read_bytes() for path in fetched.paths.values()] == [TRAIN, TEST]
    assert load_texts(fetched.contract, data_folder=None, cache_folder=tmp_path).equals(
        fetched.table
    )
    asked = len(server.requests)
    assert fetch(server, tmp_path).digests == fetched.digests and len(server.requests) == asked, (
        "nothing is downloaded twice"
    )


def test_a_download_that_breaks_off_goes_on_where_it_was(
    server: HostileServer, tmp_path: Path
) -> None:
    server.replies[path(TRAIN_FILE)] = [ranges(TRAIN, most=400), hang_up(), ranges(TRAIN)]
    fetch(server, tmp_path)
    assert server.starts[:2] == [0, 400]


def test_a_later_command_goes_on_where_an_earlier_one_gave_up(
    server: HostileServer, tmp_path: Path
) -> None:
    server.replies[path(TRAIN_FILE)] = [ranges(TRAIN, most=300), *[status(503)] * 20]
    with pytest.raises(SourceError, match="status 503; gave up after 3 attempts"):
        fetch(server, tmp_path)
    assert finals(tmp_path) == []
    sent = server.sent
    server.requests.clear()
    server.replies[path(TRAIN_FILE)] = [ranges(TRAIN)]
    fetch(server, tmp_path)
    assert server.starts == [0, 300, 0] and server.sent - sent == len(TRAIN) - 300 + len(TEST)


def test_a_killed_command_that_had_everything_downloads_nothing_more(
    server: HostileServer, tmp_path: Path
) -> None:
    fetched = fetch(server, tmp_path)
    final = fetched.paths["train"]
    final.rename(final.with_name(f".{final.name}.part"))
    sent = server.sent
    fetch(server, tmp_path)
    assert server.sent == sent and final.read_bytes() == TRAIN


@pytest.mark.parametrize(
    "answer",
    [
        good(TRAIN),
        status(206, Content_Range="bytes 7-9/10"),
        status(416, Content_Range="bytes */3"),
    ],
)
def test_a_server_with_other_ideas_of_a_range_begins_anew(
    server: HostileServer, tmp_path: Path, answer: Any
) -> None:
    server.replies[path(TRAIN_FILE)] = [ranges(TRAIN, most=300), answer, good(TRAIN)]
    assert fetch(server, tmp_path).paths["train"].read_bytes() == TRAIN


@pytest.mark.parametrize("lie", [TRAIN[:-1] + b"!", parquet(42), TRAIN + b" "])
def test_another_file_is_refused_and_leaves_nothing(
    server: HostileServer, tmp_path: Path, lie: bytes
) -> None:
    server.replies[path(TRAIN_FILE)] = [ranges(lie)]
    with pytest.raises(
        SourceError,
        match=f"the file has sha256 {sha256(lie)[:12]}, expected {sha256(TRAIN)[:12]} as stated",
    ):
        fetch(server, tmp_path)
    assert not [one for one in tmp_path.rglob("*") if one.is_file() and one.suffix != ".lock"]


def test_without_a_stated_digest_sizes_are_compared_and_the_first_download_pins_it(
    server: HostileServer, tmp_path: Path
) -> None:
    contract = on_hub(unstated)
    server.replies[path(TRAIN_FILE)] = [ranges(parquet(38))]
    with pytest.raises(SourceError, match="has 38 texts, expected 40"):
        fetch(server, tmp_path, contract)
    server.replies[path(TRAIN_FILE)] = [ranges(TRAIN)]
    first = fetch(server, tmp_path, contract)
    assert first.digests == {TRAIN_FILE: sha256(TRAIN), TEST_FILE: sha256(TEST)}
    other = tmp_path / "other"
    other.mkdir()
    server.replies[path(TRAIN_FILE)] = [ranges(parquet(40, ": Re: "))]
    with pytest.raises(SourceError, match="as stated"):
        fetch(server, other, contract, first.digests)


def test_the_digest_that_the_hub_states_where_it_redirects_counts(
    server: HostileServer, tmp_path: Path
) -> None:
    contract = on_hub(unstated)
    server.replies["/store"] = [ranges(TRAIN)]
    for mark, expected in (
        (sha256(b"other"), pytest.raises(SourceError, match="as stated")),
        (sha256(TRAIN), nullcontext()),
    ):
        moved = status(302, Location=server.url + "/store", X_Linked_ETag=f'"{mark}"')
        server.replies[path(TRAIN_FILE)] = [moved]
        with expected:
            fetch(server, tmp_path, contract)


def test_too_few_texts_of_a_label_are_refused(server: HostileServer, tmp_path: Path) -> None:
    def lopsided(source: dict[str, Any]) -> None:
        unstated(source)
        source["published"]["labels"] = {0: "good", 1: "good"}

    with pytest.raises(
        SourceError, match="fewer texts than the contract's bounds for 1 of 2 labels"
    ):
        fetch(server, tmp_path, on_hub(lopsided))


def test_what_is_at_hand_decides_the_bounds_and_a_download_comes_first(
    server: HostileServer, tmp_path: Path
) -> None:
    data, cache = write_files(tmp_path / "data"), tmp_path / "cache"
    cache.mkdir()
    assert edition_names(CONTRACT) == ("published", "small")
    assert edition_at_hand(CONTRACT, data_folder=data, cache_folder=cache) == "small"
    small, whole = edition(CONTRACT, "small"), edition(CONTRACT, "published")
    assert (small.row_bounds, whole.row_bounds) == ({"good": 4, "bad": 4}, {"good": 20, "bad": 20})
    assert (str(small.generation.delta), str(whole.generation.delta)) == ("1/50", "1/100")  # type: ignore[union-attr]
    fetch(server, cache)
    assert edition_at_hand(CONTRACT, data_folder=data, cache_folder=cache) == "published"
    assert (
        edition_at_hand(CONTRACT, data_folder=None, cache_folder=tmp_path / "none") == "published"
    ), "where nothing is"


def test_a_file_that_is_no_edition_is_refused_with_what_is_accepted(tmp_path: Path) -> None:
    data = write_files(tmp_path / "data", train=lines(records(9)))
    with pytest.raises(SourceError) as caught:
        load_texts(edition(CONTRACT, "small"), data_folder=data)
    sentence = str(caught.value)
    assert sentence.startswith("mail: train.jsonl: the file has sha256 ") and "\n" not in sentence
    assert (
        "expected the published set, which `dpicl data fetch mail` downloads, or a slice below "
        "DPICL_DATA: small at mail/train.jsonl" in sentence
    )


def test_content_is_a_benchmark_once_its_download_was_compared_and_not_because_a_contract_says_so(
    server: HostileServer, tmp_path: Path
) -> None:
    settings = replace(
        Settings(tmp_path / "home", None, tmp_path, tmp_path, tmp_path), hub=server.url
    )
    whole, small = edition(CONTRACT, "published"), edition(CONTRACT, "small")
    table = fetch(server, tmp_path).table
    with pytest.raises(
        PrivacyError, match="known once `dpicl data fetch mail` has compared its files"
    ):
        check_published(whole, lambda: content_digest(whole, table), settings)
    fetch_published(whole, settings)
    check_published(whole, lambda: content_digest(whole, table), settings)
    # a slice that only this contract states, and nobody has published
    with pytest.raises(PrivacyError, match="not published"):
        check_published(small, lambda: content_digest(small, table.slice(1)), settings)
