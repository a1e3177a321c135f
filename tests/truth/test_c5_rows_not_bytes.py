"""Public sets are known by their rows, whatever the compression, order or form, and no others are
taken for them.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpicl.contract import Contract, TextContract, load_contract
from dpicl.contract.load import edition, edition_names
from dpicl.data.text_files import load_public_texts, load_texts
from dpicl.ground.cache import row_digests
from dpicl.ground.errors import DpiclError, SourceError
from dpicl.home.benchmarks import check_published, read_content
from dpicl.home.settings import Settings
from tests.library.examples import ROOT

Records = list[dict[str, Any]]
Written = tuple[str, bytes]
"""What stands behind a file's name in place of its ending, and the content."""
Capture = pytest.CaptureFixture[str]
TEXTS = ("mit_genre", "mit_director", "samsum", "sroie", "amazon", "trec")
NEAREST = ("mit_director", "sroie")
"""Small ones, for the cases that are about the way and not the set."""


def contract_of(name: str) -> Contract | TextContract:
    path = ROOT / "data_contracts" / f"{name}.yaml"
    stated = load_contract(
        path if path.exists() else ROOT / "data_contracts" / "texts" / f"{name}.yaml"
    )
    names = edition_names(stated) if isinstance(stated, TextContract) else ()
    return edition(stated, names[1]) if isinstance(stated, TextContract) and names else stated


def texts_of(name: str) -> TextContract:
    contract = contract_of(name)
    assert isinstance(contract, TextContract)
    return contract


def opened(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def records(data: bytes) -> Records:
    return [json.loads(line) for line in data.decode().split("\n") if line]


def lines(content: Records) -> bytes:
    return "".join(json.dumps(one) + "\n" for one in content).encode()


def shuffled(content: Records) -> Records:
    return random.Random(1).sample(content, len(content))


def table_bytes(content: Records, fields: tuple[str, ...], as_csv: bool) -> bytes:
    kept = [{name: one[name] for name in fields} for one in content]
    if as_csv:
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, fields)
        writer.writeheader()
        writer.writerows(kept)
        return text.getvalue().encode()
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(kept), file)
    return file.getvalue()


FORMS: dict[str, Callable[[Records, bytes], Written]] = {
    "gzip, another level": lambda content, data: (".jsonl.gz", gzip.compress(data, 1)),
    "gzip, with a time stamp": lambda content, data: (
        ".jsonl.gz",
        gzip.compress(data, 6, mtime=1e9),
    ),
    "plain": lambda content, data: (".jsonl", data + b"\n"),
    "another order": lambda content, data: (".jsonl", lines(shuffled(content))),
    "another order of keys": lambda content, data: (
        ".jsonl.gz",
        gzip.compress(lines([dict(reversed(one.items())) for one in content])),
    ),
    "windows line ends": lambda content, data: (".jsonl", data.replace(b"\n", b"\r\n")),
    "one list": lambda content, data: (".json", json.dumps(content, indent=1).encode()),
    "one list, gzipped": lambda content, data: (
        ".json.gz",
        gzip.compress(json.dumps(shuffled(content)).encode()),
    ),
}


def place(
    folder: Path,
    contract: TextContract,
    data_folder: Path,
    write: Callable[[Records, bytes], Written],
) -> None:
    """The set's files in another form, in the place that the contract names."""
    for part in ("train", "test"):
        file = getattr(contract.source, part).file
        data = opened(data_folder / file)
        suffix, content = write(records(data), data)
        path = folder / f"{file.partition('.jsonl')[0]}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def settings(root: Path, data: Path) -> Settings:
    return Settings(
        root / "home", data, ROOT / "data_contracts", ROOT / "pipelines.yaml", root / "runs"
    )


@pytest.mark.parametrize(
    ("name", "form"),
    [
        *((name, "gzip, another level") for name in TEXTS),
        *((one, form) for one in NEAREST for form in FORMS),
    ],
)
def test_the_same_rows_in_another_form_are_the_published_set(
    name: str, form: str, tmp_path: Path, data_folder: Path
) -> None:
    contract = texts_of(name)
    place(tmp_path, contract, data_folder, FORMS[form])
    read = read_content(contract, settings(tmp_path, tmp_path))
    assert read.digest in row_digests().values()
    # which every run does before anything is released
    check_published(contract, lambda: read.digest, settings(tmp_path, tmp_path))
    asked = load_public_texts(contract, data_folder=tmp_path)
    assert asked.column_names == ["label", "text"] and 0 < asked.num_rows < read.rows


@pytest.mark.quick("sroie-CSV", "trec-Parquet")
@pytest.mark.parametrize("as_csv", [True, False], ids=["CSV", "Parquet"])
@pytest.mark.parametrize("name", ["amazon", "samsum", "sroie", "trec"])
def test_tables_of_the_same_texts_are_the_published_set(
    name: str, as_csv: bool, tmp_path: Path, data_folder: Path
) -> None:
    contract = texts_of(name)
    fields = (contract.task.field, *contract.text_fields)
    place(
        tmp_path,
        contract,
        data_folder,
        lambda content, _: (".csv" if as_csv else ".parquet", table_bytes(content, fields, as_csv)),
    )
    assert read_content(contract, settings(tmp_path, tmp_path)).digest in row_digests().values()


def answered(content: Records) -> int:
    """Where the first record stands that a contract over small sets reads: of a receipt's company,
    or of a director.
    """
    return next(
        place
        for place, one in enumerate(content)
        if one.get("company") or one.get("slots", {}).get("Director")
    )


CHANGES: dict[str, Callable[[Records, int], Records]] = {
    "a row less": lambda content, at: content[:at] + content[at + 1 :],
    "a row twice": lambda content, at: [*content, content[at]],
    "a letter": lambda content, at: [
        {
            key: f"{value}x" if place == at and isinstance(value, str) else value
            for key, value in one.items()
        }
        for place, one in enumerate(content)
    ],
    "two answers change places": lambda content, at: swapped(content),
}


def swapped(content: Records) -> Records:
    key = "company" if "company" in content[0] else "slots"
    one, two = next(
        (a, b)
        for a in range(50)
        for b in range(50)
        if content[a][key] != content[b][key] and content[a][key] and content[b][key]
    )
    changed = [dict(record) for record in content]
    changed[one][key], changed[two][key] = content[two][key], content[one][key]
    return changed


@pytest.mark.parametrize("name", NEAREST)
@pytest.mark.parametrize("change", CHANGES)
def test_other_rows_are_refused_in_one_sentence(
    name: str, change: str, tmp_path: Path, data_folder: Path
) -> None:
    contract = texts_of(name)
    place(
        tmp_path,
        contract,
        data_folder,
        lambda content, _: (".jsonl", lines(CHANGES[change](content, answered(content)))),
    )
    with pytest.raises(
        SourceError, match="the file has sha256 .*, expected .* or the same rows in another form"
    ) as refused:
        load_texts(contract, data_folder=tmp_path)
    assert "\n" not in str(refused.value)
    with pytest.raises(SourceError):
        load_public_texts(contract, data_folder=tmp_path)


def test_parts_that_change_places_are_other_rows(tmp_path: Path, data_folder: Path) -> None:
    contract = texts_of("sroie")
    for part, other in (("train", "test"), ("test", "train")):
        path = tmp_path / getattr(contract.source, part).file
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(data_folder / getattr(contract.source, other).file, path)
    with pytest.raises(SourceError, match="the same rows in another form"):
        load_texts(contract, data_folder=tmp_path)


def test_a_file_that_cannot_be_read_says_so_beside_its_digest(
    tmp_path: Path, data_folder: Path
) -> None:
    contract = texts_of("sroie")
    place(tmp_path, contract, data_folder, lambda content, _: (".jsonl", b"no record\n"))
    with pytest.raises(
        SourceError,
        match=r"sroie: train.jsonl: the file has sha256 .*; and it is refused: train.jsonl: some "
        r"lines are no JSON object",
    ):
        load_texts(contract, data_folder=tmp_path)


# --- tables


@pytest.mark.parametrize(
    "form", ["heart.csv.gz", "heart.parquet", "heart.csv", "reordered heart.csv.gz"]
)
def test_heart_is_known_by_its_rows(form: str, tmp_path: Path, data_folder: Path) -> None:
    contract = contract_of("heart")
    head, *rows = (data_folder / "tabular" / "heart.csv").read_text().splitlines()
    if form.startswith("reordered"):
        rows = random.Random(2).sample(rows, len(rows))
    text = "\n".join([head, *rows, ""]).encode()
    path = tmp_path / "tabular" / form.rpartition(" ")[2]
    path.parent.mkdir()
    if path.suffix == ".parquet":
        columns = list(zip(*(row.split(",") for row in rows), strict=True))
        pq.write_table(pa.table(dict(zip(head.split(","), columns, strict=True))), path)
    else:
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    assert read_content(contract, settings(tmp_path, tmp_path)).digest == row_digests()["heart"]


def test_another_table_under_the_name_is_refused(tmp_path: Path, data_folder: Path) -> None:
    path = tmp_path / "tabular" / "heart.csv.gz"
    path.parent.mkdir()
    path.write_bytes(
        gzip.compress(
            b"\n".join((data_folder / "tabular" / "heart.csv").read_bytes().splitlines()[:-1])
        )
    )
    with pytest.raises(DpiclError):
        read_content(contract_of("heart"), settings(tmp_path, tmp_path))


def test_a_table_with_a_budget_is_read_from_its_very_file(
    tmp_path: Path, data_folder: Path
) -> None:
    """Another ending would be another asset."""
    contract = contract_of("heart")
    budget = contract.privacy.budget.model_copy(update={"benchmark": False, "epsilon": 1.0})
    own = contract.model_copy(
        update={"privacy": contract.privacy.model_copy(update={"budget": budget})}
    )
    (tmp_path / "tabular").mkdir()
    (tmp_path / "tabular" / "heart.csv.gz").write_bytes(
        gzip.compress((data_folder / "tabular" / "heart.csv").read_bytes())
    )
    from dpicl.data.reading.source import locate

    assert (
        isinstance(own, Contract)
        and locate(own, data_folder=tmp_path, cache_folder=tmp_path) is None
    )
    assert locate(contract, data_folder=tmp_path, cache_folder=tmp_path) is not None  # type: ignore[arg-type]


# --- mutants


def test_mutant_bytes_are_pinned_is_caught(
    tmp_path: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault of before: our own gzip files, and no others."""
    monkeypatch.setattr("dpicl.data.text_files.row_digests", dict)
    with pytest.raises(SourceError):
        test_the_same_rows_in_another_form_are_the_published_set(
            "mit_director", "gzip, another level", tmp_path, data_folder
        )


def test_mutant_nothing_is_compared_is_caught(
    tmp_path: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpicl.data.text_files._has_stated_bytes", lambda *_: True)
    with pytest.raises(pytest.fail.Exception):
        test_other_rows_are_refused_in_one_sentence("sroie", "a row less", tmp_path, data_folder)


def test_mutant_only_the_stated_ending_is_looked_for_is_caught(
    tmp_path: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "dpicl.data.text_files._forms",
        lambda contract, part: (getattr(contract.source, part).file,),
    )
    with pytest.raises(SourceError):
        test_the_same_rows_in_another_form_are_the_published_set(
            "mit_director", "plain", tmp_path, data_folder
        )
