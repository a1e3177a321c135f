"""One command releases texts by the hundred: charged once before the first token, exported with a
certificate, repeated for nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lab.benchmarks.crash.many_texts import run_trials
from tests.harness import (
    Place,
    call_main,
    charged,
    complaint,
    install_texts,
    letters,
    new_place,
    said,
)
from tests.library.text_contracts import lines, records

Capture = pytest.CaptureFixture[str]
INK = [
    word
    for option in ("mechanism=invisible-ink", "batches=fixed", "voters=2", "max_tokens=4")
    for word in ("--option", option)
]
PROTECT = ("protect", "notes", "--epsilon", "4", *INK, "--texts")
MANY = (*PROTECT, "120")
MODEL = ("--generator", "fake")


def many(content: dict[str, object]) -> dict[str, object]:
    """The contract of a few hundred texts of each label."""
    for words in content["task"]["labels"].values():  # type: ignore[index]
        words["min_rows"] = 150
    return content


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A few hundred private texts, of which nothing is released."""
    place = new_place(tmp_path / "place")
    install_texts(
        place, many(letters("notes", private=True)), lines(records(400)), lines(records(4))
    )
    with place.entered():
        yield place


def test_one_command_charges_once_and_exports_jsonl_and_parquet(
    place: Place, capsys: Capture, tmp_path: Path
) -> None:
    price = said(capsys, *MANY, *MODEL, "--dry-run")
    assert "notes" in price and not charged()
    told = said(capsys, *MANY, *MODEL, "--out", str(tmp_path / "texts.jsonl"))
    assert "120 demonstrations" in told and len(charged()) == 1
    said(capsys, *MANY, "--as", "parquet", "--out", str(tmp_path / "texts.parquet"))
    table = pq.read_table(tmp_path / "texts.parquet")
    assert table.column_names == ["label", "text"] and table.num_rows == 120 and len(charged()) == 1
    rows = [json.loads(line) for line in (tmp_path / "texts.jsonl").read_text().splitlines()]
    assert all(
        text in row["text"]
        for text, row in zip(table.column("text").to_pylist(), rows, strict=True)
    )
    assert (tmp_path / "texts.parquet.certificate.json").exists()
    assert not list(place.home.glob("private/journals/*"))


def test_rows_that_do_not_suffice_for_so_many_texts_are_one_sentence(
    place: Place, capsys: Capture, tmp_path: Path
) -> None:
    too_many = (*PROTECT, "500", *MODEL, "--out", str(tmp_path / "out"))
    sentence = complaint(call_main(too_many, capsys))
    assert "a label of at least 150 rows is smaller than the 500 that are drawn" in sentence
    assert not charged()


def test_the_quality_of_a_release_is_told_from_public_texts_alone(
    place: Place, capsys: Capture, tmp_path: Path
) -> None:
    said(capsys, *MANY, *MODEL, "--out", str(tmp_path / "texts.jsonl"))
    # reading it would fail
    (place.root / "data" / "notes" / "train.jsonl").write_bytes(b"this is no record\n")
    told = said(
        capsys,
        *MANY,
        "--as",
        "csv",
        "--out",
        str(tmp_path / "texts.csv"),
        "--quality",
        str(tmp_path / "page.html"),
    )
    assert "120 texts beside 4 public ones" in told
    assert "accuracy on public texts of a classifier" in told
    assert "Logistic regression" in (tmp_path / "page.html").read_text()


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_a_release_that_is_killed_anywhere_is_continued_with_the_same_bytes_and_no_second_draw() -> (  # noqa: E501
    None
):
    begun, fresh, undisturbed = run_trials(12, seed=1)
    every = [*begun, *fresh]
    assert [verdict.released for verdict in begun] == [undisturbed] * len(begun)
    assert {verdict.second_draws for verdict in every} == {0} and {
        verdict.charges for verdict in every
    } == {1}
    assert sum(verdict.journalled for verdict in every)
