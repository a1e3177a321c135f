"""`dpicl contract new` with --schema or --ask: a contract from what is published of a table or from
answers, and nobody opens the rows.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from dpicl.contract import Contract, load_contract
from dpicl.contract.columns import DateColumn
from tests.cli.conftest import Cli
from tests.harness import DPICL, Place, _bare_environment, end, shop_rows, until

Typed = Callable[..., None]
FIELDS: list[dict[str, Any]] = [
    {"name": "age", "type": "integer", "constraints": {"minimum": 18, "maximum": 99.5}},
    {
        "name": "spent",
        "type": "number",
        "description": "euros\n a month",
        "constraints": {"minimum": "0", "maximum": 500},
    },
    {"name": "colour", "type": "string", "constraints": {"enum": ["red", "green", "blue"]}},
    {"name": "member", "type": "boolean", "trueValues": ["yes"], "falseValues": ["no"]},
    {"name": "bought", "type": "integer", "constraints": {"enum": ["no", "yes", "twice"]}},
    {
        "name": "since",
        "type": "date",
        "constraints": {"minimum": "2020-01-01", "maximum": "2026-12-31", "required": False},
    },
    {"name": "left", "type": "date", "format": "%d.%m.%y"},
    {"name": "place x ", "type": "string"},
]
DAY = {"type": "string", "format": "date", "minimum": "2020-01-01", "maximum": "2026-12-31"}
PROPERTIES = {
    "age": {"type": ["integer", "null"], "minimum": 18, "maximum": 99.5},
    "spent": {"type": "number", "title": "euros a month", "minimum": 0, "maximum": 500},
    "colour": {"enum": ["red", "green", "blue", None]},
    "member": {"type": "string", "enum": ["no", "yes"]},
    "bought": {"type": "string", "enum": ["no", "yes", "twice"]},
    "since": {"anyOf": [DAY, {"type": "null"}]},
    "left": {"type": "array"},
    "place x ": {"type": "string"},
}
RESOURCES = [
    {"path": "readme.txt"},
    {"path": "rows/customers.csv", "schema": {"fields": FIELDS}},
    {"path": ["a.csv", "b.csv"], "schema": "elsewhere.json"},
]
SCHEMAS = {
    "Table Schema": {"fields": FIELDS},
    "Data Package": {"resources": RESOURCES},
    "JSON Schema": {"type": "object", "properties": PROPERTIES},
}
NEW = "contract new customers.csv"
LABELLED = "--label bought --positive yes,twice --schema"
RELEASE = "protect customers --method gdp_tabicl --epsilon 1 --shots 2 --out"


def published(place: Place, schema: object) -> str:
    """The command that makes a contract from a schema."""
    path = place.root / "customers.json"
    path.write_text(schema if isinstance(schema, str) else json.dumps(schema))
    return f"{NEW} {LABELLED} {path}"


@pytest.fixture
def written(place: Place) -> Path:
    return place.root / "contracts" / "customers.yaml"


def read(path: Path) -> Contract:
    contract = load_contract(path)
    assert isinstance(contract, Contract)
    return contract


def stated(contract: Contract, name: str) -> Any:
    """Bounds of a column, or its categories."""
    content = contract.columns[name].model_dump()
    return content.get("bounds") or set(content["categories"])


def add_rows(place: Place, head: str, tails: Callable[[int], str]) -> None:
    """Sixty customers, with further columns that no contract can describe."""
    first, *rows = shop_rows(60).splitlines()
    lines = [f"{first},{head}", *(f"{row},{tails(number)}" for number, row in enumerate(rows)), ""]
    (place.root / "data" / "customers.csv").write_text("\n".join(lines))


def add_dated_rows(place: Place) -> None:
    """Some have no date."""
    dates = [f"2020-02-0{number % 9}" if number % 9 else "" for number in range(60)]
    add_rows(place, "since,left,place x ", lambda number: f"{dates[number]},1.2.20,Ann")


def releases(place: Place, cli: Cli) -> None:
    out = place.root / "demos.jsonl"
    assert "2 demonstrations" in cli(f"{RELEASE} {out}")
    assert {json.loads(line)["answer"] for line in out.read_text().splitlines()} == {"Yes", "No"}


# From a schema.


@pytest.mark.quick("Table Schema")
@pytest.mark.parametrize("kind", SCHEMAS)
def test_a_schema_that_says_all_is_a_contract_that_releases(
    place: Place, cli: Cli, written: Path, kind: str
) -> None:
    # and there are no rows yet
    told = cli(f"{published(place, SCHEMAS[kind])} --epsilon 2")
    for phrase in (
        "customers.yaml: a contract of 6 columns; 2 columns are left out under `ignore`",
        'left out: "left": values of',
        'left out: "place x ": a name that a contract cannot write',
        "No row of customers.csv was looked at.",
        f"those of the {kind} customers.json{', table' if 'Package' in kind else ''}",
        "replace any that were read off rows",
    ):
        assert phrase in told
    assert "FILL IN:" not in written.read_text() and "LOOKED" not in written.read_text()
    contract = read(written)
    assert not contract.draft and contract.privacy.budget.epsilon == 2
    assert (stated(contract, "age"), stated(contract, "spent")) == ((18, 100), (0, 500))
    assert stated(contract, "colour") - {"(missing)"} == {"red", "green", "blue"}
    assert stated(contract, "member") == {"no", "yes"}
    assert stated(contract, "bought") == {"no", "yes", "twice"}
    since = contract.columns["since"]
    assert isinstance(since, DateColumn) and since.nullable
    assert since.text(since.bounds[0]) == "2020-01-01"
    gaps = [contract.columns[name].nullable for name in ("age", "colour")]
    assert gaps == [kind == "JSON Schema"] * 2
    checked = cli("contract check customers")
    assert checked.startswith("customers.yaml: ok: 6 columns, shots 1, 2, 4")
    assert "bought 2 (yes or no): No, Yes" in checked
    add_dated_rows(place)
    releases(place, cli)


def test_what_a_schema_lacks_is_asked_for_column_by_column_until_it_is_filled_in(
    place: Place, cli: Cli, written: Path
) -> None:
    fields = [
        {"name": "age", "type": "integer", "constraints": {"minimum": 18}},
        {"name": "spent", "type": "number", "description": "euros\n a month"},
        *({"name": name, "type": "string"} for name in ("colour", "member", "bought")),
    ]
    told = cli(published(place, {"fields": fields}))
    assert "a draft of 5 columns" in told
    assert "Bounds or categories of 5 columns are not known yet" in told
    assert written.read_text().count("# FILL IN: what is publicly known") == 5
    assert "# FILL IN: what is publicly known; euros a month\n" in written.read_text()
    add_dated_rows(place)
    known = (
        ("age.bounds.1", "[18, null]", "[18, 100]"),
        ("spent.bounds.0", "bounds: [null, null]", "bounds: [0, 500]"),
        ("colour.categories", "categories: null", 'categories: ["red", "green", "blue"]'),
        ("member.categories", "categories: null", 'categories: ["no", "yes"]'),
        ("bought.categories", "categories: null", 'categories: ["no", "yes", "twice"]'),
    )
    for key, missing, filled in known:
        for line in ("contract check customers", f"{RELEASE} {place.root / 'demos.jsonl'}"):
            code, refused = cli.ended(line)
            assert code == 2
            assert f"columns.{key}: is not filled in" in refused.splitlines()[0], key
        written.write_text(written.read_text().replace(missing, filled, 1))
    ignored = '{file: "customers.csv", ignore: [since, left, "place x "]}'
    written.write_text(written.read_text().replace('{file: "customers.csv"}', ignored))
    assert "5 lines still have their marks, LOOKED or FILL IN; the first is line 9: age: {" in cli(
        "contract check customers"
    )
    releases(place, cli)


SOME = {
    "fields": [field for field in FIELDS if field["name"] not in ("member", "left", "place x ")]
}


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
def test_columns_that_a_schema_does_not_have_are_left_out_by_name(
    place: Place, cli: Cli, written: Path, suffix: str
) -> None:
    """Their names are public, as the header of the file is; no row is looked at."""
    add_dated_rows(place)
    path = place.root / "data" / "customers.csv"
    raw = path.read_bytes()
    path.unlink()
    if suffix == "csv.gz":
        path.with_name("customers.csv.gz").write_bytes(gzip.compress(raw))
    elif suffix == "parquet":
        rows = pa_csv.read_csv(io.BytesIO(raw))
        pq.write_table(rows, path.with_suffix(".parquet"))
    else:
        path.write_bytes(raw)
    told = cli(published(place, SOME).replace("customers.csv", f"customers.{suffix}", 1))
    assert "a contract of 5 columns; 3 columns are left out under `ignore`" in told
    origin = "not in the Table Schema customers.json"
    assert [line for line in told.splitlines() if line.startswith("left out")] == [
        f"left out: {json.dumps(name)}: {origin}" for name in ("member", "left", "place x ")
    ]
    assert read(written).source.ignore == ("member", "left", "place x ")
    assert not any(
        colour in written.read_text().partition("colour:")[0] for colour in ("Ann", "1.2.")
    )
    if suffix == "csv":
        releases(place, cli)


def test_answers_leave_out_by_name_what_they_do_not_describe(
    place: Place, cli: Cli, typed: Typed, written: Path
) -> None:
    add_rows(place, "full name,who", lambda number: f"Ann,{number // 2}")
    typed(*ANSWERS[:-1], "who", "2")
    told = cli(ASK)
    assert "1 column is left out under `ignore`" in told
    assert read(written).source.ignore == ("full name",) and read(written).person is not None


def test_a_first_line_that_may_be_a_row_stands_in_no_contract(
    place: Place, cli: Cli, written: Path
) -> None:
    add_dated_rows(place)
    path = place.root / "data" / "customers.csv"
    path.write_text(path.read_text().partition("\n")[2])
    assert "a contract of 5 columns\n" in cli(published(place, SOME))
    assert "ignore" not in written.read_text().partition("privacy:")[0]


def test_words_for_missing_values_and_forms_of_dates_are_those_of_the_schema(
    place: Place, cli: Cli, written: Path
) -> None:
    """Only what is not stated is refused once rows are read."""
    fields = [
        {**field, "format": "%d.%m.%Y"} if field["name"] == "since" else field
        for field in FIELDS
        if field["name"] not in ("left", "place x ")
    ]
    cli(published(place, {"fields": fields, "missingValues": ["k.A.", ""]}))
    contract = read(written)
    assert contract.source.dates == "%d.%m.%Y"
    assert all(
        column.nullable and column.missing == ("k.A.",) for column in contract.columns.values()
    )
    add_rows(
        place, "since", lambda number: "k.A." if number % 7 == 0 else f"0{number % 9 + 1}.02.2020"
    )
    path = place.root / "data" / "customers.csv"
    rows = path.read_text().splitlines()
    path.write_text(
        "\n".join([rows[0], *(f"k.A.,{row.partition(',')[2]}" for row in rows[1:3]), *rows[3:], ""])
    )
    assert "ok: 6 columns" in cli("contract check customers")
    assert "10 rows of 6 columns" in cli(
        f"synth customers --epsilon 1 --rows 10 --out {place.root / 'rows.csv'}"
    )


def test_of_parquet_only_names_and_types_are_taken(place: Place, cli: Cli, written: Path) -> None:
    """The file is the table itself, whose statistics hold the least and greatest value of every
    column.
    """
    rows = pa_csv.read_csv(io.BytesIO(shop_rows(60).encode()))
    seen = pa.array([86_400 * day for day in range(60)], pa.timestamp("s"))
    more = {" colour again": rows["colour"], "kept": pa.array([True] * 60), "seen": seen}
    for name, column in more.items():
        rows = rows.append_column(name, column)
    path = place.root / "data" / "customers.parquet"
    pq.write_table(rows, path)
    assert pq.read_metadata(path).row_group(0).column(0).statistics.has_min_max
    told = cli(f"contract new customers.parquet {LABELLED} {path}")
    assert "No row of customers.parquet was looked at." in told and "1 column is left out" in told
    text = written.read_text()
    for line in (
        "age: {type: integer, bounds: [null, null]}  # FILL IN",
        "spent: {type: real, bounds: [null, null]}  # FILL IN",
        "colour: {type: category, categories: null}  # FILL IN",
        "seen: {type: datetime, bounds: [null, null]}  # FILL IN",
        "kept: {type: boolean}\n",
    ):
        assert f"  {line}" in text
    values = {str(value) for name in ("age", "spent", "colour") for value in rows[name].to_pylist()}
    assert not [value for value in values if f"{value}]" in text or f'"{value}"' in text]


def test_a_contract_that_is_not_filled_in_stands_in_nobodys_way(place: Place, cli: Cli) -> None:
    cli(published(place, {"fields": [{"name": "age", "type": "integer"}, {"name": "bought"}]}))
    assert "its contract is refused" in cli("data list")
    out, rows = place.root / "demos.jsonl", place.root / "rows.csv"
    cli(f"protect breast_cancer --epsilon 1 --shots 2 --out {out}")
    contract = read(place.root / "contracts" / "breast_cancer.yaml")
    low = {
        name: str(contract.columns[name].model_dump()["bounds"][0]) for name in contract.features
    }
    rows.write_text(f"{','.join(low)}\n{','.join(low.values())}\n")
    code, told = cli.ended(f"ask --demos {out} --queries {rows} --model tiny")
    assert code == 0 and "refused" not in told


def of_age(bought: object, **age: object) -> dict[str, Any]:
    return {"properties": {"age": {"minimum": 2, **age}, "bought": bought}}


@pytest.mark.parametrize(
    ("schema", "phrase"),
    [
        ("{", "is not JSON; expected a .parquet file, or JSON or YAML with `fields` of a"),
        ([], "customers.json: is no schema of a table; expected `fields` of a Table Schema"),
        ({"fields": [{"type": "integer"}]}, "customers.json: fields.0.name: missing"),
        (
            {"fields": [{"name": "a", "constraints": {"enum": [["b"]]}}]},
            "fields.0.constraints.enum: got",
        ),
        ({"fields": [{"name": "bought"}] * 2}, "customers.json: names 1 column twice"),
        (
            {"fields": [{"name": "age", "type": "integer"}]},
            "label=bought: expected one of the 1 columns of customers.json",
        ),
        (
            {"fields": [{"name": "bought"}, {"name": "since", "type": "geopoint"}]},
            "customers.json: has no column beside the label that a contract can describe",
        ),
        (
            of_age({"enum": ["no", "yes"]}, type="integer"),
            "some, but not all, of the values of column bought",
        ),
        (of_age({}, type="integer", maximum=1), "label=bought"),
        (of_age({"type": "string"}, type="integer", maximum=1), "columns.age.bounds: got [2, 1]"),
        (
            {"resources": [{"path": "a.csv"}, {"path": "b.csv"}]},
            "resources: has 0 tables of the name 'customers' among 2; expected one; name it with",
        ),
        (
            {"resources": [{"path": "a.csv", "schema": "a.json"}]},
            "the table's schema is not written out",
        ),
    ],
)
def test_what_is_no_schema_is_one_sentence_and_writes_nothing(
    place: Place, cli: Cli, written: Path, schema: object, phrase: str
) -> None:
    assert phrase in cli.refused(published(place, schema))
    assert not written.exists()


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(50) + b"PAR1"])
def test_a_damaged_footer_is_one_sentence(place: Place, cli: Cli, content: bytes) -> None:
    path = place.root / "damaged.parquet"
    path.write_bytes(content)
    sentence = "damaged.parquet: is not a complete Parquet file"
    assert cli.refused(f"{NEW} {LABELLED} {path}") == sentence


# From answers.


ASK = f"{NEW} --ask"
COLUMNS = (
    *("age", "integer", "18,100"),
    *("spent", "real", "0, 500"),
    *("colour", "category", "red,green,blue"),
    *("member", "category", "no,yes"),
    *("full name", "ignored"),
    *("bought", "category", "no,yes,twice"),
    "",
)
ANSWERS = (*COLUMNS, "bought", "yes,twice", "4000", "2", "")


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Gives standard input these lines."""
    return lambda *lines: monkeypatch.setattr("sys.stdin", io.StringIO("\n".join([*lines, ""])))


def test_answers_are_a_contract_that_releases(
    place: Place, cli: Cli, typed: Typed, written: Path
) -> None:
    typed(*ANSWERS)
    told = cli(ASK)  # and there are no rows yet
    for phrase in (
        "customers.yaml: a contract of 5 columns; 1 column is left out under `ignore`",
        "No row of customers.csv was looked at. Bounds and categories are those of answers:",
        "next: dpicl contract check customers; dpicl plan customers; dpicl protect customers --eps",
    ):
        assert phrase in told
    assert "--epsilon 1 --shots 2" in told  # of a cap of 2
    contract = read(written)
    assert not contract.draft and contract.privacy.budget.epsilon == 2 and contract.version == 2
    assert contract.source.ignore == ("full name",) and contract.population == 4000
    assert stated(contract, "spent") == (0, 500)
    assert contract.label.parts == ("rest", ("yes", "twice"))
    add_rows(place, "full name", lambda _: "Ann")
    releases(place, cli)


def test_whoever_may_have_several_rows_is_protected_as_a_person(
    cli: Cli, typed: Typed, written: Path
) -> None:
    typed(*ANSWERS[:22], "age", "full name", "none", "3")
    told = cli(ASK)
    assert "not described above; this is a name that a contract cannot write" in told
    privacy = read(written).privacy
    assert "expected a whole number" in told and privacy.unit == "person" and privacy.person
    assert (privacy.person.id_column, privacy.person.max_rows) == ("full name", 3)


@pytest.mark.parametrize(
    ("place_of", "wrong", "sentence"),
    [
        (1, "number", "expected one of category, boolean, integer, real, date, datetime, ignored"),
        (2, "18", "expected two comma-separated numbers"),
        (2, "18,young", "expected a whole number"),
        (2, "100,18", "expected [low, high] with low < high"),
        (3, "age", "this column was named before; expected another"),
        (0, "", "expected a name"),
        (5, "0,inf", "expected a number"),
        (8, "red,red", "a category is repeated; expected distinct categories"),
        (8, ",", "expected a list with at least 1 item"),
        (18, "price", "expected one of age, spent, colour, member, bought"),
        (19, "yes,no,twice", "expected some, but not all, of no, yes, twice"),
        (20, "many", "expected a whole number above 0, or nothing"),
        (21, "0", "expected greater than 0"),
        (21, "much", "expected a number"),
        (22, "age", "expected nothing, or a column that is not described above"),
    ],
)
def test_a_wrong_answer_is_asked_again_with_one_sentence(
    cli: Cli, typed: Typed, written: Path, place_of: int, wrong: str, sentence: str
) -> None:
    typed(*ANSWERS[:place_of], wrong, *ANSWERS[place_of:])
    told = cli(ASK)
    _, error = told.split("Error: ")
    assert sentence in error.splitlines()[0] and "a contract of 5 columns" in told
    typed(*ANSWERS)
    cli(f"{ASK} --name again")
    again = written.with_name("again.yaml").read_text()
    assert again.replace("again", "customers") == written.read_text()


def test_gaps_dates_and_a_number_to_predict_can_be_answered(
    cli: Cli, typed: Typed, written: Path
) -> None:
    dates = ("since", "date", "soon,later", "2015-01-01,2025-12-31")
    outcome = ("Größe", "", "", "")
    typed("Größe", "real?", "50,250", *dates, "x" * 256, "real", "ignored", "", *outcome)
    told = cli(ASK)
    assert "got 'soon'; expected a date such as" in told
    assert "a name that a contract cannot write" in told
    contract = read(written)
    assert contract.target.kind == "number" and contract.columns["Größe"].nullable
    assert contract.columns["since"].type == "date"
    assert contract.privacy.budget.epsilon == 3 and contract.population is None


def test_answers_that_end_too_early_write_nothing(cli: Cli, typed: Typed, written: Path) -> None:
    typed(*ANSWERS[:10])
    assert cli.refused(ASK) == "the answers end before the questions do; nothing was written"
    assert not written.exists()


def test_a_schema_leaves_only_what_it_lacks_to_be_asked(
    place: Place, cli: Cli, typed: Typed, written: Path
) -> None:
    fields = [
        {"name": "age", "type": "integer", "constraints": {"minimum": 18, "maximum": 100}},
        {"name": "spent", "type": "number", "description": "euros a month"},
        {"name": "note", "type": "string"},
        {"name": "bought", "type": "integer"},
    ]
    (place.root / "schema.json").write_text(json.dumps({"fields": fields}))
    typed("", "0,500", "ignored", "", "0,1", "", "0,1", "", "", "", "")
    told = cli(f"{ASK} --schema {place.root}/schema.json --label bought --positive 1")
    assert (
        "spent (euros a month): category, boolean, integer, real, date, datetime (with ? if values "
        "may be missing) or ignored [real]"
    ) in told
    assert "age:" not in told and "those of the Table Schema schema.json and answers" in told
    contract = read(written)
    assert contract.source.ignore == ("note",) and stated(contract, "bought") == {"0", "1"}
    assert contract.label.parts == ("rest", ("1",))


@pytest.mark.exhaustive
def test_an_interruption_writes_nothing(place: Place, written: Path) -> None:
    told = place.root / "told.txt"
    with told.open("w") as log:
        process = subprocess.Popen(
            [str(DPICL), *ASK.split()],
            env={**_bare_environment(), **place.environment, "PYTHONUNBUFFERED": "1"},
            cwd=place.root,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    try:
        assert process.stdin
        process.stdin.write("\n".join([*ANSWERS[:4], ""]))
        process.stdin.flush()
        until(lambda: "spent: " in told.read_text(), 60, "the question on the second column")
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=30)
    finally:
        end(process)
    assert process.returncode == 130 and err.strip() == "dpicl: interrupted; nothing was written"
    assert not written.exists()


# Other tools' schemas, and a contract for them.


def test_a_dbt_file_is_a_draft_that_says_so_and_a_contract_leaves_for_catalogues(
    place: Place, cli: Cli, written: Path
) -> None:
    columns = [{"name": "age", "data_type": "int"}, {"name": "bought", "data_type": "boolean"}]
    schema = {"models": [{"name": "shop", "columns": columns}, {"name": "customers"}]}
    told = cli(f"{published(place, schema).replace(LABELLED, '--table shop --schema')}")
    assert (
        "of 1 column are not known yet from the dbt properties customers.json, table shop" in told
    )
    written.write_text(written.read_text().replace("[null, null]", "[18, 100]"))
    exported = cli("contract show customers --as odcs")
    assert exported.startswith("apiVersion: v3.1.0\nkind: DataContract\n")
    path = place.root / "shop.odcs.yaml"
    path.write_text(exported)
    assert "a contract of 2 columns" in cli(f"{NEW} --name again --schema {path}")
    again = read(written.with_name("again.yaml"))
    assert again.columns == read(written).columns
    assert cli.refused("contract show customers --as xml") == "as=xml: expected odcs"
    assert "expected --schema beside it" in cli.refused(f"{NEW} --name x --table shop")


@pytest.mark.parametrize(
    ("cap", "part"), [("0.5", "0.2"), ("1", "0.5"), ("2", "1"), ("3", "1"), ("4", "2"), ("10", "5")]
)
def test_the_next_command_leaves_half_of_the_cap(
    place: Place, cli: Cli, cap: str, part: str
) -> None:
    told = cli(f"{published(place, SCHEMAS['Table Schema'])} --epsilon {cap}")
    assert f"dpicl protect customers --epsilon {part} --shots" in told


CAPPED = """version: 2
name: customers
source: {file: customers.csv, missing: NA}
privacy:
  unit: person
  person: {id_column: who, max_rows: 2}
  neighbours: replace-one
  sampling_rate: 1/2
  budget: {epsilon: 0.5, by: {ann: 0.25}}
columns:
  age: {type: integer, bounds: [18, 100], bins: [30, 60]}
  bought: {type: category, categories: ["no", "yes"]}
label: {column: bought, parts: [rest, ["yes"]], question: Will they buy?}
"""


def test_a_data_contract_keeps_unit_cap_and_label(place: Place, cli: Cli, written: Path) -> None:
    written.write_text(CAPPED)
    path = place.root / "c.odcs.yaml"
    path.write_text(cli("contract show customers --as odcs"))
    told = cli(f"{NEW} --name back --schema {path}")
    assert "Unit, neighbours, cap and all else are those of the ODCS data contract" in told
    assert "protect back --epsilon 0.2 " in told
    first, back = read(written), read(written.with_name("back.yaml"))
    assert back == first.model_copy(update={"name": "back"})
    for option in ("--epsilon 3", "--label age", "--ask"):
        assert "no such option beside c.odcs.yaml" in cli.refused(
            f"{NEW} --name more --schema {path} {option}"
        )
    path.write_text(path.read_text().replace("privacyMaxRowsPerPerson", "privacyMaxRows"))
    assert cli.refused(f"{NEW} --name more --schema {path}").startswith(
        "c.odcs.yaml: customProperties.privacyMaxRows: unknown property; expected one of"
    )
    assert not written.with_name("more.yaml").exists()


def test_a_data_contract_of_others_states_no_privacy(place: Place, cli: Cli) -> None:
    path = place.root / "theirs.odcs.yaml"
    options = {"minimum": 18, "maximum": 100}
    ages = [
        {"name": name, "logicalType": "integer", "logicalTypeOptions": options}
        for name in ("age", "size")
    ]
    theirs = {"kind": "DataContract", "schema": [{"name": "t", "properties": ages}]}
    path.write_text(json.dumps(theirs))
    assert (
        "It states no privacy: unit row, neighbours add-or-remove-one, sampling rate 1 and cap "
        "epsilon 3 are defaults of `contract new`; check them in theirs.yaml."
    ) in cli(f"{NEW} --name theirs --schema {path}")
