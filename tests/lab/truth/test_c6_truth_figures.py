"""`make bench TOPIC=truth` has a figure for each row: how many of its inputs fail, and short where
none is tried.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.benchmarks.figures import Figures
from lab.benchmarks.truth import ROWS, row_of, rows

FILES = {
    "test_a1_one_label.py": "def test_x(): pass\ndef test_y(): assert 0\ndef test_a_mutant_is_caught(): pass\n",  # noqa: E501
    "test_b4_missing.py": "import pytest\n@pytest.mark.exhaustive\n@pytest.mark.parametrize('word', 'abc')\ndef "  # noqa: E501
    "test_x(word): pass\n",
    "test_d_witness_home.py": "import nothing_of_this_name\n",
    "test_c2_power.py": "import pytest\n@pytest.mark.skip\ndef test_x(): pass\n",
    "test_d_collect_bytes.py": "import pytest\n@pytest.fixture\ndef broken(): raise OSError\ndef test_x(broken): pass\n",  # noqa: E501
}


@pytest.mark.parametrize(
    ("file", "row"),
    [
        ("tests.truth.test_a1_one_label", "a1"),
        ("tests.truth.test_a2_postgresql", "a2"),
        ("tests/truth/test_b8_drafts.py", "b8"),
        ("tests.lab.truth.test_c6_topics_run", "c6"),
        ("tests.truth.test_d_witness_home", "d-witness"),
        ("tests.truth.test_d_infra", "d-infra"),
        ("tests.truth.test_net_closed_list", "net"),
        ("tests.truth.test_d_leaves_of_protect", "net"),
        ("tests.truth.test_other", None),
        ("tests.truth.test_d", None),
    ],
)
def test_a_file_is_of_the_row_that_its_name_begins_with(file: str, row: str | None) -> None:
    assert row_of(file) == row


def test_a_row_has_its_failing_inputs_and_one_without_any_is_short(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    figures = Figures()
    rows(figures, [str(tmp_path)], ("a1", "a2", "b4", "c2", "d-collect", "d-witness"))
    assert figures.lines == [
        ("a1-open", "1 of 2 inputs and 1 mutants", "0", False),
        ("a2-open", "no test", "0", False),
        ("b4-open", "0 of 3 inputs and 0 mutants", "0", True),
        ("c2-open", "no test", "0", False),
        ("d-collect-open", "1 of 1 inputs and 0 mutants", "0", False),
        ("d-witness-open", "1 of 1 inputs and 0 mutants", "0", False),
    ]


def test_rows_are_those_of_the_issue() -> None:
    assert len(ROWS) == len(set(ROWS)) == 7 + 1 + 8 + 6 + 6
