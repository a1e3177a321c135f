"""B8: a draft from rows loses no leading zero, and proposes to protect persons where an id
repeats.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from pydantic import TypeAdapter

from dpicl.contract import draft_columns
from dpicl.contract.columns import Column
from dpicl.data.reading.parse import typed_column
from dpicl.ground.errors import DataError
from tests.harness import new_place, said

Capture = pytest.CaptureFixture[str]
Columns = dict[str, Sequence[object]]
ROWS = 600
_random = random.Random(3)
NO = [_random.choice(["no", "yes"]) for _ in range(ROWS)]
AGE = [_random.randint(18, 99) for _ in range(ROWS)]


def _of(*values: object) -> list[object]:
    return [_random.choice(values) for _ in range(ROWS)]


def drafted(folder: Path, capsys: Capture, columns: Columns) -> tuple[dict, str]:
    """The contract that `contract new` writes, and what it says."""
    place = new_place(folder / "place")
    with place.entered():
        data = place.root / "data" / "rows.csv"
        lines = [
            ",".join(columns),
            *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True)),
        ]
        data.write_text("\n".join(lines) + "\n")
        out = said(capsys, "contract", "new", "rows.csv", "--label", "y", "--positive", "yes")
        written = place.root / "contracts" / "rows.yaml"
        return yaml.safe_load(written.read_text()), out


CODES: dict[str, list[object]] = {
    "postcode": [f"{_random.randint(500, 1400):05d}" for _ in range(ROWS)],
    "plz": [f"{_random.randint(1000, 99999):05d}" for _ in range(ROWS)],
    "phone": [f"0{_random.randint(10**8, 10**9)}" for _ in range(ROWS)],
    "mobile": [f"00{_random.randint(10**9, 10**10)}" for _ in range(ROWS)],
    "fips": [f"{_random.randint(1, 56):02d}{_random.randint(1, 400):03d}" for _ in range(ROWS)],
    "ean": [f"{_random.randint(0, 10**13 - 1):013d}" for _ in range(ROWS)],
    "account_number": [f"{_random.randint(0, 10**8):010d}" for _ in range(ROWS)],
    "one_of_them": ["007", *range(1000, 1000 + ROWS - 1)],
    "negative": [f"-0{_random.randint(1, 9999)}" for _ in range(ROWS)],
    "with_gaps": [
        "" if number % 9 == 0 else f"{_random.randint(0, 99999):05d}" for number in range(ROWS)
    ],
}


@pytest.mark.quick("postcode", "one_of_them", "negative", "with_gaps")
@pytest.mark.parametrize("name", CODES)
def test_many_codes_with_leading_zeros_are_left_out_with_a_word(
    tmp_path: Path, capsys: Capture, name: str
) -> None:
    contract, out = drafted(tmp_path, capsys, {name: CODES[name], "age": AGE, "y": NO})
    assert name not in contract["columns"] and contract["source"]["ignore"] == [name]
    assert f'left out: "{name}": digits with leading zeros' in out


NAMED: dict[str, list[object]] = {
    "zip": [_random.randint(10_000, 99_999) for _ in range(ROWS)],
    "ZipCode": [_random.randint(90_001, 96_162) for _ in range(ROWS)],
    "home_postal_code": [_random.randint(1000, 9999) for _ in range(ROWS)],
    "phone": [_random.randint(2 * 10**9, 9 * 10**9) for _ in range(ROWS)],
    "cellPhone": [_random.randint(2 * 10**9, 9 * 10**9) for _ in range(ROWS)],
    "Phone number": [_random.randint(2 * 10**9, 9 * 10**9) for _ in range(ROWS)],
    "fax_number": [_random.randint(10**8, 9 * 10**8) for _ in range(ROWS)],
    "isbn13": [_random.randint(978 * 10**10, 979 * 10**10) for _ in range(ROWS)],
    "PLZ": ["" if number % 7 == 0 else _random.randint(10_000, 99_999) for number in range(ROWS)],
    "ssn": [_random.randint(10**8, 10**9 - 1) for _ in range(ROWS)],
    "Telefon": [_random.randint(2 * 10**9, 9 * 10**9) for _ in range(ROWS)],
    "contact": [_random.randint(2 * 10**9, 9 * 10**9) for _ in range(ROWS)],
    "mobile2": [_random.randint(10**9, 10**10) for _ in range(ROWS)],
}


@pytest.mark.quick("PLZ", "Phone number", "zip")
@pytest.mark.parametrize("name", NAMED)
def test_codes_without_leading_zeros_are_known_by_their_name(
    tmp_path: Path, capsys: Capture, name: str
) -> None:
    contract, out = drafted(tmp_path, capsys, {name: NAMED[name], "age": AGE, "y": NO})
    assert name not in contract["columns"] and contract["source"]["ignore"] == [name]
    assert f'left out: "{name}": digits that are no number by its name' in out


@pytest.mark.parametrize(
    "name", ["phone_calls", "zip_size", "hotel", "motel", "cards", "postage", "telling"]
)
def test_what_only_sounds_like_a_code_is_a_number(
    tmp_path: Path, capsys: Capture, name: str
) -> None:
    contract, _ = drafted(
        tmp_path,
        capsys,
        {name: [_random.randint(0, 900) for _ in range(ROWS)], "age": AGE, "y": NO},
    )
    assert contract["columns"][name]["type"] == "integer"


def test_days_without_hyphens_are_dates_where_all_are_days(tmp_path: Path, capsys: Capture) -> None:
    """As a column of dates reads them: an integer would release the 57th of May."""
    days = [
        f"{_random.randint(1930, 2010)}{_random.randint(1, 12):02d}{_random.randint(1, 28):02d}"
        for _ in range(ROWS)
    ]
    contract, _ = drafted(
        tmp_path, capsys, {"born": days, "amount": [*days[:-1], "20011301"], "y": NO}
    )
    assert (
        contract["columns"]["born"]["type"] == "date"
        and contract["columns"]["amount"]["type"] == "integer"
    )


@pytest.mark.parametrize(
    "values",
    [("01", "02", "10"), ("007", "008"), ("00", "01", "11", ""), ("0", "00", "1")],
    ids=str,
)
def test_a_few_codes_with_leading_zeros_are_categories(
    tmp_path: Path, capsys: Capture, values: tuple[str, ...]
) -> None:
    contract, _ = drafted(tmp_path, capsys, {"code": _of(*values), "age": AGE, "y": NO})
    assert contract["columns"]["code"]["type"] == "category"
    assert contract["columns"]["code"]["categories"] == sorted(value for value in values if value)


@pytest.mark.parametrize(
    "values", [("0", "5", "10"), ("0.5", "1.5"), ("-0.5", "2"), ("0", "-1", "7")], ids=str
)
def test_a_zero_before_a_point_leads_nothing(
    tmp_path: Path, capsys: Capture, values: tuple[str, ...]
) -> None:
    rows = [
        f"{_random.randint(0, 90)}" if number > 10 else values[number % len(values)]
        for number in range(ROWS)
    ]
    contract, _ = drafted(tmp_path, capsys, {"number": rows, "age": AGE, "y": NO})
    assert contract["columns"]["number"]["type"] in ("integer", "real")


NUMBERS: dict[str, dict[str, object]] = {
    "integer": {"type": "integer", "bounds": [-10, 99999]},
    "real": {"type": "real", "bounds": [-10, 99999]},
}


def test_whole_numbers_of_more_than_64_bits_are_categories_in_quotes(
    tmp_path: Path, capsys: Capture
) -> None:
    far = 12345678901234567890
    columns = {"code": _of(far, far + 1), "y": NO}
    drafts, _ = drafted(tmp_path, capsys, columns)
    assert drafts["columns"]["code"]["categories"] == [str(far), str(far + 1)]


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("text", ["00894", "01", "-07", "007.0", "00"])
def test_a_number_with_leading_zeros_is_refused_in_words(kind: str, text: str) -> None:
    column = TypeAdapter(Column).validate_python(NUMBERS[kind])
    with pytest.raises(
        DataError, match="has leading zeros, which a number would lose; expected `type: category`"
    ):
        typed_column(pa.chunked_array([["1", text]]), column, "zip", "rows.csv")
    assert typed_column(
        pa.chunked_array([["0", "0.0", "-0", "10"]]), column, "zip", "rows.csv"
    ).to_pylist() == [0, 0, 0, 10]


def _repeating(persons: int, form: str = "{}") -> list[object]:
    return [form.format(_random.randint(1, persons)) for _ in range(ROWS)]


PERSONS: dict[str, list[object]] = {
    "patient_id": _repeating(200),
    "PatientID": _repeating(200),
    "customer": _repeating(300, "C{:05d}"),
    "customer_number": _repeating(100, "{:08d}"),
    "user": _repeating(150, "u{}"),
    "subject_id": _repeating(50),
    "mrn": _repeating(250, "{:07d}"),
    "employee-no": _repeating(200),
    "household_id": _repeating(120),
    "pid": _repeating(30),
    "id": _repeating(400),
    "student": _repeating(90, "s{}@school"),
    "pat_no": _repeating(180),
    "PATID": _repeating(180),
    "cust_id": _repeating(120, "{:06d}"),
    "id_patient": _repeating(150),
    "ref_client": _repeating(150),
    "emp_nr": _repeating(60),
    "USUBJID": _repeating(150, "S-{}"),
    "seqn": _repeating(150),
    "driverId": _repeating(90),
    "policyholder_no": _repeating(90),
    "voter key": _repeating(90),
    "id number": _repeating(200),
    "uuid": _repeating(200, "{:032x}"),
    "email": _repeating(200, "u{}@x.org"),
    "patient_email": _repeating(200, "u{}@x.org"),
    "e-mail address": _repeating(200, "u{}@x.org"),
    "username": _repeating(200, "user{}"),
    "Kundennummer": _repeating(200),
    "patienten_nr": _repeating(200),
    "Versicherten-ID": _repeating(200),
    "Kunden-Nr.": _repeating(200),
    "Patient ID.": _repeating(200),
    "kundennr": _repeating(300),
    "kunde": _repeating(200, "K{}"),
    "konto": _repeating(200, "DE{}"),
    "Schülernummer": _repeating(200),
    "Mitglieds-Nr.": _repeating(200),
    "Personalnummer": _repeating(200),
    "cliente": _repeating(200, "c{}"),
    "numéro du client": _repeating(200),
    "élève": _repeating(200, "e{}"),
    "id_del_paciente": _repeating(200),
    "klantnr": _repeating(300),
    "gebruiker": _repeating(200, "g{}"),
}


@pytest.mark.quick("patient_id", "employee-no", "id", "cust_id", "USUBJID")
@pytest.mark.parametrize("name", PERSONS)
def test_an_id_that_repeats_proposes_persons(tmp_path: Path, capsys: Capture, name: str) -> None:
    contract, out = drafted(tmp_path, capsys, {name: PERSONS[name], "age": AGE, "y": NO})
    privacy = contract["privacy"]
    assert (
        privacy["unit"] == "person"
        and privacy["person"]["id_column"] == name
        and 2 <= privacy["person"]["max_rows"] <= 10
    )
    assert name not in contract["columns"] and re.search(
        rf"{name} repeats: the draft protects persons", out
    )


NO_PERSONS: dict[str, list[object]] = {
    "patient_id": list(range(ROWS)),
    "store_id": _repeating(12),
    "salaries": _repeating(200),
    "employer": _repeating(200, "E{}"),
    "visits": _repeating(40),
    "visitors": _repeating(40),
    "case": _repeating(40),
    "owner": _repeating(40),
    "staff": _repeating(90),
    "emp": _repeating(90),
    "pattern": _repeating(90),
    "row": _of(1, 2, 3),
    "member": _of("no", "yes"),
    "personal": _repeating(90),
    "fall": _repeating(40),
    "num_customers": _repeating(40),
    "numero_clientes": _repeating(40),
}


@pytest.mark.quick("patient_id", "store_id", "salaries", "visitors", "pattern", "member")
@pytest.mark.parametrize("name", NO_PERSONS)
def test_what_names_no_person_or_one_a_row_proposes_none(
    tmp_path: Path, capsys: Capture, name: str
) -> None:
    contract, _ = drafted(tmp_path, capsys, {name: NO_PERSONS[name], "age": AGE, "y": NO})
    assert "unit" not in contract["privacy"]


@pytest.mark.parametrize("second", ["doctor_id", "pid", "ward id", "member_no"])
@pytest.mark.parametrize("count", [30, 400])
def test_numbers_that_are_names_are_no_amounts(
    tmp_path: Path, capsys: Capture, second: str, count: int
) -> None:
    columns = {"patient_id": _repeating(200), second: _repeating(count), "age": AGE, "y": NO}
    contract, out = drafted(tmp_path, capsys, columns)
    assert contract["privacy"]["person"]["id_column"] == "patient_id"
    if count > 256:
        assert f'left out: "{second}": numbers that are names of something' in out
    else:
        assert contract["columns"][second]["type"] == "category"


def test_of_a_text_that_repeats_like_a_person_it_is_asked_whether_it_names_one(
    tmp_path: Path, capsys: Capture
) -> None:
    """Not of one that has a value in every row, nor where another column names persons."""
    asked = "one value per person? then `unit: person` and `person: {id_column: "
    names, notes = _repeating(300, "Ann {}"), [f"note {row}" for row in range(ROWS)]
    columns = {"wer": names, "note": notes, "age": AGE, "y": NO}
    contract, out = drafted(tmp_path, capsys, columns)
    assert "unit" not in contract["privacy"] and out.count(asked) == 1
    assert re.search(f'left out: "wer": .*{re.escape(asked)}', out)
    contract, out = drafted(tmp_path / "other", capsys, {**columns, "patient_id": _repeating(200)})
    assert contract["privacy"]["unit"] == "person" and asked not in out


@pytest.mark.parametrize(
    "name", ["members", "users", "household", "students", "kunden", "clientes", "élèves"]
)
def test_how_many_there_are_is_an_amount(tmp_path: Path, capsys: Capture, name: str) -> None:
    contract, _ = drafted(tmp_path, capsys, {name: _repeating(12), "age": AGE, "y": NO})
    assert contract["columns"][name]["type"] == "integer"


def test_mutant_codes_read_as_numbers_are_caught(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draft_columns, "_CODE", "^$")
    contract, _ = drafted(tmp_path, capsys, {"station": CODES["postcode"], "age": AGE, "y": NO})
    assert contract["columns"]["station"]["type"] == "integer"  # 894 for 00894


def test_mutant_ids_as_features_are_caught(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draft_columns, "_MOST_ROWS", 0)
    for names in ("_PERSON_ID", "_OTHER_ID"):
        monkeypatch.setattr(draft_columns, names, re.compile("$^"))
    contract, _ = drafted(
        tmp_path, capsys, {"patient_id": PERSONS["patient_id"], "age": AGE, "y": NO}
    )
    assert "patient_id" in contract["columns"]
