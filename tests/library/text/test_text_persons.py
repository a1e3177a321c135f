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
from dpicl.methods import Options, unit_of
from dpicl.methods.ensemble_plan import plan_release
from dpicl.methods.options import EnsembleOptions
from tests.direct import point
from tests.library.text_contracts import as_ensemble, lines, records, text_contract, write_files


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


def test_nobody_stands_in_both_files(tmp_path: Path) -> None:
    folder = write_files(tmp_path, train=held(10, 0), test=held(4, 4))
    with pytest.raises(DataError, match=r"persons have texts in both files; expected each in one$"):
        split_texts(
            load_texts(contract(benchmark=True), data_folder=folder), contract(benchmark=True)
        )


def test_a_text_of_nobody_is_refused(tmp_path: Path) -> None:
    folder = write_files(tmp_path, train=lines(records(10)), test=held(4, 0))
    with pytest.raises(DataError, match="field 'who'"):
        load_texts(contract(), data_folder=folder)


def test_a_person_costs_no_more_than_a_row_and_has_no_votes_of_each_row() -> None:
    cell = Cell("icl", 2.0, 1)
    unit = unit_of("dp_icl", "mail", 0, (2.0,), (1,), (), False, Options())
    assert plan_release(contract(), point(unit, cell)).guarantee.unit == "person"
    soft = unit_of(
        "dp_icl",
        "mail",
        0,
        (2.0,),
        (1,),
        (),
        False,
        Options(dp_icl=EnsembleOptions(aggregation="soft-votes")),
    )
    with pytest.raises(PrivacyError, match="a person may have several; expected votes"):
        plan_release(contract(), point(soft, cell))
