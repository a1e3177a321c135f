"""Rows that a program holds: one charge for as many runs of a cell as there are, under a named
account; files and queries alike.
"""

from __future__ import annotations

import pickle
import sys
import warnings
from collections.abc import Iterator
from datetime import UTC, date, datetime
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


def protect(home: Path, epsilon: float = 1, *, rows: Any = None, **how: Any) -> dpicl.Release:
    how = {"schema": SCHEMA, "account": "customers", **how}
    rows = frame() if rows is None else rows
    return dpicl.protect(rows, how.pop("schema"), epsilon=epsilon, home=home, **how)


def test_the_first_release_is_the_cap_of_a_new_account_and_a_second_is_refused_with_a_way_out(
    home: Path,
) -> None:
    protect(home)
    with pytest.raises(
        BudgetError, match=r"spent 1 of cap 1, left 0; .*`dpicl budget customers --cap EPSILON`"
    ):
        protect(home, 0.5)
    protect(home)
    with pytest.raises(BudgetError, match="spent 1 of cap 1"):
        protect(home, 0.5, budget=9)
    protect(home, account="visitors", budget=3)
    protect(home, 0.5, account="visitors")
    # an account's cap stands although a call states none
    assert spent(home) == {"customers": (1, 1), "visitors": (2, 1.5)}


def test_a_table_without_a_label_predicts_nothing(home: Path) -> None:
    schema = {"columns": SCHEMA["columns"]}
    release = protect(home, schema=schema)
    with pytest.raises(DpiclError, match="customers: states no label"):
        release.predictor()
    (one,) = release.demonstrations(1).alpaca()
    assert one["instruction"] == "Write one record."
    assert one["output"] == release.demonstrations(1).text()


def test_a_predictor_is_shown_in_a_line_and_its_arguments_are_explained(home: Path) -> None:
    release = protect(home)
    shown = repr(release.predictor())
    assert shown.startswith("Predictor of ") and len(shown) < 200 and "array" not in shown
    for name in ("rows", "schema", "epsilon", "home", "window", "options"):
        assert f"    {name}: " in (dpicl.protect.__doc__ or ""), name
    assert "Raises:" in (dpicl.protect.__doc__ or "")
    for function in (release.arrow, release.table):
        assert "n: number of rows" in (function.__doc__ or "") and "where: by column" in (
            function.__doc__ or ""
        )
        for wrong in ("5", 0, -1, 1.5, True):
            with pytest.raises(DpiclError, match="^n="):
                function(wrong)


def test_a_frame_whose_column_has_almost_that_name_is_shown_it(home: Path) -> None:
    renamed = frame().rename(columns={"weight": "weigth"})
    with pytest.raises(DataError, match="is not among the columns.*; is it 'weigth' here\\?"):
        protect(home, rows=renamed)


def test_a_release_holds_no_row_of_a_person(home: Path) -> None:
    rows = frame().assign(name=[f"{SECRET} {number // 3}" for number in range(300)])
    schema = {
        **SCHEMA,
        "privacy": {"unit": "person", "person": {"id_column": "name", "max_rows": 3}},
    }
    release = protect(home, rows=rows, schema=schema)
    assert spent(home) == {"customers": (1, pytest.approx(1))}
    assert SECRET.encode() not in pickle.dumps(release)
    assert pickle.loads(pickle.dumps(release)).table(5).equals(release.table(5))
    assert "name" not in release.table(5).columns
    assert not [
        path for path in home.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()
    ]


def test_changed_rows_get_the_first_release_of_the_period_and_no_notebook_keeps_that_they_changed(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = protect(home, budget=2)
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # noise decides whether this one is asked
        warnings.filterwarnings("ignore", message=".*are the bounds right")
        again = protect(home, rows=frame(seed=1))
    assert again.table(20).equals(first.table(20)) and "changed" not in "".join(capsys.readouterr())
    anew = protect(home, period="2030-01")
    assert not anew.table(20).equals(first.table(20)) and spent(home) == {"customers": (2, 2)}


def kept(home: Path) -> tuple[list[Path], str]:
    """What is under `released/`, and the note of the rows that the release was drawn from."""
    (note,) = (home / "private").rglob("drawn-from/*.json")
    return sorted((home / "released").rglob("*.*")), note.read_text()


def test_who_draws_more_slowly_than_its_twin_offers_nothing_and_notes_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    offer = releases.NamedRelease.publish

    def slow(*arguments: Any) -> Any:
        draft = drafted(*arguments)
        with monkeypatch.context() as twin:
            twin.setattr(one_release, "drafted", drafted)
            twin.setattr(releases.NamedRelease, "publish", offer)
            protect(home, budget=3)
        seen.append(kept(home))
        return draft

    monkeypatch.setattr(one_release, "drafted", slow)
    monkeypatch.setattr(releases.NamedRelease, "publish", lambda *arguments: seen.append("offered"))
    protect(home, rows=frame(seed=1), budget=3)
    assert seen == [kept(home)] and spent(home) == {"customers": (1, 1)}


def test_no_second_draw_outlives_two_kills(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    for owner, step in ((Ledger, "publish"), (releases.NamedRelease, "_place")):
        with monkeypatch.context() as here, pytest.raises(KeyboardInterrupt):
            here.setattr(owner, step, killed)
            protect(home, budget=2)
    assert len([*(home / "released").rglob("*.draft")]) == 2
    protect(home, budget=2)
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


def test_rows_are_the_same_in_whatever_form_a_program_holds_them(home: Path) -> None:
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
    released = [protect(home, rows=one) for one in frames]
    assert released[0].table(9).to_arrow().schema.field("since").type == pa.date32()
    changed = released[0].table(9)
    changed["age"] = [[1]] * 9  # which no number can be made of
    assert changed.to_arrow().schema.field("age").type == pa.list_(pa.int64())
    assert spent(home) == {"customers": (1, 1)}
    assert all(one.table(9).equals(released[0].table(9)) for one in released)
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
        protect(home, schema=schema)
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
    table = protect(home, 9, rows=rows, schema={"columns": columns, "label": "member"}).table(2000)
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


def test_a_contract_of_moved_rows_goes_by_its_name(home: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("age\n40\n")
    schema = {**SCHEMA, "source": {"file": "new.csv", "moved_from": "old.csv"}}
    with pytest.raises(DeclarationError, match="expected the contract by its name"):
        dpicl.protect(tmp_path / "new.csv", schema, epsilon=1, home=home)


def test_other_rows_than_those_of_a_release_are_said_to_be_in_nothing_that_is_returned(
    home: Path,
) -> None:
    before = f"{datetime.now(UTC):%Y-%m-%d}"
    first = protect(home)
    assert first.spent == ("customers: 1 release, charged now; epsilon 1 of 1 is spent.",)
    again = dpicl.protect(frame().head(100), SCHEMA, epsilon=1, home=home, account="customers")
    assert again.table(9).equals(first.table(9))
    (told,) = again.spent
    day = max(day for day in (before, f"{datetime.now(UTC):%Y-%m-%d}") if day in told)
    assert told == (
        f"customers: 1 release, charged before and free now, as released on {day}: nothing of the "
        "rows at hand is in it; epsilon 1 of 1 is spent."
    )


def test_a_cap_that_does_not_hold_or_is_lowered_is_said_at_the_call(home: Path) -> None:
    def spent(epsilon: float, budget: float) -> tuple[str, ...]:
        return dpicl.protect(
            frame(), SCHEMA, epsilon=epsilon, home=home, account="customers", budget=budget
        ).spent

    assert spent(0.5, 2) == ("customers: 1 release, charged now; epsilon 0.5 of 2 is spent.",)
    charged, told = spent(0.25, 5)
    assert charged == "customers: 1 release, charged now; epsilon 0.75 of 2 is spent."
    assert told == (
        "account 'customers': the cap of this call, epsilon 5, differs from the ledger's, 2, which "
        "holds; `dpicl budget customers --cap 5` or `Session().set_cap` changes it"
    )
    with pytest.raises(BudgetError, match="the contract 'customers' lowers the cap from 2 to 1"):
        spent(0.4, 1)
    assert dpicl.Session(home).budget()[0].epsilon_cap == 2
    # of a release that is free nothing is lowered
    _, told = spent(0.5, 1)
    assert told == (
        "account 'customers': the cap of this call, epsilon 1, differs from the ledger's, 2, which "
        "holds until a new charge states it; `dpicl budget customers --cap 1` or "
        "`Session().set_cap` changes it"
    )
    (charged,) = spent(0.125, 1)
    assert charged == (
        "customers: 1 release, charged now; epsilon 0.875 of 1 is spent; the contract 'customers' "
        "lowers the cap from 2 to 1."
    )


def test_a_certificate_leaves_the_ledger_as_it_is_and_a_raised_cap_stays(home: Path) -> None:
    session = dpicl.Session(home)
    protect(home)
    with open_ledger(session._settings) as ledger:
        ledger.set_cap("customers", 10)
    release = protect(home, 2)
    with open_ledger(session._settings) as ledger:
        ledger.set_cap("customers", 20)
        before = ledger.end
    assert release.certificate.accounting.account == "customers"
    with open_ledger(session._settings) as ledger:
        assert ledger.end == before
    protect(home, 4)
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
    protect(home, order[1])
    assert [(one.epsilon_spent, one.epsilon_cap) for one in session.budget()] == [
        (order[1], order[1])
    ]


def test_what_was_released_is_free_although_the_cap_was_lowered_below_it(home: Path) -> None:
    session = dpicl.Session(home)
    first = protect(home, 2)
    with open_ledger(session._settings) as ledger:
        ledger.set_cap("customers", 1)
    assert session.quote(frame(), SCHEMA, epsilon=2, account="customers")[0].quote.allowed
    assert protect(home, 2).table(9).equals(first.table(9))
    with pytest.raises(BudgetError, match="spent 2 of cap 1"):
        protect(home, 0.1)
