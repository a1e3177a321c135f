"""A6: in a series, a delivery and a set of texts, a night with a row that breaks the contract by
itself is released like one without.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpicl.contract import TextContract
from dpicl.data.reading import parse
from dpicl.data.text_records import parse_texts
from dpicl.ground.errors import DataError
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from tests.harness import Place, new_place
from tests.library.series_contracts import NAME, series_tree, visit, visits
from tests.library.text_contracts import as_extraction, as_free_text, lines, records, text_contract
from tests.tasks.test_series import declare, night, put, spent

GONE: dict[str, dict[str, Any]] = {
    "an empty id": {"who": ""},
    "no day": {"day": "soon"},
    "an empty day": {"day": ""},
    "a day that is none": {"day": "2026-02-30"},
    "no number": {"age": "old"},
    "beyond 64 bits": {"age": "9" * 30},
    "an unknown category": {"city": "c"},
    "an empty category": {"sex": ""},
    "an unknown label": {"buys": "perhaps"},
    "a text too long": {"city": "c" * 70_000},
    "all of it": dict.fromkeys(("who", "day", "age", "city", "sex", "buys"), ""),
}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = new_place(tmp_path / "place")
    with place.entered():
        declare(place)
        yield place


def counted(horizon_day: int = 2) -> tuple[Any, ...]:
    """What a night says and charges."""
    return night(horizon_day).spent, spent()


def rows_read() -> int:
    from dpicl.data.reading.source import load_source

    settings = Settings.current()
    return int(
        load_source(
            settings.contract(NAME), data_folder=settings.data, cache_folder=settings.cache
        ).num_rows
    )


@pytest.mark.quick("an empty id", "a day that is none", "beyond 64 bits", "an unknown label")
@pytest.mark.parametrize("name", GONE)
def test_a_night_with_such_a_row_is_a_night_like_others(place: Place, name: str) -> None:
    put(place, [*visits(2), visit("new", 2) | GONE[name]])
    assert rows_read() == len(visits(2))
    said, (epsilon, releases) = counted()
    assert (
        "2 periods released now" in said[1]
        and releases == 3
        and epsilon == pytest.approx(2, rel=0.01)
    )


@pytest.mark.quick("2", "-1.5")
@pytest.mark.parametrize("sign", ["0", "2", "", "+", "-1.5", "minus one"])
def test_a_row_of_no_sign_is_left_out(place: Place, sign: str) -> None:
    person = {"id_column": "who", "max_rows": 2, "max_rows_in_horizon": 4}
    privacy = {"unit": "person", "person": person, "budget": {"epsilon": 3, "delta": 1e-6}}
    declare(
        place,
        series_tree(
            source={"file": f"{NAME}.csv", "arrived": "day", "sign": "sign"}, privacy=privacy
        ),
    )
    good = [row | {"sign": 1} for row in visits(2)]
    put(place, [*good, visit("new", 2) | {"sign": sign}])
    assert rows_read() == len(good) and "2 periods released now" in counted()[0][1]


@pytest.mark.parametrize("name", ["an empty id", "no number", "an unknown label"])
def test_a_horizon_may_refuse_where_it_says_so(place: Place, name: str) -> None:
    declare(
        place, series_tree(source={"file": f"{NAME}.csv", "arrived": "day", "invalid": "refuse"})
    )
    put(place, [*visits(2), visit("new", 2) | GONE[name]])
    with pytest.raises(DataError):
        night(2)
    with open_ledger(Settings.current()) as ledger:
        assert not any(ledger.entries(account.name) for account in ledger.accounts())


DELIVERED = {
    "no number": "20,x,m,no,p1".replace("20", "old"),
    "a ragged line": "20,a,m",
    "too many fields": "20,a,m,no,p1,more",
    "an empty id": "20,a,m,no,",
    "Latin-1": "20,a,m,n\xf6,p1",
}


@pytest.mark.parametrize("name", DELIVERED)
def test_so_are_deliveries(place: Place, name: str) -> None:
    declare(place, series_tree(source={"deliveries": "visits"}))
    folder = place.root / "data" / "visits"
    folder.mkdir()
    good = [
        f"{row['age']},{row['city']},{row['sex']},{row['buys']},{row['who']}" for row in visits(2)
    ]
    for day in ("01", "02"):
        (folder / f"2026-03-{day}.csv").write_bytes(
            "\n".join(["age,city,sex,buys,who", *good, DELIVERED[name], ""]).encode("latin-1")
        )
    assert "2 periods released now" in counted()[0][1]


def test_a_refusing_night_would_be_seen(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault as it was, in a mutant."""
    valid = parse._valid
    monkeypatch.setattr(
        parse,
        "_valid",
        lambda values, read, name, where, *, refuse: valid(values, read, name, where, refuse=True),
    )
    for name in ("an unknown label", "an empty id", "no day"):
        with pytest.raises(DataError):
            test_a_night_with_such_a_row_is_a_night_like_others(place, name)


def nightly(change: Callable[[dict[str, Any]], object] = lambda content: None) -> TextContract:
    def recurring(content: dict[str, Any]) -> None:
        change(content)
        del content["source"]["test"]
        content |= {
            "releases": {"every": "month"},
            "privacy": {"budget": {"epsilon": 3, "delta": 0.01}},
        }

    return text_contract(recurring)


TEXTS: dict[str, Any] = {
    "no label": {"class": None},
    "an unknown label": {"class": "ugly"},
    "a number for a label": {"class": 3},
    "a list for a label": {"class": ["good"]},
    "no body": {"body": None},
    "a number for a text": {"body": 4.5},
    "a list for a text": {"body": ["one"]},
    "a mapping for a text": {"head": {"a": 1}},
}
ONE = records(1)[0]
LINES: dict[str, bytes] = {name: lines([{**ONE, **change}]) for name, change in TEXTS.items()} | {
    "half a record": json.dumps(ONE).encode()[:-5] + b"\n",
    "no record": b"[1, 2]\n",
    "no JSON": b"good: a text\n",
    "Latin-1": json.dumps({**ONE, "body": "caf\xe9"}, ensure_ascii=False).encode("latin-1") + b"\n",
    "deeper than any": b"[" * 100_000 + b"\n",
}


@pytest.mark.parametrize("name", LINES)
def test_a_record_that_is_none_is_left_out(name: str) -> None:
    good = lines(records(6))
    begun = good.index(b"\n") + 1
    content = good[:begun] + LINES[name] + good[begun:]
    once = text_contract()
    assert parse_texts(content, nightly(), "x.jsonl").equals(parse_texts(good, once, "x.jsonl"))
    with pytest.raises(DataError):
        parse_texts(content, once, "x.jsonl")


def test_so_is_an_empty_text() -> None:
    content = lines([{**ONE, "head": "", "body": " "}, *records(3)])
    change: Callable[[dict[str, Any]], object] = lambda content: content.update(text="{body}")  # noqa: E731
    assert parse_texts(content, nightly(change), "x.jsonl").num_rows == 3
    with pytest.raises(DataError, match="some texts are empty; expected something in every one$"):
        parse_texts(content, text_contract(change), "x.jsonl")


@pytest.mark.parametrize("change", [as_extraction, as_free_text])
def test_and_an_answer_that_is_none(change: Callable[[dict[str, Any]], None]) -> None:
    broken = {**ONE, "slots": {"Name": [1, 2]}, "head": 7}
    content = lines([broken, *records(3)])
    assert parse_texts(content, nightly(change), "x.jsonl").num_rows == 3
    with pytest.raises(DataError, match="neither text nor a list of texts"):
        parse_texts(content, text_contract(change), "x.jsonl")


def test_a_writer_without_a_name_is_nobody() -> None:
    def persons(content: dict[str, Any]) -> None:
        content |= {"releases": {"every": "month"}}
        content["privacy"] = {
            "unit": "person",
            "person": {"id_column": "who", "max_rows": 2},
            "budget": {"epsilon": 3, "delta": 0.01},
        }
        del content["source"]["test"], content["generation"], content["prompts"]["generation"]
        content["ensemble"] = {"subsets": 2, "delta": "1/100"}

    texts = [
        {**one, "who": who} for one, who in zip(records(4), ("a", "", "b", "\ud800"), strict=True)
    ]
    del texts[2]["who"]
    assert parse_texts(lines(texts), text_contract(persons), "x.jsonl").num_rows == 2


def test_lines_of_csv_too() -> None:
    text = io.StringIO()
    writer = csv.DictWriter(
        text, ["class", "head", "body"], extrasaction="ignore", lineterminator="\n"
    )
    writer.writeheader()
    writer.writerows(records(3))
    content = text.getvalue().encode() + b"good,too few\ngood,a,b,c\nugly,a,b\ngood,a,\xff\n"
    assert parse_texts(content, nightly(), "x.csv").num_rows == 3


@pytest.mark.parametrize(
    "odd", [3, None, [1], "a text", {"class": "ugly"}, {**ONE, "body": "caf\udce9"}]
)
def test_and_members_of_a_list(odd: Any) -> None:
    members = [*records(2), odd, records(3)[2]]
    content = json.dumps(members, ensure_ascii=False).encode(errors="surrogateescape")
    assert parse_texts(content, nightly(), "x.json").equals(
        parse_texts(lines(records(3)), text_contract(), "x.jsonl")
    )
    with pytest.raises(DataError):
        parse_texts(content, text_contract(), "x.json")


@pytest.mark.parametrize("kind", [pa.binary(), pa.string()], ids=str)
@pytest.mark.parametrize("column", ["class", "body"])
def test_and_bytes_of_no_text_in_parquet(column: str, kind: pa.DataType) -> None:
    rows = [*records(3), {**ONE, column: "\udcff"}]
    names, file = ("class", "head", "body"), io.BytesIO()
    table = {
        name: pa.array([row[name].encode(errors="surrogateescape") for row in rows], pa.binary())
        for name in names
    }
    stored = [pa.Array.from_buffers(kind, 4, column.buffers()) for column in table.values()]
    pq.write_table(pa.table(stored, names), file)
    assert parse_texts(file.getvalue(), nightly(), "x.parquet").equals(
        parse_texts(lines(records(3)), text_contract(), "x.jsonl")
    )
    with pytest.raises(DataError):
        parse_texts(file.getvalue(), text_contract(), "x.parquet")


def test_public_texts_are_refused_as_ever(tmp_path: Path) -> None:
    """Nobody is told of by a refusal, and answers stay beside their queries."""
    from dpicl.data.text_files import read_part

    def queried(content: dict[str, Any]) -> None:
        content["source"]["queries"] = content["source"].pop("test")
        content |= {
            "releases": {"every": "month"},
            "privacy": {"budget": {"epsilon": 3, "delta": 0.01}},
        }

    (tmp_path / "queries.jsonl").write_bytes(lines([*records(3), {**ONE, "class": "ugly"}]))
    with pytest.raises(DataError, match="is not one of the 2 labels"):
        read_part(text_contract(queried), "test", tmp_path / "queries.jsonl", "queries.jsonl")


DAYS = [10**7, -(10**7), 2**31 - 1, -(2**31), None]


@pytest.mark.quick("10000000", "None")
@pytest.mark.parametrize("day", DAYS)
def test_a_day_beyond_the_calendar_stops_nothing(place: Place, day: int | None) -> None:
    """Parquet holds days that no calendar has: they belong to no night, or to the first."""
    declare(place, series_tree(source={"file": f"{NAME}.parquet", "arrived": "day"}))
    rows = pa.Table.from_pylist([*visits(2), visit("new", 2)])
    days = [
        date.fromisoformat(one).toordinal() - date(1970, 1, 1).toordinal()
        for one in rows.column("day").to_pylist()[:-1]
    ]
    place_of_day = rows.column_names.index("day")
    rows = rows.set_column(
        place_of_day, "day", pa.array([*days, day], pa.int32()).cast(pa.date32())
    )
    pq.write_table(rows, place.root / "data" / f"{NAME}.parquet")
    assert "2 periods released now" in counted()[0][1]
