"""The shipped contracts over texts fit the published files: least rows, labels, lengths and digests."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpicl.contract import TextContract
from dpicl.text.checks import text_violations
from dpicl.text.read import load_texts
from dpicl.text.split import split_texts

from .text_contracts import TEXT_CONTRACTS

PRIVATE_ROWS = {"agnews": 41_310, "dbpedia": 10_517, "trec": 5_452, "mit_genre": 2_953, "mit_director": 1_561}
HELD_OUT = {"agnews": 7_600, "dbpedia": 2_100, "trec": 500, "mit_genre": 780, "mit_director": 415}


@pytest.mark.parametrize("contract", [TEXT_CONTRACTS[name] for name in PRIVATE_ROWS], ids=PRIVATE_ROWS)
def test_a_contract_fits_the_published_files(contract: TextContract, data_folder: Path) -> None:
    table = load_texts(contract, data_folder=data_folder)
    assert [one.rule.rule for one in text_violations(table, contract) if one.rule.severity == "fail"] == []
    split = split_texts(table, contract)
    assert (split.train.row_count, split.test.row_count) == (PRIVATE_ROWS[contract.name], HELD_OUT[contract.name])
    assert len(split.asked) == contract.query_count
    assert sum(one.count for one in text_violations(table, contract)) < table.num_rows / 1000, "almost no text is cut"
