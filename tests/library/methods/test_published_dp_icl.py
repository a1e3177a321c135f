"""The numbers of DP-ICL are carried over whole and found for their own cells only."""

from __future__ import annotations

import math

import pytest

from dpicl.methods.published import ensemble_number, read_table

EPSILONS = (0, 1, 3, 8, math.inf)
LABELS = {
    "sst2": ("babbage", "davinci"),
    "amazon": ("babbage",),
    "agnews": ("babbage",),
    "trec": ("babbage", "davinci"),
}
PARTS = {"classification": 6 * 5, "docvqa": 3 + 6 * 4, "samsum": 5 * 3}


@pytest.mark.parametrize(("dataset", "models"), LABELS.items())
def test_every_accuracy_is_there(dataset: str, models: tuple[str, ...]) -> None:
    for model in models:
        assert all(
            0.2 < (ensemble_number(dataset, "accuracy", "votes", epsilon, model) or 0) < 1
            for epsilon in EPSILONS
        )
    assert (ensemble_number(dataset, "accuracy", "votes", 1, "davinci") is not None) == (
        "davinci" in models
    )


@pytest.mark.parametrize("metric", ["rouge1", "bleu", "levenshtein"])
@pytest.mark.parametrize("aggregation", ["embedding", "keywords"])
def test_every_measure_of_answers_on_documents_is_there(metric: str, aggregation: str) -> None:
    found = [ensemble_number("docvqa", metric, aggregation, epsilon) for epsilon in EPSILONS]
    assert None not in found and found == sorted(found[:4]) + found[4:]


@pytest.mark.parametrize("metric", ["rouge1", "rouge2", "rougeL"])
def test_summaries_come_nearer_with_epsilon_and_nearest_with_real_rows(metric: str) -> None:
    found = [ensemble_number("samsum", metric, "embedding", epsilon) for epsilon in EPSILONS[:4]]
    found.append(ensemble_number("samsum", metric, "few-shot", math.inf))
    assert None not in found and found == sorted(found)


@pytest.mark.parametrize(
    ("cell", "printed"),
    [
        (("sst2", "accuracy", "votes", 1), 0.9197),
        (("sst2", "accuracy", "votes", 1, "davinci"), 0.9486),
        (("agnews", "accuracy", "votes", 0), 0.526),
        (("agnews", "accuracy", "few-shot", 0), 0.526),
        (("trec", "accuracy", "votes", math.inf), 0.2632),
        (("docvqa", "bleu", "keywords", 3.0), 0.2367),
        (("docvqa", "levenshtein", "embedding", math.inf), 0.493),
        (("samsum", "rouge2", "embedding", 8), 0.159),
        (("samsum", "rougeL", "embedding", 0), 0.271),
    ],
)
def test_a_cell_is_what_the_paper_prints(cell: tuple, printed: float) -> None:
    assert ensemble_number(*cell) == printed


@pytest.mark.parametrize(
    "cell",
    [
        ("sst2", "accuracy", "votes", 2),
        ("sst2", "accuracy", "embedding", 1),
        ("sst2", "accuracy", "votes", math.nan),
        ("sst2", "rouge1", "votes", 1),
        ("samsum", "rouge1", "keywords-ptr", 1),
        ("samsum", "rouge1", "embedding", math.inf),
        ("samsum", "accuracy", "votes", 1),
        ("sroie", "rouge1", "embedding", 1),
        ("dbpedia", "accuracy", "votes", 1),
    ],
)
def test_a_cell_that_the_paper_lacks_is_none(cell: tuple) -> None:
    assert ensemble_number(*cell) is None


def test_no_cell_stands_twice() -> None:
    for part, count in PARTS.items():
        rows = [tuple(row.values()) for row in read_table(f"dp-icl-{part}")]
        assert len(rows) == count == len({row[:-1] for row in rows})
