"""Queries declared public: a file with the contract's columns, of nobody, and none where the
contract names none.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from dpicl.contract import Contract
from dpicl.data.reading.queries import load_queries
from dpicl.data.reading.split import split_table
from dpicl.data.text_files import load_texts, split_texts
from dpicl.ground.errors import DataError, SourceError
from tests.library.examples import private_contract, random_table, small_contract
from tests.library.text_contracts import lines, records, text_contract, write_files


def contract_of(**queries: Any) -> Contract:
    def change(content: dict[str, Any]) -> None:
        content["privacy"] |= {
            "budget": {"epsilon": 5},
            "unit": "person",
            "person": {"id_column": "who", "max_rows": 2},
        }
        content["queries"] = {"file": "public.csv", **queries}
        del content["split"]

    return small_contract(change)


def write(folder: Path, count: int, **more: Any) -> bytes:
    frame = random_table(contract_of(), count, 3).to_pandas().assign(**more)
    frame.to_csv(folder / "public.csv", index=False)
    return (folder / "public.csv").read_bytes()


@pytest.mark.parametrize("more", [{}, {"who": "somebody"}])
def test_all_rows_of_the_file_are_asked_or_as_many_as_a_run_wants_and_every_private_row_is_protected(  # noqa: E501
    tmp_path: Path, more: dict[str, Any]
) -> None:
    write(tmp_path, 9, **more)
    contract = contract_of()
    queries, rows = load_queries(contract, data_folder=tmp_path), random_table(contract, 40, 0)
    rows = rows.append_column("who", [list(range(40))])
    for most, asked in ((None, 9), (4, 4), (90, 9)):
        split = split_table(rows, contract, most=most, queries=queries)
        parts = split.train, split.test, split.queries
        assert [part.row_count for part in parts] == [40, 9, asked]
        assert split.test.data.column_names == list(contract.columns)


def test_a_file_that_is_away_another_one_or_breaks_the_contract_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        SourceError,
        match=r"shop: no queries at hand; set DPICL_DATA to the folder that holds public\.csv",
    ):
        load_queries(contract_of(), data_folder=tmp_path)
    digest = hashlib.sha256(write(tmp_path, 3)).hexdigest()
    assert load_queries(contract_of(sha256=digest), data_folder=tmp_path) is not None
    with pytest.raises(SourceError, match=r"shop: public\.csv: the file has sha256"):
        load_queries(contract_of(sha256="0" * 64), data_folder=tmp_path)
    write(tmp_path, 3, bought="perhaps")
    with pytest.raises(DataError, match=r"public\.csv"):
        load_queries(contract_of(), data_folder=tmp_path)


def test_a_contract_without_queries_needs_no_file() -> None:
    assert load_queries(private_contract(), data_folder=None) is None


def test_private_texts_are_asked_public_ones_or_nothing(tmp_path: Path) -> None:
    write_files(tmp_path, test=b"this is no record: whoever reads it fails")
    (tmp_path / "mail" / "public.jsonl").write_bytes(lines(records(6)))

    def change(content: dict[str, Any]) -> None:
        content["privacy"]["budget"] = {"epsilon": 5, "delta": 0.01}

    def public(content: dict[str, Any]) -> None:
        change(content)
        content["source"]["queries"] = {"file": "mail/public.jsonl"}

    for contract, asked in ((text_contract(change), 0), (text_contract(public), 2)):
        split = split_texts(load_texts(contract, data_folder=tmp_path), contract)
        assert (split.train.row_count, split.queries.row_count) == (10, asked)
