"""`dpicl contract new --schema`: a contract from what is published of a table, whose rows nobody
opens.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from dpicl.contract import Contract, load_contract
from dpicl.contract.columns import DateColumn
from tests.harness import Place, call_main, complaint, said, shop_rows

Capture = pytest.CaptureFixture[str]
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
PROPERTIES = {
    "age": {"type": ["integer", "null"], "minimum": 18, "maximum": 99.5},
    "spent": {"type": "number", "title": "euros a month", "minimum": 0, "maximum": 500},
    "colour": {"enum": ["red", "green", "blue", None]},
    "member": {"type": "string", "enum": ["no", "yes"]},
    "bought": {"type": "string", "enum": ["no", "yes", "twice"]},
    "since": {
        "anyOf": [
            {"type": "string", "format": "date", "minimum": "2020-01-01", "maximum": "2026-12-31"},
            {"type": "null"},
        ]
    },
    "left": {"type": "array"},
    "place x ": {"type": "string"},
}
SCHEMAS = {
    "Table Schema": {"fields": FIELDS},
    "Data Package": {
        "resources": [
            {"path": "readme.txt"},
            {"path": "rows/customers.csv", "schema": {"fields": FIELDS}},
            {"path": ["a.csv", "b.csv"], "schema": "elsewhere.json"},
        ]
    },
    "JSON Schema": {"type": "object", "properties": PROPERTIES},
}


def published(place: Place, schema: object) -> str:
    path = place.root / "customers.json"
    path.write_text(json.dumps(schema))
    return str(path)


def new(schema: str, *options: str) -> tuple[str, ...]:
    return (
        "contract",
        "new",
        "customers.csv",
        "--schema",
        schema,
        "--label",
        "bought",
        "--positive",
        "yes,twice",
        *options,
    )


def written(place: Place, name: str = "customers") -> Path:
    return place.root / "contracts" / f"{name}.yaml"


def add_rows(place: Place) -> None:
    """Sixty customers, of whom some have no date, with the two columns that no contract can
    describe.
    """
    head, *rows = shop_rows(60).splitlines()
    dates = [f"2020-02-0{index % 9}" if index % 9 else "" for index in range(60)]
    text = "\n".join(
        [
            f"{head},since,left,place x ",
            *(f"{row},{date},1.2.20,Ann" for row, date in zip(rows, dates, strict=True)),
        ]
    )
    (place.root / "data" / "customers.csv").write_text(text + "\n")


@pytest.mark.quick("Table Schema")
@pytest.mark.parametrize("kind", SCHEMAS)
def test_a_schema_that_says_all_is_a_contract_that_releases(
    place: Place, capsys: Capture, kind: str
) -> None:
    # and there are no rows yet
    told = said(capsys, *new(published(place, SCHEMAS[kind]), "--epsilon", "2"))
    assert "customers.yaml: a contract of 6 columns; 2 columns are left out under `ignore`" in told
    assert (
        'left out: "left": values of' in told
        and 'left out: "place x ": a name that a contract cannot write' in told
    )
    assert (
        "No row of customers.csv was looked at." in told
        and "those of customers.json: replace any" in told
    )
    assert (
        "FILL IN:" not in written(place).read_text() and "LOOKED" not in written(place).read_text()
    )
    contract = load_contract(written(place))
    assert (
        isinstance(contract, Contract)
        and not contract.draft
        and contract.privacy.budget.epsilon == 2
    )
    assert contract.columns["age"].model_dump()["bounds"] == (18, 100) and contract.columns[
        "spent"
    ].model_dump()["bounds"] == (0, 500)
    values = {
        name: set(contract.columns[name].model_dump()["categories"])
        for name in ("colour", "member", "bought")
    }
    values["colour"] -= {"(missing)"}
    assert values == {
        "colour": {"red", "green", "blue"},
        "member": {"no", "yes"},
        "bought": {"no", "yes", "twice"},
    }
    since = contract.columns["since"]
    assert (
        isinstance(since, DateColumn)
        and since.nullable
        and since.text(since.bounds[0]) == "2020-01-01"
    )
    assert (
        contract.columns["age"].nullable
        == contract.columns["colour"].nullable
        == (kind == "JSON Schema")
    )
    assert said(capsys, "contract", "check", "customers").startswith(
        "customers.yaml: ok: 6 columns, shots 1, 2, 4"
    )
    add_rows(place)
    out = place.root / "demos.jsonl"
    release = (
        "protect",
        "customers",
        "--method",
        "gdp_tabicl",
        "--epsilon",
        "1",
        "--shots",
        "2",
        "--out",
        str(out),
    )
    assert "2 demonstrations" in said(capsys, *release)
    assert {json.loads(line)["answer"] for line in out.read_text().splitlines()} == {"Yes", "No"}


def test_what_a_schema_lacks_is_asked_for_column_by_column_until_it_is_filled_in(
    place: Place, capsys: Capture
) -> None:
    fields: list[dict[str, Any]] = [
        {"name": "age", "type": "integer", "constraints": {"minimum": 18}},
        {"name": "spent", "type": "number", "description": "euros\n a month"},
        {"name": "colour", "type": "string"},
        {"name": "member", "type": "string"},
        {"name": "bought", "type": "string"},
    ]
    told = said(capsys, *new(published(place, {"fields": fields})))
    assert (
        "a draft of 5 columns" in told
        and "Bounds or categories of 5 columns are not known yet" in told
    )
    assert written(place).read_text().count("# FILL IN: what is publicly known") == 5
    assert "# FILL IN: what is publicly known; euros a month\n" in written(place).read_text()
    add_rows(place)
    known = (
        ("columns.age.bounds.1", "[18, null]", "[18, 100]"),
        ("columns.spent.bounds.0", "bounds: [null, null]", "bounds: [0, 500]"),
        ("columns.colour.categories", "categories: null", 'categories: ["red", "green", "blue"]'),
        ("columns.member.categories", "categories: null", 'categories: ["no", "yes"]'),
        ("columns.bought.categories", "categories: null", 'categories: ["no", "yes", "twice"]'),
    )
    release = (
        "protect",
        "customers",
        "--epsilon",
        "1",
        "--shots",
        "2",
        "--out",
        str(place.root / "demos.jsonl"),
    )
    for key, missing, filled in known:
        for command in (("contract", "check", "customers"), release):
            assert complaint(call_main(command, capsys)).startswith(
                f"customers.yaml: {key}: is not filled in"
            ), key
        written(place).write_text(written(place).read_text().replace(missing, filled, 1))
    text = (
        written(place)
        .read_text()
        .replace(
            '{file: "customers.csv"}', '{file: "customers.csv", ignore: [since, left, "place x "]}'
        )
    )
    written(place).write_text(text)
    marked = said(capsys, "contract", "check", "customers")
    assert (
        "5 lines still have their marks, LOOKED or FILL IN; the first is line 9: age: {" in marked
    )
    assert "2 demonstrations" in said(capsys, *release)


def test_of_parquet_only_names_and_types_are_taken(place: Place, capsys: Capture) -> None:
    """The file is the table itself, whose statistics hold the least and greatest value of every
    column.
    """
    rows = pa_csv.read_csv(io.BytesIO(shop_rows(60).encode()))
    rows = rows.append_column(" colour again", rows["colour"]).append_column(
        "kept", pa.array([True] * 60)
    )
    rows = rows.append_column(
        "seen", pa.array([86_400 * day for day in range(60)], pa.timestamp("s"))
    )
    path = place.root / "data" / "customers.parquet"
    pq.write_table(rows, path)
    assert pq.read_metadata(path).row_group(0).column(0).statistics.has_min_max
    told = said(capsys, "contract", "new", "customers.parquet", *new(str(path))[3:])
    assert "No row of customers.parquet was looked at." in told and "1 column is left out" in told
    text = written(place).read_text()
    for line in (
        "age: {type: integer, bounds: [null, null]}",
        "spent: {type: real, bounds: [null, null]}",
        "colour: {type: category, categories: null}",
        "seen: {type: datetime, bounds: [null, null]}",
    ):
        assert f"  {line}  # FILL IN" in text
    assert "  kept: {type: boolean}\n" in text
    values = {str(value) for name in ("age", "spent", "colour") for value in rows[name].to_pylist()}
    assert not [value for value in values if f"{value}]" in text or f'"{value}"' in text]


def test_a_contract_that_is_not_filled_in_stands_in_nobodys_way(
    place: Place, capsys: Capture
) -> None:
    said(
        capsys,
        *new(
            published(place, {"fields": [{"name": "age", "type": "integer"}, {"name": "bought"}]})
        ),
    )
    assert "its contract is refused" in said(capsys, "data", "list")
    out = place.root / "demos.jsonl"
    said(capsys, "protect", "breast_cancer", "--epsilon", "1", "--shots", "2", "--out", str(out))
    (place.root / "rows.csv").write_text(_asked_row())
    asked = (
        "ask",
        "--demos",
        str(out),
        "--queries",
        str(place.root / "rows.csv"),
        "--model",
        "tiny",
    )
    code, told = call_main(asked, capsys)
    assert code == 0 and "refused" not in told


def _asked_row() -> str:
    contract = load_contract(Path(__file__).parents[2] / "data_contracts" / "breast_cancer.yaml")
    assert isinstance(contract, Contract)
    low = {
        name: column.bounds[0]
        for name, column in contract.columns.items()
        if column.type != "category" and name in contract.features
    }
    return ",".join(low) + "\n" + ",".join(map(str, low.values())) + "\n"


@pytest.mark.parametrize(
    ("schema", "phrase"),
    [
        (
            "{",
            (
                "customers.json: is not JSON; expected a .parquet file, or JSON with `fields` of a "
                "Table Schema"
            ),
        ),
        ([], "customers.json: is no schema of a table; expected `fields` of a Table Schema"),
        ({"fields": [{"type": "integer"}]}, "customers.json: fields.0.name: missing"),
        (
            {"fields": [{"name": "a", "constraints": {"enum": [["b"]]}}]},
            "fields.0.constraints.enum: got",
        ),
        (
            {"fields": [{"name": "bought"}, {"name": "bought"}]},
            "customers.json: names 1 columns twice",
        ),
        (
            {"fields": [{"name": "age", "type": "integer"}]},
            "label=bought: expected one of the 1 columns of customers.json",
        ),
        (
            {"fields": [{"name": "bought"}, {"name": "since", "type": "geopoint"}]},
            "customers.json: has no column beside the label that a contract can describe",
        ),
        (
            {"properties": {"age": {"type": "integer"}, "bought": {"enum": ["no", "yes"]}}},
            "some, but not all, of the values of column bought",
        ),
        (
            {"properties": {"age": {"type": "integer", "minimum": 2, "maximum": 1}, "bought": {}}},
            "label=bought",
        ),
        (
            {
                "properties": {
                    "age": {"type": "integer", "minimum": 2, "maximum": 1},
                    "bought": {"type": "string"},
                }
            },
            "columns.age.bounds: got [2, 1]",
        ),
        (
            {
                "properties": {
                    "age": {"type": "number", "minimum": 2, "maximum": 2},
                    "bought": {"type": "string"},
                }
            },
            "columns.age.bounds: got [2.0, 2.0]",
        ),
        (
            {"resources": [{"path": "a.csv"}, {"path": "b.csv"}]},
            "resources: 0 of 2 have a path that ends in customers.csv",
        ),
        (
            {"resources": [{"path": "a.csv", "schema": "a.json"}]},
            "the table's schema is not written out",
        ),
    ],
)
def test_what_is_no_schema_is_one_sentence_and_writes_nothing(
    place: Place, capsys: Capture, schema: object, phrase: str
) -> None:
    path = published(place, schema)
    if isinstance(schema, str):
        Path(path).write_text(schema)
    assert phrase in complaint(call_main(new(path), capsys))
    assert not written(place).exists()


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(50) + b"PAR1"])
def test_a_damaged_footer_is_one_sentence(place: Place, capsys: Capture, content: bytes) -> None:
    path = place.root / "damaged.parquet"
    path.write_bytes(content)
    assert (
        complaint(call_main(new(str(path)), capsys))
        == "damaged.parquet: is not a complete Parquet file"
    )
