"""A look at a table keeps every column that it can: what follows is a release, without other edits
than the lines it asks for.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import yaml

from dpicl.contract import Contract, load_contract
from dpicl.contract.draft import MARK
from dpicl.contract.load import json_schema
from tests.cli.conftest import Cli
from tests.harness import Place

Columns = dict[str, Sequence[object]]
SCHEMA = jsonschema.Draft202012Validator(json_schema())


def draws() -> np.random.Generator:
    return np.random.default_rng(5)


def gaps(values: Sequence[object], every: int = 9, by: object = "") -> list[object]:
    """Some of the values, and none in the other rows."""
    return [by if row % every == 0 else value for row, value in enumerate(values)]


def clinic() -> Columns:
    """Gaps, whole numbers written with a point, marks for what is missing, truth values."""
    rng = draws()
    return {
        "age": gaps([f"{age}.0" for age in rng.integers(18, 95, 200)]),
        "bmi": gaps([f"{bmi:.1f}" for bmi in rng.normal(26, 4, 200)], by="NA"),
        "insulin": gaps([*rng.integers(0, 300, 200)], 2),
        "smoker": gaps([*rng.choice(["never", "former", "current"], 200)], 11),
        "postcode": [f"{one:05}" for one in rng.choice([1067, 4109, 9111, 10115], 200)],
        "insured": [str(bool(one)).lower() for one in rng.integers(0, 2, 200)],
        "readmitted": [*rng.choice(["no", "yes"], 200, p=[0.8, 0.2])],
    }


def flowers() -> Columns:
    """Seven classes."""
    rng = draws()
    kinds = rng.choice(["iris", "rose", "tulip", "daisy", "lily", "poppy", "aster"], 300)
    return {
        **{f"petal_{part}": rng.normal(len(kinds[0]), 1, 300).round(2) for part in range(5)},
        "kind": [*kinds],
    }


def unicode_names() -> Columns:
    """Names and values that YAML, a template or a terminal might take for something else."""
    rng = draws()
    return {
        "Größe in cm": rng.normal(170, 10, 160).round(1),
        "年齢": [*rng.integers(18, 80, 160)],
        "no": [*rng.choice(["null", "true", "~", "1e3", "yes"], 160)],
        "#1 ? 'quoted'": [*rng.choice(["a: b", "- c", "{d}", 'e"f', "line\u2028break", "🌷"], 160)],
        "null": [*rng.choice(["x\xa0y", "  blank", "\\", "#"], 160)],
        "Köpfe & mehr": [*rng.choice(["ja", "nein"], 160)],
    }


def wide_ranges() -> Columns:
    """From 1e-7 to 1e14."""
    rng = draws()
    return {
        "income": rng.lognormal(10, 2, 200).round(2),
        "tiny": [f"{one:.3e}" for one in rng.uniform(1e-7, 9e-7, 200)],
        "share": rng.uniform(0.2, 0.4, 200).round(4),
        "huge": [*(rng.uniform(1, 9, 200) * 1e14).astype(np.int64)],
        "loss": rng.normal(0, 1e6, 200).round(1),
        "real_huge": rng.uniform(1, 9, 200) * 1e14,
        "level": [*rng.choice(["low", "high"], 200)],
    }


def ten_rows() -> Columns:
    return {"n": [1, 2, 3, 4, 5, 6, 7, 8, 9, 9], "c": [*"aabbaabbab"], "y": [*"nynynynyny"]}


TABLES: list[tuple[Callable[[], Columns], str, dict[str, str], str]] = [
    (
        clinic,
        "--label readmitted --positive yes",
        {"age": "integer", "bmi": "real", "insulin": "integer"},
        "binary",
    ),
    (
        unicode_names,
        "--label 'Köpfe & mehr'",
        {"Größe in cm": "real", "年齢": "integer", "no": "category"},
        "classes",
    ),
    (
        wide_ranges,
        "--label level",
        {"income": "real", "tiny": "real", "huge": "integer"},
        "classes",
    ),
    (ten_rows, "--label y", {"n": "integer", "c": "category"}, "classes"),
    (clinic, "--label insulin", {"smoker": "category", "postcode": "category"}, "number"),
]


def write(columns: Columns, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(columns)
        rows.writerows(zip(*columns.values(), strict=True))


def answered(file: Path) -> Contract:
    """What an editor does to the draft: marks and `draft: true` are taken out."""
    text = re.sub(f"  {MARK}", "", file.read_text()).replace("draft: true\n", "")
    file.write_text(text)
    contract = load_contract(file)
    assert isinstance(contract, Contract)
    return contract


@pytest.mark.quick("ten_rows-classes")
@pytest.mark.parametrize(
    ("table", "options", "types", "kind"),
    TABLES,
    ids=[f"{table.__name__}-{kind}" for table, *_, kind in TABLES],
)
def test_every_column_is_kept_and_a_release_follows(
    place: Place,
    cli: Cli,
    table: Callable[[], Columns],
    options: str,
    types: dict[str, str],
    kind: str,
) -> None:
    columns = table()
    write(columns, place.root / "data" / "Kunden-Daten.csv")
    told = cli(f"contract new Kunden-Daten.csv {options}")
    file = place.root / "contracts" / "kunden_daten.yaml"
    assert f"a draft of {len(columns)} columns\n" in told
    assert file.read_text().count(MARK) == len(columns)
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    # a name, a source, a budget, a label, and one line for each column
    assert len(lines) - len(columns) <= 8
    # an editor has nothing to mark
    assert not [*SCHEMA.iter_errors(json.loads(json.dumps(yaml.safe_load(file.read_text()))))]
    marked = cli("contract check kunden_daten")
    assert marked.startswith(
        "kunden_daten.yaml: a draft, which releases nothing until `draft: true` and all marks are "
    )
    assert "for clients" not in marked and "groups" not in marked
    assert f"{len(columns)} line" in marked and "; the first is line " in marked
    contract = answered(file)
    assert contract.version == 2
    assert contract.target.kind == kind
    assert not contract.local
    assert contract.privacy.sampling_rate == 1
    assert {name: contract.columns[name].type for name in types} == types
    gaps = {name for name, values in columns.items() if not {"", "NA"}.isdisjoint(map(str, values))}
    assert {name for name, column in contract.columns.items() if column.nullable} == gaps
    assert cli("contract check kunden_daten").startswith(
        f"kunden_daten.yaml: ok: {len(columns)} columns"
    )
    out = place.root / "demos.jsonl"
    cli(
        "protect kunden_daten --method mst_tabicl --epsilon "
        f"{contract.privacy.budget.epsilon:g} --shots 4 --out {out}"
    )
    assert len(out.read_text().splitlines()) == 4


def test_the_first_epsilon_is_one_at_which_a_release_is_little_noise(
    place: Place, cli: Cli
) -> None:
    write(flowers(), place.root / "data" / "flowers.csv")
    suggested = []
    for rows in (10**6, 3000, 300, 30):
        name = f"flowers_{rows}"
        told = cli(f"contract new flowers.csv --label kind --population {rows} --name {name}")
        contract = load_contract(place.root / "contracts" / f"{name}.yaml")
        assert isinstance(contract, Contract)
        assert contract.population == rows
        assert ("warning: " in told) == (rows == 30)
        cap = contract.privacy.budget.epsilon
        assert cap is not None
        part = told.partition(f"dpicl protect {name} --epsilon ")[2].split()[0]
        assert cap / 5 <= float(part) <= cap / 2
        suggested.append(cap)
    assert suggested == sorted(suggested) and suggested[0] == 1 and suggested[-1] == 10
    assert contract.privacy.sampling_rate == 1 and 1 < suggested[2] < 10


def test_what_is_left_out_is_named_with_its_reason(place: Place, cli: Cli) -> None:
    rng = draws()
    columns: Columns = {
        "spent": [*rng.integers(0, 90, 80)],
        "plan": [*rng.choice(["a", "b"], 80)],
        "row": range(1, 81),
        "customer_id": [*(10**6 + rng.permutation(10**5)[:80])],
        "name": [f"Ann {number}" for number in range(80)],
        "net price ": [*rng.integers(0, 90, 80)],
        "country": ["DE"] * 80,
        "nothing": [""] * 80,
        "born": [f"{1 + row % 28}.{1 + row % 12}.{1950 + row}" for row in range(80)],
        "salary": [f"${row},{row:03}.50" for row in range(80)],
        "mark": [2**60 + row**5 for row in range(80)],
    }
    write(columns, place.root / "data" / "shop.csv")
    told = cli("contract new shop.csv --label plan").splitlines()
    assert told[0].endswith("a draft of 3 columns; 8 columns are left out under `ignore`")
    reasons = {
        "row": "a whole number of its own in every row, as an identifier has",
        "customer_id": "a whole number of its own in every row, as an identifier has",
        "name": "free text, names or more than 256 categories",
        "country": "the same value in every row",
        "nothing": "no value in any row",
        "born": "dates that are not written as 2026-11-25; of 25.11.2026 say --dates %d.%m.%Y",
        "salary": "numbers whose thousands are separated, as in 1.234,50; export them without, or "
        "write the column down with `invalid: missing`",
        "mark": "numbers that doubles cannot tell apart",
    }
    assert told[1:9] == [f'left out: "{name}": {why}' for name, why in reasons.items()]
    file = place.root / "contracts" / "shop.yaml"
    assert [line for line in file.read_text().splitlines() if line.startswith("# left out: ")] == [
        f"# {line}" for line in told[1:9]
    ]
    assert answered(file).source.ignore == tuple(reasons)
    assert answered(file).source.rename == {"net price ": "net price"}
    # neither values nor how many rows
    assert "Ann" not in file.read_text()
    assert "80" not in re.sub(r"\[0, \d+\]", "", file.read_text())


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("a,b\n", 'expected numbers, dates or few categories; "a" has no value in any row'),
        ("a,a\n1,2\n", "rows.csv: column 1 of 2 has a name that stands twice"),
    ],
)
def test_what_is_no_table_is_one_sentence(place: Place, cli: Cli, text: str, phrase: str) -> None:
    (place.root / "data" / "rows.csv").write_text(text)
    assert phrase in cli.refused("contract new rows.csv")


def test_a_label_that_cannot_be_one_is_refused_with_the_reason(place: Place, cli: Cli) -> None:
    tiny = draws().uniform(1e-7, 9e-7, 50)
    write(
        {"tiny": tiny, "row": range(50), "x": [*range(25)] * 2},
        place.root / "data" / "rows.csv",
    )
    reasons = {
        "tiny": "numbers that differ from the sixth decimal on",
    }
    for label, reason in reasons.items():
        sentence = cli.refused(f"contract new rows.csv --label '{label}'")
        assert f"label={label}: expected another column; this one has {reason}" in sentence
    # who predicts a number may mean it
    assert "a draft of 3 columns" in cli("contract new rows.csv --label row")
