"""dbt's schema.yml, ODCS data contracts and Data Packages of several tables, as their owners write
them: what each says of a column, and nothing more.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dpicl.contract.columns.date import moment
from dpicl.contract.draft_schema import PublishedSchema, read_schema
from dpicl.data.reading.written import iso_date
from dpicl.ground.errors import DeclarationError, DpiclError, ParameterError

DBT = """
version: 2
models:
  - name: orders
    columns: [{name: id}]
  - name: customers
    description: "{{ doc('customers') }}"
    config: {contract: {enforced: true}}
    columns:
      - name: id
        data_type: bigint
        constraints: [{type: not_null}, {type: primary_key}]
      - name: age
        description: "in whole   years"
        data_type: INT64
        data_tests:
          - not_null
          - dbt_utils.accepted_range: {min_value: 18, max_value: 120, inclusive: true}
      - name: spent
        data_type: numeric(10, 2)
        tests:
          - dbt_expectations.expect_column_values_to_be_between:
              min_value: 0
              max_value: 500
              row_condition: "id is not null"
      - name: points
        data_type: numeric(10, 0)
        tests:
          - dbt_expectations.expect_column_values_to_be_between:
              arguments: {min_value: 0, max_value: 99}
      - name: since
        data_type: date
        tests:
          - dbt_utils.accepted_range: {min_value: "'2020-01-01'", max_value: current_date}
      - name: seen
        data_type: timestamp_ntz(9)
      - name: city
        data_type: varchar(20)
        data_tests:
          - accepted_values:
              arguments: {values: [north, south, "no"]}
      - name: stage
        tests: [{accepted_values: {values: [1, 2], quote: false}}]
      - name: tier
        data_type: character varying
        tests: [{accepted_values: {values: [gold], config: {where: "id > 5"}}}]
      - name: kind
        data_type: string
        tests: [{name: my_test, test_name: accepted_values, values: [a, b]}]
      - name: member
        data_type: boolean
      - name: rate
        tests: [{dbt_utils.accepted_range: {min_value: 0, max_value: 1}}]
      - name: tags
        data_type: array<string>
      - name: mail
        tests: [unique]
      - name: note
sources:
  - name: raw
    tables:
      - name: visits
        columns: [{name: at, data_type: datetime}, {name: who, data_type: text}]
"""
ODCS = """
apiVersion: v3.0.2
kind: DataContract
id: 53581432-6c55-4ba2-a65f-72344a91553a
version: 1.0.0
status: active
schema:
  - name: tbl
    physicalName: shop.customers
    physicalType: table
    properties:
      - {name: identifier, physicalName: id, logicalType: string, unique: true}
      - {name: age, businessName: years, logicalType: integer,
         logicalTypeOptions: {minimum: 18, exclusiveMaximum: 100, format: i64}, required: true}
      - {name: amount, logicalType: number, physicalType: double, logicalTypeOptions: {minimum: 0}}
      - {name: opened, logicalType: date, physicalType: timestamp(3),
         logicalTypeOptions: {minimum: "2020-01-01 00:00:00", maximum: "2021-01-01 00:00:00",
                              format: "yyyy-MM-dd HH:mm:ss"}}
      - {name: closed, logicalType: date,
         logicalTypeOptions: {format: dd/MM/yyyy, maximum: 31/12/2024}}
      - {name: paid, logicalType: date, logicalTypeOptions: {format: "EEE, d MMM yyyy"}}
      - name: unit
        logicalType: string
        required: false
        quality: [{rule: validValues, validValues: [pounds, kg]}]
      - name: state
        logicalType: string
        quality:
          - {metric: invalidValues, mustBeLessThan: 5, arguments: {validValues: [new, old]}}
      - {name: cover, physicalType: "DECIMAL(18,2)"}
      - {name: lines, logicalType: array}
      - {name: at, logicalType: time}
  - name: other
    properties: []
"""
PACKAGE = {
    "resources": [
        {"name": "one", "path": "a.csv", "schema": {"fields": [{"name": "x", "type": "year"}]}},
        {"name": "two", "path": "sub/b.csv", "schema": {"fields": [{"name": "y"}]}},
    ]
}


def said(schema: PublishedSchema) -> dict[str, tuple[Any, ...]]:
    """{column: its type, bounds or categories, and whether values may be missing}."""
    return {
        column.name: (
            column.type,
            column.categories if column.is_listed else column.bounds,
            column.nullable,
        )
        for column in schema.columns
    }


def read(
    content: object, folder: Path, file: str = "customers.csv", table: str | None = None
) -> PublishedSchema:
    path = folder / "schema.yml"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return read_schema(path, file, table)


def test_what_dbt_says_of_a_model(tmp_path: Path) -> None:
    schema = read(DBT, tmp_path)
    assert schema.origin == "the dbt properties schema.yml, table customers"
    assert said(schema) == {
        "age": ("integer", (18, 120), False),
        "spent": ("real", (None, None), True),
        "points": ("integer", (0, 99), True),
        "since": ("date", ("2020-01-01", None), True),
        "seen": ("datetime", (None, None), True),
        "city": ("category", ("north", "south", "no"), True),
        "stage": ("category", ("1", "2"), True),
        "tier": ("category", (), True),
        "kind": ("category", ("a", "b"), True),
        "member": ("boolean", ("false", "true"), True),
        "rate": ("real", (0, 1), True),
    }
    assert schema.columns[0].note == "in whole years"
    assert schema.ignored == {
        "id": "a value of its own in every row, as an identifier has",
        "tags": "values of type array<string>",
        "mail": "values of no type, or of several",
        "note": "values of no type, or of several",
    }


def test_a_table_is_named_by_its_file_or_by_the_option(tmp_path: Path) -> None:
    visits = {"at": ("datetime", (None, None), False), "who": ("category", (), False)}
    assert said(read(DBT, tmp_path, "visits.csv.gz")) == visits
    assert said(read(DBT, tmp_path, table="visits")) == visits
    assert said(read(PACKAGE, tmp_path, "b.csv")) == {"y": ("category", (), False)}
    assert said(read(PACKAGE, tmp_path, table="one")) == {"x": ("integer", (None, None), False)}
    for content, file, table, where in (
        (DBT, "people.csv", None, "models: has 0 tables of the name 'people' among 3"),
        (DBT, "customers.csv", "vists", "models: has 0 tables of the name 'vists' among 3"),
        (ODCS, "people.csv", None, "schema: has 0 tables of the name 'people' among 2"),
        (PACKAGE, "c.csv", None, "resources: has 0 tables of the name 'c' among 2"),
        (DBT.replace("name: visits", "name: orders"), "orders.csv", None, "has 2 tables"),
    ):
        with pytest.raises(DeclarationError, match="expected one; name it with --table") as refused:
            read(content, tmp_path, file, table)
        assert where in str(refused.value)
    with pytest.raises(ParameterError, match=r"schema\.yml is of one table"):
        read({"fields": [{"name": "x"}]}, tmp_path, table="x")


def test_what_an_odcs_data_contract_says_of_a_table(tmp_path: Path) -> None:
    schema = read(ODCS, tmp_path)
    assert schema.origin == "the ODCS data contract schema.yml, table tbl"
    days = ("2020-01-01 00:00:00", "2021-01-01 00:00:00")
    assert said(schema) == {
        "age": ("integer", (18, 100), False),
        "amount": ("real", (0, None), False),
        "opened": ("datetime", days, False),
        "unit": ("category", ("pounds", "kg"), True),
        "state": ("category", (), False),
        "closed": ("date", (None, "2024-12-31"), False),
        "cover": ("real", (None, None), False),
    }
    assert schema.written == {"dates": {"closed": "%d/%m/%Y"}}
    assert set(schema.ignored) == {"id", "paid", "lines", "at"}


@pytest.mark.parametrize(
    ("form", "written", "row", "day"),
    [
        ("yyyy-MM-dd", None, "2020-11-01", "2020-11-01T00:00:00"),
        ("yyyy-MM-dd'T'HH:mm:ss.SSSX", None, "2020-11-01T12:30:15Z", "2020-11-01T12:30:15"),
        ("yyyy-MM-dd HH-mm", "%Y-%m-%d %H-%M", "2020-11-01 12-03", "2020-11-01T12:03:00"),
        ("yyyy-MM-dd HH.mm", "%Y-%m-%d %H.%M", "2020-11-01 12.30", "2020-11-01T12:30:00"),
        ("d MMM uuuu", "%d %b %Y", "1 Nov 2020", "2020-11-01T00:00:00"),
        ("M/d/yyyy h:mm a", "%m/%d/%Y %I:%M %p", "11/1/2020 3:30 PM", "2020-11-01T15:30:00"),
        (
            "dd.MM.yyyy 'at' HH:mm",
            "%d.%m.%Y at %H:%M",
            "01.11.2020 at 09:15",
            "2020-11-01T09:15:00",
        ),
        ("%d/%m/%Y", "%d/%m/%Y", "01/11/2020", "2020-11-01T00:00:00"),
        *(
            (form, "", "", "")
            for form in (
                *("yyyy/mm", "yyyymm", "dd/mm/yyyy", "yyyy-MM-ddd", "yyMMdd", "dMyyyy", "ddMMyyyy"),
                *("yyyyMMdd", "dd/MM/yy", "EEE, d MMM yyyy", "hh:mm dd/MM/yyyy", "mm dd/MM/yyyy"),
                *("yyyy/MM/dd[ HH:mm]", "dd ''MM yyyy", "dd/MM/yyyy ' HH", "'%d'/MM/yyyy"),
            )
        ),
    ],
)
def test_a_form_of_dates_of_odcs_is_read_as_java_does_or_left_out(
    tmp_path: Path, form: str, written: str | None, row: str, day: str
) -> None:
    column = {"name": "at", "logicalType": "timestamp", "logicalTypeOptions": {"format": form}}
    content = {"kind": "DataContract", "schema": [{"name": "customers", "properties": [column]}]}
    schema = read(content, tmp_path)
    if written == "":
        assert set(schema.ignored) == {"at"}
        return
    assert schema.written == ({} if written is None else {"dates": written})
    read_as = iso_date(row, written) if written else row
    assert moment(read_as, "datetime") == moment(day, "datetime")


def test_a_table_schema_says_which_column_is_a_key(tmp_path: Path) -> None:
    fields = [{"name": "x"}, {"name": "key", "constraints": {"unique": True}}]
    assert set(read({"fields": fields}, tmp_path).ignored) == {"key"}


@pytest.mark.parametrize(
    ("content", "phrase"),
    [
        ("a: [", "schema.yml: line 1"),
        ("a: 1", "schema.yml: is no schema of a table; expected `fields` of a Table Schema"),
        ("models: [{columns: []}]", "schema.yml: models.0.name: missing"),
        ("models: []", "schema.yml: models: has 0 tables of the name 'customers' among 0"),
        ("{kind: DataContract, schema: []}", "schema.yml: is not JSON"),
        ("kind: DataContract\nschema: []", "schema.yml: schema: "),
        (
            "models: [{name: a, columns: [{name: x, tests: [{accepted_values: {values: [{}]}}]}]}]",
            "schema.yml: column x: constraints.enum: got",
        ),
    ],
)
def test_what_is_wrong_is_one_sentence(tmp_path: Path, content: str, phrase: str) -> None:
    with pytest.raises(DpiclError) as refused:
        read(content, tmp_path)
    assert str(refused.value).startswith(phrase)


WORDS = ["k.A.", ""]
FIELDS = [
    {"name": "age", "type": "integer", "constraints": {"minimum": 18, "maximum": 99}},
    {"name": "plan", "constraints": {"enum": ["basic", "plus", "k.A."]}},
    {"name": "paid", "type": "number", "constraints": {"required": True}},
    {"name": "left", "type": "boolean", "constraints": {"required": False}},
    {"name": "own", "type": "integer", "missingValues": [{"value": "-9", "label": "refused"}]},
]


@pytest.mark.parametrize(
    ("of_schema", "of_resource", "of_package"),
    [(WORDS, None, None), (None, WORDS, None), (None, None, WORDS), (None, WORDS, ["never"])],
)
def test_words_for_missing_values_are_those_of_the_nearest_place(
    of_schema: object, of_resource: object, of_package: object, tmp_path: Path
) -> None:
    schema = {"fields": FIELDS, "missingValues": of_schema}
    resource = {"path": "customers.csv", "schema": schema, "missingValues": of_resource}
    content = {"missingValues": of_package, "resources": [resource]}
    columns = {column.name: column for column in read(content, tmp_path).columns}
    if of_schema:
        assert read(schema, tmp_path).columns == tuple(columns.values())
    found = {name: (column.nullable, column.missing) for name, column in columns.items()}
    assert found == {
        "age": (True, ("k.A.",)),
        "plan": (True, ("k.A.",)),
        "paid": (False, ()),
        "left": (True, ("k.A.",)),
        "own": (True, ("-9",)),
    }
    assert columns["plan"].categories == ("basic", "plus")
    assert 'nullable: true, missing: ["k.A."]' in columns["age"].line


@pytest.mark.parametrize("words", [None, [""], []])
def test_where_no_word_is_stated_a_value_is_missing_only_where_that_is_said(
    words: list[str] | None, tmp_path: Path
) -> None:
    """Programs that write schemas state the empty cell of all of them."""
    columns = read({"fields": FIELDS[:4], "missingValues": words}, tmp_path).columns
    assert [column.name for column in columns if column.nullable] == ["left"]
    assert not any(column.missing for column in columns)


def test_words_that_are_no_list_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=r"missingValues: .*expected a list of texts"):
        read({"fields": FIELDS, "missingValues": "k.A."}, tmp_path)


DATE = {"type": "date", "format": "%d.%m.%Y"}
DAYS = [
    {**DATE, "name": "born", "constraints": {"minimum": "01.02.1990"}},
    {**DATE, "name": "seen", "type": "datetime"},
]


def test_forms_of_dates_and_decimal_commas_are_how_the_file_is_written(tmp_path: Path) -> None:
    """One for all, or by column; a form without a century is none that a contract states."""
    assert read({"fields": DAYS}, tmp_path).written == {"dates": "%d.%m.%Y"}
    born = read({"fields": DAYS}, tmp_path).columns[0]
    assert born.bounds == ("1990-02-01", None)
    others = [
        {"name": "made", "type": "date"},
        {"name": "old", "type": "date", "format": "%d.%m.%y"},
        {**DATE, "name": "listed", "constraints": {"enum": ["1.2.2020"]}},
        {**DATE, "name": "ticket", "constraints": {"unique": True}},
        {"name": "paid", "type": "number", "decimalChar": ","},
    ]
    schema = read({"fields": [*DAYS, *others]}, tmp_path)
    assert schema.written == {
        "dates": {"born": "%d.%m.%Y", "seen": "%d.%m.%Y"},
        "decimal": ",",
    }
    assert list(schema.ignored) == ["old", "ticket"]
    assert schema.ignored["old"].endswith("as --dates %d.%m.%Y of 25.11.2026")
    path = tmp_path / "schema.yml"
    by_hand = read_schema(path, "rows.csv", stated={"dates": "%d.%m.%Y"})
    assert list(by_hand.ignored) == ["ticket"] and by_hand.written["dates"] == "%d.%m.%Y"


def test_numbers_that_no_contract_can_read_are_left_out_with_the_reason(tmp_path: Path) -> None:
    fields = [
        {"name": "paid", "type": "number", "decimalChar": ","},
        {"name": "size", "type": "number"},
        {"name": "cost", "type": "number", "groupChar": "."},
        {"name": "rate", "type": "number", "bareNumber": False},
        {"name": "count", "type": "integer", "groupChar": ","},
        {"name": "share", "type": "integer", "bareNumber": False},
    ]
    schema = read({"fields": fields}, tmp_path)
    assert [column.name for column in schema.columns] == ["size"] and not schema.written
    assert schema.ignored == {
        "paid": "numbers with another decimal mark than others; export all with one mark",
        "cost": "numbers whose thousands are separated; export them without",
        "rate": "numbers with a unit; export them without",
        "count": "numbers whose thousands are separated; export them without",
        "share": "numbers with a unit; export them without",
    }


@pytest.mark.parametrize(
    ("of_file", "written"),
    [
        ({"encoding": "utf-8", "dialect": {"delimiter": ","}}, {}),
        ({"encoding": "no such one", "dialect": "dialect.json"}, {}),
        ({"encoding": "a\0b", "dialect": {"delimiter": "^"}}, {}),
        ({"encoding": "iso-8859-15", "dialect": {"delimiter": ""}}, {}),
        ({"encoding": "utf-8-sig"}, {}),
        ({"encoding": "ISO-8859-1"}, {"encoding": "latin-1"}),
        ({"encoding": "cp1252"}, {"encoding": "windows-1252"}),
        ({"encoding": "UTF16"}, {"encoding": "utf-16"}),
        ({"dialect": {"delimiter": ";"}}, {"delimiter": ";"}),
        ({"dialect": {"csv": {"delimiter": "\t"}}}, {"delimiter": "\t"}),
    ],
)
def test_how_a_file_is_written_is_read_too(
    of_file: dict[str, Any], written: dict[str, str], tmp_path: Path
) -> None:
    resource = {"path": "customers.csv", "schema": {"fields": FIELDS}, **of_file}
    content = {"resources": [resource]}
    assert read(content, tmp_path).written == written
    of_tabs = read(content, tmp_path, "customers.tsv", "customers").written
    assert of_tabs == {key: value for key, value in written.items() if key == "encoding"}
    assert read(content, tmp_path, "customers.parquet", "customers").written == {}
