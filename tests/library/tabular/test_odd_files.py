"""Files as people have them are read by what `source` says of them, or refused with what to say."""

from __future__ import annotations

import builtins
import io
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from dpicl.client.records import Records
from dpicl.contract import Contract, parse_contract
from dpicl.contract.load import contract_digest
from dpicl.data.reading.files import read_table, survey
from dpicl.data.reading.queries import load_queries, read_unlabelled
from dpicl.data.reading.source import PERIOD, load_source, read_deliveries
from dpicl.data.reading.written import with_point
from dpicl.ground.errors import DataError, DeclarationError, DpiclError, SourceError
from tests.library.tabular import odd_files
from tests.library.tabular.odd_files import COLUMNS, EXCEL, READ, REFUSED, OddFile, plain, rows


def contract(source: dict[str, Any], **more: Any) -> Contract:
    """Of the columns of all these files."""
    made = parse_contract(
        {
            "version": 2,
            "name": "odd",
            "source": source,
            "privacy": {"budget": {"epsilon": 1}},
            "columns": COLUMNS,
            "label": "bought",
            **more,
        },
        "odd.yaml",
    )
    assert isinstance(made, Contract)
    return made


def read(folder: Path, odd: OddFile, **more: Any) -> list[dict[str, Any]]:
    """The rows of a file by its contract."""
    (folder / odd.name).write_bytes(odd.content())
    table = read_table(folder / odd.name, contract({"file": odd.name, **odd.source}, **more))
    return table.to_pylist()


def expected() -> list[tuple[Any, ...]]:
    """What is read of each."""
    return [(*row[:4], "true" if row[4] else "false") for row in plain(rows())]


def read_values(table: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Of a table as it is typed."""
    return [tuple(row.values()) for row in table]


@pytest.mark.parametrize("odd", READ, ids=lambda odd: f"{odd.case}: {odd.name}")
def test_a_file_is_read_as_it_is_written(tmp_path: Path, odd: OddFile) -> None:
    assert read_values(read(tmp_path, odd)) == expected()


@pytest.mark.parametrize("odd", REFUSED, ids=lambda odd: f"{odd.case}: {odd.name}")
def test_a_file_is_refused_with_what_to_do_about_it(tmp_path: Path, odd: OddFile) -> None:
    with pytest.raises(DpiclError) as refused:
        read(tmp_path, odd)
    sentence = str(refused.value)
    assert odd.refused in sentence and "\n" not in sentence
    assert not any(word in sentence for word in ("Köln", "note", "47.5", "47,5"))


def test_a_value_that_is_none_is_its_own_row_s_affair_however_it_is_written(
    tmp_path: Path,
) -> None:
    left_out = {"source": {"invalid": "leave-out"}}
    for odd, spoilt in (
        (OddFile("", "a.csv", odd_files._excel, EXCEL), b"01.02.2024"),
        (OddFile("", "a.jsonl", odd_files.lines), b'"2024-02-02"'),
    ):
        content = odd.content()
        assert content.count(spoilt) == (0 if odd.name == "a.csv" else 1)
        day = spoilt if odd.name != "a.csv" else b"02.02.2024"
        broken = OddFile("", odd.name, lambda: content.replace(day, b'"x"', 1), odd.source)  # noqa: B023
        with pytest.raises(DataError, match="column 'day': is no date"):
            read(tmp_path, broken)
        source = {**odd.source, **left_out["source"]}
        kept = read_values(read(tmp_path, OddFile("", odd.name, broken.content, source)))
        assert kept == [expected()[0], *expected()[2:]]


def test_a_line_of_json_that_is_none_is_left_out_alone(tmp_path: Path) -> None:
    content = odd_files.lines().splitlines()
    content[3:6] = [b"[1]", b"\xff", b'{"age": 30, "else": 1}']
    odd = OddFile("", "a.jsonl", lambda: b"\n".join(content), {"invalid": "leave-out"})
    assert read_values(read(tmp_path, odd)) == [*expected()[:3], *expected()[6:]]


def test_words_for_missing_values_stay_words(tmp_path: Path) -> None:
    columns = {**COLUMNS, "spent": {**COLUMNS["spent"], "missing": ["k.A.", ".", -9.5]}}
    for word in (b"k.A.", b".", b"-9,5"):
        content = odd_files._excel().replace(b";;", b";" + word + b";")
        odd = OddFile("", "a.csv", lambda: content, EXCEL)  # noqa: B023
        assert word in content
        assert read_values(read(tmp_path, odd, columns=columns)) == expected()


def test_what_is_usual_is_in_no_digest_and_what_changes_a_value_is() -> None:
    usual = {"delimiter": ",", "decimal": ".", "encoding": "utf-8", "dates": None, "rename": {}}
    plain_contract = contract({"file": "a.csv"})
    assert contract_digest(contract({"file": "a.csv", **usual})) == contract_digest(plain_contract)
    assert not usual.keys() & json.loads(plain_contract.model_dump_json())["source"].keys()
    digests = {
        contract_digest(contract({"file": "a.csv", **said}))
        for said in (
            {},
            {"decimal": ","},
            {"dates": "%d.%m.%Y"},
            {"dates": "%m.%d.%Y"},
            {"encoding": "latin-1"},
            {"delimiter": ";"},
            {"rename": {"cost": "spent"}},
        )
    }
    assert len(digests) == 7


@pytest.mark.parametrize(
    "source",
    [{"frame": True}, {"query": {"url_env": "A", "sql": "SELECT"}}, {"openml": {"id": 1}}],
)
def test_rows_that_come_from_no_file_are_converted_where_they_come_from(
    source: dict[str, Any],
) -> None:
    with pytest.raises(DeclarationError, match="`decimal` is about rows in a file of one's own"):
        contract({**source, "decimal": ","}, account="odd")


def test_a_folder_of_parquet_files_has_their_names_and_dates(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    table = pq.read_table(_file(tmp_path, odd_files.parquet(day=odd_files.dotted)))
    for number in (0, 1):
        renamed = table.slice(20 * number, 20).rename_columns(
            ["age", "cost: [€]", *list(COLUMNS)[2:]]
        )
        pq.write_table(renamed, folder / f"{number}.parquet")
    of_folder = contract({"folder": "parts", "dates": "%d.%m.%Y", "rename": {"cost: [€]": "spent"}})
    found = survey(of_folder, tmp_path)
    assert found is not None
    assert read_values(found.whole(of_folder).to_pylist()) == expected()
    assert read_values(found.batch(0, of_folder).to_pylist()) == expected()
    with pytest.raises(DataError, match="column 'cost': .* though `source.rename` names it"):
        survey(contract({"folder": "parts", "rename": {"cost": "spent"}}), tmp_path)
    (folder / "2.csv").write_bytes(odd_files.text())
    with pytest.raises(DataError, match="expected only names that end in .parquet"):
        survey(of_folder, tmp_path)


def _file(folder: Path, content: bytes) -> Path:
    (folder / "one.parquet").write_bytes(content)
    return folder / "one.parquet"


def test_public_queries_are_written_as_the_rows_are(tmp_path: Path) -> None:
    stated = contract({"file": "a.csv", **EXCEL}, queries={"file": "panel.csv"})
    (tmp_path / "panel.csv").write_bytes(odd_files._excel())
    asked = load_queries(stated, data_folder=tmp_path)
    assert asked is not None and read_values(asked.to_pylist()) == expected()
    one = read_unlabelled(odd_files._excel(), stated, "standard input")
    assert one.data.column("spent").to_pylist() == [row[1] for row in expected()]
    workbook = read_unlabelled(odd_files.workbook(), stated, "new.xlsx")
    assert workbook.data.drop_columns("bought").equals(one.data.drop_columns("bought"))


@pytest.mark.parametrize(
    "keys",
    [
        {"delimiter": ";"},
        {"decimal": ","},
        {"dates": "%d.%m.%Y"},
        {"encoding": "utf-16"},
        {"rename": {"Umsatz": "spent"}},
        EXCEL,
    ],
    ids=["delimiter", "decimal", "dates", "encoding", "rename", "all"],
)
def test_a_users_queries_may_be_rows_that_dpicl_wrote(keys: dict[str, Any]) -> None:
    """Whatever form the private file has."""
    stated, plain = contract({"file": "a.csv", **keys}), contract({"file": "a.csv"})
    ours = odd_files.text()
    read = read_unlabelled(ours, stated, "s.csv")
    assert read.data.equals(read_unlabelled(ours, plain, "s.csv").data)


def test_what_fits_neither_form_is_refused_by_the_one_that_its_header_has() -> None:
    stated = contract({"file": "a.csv", **EXCEL})
    ours, theirs = odd_files.text(), odd_files._excel()
    head, first, *more = ours.splitlines(keepends=True)
    spoilt = b"".join([head, first.replace(b"-1.0", b"many"), *more])
    assert spoilt != ours
    with pytest.raises(DataError, match="s.csv: column 'spent': is not a finite number"):
        read_unlabelled(spoilt, stated, "s.csv")
    spoilt = theirs.replace(b"3,625", b"many")
    assert spoilt != theirs
    with pytest.raises(DataError, match="a.csv: column 'spent': is not a finite number"):
        read_unlabelled(spoilt, stated, "a.csv")
    quoted = b'"age","spent eur"\n' + b"1,2\n"
    with pytest.raises(DataError, match="not CSV; expected a header with ';' between names"):
        read_unlabelled(quoted, stated, "a.csv")


def test_a_client_s_records_are_written_as_the_contract_says() -> None:
    local = {"privacy": {"neighbours": "replace-one", "budget": {"epsilon": 1}}}
    stated = contract({"file": "a.csv", **EXCEL}, **local)
    content = odd_files._excel()
    head, first, *more = content.splitlines(keepends=True)
    numbered = b"id;" + head + b"".join(b"%d;%s" % pair for pair in enumerate([first, *more]))
    records = Records.read(numbered, stated, "id")
    assert read_values(records.table.data.to_pylist()) == expected() and records.replaced == 0
    spoilt = numbered.replace(b"01.01.2024", b"2024-01-01").replace(b"3,625", b"3.625")
    assert Records.read(spoilt, stated, "id").replaced == 2


def test_deliveries_are_of_any_kind_and_written_alike(tmp_path: Path) -> None:
    series = {
        "releases": {"every": "month", "horizon": 2, "first": "2026-01-01"},
        "privacy": {"sampling_rate": 1, "budget": {"epsilon": 1, "delta": 1e-6}},
    }
    stated = contract({"deliveries": "in", **EXCEL}, **series)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "2026-01.csv").write_bytes(odd_files._excel())
    (tmp_path / "in" / "2026-02.xlsx").write_bytes(
        odd_files.workbook(spent=odd_files.german, day=lambda day: odd_files.dotted(day))
    )
    read = read_deliveries(stated, tmp_path, [1, 2]).drop_columns(PERIOD)
    assert read_values(read.to_pylist()) == expected() * 2


def test_without_the_extra_one_sentence_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def missing(name: str, *arguments: Any, **named: Any) -> Any:
        if name == "openpyxl":
            raise ModuleNotFoundError(name="openpyxl")
        return real(name, *arguments, **named)

    monkeypatch.setitem(sys.modules, "openpyxl", None)
    monkeypatch.setattr("dpicl.ground.installed.find_spec", lambda name: None)
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(SourceError, match=r"a.xlsx: openpyxl is not installed; .*dpicl\[excel\]"):
        load_source(contract({"file": "a.xlsx"}), data_folder=tmp_path, cache_folder=tmp_path)


@pytest.mark.parametrize("with_key", [0, 1])
def test_one_row_does_not_decide_whether_a_file_of_json_lines_is_read(
    tmp_path: Path, with_key: int
) -> None:
    """Rows leave out keys of missing values: a column that one of them has makes no other file."""
    of_rows = [dict(row) for row in rows()]
    for row in of_rows[with_key:]:
        del row["town"]
    content = "\n".join(json.dumps(row, default=str) for row in of_rows).encode()
    odd = OddFile("few keys", "a.jsonl", lambda: content)
    columns = COLUMNS | {"town": COLUMNS["town"] | {"nullable": True}}
    towns = [row["town"] for row in read(tmp_path, odd, columns=columns)]
    assert towns == [row.get("town", "(missing)") for row in of_rows]


@pytest.mark.parametrize("broken", ["\ud800", None], ids=["half a letter", "half a character"])
def test_a_cell_that_is_no_utf_16_is_its_own_row_s_fault(
    tmp_path: Path, broken: str | None
) -> None:
    lines = odd_files.text().decode().splitlines(keepends=True)
    content = "".join(lines).encode("utf-16")
    if broken is None:
        content += b"\n"
    else:
        cells = lines[1].rstrip("\n").split(",")
        town = list(COLUMNS).index("town")
        cells[town] = broken
        lines[1] = ",".join(cells) + "\n"
        content = "".join(lines).encode("utf-16", "surrogatepass")
    source = {"encoding": "utf-16", "invalid": "leave-out"}
    found = read(tmp_path, OddFile("broken", "a.csv", lambda: content, source))
    assert len(found) == len(rows()) - (broken is not None)


def test_a_cell_that_a_workbook_s_reader_warns_of_is_told_nobody(
    tmp_path: Path, recwarn: pytest.WarningsRecorder, capfd: pytest.CaptureFixture[str]
) -> None:
    from openpyxl import load_workbook

    book = load_workbook(io.BytesIO(odd_files.workbook()))
    cell = book.worksheets[0].cell(2, 1 + list(COLUMNS).index("age"), 98_765_432_109)
    cell.number_format = "yyyy-mm-dd"
    content = io.BytesIO()
    book.save(content)
    odd = OddFile("no date", "a.xlsx", content.getvalue, {"invalid": "leave-out"})
    assert len(read(tmp_path, odd)) == len(rows()) - 1
    assert "98765432109" not in "".join([*map(str, recwarn), *capfd.readouterr()])


def test_a_long_cell_is_read_in_no_time() -> None:
    long = "1" * 1_000_000 + "x"
    assert with_point(long) == long
    assert with_point("1" * 1_000_000 + ",5") == "1" * 1_000_000 + ".5"


def test_a_decimal_comma_is_one_of_listed_numbers_too(tmp_path: Path) -> None:
    made = contract(
        {"file": "a.csv", "delimiter": ";", "decimal": ","},
        columns={"dose": {"type": "category", "categories": [0.5, 1]}, "bought": COLUMNS["bought"]},
    )
    (tmp_path / "a.csv").write_text("dose;bought\n0,5;true\n1;false\n")
    table = read_table(tmp_path / "a.csv", made)
    assert table.column("dose").to_pylist() == ["0.5", "1"]
