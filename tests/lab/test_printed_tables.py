"""The tables that no report shows are carried over whole, and agree with those that reports show,
and with what pipelines run.
"""

import math

import pytest

from dpicl.methods.few_shot_plan import GenerationShape
from dpicl.methods.published import errata, table_v
from dpicl.release.pipelines import load_pipelines
from lab.published import read_table
from lab.published.noise_cells import table_nine
from tests.library.examples import ROOT
from tests.library.text_contracts import TEXT_CONTRACTS


def test_corrected_energy_tables_follow_from_equation_2():
    watts = 300
    kg_per_kwh = 0.3633
    queries = {row["dataset"]: int(row["query_count"]) for row in read_table("table-VI")}
    hours = {(row["dataset"], row["shots"]): row for row in read_table("table-X")}
    rows = list(read_table("table-XI"))
    assert len(hours) == len(rows) == 32
    for row in rows:
        whole, asked = hours[row["dataset"], row["shots"]], queries[row["dataset"]]
        second, grams = (
            float(row[f"{name}_corrected"] or row[name]) for name in ("seconds", "grams_co2")
        )
        spent = float(whole["hours"])
        assert abs(float(whole["kg_co2"]) - spent * watts / 1000 * kg_per_kwh) < 0.0011
        assert abs(second - spent * 3600 / 6 / asked) < 0.005 + 0.005 * 600 / asked
        assert abs(grams - second / 3600 * watts * kg_per_kwh) < 0.0011


def test_errata_agree_with_the_tables():
    by_cell = {(erratum.table, erratum.dataset, erratum.cell): erratum for erratum in errata()}
    assert len(by_cell) == len(errata())
    assert all(erratum.why for erratum in errata())
    for row in table_v():
        if row.amplified_epsilon != row.corrected:
            erratum = by_cell["V", row.dataset, f"epsilon = {row.epsilon:g}"]
            assert (float(erratum.printed), float(erratum.corrected)) == (
                row.amplified_epsilon,
                row.corrected,
            )
    for row in read_table("table-XI"):
        for column, unit in (("seconds", "seconds"), ("grams_co2", "g CO2")):
            erratum = by_cell.get(("XI", row["dataset"], f"k = {row['shots']}, {unit}"))
            expected = (erratum.printed, erratum.corrected) if erratum else (row[column], "")
            assert (row[column], row[f"{column}_corrected"]) == expected


@pytest.mark.parametrize(
    "name", ["few-shot-table-1", "few-shot-table-2", "few-shot-table-3", "few-shot-table-4"]
)
def test_a_pipeline_writes_with_the_sizes_of_table_9(name):
    """M, N and T_max; texts end before T_max where the model ends them."""
    pipeline = load_pipelines(ROOT / "pipelines.yaml").pipelines[name]
    printed = {
        cell.dataset: (cell.subset_count, cell.rows_per_subset, cell.max_tokens)
        for cell in table_nine()
    }
    for dataset in pipeline.datasets:
        for system in (
            "icl",
            *(f"icl-{variant}" for variant in pipeline.options.few_shot_generation.variants),
        ):
            chosen = pipeline.options.few_shot_generation.variant(system)
            shape = GenerationShape.of(TEXT_CONTRACTS[dataset], chosen)
            assert (shape.voters, shape.examples, shape.max_tokens) == printed[dataset], (
                dataset,
                system,
            )


def test_invisible_ink_has_as_many_voters_as_the_papers_subsets_have_texts():
    pipeline = load_pipelines(ROOT / "pipelines.yaml").pipelines["few-shot-invisible-ink"]
    (dataset,) = pipeline.datasets
    (sizes,) = {
        (cell.subset_count, cell.rows_per_subset)
        for cell in table_nine()
        if cell.dataset == dataset
    }
    assert pipeline.options.few_shot_generation.voters == math.prod(sizes)
