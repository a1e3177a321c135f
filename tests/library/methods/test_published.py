"""The paper's printed numbers are carried over whole, slips included, with what is meant beside
them where it can be shown.
"""

import math

import pytest

from dpicl.accounting.amplification import amplified_epsilon
from dpicl.errors import ParameterError
from dpicl.methods import published
from dpicl.methods.published import paper_accuracy, read_table, table_v

DATASETS = ("adult", "bank", "blood", "calhousing", "car", "diabetes", "heart", "jungle")
EPSILONS = (1, 5, 10, 25, 50, math.inf)


@pytest.mark.parametrize("model", ["13b", "7b"])
@pytest.mark.parametrize("method", ["ldp_tabicl", "gdp_tabicl"])
def test_every_cell_of_the_four_accuracy_tables_is_there(model, method):
    for dataset in DATASETS:
        for epsilon in EPSILONS:
            cells = [
                paper_accuracy(model, method, dataset, "icl", shots, epsilon)
                for shots in (1, 2, 4, 8)
            ]
            cells += [
                paper_accuracy(model, method, dataset, system, None, epsilon)
                for system in ("lr", "gnb")
            ]
            assert all(
                cell is not None and 0 < cell[0] <= 1 and 0 <= cell[1] < 0.4 for cell in cells
            )


@pytest.mark.parametrize(
    ("cell", "printed"),
    [
        (("13b", "ldp_tabicl", "adult", "icl", 1, 1), (0.78, 0.01)),
        (("13b", "ldp_tabicl", "jungle", "gnb", None, math.inf), (0.74, 0.00)),
        (("13b", "gdp_tabicl", "heart", "icl", 4, 5), (0.77, 0.02)),
        (("13b", "gdp_tabicl", "bank", "lr-naive", None, 50), (0.50, 0.38)),
        (("7b", "gdp_tabicl", "blood", "icl", 8, 1), (0.21, 0.03)),
        (("7b", "ldp_tabicl", "heart", "icl", 2, 5), (0.44, 0.02)),
    ],
)
def test_a_cell_is_what_the_paper_prints(cell, printed):
    assert paper_accuracy(*cell) == printed


@pytest.mark.parametrize(
    "cell",
    [
        ("13b", "ldp_tabicl", "adult", "icl", 3, 1),
        ("13b", "ldp_tabicl", "adult", "icl", 1, 2),
        ("13b", "ldp_tabicl", "iris", "icl", 1, 1),
        ("13b", "ldp_tabicl", "adult", "majority", None, 1),
        ("13b", "ldp_tabicl", "adult", "icl", 1, math.nan),
        ("13b", "dp_icl", "adult", "icl", 1, 1),
    ],
)
def test_a_cell_that_the_paper_lacks_is_none(cell):
    assert paper_accuracy(*cell) is None


def test_another_model_is_refused():
    with pytest.raises(ParameterError, match="model=70b: expected '13b' or '7b'"):
        paper_accuracy("70b", "ldp_tabicl", "adult", "icl", 1, 1)


@pytest.mark.parametrize("method", ["ldp_tabicl", "gdp_tabicl"])
def test_baselines_are_the_same_beside_both_models(method):
    """They ask no language model; only naive Bayes on car and calhousing is printed otherwise,
    where Table XII swaps its rows.
    """
    other = {
        (dataset, system)
        for dataset in DATASETS
        for epsilon in EPSILONS
        for system in ("lr", "gnb")
        if len(
            {
                paper_accuracy(model, method, dataset, system, None, epsilon)
                for model in ("13b", "7b")
            }
        )
        > 1
    }
    assert other == ({("car", "gnb"), ("calhousing", "gnb")} if method == "ldp_tabicl" else set())


def test_what_table_xii_means_of_the_swapped_baselines_is_what_table_ii_prints():
    rows = [row for row in read_table("table-XII") if row["mean_corrected"]]
    assert len(rows) == 12
    for row in rows:
        meant = (float(row["mean_corrected"]), float(row["std_corrected"]))
        assert meant == paper_accuracy(
            "13b", "ldp_tabicl", row["dataset"], row["system"], None, float(row["epsilon"])
        )


def test_corrected_table_v_follows_from_its_formula():
    rows = table_v()
    assert len(rows) == 40
    for row in rows:
        assert abs(row.corrected - amplified_epsilon(row.epsilon, row.rate)) <= 0.0005 + 1e-9, row


def test_table_v_keeps_the_misprints_and_nothing_else():
    misprints = {
        (row.dataset, row.epsilon): (row.amplified_epsilon, row.corrected)
        for row in table_v()
        if row.amplified_epsilon != row.corrected
    }
    assert misprints == {("calhousing", 5.0): (4.416, 3.416), ("bank", 50.0): (47.370, 47.697)}
    assert {
        row.amplified_epsilon for row in table_v() if (row.dataset, row.epsilon) == ("jungle", 50.0)
    } == {47.698}


def test_table_v_row_counts_are_the_training_sizes_of_table_vi():
    sizes = {row["dataset"]: int(row["train_row_count"]) for row in read_table("table-VI")}
    assert {row.dataset: row.row_count_corrected for row in table_v()} == sizes
    assert {row.dataset for row in table_v() if row.row_count != row.row_count_corrected} == {
        "diabetes"
    }


def test_half_of_table_iii_without_noise_is_the_other_models():
    """The erratum that cannot be mended, shown from the tables themselves."""
    cells = [(dataset, shots) for dataset in DATASETS for shots in (1, 2, 4, 8)]
    same = [
        cell
        for cell in cells
        if len(
            {
                paper_accuracy(m, "gdp_tabicl", cell[0], "icl", cell[1], math.inf)
                for m in ("13b", "7b")
            }
        )
        == 1
    ]
    assert len(same) == 16


def test_every_table_named_in_the_loader_is_packaged():
    assert all(
        any(True for _ in read_table(f"table-{name}"))
        for name in published.ACCURACY_TABLES.values()
    )
