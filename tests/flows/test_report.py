"""A report says what the run folder holds, beside what the paper printed, and nothing else."""

import base64
import hashlib
import json
import math
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest

from dpicl.ground.errors import DataError, DpiclError, RunError
from dpicl.report import build_report
from dpicl.report.content import cell_label, examples
from dpicl.report.decision import Gain, better_from
from dpicl.report.figures import epsilon_places
from dpicl.report.load import demonstration_files, load_run
from dpicl.report.words import mass

from .report_folder import Page, built, line, manifest, markdown_row, rows, write_run

GOLDEN = Path(__file__).parent.parent / "golden" / "report"


def test_the_page_fetches_nothing_and_runs_the_one_script_whose_digest_it_states(tmp_path):
    html, _ = built(write_run(tmp_path, timings=[["gdp_tabicl", "adult", 0, "score", 3.5]]))
    page = Page(html)
    assert {tag for tag, _ in page.tags}.isdisjoint(
        {"link", "img", "iframe", "object", "embed", "base", "form"}
    )
    for tag, attributes in page.tags:
        assert "src" not in attributes
        assert not any(name.startswith("on") for name in attributes)
        assert attributes.get("href", "#").startswith("#"), tag
        assert attributes.get("xlink:href", "#").startswith("#"), tag
    assert "@import" not in html
    assert all(
        reference.startswith("#")
        for reference in [part.split(")")[0].strip("'\"") for part in html.split("url(")[1:]]
    )
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    assert [tag for tag in page.tags if tag[0] == "meta"][-1][1] == {
        "http-equiv": "Content-Security-Policy",
        "content": policy,
    }
    # each for a screen and for a phone
    assert sum(tag == "svg" for tag, _ in page.tags) == 2 * 3


@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize("simulated", [True, False])
def test_banners_stand_exactly_where_the_manifest_says_so(tmp_path, trained, simulated):
    texts = built(
        write_run(tmp_path, simulated=simulated, model={"name": "some-model", "trained": trained})
    )
    for text in texts:
        assert ("Random weights." in text) is not trained
        assert ("not a release." in text) is simulated


def test_mean_and_deviation_are_those_of_the_seeds(tmp_path):
    html, markdown = built(write_run(tmp_path))
    # 0.70, 0.74, 0.78: mean 0.74, deviations 0.04, 0, 0.04, sample variance 0.0032 / 2 = 0.04
    # squared
    assert markdown_row(markdown, "in-context, k = 1")[1:] == [
        "0.740 ± 0.040 (paper .72 ± .05)",
        "0.770 ± 0.044 (paper .74 ± .04)",
        "**0.900 ± 0.000** (paper .76 ± .01)",
        "0.750 ± 0.010",
        "–",
    ]
    assert Page(html).row("in-context, k = 1")[1:] == [
        "0.740 ± 0.040 | paper .72 ± .05",
        "0.770 ± 0.044 | paper .74 ± .04",
        "0.900 ± 0.000 | paper .76 ± .01",
        "0.750 | ± 0.010",
        "–",
    ]


def test_only_what_is_above_the_majority_by_more_than_noise_stands_out(tmp_path):
    html, _ = built(write_run(tmp_path))
    # 0.900 of 100 queries in two tables; 0.770 is not far enough from 0.750
    assert html.count('<td class="above">') == 2


def test_baselines_of_another_way_carry_its_name_and_are_measured_on_the_whole_test_part(tmp_path):
    another = [row | {"system": "lr-pairs"} for row in rows() if row["system"] == "lr"]
    html, _ = built(write_run(tmp_path, results=[*rows(), *another]))
    assert Page(html).row("logistic regression, pairs")[1:] == [
        "0.663 ± 0.055",
        "0.820 ± 0.026",
        "–",
        "–",
        "–",
    ]


@pytest.mark.parametrize(
    ("name", "print_of_cell"),
    [("meta-llama/Llama-2-7b-hf", ".77 ± .02"), ("Llama-2-13b", ".72 ± .05")],
)
def test_the_print_beside_is_that_of_the_model_that_answered(tmp_path, name, print_of_cell):
    _, markdown = built(write_run(tmp_path, model={"name": name, "trained": True}))
    assert (
        markdown_row(markdown, "in-context, k = 1")[1] == f"0.740 ± 0.040 (paper {print_of_cell})"
    )


def test_what_the_paper_lacks_has_no_print_beside(tmp_path):
    _, markdown = built(write_run(tmp_path, results=rows("my_table")))
    assert "(paper" not in markdown
    assert "Slips" not in markdown


def test_the_first_screen_says_what_was_promised_and_from_which_epsilon_on_it_is_worth_it(tmp_path):
    more = {("icl", 5.0): 0.2}
    better = [
        row | {"accuracy": row["accuracy"] + more.get((row["system"], row["epsilon"]), 0)}
        for row in rows()
    ]
    for text in built(
        write_run(tmp_path, results=better, guarantees=GUARANTEES, majority={"adult": 0.75})
    ):
        plain = text.replace("\u00a0", " ")
        assert (
            "a suspicion of 1 % about any of them becomes at most 1.34 % at ε = 1, at most 23.5 % "
            "at ε = 5" in plain
        )
        assert "by at most 1.34 at ε = 1, 30 at ε = 5 (e^ε, with the ε that is charged)." in plain
        first = plain.index(
            "GDP-TabICL on adult, better than always answering the majority label (0.750 on 100 "
            "rows, 0.750 on 500 rows) by more than noise: in-context answers from ε = 5 on"
        )
        # before all sections
        assert first < plain.index("The differential privacy of one release")
        assert (
            "; logistic regression on the rows, diffprivlib's noise from ε = 5 on (0.070 ± "
            in plain
        )
        assert "over queries and seeds" in plain


def test_private_data_are_measured_against_whatever_does_best_without_them(tmp_path):
    """A model that is right in .450 without any data: of .417, which is above the majority's .300,
    the data add nothing.
    """
    of_texts = {"method": "few_shot_generation", "dataset": "trec", "query_count": 600}
    results = [
        line("zero-shot", "", 0.45, shots=0, **of_texts),
        line("majority", "", 0.3, **of_texts),
        line("icl", 1.0, 0.35, shots=4, **of_texts),
        line("icl", 8.0, 0.417, shots=4, **of_texts),
    ]
    html, markdown = built(write_run(tmp_path, results=results))
    for text in (html.replace("\u00a0", " "), markdown):
        assert (
            "DP few-shot generation on trec: in accuracy nothing was better than answers without "
            "demonstrations (0.450 on 600 rows) by more than noise; worse: in-context answers at "
            "ε = 1." in text
        )
        assert "+0.117" not in text and "0.033" in text
        assert (
            "With what DP few-shot generation released of trec, some-model does worse than without "
            "private data: at ε = 1 (accuracy 0.350 against 0.450, on 600 rows)." in text
        )
    assert markdown_row(markdown, "DP few-shot generation")[1:4] == [
        "trec",
        "zero-shot 0.450 on 600 rows",
        "in-context, k = 4",
    ]
    assert "Below the line, using no private data does better" in html
    assert "or the model without demonstrations" in html


@pytest.mark.parametrize(
    ("zero_shot", "over"),
    [
        (0.45, "zero-shot 0.450 on 100 rows"),
        (0.25, "majority 0.310 on 100 rows"),
        (None, "majority 0.310 on 100 rows"),
    ],
)
def test_classifiers_are_measured_against_the_majority_of_their_rows_unless_the_model_alone_does_better(  # noqa: E501
    tmp_path, zero_shot, over
):
    of_table = {"method": "mst_tabicl", "query_count": 100}
    results = [line("majority", "", 0.3, **of_table), line("lr", 1.0, 0.7, **of_table)]
    if zero_shot:
        results.append(line("zero-shot", "", zero_shot, shots=0, **of_table))
    _, markdown = built(write_run(tmp_path, results=results, majority={"adult": 0.31}))
    assert markdown_row(markdown, "MST-TabICL")[1:4] == [
        "adult",
        over,
        "logistic regression on rows of MST-TabICL",
    ]


def test_what_was_written_without_private_rows_is_no_epsilon_to_begin_with(tmp_path):
    public = [row | {"epsilon": 0.0} for row in rows() if row["epsilon"] == math.inf]
    html, _ = built(write_run(tmp_path, results=[*rows(), *public]))
    assert "What the private data add" in html and "from ε = 0" not in html


def test_what_falls_back_at_a_larger_epsilon_is_not_better_from_there_on(tmp_path):
    def begins(half, *gains):
        epsilons = [1.0, 5.0, 10.0, math.inf][: len(gains)]
        of_cells = [Gain(gain, half) for gain in gains]
        return better_from(pd.DataFrame({"epsilon": epsilons, "gain": of_cells}))

    assert begins(0.1, 0.3, 0.05, 0.3, 0.0) == 10
    # from none on
    assert math.isnan(begins(0.1, 0.3, 0.0))
    # no interval, no claim
    assert math.isnan(begins(math.nan, 0.3))


GUARANTEES = [
    {
        "method": "gdp_tabicl",
        "dataset": dataset,
        "epsilon": epsilon,
        "amplified_epsilon": amplified,
        "delta": 0.0,
    }
    | {"neighbours": "add-or-remove-one", "unit": "row", "statement": f"{dataset} at {epsilon}."}
    for dataset, epsilon, amplified in [
        ("calhousing", 1, 0.2952),
        ("calhousing", 5, 3.4165),
        ("adult", 1, 0.1586),
        ("adult", "inf", "inf"),
    ]
]


def test_without_results_the_guarantees_stand_beside_table_v_and_its_errata(tmp_path):
    folder = write_run(tmp_path, guarantees=GUARANTEES, model=None)
    (folder / "results.csv").unlink()
    (folder / "timings.csv").unlink()
    html, markdown = built(folder)
    assert 'id="accuracy"' not in html and "No model was queried" in html
    table = markdown[markdown.index("| method | data set | ε = 1 | ε = 5 |") :]
    assert (
        "| GDP-TabICL | calhousing | 0.295 (paper 0.295) | 3.417 (paper 4.416, differs) | 0 |"
        in table
    )
    assert "| GDP-TabICL | adult | 0.159 (paper 0.159) | – | 0 |" in table
    assert "1 cell differs from the paper's Table V" in html
    assert html.count('<td class="differs">') == 1
    assert "| V | calhousing, epsilon = 5 | 4.416 | 3.416 |" in markdown
    # an erratum of a data set that is not in the run
    assert "bank" not in markdown[markdown.index("### Slips") :]
    # an erratum of a table that is not quoted
    assert "| III |" not in markdown


def test_a_run_that_asks_nothing_speaks_of_no_answers_and_names_its_demonstrations(tmp_path):
    """Nor of models, of what has no noise, or of methods that it does not have."""
    options = {
        "gdp_tabicl": {"sum_origin": "centre", "shot_selection": [], "clip": None},
        "ldp_tabicl": {"encoding": "k-ary"},
        "all methods": {"same_shots": False},
    }
    model = {"name": "small", "kind": "bundled", "trained": True, "note": "a teaching model"}
    folder = write_run(
        tmp_path,
        results=[],
        demonstrations={"epsilon=1.0,shots=1": ["Age 32. Yes"]},
        guarantees=[each for each in GUARANTEES if each["epsilon"] != "inf"],
        grid={**manifest()["grid"], "epsilons": [1], "seeds": [0]},
        model=model,
        options=options,
    )
    file = "units/gdp_tabicl__adult__seed0/demonstrations.json"
    for text in built(folder):
        plain = text.replace("\u00a0", " ")
        assert f"it released demonstrations, {file}, and did not measure how good they" in plain
        assert f"All are in the run's folder: {file}." in plain
        assert "gdp_tabicl: sum_origin centre; all methods: same_shots no" in plain
        for untrue in ("Not a general", "the model saw", "ε = ∞", ">Accuracy<", "## Accuracy"):
            assert untrue not in plain
        assert "ldp_tabicl" not in plain and "&#91;" not in plain and "teaching" not in plain


@pytest.mark.parametrize(("seeds", "shown"), [(1, "__seed0/"), (2, "units/*/")])
def test_last_lines_of_a_run_say_where_its_demonstrations_are(tmp_path, seeds, shown):
    cells = {"epsilon=1.0,shots=1": ["Age 32. Yes"]}
    write_run(tmp_path, results=[], demonstrations=cells)
    for seed in range(1, seeds):
        (unit := tmp_path / "units" / f"gdp_tabicl__adult__seed{seed}").mkdir()
        (unit / "demonstrations.json").write_text(json.dumps(cells), encoding="utf-8")
    assert shown in demonstration_files(load_run(tmp_path).demonstrations)


@pytest.mark.parametrize(
    ("costs", "lines"),
    [
        (
            [{"epsilon": 2.0, "amplified_epsilon": 0.5904, "neighbours": "replace-one"}],
            ["| ε = 1 | δ |", "| calhousing | 0.590 | 0 | replace-one | row |"],
        ),
        ([{"epsilon": 2.9, "amplified_epsilon": 1.0}], ["| calhousing | 1.000 | 0 |"]),
        (
            [
                {"sampling_rate": "1/100", "amplified_epsilon": 0.017},
                {"sampling_rate": "1/2", "amplified_epsilon": 0.62},
            ],
            ["| calhousing, rate 0.01 | 0.017 | 0 |", "| calhousing, rate 0.5 | 0.620 | 0 |"],
        ),
    ],
    ids=["doubled", "charged in all", "by sampling rate"],
)
def test_another_cost_stands_in_the_column_that_was_asked_for_and_not_beside_table_v(
    tmp_path, costs, lines
):
    guarantees = [GUARANTEES[0] | {"nominal_epsilon": 1.0} | cost for cost in costs]
    html, markdown = built(write_run(tmp_path, guarantees=guarantees))
    table = markdown[markdown.index("## Guarantees") :]
    assert all(line in table for line in lines) and 'class="differs"' not in html


HOSTILE = "<script>alert(1)<script>|*[x](http://evil.example)$\\frac{$ & `"


def test_hostile_names_and_texts_stay_text(tmp_path):
    demonstrations = {"epsilon=1.0,shots=1": ["</pre><script>alert(2)</script>\n# heading\n```"]}
    run = write_run(
        tmp_path,
        results=rows(HOSTILE),
        demonstrations=demonstrations,
        title=HOSTILE,
        command=HOSTILE,
        not_protected=[HOSTILE],
    )
    html, markdown = built(run)
    page = Page(html)
    # that of the page itself
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert "alert(1)" in html and "alert(2)" in html
    assert not any(
        "evil.example" in str(value)
        for tag, attributes in page.tags
        for value in attributes.values()
        if tag == "a"
    )
    outside_code = [line for line in markdown.splitlines() if not line.startswith("    ")]
    assert not any(
        "<script" in line or "](http" in line or line.startswith("# heading")
        for line in outside_code
    )
    widths = {
        line.count("|") for line in outside_code if line.startswith(("| in-context", "| | ε"))
    }
    # a pipe in a name must not add a column
    assert len(widths) == 1


def test_only_cells_with_a_finite_epsilon_are_shown_as_examples(tmp_path):
    demonstrations = {
        "epsilon=inf,shots=1": ["NOT-NOISED"],
        "epsilon=1.0,shots=1": ["noised"],
        "zero-shot": ["NOT-STATED"],
        "epsilon=x": ["NOT-READ"],
    }
    folder = write_run(tmp_path, demonstrations=demonstrations)
    for text in built(folder):
        assert "noised" in text and "NOT-" not in text
    assert [
        cell for entry in examples(load_run(folder).demonstrations) for cell in entry["cells"]
    ] == [("ε = 1, k = 1", ["noised"])]


def test_energy_and_co2_follow_from_equation_2(tmp_path):
    timings = [["gdp_tabicl", "adult", 0, "score", 3000], ["gdp_tabicl", "adult", 1, "score", 4200]]
    energy = {"power_watts": 300, "kg_co2_per_kwh": 0.3633}
    _, markdown = built(write_run(tmp_path, timings=timings, energy=energy, simulated=True))
    assert "this is 0.6000 kWh and 217.980 g CO₂eq" in markdown  # 300 W x 2 h / 1000, x 0.3633
    assert " h (work of all stages); stages" in markdown
    assert mass(1.5) == "1.500 kg"


def test_of_private_rows_times_are_of_some_stages_and_no_energy_is_reckoned(tmp_path):
    """How long the others take would tell how many rows there are; and a line of an account begins
    with its name.
    """
    timings = [["gdp_tabicl", "adult", 0, "score", 3600]]
    energy = {"power_watts": 300, "kg_co2_per_kwh": 0.3633}
    budget = ["a: 1 release, charged now"]
    _, markdown = built(write_run(tmp_path, timings=timings, energy=energy, budget=budget))
    assert (
        "- took 60.0 min beside the stages that read private rows, which are not timed." in markdown
    )
    assert "kWh" not in markdown and "all stages" not in markdown
    assert "- a: 1 release, charged now." in markdown


def test_time_that_no_method_owns_is_shared(tmp_path):
    _, markdown = built(
        write_run(
            tmp_path,
            timings=[["", "adult", "", "ingest", 2], ["gdp_tabicl", "adult", 0, "score", 6]],
        )
    )
    assert "| stage | shared | GDP-TabICL | all | share |" in markdown
    assert "| ingest | 2.00 s | – | 2.00 s | 25.0 % |" in markdown


def test_stages_are_listed_in_the_order_of_a_run(tmp_path):
    timings = [
        ["mst_tabicl", "adult", 0, stage, 1]
        for stage in ("evaluate", "measure", "a later one", "charge", "reconstruct")
    ]
    _, markdown = built(write_run(tmp_path, timings=timings))
    listed = [
        line.split("|")[1].strip()
        for line in markdown.splitlines()
        if line.startswith("| ") and "100.0" not in line
    ]
    assert listed[-5:] == ["charge", "measure", "reconstruct", "evaluate", "a later one"]


def test_without_an_energy_assumption_no_energy_is_stated(tmp_path):
    _, markdown = built(write_run(tmp_path, timings=[["gdp_tabicl", "adult", 0, "score", 3000]]))
    assert "50.0 min" in markdown and "kWh" not in markdown


def test_varied_sampling_rates_are_drawn_by_rate_and_not_set_beside_the_paper(tmp_path):
    by_rate = [
        line("icl", 5.0, 0.5 + rate / 5, seed=seed, shots=2, query_count=100, **sampled)
        for seed in range(3)
        for rate in (0.01, 0.5)
        for sampled in [{"sampling_rate": rate, "amplified_epsilon": 5 + math.log(rate)}]
    ]
    html, markdown = built(write_run(tmp_path, results=by_rate))
    assert "Accuracy against the sampling rate" in html and "Accuracy against epsilon" not in html
    assert markdown_row(markdown, "in-context, k = 2, rate 0.01")[1] == "0.502 ± 0.000, ε′ 0.395"
    assert markdown_row(markdown, "in-context, k = 2, rate 0.5")[1] == "0.600 ± 0.000, ε′ 4.307"


def fitted(method, dataset="adult", base=0.6):
    """What logistic regression reaches on what a method has released."""
    own = {"method": method, "dataset": dataset, "query_count": 500}
    return [line("lr", epsilon, base + epsilon / 100, **own) for epsilon in (1.0, 5.0)]


def test_what_was_released_is_judged_side_by_side_where_there_is_more_than_one_thing(tmp_path):
    heading = "Accuracy of logistic regression against epsilon, by what it was fitted on"
    alone, _ = built(write_run(tmp_path, results=[*rows(), *fitted("gdp_tabicl")]))
    assert heading not in alone and not (tmp_path / "fitted.svg").exists()
    beside, _ = built(
        write_run(tmp_path, results=[*rows(), *fitted("mst_tabicl")], majority={"adult": 0.75})
    )
    picture = ElementTree.parse(tmp_path / "fitted.svg").getroot()
    assert "majority" in "".join(picture.itertext())
    assert picture.tag.endswith("}svg") and "--series-1" in ElementTree.tostring(picture, "unicode")
    assert heading in beside
    assert "rows of MST-TabICL" in beside
    assert "the rows, diffprivlib's noise" in beside


def test_what_baselines_reach_is_averaged_over_data_sets(tmp_path):
    results = [
        *fitted("gdp_tabicl", "adult", 0.5),
        *fitted("gdp_tabicl", "bank", 0.7),
        *fitted("mst_tabicl", "adult", 0.8),
        *fitted("mst_tabicl", "bank", 0.9)[:1],
    ]
    html, markdown = built(write_run(tmp_path, results=results))
    head = "| mean of 2 data sets | fitted on | ε = 1 | ε = 5 |"
    assert (
        f"{head}\n|---|---|---:|---:|\n| logistic regression | the rows, diffprivlib's noise | "
        f"0.610 | 0.650 |\n" in markdown
    )
    assert "| logistic regression | rows of MST-TabICL | 0.860 | – |" in markdown
    assert "Mean of 2 data sets" in html
    alone, _ = built(write_run(tmp_path, results=fitted("gdp_tabicl", "adult", 0.5)))
    assert "data sets</th>" not in alone


def test_infinity_stands_right_of_every_finite_epsilon():
    places = epsilon_places([math.inf, 1.0, 10.0])
    assert places[1.0] == 0 and places[10.0] == 1 and places[math.inf] > 1
    assert list(places) == [1.0, 10.0, math.inf]


def test_a_cell_key_is_read_as_words():
    assert cell_label("icl,epsilon=10.0,shots=2,rate=1/20") == "ε = 10, k = 2, rate = 1/20"
    assert cell_label("zero-shot") == "zero-shot"


def test_a_bare_manifest_is_enough(tmp_path):
    (tmp_path / "manifest.json").write_text(
        json.dumps(manifest(model=None, grid={})), encoding="utf-8"
    )
    html, markdown = built(tmp_path)
    for text in (html, markdown):
        assert "This run states no guarantee." in text
        assert "The run did not state its limits." in text
        assert "The run did not state its budget." in text


def test_a_folder_without_a_whole_manifest_is_refused(tmp_path):
    with pytest.raises(RunError, match="manifest.json: cannot be read"):
        build_report(tmp_path)
    content = manifest()
    del content["simulated"]
    (tmp_path / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(DpiclError, match=r"manifest.json: simulated: missing"):
        build_report(tmp_path)


def test_missing_columns_are_named(tmp_path):
    results = write_run(tmp_path) / "results.csv"
    pd.read_csv(results).drop(columns=["auc", "balanced_accuracy"]).to_csv(results)
    with pytest.raises(RunError, match="results.csv: lacks 2 columns: balanced_accuracy, auc"):
        build_report(tmp_path)


def test_text_among_numbers_is_counted_and_not_repeated(tmp_path):
    results = [row | {"accuracy": "SECRET"} if row["system"] == "lr" else row for row in rows()]
    with pytest.raises(
        DataError, match=r"results.csv: column 'accuracy': holds text where a number belongs$"
    ) as caught:
        build_report(write_run(tmp_path, results=results))
    assert "SECRET" not in str(caught.value) and caught.value.details().endswith(" (6 values)")


@pytest.mark.parametrize("name", [folder.name for folder in sorted(GOLDEN.iterdir())])
def test_golden_markdown(tmp_path, name):
    """To accept a change, copy the new report.md over the folder's."""
    folder = tmp_path / name
    shutil.copytree(GOLDEN / name, folder)
    expected = (folder / "report.md").read_text(encoding="utf-8")
    assert built(folder)[1] == expected
