"""The bundled texts are always at hand, many enough for their contract, and do not name their
answer.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter

import pyarrow as pa
import pytest

from dpicl.data.text_files import load_texts, split_texts, text_violations, texts_digest
from dpicl.data.text_records import _paragraphs

from ..examples import ROOT
from ..text_contracts import TEXT_CONTRACTS

CONTRACT = TEXT_CONTRACTS["docstrings"]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return load_texts(CONTRACT, data_folder=None)


def test_they_fit_their_contract(table: pa.Table) -> None:
    assert text_violations(table, CONTRACT) == ()
    split = split_texts(table, CONTRACT)
    assert len(split.query_positions) == CONTRACT.query_count


def test_there_are_a_quarter_more_than_the_contract_says(table: pa.Table) -> None:
    """Other versions of the libraries are to fit too."""
    counts = Counter(
        zip(table.column("part").to_pylist(), table.column("label").to_pylist(), strict=True)
    )
    assert all(
        counts["train", label] >= 1.25 * rows for label, rows in CONTRACT.row_bounds.items()
    ), counts
    assert (
        sum(count for (part, _), count in counts.items() if part == "test")
        >= 2 * CONTRACT.query_count
    )
    assert max(counts.values()) <= 2 * min(
        count for (part, _), count in counts.items() if part == "train"
    )


def test_a_sentence_stands_once_and_names_no_library(table: pa.Table) -> None:
    texts = table.column("text").to_pylist()
    assert len(set(texts)) == len(texts)
    assert all(25 <= len(text) <= 240 and text.endswith(".") for text in texts)
    assert not [
        text
        for text in texts
        if re.search("numpy|pandas|scipy|scikit|sklearn", text, re.IGNORECASE)
    ]


@pytest.mark.exhaustive
def test_they_are_the_same_in_every_process_and_nothing_is_imported_for_them(
    table: pa.Table,
) -> None:
    program = (
        "import sys; from pathlib import Path; from dpicl.contract import load_contract; from "
        "dpicl.data.text_files import *;"
        "table = load_texts(load_contract(Path('data_contracts/texts/docstrings.yaml')), "
        "data_folder=None);"
        "print(texts_digest(table), *{'scipy', 'sklearn'} & set(sys.modules))"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert finished.stdout.split() == [texts_digest(table)]


SOURCE = '''
def _hidden():
    """Hidden."""


class Shown:
    """Show
    things.

    More.
    """

    def method(self, default="x"):
        r"""Do it."""

    def _private(self):
        """Hidden."""


class _Hidden:
    def method(self):
        """Hidden."""


def plain(x):
    text = """No docstring."""
    return text


def long(
    x: int = 1,
) -> int:
    """
    Return it, \\
    all of it.
    """
'''


def test_public_docstrings_are_found_and_no_others() -> None:
    assert [" ".join(paragraph.split()) for paragraph in _paragraphs(SOURCE.splitlines())] == [
        "Show things.",
        "Do it.",
        "Return it, all of it.",
    ]
