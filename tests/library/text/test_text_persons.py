"""Persons among texts: known by a hash, in one of the two files, and protected by ensembles
only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dpicl.contract import TextContract
from dpicl.contract.pipeline import Cell
from dpicl.data.text_files import load_texts, split_texts
from dpicl.ground.errors import DataError, PrivacyError
from dpicl.methods.ensemble_plan import EnsemblePlan, plan_release
from tests.direct import point
from tests.library.text_contracts import as_ensemble, lines, records, text_contract, write_files
from tests.library.units import unit_for


def contract(*, benchmark: bool = False) -> TextContract:
    def change(content: dict[str, Any]) -> None:
        as_ensemble(content)
        del content["generation"], content["prompts"]["generation"]
        content["privacy"] = {
            "unit": "person",
            "person": {"id_column": "who", "max_rows": 2},
            "budget": {"epsilon": 5, "delta": 0.01},
        }
        if benchmark:
            content["privacy"]["budget"] = {"benchmark": True}

    return text_contract(change)


def held(count: int, first: int) -> bytes:
    return lines(
        [
            {**record, "who": f"person {first + number // 2}"}
            for number, record in enumerate(records(count))
        ]
    )


def test_a_person_is_a_hash_that_is_the_same_for_all_their_texts(tmp_path: Path) -> None:
    folder = write_files(tmp_path, train=held(10, 0), test=held(4, 100))
    split = split_texts(load_texts(contract(), data_folder=folder), contract())
    people = split.train.data.column("person").to_pylist()
    assert len(set(people)) == 5 and not any("person" in person for person in people)


@pytest.mark.parametrize(
    "train, test, benchmark, told",
    [
        (held(10, 0), held(4, 4), True, r"have texts in both files; expected each in one$"),
        (lines(records(10)), held(4, 0), False, "field 'who'"),
    ],
)
def test_nobody_stands_in_both_files_and_no_text_is_of_nobody(
    tmp_path: Path, train: bytes, test: bytes, benchmark: bool, told: str
) -> None:
    folder, declared = write_files(tmp_path, train=train, test=test), contract(benchmark=benchmark)
    with pytest.raises(DataError, match=told):
        split_texts(load_texts(declared, data_folder=folder), declared)


def test_a_person_costs_no_more_than_a_row_and_has_no_votes_of_each_row() -> None:
    def plan(**chosen: str) -> EnsemblePlan:
        asked = unit_for("dp_icl", "mail", epsilons=(2.0,), shots=(1,), **chosen)
        return plan_release(contract(), point(asked, Cell("icl", 2.0, 1)))

    assert plan().guarantee.unit == "person"
    with pytest.raises(PrivacyError, match="a person may have several; expected votes"):
        plan(aggregation="soft-votes")
