"""One row more, less or other in a source moves that row alone, whatever the source: what every
mechanism's guarantee rests on.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
import yaml
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from dpicl.contract import Contract
from dpicl.data.reading import batches, files
from dpicl.data.reading.source import load_source
from dpicl.data.reading.split import split_table
from dpicl.data.reading.stability import STEPS
from dpicl.data.text_files import load_texts, split_texts
from dpicl.ground.errors import DataError, PrivacyError
from tests.library.examples import small_contract
from tests.library.text_contracts import lines, text_contract, write_files

KEY = bytes(range(32))
Row = tuple[Any, ...]
Parts = tuple[list[Row], list[Row], list[Row]]
"""Rows to protect, held-out rows, and those of them that are asked."""
FEW = 60

rows = st.tuples(
    st.integers(18, 21),
    st.sampled_from([1.0, 2.5]),
    st.sampled_from(["red", "blue"]),
    st.sampled_from(["no", "yes"]),
    st.sampled_from(["no", "yes"]),
)
"""Few different ones, so that equal rows are common."""
tables = st.lists(rows, min_size=25, max_size=FEW)
common = settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def neighbours(draw: st.DrawFn) -> tuple[list[Row], list[Row]]:
    """A table, and one with a row appended, removed, replaced, duplicated, or inserted
    somewhere.
    """
    before = draw(tables)
    place, row = draw(st.integers(0, len(before) - 1)), draw(rows)
    after = (
        [*before, row],
        before[:place] + before[place + 1 :],
        [*before[:place], row, *before[place + 1 :]],
        [*before[: place + 1], *before[place:]],
        [*before[:place], row, *before[place:]],
    )
    return before, draw(st.sampled_from(after))


def apart(one: Sequence[Row], other: Sequence[Row]) -> int:
    """Rows that one has and the other has not, as multisets."""
    ours, theirs = Counter(one), Counter(other)
    return (ours - theirs).total() + (theirs - ours).total()


def check_neighbours(
    split: Callable[[list[Row]], Parts], before: list[Row], after: list[Row]
) -> None:
    """What differs after the split is what differed before it, on whichever side."""
    try:
        (train, test, asked), (train_then, test_then, asked_then) = split(before), split(after)
    except DataError:
        reject()  # a split that leaves nothing on one side is refused
    moved = apart(before, after)
    assert apart(train, train_then) + apart(test, test_then) <= moved
    assert apart(asked, asked_then) <= 2 * moved
    assert not Counter(asked) - Counter(test) and not Counter(asked_then) - Counter(test_then)


def contract_of(
    change: Callable[[dict[str, Any]], object] = lambda content: None, *, benchmark: bool = False
) -> Contract:
    def changed(content: dict[str, Any]) -> None:
        content["split"] = {"test_fraction": 0.4, "query_fraction": 0.7}
        if not benchmark:
            content["split"]["evaluation_epsilon"] = 1
            content["privacy"]["budget"] = {"epsilon": 100}
        change(content)

    return small_contract(changed)


def frame(content: list[Row], contract: Contract) -> pd.DataFrame:
    return pd.DataFrame(content, columns=list(contract.read_columns))


def plain(table: pa.Table) -> list[Row]:
    return [tuple(row.values()) for row in table.to_pylist()]


def parts_of(table: pa.Table, contract: Contract, most: int | None) -> Parts:
    split = split_table(table, contract, key=KEY, most=most)
    return plain(split.train.data), plain(split.test.data), plain(split.queries.data)


def from_csv(
    contract: Contract, folder: Path, most: int | None = None
) -> Callable[[list[Row]], Parts]:
    def split(content: list[Row]) -> Parts:
        return parts_of(loaded(content, contract, folder), contract, most)

    return split


def loaded(content: list[Row], contract: Contract, folder: Path) -> pa.Table:
    frame(content, contract).to_csv(folder / "shop.csv", index=False)
    return load_source(contract, data_folder=folder, cache_folder=folder)


MANY = [(18 + number % 80, float(number), "red", "no", "yes") for number in range(FEW)]
"""All different."""


@given(neighbours(), st.sampled_from([None, 3]))
@common
def test_rows_of_a_csv_file(
    tmp_path: Path, pair: tuple[list[Row], list[Row]], most: int | None
) -> None:
    check_neighbours(from_csv(contract_of(), tmp_path, most), *pair)


@given(neighbours())
@common
def test_rows_that_a_column_holds_out(tmp_path: Path, pair: tuple[list[Row], list[Row]]) -> None:
    def published(content: dict[str, Any]) -> None:
        column = {"column": "member", "train": "yes", "test": "no"}
        content["split"] = {**column, "evaluation_epsilon": 1}
        content["groups"] = {2: ["label"]}
        content["prompts"]["central"] = {"text": "Aged {age}."}

    check_neighbours(from_csv(contract_of(published), tmp_path), *pair)


@given(neighbours())
@common
def test_rows_without_those_that_hold_the_missing_marker(
    tmp_path: Path, pair: tuple[list[Row], list[Row]]
) -> None:
    def change(content: dict[str, Any]) -> None:
        content |= yaml.safe_load(yaml.safe_dump(content, sort_keys=False).replace("red", "grey"))
        content["source"]["missing"] = "red"

    check_neighbours(from_csv(contract_of(change), tmp_path), *pair)


def test_a_permutation_fails_the_same_check(tmp_path: Path) -> None:
    """What benchmarks do, and what every table did once."""
    after = [*MANY, (99, 50.0, "blue", "yes", "no")]
    check_neighbours(from_csv(contract_of(), tmp_path), MANY, after)
    with pytest.raises(AssertionError):
        check_neighbours(from_csv(contract_of(benchmark=True), tmp_path), MANY, after)


def as_folder(content: dict[str, Any]) -> None:
    del content["source"]["file"]
    content["source"]["folder"] = "shop"


def from_folder(
    contract: Contract, folder: Path, most: int | None = None
) -> Callable[[list[Row]], Parts]:
    """As the stages read it: whole, or in batches."""

    def split(content: list[Row]) -> Parts:
        (folder / "shop").mkdir(exist_ok=True)
        for number, part in enumerate((content[:7], content[7:])):
            frame(part, contract).to_parquet(folder / "shop" / f"{number}.parquet", index=False)
        found = files.survey(contract, folder)
        if not files.in_batches(contract):
            return parts_of(found.whole(contract), contract, most)
        made = [
            batches.prepare(found.batch(number, contract), contract, key=KEY)
            for number in range(found.batches)
        ]
        facts = batches.Facts.added(one.facts for one in made)
        test, asked = batches.held_out(
            [one.test for one in made], facts.train_rows, contract, key=KEY, most=most, queries=None
        )
        train = pa.concat_tables([one.train for one in made])
        return plain(train), plain(test), plain(test.take(asked))

    return split


@pytest.mark.quick("in batches")
@pytest.mark.parametrize("population", [None, files.WHOLE_ROWS + 1], ids=["whole", "in batches"])
@given(pair=neighbours(), most=st.sampled_from([None, 3]))
@common
def test_rows_of_a_folder(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    population: int | None,
    pair: tuple[list[Row], list[Row]],
    most: int | None,
) -> None:
    monkeypatch.setattr(files, "BATCH_ROWS", 9)
    contract = contract_of(as_folder).model_copy(update={"population": population})
    check_neighbours(from_folder(contract, tmp_path, most), *pair)


def test_a_table_whose_contract_comes_to_say_that_it_is_large_is_split_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [(18 + number % 4, 1.0, "red", "no", "yes") for number in range(FEW)]
    monkeypatch.setattr(files, "BATCH_ROWS", 9)
    contract = contract_of(as_folder)
    large = contract.model_copy(update={"population": files.WHOLE_ROWS + 1})
    before, after = (from_folder(one, tmp_path)(rows) for one in (contract, large))
    assert [sorted(part) for part in before] == [sorted(part) for part in after]


@given(neighbours())
@common
def test_rows_of_a_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pair: tuple[list[Row], list[Row]]
) -> None:
    def asked(content: dict[str, Any]) -> None:
        del content["source"]["file"]
        sql = "SELECT age, spent, colour, member, bought FROM shop"
        content["source"]["query"] = {"url_env": "SHOP", "sql": sql}

    contract = contract_of(asked)
    monkeypatch.setenv("SHOP", f"sqlite:///{tmp_path / 'shop.db'}")

    def split(content: list[Row]) -> Parts:
        with sqlite3.connect(tmp_path / "shop.db") as database:
            frame(content, contract).to_sql("shop", database, index=False, if_exists="replace")
        table = load_source(contract, data_folder=None, cache_folder=tmp_path)
        return parts_of(table, contract, None)

    check_neighbours(split, *pair)


@given(
    tables, st.lists(rows, min_size=1, max_size=8), st.integers(0, FEW), st.sampled_from([None, 4])
)
@common
def test_a_person_moves_nobody_else(
    tmp_path: Path, others: list[Row], own: list[Row], place: int, most: int | None
) -> None:
    """Somebody with many rows comes, and every other row stays where it was."""
    contract = contract_of(
        lambda content: content["privacy"].update(
            unit="person", person={"id_column": "who", "max_rows": 2}
        )
    )
    before = [(*row, f"p{number % 9}") for number, row in enumerate(others)]
    after = [*before[:place], *((*row, "new") for row in own), *before[place:]]
    sides = from_csv(contract, tmp_path, most)
    (train, test, asked), (train_then, test_then, asked_then) = sides(before), sides(after)
    moved = apart(train, train_then), apart(test, test_then)
    assert sorted(moved) == [0, len(own)]
    assert apart(asked, asked_then) <= 2 * 2, (
        "of one person two rows are asked at most; each may push another out"
    )


letters = st.tuples(st.sampled_from(["good", "bad"]), st.sampled_from(["a", "b", "long " * 30]))


@given(st.lists(letters, min_size=8, max_size=20), letters, st.integers(0, 8), st.booleans())
@common
def test_texts(tmp_path: Path, content: list[Row], one: Row, place: int, replaced: bool) -> None:
    def asked(content: dict[str, Any]) -> None:
        content["privacy"] = {"budget": {"epsilon": 100, "delta": 0.05}}

    contract = text_contract(asked)

    def split(records: list[Row]) -> Parts:
        texts = [{"class": label, "head": "Re", "body": body} for label, body in records]
        write_files(tmp_path, lines(texts))
        found = split_texts(load_texts(contract, data_folder=tmp_path), contract)
        return plain(found.train.data), plain(found.test.data), plain(found.queries.data)

    after = [*content[:place], one, *content[place + replaced :]]
    (train, test, queries), (train_then, test_then, queries_then) = split(content), split(after)
    assert apart(train, train_then) <= apart(content, after)
    assert test == test_then and queries == queries_then


def test_a_key_is_needed_and_another_one_holds_out_other_rows(tmp_path: Path) -> None:
    contract = contract_of()
    table = loaded(MANY, contract, tmp_path)
    one, again, other = (
        split_table(table, contract, key=key).test.data for key in (KEY, KEY, bytes(32))
    )
    assert one == again and one != other
    alike = split_table(table.take([0] * FEW), contract, key=KEY).test
    assert 0 < alike.row_count < FEW  # each by its ordinal
    for refused in (lambda: split_table(table, contract), lambda: batches.prepare(table, contract)):
        with pytest.raises(PrivacyError, match="shop: a split that others do not know needs a key"):
            refused()


def test_every_step_but_that_of_asking_moves_one() -> None:
    assert {step.name: step.stability for step in STEPS if step.stability != 1} == {"ask": 2}


@pytest.mark.parametrize("split", [None, {"test_fraction": 0.4}])
def test_what_nobody_measures_on_is_not_kept(tmp_path: Path, split: Any) -> None:
    """Without a charge for it no held-out row is asked, and without a split every row is
    protected.
    """

    def changed(content: dict[str, Any]) -> None:
        content.pop("split")
        content.update({} if split is None else {"split": split})

    contract = contract_of(changed)
    train, test, asked = from_csv(contract, tmp_path)(MANY)
    assert not test and not asked and (len(train) == FEW) == (split is None)
