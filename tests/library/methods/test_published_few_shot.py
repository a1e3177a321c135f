"""The few-shot paper's printed numbers are carried over whole, and its tables agree where they
meet.
"""

import math

import pytest

from dpicl.errors import ParameterError
from dpicl.methods.published import few_shot_accuracy, read_table

DATASETS = ("agnews", "dbpedia", "trec", "mit_genre", "mit_director")


@pytest.mark.parametrize("dataset", DATASETS)
def test_every_cell_of_table_1_is_there(dataset):
    cells = [few_shot_accuracy(dataset, "icl", 4, epsilon) for epsilon in (0, 1, 2, 4, 8)]
    cells.append(
        few_shot_accuracy(
            dataset, "random-rows" if dataset == "mit_director" else "icl", 4, math.inf
        )
    )
    cells.append(few_shot_accuracy(dataset, "zero-shot", None, None))
    assert all(cell is not None and 0.1 < cell[0] < 1 and 0 <= cell[1] < 0.15 for cell in cells)
    assert few_shot_accuracy(dataset, "zero-shot", 4, 1.0) == few_shot_accuracy(
        dataset, "zero-shot", 0, None
    )


@pytest.mark.parametrize("shots", [1, 2, 4, 8, 12])
def test_every_cell_of_table_2_is_there(shots):
    cells = [few_shot_accuracy("dbpedia", "icl", shots, epsilon) for epsilon in (0, 4, math.inf)]
    assert None not in (*cells, few_shot_accuracy("dbpedia", "random-rows", shots, math.inf))


@pytest.mark.parametrize(
    ("cell", "printed"),
    [
        (("agnews", "zero-shot", None, None), (0.479, 0.0)),
        (("agnews", "icl", 4, 2), (0.635, 0.057)),
        (("trec", "icl", 4, 8.0), (0.513, 0.058)),
        (("mit_genre", "icl", 4, 0), (0.401, 0.034)),
        (("mit_director", "random-rows", 4, math.inf), (0.801, 0.007)),
        (("mit_director", "icl", 4, 1), (0.692, 0.100)),
        (("dbpedia", "icl", 12, 4), (0.807, 0.024)),
        (("dbpedia", "random-rows", 8, math.inf), (0.848, 0.029)),
        (("dbpedia", "icl", 4, 4, "exponential"), (0.809, 0.048)),
        (("dbpedia", "icl", 4, 4, "gaussian"), (0.831, 0.043)),
        (("dbpedia", "icl", 4, 0, "exponential"), (0.604, 0.107)),
    ],
)
def test_a_cell_is_what_the_paper_prints(cell, printed):
    assert few_shot_accuracy(*cell) == printed


@pytest.mark.parametrize(
    "cell",
    [
        ("agnews", "icl", 2, 4),
        ("agnews", "icl", 4, 3),
        ("agnews", "random-rows", 4, math.inf),
        ("dbpedia", "random-rows", 4, 4),
        ("dbpedia", "majority", 4, 4),
        ("dbpedia", "icl", 4, math.inf, "exponential"),
        ("trec", "icl", 4, 4, "exponential"),
        ("imdb", "icl", 4, 4),
        ("imdb", "zero-shot", None, None),
        ("dbpedia", "icl", 4, math.nan),
    ],
)
def test_a_cell_that_the_paper_lacks_is_none(cell):
    assert few_shot_accuracy(*cell) is None


def test_another_mechanism_is_refused():
    with pytest.raises(
        ParameterError, match="mechanism=laplace: expected one of gaussian, exponential"
    ):
        few_shot_accuracy("dbpedia", "icl", 4, 4, "laplace")


def test_the_three_tables_agree_on_what_they_share():
    seen = {}
    rows = [row for table in (1, 2, 4) for row in read_table(f"few-shot-table-{table}")]
    for row in rows:
        key = tuple(row[name] for name in ("system", "mechanism", "dataset", "shots", "epsilon"))
        assert seen.setdefault(key, (row["mean"], row["std"])) == (row["mean"], row["std"]), key
    assert (len(rows), len(seen)) == (35 + 20 + 8, 63 - 3 - 4)
