"""Cells open to prompt, answer, score and truth: of released demonstrations and public queries, and
of nothing else.
"""

import pyarrow as pa
import pytest

from dpicl.ground.errors import RunError
from dpicl.release.table_files import write_table
from dpicl.report import cells
from dpicl.report.load import load_cells, load_run
from dpicl.runs.artefacts import PREDICTIONS, PROMPTS

from .report_folder import Page, built, write_run

CELL, OTHER = "icl,epsilon=1.0,shots=1,rate=1/10", "icl,epsilon=5.0,shots=1,rate=1/10"
TRUTH, ANSWERS = ["Yes", "No", "Yes", "No", "Yes"], ["Yes", "No", "No", "Yes", "Yes"]
SHOWN = [3, 4, 1, 2]
"""Wrong ones first; queries are counted from one."""


@pytest.fixture
def folder(tmp_path):
    """A run on a benchmark."""
    return write_run(tmp_path, contracts={"adult": {"digest": "d", "benchmark": True}})


def prompt(key, query):
    return f"RELEASED of {key}\nQUERY {query} Answer:"


def write_unit(folder, *, answers=None, seed=0, prompts=True, labels=("No", "Yes"), truth=TRUTH):
    """What a run stores of a unit."""
    unit = folder / "units" / f"gdp_tabicl__adult__seed{seed}"
    unit.mkdir(parents=True)
    answers = answers or {CELL: ANSWERS}
    rows = [
        (key, query, truth[query], answer)
        for key, given in answers.items()
        for query, answer in enumerate(given)
    ]
    columns = dict(zip(("cell", "query", "truth", "answer"), zip(*rows, strict=True), strict=True))
    scores = {
        f"log p: {label}": [-0.25 if answer == label else -1.5 for *_, answer in rows]
        for label in labels
    }
    write_table(
        unit / PREDICTIONS,
        pa.table({name: list(values) for name, values in columns.items()} | scores),
    )
    keys = [*(answers if prompts else ()), "zero-shot,shots=0"]
    texts = [
        (key, prompt(key, query) if key in answers else f"QUERY {query} Answer:")
        for key in keys
        for query in range(len(truth))
    ]
    write_table(
        unit / PROMPTS,
        pa.table({"cell": [key for key, _ in texts], "prompt": [text for _, text in texts]}),
    )


def test_a_number_leads_to_its_answers_wrong_ones_first(folder):
    write_unit(folder)
    html, markdown = built(folder)
    page = Page(html)
    links = [
        attributes["href"][1:]
        for tag, attributes in page.tags
        if tag == "a" and attributes["href"].startswith("#cell")
    ]
    ids = [attributes.get("id") for _, attributes in page.tags]
    # the other numbers have no answers to show
    assert set(links) == {"cell-gdp_tabicl-adult-icl-1-1-0.1"}
    assert ids.count(links[0]) == 1
    assert "in-context, ε = 1, k = 1, rate = 0.1 <small>seed 0: 3 of 5 right</small>" in html
    rows = [page.row(f"seed 0, query {number}") for number in SHOWN]
    assert rows[0] == ["seed 0, query 3", "Yes", "No | wrong", "−0.250", "−1.500"]
    assert [row[2] for row in rows] == ["No | wrong", "Yes | wrong", "Yes", "No"]
    first, section = html.partition('<section id="answers"')[::2]
    assert section.count(f"RELEASED of {CELL}") == 1
    assert [section.count(f"QUERY {number - 1}") for number in SHOWN] == [1] * 4
    # the first ones
    assert first.count(f"RELEASED of {CELL}") == 1
    assert [first.count(f"QUERY {number}") for number in range(2)] == [1] * 2
    assert "up to 4 queries each of 1 of 1 cells and seeds" in html and "## Answers" not in markdown
    # the first ones
    assert markdown.count("QUERY") == 2


@pytest.mark.parametrize(
    "key",
    [
        "icl,epsilon=inf,shots=1",
        "few-shot,epsilon=inf,shots=1",
        "icl",
        "icl,epsilon=x",
        "content-free,epsilon=1.0,shots=1",
    ],
)
def test_a_cell_that_no_mechanism_protected_is_not_read(folder, key):
    write_unit(folder, answers={key: ANSWERS})
    html, _ = built(folder)
    assert "QUERY" not in html
    assert "RELEASED" not in html
    assert load_cells(folder, load_run(folder)) == cells.Cells()


@pytest.mark.parametrize("evaluation", ["", "charged", "none", "no label", "public"])
def test_of_a_private_table_public_queries_alone_are_shown_whatever_was_stored(
    tmp_path, evaluation
):
    stated = {"adult": evaluation} if evaluation else {}
    folder = write_run(tmp_path, contracts={"adult": {"digest": "d"}}, evaluation=stated)
    write_unit(folder)
    assert ("QUERY" in built(folder)[0]) == (evaluation == "public")


def test_of_an_ensemble_whose_prompts_are_private_the_queries_alone_are_shown(folder):
    write_unit(folder, prompts=False)
    html, _ = built(folder)
    assert "RELEASED" not in html and "QUERY 2 Answer:" in html
    assert "Prompts of an ensemble hold private rows and are never shown" in html


def test_answers_that_are_texts_are_neither_right_nor_wrong(folder):
    write_unit(folder, labels=(), truth=["a cat", "a dog"], answers={CELL: ["one cat", "a dog"]})
    html, _ = built(folder)
    assert "seed 0: 2 answers" in html and "wrong</small>" not in html
    assert Page(html).row("seed 0, query 1") == ["seed 0, query 1", "a cat", "one cat"]


def test_a_large_run_shows_first_seeds_and_says_how_many(folder, monkeypatch):
    monkeypatch.setattr(cells, "MOST_CHARACTERS", 315)
    for seed in (10, 2, 0):
        write_unit(folder, seed=seed, answers={CELL: ANSWERS, OTHER: ANSWERS})
    found = load_cells(folder, load_run(folder))
    assert [(one.where[2], one.key) for one in found.shown] == [
        ("0", CELL),
        ("0", OTHER),
        ("2", CELL),
    ]
    # the limit is shared by the cells of a seed
    assert found.count == 6
    assert [len(one.answers) for one in found.shown] == [4, 4, 1]
    assert "each of 3 of 6 cells and seeds" in built(folder)[0]


def test_a_run_that_stored_no_truth_has_no_such_section(folder):
    write_unit(folder)
    unit = folder / "units" / "gdp_tabicl__adult__seed0"
    (unit / PREDICTIONS).unlink()
    write_table(unit / PREDICTIONS, pa.table({"cell": [CELL], "query": [0], "answer": [1]}))
    assert 'id="answers"' not in built(folder)[0]


def test_what_is_no_parquet_is_refused(folder):
    write_unit(folder)
    (folder / "units" / "gdp_tabicl__adult__seed0" / PROMPTS).write_bytes(b"none")
    with pytest.raises(
        RunError, match=r"gdp_tabicl__adult__seed0/prompts.parquet: cannot be read as Parquet"
    ):
        built(folder)
