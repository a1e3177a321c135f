"""A report says which answers were given, and how right they are in groups of public queries; the
numbers are those of the answers.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from dpicl.engine.table_files import read_table
from tests.harness import Place, call_main, complaint, install, run_here, said, shop, shop_rows

Capture = pytest.CaptureFixture[str]
CELL = "icl,epsilon=1.0,shots=2"


@pytest.fixture
def made(place: Place) -> Path:
    install(place, shop("kiosk"), shop_rows(120))
    return run_here(
        "asked",
        "private",
        model="fake",
        datasets=["kiosk"],
        methods=["gdp_tabicl"],
        shots=[2],
        epsilons=["1", "inf"],
        seeds=[0, 1],
    )


def _answers(run: Path, cell: str = CELL) -> pd.DataFrame:
    """Of all seeds, with the rows that were asked."""
    stored = pd.concat(
        [read_table(path).to_pandas() for path in run.glob("units/*/predictions.parquet")]
    )
    queries = read_table(run / "queries" / "kiosk.parquet").to_pandas()
    return stored[stored["cell"] == cell].merge(queries, left_on="query", right_index=True)


def test_shares_of_answers_are_those_that_were_given(made: Path) -> None:
    own = _answers(made)
    given = [
        (own["answer"] == "Yes").mean(),
        *((own.loc[own["truth"] == truth, "answer"] == "Yes").mean() for truth in ("Yes", "No")),
    ]
    shown = f"{given[0]:.2f} ({given[1]:.2f}, {given[2]:.2f})"
    page = (made / "report.md").read_text()
    assert "Which answers were given" in page and shown in page
    assert "Which answers were given" in (made / "report.html").read_text()


def test_groups_are_of_the_column_that_was_named(made: Path, capsys: Capture) -> None:
    assert "## By" not in (made / "report.md").read_text()
    said(capsys, "report", "asked", "--by", "member")
    page = (made / "report.md").read_text()
    for member in ("no", "yes"):
        own = _answers(made)
        own = own[own["member"] == member]
        accuracy, given = (own["truth"] == own["answer"]).mean(), (own["answer"] == "Yes").mean()
        assert (
            f"member {member}, {own['query'].nunique()} queries" in page
            and f"{accuracy:.2f} ({given:.2f})" in page
        )


@pytest.mark.exhaustive
def test_a_column_that_cannot_be_groups_is_one_sentence(made: Path, capsys: Capture) -> None:
    assert (
        "by=nothing: expected a column of public queries: age, bought, colour, member, spent"
        in complaint(call_main(["report", "asked", "--by", "nothing"], capsys))
    )
    assert "by=spent: expected a column of at most 20 values" in complaint(
        call_main(["report", "asked", "--by", "spent"], capsys)
    )
    (made / "queries" / "kiosk.parquet").unlink()
    assert "its queries are gone" in complaint(
        call_main(["report", "asked", "--by", "member"], capsys)
    )


def test_private_held_out_rows_are_never_shown(place: Place, capsys: Capture) -> None:
    contract = shop("kiosk")
    contract["privacy"] = {**contract["privacy"], "budget": {"epsilon": 100}}
    contract["split"] = {"test_fraction": 0.3, "query_fraction": 1.0, "evaluation_epsilon": 1}
    install(place, contract, shop_rows(200))
    run = run_here(
        "charged",
        "private",
        model="fake",
        datasets=["kiosk"],
        methods=["gdp_tabicl"],
        shots=[2],
        epsilons=["1"],
        seeds=[0],
    )
    assert (
        not list(run.glob("queries/*")) and "Which answers" not in (run / "report.md").read_text()
    )
    assert "by=member" in complaint(call_main(["report", "charged", "--by", "member"], capsys))
