"""Two runs are compared as what they hold allows: answer by answer where both asked the same, and
marked by more than noise alone.
"""

import json
import math
import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import t, ttest_rel

from dpicl.ground.errors import RunError
from dpicl.ground.files import write_json
from dpicl.models.spec import ModelSpec
from dpicl.release.pipelines import Pipeline
from dpicl.release.table_files import write_table
from dpicl.report.blocks import to_html, to_markdown
from dpicl.runs.artefacts import PREDICTIONS, RESULTS, VALUES
from dpicl.runs.run_folder import Plan, write_plan
from lab.compare import compare, side_of
from lab.compare.differing import differing
from lab.compare.page import decision, notes, page_of
from tests.flows.report_folder import COLUMNS, Page, markdown_row, write_run

SETS = ("adult", "bank", "car")


def write_side(
    folder,
    answers,
    *,
    method="gdp_tabicl",
    epsilon=1.0,
    metric="accuracy",
    digest="d",
    truth=None,
    pipeline=None,
    **changes,
):
    """A run of a cell; `answers` are by data set how good they are, shape (seeds, queries), or None
    for a seed that is not done.
    """
    key, units = f"icl,epsilon={epsilon},shots=1", []
    for dataset, seeds in answers.items():
        for seed, values in enumerate(seeds):
            if values is None:
                continue
            unit = folder / "units" / f"{method}__{dataset}__seed{seed}"
            values = np.asarray(values, float)
            row = dict.fromkeys(COLUMNS) | dict(method=method, system="icl", dataset=dataset)
            row |= dict(seed=seed, epsilon=epsilon, shots=1, query_count=len(values), accuracy=0.5)
            units.append(row | {metric: float(values.mean())})
            write_json(unit / RESULTS, units[-1:])
            write_table(unit / VALUES, pa.table({key: values}))
            known = truth or ["Yes"] * len(values)
            stored = {
                "cell": [key] * len(known),
                "query": range(len(known)),
                "truth": known,
                "answer": known,
            }
            write_table(
                unit / PREDICTIONS,
                pa.table({name: list(column) for name, column in stored.items()}),
            )
        if digest is not None:
            write_json(folder / "queries" / f"{dataset}.json", digest)
    count = max(map(len, answers.values()))
    asked = {
        "title": "Any",
        "methods": [method],
        "datasets": list(answers),
        "epsilons": [epsilon],
        "shots": [1],
        "seeds": list(range(count)),
    }
    write_plan(
        folder,
        Plan(
            folder.name,
            "demo",
            Pipeline(**asked, **(pipeline or {})),
            ModelSpec(name="fake", kind="fake"),
        ),
    )
    return write_run(folder, results=units, run_id=folder.name, **changes)


def compared(tmp_path, first, second, own=None, other=None, **both):
    """Run a with run b, in place of those that were there."""
    for name, answers, changes in (("a", first, own), ("b", second, other)):
        shutil.rmtree(tmp_path / name, ignore_errors=True)
        (tmp_path / name).mkdir()
        write_side(tmp_path / name, answers, **both, **(changes or {}))
    return compare(side_of(tmp_path / "a"), side_of(tmp_path / "b"))


def ones(*counts, of=20):
    """For each seed so many queries right, the first ones."""
    return [[1.0] * count + [0.0] * (of - count) for count in counts]


def test_answers_to_the_same_queries_are_compared_one_by_one(tmp_path):
    (pair,) = (both := compared(tmp_path, {"adult": ones(2, 2)}, {"adult": ones(20, 18)})).pairs
    # differences: of seed 0 18 ones, of seed 1 16 of these; by query 16 x 1, 2 x 1/2, 2 x 0, mean
    # 0.85
    of_queries = (16 * 0.15**2 + 2 * 0.35**2 + 2 * 0.85**2 + 1) / (20 * 19)
    of_seeds = (0.05**2 + 0.05**2) / 2
    of_both = (34 * 0.15**2 + 6 * 0.85**2) / (40 * 39)
    variance = of_queries + max(0, of_seeds - of_both)
    freedom = variance**2 / (of_queries**2 / 19 + of_seeds**2)
    assert (pair.first, pair.second, pair.gain.mean) == pytest.approx((0.1, 0.95, 0.85))
    assert pair.by_answer
    assert pair.seeds == 2
    assert pair.gain.half == pytest.approx(t.ppf(0.975, freedom) * math.sqrt(variance))
    assert pair.gain.sign == 1
    assert decision(both).startswith(
        "b is better than a in 1 of 1 cell by more than noise, and worse in none."
    )
    assert (
        "adult: the same queries in both runs, compared answer by answer; intervals are over "
        "queries and seeds." in list(notes(both))
    )


def test_it_is_the_second_run_that_is_better_or_worse(tmp_path):
    one = compared(tmp_path, {"adult": ones(2, 2)}, {"adult": ones(20, 18)})
    other = compare(one.second, one.first)
    assert other.pairs[0].gain.mean == -one.pairs[0].gain.mean
    assert other.pairs[0].gain.half == one.pairs[0].gain.half
    assert decision(other).startswith(
        "a is better than b in none of 1 cell by more than noise, and worse in 1."
    )


@pytest.mark.parametrize(
    "own, other, reason",
    [
        ({}, {"digest": "e"}, "the runs did not ask the same queries"),
        ({"digest": None}, {}, "a did not record which queries it asked"),
        ({}, {"truth": ["Yes"] * 19 + ["No"]}, "the same queries have other right answers"),
        (
            {"evaluation": {"adult": "charged"}},
            {},
            "only noisy counts of right answers were released",
        ),
    ],
)
def test_other_queries_or_truths_leave_the_means_alone_and_say_why(tmp_path, own, other, reason):
    both = compared(tmp_path, {"adult": ones(10)}, {"adult": ones(14)}, own, other)
    (pair,) = both.pairs
    independent = math.sqrt((0.25 + 1 / 20) / 20 + (0.7 * 0.3 + 1 / 20) / 20)
    assert not pair.by_answer
    assert pair.gain.mean == pytest.approx(0.2)
    assert pair.gain.half == pytest.approx(t.ppf(0.975, 19) * independent)
    assert both.apart == {"adult": reason} and any(
        f"only means are compared, since {reason};" in note for note in notes(both)
    )


def test_the_noise_of_both_evaluations_widens_the_interval(tmp_path):
    row = {"method": "gdp_tabicl", "dataset": "adult", "deviation": 3.0, "epsilon": 1.0}
    silent = {"evaluation": {"adult": "charged"}}
    noisy = silent | {"evaluation_noise": [row]}
    sides = {"adult": ones(10, 11)}, {"adult": ones(14, 14)}
    one, two, three = (
        compared(tmp_path, *sides, *told).pairs[0].gain.half
        for told in ((silent, silent), (noisy, silent), (noisy, noisy))
    )
    assert one < two < three


def test_seeds_that_one_run_alone_has_are_left_out(tmp_path):
    (pair,) = compared(tmp_path, {"adult": ones(8, 20)}, {"adult": ones(12)}).pairs
    assert (pair.first, pair.second, pair.seeds) == (0.4, 0.6, 1)


def test_smaller_errors_are_better_and_no_test_averages_them(tmp_path):
    errors = {name: [[30.0, 10.0, 20.0] * 10] for name in SETS}
    both = compared(
        tmp_path, errors, {name: [[3.0, 1.0, 2.0] * 10] for name in SETS}, metric="absolute_error"
    )
    assert [pair.gain.mean for pair in both.pairs] == [18.0] * 3
    assert both.count(1) == 3
    assert not both.tests
    assert "of errors, by how much they are smaller" in next(notes(both))


def test_errors_of_other_queries_are_never_marked(tmp_path):
    """All seeds have the same draw of queries: marked by seeds alone, half of the cells were by
    chance.
    """
    rng = np.random.default_rng(1)
    sides = [
        {name: np.abs(rng.normal(0, 10, 60)) + rng.normal(0, 0.1, (5, 1)) for name in SETS}
        for _ in range(2)
    ]
    both = compared(tmp_path, *sides, other={"digest": "e"}, metric="absolute_error")
    assert all(
        math.isnan(pair.gain.half) and pair.gain.sign == 0 and pair.seeds == 5
        for pair in both.pairs
    )
    assert both.pairs[0].gain.mean == pytest.approx(
        sides[0]["adult"].mean() - sides[1]["adult"].mean()
    )
    told = list(notes(both))
    assert "adult: only means are compared, since the runs did not ask the same queries." in told
    assert (
        "Means that are no accuracies are compared without an interval, and never marked: seeds "
        "do not tell what other queries would." in told
    )
    assert decision(both) == (
        "b is neither better nor worse than a by more than noise, in 3 cells. None has an "
        "interval, so that none could be marked."
    )


def test_cells_without_an_interval_are_no_chance_for_a_mark(tmp_path):
    for name, shift in (("a", 0), ("b", 1)):
        for metric, dataset in (("accuracy", "adult"), ("absolute_error", "bank")):
            write_side(
                tmp_path / f"{name}-{metric}",
                {dataset: ones(8 + shift, 9)},
                metric=metric,
                digest=f"{dataset}{shift}",
            )
    accuracy, error = (
        compare(*(side_of(tmp_path / f"{name}-{metric}") for name in "ab"))
        for metric in ("accuracy", "absolute_error")
    )
    both = replace(accuracy, pairs=(*accuracy.pairs, *error.pairs))
    assert decision(both).endswith(
        "in 2 cells. If the runs were equally good, 5 to 10 % of the 1 cell with an interval "
        "would be marked by chance."
    )
    assert any(
        note.startswith("adult: only means")
        and note.endswith("wider than it need be where queries are the same.")
        for note in notes(both)
    )


def test_the_test_over_data_sets_is_the_paired_t_test(tmp_path):
    first = ((8, 10), (9, 9), (4, 5))
    second = ((11, 12), (9, 10), (9, 7))
    both = compared(
        tmp_path,
        *(
            {name: ones(*counts) for name, counts in zip(SETS, side, strict=True)}
            for side in (first, second)
        ),
    )
    (test,) = both.tests
    oracle = ttest_rel(*(np.array(side).mean(axis=1) / 20 for side in (second, first)))
    assert (test.statistic, test.p, test.freedom) == pytest.approx(
        (oracle.statistic, oracle.pvalue, oracle.df)
    )
    assert test.datasets == 3
    assert test.difference == pytest.approx(np.mean(second) / 20 - np.mean(first) / 20)


def test_one_data_set_is_no_sample_and_equal_differences_have_no_t(tmp_path):
    first, second = ({name: ones(count) for name in SETS[:2]} for count in (8, 9))
    assert not compared(tmp_path, {"adult": ones(8)}, {"adult": ones(9)}).tests
    (test,) = compared(tmp_path, first, second).tests
    assert math.isnan(test.statistic) and math.isnan(test.p)
    assert test.difference == pytest.approx(0.05)


def test_what_is_the_same_is_no_chance_for_a_mark(tmp_path):
    sides = ({"adult": ones(8), "bank": ones(8)}, {"adult": ones(8), "bank": ones(20)})
    both = compared(tmp_path, *sides)
    assert both.same == 1 and [pair.gain.sign for pair in both.pairs] == [0, 1]
    assert decision(both) == (
        "b is better than a in 1 of 1 cell by more than noise, and worse in none; in 1 more "
        "nothing differs. "
        "If the runs were equally good, 5 % of the cells would be marked by chance."
    )
    alike = compare(both.first, both.first)
    assert decision(alike) == "a and a are the same in 2 cells, the only ones that both have."
    assert alike.count(1) == alike.count(-1) == 0


@pytest.mark.parametrize(
    "first, second, told",
    [
        (
            {"adult": ones(8)},
            {"bank": ones(8)},
            (
                "runs a and b share no cell: a has gdp_tabicl on adult with seeds 0, b has "
                "gdp_tabicl on bank"
            ),
        ),
        (
            {"adult": [None]},
            {"adult": [None, *ones(8)]},
            "a has no results yet, b has gdp_tabicl on adult with seeds 1;",
        ),
        ({"adult": ones(8)}, {"adult": [None, *ones(8)]}, "share no cell"),
    ],
)
def test_runs_without_a_common_cell_are_refused_in_one_sentence(tmp_path, first, second, told):
    with pytest.raises(RunError, match=told):
        compared(tmp_path, first, second)


def test_of_a_run_that_is_not_done_what_is_there_is_compared(tmp_path):
    whole = compared(tmp_path, {"adult": ones(8, 9)}, {"adult": ones(12, 14)})
    for name in ("manifest.json", "results.csv", "timings.csv"):
        (tmp_path / "a" / name).unlink()
    same = compare(side_of(tmp_path / "a"), whole.second)
    assert same.pairs == whole.pairs
    shutil.rmtree(tmp_path / "a" / "units" / "gdp_tabicl__adult__seed1")
    part = compare(side_of(tmp_path / "a"), whole.second)
    assert (part.pairs[0].seeds, part.pairs[0].first) == (1, 0.4)
    assert "a is not finished: 1 of its 2 units are there." in list(notes(part))
    assert differing(part.first, part.second)[1][1:] == (
        "`dpicl budget` shows it; the run is not finished",
        "–",
    )


def test_results_of_private_rows_of_a_run_that_is_not_done_are_left_out(tmp_path):
    both = compared(tmp_path, *({name: ones(count) for name in SETS[:2]} for count in (8, 9)))
    (tmp_path / "a" / "manifest.json").unlink()
    for name in (VALUES, PREDICTIONS):
        (tmp_path / "a" / "units" / "gdp_tabicl__bank__seed0" / name).unlink()
    left = compare(side_of(tmp_path / "a"), both.second).pairs
    assert [pair.dataset for pair in left] == ["adult"]


def test_what_differs_is_named_and_what_is_the_same_is_not(tmp_path):
    contracts = {"adult": {"digest": "0123456789abcdef"}}
    own = {
        "contracts": contracts,
        "budget": ["adult: 1 release, charged now."],
        "pipeline": {"options": {"gdp_tabicl": {"sum_origin": "lower"}}},
    }
    own |= {
        "timings": [
            ["gdp_tabicl", "adult", 0, "score", 4.0],
            ["gdp_tabicl", "adult", 0, "charge", 1.0],
        ]
    }
    other = {
        "contracts": contracts,
        "simulated": True,
        "dpicl_version": "0.2.0",
        "versions": {"numpy": "2"},
    }
    both = compared(tmp_path, {"adult": ones(8)}, {"adult": ones(9)}, own, other)
    rows = {what: facts for what, *facts in differing(both.first, both.second)}
    assert rows["charged"] == [
        "adult: 1 release, charged now.",
        "nothing; the data are public, and the noise is seeded",
    ]
    assert rows["time, all stages added up"] == ["5.00 s", "–"] and rows[
        "answers a second, while a model is asked"
    ] == ["5.0", "–"]
    assert rows["version of dpicl"] == ["0.1.0", "0.2.0"] and rows["version of numpy"] == ["–", "2"]
    assert [what for what in rows if "options" in what] == ["options.gdp_tabicl.sum_origin"]
    assert not [
        what for what in rows if what.startswith(("contract", "queries", "seeds", "datasets"))
    ]


def test_the_page_is_a_report_and_fetches_nothing(tmp_path):
    budget = {"budget": ["<script>alert(1)</script>"]}
    report = page_of(
        compared(
            tmp_path,
            {"adult": ones(8), "bank": ones(9)},
            {"adult": ones(16), "bank": ones(1)},
            budget,
        )
    )
    page, markdown = Page(to_html(report)), to_markdown(report)
    assert page.row("adult")[1:6] == ["GDP-TabICL", "in-context, k = 1", "1", "0.400", "0.800"]
    assert page.row("adult")[6].endswith(" | better") and page.row("bank")[6].endswith(" | worse")
    assert markdown_row(markdown, "bank")[-1].endswith(", worse")
    assert "**" in markdown_row(markdown, "adult")[-1]
    assert [tag for tag, _ in page.tags].count("script") == 1 and "<script>alert" not in markdown
    assert "b is better than a in 1 of 2 cells by more than noise, and worse in 1." in markdown
    assert all(attributes.get("href", "#").startswith("#") for _, attributes in page.tags)


def test_random_weights_are_said_first(tmp_path):
    both = compared(
        tmp_path,
        {"adult": ones(8)},
        {"adult": ones(9)},
        other={"model": {"name": "tiny", "trained": False}},
    )
    assert page_of(both).opening[0].text == "What the model of b answers means nothing."


def test_a_plan_with_a_number_of_nobody_is_refused(tmp_path):
    with pytest.raises(RunError, match="no such run"):
        side_of(tmp_path / "nowhere")
    compared(tmp_path, {"adult": ones(8)}, {"adult": ones(9)})
    (tmp_path / "a" / "plan.json").write_text(json.dumps([]))
    with pytest.raises(RunError, match="damaged"):
        side_of(tmp_path / "a")
