"""The shipped contracts over texts fit the published files: least rows, labels, lengths and
digests.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dpicl.contract import TextContract
from dpicl.data.text_files import load_texts, split_texts, text_violations

from ..text_contracts import EDITIONS, TEXT_CONTRACTS

AT_HAND = TEXT_CONTRACTS | {
    name.partition(":")[0]: one for name, one in EDITIONS.items() if ":" in name
}
"""Of published sets a slice."""
ROWS = {
    "agnews": (41_310, 7_600),
    "amazon": (3_969, 6_065),
    "dbpedia": (10_517, 2_100),
    "mit_director": (1_561, 415),
    "mit_genre": (2_953, 780),
    "samsum": (14_731, 819),
    "sroie": (498, 125),
    "sst2": (67_349, 872),
    "trec": (5_452, 500),
}
"""Private and held-out ones."""


@pytest.mark.quick("trec", "sroie", "mit_director", "mit_genre")
@pytest.mark.parametrize("contract", [AT_HAND[name] for name in ROWS], ids=ROWS)
def test_a_contract_fits_the_published_files(contract: TextContract, data_folder: Path) -> None:
    table = load_texts(contract, data_folder=data_folder)
    broken = text_violations(table, contract)
    assert "fail" not in {one.rule.severity for one in broken}
    split = split_texts(table, contract)
    assert (split.train.row_count, split.test.row_count) == ROWS[contract.name]
    assert len(split.query_positions) == contract.query_count
    cut = sum(one.count for one in broken)
    assert cut < table.num_rows / (500 if contract.name == "samsum" else 1000), (
        "almost no text is cut"
    )
    assert contract.ensemble.delta * split.train.row_count < 1


def test_every_contract_over_files_is_among_them() -> None:
    over_files = {name for name, contract in AT_HAND.items() if contract.source.train}
    assert set(ROWS) == over_files - {"docvqa"}, "which is filled in by whoever may"
