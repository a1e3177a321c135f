"""Texts are read record by record and strictly: what breaks the contract is one sentence without a
text.
"""

from __future__ import annotations

import csv
import io
import unicodedata
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.contract import TextContract
from dpicl.data.text_files import find_texts, load_texts, texts_digest
from dpicl.data.text_records import parse_texts, plain_text
from dpicl.ground.errors import DataError, DpiclError, SourceError

from ..text_contracts import (
    TRAIN,
    as_extraction,
    as_free_text,
    changed,
    lines,
    records,
    text_contract,
    write_files,
)

CONTRACT, EXTRACTION = text_contract(), text_contract(as_extraction)
SECRET = "Zebra-4711"
MIB = 1 << 20


def rows(table: pa.Table) -> list[tuple[str, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def read(folder: Path, train: bytes, contract: TextContract = CONTRACT) -> list[tuple[str, ...]]:
    """Private rows of a file, without their part."""
    found = rows(load_texts(contract, data_folder=write_files(folder, train)))
    return [row[1:] for row in found if row[0] == "train"]


def refusal(folder: Path, train: bytes, contract: TextContract = CONTRACT) -> str:
    with pytest.raises(DpiclError) as caught:
        load_texts(contract, data_folder=write_files(folder, train))
    text = caught.value.details()
    assert "\n" not in text and SECRET not in text and len(text) < 300
    return text


def test_both_files_make_one_table_of_parts_labels_and_texts(tmp_path: Path) -> None:
    table = load_texts(CONTRACT, data_folder=write_files(tmp_path))
    assert table.column_names == ["part", "label", "text"] and set(table.schema.types) == {
        pa.string()
    }
    assert rows(table)[:2] == [
        ("train", "good", "Re 0: letter 0 of ann"),
        ("train", "bad", "Re 1: letter 1 of ann"),
    ]
    assert table.column("part").to_pylist() == ["train"] * 10 + ["test"] * 4


def test_answers_are_joined_phrases_and_records_without_one_are_left_out(tmp_path: Path) -> None:
    train = changed(
        6,
        {"slots": {}},
        {"slots": None},
        {"slots": {"Name": []}},
        {"slots": {"Name": [" ann\n", "lee"]}},
        {"slots": {"Name": "bo"}},
    )
    assert read(tmp_path, train, EXTRACTION) == [
        ("ann lee", "letter 3 of ann"),
        ("bo", "letter 4 of ann"),
        ("ann 5", "letter 5 of ann"),
    ]


BROKEN: dict[str, tuple[bytes, str]] = {
    "not UTF-8": (
        lines(records(2)) + f'{{"class": "{SECRET}'.encode() + b"\xff",
        "train.jsonl: is not UTF-8; expected text in UTF-8 (from line 3 on)",
    ),
    "broken lines": (
        lines(records(3)) + f'{{"class": "{SECRET}\n\n[1]\n'.encode(),
        "some lines are no JSON object; expected one object in each line (2 lines, line 4 first)",
    ),
    "a number of many digits": (
        b'{"class": ' + b"9" * 5000 + b"}\n",
        "expected one object in each line (1 lines, line 1 first)",
    ),
    "deep nesting": (
        b'{"class": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
        "expected one object in each line (1 lines, line 1 first)",
    ),
    "no label": (
        changed(5, {"class": None}, {"class": None}),
        "train.jsonl: field 'class' is missing (2 values)",
    ),
    "unseen labels": (
        changed(5, {"class": SECRET}, {"class": True}),
        "field 'class' is not one of the 2 labels; expected one of good, bad (2 values)",
    ),
    "a list for a label": (
        changed(5, {"class": [SECRET]}),
        "field 'class' is not one of the 2 labels; expected one of good, bad (1 value)",
    ),
    "no text": (changed(5, {"body": None}), "field 'body' is missing (1 value)"),
    "a number for a text": (
        changed(5, {"body": 12}, {"body": {"x": SECRET}}),
        "field 'body' is not text (2 values)",
    ),
}


@pytest.mark.parametrize("train, phrase", BROKEN.values(), ids=BROKEN)
def test_what_breaks_the_contract_is_one_sentence_with_a_count_and_no_text(
    tmp_path: Path, train: bytes, phrase: str
) -> None:
    assert phrase in refusal(tmp_path, train)


def test_empty_texts_and_texts_of_blanks_are_counted(tmp_path: Path) -> None:
    train = changed(5, {"body": ""}, {"body": " \t\u200b\x00"}, {"body": "\ud800"})
    told = "train.jsonl: some texts are empty; expected something in every one (3 of 5 texts)"
    assert told in refusal(tmp_path, train, text_contract(lambda one: one.update(text="{body}")))


def test_where_answers_are_texts_records_without_either_are_left_out(tmp_path: Path) -> None:
    """One dialogue of SAMSum is empty."""
    free = text_contract(as_free_text)
    train = changed(5, {"body": " \r\n"}, {"head": ""}, {"head": None}, {"head": "two\r\nlines"})
    assert read(tmp_path, train, free) == [
        ("two lines", "letter 3 of ann"),
        ("Re 4", "letter 4 of ann"),
    ]
    for none in (changed(2, {"body": ""}, {"body": ""}), changed(1, {"head": ""}), b"", b"\n \n"):
        assert not read(tmp_path, none, free)
    missing = changed(2, {"body": None})
    assert "field 'body' is missing (1 value)" in refusal(tmp_path, missing, free)


@pytest.mark.parametrize("value", [7, {"x": SECRET}, [SECRET, 1], False])
def test_answers_that_are_no_text_are_counted(tmp_path: Path, value: Any) -> None:
    train = changed(5, {"slots": {"Name": value}})
    assert "field 'slots.Name' is neither text nor a list of texts (1 value)" in refusal(
        tmp_path, train, EXTRACTION
    )


def test_odd_but_harmless_files_are_read(tmp_path: Path) -> None:
    """A byte order mark, CRLF, no end of the last line, more fields than are asked for, numbers as
    labels.
    """

    def labelled(*labels: object) -> TextContract:
        known = {
            label: {"text": text, "min_rows": 4}
            for label, text in zip(labels, ("No", "Yes"), strict=True)
        }
        return text_contract(lambda content: content["task"].update(labels=known))

    content = b"\xef\xbb\xbf" + lines(records(2)).replace(b"\n", b"\r\n").removesuffix(b"\r\n")
    assert len(read(tmp_path, content)) == 2
    numbers = changed(2, {"class": 0}, {"class": 1})
    table = parse_texts(numbers, labelled(0, "1"), "x.jsonl")
    assert table.column("label").to_pylist() == ["0", "1"]
    truths = changed(2, {"class": True}, {"class": False})
    with pytest.raises(DataError, match=r"not one of the 2 labels; expected one of True, False$"):
        parse_texts(truths, labelled("True", "False"), "x.jsonl")


def test_control_characters_line_breaks_and_lone_surrogates_become_blanks(tmp_path: Path) -> None:
    body = "a\x00b\r\n\n c\u2028d\u202e\u200be\ud83d\u00a0f "
    assert read(tmp_path, changed(1, {"head": "x", "body": body})) == [("good", "x: a b c d e f")]


def test_a_gzip_bomb_is_refused(tmp_path: Path) -> None:
    write_files(tmp_path, test=b" " * (40 * MIB))
    with pytest.raises(
        DataError, match=r"test.jsonl.gz: unpacks to too much; expected at most 100 times its size$"
    ):
        load_texts(CONTRACT, data_folder=tmp_path)


@given(st.text(st.characters(exclude_categories=())))
def test_plain_text_is_one_printable_line_and_stays_as_it_is(text: str) -> None:
    plain, blanks = plain_text(text), ("Cc", "Cf", "Cs", "Zs", "Zl", "Zp")
    assert plain == plain_text(plain) == " ".join(plain.split(" ")) == plain.strip()
    kept = [letter for letter in text if unicodedata.category(letter) not in blanks]
    assert plain.replace(" ", "") == "".join(kept), "nothing but blanks is changed"


BODIES = st.text(st.characters(codec="utf-8"), max_size=30).map(lambda text: f"x{text}")


def records_of(pairs: list[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"class": label, "head": "h", "body": body} for label, body in pairs]


@given(st.lists(st.tuples(st.sampled_from(["good", "bad"]), BODIES), min_size=1, max_size=8))
def test_no_record_depends_on_another(pairs: list[tuple[str, str]]) -> None:
    content = records_of(pairs)
    alone = [rows(parse_texts(lines([record]), CONTRACT, "x.jsonl"))[0] for record in content]
    assert rows(parse_texts(lines(content), CONTRACT, "x.jsonl")) == alone


@given(
    st.lists(
        st.tuples(st.sampled_from(["good", "bad"]), BODIES.filter(lambda text: "\x00" not in text)),
        min_size=1,
        max_size=5,
    )
)
def test_every_format_gives_the_same_table(pairs: list[tuple[str, str]]) -> None:
    content = records_of(pairs)
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, ["body", "class", "head"])
    writer.writeheader()
    writer.writerows(content)
    parquet = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(content), parquet)
    one, *others = (
        rows(parse_texts(data, CONTRACT, name))
        for data, name in (
            (lines(content), "x.jsonl"),
            (text.getvalue().encode(), "x.csv"),
            (parquet.getvalue(), "x.parquet"),
        )
    )
    assert others == [one, one]


def parquet_bytes(**columns: Any) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(
        pa.table({"class": ["good"] * 3, "head": ["h"] * 3, "body": ["b"] * 3, **columns}), buffer
    )
    return buffer.getvalue()


COLUMNS: dict[str, tuple[bytes, str, str]] = {
    "an unknown kind": (
        b"x",
        "x.txt",
        "is of an unknown kind; expected a name that ends in .jsonl",
    ),
    "a missing column": (
        b"class,head\ngood,h\n",
        "x.csv",
        "field 'body' is not one of the columns",
    ),
    "a column twice": (
        b"class,head,body,body\ngood,h,a,b\n",
        "x.csv",
        "expected a column for every field, each once",
    ),
    "ragged rows": (
        b"class,head,body\ngood,h\n",
        "x.csv",
        "some rows are ragged; expected 3 fields in each (1 of 1 rows)",
    ),
    "nested Parquet": (
        parquet_bytes(body=[{"a": SECRET}] * 3),
        "x.parquet",
        "field 'body' is not text (3 values)",
    ),
    "bytes in Parquet": (
        parquet_bytes(body=[b"\xff"] * 3),
        "x.parquet",
        "field 'body' is not text (3 values)",
    ),
    "nulls in Parquet": (
        parquet_bytes(body=pa.array([None, "b", None])),
        "x.parquet",
        "field 'body' is missing (2 values)",
    ),
    "damaged Parquet": (parquet_bytes()[:-9], "x.parquet", "is not a complete Parquet file"),
}


@pytest.mark.parametrize("data, name, phrase", COLUMNS.values(), ids=COLUMNS)
def test_broken_columns_are_one_sentence(data: bytes, name: str, phrase: str) -> None:
    with pytest.raises(DataError) as caught:
        parse_texts(data, CONTRACT, name)
    assert phrase in caught.value.details() and SECRET not in caught.value.details()


def test_one_long_text_that_many_records_share_is_refused() -> None:
    shared = pa.DictionaryArray.from_arrays(
        pa.array([0] * 50_000, pa.int32()), pa.array(["x" * MIB])
    )
    data = parquet_bytes(**{"class": ["good"] * 50_000, "head": ["h"] * 50_000, "body": shared})
    with pytest.raises(
        DataError, match=r"field 'body' holds too many bytes; expected less in a file of its size$"
    ):
        parse_texts(data, CONTRACT, "x.parquet")


def test_files_that_are_not_at_hand_are_told_with_what_to_do(tmp_path: Path) -> None:
    told = "mail: no texts at hand; set DPICL_DATA to the folder that holds mail/train.jsonl"
    for folder in (None, tmp_path):
        with pytest.raises(SourceError, match=told):
            load_texts(CONTRACT, data_folder=folder)
    test = tmp_path / "mail/test.jsonl.gz"
    found = find_texts(CONTRACT, data_folder=write_files(tmp_path))
    assert found == {"train": tmp_path / TRAIN, "test": test}
    test.unlink()
    with pytest.raises(SourceError, match=r"holds mail/test.jsonl.gz"):
        find_texts(CONTRACT, data_folder=tmp_path)


def test_a_path_that_leads_out_of_the_data_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret.jsonl").write_bytes(lines(records(3)))
    outside = text_contract(
        lambda content: content["source"]["train"].update(file="a/../../secret.jsonl")
    )
    with pytest.raises(SourceError, match="leads out of the data folder"):
        find_texts(outside, data_folder=write_files(tmp_path / "data"))


PAIRS = st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), max_size=6)


@given(PAIRS, PAIRS)
def test_two_tables_have_one_digest_exactly_where_they_hold_the_same_rows(
    some: list[tuple[str, str]], others: list[tuple[str, str]]
) -> None:
    def digest(pairs: list[tuple[str, str]]) -> str:
        columns = {"text": [text for _, text in pairs], "label": [label for label, _ in pairs]}
        return texts_digest(
            pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
        )

    assert digest(some) == digest(some[::-1])
    assert (digest(some) == digest(others)) == (sorted(some) == sorted(others))
