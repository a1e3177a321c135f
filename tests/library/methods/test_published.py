"""Printed numbers are found for their own cells only, and tables agree on what they share. That
every cell is there and is the paper's is claimed in tests/lab/truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from dpicl.ground.errors import ParameterError
from dpicl.methods.published import (
    ensemble_number,
    few_shot_accuracy,
    paper_accuracy,
    read_table,
    table_v,
)

NONE: dict[Callable[..., Any], list[tuple[Any, ...]]] = {
    paper_accuracy: [
        ("13b", "ldp_tabicl", "adult", "icl", 3, 1),
        ("13b", "ldp_tabicl", "adult", "icl", 1, 2),
        ("13b", "ldp_tabicl", "iris", "icl", 1, 1),
        ("13b", "ldp_tabicl", "adult", "majority", None, 1),
        ("13b", "ldp_tabicl", "adult", "icl", 1, math.nan),
        ("13b", "dp_icl", "adult", "icl", 1, 1),
    ],
    few_shot_accuracy: [
        ("agnews", "icl", 2, 4),
        ("agnews", "icl", 4, 3),
        ("agnews", "random-rows", 4, math.inf),
        ("dbpedia", "random-rows", 4, 4),
        ("dbpedia", "majority", 4, 4),
        ("dbpedia", "icl", 4, math.inf, "exponential"),
        ("trec", "icl", 4, 4, "exponential"),
        ("imdb", "icl", 4, 4),
        ("dbpedia", "icl", 4, math.nan),
    ],
    ensemble_number: [
        ("amazon", "accuracy", "votes", 1, "davinci"),
        ("sst2", "accuracy", "votes", 2),
        ("sst2", "accuracy", "embedding", 1),
        ("sst2", "accuracy", "votes", math.nan),
        ("samsum", "rouge1", "keywords-ptr", 1),
        ("samsum", "rouge1", "embedding", math.inf),
        ("samsum", "accuracy", "votes", 1),
        ("dbpedia", "accuracy", "votes", 1),
    ],
}
"""What stands in no table: of each fact by itself."""
PRINTED = [
    (paper_accuracy, ("13b", "ldp_tabicl", "adult", "icl", 1, 1), (0.78, 0.01)),
    (paper_accuracy, ("13b", "ldp_tabicl", "jungle", "gnb", None, math.inf), (0.74, 0.00)),
    (paper_accuracy, ("7b", "gdp_tabicl", "blood", "icl", 8, 1), (0.21, 0.03)),
    *(
        (few_shot_accuracy, ("agnews", "zero-shot", *cell), (0.479, 0.0))
        for cell in ((None, None), (4, 1.0))
    ),
    (few_shot_accuracy, ("trec", "icl", 4, 8.0), (0.513, 0.058)),
    (few_shot_accuracy, ("mit_genre", "icl", 4, 0), (0.401, 0.034)),
    (few_shot_accuracy, ("dbpedia", "random-rows", 8, math.inf), (0.848, 0.029)),
    (few_shot_accuracy, ("dbpedia", "icl", 4, 4, "exponential"), (0.809, 0.048)),
    (few_shot_accuracy, ("dbpedia", "icl", 4, 4, "gaussian"), (0.831, 0.043)),
    (ensemble_number, ("sst2", "accuracy", "votes", 1), 0.9197),
    (ensemble_number, ("sst2", "accuracy", "votes", 1, "davinci"), 0.9486),
    (ensemble_number, ("agnews", "accuracy", "few-shot", 0), 0.526),
    (ensemble_number, ("docvqa", "bleu", "keywords", 3.0), 0.2367),
    (ensemble_number, ("samsum", "rouge2", "embedding", 8), 0.159),
    *((look_up, cell, None) for look_up, cells in NONE.items() for cell in cells),
]


@pytest.mark.parametrize("look_up, cell, printed", PRINTED)
def test_a_cell_is_what_the_paper_prints_or_none(
    look_up: Callable[..., Any], cell: tuple[Any, ...], printed: object
) -> None:
    assert look_up(*cell) == printed


@pytest.mark.parametrize(
    "look_up, cell, sentence",
    [
        (
            paper_accuracy,
            ("70b", "ldp_tabicl", "adult", "icl", 1, 1),
            "model=70b: expected '13b' or '7b'",
        ),
        (
            few_shot_accuracy,
            ("dbpedia", "icl", 4, 4, "laplace"),
            "mechanism=laplace: expected one of gaussian, exponential",
        ),
    ],
)
def test_another_model_or_mechanism_is_refused(
    look_up: Callable[..., Any], cell: tuple[Any, ...], sentence: str
) -> None:
    with pytest.raises(ParameterError, match=sentence):
        look_up(*cell)


def test_what_table_xii_means_of_the_swapped_baselines_is_what_table_ii_prints() -> None:
    rows = [row for row in read_table("table-XII") if row["mean_corrected"]]
    assert len(rows) == 12
    for row in rows:
        meant = (float(row["mean_corrected"]), float(row["std_corrected"]))
        place = row["dataset"], row["system"], None, float(row["epsilon"])
        assert meant == paper_accuracy("13b", "ldp_tabicl", *place)


def test_row_counts_of_table_v_are_the_training_sizes_of_table_vi() -> None:
    sizes = {row["dataset"]: int(row["train_row_count"]) for row in read_table("table-VI")}
    assert {row.dataset: row.row_count_corrected for row in table_v()} == sizes
    other = {row.dataset for row in table_v() if row.row_count != row.row_count_corrected}
    assert other == {"diabetes"}


@pytest.mark.parametrize("metric", ["rouge1", "rouge2", "rougeL"])
def test_summaries_come_nearer_with_epsilon_and_nearest_with_real_rows(metric: str) -> None:
    """Of SAMSum no table is quoted in tests/lab/truth."""
    found = [ensemble_number("samsum", metric, "embedding", epsilon) for epsilon in (0, 1, 3, 8)]
    found.append(ensemble_number("samsum", metric, "few-shot", math.inf))
    assert None not in found and found == sorted(found)
