"""Great Expectations says of every rule what our own checks say, holds a user's expectations, and
quotes no row.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dpicl.contract import Contract
from dpicl.contract.load import parse_contract
from dpicl.data.reading.checks import rules_of, violations
from dpicl.data.text_files import text_rules, text_violations
from dpicl.ground.errors import DataError, DeclarationError, DpiclError
from dpicl.home.accounts import open_ledger
from dpicl.home.settings import Settings
from dpicl.runs.plan import make_plan
from dpicl.runs.stage import VERDICTS
from tasks.expectations import FOLDER, Expectation, evaluate, implementation, is_row_by_row, suite
from tasks.stages import ingest, validate
from tests.harness import Place, grid_of, install, shop, shop_rows
from tests.leaks import files, hits
from tests.library.examples import random_table, tree
from tests.library.text.test_text_split import BROKEN as TEXTS_BROKEN
from tests.library.text.test_text_split import GOOD
from tests.library.text.test_text_split import table as text_table
from tests.library.text_contracts import text_contract
from tests.tasks.in_batches import install_folder, small_batches

OWN = "expect_column_mean_to_be_between"


def expectations_of(contract: Any) -> list[Expectation]:
    return [Expectation.model_validate(one) for one in suite(contract)["expectations"]]


def strict_contract() -> Contract:
    """The small contract with every rule that a table's contract may name."""
    content = tree()
    content["checks"] = [
        {"rule": "both_labels", "at_least": 3, "severity": "warn"},
        {"rule": "row_count", "at_least": 40, "severity": "warn"},
        {"rule": "unique", "severity": "warn"},
    ]
    contract = parse_contract(content, "shop.yaml")
    assert isinstance(contract, Contract)
    return contract


def replaced(table: pa.Table, name: str, change: Callable[[list[Any]], list[Any]]) -> pa.Table:
    column = table.column(name)
    values = pa.array(
        change(column.to_pylist()),
        pa.string() if pa.types.is_dictionary(column.type) else column.type,
    )
    place = table.column_names.index(name)
    return table.set_column(
        place, name, values.dictionary_encode() if pa.types.is_dictionary(column.type) else values
    )


BROKEN: dict[str, Callable[[pa.Table], pa.Table]] = {
    "nothing": lambda table: table,
    "missing number": lambda table: replaced(table, "age", lambda values: [None, *values[1:]]),
    "missing category": lambda table: replaced(table, "colour", lambda values: [None, *values[1:]]),
    "unknown category": lambda table: replaced(
        table, "colour", lambda values: ["mauve", *values[1:]]
    ),
    "out of bounds": lambda table: replaced(table, "spent", lambda values: [100.5, *values[1:]]),
    "few rows": lambda table: table.slice(0, 39),
    "two of a label": lambda table: replaced(
        table, "bought", lambda values: ["yes", "yes", *["no" for _ in values[2:]]]
    ),
    "one label": lambda table: replaced(table, "bought", lambda values: ["no" for _ in values]),
    "a row twice": lambda table: pa.concat_tables([table, table.slice(3, 1)]),
}


@pytest.mark.quick("one label")
@pytest.mark.parametrize("kind", BROKEN)
def test_both_say_the_same_of_a_table(kind: str) -> None:
    contract = strict_contract()
    table = BROKEN[kind](random_table(contract, 60, 0))
    table = pa.table(
        {
            name: pa.chunked_array([table.column(name).combine_chunks()])
            for name in table.column_names
        }
    )
    violated = {one.rule for one in violations(table, contract)}
    assert bool(violated) == (kind != "nothing")
    assert evaluate(table, expectations_of(contract), contract) == [
        rule not in violated for rule in rules_of(contract)
    ]


@pytest.mark.quick("unknown labels", "missing labels")
@pytest.mark.parametrize("kind", TEXTS_BROKEN)
def test_both_say_the_same_of_texts(kind: str) -> None:
    contract, table = text_contract(), text_table([*GOOD, *TEXTS_BROKEN[kind][0]])
    violated = {one.rule for one in text_violations(table, contract)}
    assert violated
    assert all(evaluate(text_table(GOOD), expectations_of(contract), contract))
    assert evaluate(table, expectations_of(contract), contract) == [
        rule not in violated for rule in text_rules(contract)
    ]


def test_a_suite_of_every_shipped_contract_is_one_that_great_expectations_knows() -> None:
    settings = Settings.from_environment()
    for name in (*settings.contract_names(), *settings.text_names()):
        assert all(implementation(one) for one in expectations_of(settings.declared(name))), name


@pytest.fixture
def run(place: Place) -> str:
    """Of a private table that was read."""
    install(place, shop(private=True), shop_rows(83))
    return ingested()


def ingested(*methods: str) -> str:
    run = str(make_plan("private", grid_of("shop", *methods), "r"))
    ingest.fn(run, "shop")
    return run


def verdicts(place: Place) -> Path:
    """What the owner of the rows sees of the run."""
    return place.home / "private" / VERDICTS / "r" / FOLDER


def own(place: Place, *expectations: dict[str, Any]) -> None:
    folder = place.root / "contracts" / FOLDER
    folder.mkdir(exist_ok=True)
    (folder / "shop.own.json").write_text(json.dumps({"expectations": expectations}))


def test_what_holds_is_written_for_machines_and_people(place: Place, run: str) -> None:
    twice = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "age"}}
    own(
        place,
        twice,
        twice,
        {"type": OWN, "kwargs": {"column": "age", "min_value": 0, "max_value": 120}},
    )
    validate.fn(run, "shop")
    shown = json.loads((verdicts(place) / "shop.json").read_text())
    assert [one["own"] for one in shown] == [*[False for _ in shown[3:]], True, True, True]
    assert all(one["holds"] for one in shown)
    page = (verdicts(place) / "shop.html").read_text()
    assert "default-src 'none'" in page and "100%" in page
    # a digest of the rows
    assert "fingerprint" not in page + json.dumps(shown)


@pytest.mark.parametrize("count", [83, 0])
def test_relations_are_ours_to_check_and_stop_no_run(place: Place, count: int) -> None:
    contract = shop(private=True) | {
        "relations": [{"rising": ["age", "spent"]}, {"never": {"member": "yes", "bought": "no"}}]
    }
    install(place, contract, shop_rows(count))
    validate.fn(ingested("mst_tabicl"), "shop")
    shown = json.loads((verdicts(place) / "shop.json").read_text())
    assert len(shown) == 10 and all(one["type"].startswith("expect_column_") for one in shown)
    ours = place.home / "private" / VERDICTS / "r" / "validation" / "shop.json"
    told = {one["column"]: one["holds"] for one in json.loads(ours.read_text())}
    assert told["rising: [age, spent]"] is told["never: {member: yes, bought: no}"] is (count == 0)


def test_an_own_expectation_that_does_not_hold_stops_the_run_and_tells_no_value(
    place: Place, run: str
) -> None:
    own(place, {"type": OWN, "kwargs": {"column": "age", "min_value": 118}})
    with open_ledger(Settings.from_environment()) as ledger:
        records = ledger.verify()
    with pytest.raises(DataError) as refused:
        validate.fn(run, "shop")
    assert str(refused.value) == f"shop: column 'age': breaks your own {OWN}"
    with open_ledger(Settings.from_environment()) as ledger:
        # nothing is charged
        assert ledger.verify() == records
    assert '"holds": false' in (verdicts(place) / "shop.json").read_text()


def test_one_that_raises_quotes_nothing(
    place: Place, run: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    own(place, {"type": OWN, "kwargs": {"column": "colour", "min_value": 0}})
    with pytest.raises(DataError) as refused:
        validate.fn(run, "shop")
    assert str(refused.value) == f"shop: column 'colour': cannot be evaluated by your own {OWN}"
    told = capfd.readouterr()
    left = {**files([Path(run)]), "told": (told.out + told.err + caplog.text).encode()}
    assert not hits(left, ["Cannot perform reduction", "Traceback"])


REFUSED: dict[str, tuple[Any, str]] = {
    "unknown": (
        {"type": "expect_wonders", "kwargs": {}},
        "Great Expectations has no expect_wonders with such kwargs",
    ),
    "kwargs": (
        {"type": OWN, "kwargs": {"min_value": 1}},
        f"Great Expectations has no {OWN} with such kwargs",
    ),
    "format": (
        {"type": OWN, "kwargs": {"column": "age", "result_format": "COMPLETE"}},
        "kwargs.result_format: is not allowed; expected no such key",
    ),
    "code": (
        {"type": OWN, "kwargs": {"column": "age", "row_condition": "@pd.io"}},
        "kwargs.row_condition: is not allowed",
    ),
    "type": ({"type": "age > 3"}, "expectations.0.type: got 'age > 3'"),
}


@pytest.mark.quick("unknown")
@pytest.mark.parametrize("kind", REFUSED)
def test_an_own_expectation_that_is_none_is_refused(place: Place, run: str, kind: str) -> None:
    content, message = REFUSED[kind]
    own(place, content)
    with pytest.raises(
        DeclarationError, match="expectations/shop.own.json: expectations.0"
    ) as refused:
        validate.fn(run, "shop")
    assert message in str(refused.value)


@pytest.mark.quick("")
@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "[]"])
def test_a_file_that_is_no_suite_is_one_sentence(place: Place, run: str, text: str) -> None:
    own(place)
    (place.root / "contracts" / FOLDER / "shop.own.json").write_text(text)
    with pytest.raises(DeclarationError, match=r"^expectations/shop\.own\.json: .*; expected "):
        validate.fn(run, "shop")


def test_a_stored_suite_of_another_contract_is_refused(place: Place, run: str) -> None:
    file = place.root / "contracts" / FOLDER / "shop.json"
    own(place)
    wanted = suite(Settings.from_environment().declared("shop"))
    file.write_text(json.dumps(wanted))
    validate.fn(run, "shop")
    del wanted["expectations"][0]
    file.write_text(json.dumps(wanted))
    with pytest.raises(
        DeclarationError, match="shop.json: is not what the contract says now; expected what"
    ):
        validate.fn(run, "shop")


def test_what_is_about_single_rows_is_told_from_what_needs_all() -> None:
    kinds = {one.type: is_row_by_row(one) for one in expectations_of(strict_contract())}
    assert {kind for kind, single in kinds.items() if not single} == {
        "expect_table_row_count_to_be_between",
        "expect_column_sum_to_be_between",
        "expect_compound_columns_to_be_unique",
    }
    between = {"column": "age", "min_value": 0}
    assert not is_row_by_row(
        Expectation(type="expect_column_values_to_be_between", kwargs={**between, "mostly": 0.9})
    )


@pytest.fixture
def in_batches(place: Place, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of a private table in five batches."""
    small_batches(monkeypatch)
    install_folder(place, private=True)
    return ingested()


@pytest.mark.quick("content0-expect_column_mean_to_be_between needs all rows at once")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            {"type": OWN, "kwargs": {"column": "age", "min_value": 0}},
            f"{OWN} needs all rows at once",
        ),
        (
            {
                "type": "expect_column_values_to_be_between",
                "kwargs": {"column": "age", "max_value": 1},
            },
            "column 'age': breaks your own",
        ),
    ],
)
def test_an_own_expectation_of_batches_holds_of_each_or_is_refused(
    place: Place, in_batches: str, content: Any, message: str
) -> None:
    own(place, content)
    with pytest.raises(DpiclError, match=message):
        validate.fn(in_batches, "shop")
