"""Rows that a program holds: one charge for as many runs of a cell as there are, under a named
account; files and queries alike.
"""

from __future__ import annotations

import os
import pickle
import sqlite3
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml

import dpicl
from dpicl.contract import Contract
from dpicl.contract.load import parse_contract
from dpicl.data.reading.parse import typed_table
from dpicl.data.reading.typed_columns import as_arrow
from dpicl.ground.errors import BudgetError, DataError, DeclarationError, DpiclError, ParameterError
from dpicl.home.accounts import open_ledger
from dpicl.ledger import Ledger
from dpicl.release import one_release, releases
from dpicl.release.door import given_rows, with_account
from dpicl.release.one_release import planned_table, release_once
from dpicl.release.request import ReleaseRequest
from dpicl.release.rows import drafted

SCHEMA: dict[str, Any] = {
    "columns": {
        "age": {"type": "integer", "bounds": [18, 100]},
        "weight": {"type": "real", "bounds": [30, 200], "nullable": True},
        "since": {"type": "date", "bounds": ["2015-01-01", "2025-12-31"]},
        "plan": {"type": "category", "categories": ["basic", "plus", "pro"], "nullable": True},
        "churned": {"type": "category", "categories": ["no", "yes"]},
    },
    "label": "churned",
}
SECRET = "Ludmilla Quenten"


def frame(rows: int = 300, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    weight = rng.normal(75, 12, rows).round(1)
    weight[:9] = np.nan
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, rows),
            "weight": weight,
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1000, rows), "D"),
            "plan": pd.Categorical.from_codes(rng.integers(-1, 3, rows), ["basic", "plus", "pro"]),
            "churned": rng.choice(["no", "yes"], rows),
        }
    )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state home with nothing in it."""
    for name in ("DPICL_DATA", "DPICL_CONTRACTS", "DPICL_LEDGER"):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path / "home"


def private_files(home: Path) -> list[Path]:
    return [
        path
        for path in (home / "private").rglob("*")
        if path.is_file() and path.parent.name != "drawn-from"
    ]


def spent(home: Path) -> dict[str, tuple[int, float]]:
    return {one.account: (one.releases, one.epsilon_spent) for one in dpicl.Session(home).budget()}


@pytest.mark.exhaustive
def test_a_cell_is_charged_once_however_often_and_in_whatever_order_it_runs(home: Path) -> None:
    rows = frame()
    tables = []
    for number in range(100):
        epsilon = 1 if number % 3 else 0.5
        release = dpicl.protect(
            rows, SCHEMA, epsilon=epsilon, account="customers", budget=2, home=home
        )
        if epsilon == 1 and number % 25 == 1:
            tables.append(release.table(50))
    assert all(table.equals(tables[0]) for table in tables) and len(tables) >= 2
    assert spent(home) == {"customers": (2, pytest.approx(1.5))}
    assert not private_files(home)


PROGRAM = """
import sys, dpicl
from tests.tasks.test_given_rows import SCHEMA, frame
for epsilon in map(float, sys.argv[2:]):
    print(dpicl.protect(frame(), SCHEMA, epsilon=epsilon, account="customers", budget=3, home=sys.argv[1]).demonstrations(5).text())
"""  # noqa: E501


@pytest.mark.exhaustive
def test_two_processes_at_once_and_one_that_was_killed_pay_once(home: Path) -> None:
    def start(*epsilons: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PROGRAM, str(home), *epsilons]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    killed = start("1", "2")
    until = time.monotonic() + 60
    while not (home / "ledger.db").exists() and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.1)
    killed.kill()
    killed.communicate()
    told = [
        process.communicate(timeout=120) for process in (start("1", "2", "1"), start("2", "1", "2"))
    ]
    assert not any(err for _, err in told), told
    first, second = (out.splitlines() for out, _ in told)
    assert first[:5] == first[10:] == second[5:10] and first[5:10] == second[:5] == second[10:]
    assert spent(home) == {"customers": (2, pytest.approx(3))}
    dpicl.protect(frame(), SCHEMA, epsilon=1, account="customers", home=home)
    assert not private_files(home), "what the killed one left is gone"


def test_the_first_release_is_the_cap_of_a_new_account_and_a_second_is_refused_with_a_way_out(
    home: Path,
) -> None:
    dpicl.protect(frame(), SCHEMA, epsilon=1, account="customers", home=home)
    with pytest.raises(
        BudgetError, match=r"spent 1 of cap 1, left 0; .*`dpicl budget customers --cap EPSILON`"
    ):
        dpicl.protect(frame(), SCHEMA, epsilon=0.5, account="customers", home=home)
    dpicl.protect(frame(), SCHEMA, epsilon=1, account="customers", home=home)
    with pytest.raises(BudgetError, match="spent 1 of cap 1"):
        dpicl.protect(frame(), SCHEMA, epsilon=0.5, account="customers", budget=9, home=home)
    dpicl.protect(frame(), SCHEMA, epsilon=1, account="visitors", budget=3, home=home)
    dpicl.protect(frame(), SCHEMA, epsilon=0.5, account="visitors", home=home)
    assert spent(home) == {"customers": (1, 1), "visitors": (2, 1.5)}, (
        "an account's cap stands although a call states none"
    )


@pytest.mark.quick("weight-None")
@pytest.mark.parametrize(
    ("label", "classes"),
    [("churned", ["no", "yes"]), ("plan", ["basic", "plus", "pro"]), ("weight", None)],
)
def test_every_kind_of_label_is_predicted_from_gaps_and_dates(
    home: Path, label: str, classes: list[str] | None
) -> None:
    rows = frame(2000)
    rows["weight"] = (50 + rows["age"]).where(rows["age"] > 20)
    release = dpicl.protect(
        rows, {**SCHEMA, "label": label}, epsilon=20, account="customers", home=home
    )
    predictor, table = release.predictor(), release.table(500)
    predicted = predictor.predict(rows.drop(columns=label))
    assert predictor.predict(table.drop(columns=label)).shape == (500,)
    if classes is None:
        assert np.corrcoef(predicted[rows["age"] > 25], rows["age"][rows["age"] > 25])[0, 1] > 0.9
    else:
        assert sorted(predictor.classes_) == classes and set(predicted) <= set(classes)


def test_a_table_without_a_label_predicts_nothing(home: Path) -> None:
    schema = {"columns": SCHEMA["columns"]}
    release = dpicl.protect(frame(), schema, epsilon=1, account="customers", home=home)
    with pytest.raises(DpiclError, match="customers: states no label"):
        release.predictor()
    (one,) = release.demonstrations(1).alpaca()
    assert (
        one["instruction"] == "Write one record."
        and one["output"] == release.demonstrations(1).text()
    )


def test_a_release_holds_no_row_of_a_person(home: Path) -> None:
    rows = frame().assign(name=[f"{SECRET} {number // 3}" for number in range(300)])
    schema = {
        **SCHEMA,
        "privacy": {"unit": "person", "person": {"id_column": "name", "max_rows": 3}},
    }
    release = dpicl.protect(rows, schema, epsilon=1, account="customers", home=home)
    assert spent(home) == {
        "customers": (1, pytest.approx(3))
    } and SECRET.encode() not in pickle.dumps(release)
    assert pickle.loads(pickle.dumps(release)).table(5).equals(release.table(5))
    assert "name" not in release.table(5).columns
    assert not [
        path for path in home.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()
    ]


@pytest.mark.quick("mst_tabicl")
@pytest.mark.parametrize("method", ["gdp_tabicl", "mst_tabicl", "ldp_tabicl"])
def test_every_method_takes_a_frame_and_its_first_release_fits_its_cap(
    home: Path, method: str
) -> None:
    schema = {**SCHEMA, "privacy": {"neighbours": "replace-one"}}
    release = dpicl.protect(
        frame(), schema, epsilon=1, account="customers", method=method, shots=2, home=home
    )
    assert (
        len(release.demonstrations(2)) == 2
        and release.certificate.accounting.account == "customers"
    )
    dpicl.protect(
        frame(), schema, epsilon=1, account="customers", method=method, shots=2, home=home
    )
    assert spent(home)["customers"][0] == 1


def test_changed_rows_get_the_first_release_of_the_period_and_no_notebook_keeps_that_they_changed(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = dpicl.protect(frame(), SCHEMA, epsilon=1, account="customers", budget=2, home=home)
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = dpicl.protect(frame(seed=1), SCHEMA, epsilon=1, account="customers", home=home)
    assert again.table(20).equals(first.table(20)) and "changed" not in "".join(capsys.readouterr())
    anew = dpicl.protect(
        frame(), SCHEMA, epsilon=1, account="customers", period="2030-01", home=home
    )
    assert not anew.table(20).equals(first.table(20)) and spent(home) == {"customers": (2, 2)}


ARGUMENTS: dict[str, Any] = {"epsilon": 1, "account": "customers", "budget": 2}


def kept(home: Path) -> tuple[list[Path], str]:
    """What is under `released/`, and the note of the rows that the release was drawn from."""
    (note,) = (home / "private").rglob("drawn-from/*.json")
    return sorted((home / "released").rglob("*.*")), note.read_text()


def test_who_draws_more_slowly_than_its_twin_offers_nothing_and_notes_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    offer = releases.UnitReleases.publish

    def slow(*arguments: Any) -> Any:
        draft = drafted(*arguments)
        subprocess.run([sys.executable, "-c", PROGRAM, str(home), "1"], check=True)
        seen.append(kept(home))
        return draft

    def offered(*arguments: Any) -> bool:
        seen.append("offered")
        return offer(*arguments)

    monkeypatch.setattr(one_release, "drafted", slow)
    monkeypatch.setattr(releases.UnitReleases, "publish", offered)
    dpicl.protect(frame(seed=1), SCHEMA, **{**ARGUMENTS, "budget": 3}, home=home)
    assert seen == [kept(home)] and spent(home) == {"customers": (1, 1)}


def test_no_second_draw_outlives_two_kills(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    for owner, step in ((Ledger, "publish"), (releases.UnitReleases, "_place")):
        with monkeypatch.context() as here, pytest.raises(KeyboardInterrupt):
            here.setattr(owner, step, killed)
            dpicl.protect(frame(), SCHEMA, **ARGUMENTS, home=home)
    assert len([*(home / "released").rglob("*.draft")]) == 2
    dpicl.protect(frame(), SCHEMA, **ARGUMENTS, home=home)
    assert not [*(home / "released").rglob("*.draft")] and spent(home) == {"customers": (1, 1)}


class Stream:
    """As polars, DuckDB and others give their rows."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def laid_out(table: pa.Table, kind: pa.DataType) -> pa.Table:
    """Categories as polars lays them out."""
    place = table.schema.names.index("plan")
    column = table.column(place).combine_chunks()
    codes = pa.DictionaryArray.from_arrays(
        column.indices.cast(pa.uint32()), column.dictionary.cast(kind)
    )
    return table.set_column(place, "plan", codes)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_categories_are_read_the_same_in_every_layout_of_arrow(kind: pa.DataType) -> None:
    contract = parse_contract(
        {
            **SCHEMA,
            "version": 2,
            "name": "c",
            "source": {"file": "c.csv"},
            "privacy": {"budget": {"epsilon": 1}},
        },
        "c",
    )
    table = pa.Table.from_pandas(frame(), preserve_index=False)
    texts = table.set_column(3, "plan", table.column("plan").cast(pa.string()))
    assert typed_table(laid_out(table, kind), contract, "c").equals(
        typed_table(texts, contract, "c")
    )
    odd = laid_out(table, kind).set_column(0, "age", pa.array(["31"] * 299 + ["thirty"]))
    with pytest.raises(DataError, match="column 'age'"):
        typed_table(odd, contract, "c")


def test_rows_are_the_same_from_wherever_they_come(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = frame()
    table = pa.Table.from_pandas(rows, preserve_index=False)
    mixed = rows.astype({"age": object})
    mixed.loc[0, "age"] = str(rows.loc[0, "age"])
    frames = (
        rows,
        table,
        table.combine_chunks().to_batches()[0],
        Stream(table),
        mixed,
        rows.set_index(rows.index[::-1]),
    )
    frames += tuple(Stream(laid_out(table, kind)) for kind in (pa.large_string(), pa.string_view()))
    released = [
        dpicl.protect(one, SCHEMA, epsilon=1, account="customers", home=home) for one in frames
    ]
    assert released[0].table(9).to_arrow().schema.field("since").type == pa.date32()
    changed = released[0].table(9)
    changed["age"] = [[1]] * 9  # which no number can be made of
    assert changed.to_arrow().schema.field("age").type == pa.list_(pa.int64())
    assert spent(home) == {"customers": (1, 1)} and all(
        one.table(9).equals(released[0].table(9)) for one in released
    )
    (tmp_path / "folder").mkdir()
    (
        rows.to_parquet(tmp_path / "rows.parquet"),
        rows.to_csv(tmp_path / "Other rows 2026.csv", index=False),
    )
    (tmp_path / "rows.csv").write_bytes((tmp_path / "Other rows 2026.csv").read_bytes())
    rows.to_parquet(tmp_path / "folder" / "1.parquet")
    with sqlite3.connect(tmp_path / "rows.db") as connection:
        rows.astype({"since": str, "plan": object}).to_sql("customers", connection, index=False)
    monkeypatch.setenv("CUSTOMERS_URL", f"sqlite:///{tmp_path / 'rows.db'}")
    monkeypatch.chdir(tmp_path)
    query = dpicl.Query(url_env="CUSTOMERS_URL", sql="SELECT * FROM customers ORDER BY age")
    for one in ("rows.csv", tmp_path / "rows.parquet", tmp_path / "folder", query):
        for _ in range(2):
            assert len(dpicl.protect(one, SCHEMA, epsilon=1, home=home).table(3)) == 3
    accounts = {name: releases for name, (releases, _) in spent(home).items()}
    (other,) = (name for name in accounts if name.startswith("rows_"))
    assert accounts == {"customers": 1, "rows": 1, other: 1, "folder": 1, "table": 1}, (
        "another file of the same name is another asset"
    )
    assert not private_files(home)


def test_a_schema_is_a_mapping_a_file_or_a_contract(home: Path, tmp_path: Path) -> None:
    (tmp_path / "customers.yaml").write_text(yaml.safe_dump(SCHEMA, sort_keys=False))
    whole = {
        **SCHEMA,
        "name": "customers",
        "source": {"file": "c.csv"},
        "privacy": {"budget": {"epsilon": 1}},
    }
    contract = parse_contract(whole, "customers.yaml")
    assert isinstance(contract, Contract)
    for schema in (SCHEMA, tmp_path / "customers.yaml", str(tmp_path / "customers.yaml"), contract):
        dpicl.protect(frame(), schema, epsilon=1, account="customers", home=home)
    assert spent(home) == {"customers": (1, 1)}


def test_a_schema_of_python_may_hold_its_dates_arrays_and_booleans(home: Path) -> None:
    rows = frame().assign(member=np.arange(300) % 3 == 0, code=np.arange(300) % 4)
    columns = {
        **SCHEMA["columns"],
        "age": {
            "type": "integer",
            "bounds": (rows["age"].to_numpy()[:1] * 0).tolist() + [np.int64(100)],
        },
        "since": {"type": "date", "bounds": (date(2015, 1, 1), pd.Timestamp("2025-12-31"))},
        "plan": {"type": "category", "categories": rows["plan"].cat.categories, "nullable": True},
        "member": {"type": "category", "categories": [False, True]},
        "code": {"type": "category", "categories": np.arange(4)},
    }
    table = dpicl.protect(
        rows, {"columns": columns, "label": "member"}, epsilon=9, account="customers", home=home
    ).table(2000)
    assert set(table["member"]) == {True, False} and set(table["code"]) == {0, 1, 2, 3}
    assert (table["member"].dtype, table["code"].dtype) == (bool, np.int64)
    assert table["since"].between("2015-01-01", "2025-12-31").all() and table["plan"].isna().any()


def test_what_cannot_be_released_is_one_sentence_without_a_value_and_charges_nothing(
    home: Path,
) -> None:
    rows = frame()
    named = {"epsilon": 1, "account": "customers", "home": home}
    wrong: list[tuple[type[DpiclError], str, Any, Any, dict[str, Any]]] = [
        (
            ParameterError,
            "account=None: expected the name of the data asset",
            rows,
            SCHEMA,
            {"account": None},
        ),
        (ParameterError, "schema=None: expected what is publicly known", rows, None, {}),
        (ParameterError, "schema=None: expected what is publicly known", "customers.csv", None, {}),
        (ParameterError, "account=customers: expected it in the contract", "customers", None, {}),
        (ParameterError, "rows=<dict>: expected a data frame", {"age": [1]}, SCHEMA, {}),
        (
            ParameterError,
            "rows=none.csv: expected a data frame, a Query, or the path",
            "none.csv",
            SCHEMA,
            {},
        ),
        (DeclarationError, "schema: columns: is missing", rows, {"label": "churned"}, {}),
        (
            ParameterError,
            "account='No Such': expected up to 40 small letters",
            rows,
            SCHEMA,
            {"account": "No Such"},
        ),
        (
            DeclarationError,
            "schema: columns.age.",
            rows,
            {"columns": {"age": {"type": "integer"}}},
            {},
        ),
        (ParameterError, "trust=both: expected central or local", rows, SCHEMA, {"trust": "both"}),
        (DpiclError, "epsilon", rows, SCHEMA, {"epsilon": -1}),
        (
            DataError,
            "column 'churned': is not among the columns",
            rows.drop(columns="churned"),
            SCHEMA,
            {},
        ),
        (DataError, "column 'name': is not in the contract", rows.assign(name=SECRET), SCHEMA, {}),
        (DataError, "column 'plan': is not one of", rows.assign(plan=SECRET), SCHEMA, {}),
        (DataError, "column 'age': ", rows.assign(age=[[SECRET]] * len(rows)), SCHEMA, {}),
    ]
    for kind, sentence, one, schema, changed in wrong:
        with pytest.raises(kind) as refused:
            dpicl.protect(one, schema, **{**named, **changed})
        assert sentence in str(refused.value) and SECRET not in str(refused.value), (
            sentence,
            str(refused.value),
        )
    assert not any(releases for releases, _ in spent(home).values()) and not private_files(home)


def test_a_quote_takes_what_protect_takes_and_decides_no_cap(home: Path) -> None:
    session, rows = dpicl.Session(home), frame()
    (quoted,) = session.quote(rows, SCHEMA, epsilon=0.5, account="customers")
    assert (
        quoted.account,
        quoted.quote.cost.epsilon,
        quoted.quote.allowed,
        quoted.charged_before,
    ) == ("customers", 0.5, True, 0)
    with pytest.raises(DataError):
        session.protect(rows.assign(plan=SECRET), SCHEMA, epsilon=0.7, account="customers")
    (quoted,) = session.quote(rows, SCHEMA, epsilon=1, account="customers", budget=1.5)
    session.protect(rows, SCHEMA, epsilon=1, account="customers", budget=1.5)
    (again,) = session.quote(rows, SCHEMA, epsilon=1, account="customers")
    (more,) = session.quote(rows, SCHEMA, epsilon=0.7, account="customers")
    assert again.charged_before == 1 and again.quote.allowed and not more.quote.allowed
    assert spent(home) == {"customers": (1, 1.0)}


@pytest.mark.quick("change1")
@pytest.mark.parametrize(
    "change",
    [
        {"account": None},
        {"schema": None},
        {"method": "pate"},
        {"schema": {"columns": {}}},
        {"period": "soon"},
    ],
)
def test_a_quote_refuses_rows_in_the_words_of_protect(home: Path, change: dict[str, Any]) -> None:
    asked = {"schema": SCHEMA, "epsilon": 1, "account": "customers", "budget": 2, **change}
    sentences = []
    for function in (dpicl.Session(home).quote, dpicl.Session(home).protect):
        with pytest.raises(DpiclError) as refused:
            function(frame(), **asked)
        sentences.append(str(refused.value))
    assert sentences[0] == sentences[1] and not spent(home)


def test_how_a_row_of_a_frame_is_read_does_not_depend_on_other_rows() -> None:
    cells: list[Any] = [
        np.float32(0.7),
        True,
        7.0,
        2**70,
        "x",
        None,
        date(2020, 2, 29),
        pd.Timestamp("2020-02-29 12:00"),
        Decimal("1.50"),
        np.int8(3),
    ]
    alone = [
        as_arrow(pd.DataFrame({"x": pd.Series([one], dtype=object)})).column("x")[0].as_py()
        for one in cells
    ]
    together = as_arrow(pd.DataFrame({"x": pd.Series(cells, dtype=object)})).column("x").to_pylist()
    assert together == alone
    assert alone == [
        "0.699999988079071",
        "true",
        "7",
        str(2**70),
        "x",
        None,
        "2020-02-29",
        "2020-02-29T12:00:00",
        "1.50",
        "3",
    ]
    grouped = pd.DataFrame({"x": pd.Categorical([7, "a", None], categories=[7, "a"])})
    assert as_arrow(grouped).column("x").to_pylist() == ["7", "a", None]


def test_a_contract_of_moved_rows_goes_by_its_name(home: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("age\n40\n")
    schema = {**SCHEMA, "source": {"file": "new.csv", "moved_from": "old.csv"}}
    with pytest.raises(DeclarationError, match="expected the contract by its name"):
        dpicl.protect(tmp_path / "new.csv", schema, epsilon=1, home=home)


@pytest.mark.exhaustive
def test_a_plan_takes_a_schema_before_there_are_rows(home: Path) -> None:
    planned = dpicl.Session(home).plan(
        SCHEMA, rows=2000, epsilons=(1,), signal="medium", trust="central"
    )
    assert planned.outlooks and not dpicl.Session(home).budget()


def test_a_certificate_leaves_the_ledger_as_it_is_and_a_raised_cap_stays(home: Path) -> None:
    session = dpicl.Session(home)
    dpicl.protect(frame(), SCHEMA, epsilon=1, account="customers", home=home)
    with open_ledger(session._settings) as ledger:
        ledger.set_cap("customers", 10)
    release = dpicl.protect(frame(), SCHEMA, epsilon=2, account="customers", home=home)
    with open_ledger(session._settings) as ledger:
        ledger.set_cap("customers", 20)
        before = ledger.end
    assert release.certificate.accounting.account == "customers"
    with open_ledger(session._settings) as ledger:
        assert ledger.end == before
    dpicl.protect(frame(), SCHEMA, epsilon=4, account="customers", home=home)
    (account,) = session.budget()
    assert (account.epsilon_spent, account.epsilon_cap) == (7, 20)


@pytest.mark.quick("order0")
@pytest.mark.parametrize("order", [(1, 8), (8, 1)])
def test_the_first_release_that_is_charged_decides_an_unstated_cap_and_no_other_that_was_planned(
    home: Path, order: tuple[int, int]
) -> None:
    session, planned = dpicl.Session(home), []
    for epsilon in order:
        settings = given_rows(frame(), SCHEMA, session._settings, account="customers")
        assert settings.given is not None
        plan = planned_table(
            ReleaseRequest(dataset=settings.given.contract.name, epsilon=epsilon, shots=4), settings
        )
        planned.append((with_account(plan, settings), settings))
    loser, winner = planned
    release_once(*winner)
    with pytest.raises(BudgetError, match=rf"spent {order[1]} of cap {order[1]}"):
        release_once(*loser)
    dpicl.protect(frame(), SCHEMA, epsilon=order[1], account="customers", home=home)
    assert [(one.epsilon_spent, one.epsilon_cap) for one in session.budget()] == [
        (order[1], order[1])
    ]


def test_a_charge_decides_the_cap_although_another_release_was_quoted_meanwhile(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve = Ledger.reserve

    def quoted_before(ledger: Ledger, release: Any, **how: Any) -> Any:
        monkeypatch.setattr(Ledger, "reserve", reserve)
        dpicl.Session(home).quote(frame(), SCHEMA, epsilon=8, account="customers")
        return ledger.reserve(release, **how)

    monkeypatch.setattr(Ledger, "reserve", quoted_before)
    dpicl.protect(frame(), SCHEMA, epsilon=1, account="customers", home=home)
    assert [(one.epsilon_spent, one.epsilon_cap) for one in dpicl.Session(home).budget()] == [
        (1, 1)
    ]


def test_what_was_released_is_free_although_the_cap_was_lowered_below_it(home: Path) -> None:
    session = dpicl.Session(home)
    first = dpicl.protect(frame(), SCHEMA, epsilon=2, account="customers", home=home)
    with open_ledger(session._settings) as ledger:
        ledger.set_cap("customers", 1)
    assert session.quote(frame(), SCHEMA, epsilon=2, account="customers")[0].quote.allowed
    assert (
        dpicl.protect(frame(), SCHEMA, epsilon=2, account="customers", home=home)
        .table(9)
        .equals(first.table(9))
    )
    with pytest.raises(BudgetError, match="spent 2 of cap 1"):
        dpicl.protect(frame(), SCHEMA, epsilon=0.1, account="customers", home=home)


STUCK = """
import sys, time, dpicl
from dpicl.release import one_release
from tests.tasks.test_given_rows import SCHEMA, frame

def waiting(*asked, publish=one_release.published):
    print("rows are there", flush=True)
    sys.stdin.readline()
    yield from publish(*asked)

one_release.published = waiting
print(dpicl.protect(frame(), SCHEMA, epsilon=1, account=sys.argv[1]).spent[0])
"""


@pytest.mark.exhaustive
def test_rows_of_a_live_release_stay_whatever_runs_folder_it_has_and_those_of_a_killed_one_go(
    home: Path, tmp_path: Path
) -> None:
    def start(account: str) -> subprocess.Popen[str]:
        environment = {
            **os.environ,
            "DPICL_HOME": str(home),
            "DPICL_RUNS": str(tmp_path / f"runs_{account}"),
        }
        command = [sys.executable, "-c", STUCK, account]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert process.stdout is not None and process.stdout.readline() == "rows are there\n"
        return process

    live, killed = start("customers"), start("visitors")
    killed.kill()
    killed.communicate()
    dpicl.protect(frame(), SCHEMA, epsilon=1, account="others", home=home)
    assert {path.parent.parent.name for path in private_files(home)} == {"customers"}
    told, _ = live.communicate("go on\n", timeout=120)
    assert (
        live.returncode == 0
        and told.startswith("customers: 1 release, charged now")
        and not private_files(home)
    )
