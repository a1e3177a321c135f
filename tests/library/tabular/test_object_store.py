"""Tables in an S3 store: the rows, digests and batches that the same files give on a disk; what
fails is told without keys and contents.

The store is moto's server, a process of its own on this machine.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from dpicl.contract import Contract
from dpicl.data.reading import files as surveys
from dpicl.data.reading.batches import prepare
from dpicl.data.reading.files import Survey, rows_digest, survey
from dpicl.data.reading.source import find_rows, load_source
from dpicl.data.report_counts import Received
from dpicl.data.reports import SCHEMA
from dpicl.ground import objects
from dpicl.ground.errors import DataError, DpiclError, SourceError
from tests.harness import (
    free_port,
    install,
    new_place,
    said,
    shop,
    shop_rows,
)
from tests.object_store import running_store

from ..table_contracts import GOOD_CSV, small_contract
from .received import CHECKER, count_reports, received, some_reports, text
from .test_folder import SECRET, lay_out, rows

BUCKET = "private-rows"
KEYS = {"AWS_ACCESS_KEY_ID": "an-access-key", "AWS_SECRET_ACCESS_KEY": SECRET}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A store's address."""
    with running_store() as store:
        yield store.address


@pytest.fixture
def store(server: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An S3 client of an empty bucket, and an environment that points to it."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": server}.items():
        monkeypatch.setenv(name, value)
    from pyarrow.fs import S3FileSystem

    client = S3FileSystem(**objects.store_settings(), allow_bucket_creation=True)
    client.create_dir(BUCKET)
    client.delete_dir_contents(BUCKET)
    return client


def put(store: Any, key: str, content: bytes) -> None:
    with store.open_output_stream(f"{BUCKET}/{key}", compression=None) as file:
        file.write(content)


def upload(store: Any, folder: Path, prefix: str) -> None:
    """The files of a folder, as they are."""
    for path in folder.iterdir():
        put(store, f"{prefix}/{path.name}", path.read_bytes())


def remote(**source: object) -> Contract:
    return small_contract(source={"file": None, **source})


FOLDER = remote(folder=f"s3://{BUCKET}/deep/people/", moved_from="people")


def load(contract: Contract, folder: Path | None = None) -> pa.Table:
    return load_source(contract, data_folder=folder, cache_folder=Path("no-cache"))


@pytest.mark.quick("people.parquet")
@pytest.mark.parametrize("name", ["people.csv", "people.csv.gz", "people.parquet"])
def test_a_file_gives_the_same_rows_and_digest_as_on_a_disk(
    store: Any, tmp_path: Path, name: str
) -> None:
    pq.write_table(rows(30), tmp_path / "people.parquet")
    (tmp_path / "people.csv").write_text(GOOD_CSV)
    (tmp_path / "people.csv.gz").write_bytes(gzip.compress(GOOD_CSV.encode()))
    put(store, name, (tmp_path / name).read_bytes())
    local = load(small_contract(source={"file": name}), tmp_path)
    there = load(small_contract(source={"file": f"s3://{BUCKET}/{name}"}))
    assert there.equals(local) and rows_digest(there) == rows_digest(local)


def test_a_folder_gives_the_same_batches_and_facts_as_on_a_disk(
    store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was noted of it in one process is read in another, by ranges, and nothing is written to
    a disk.
    """
    upload(store, lay_out(tmp_path, rows(60), [10, 33]) / "people", "deep/people")
    put(store, "deep/people/_SUCCESS", b"")
    on_disk = remote(folder="people")
    local, there = survey(on_disk, tmp_path), survey(FOLDER, None)
    assert there.rows == local.rows == 60 and load(FOLDER).equals(load(on_disk, tmp_path))
    monkeypatch.setattr(surveys, "BATCH_ROWS", 16)
    again, before = Survey.read(there.as_json(), Path("elsewhere")), sorted(tmp_path.rglob("*"))
    for number in range(4):
        batch, same = again.batch(number, FOLDER), local.batch(number, on_disk)
        assert batch.equals(same) and prepare(batch, FOLDER).facts == prepare(same, FOLDER).facts
    assert again.batches == 4 and sorted(tmp_path.rglob("*")) == before


def test_an_object_that_changes_after_the_survey_is_refused(store: Any, tmp_path: Path) -> None:
    """Of the same size, within the second that its time is told in."""
    upload(store, lay_out(tmp_path, rows(30), []) / "people", "deep/people")
    found = survey(FOLDER, None)
    content = bytearray((tmp_path / "people" / "000.parquet").read_bytes())
    content[40] ^= 1
    put(store, "deep/people/000.parquet", bytes(content))
    with pytest.raises(DataError, match="000.parquet: was changed while it was being read"):
        found.whole(FOLDER)


def refusal(contract: Contract) -> str:
    """The sentence; without the secret, the access key, and what is in the bucket."""
    with pytest.raises(DpiclError) as caught:
        load(contract)
    told = caught.value.details()
    for hidden in (*KEYS.values(), "unlisted", "\n"):
        assert hidden not in told
    return told


def test_what_is_not_there_is_told(store: Any) -> None:
    put(store, "unlisted.csv", SECRET.encode())
    put(store, "odd/unlisted.txt", SECRET.encode())
    put(store, "bad/000.parquet", b"PAR1" + SECRET.encode() * 9)
    put(store, "empty/_SUCCESS", b"")
    address = f"s3://{BUCKET}"
    nothing = "there is no such object or folder"
    assert refusal(remote(file=f"{address}/none.csv")) == f"{address}/none.csv: {nothing}"
    for folder, expected in (
        ("none", f"{address}/none: {nothing}"),
        ("odd", "holds other files than Parquet files"),
        ("empty", "holds no file"),
        ("bad", f"{address}/bad/000.parquet: is not a complete Parquet file"),
    ):
        assert expected in refusal(remote(folder=f"{address}/{folder}/"))
    absent = "s3://no-such-bucket/x.csv"
    assert refusal(remote(file=absent)).startswith(f"{absent}: ")


def test_a_store_that_does_not_answer_is_told(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    told = refusal(FOLDER)
    assert told == f"s3://{BUCKET}/deep/people: cannot be read (the store says NETWORK_CONNECTION)"


@pytest.mark.parametrize(
    "address",
    [
        "http://10.0.0.1:9000",
        "http://store.example.org",
        "ftp://h",
        f"https://u:{SECRET}@h",
        "https://h/path",
        "h:1",
        "http://[",
    ],
)
def test_rows_come_over_https_or_from_this_machine(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """Nobody is asked; a private address over https is fine, since not the contract names it."""
    for name, value in {**KEYS, "AWS_ENDPOINT_URL_S3": address}.items():
        monkeypatch.setenv(name, value)
    expected = r"^AWS_ENDPOINT_URL_S3: expected https://HOST\[:PORT\], or http:// on this machine"
    with pytest.raises(SourceError, match=expected):
        find_rows(FOLDER, data_folder=None, cache_folder=Path("no-cache"))
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://10.0.0.1:9000")
    assert find_rows(FOLDER, data_folder=None, cache_folder=Path("no-cache")) is None


def test_keys_come_from_the_environment_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A profile lies there and is not read."""
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(
        f"[default]\naws_access_key_id = a\naws_secret_access_key = {SECRET}\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(
        SourceError, match="needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment"
    ):
        load(FOLDER)


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("http://h/x.csv", "got the scheme 'http'"),
        ("ftp://h/x.csv", "got the scheme 'ftp'"),
        ("gs://bucket/x.csv", "got the scheme 'gs'"),
        ("file:///etc/passwd", "got the scheme 'file'"),
        (f"s3://key:{SECRET[:4]}@bucket/x.csv", "text of the form"),
        ("s3://bucket", "text of the form"),
    ],
)
def test_other_schemes_are_refused_when_a_contract_is_read(address: str, told: str) -> None:
    with pytest.raises(DpiclError) as caught:
        small_contract(source={"file": address})
    assert "source.file" in str(caught.value) and told in str(caught.value)


def test_a_table_that_is_moved_to_a_store_is_released_again_for_nothing(
    store: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the command line; the release that was bought on a disk is found again, byte for
    byte.
    """
    place = new_place(tmp_path / "place")
    name = install(place, shop(private=True), shop_rows(300))
    contract, rows = place.root / "contracts" / "shop.yaml", place.root / "data" / "shop.csv"

    def protected(out: str) -> bytes:
        path = tmp_path / out
        said(capsys, "protect", name, "--epsilon", "1", "--shots", "2", "--out", str(path))
        return path.read_bytes()

    with place.entered():
        before = protected("before.jsonl")
        put(store, "shop/rows.csv", rows.read_bytes())
        rows.unlink()
        content = yaml.safe_load(contract.read_text())
        source = content["source"]
        source |= {"moved_from": source["file"], "file": f"s3://{BUCKET}/shop/rows.csv"}
        contract.write_text(yaml.safe_dump(content, sort_keys=False))
        assert protected("after.jsonl") == before
        assert said(capsys, "budget", name).count("aim_tabicl") == 1


def test_clients_reports_are_counted_where_they_lie(store: Any, tmp_path: Path) -> None:
    reports = some_reports(50)
    expected, _ = received(tmp_path / "reports", text(reports))
    pq.write_table(pa.Table.from_pylist(reports[:20], SCHEMA), tmp_path / "packed")
    packed = (tmp_path / "packed").read_bytes()
    put(store, "reports/a.jsonl", text(reports[20:]).encode())
    put(store, "reports/b.parquet", packed)
    put(store, "reports/c.parquet", packed[:-100])
    put(store, "reports/notes.txt", b"")
    tally, found = count_reports(f"s3://{BUCKET}/reports", CHECKER)
    assert (tally.stored == expected.stored).all() and found == Received(
        counted=50, files=3, damaged_files=1, other_files=1
    )
    assert count_reports(f"s3://{BUCKET}/reports/a.jsonl", CHECKER)[1].counted == 30
    with pytest.raises(SourceError, match="there is no such object or folder"):
        count_reports(f"s3://{BUCKET}/nothing", CHECKER)
