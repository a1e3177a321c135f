"""Where a public set is published is named, and its form there is read or converted; documents that
nobody may hand on can be filled in.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpicl.contract import TextContract, load_contract, parse_contract
from dpicl.contract.load import contract_digest, edition
from dpicl.data.text_files import load_texts, receipts
from dpicl.data.text_records import parse_records
from dpicl.ground.cache import row_digests
from dpicl.ground.errors import DataError, PrivacyError
from dpicl.home.benchmarks import check_published, content_digest, fetch_published, read_content
from dpicl.home.settings import Settings
from tests.harness import call_main, complaint, said
from tests.library.examples import ROOT
from tests.library.hostile_server import HostileServer, good
from tests.library.text_contracts import text_tree
from tests.truth.test_c5_rows_not_bytes import (
    Records,
    contract_of,
    lines,
    opened,
    records,
    settings,
    texts_of,
)
from tests.upgrades.names import STORED

Capture = pytest.CaptureFixture[str]


def tagged_lines(content: Records) -> bytes:
    """As Zhao et al. (2021) published the queries of MIT's corpus."""
    pairs = (
        " ".join(f"{word}:{tag}" for word, tag in zip(one["tokens"], one["tags"], strict=True))
        for one in content
    )
    return "".join(f"{line} <=> <NULL>\n" for line in pairs).encode()


@pytest.mark.parametrize("name", ["mit_genre", "mit_director"])
def test_the_address_that_mit_s_contracts_name_has_these_very_rows(
    name: str, tmp_path: Path, data_folder: Path
) -> None:
    """The published bytes are made from ours: their digest is the one that the contract states of
    the address.
    """
    stated = load_contract(ROOT / "data_contracts" / "texts" / f"{name}.yaml")
    assert isinstance(stated, TextContract) and stated.source.published is not None
    whole = edition(stated, "published")
    for part in ("train", "test"):
        data = tagged_lines(
            records(opened(data_folder / getattr(texts_of(name).source, part).file))
        )
        assert hashlib.sha256(data).hexdigest() == getattr(stated.source.published, part).sha256
        path = tmp_path / getattr(whole.source, part).file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    table = load_texts(whole, data_folder=None, cache_folder=tmp_path)
    assert content_digest(whole, table) == row_digests()[f"{name}:json-lines"]
    assert (stated.source.published.train.rows, stated.source.published.test.rows) == tuple(
        table.column("part").to_pylist().count(part) for part in ("train", "test")
    )


@pytest.fixture
def server() -> Iterator[HostileServer]:
    with HostileServer() as server:
        yield server


def test_tagged_words_are_downloaded_and_read(tmp_path: Path, server: HostileServer) -> None:
    served = {
        "train": b"a:O red:B-Colour dark:I-Colour hat:O <=> <NULL>\n" * 4,
        "test": b"blue:B-Colour sea:O\nno:O slot:O\n",
    }
    content = text_tree()
    for part in served:
        del content["source"][part]
    content["source"]["published"] = {
        "hub": "org/hats",
        "revision": "a" * 40,
        "form": "tagged",
        **{
            part: {"file": part, "sha256": hashlib.sha256(data).hexdigest()}
            for part, data in served.items()
        },
    }
    content |= {
        "text": "{text}",
        "task": {
            "kind": "extraction",
            "field": "slots.Colour",
            "min_rows": 4,
            "labels": ["red"],
            "answer_tokens": 4,
        },
    }
    for part, data in served.items():
        server.replies[f"/datasets/org/hats/resolve/{'a' * 40}/{part}"] = [good(data)]
    contract = parse_contract(content, "mail.yaml")
    assert isinstance(contract, TextContract)
    chosen = Settings(tmp_path / "home", None, tmp_path, tmp_path, tmp_path, hub=server.url)
    fetched = fetch_published(edition(contract, "published"), chosen)
    assert fetched.table.to_pydict() == {
        "part": ["train"] * 4 + ["test"],
        "label": ["red dark"] * 4 + ["blue"],
        "text": ["a red dark hat"] * 4 + ["blue sea"],
    }


@pytest.mark.parametrize(
    ("line", "slots"),
    [
        ("a:B-X b:I-X c:B-X", {"X": ["a b", "c"]}),
        ("a:B-X b:I-Y", {"X": ["a"], "Y": ["b"]}),
        ("8:30:B-Time", {"Time": ["8:30"]}),
        ("a:O", {}),
        ("a:I-X b:O c:I-X", {"X": ["a", "c"]}),
    ],
)
def test_phrases_of_tagged_words(line: str, slots: dict[str, list[str]]) -> None:
    assert parse_records(line.encode(), ("slots",), "x.tagged") == {"slots": [slots]}


@pytest.mark.parametrize("line", ["a", "a:Q", ":O", "a:B", "a:O-X", "a:I-"])
def test_words_without_a_tag_are_refused(line: str) -> None:
    with pytest.raises(
        DataError,
        match=r"x.tagged: some lines are no words with tags; expected `word:O` or `word:B-SLOT` of "
        r"every word",
    ):
        parse_records(f"fine:O\n{line}\n".encode(), ("text",), "x.tagged")


@pytest.mark.parametrize("text", ["{}", "[1]", "[", "", '[{"a": 1}, 2]'])
def test_a_list_that_is_none_of_objects_is_refused(text: str) -> None:
    with pytest.raises(DataError, match=r"x.json: is no list of JSON objects"):
        parse_records(text.encode(), ("a",), "x.json")


def receipts_folder(root: Path, data_folder: Path) -> Path:
    """The folder as SROIE publishes it, made from our records: a receipt's lines with coordinates,
    and what is stated of it.
    """
    for part in ("train", "test"):
        for one in records(
            (data_folder / "text" / "sroie_receipts" / f"{part}.jsonl").read_bytes()
        ):
            for kind in ("box", "key"):
                (root / kind).mkdir(exist_ok=True, parents=True)
            (root / "box" / f"{one['id']}.csv").write_text(
                "".join(f"1,2,3,4,5,6,7,8,{line}\n" for line in one["document"].split("\n"))
            )
            stated = {name: one[name] or "" for name in ("company", "date", "address", "total")}
            (root / "key" / f"{one['id']}.json").write_text(json.dumps(stated, indent=4))
    return root


def test_receipts_are_made_from_the_published_folder(
    tmp_path: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    folder = receipts_folder(tmp_path / "sroie", data_folder)
    again = (folder / "box" / "000.csv").read_text().replace(" ", "  ")  # a repeat but for blanks
    (folder / "box" / "626.csv").write_text(again)
    (folder / "key" / "626.json").write_text((folder / "key" / "000.json").read_text())
    for part in ("train", "test"):
        assert receipts(folder)[part] == records(
            (data_folder / "text" / "sroie_receipts" / f"{part}.jsonl").read_bytes()
        )
    monkeypatch.setenv("DPICL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DPICL_DATA", str(tmp_path / "data"))
    told = said(capsys, "data", "convert", "sroie", str(folder))
    assert "train.jsonl" in told and "test.jsonl" in told
    assert (
        read_content(contract_of("sroie"), settings(tmp_path, tmp_path / "data")).digest
        == row_digests()["sroie"]
    )
    assert "is there already" in complaint(
        call_main(("data", "convert", "sroie", str(folder)), capsys)
    )


def test_a_folder_of_other_receipts_writes_nothing(
    tmp_path: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    folder = receipts_folder(tmp_path / "sroie", data_folder)
    (folder / "box" / "000.csv").unlink()
    monkeypatch.setenv("DPICL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DPICL_DATA", str(tmp_path / "data"))
    assert "are not the published ones" in complaint(
        call_main(("data", "convert", "sroie", str(folder)), capsys)
    )
    assert not (tmp_path / "data").exists()
    for wrong in ("samsum", "heart"):
        assert "published" in complaint(call_main(("data", "convert", wrong, str(folder)), capsys))


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("heart", "https://www.kaggle.com/datasets/fedesoriano/heart-failure-prediction"),
        ("sroie", "https://github.com/zzzDavid/ICDAR-2019-SROIE"),
        ("amazon", "fancyzhx/amazon_polarity"),
        ("docvqa", "https://rrc.cvc.uab.es/?ch=17"),
    ],
)
def test_what_cannot_be_downloaded_says_where_it_is(
    name: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("DPICL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DPICL_DATA", str(tmp_path))
    assert place in complaint(call_main(("data", "fetch", name), capsys))
    assert place in complaint(call_main(("data", "publish", name, "--yes"), capsys)), (
        "where its rows are missing too"
    )
    assert place in " ".join((ROOT / "docs" / "how-to" / "reproduce.md").read_text().split())


def test_every_set_of_the_papers_says_how_others_get_it() -> None:
    for path in (ROOT / "data_contracts").rglob("*.yaml"):
        source = load_contract(path).source
        ways = [
            getattr(source, way, None)
            for way in ("bundled", "openml", "uci", "published", "obtain")
        ]
        assert any(ways), path.stem


def test_documents_can_be_filled_in_by_whoever_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """A contract without rows: its digest is whose licence it is, and until then nothing is
    released.
    """
    contract = texts_of("docvqa")
    assert (
        contract.source.train is not None
        and contract.source.train.sha256 is None
        and not any("docvqa" in name for name in row_digests())
    )
    filled = [
        {
            "document": f"page {number} of a report",
            "question": f"which page is {number}?",
            "answer": f"page {number}",
        }
        for number in range(200)
    ]
    for part in ("train", "validation"):
        path = tmp_path / "data" / "text" / "docvqa" / f"{part}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(lines(filled))
    monkeypatch.setenv("DPICL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DPICL_DATA", str(tmp_path / "data"))
    own = settings(tmp_path, tmp_path / "data")
    read = read_content(contract, own)
    assert (
        read.rows == 400
        and load_texts(contract, data_folder=tmp_path / "data").column("text")[3].as_py()
        == "which page is 3? page 3 of a report"
    )
    with pytest.raises(PrivacyError, match="dpicl data publish docvqa"):
        check_published(contract, lambda: read.digest, own)
    assert "400 rows of DocVQA" in said(capsys, "data", "publish", "docvqa", "--yes")
    check_published(contract, lambda: read.digest, own)


def test_words_for_people_name_no_release() -> None:
    stored = json.loads(STORED.read_text())["contracts"]
    for name in ("heart", "sroie", "amazon", "samsum", "mit_genre", "mit_director"):
        contract = contract_of(name)
        other = contract.model_copy(
            update={
                "source": contract.source.model_copy(
                    update={"obtain": "elsewhere", "stands_in": None}
                )
            }
        )
        assert contract_digest(contract) == contract_digest(other) == stored[name]
