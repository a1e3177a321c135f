"""Runs whose answers are whole texts: ROUGE and its kin stand beside zero-shot, and beside what
DP-ICL printed.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from dpicl.report.load import load_run
from dpicl.report.opening import story
from dpicl.report.tables import Paper

from .report_folder import Page, built, line, markdown_row, write_run

NEAR = {
    "icl": {1.0: 0.38, 8.0: 0.41, math.inf: 0.42},
    "icl-ptr": {1.0: 0.30, 8.0: 0.36, math.inf: 0.40},
    "few-shot": {math.inf: 0.44},
}
SIZES = {"subsets": None, "noise": "gaussian"}
OPTIONS = {
    "dp_icl": {
        "aggregation": None,
        **SIZES,
        "variants": {"ptr": {"aggregation": "keywords-ptr", **SIZES}},
    }
}


def text_rows():
    """Two seeds; ROUGE-2 is a third of ROUGE-1, no answer is the right one letter by letter."""
    for seed in range(2):
        own = {"method": "dp_icl", "dataset": "samsum", "seed": seed, "query_count": 100}
        near = {"rouge1": 0.35, "rouge2": 0.12, "rougeL": 0.27, "bleu": 0.05, "levenshtein": 0.3}
        yield line("zero-shot", "", 0, shots=0, **own, **near)
        for system, by_epsilon in NEAR.items():
            for epsilon, mean in by_epsilon.items():
                one = mean + 0.01 * seed
                near = {"rouge1": one, "rouge2": one / 3, "rougeL": one - 0.1}
                near |= {"bleu": 0.06, "levenshtein": 0.32}
                yield line(system, epsilon, 0, shots=4, **own, **near)


def label_rows():
    """Accuracies of one method and data set of labels."""
    own = {"method": "dp_icl", "dataset": "sst2", "query_count": 300}
    yield line("zero-shot", "", 0.8, shots=0, **own)
    yield line("majority", "", 0.5, **own)
    for epsilon, accuracy in ((1.0, 0.9), (8.0, 0.92), (math.inf, 0.93)):
        yield line("icl", epsilon, accuracy, shots=4, **own)


def written(folder: Path, results, **changes):
    return built(write_run(folder, results=results, options=OPTIONS, **changes))


def section(markdown: str, name: str) -> str:
    return markdown[markdown.index(f"\n## {name}\n") :]


def test_rouge_stands_beside_zero_shot_and_beside_the_paper(tmp_path):
    html, markdown = written(tmp_path, text_rows())
    row = [
        "0.385 ± 0.007 (paper .378)",
        "**0.415 ± 0.007** (paper .397)",
        "**0.425 ± 0.007**",
        "–",
        "0.350 ± 0.000",
    ]
    assert markdown_row(section(markdown, "ROUGE-1"), "in-context, k = 4")[1:] == row
    assert markdown_row(section(markdown, "ROUGE-L"), "in-context, k = 4")[1].endswith(
        "(paper .295)"
    )
    assert markdown_row(section(markdown, "BLEU"), "in-context, k = 4")[1] == "0.060 ± 0.000"
    assert (
        markdown_row(section(markdown, "Levenshtein similarity"), "in-context, ptr, k = 4")[1]
        == "0.320 ± 0.000"
    )
    assert markdown_row(section(markdown, "ROUGE-1"), "real rows in one prompt, k = 4")[1:4] == [
        "–",
        "–",
        "**0.445 ± 0.007** (paper .433)",
    ]
    assert markdown_row(section(markdown, "Accuracy"), "in-context, k = 4")[1] == "0.000 ± 0.000"
    assert "### DP-ICL, samsum (100 queries, 2 seeds)" in markdown
    # ROUGE-1 need not be looked for
    assert ("details", {"open": None}) in Page(html).tags


def test_what_is_not_the_papers_way_has_no_print_beside(tmp_path):
    _, markdown = written(tmp_path, text_rows())
    ptr = markdown_row(section(markdown, "ROUGE-1"), "in-context, ptr, k = 4")
    # not above zero-shot by more than noise
    assert ptr[1:4] == ["0.305 ± 0.007", "0.365 ± 0.007", "0.405 ± 0.007"]


def test_the_first_screen_and_the_figure_are_of_rouge(tmp_path):
    html, markdown = written(tmp_path, text_rows())
    for text in (html.replace("\u00a0", " "), markdown):
        assert (
            "DP-ICL on samsum, better than answers without demonstrations (0.350 on 100 rows) by "
            "more than noise: in-context answers from ε = 8 on (0.065 ± 0.064 there)." in text
        )
        assert "Of whole texts, accuracy is the share of exact matches" in text
        assert "Gains in ROUGE-1 over what does best without private data" in text
        assert "always answering the majority label" not in text
    assert "ROUGE-1 against epsilon" in html and "Accuracy against epsilon" not in html
    assert "Mean ROUGE-1 by nominal ε" in html


def test_labels_and_texts_of_one_run_are_told_apart(tmp_path):
    html, markdown = written(tmp_path, [*label_rows(), *text_rows()])
    # which are better than the majority's 0.5
    better = "better than answers without demonstrations"
    assert f"DP-ICL on sst2, {better} (0.800 on 300 rows)" in markdown
    assert f"DP-ICL on samsum, {better} (0.350 on 100 rows)" in markdown
    assert "Accuracy against epsilon" in html and "ROUGE-1 against epsilon" in html
    assert markdown_row(section(markdown, "Accuracy"), "in-context, k = 4")[1:4] == [
        "**0.900** (paper .920)",
        "**0.920** (paper .929)",
        "**0.930** (paper .929)",
    ]
    assert "what the paper prints for GPT-3 (Babbage where answers are labels)" in markdown
    assert "samsum" not in section(markdown, "ROUGE-1").split("### DP-ICL, samsum")[0]


def test_a_report_without_texts_says_nothing_of_them(tmp_path):
    for text in built(write_run(tmp_path)):
        assert "ROUGE" not in text and "whole texts" not in text and "Levenshtein" not in text


TREC = ("dp_icl", "trec", "accuracy", "icl", 4, 3.0)


@pytest.mark.parametrize(
    ("options", "cell", "printed"),
    [
        ({}, TREC, (0.2636, None)),
        ({}, ("dp_icl", "trec", "accuracy", "icl", 2, 3.0), None),
        ({}, ("dp_icl", "trec", "accuracy", "majority", None, 3.0), None),
        ({}, ("dp_icl", "trec", "balanced_accuracy", "icl", 4, 3.0), None),
        ({}, ("dp_icl", "sroie", "rouge1", "icl", 4, 3.0), None),
        ({}, ("dp_icl", "samsum", "rouge1", "few-shot", 4, math.inf), (0.433, None)),
        ({"noise": "exponential"}, TREC, None),
        ({"subsets": 30}, TREC, None),
        ({"aggregation": "soft-votes"}, TREC, None),
        (
            {"variants": {"more": {"subsets": 30}}},
            ("dp_icl", "trec", "accuracy", "icl-more", 4, 3.0),
            None,
        ),
        (
            {"variants": {"v": {"aggregation": "votes"}}},
            ("dp_icl", "trec", "accuracy", "icl-v", 4, 3.0),
            (0.2636, None),
        ),
        ({"variants": "odd"}, TREC, (0.2636, None)),
        ({}, ("few_shot_generation", "trec", "accuracy", "icl", 4, 8.0), (0.513, 0.058)),
        ({}, ("few_shot_generation", "trec", "auc", "icl", 4, 8.0), None),
    ],
)
def test_a_number_of_the_paper_is_found_for_its_own_cell_only(options, cell, printed):
    assert Paper.beside("some-model", {"dp_icl": options}).number(*cell) == printed


def test_whose_model_answered_in_the_papers_is_said_once_each():
    assert Paper().models({"dp_icl", "few_shot_generation", "gdp_tabicl"}) == (
        "Llama-2 13B, GPT-3 Babbage and GPT-3 (Babbage where answers are labels)"
    )


NOISE = [{"method": "dp_icl", "epsilon": 1.0, "here": "sigma 3.2", "published": "sigma 0.61"}]


def test_a_slice_is_another_experiment_and_the_first_thing_that_is_said_after_the_answer(tmp_path):
    smaller = {"dataset": "sst2", "slice": "few", "here": 700, "published": 40_000, "noise": NOISE}
    html, markdown = written(tmp_path, label_rows(), smaller_than_published=[smaller])
    sentence = (
        "sst2 is the slice few, with at least 700 texts of a label where 40,000 were published; "
        "the same ε takes more noise. DP-ICL at ε = 1: "
        "sigma 3.2, on the published set sigma 0.61. A paper's numbers are for the published set."
    )
    assert sentence in markdown and markdown.index(sentence) < markdown.index("DP-ICL on sst2")
    assert "Another experiment than the published one." in html
    assert story(load_run(tmp_path))[1] == sentence
    assert "On sst2 the paper had more texts, and less noise at the same ε." in section(
        markdown, "Accuracy"
    )


def test_nothing_is_said_of_a_whole_set(tmp_path):
    html, markdown = written(tmp_path, label_rows())
    assert "Another experiment" not in html and "the paper had more texts" not in markdown
