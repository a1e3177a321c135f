"""What a report and the last lines of `dpicl run` say: answers in groups of queries; whom a run
protected, what that promises, what came of it and what it cost.
"""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest

from dpicl.release.table_files import read_table
from tests.cli.conftest import Cli
from tests.harness import Place, install, run_here, shop, shop_rows, well

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


def test_groups_are_of_the_column_that_was_named(made: Path, cli: Cli) -> None:
    assert "## By" not in (made / "report.md").read_text()
    cli("report asked --by member")
    page = (made / "report.md").read_text()
    for member in ("no", "yes"):
        own = _answers(made)
        own = own[own["member"] == member]
        accuracy, given = (own["truth"] == own["answer"]).mean(), (own["answer"] == "Yes").mean()
        assert f"member {member}, {own['query'].nunique()} queries" in page
        assert f"{accuracy:.2f} ({given:.2f})" in page


@pytest.mark.exhaustive
def test_a_column_that_cannot_be_groups_is_one_sentence(made: Path, cli: Cli) -> None:
    assert (
        "by=nothing: expected a column of public queries: age, bought, colour, member, spent"
        in cli.refused("report asked --by nothing")
    )
    assert "by=spent: expected a column of at most 20 values" in cli.refused(
        "report asked --by spent"
    )
    (made / "queries" / "kiosk.parquet").unlink()
    assert "its queries are gone" in cli.refused("report asked --by member")


def test_private_held_out_rows_are_never_shown(place: Place, cli: Cli) -> None:
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
    assert not list(run.glob("queries/*"))
    assert "Which answers" not in (run / "report.md").read_text()
    assert "by=member" in cli.refused("report charged --by member")


REPLACED = 100 / (1 + 99 * math.exp(-1))
"""In per cent: a suspicion of 1 % after a release of epsilon 1 of half of the rows, where a row is
replaced.
"""


def test_what_a_private_run_promises_is_what_it_was_charged(place: Place) -> None:
    contract = shop("till", private=True)
    contract["privacy"] |= {"neighbours": "replace-one", "sampling_rate": "1/2"}
    install(place, contract, shop_rows(300))
    options = "--datasets till --methods gdp_tabicl --model fake --epsilons 1 --shots 2 --seeds 0"
    done = well(place.dpicl(f"run private {options} --executor pool", timeout=300))
    assert f"becomes at most {REPLACED:.3g} % at ε = 1" in done.stdout
    assert "till: 1 release" in done.stdout and " is spent." in done.stdout
