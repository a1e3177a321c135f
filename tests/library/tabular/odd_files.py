"""Files as people have them: the same forty rows in many ways, each of which is read as they are
once `source` says how it is written, or refused with what to write there.
"""

from __future__ import annotations

import gzip
import io
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = {
    "age": {"type": "integer", "bounds": [18, 90]},
    "spent": {"type": "real", "bounds": [-5, 500], "nullable": True},
    "town": {"type": "category", "categories": ["Köln", "Bonn", "a;b, c"]},
    "day": {"type": "date", "bounds": ["2020-01-01", "2026-12-31"]},
    "bought": {"type": "boolean"},
}
LONG = 'Spent: [EUR] {net} #1 !\n(without "VAT")' + " and so on" * 40
Rows = list[dict[str, Any]]


def rows() -> Rows:
    """Values as Python has them; `spent` is missing in some."""
    return [
        {
            "age": 20 + number % 30,
            "spent": None if number % 9 == 4 else (number * 37 % 400) / 8 - 1,
            "town": ("Köln", "Bonn", "a;b, c")[number % 3],
            "day": pd.Timestamp(2024, 1 + number % 12, 1 + number % 28).to_pydatetime(),
            "bought": number % 2 == 0,
        }
        for number in range(40)
    ]


def text(
    separator: str = ",",
    *,
    decimal: str = ".",
    day: str = "%Y-%m-%d",
    names: Mapping[str, str] | None = None,
    encoding: str = "utf-8",
    end: str = "\n",
    head: str = "",
) -> bytes:
    """The rows as a file of text."""
    frame = pd.DataFrame(rows()).rename(columns=names or {})
    body = frame.assign(bought=frame["bought"].map({True: "true", False: "false"})).to_csv(
        index=False, sep=separator, decimal=decimal, date_format=day, lineterminator=end
    )
    return (head + body).encode(encoding)


def lines(change: Callable[[dict[str, Any]], Any] = dict) -> bytes:
    """As JSON lines; a value that is missing has no key."""
    made = [change({**row, "day": row["day"].date().isoformat()}) for row in rows()]
    without = [
        {key: value for key, value in row.items() if value is not None}
        if isinstance(row, dict)
        else row
        for row in made
    ]
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in without).encode()


def workbook(
    names: Mapping[str, str] | None = None,
    above: tuple[str, ...] = (),
    **formats: Callable[[Any], Any],
) -> bytes:
    """As a workbook, of whose cells some are texts."""
    from openpyxl import Workbook

    book, file = Workbook(), io.BytesIO()
    sheet = book.active
    if above:
        sheet.append(above)
    sheet.append([(names or {}).get(name, name) for name in COLUMNS])
    for row in rows():
        sheet.append([formats.get(name, lambda value: value)(row[name]) for name in COLUMNS])
    book.create_sheet("notes").append(["of another sheet"])
    book.save(file)
    return file.getvalue()


def parquet(**formats: Callable[[Any], Any]) -> bytes:
    """As a Parquet file, with columns of text."""
    columns = {
        name: [formats.get(name, lambda value: value)(row[name]) for row in rows()]
        for name in COLUMNS
    }
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def german(value: float | None) -> str | None:
    """A number as a text with a decimal comma."""
    return None if value is None else f"{value}".replace(".", ",")


def dotted(value: Any) -> str:
    """A day as 25.11.2026."""
    return f"{value:%d.%m.%Y}"


def of_strings(row: dict[str, Any]) -> dict[str, Any]:
    """A row of JSON in which numbers and days are texts."""
    year, month, day = row["day"].split("-")
    return {**row, "spent": german(row["spent"]), "day": f"{day}.{month}.{year}"}


@dataclass(frozen=True, eq=False)
class OddFile:
    """A file, what `source` says of it, and the sentence by which it is refused, if it is."""

    case: str
    name: str
    content: Callable[[], bytes]
    source: dict[str, Any] = field(default_factory=dict)
    refused: str = ""


EXCEL = {"delimiter": ";", "decimal": ",", "dates": "%d.%m.%Y"}
_NAMES = {"spent": LONG, "town": "Wohnort\t(PLZ: #)"}
_RENAME = {"rename": {theirs: ours for ours, theirs in _NAMES.items()}}


def _excel(encoding: str = "utf-8") -> bytes:
    return text(";", decimal=",", day="%d.%m.%Y", encoding=encoding, end="\r\n")


READ = (
    OddFile("plain", "a.csv", text),
    OddFile("byte-order mark", "a.csv", lambda: text(encoding="utf-8-sig")),
    OddFile("old ends of lines", "a.csv", lambda: text(end="\r")),
    OddFile("semicolons", "a.csv", lambda: text(";"), {"delimiter": ";"}),
    OddFile("a German Excel", "a.csv", lambda: _excel("utf-8-sig"), EXCEL),
    OddFile("an old one", "a.csv", lambda: _excel("cp1252"), {**EXCEL, "encoding": "windows-1252"}),
    OddFile("its gzip", "a.csv.gz", lambda: gzip.compress(_excel()), EXCEL),
    OddFile("Latin-1", "a.csv", lambda: text(encoding="latin-1"), {"encoding": "latin-1"}),
    OddFile("tabs", "a.csv", lambda: text("\t"), {"delimiter": "\t"}),
    OddFile("TSV", "a.tsv", lambda: text("\t")),
    OddFile("its gzip", "a.tsv.gz", lambda: gzip.compress(text("\t"))),
    OddFile(
        "Unicode text",
        "a.tsv",
        lambda: text("\t", encoding="utf-16", end="\r\n"),
        {"encoding": "utf-16"},
    ),
    OddFile("pipes", "a.csv", lambda: text("|"), {"delimiter": "|"}),
    OddFile("US dates", "a.csv", lambda: text(day="%m/%d/%Y"), {"dates": "%m/%d/%Y"}),
    OddFile("Oracle's", "a.csv", lambda: text(day="%d-%b-%Y"), {"dates": {"day": "%d-%b-%Y"}}),
    OddFile("odd names", "a.csv", lambda: text(names=_NAMES), _RENAME),
    OddFile("JSON lines", "a.jsonl", lines),
    OddFile("their gzip", "a.ndjson.gz", lambda: gzip.compress(lines())),
    OddFile(
        "texts in JSON",
        "a.jsonl",
        lambda: lines(of_strings),
        {"decimal": ",", "dates": "%d.%m.%Y"},
    ),
    OddFile("Excel", "a.xlsx", workbook),
    OddFile(
        "texts in Excel",
        "a.xlsx",
        lambda: workbook(_NAMES, spent=german, day=lambda day: dotted(day)),
        {"decimal": ",", "dates": "%d.%m.%Y", **_RENAME},
    ),
    OddFile(
        "dates and texts in Excel",
        "a.xlsx",
        lambda: workbook(day=lambda day: day if day.day > 12 else dotted(day)),
        {"dates": "%d.%m.%Y"},
    ),
    OddFile("Parquet", "a.parquet", parquet),
    OddFile(
        "texts in Parquet",
        "a.parquet",
        lambda: parquet(spent=german, day=dotted),
        {"decimal": ",", "dates": "%d.%m.%Y"},
    ),
)
"""Of all these the same rows are read."""

REFUSED = (
    OddFile(
        "semicolons",
        "a.csv",
        _excel,
        refused='a.csv: has one column: is it separated by `;`? state `source: {delimiter: ";"}`',
    ),
    OddFile(
        "tabs",
        "a.csv",
        lambda: text("\t"),
        refused='separated by tabs? state `source: {delimiter: "\\t"}`',
    ),
    OddFile("pipes", "a.csv", lambda: text("|"), refused='`|`? state `source: {delimiter: "|"}`'),
    OddFile("commas", "a.tsv", text, refused="separated by commas? expected tabs, or a name"),
    OddFile(
        "commas after all",
        "a.csv",
        text,
        {"delimiter": ";"},
        'is it separated by commas? state `source: {delimiter: ","}`',
    ),
    OddFile(
        "decimal commas",
        "a.csv",
        _excel,
        {"delimiter": ";"},
        "column 'spent': is not a finite number; expected one such as 1234.5, without marks "
        'between thousands (1234,5 by `source: {decimal: ","}`); or `invalid: missing`',
    ),
    OddFile(
        "decimal points",
        "a.csv",
        lambda: text(";"),
        {"delimiter": ";", "decimal": ","},
        "column 'spent': is not a finite number",
    ),
    OddFile(
        "days first",
        "a.csv",
        _excel,
        {"delimiter": ";", "decimal": ","},
        "column 'day': is no date such as 2026-11-25; of files `source: {dates: %d.%m.%Y}` states",
    ),
    OddFile(
        "days otherwise",
        "a.csv",
        text,
        {"dates": "%d.%m.%Y"},
        "column 'day': is no date in the form that `source.dates` states",
    ),
    OddFile(
        "Latin-1",
        "a.csv",
        lambda: text(encoding="latin-1"),
        refused="is not UTF-8; expected text in UTF-8, or `source: {encoding: latin-1}`",
    ),
    OddFile(
        "UTF-16",
        "a.csv",
        lambda: text(encoding="utf-16"),
        refused="is not UTF-8; expected text in UTF-8, or `source: {encoding: utf-16}`",
    ),
    OddFile(
        "no UTF-16",
        "a.csv",
        lambda: text() + b"x",
        {"encoding": "utf-16"},
        "is not utf-16; expected text in utf-16",
    ),
    OddFile(
        "a letter of none",
        "a.csv",
        lambda: text(encoding="latin-1") + b"\x81",
        {"encoding": "windows-1252"},
        "is not windows-1252; expected text in windows-1252",
    ),
    OddFile(
        "names that are not renamed",
        "a.csv",
        lambda: text(names=_NAMES),
        refused="column 'spent': is not among the columns (and 1 more)",
    ),
    OddFile(
        "a title",
        "a.xlsx",
        lambda: workbook(above=("Sales",)),
        refused="expected all 5 of the contract, in a first line that names them",
    ),
    OddFile(
        "an index",
        "a.csv",
        lambda: pd.DataFrame(rows()).to_csv().encode(),
        refused='expected its columns, or `source: {ignore: [""]}`',
    ),
    OddFile(
        "gaps",
        "a.csv",
        lambda: text().replace(b"2024", b"", 1).replace(b"-01-01", b"", 1),
        refused="column 'day': is empty; expected a value in every row, or `nullable: true`",
    ),
    OddFile("an old workbook", "a.xls", workbook, refused="expected a name that ends in .csv"),
    OddFile("no workbook", "a.xlsx", text, refused="is not a complete workbook; expected .xlsx"),
    OddFile(
        "a bomb",
        "a.xlsx",
        lambda: _zip(200 << 20),
        refused="unpacks to too much; expected at most 100 times its size",
    ),
    OddFile(
        "keys more",
        "a.jsonl",
        lambda: lines(lambda row: {**row, "note": 1} if row["age"] == 30 else row),
        refused="some rows have keys that are not in the contract; expected its columns, or "
        "`source: {ignore: [...]}`",
    ),
    OddFile(
        "lists",
        "a.jsonl",
        lambda: lines(lambda row: [*row.values()]),
        refused="some lines are no JSON object in UTF-8; expected one object in each line",
    ),
    OddFile(
        "a key less",
        "a.jsonl",
        lambda: lines(lambda row: {**row, "town": None}),
        refused="column 'town': is empty",
    ),
    OddFile(
        "objects in cells",
        "a.jsonl",
        lambda: lines(lambda row: {**row, "town": {"in": row["town"]}}),
        refused="column 'town': holds neither numbers nor text",
    ),
    OddFile(
        "two digits of a year",
        "a.csv",
        text,
        {"dates": "%d.%m.%y"},
        "expected a form such as %d.%m.%Y or %m/%d/%Y %H:%M, of %Y (four digits)",
    ),
    OddFile(
        "separators of Parquet",
        "a.parquet",
        parquet,
        {"delimiter": ";"},
        "`delimiter` is of files that end in .csv, .csv.gz, and not of a.parquet",
    ),
    OddFile(
        "a name that nothing has",
        "a.csv",
        text,
        {"rename": {"spent": "cost"}},
        "source.rename: gives the name 'cost'; expected a column of the contract",
    ),
    *(
        OddFile(f"dates as {form}", "a.csv", text, {"dates": form}, "expected a form such as")
        for form in ("%d.%M.%Y", "%m/%d/%Y %I:%M", "%m/%d/%Y %H:%M %p", "%Y %m %b", "%Y/%M")
    ),
    OddFile(
        "a form of no date",
        "a.csv",
        text,
        {"dates": {"age": "%Y"}},
        "source.dates.age: is no column of dates",
    ),
)
"""Each with what to do, and no value."""


def _zip(size: int) -> bytes:
    import zipfile

    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("xl/workbook.xml", b" " * size)
    return file.getvalue()


def plain(values: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Rows as they are compared: numbers, words, and days since 1970."""
    return [
        (
            row["age"],
            None if row["spent"] is None or math.isnan(row["spent"]) else row["spent"],
            row["town"],
            (row["day"] - pd.Timestamp(1970, 1, 1)).days,
            row["bought"],
        )
        for row in values
    ]
