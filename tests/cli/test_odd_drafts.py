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


@pytest.mark.parametrize("options", ["--decimal ,", ""])
def test_numbers_among_which_a_few_words_mean_missing_are_numbers(
    place: Place, cli: Cli, monkeypatch: pytest.MonkeyPatch, options: str
) -> None:
    """The words are values of rows: a terminal has them, and no file or log but the draft."""
    lines = [
        "crp;age;died",
        *(f"{row},5;{row % 40};{'ja' if row % 3 else 'nein'}" for row in range(100)),
    ]
    lines += [*2 * ["n.b.;5;ja", "<Fehler>;6;nein"], "NA;8;ja", ";7;ja"]
    (place.root / "data" / "shop.csv").write_bytes("\n".join([*lines, ""]).encode("cp1252"))
    line = f"contract new shop.csv --label died {options}"
    if not options:
        assert "numbers that are not written as 1234.5" in cli(line)
        return
    code, told, noted = cli.whole(line)
    assert code == 0, noted
    assert "n.b." not in told + noted
    crp = drafted(place).columns["crp"]
    assert (crp.type, crp.nullable, crp.missing) == ("real", True, ("<Fehler>", "NA", "n.b."))
    rows = read_table(place.root / "data" / "shop.csv", drafted(place))
    assert rows.column("crp").null_count == 6
    (place.root / "contracts" / "shop.yaml").unlink()
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    code, told, noted = cli.whole(line)
    assert (
        "crp: numbers but for these words" in noted
        and '`missing: ["<Fehler>", "NA", "n.b."]`' in noted
    )


@pytest.mark.parametrize(
    "words",
    [
        ("low", "high", "none", "much"),
        ("<0,3",),
        2 * ("not measured at all",),
        ("n/a", "n/a", "Meyer"),
    ],
)
def test_other_words_among_numbers_are_no_missing_values(
    place: Place, cli: Cli, words: tuple[str, ...]
) -> None:
    """Too many, too long, values themselves, or that of one row."""
    lines = [
        "crp,age,died",
        *(f"{row}.5,{row},{row % 2}" for row in range(100)),
        *(f'"{word}",7,1' for word in words),
    ]
    (place.root / "data" / "shop.csv").write_text("\n".join([*lines, ""]))
    assert 'left out: "crp": ' in cli("contract new shop.csv --label died")


def test_of_more_categories_than_a_list_has_the_way_out_is_named(place: Place, cli: Cli) -> None:
    lines = ["icd,age,died", *(f"K{row % 300},{row % 40},{row % 2}" for row in range(3000))]
    (place.root / "data" / "shop.csv").write_text("\n".join([*lines, ""]))
    told = cli("contract new shop.csv --label died")
    assert (
        "more than 256 categories; where all of them can be listed, `groups: {CODE: GROUP}`" in told
    )


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
