"""Rows come from the bundle, a local file or the cache, and every way gives the same table."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpicl.contract import Contract
from dpicl.data.reading.checks import violations
from dpicl.data.reading.files import read_table, rows_digest
from dpicl.data.reading.source import cached_file, fetch, load_source, locate
from dpicl.ground.errors import SourceError
from dpicl.ground.installed import to_install

from ..examples import CONTRACTS, ROOT, every_contract
from ..table_contracts import GOOD_CSV, HEADER, ROWS, small_contract

DATA = Path(os.environ.get("DPICL_DATA") or ROOT.parent / "shared" / "data")


def _write(path: Path, text: str = GOOD_CSV) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def load(source: dict[str, object], folder: Path) -> pa.Table:
    return load_source(small_contract(source=source), data_folder=folder, cache_folder=folder)


def test_the_local_file_comes_before_the_cache(tmp_path: Path) -> None:
    contract = small_contract(source={"uci": {"id": 7}})
    data, cache = tmp_path / "data", tmp_path / "cache"
    assert locate(contract, data_folder=data, cache_folder=cache) is None
    cached = _write(cached_file(contract, cache))
    for folder in (data, None):
        assert locate(contract, data_folder=folder, cache_folder=cache) == cached
    local = _write(data / "people.csv")
    assert locate(contract, data_folder=data, cache_folder=cache) == local


def test_the_cached_name_follows_what_the_contract_says_of_the_repository(tmp_path: Path) -> None:
    names = {
        cached_file(small_contract(source={"uci": uci}), tmp_path).name
        for uci in ({"id": 7}, {"id": 8}, {"id": 7, "rename": {"a": "age"}})
    }
    assert len(names) == 3 and all(re.fullmatch(r"people-.+\.csv", name) for name in names)


def test_a_path_that_leads_out_of_the_data_folder_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "below").mkdir(parents=True)
    _write(tmp_path / "people.csv")
    (data / "link.csv").symlink_to(tmp_path / "people.csv")
    (data / "loop.csv").symlink_to(data / "loop.csv")
    for file in ("below/../../people.csv", "link.csv", "loop.csv"):
        with pytest.raises(SourceError, match=r"people: file .* leads out of the data folder"):
            load({"file": file}, data)


def test_a_link_within_the_data_folder_is_fine(tmp_path: Path) -> None:
    _write(tmp_path / "data" / "a.csv")
    (tmp_path / "data" / "people.csv").symlink_to("a.csv")
    assert load({}, tmp_path / "data").num_rows == 4


@pytest.mark.parametrize(
    ("source", "advice"),
    [
        ({}, "set DPICL_DATA to the folder that holds people.csv"),
        ({"file": None, "folder": "people"}, "set DPICL_DATA to the folder that holds people/"),
        ({"file": None, "openml": {"id": 7}}, "type `dpicl data fetch people`"),
        (
            {"uci": {"id": 7}},
            "type `dpicl data fetch people`, or set DPICL_DATA to the folder that holds people.csv",
        ),
    ],
)
def test_without_rows_the_message_says_what_to_type(
    tmp_path: Path, source: dict[str, object], advice: str
) -> None:
    with pytest.raises(SourceError) as caught:
        load(source, tmp_path)
    assert str(caught.value) == f"people: no rows at hand; {advice}"


def test_fetching_without_a_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="people: no public repository is named"):
        fetch(small_contract(), tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_a_stated_digest_gives_one_order_for_every_format(tmp_path: Path) -> None:
    plain = read_table(_write(tmp_path / "people.csv"), small_contract())
    assert plain.column("age").to_pylist() == [31, 48, 67, 22]
    stated = {"content_sha256": rows_digest(plain)}
    shuffled = [*ROWS]
    random.Random(1).shuffle(shuffled)
    _write(tmp_path / "other.csv", "\n".join((HEADER, *shuffled)))
    pq.write_table(plain.take(pa.array([3, 0, 2, 1])), tmp_path / "people.parquet")
    files = ("people.csv", "other.csv", "people.parquet")
    tables = [load({"file": file, **stated}, tmp_path) for file in files]
    assert tables[0].column("age").to_pylist() == [22, 31, 48, 67]
    assert all(table.equals(tables[0]) for table in tables)


def test_other_rows_than_stated_are_refused(tmp_path: Path) -> None:
    digest = rows_digest(read_table(_write(tmp_path / "people.csv"), small_contract()))
    told = f"people: people.csv: the rows have content_sha256 {digest[:12]}, expected {'0' * 12}$"
    with pytest.raises(SourceError, match=told):
        load({"content_sha256": "0" * 64}, tmp_path)


def test_local_rows_need_no_http_client() -> None:
    lines = [
        "import sys, dpicl.data.reading.source as source",
        "assert not {'httpx', 'tenacity'} & set(sys.modules)",
        "sys.modules['httpx'] = None",
        "from pathlib import Path",
        "from tests.library.table_contracts import small_contract",
        "source.fetch(small_contract(source={'openml': {'id': 7}}), Path('nowhere'))",
    ]
    command = [sys.executable, "-c", "; ".join(lines)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stderr.strip().endswith(
        f"fetching: httpx is not installed; {to_install('endpoint')}"
    )


def test_the_rows_of_the_demo_are_here_and_a_file_of_that_name_comes_first(tmp_path: Path) -> None:
    contract = CONTRACTS["diabetes"]
    table = load_source(contract, data_folder=None, cache_folder=tmp_path)
    assert table.num_rows == 768 and rows_digest(table) == contract.source.content_sha256
    assert load_source(contract, data_folder=tmp_path, cache_folder=tmp_path).equals(table)
    own = tmp_path / str(contract.source.file)
    own.parent.mkdir()
    shipped = ROOT / "dpicl" / "data" / "reading" / "shipped" / "diabetes.csv"
    own.write_text("".join(shipped.read_text("utf-8").splitlines(keepends=True)[:-1]), "utf-8")
    with pytest.raises(SourceError, match="diabetes: diabetes.csv: the rows have content_sha256"):
        load_source(contract, data_folder=tmp_path, cache_folder=tmp_path)
    source = contract.source.model_copy(update={"content_sha256": "0" * 64})
    other = contract.model_copy(update={"source": source})
    with pytest.raises(SourceError, match="no rows at hand"):
        load_source(other, data_folder=None, cache_folder=tmp_path)


@every_contract
def test_the_shipped_contracts_read_their_sets(tmp_path: Path, contract: Contract) -> None:
    if contract.source.bundled is None and not (DATA / str(contract.source.file)).exists():
        pytest.skip("the data folder is not there")
    table = load_source(contract, data_folder=DATA, cache_folder=tmp_path)
    assert table.column_names == list(contract.columns) and violations(table, contract) == ()
