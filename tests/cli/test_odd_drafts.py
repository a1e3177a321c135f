"""`dpicl contract new` drafts how a file is written: of its first line alone where a schema says
the columns.
"""

from __future__ import annotations

import json

import pytest
import yaml

from dpicl.contract import Contract, load_contract
from dpicl.data.reading.files import read_table
from tests.cli.conftest import Cli
from tests.harness import Place
from tests.library.tabular import odd_files
from tests.library.tabular.odd_files import EXCEL, LONG


def drafted(place: Place) -> Contract:
    """The contract of shop.csv or its kin."""
    contract = load_contract(place.root / "contracts" / "shop.yaml")
    assert isinstance(contract, Contract)
    return contract


@pytest.mark.parametrize(
    ("name", "content", "options", "source"),
    [
        (
            "shop.csv",
            odd_files._excel("cp1252"),
            "--decimal , --dates %d.%m.%Y",
            {**EXCEL, "encoding": "windows-1252"},
        ),
        ("shop.csv", odd_files.text("|"), "", {"delimiter": "|"}),
        ("shop.tsv", odd_files.text("\t", encoding="utf-16"), "", {"encoding": "utf-16"}),
        ("shop.jsonl", odd_files.lines(), "", {}),
        ("shop.xlsx", odd_files.workbook(), "", {}),
        (
            "shop.csv",
            odd_files.text(names={"spent": LONG}),
            "",
            {"rename": {LONG: " ".join(LONG.split())[:60].strip()}},
        ),
    ],
    ids=["a German Excel", "pipes", "Unicode text", "JSON lines", "Excel", "a long name"],
)
def test_a_draft_from_rows_reads_them(
    place: Place, cli: Cli, name: str, content: bytes, options: str, source: dict[str, object]
) -> None:
    file = place.root / "data" / name
    file.write_bytes(content)
    cli(f"contract new {name} --label bought {options}")
    contract = drafted(place)
    assert contract.source.model_dump(exclude_defaults=True) == {"file": name, **source}
    types = [column.type for column in contract.columns.values()]
    assert types == ["integer", "real", "category", "date", "boolean"]
    rows = [tuple(row.values()) for row in read_table(file, contract).to_pylist()]
    assert [row[:4] for row in rows] == [row[:4] for row in odd_files.plain(odd_files.rows())]


def test_what_the_options_would_say_is_flagged_where_they_are_not_given(
    place: Place, cli: Cli
) -> None:
    (place.root / "data" / "shop.csv").write_bytes(odd_files._excel())
    code, told, noted = cli.whole("contract new shop.csv --label bought")
    assert code == 0 and drafted(place).source.ignore == ("spent", "day")
    assert "numbers that are not written as 1234.5, without a unit; of 3,5 say --decimal ," in told
    assert "dates that are not written as 2026-11-25; of 25.11.2026 say --dates %d.%m.%Y" in told
    assert "say so: --decimal , --dates %d.%m.%Y" in told + noted


def test_of_a_file_with_a_schema_the_first_line_alone_is_read(place: Place, cli: Cli) -> None:
    fields = [
        {"name": "age", "type": "integer", "constraints": {"minimum": 18, "maximum": 90}},
        {"name": "größe", "type": "number", "constraints": {"minimum": 0, "maximum": 3}},
    ]
    schema = place.root / "schema.json"
    schema.write_text(json.dumps({"fields": fields}))
    draft = place.root / "contracts" / "shop.yaml"
    for head, encoding in (("age;größe", "windows-1252"), ("age;groesse", None)):
        # a quote that is never closed, bytes of no text, tabs: none of it is seen
        rows = head.encode("cp1252") + b'\n"1\t2\t3\t\x81\xff\n'
        (place.root / "data" / "shop.csv").write_bytes(rows)
        told = cli(f"contract new shop.csv --schema {schema}", "--decimal", ",")
        assert "No row of shop.csv was looked at" in told
        source = yaml.safe_load(draft.read_text())["source"]
        stated = {"file": "shop.csv", "delimiter": ";", "decimal": ","}
        assert source == stated | ({"encoding": encoding} if encoding else {})
        draft.unlink()


@pytest.mark.parametrize(
    ("options", "phrase"),
    [
        ("--decimal ;", "shop.yaml: decimal: got ';'; expected '.' or ','"),
        ("--dates %d.%m.%y", "shop.yaml: dates: got '%d.%m.%y'"),
    ],
)
def test_an_option_that_says_nothing_is_refused_and_writes_nothing(
    place: Place, cli: Cli, options: str, phrase: str
) -> None:
    (place.root / "data" / "shop.csv").write_bytes(odd_files.text())
    assert phrase in cli.refused(
        f"contract new shop.csv {options.replace(';', chr(39) + ';' + chr(39))}"
    )
    assert not (place.root / "contracts" / "shop.yaml").exists()
