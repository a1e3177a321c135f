"""What Python and a notebook show of a quality, a plan, a release and a predictor; and bars."""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import dpicl
from dpicl.ground import progress as bars
from dpicl.ground.plain_table import PlainTable
from dpicl.quality.outlook import plan_table
from dpicl.release.door import schema_contract
from tests.library.noise import protect_alike
from tests.library.quality.made_up import quality, split

SCHEMA = {
    "columns": {
        "age": {"type": "integer", "bounds": [18, 90], "nullable": True},
        "city": {"type": "category", "categories": ["north", "south <b>"]},
        "bought": {"type": "category", "categories": ["no", "yes"]},
    },
    "label": "bought",
}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> dpicl.Release:
    chance = np.random.default_rng(0)
    age = chance.integers(18, 90, 900).astype(float)
    rows = pd.DataFrame(
        {
            "age": np.where(chance.random(900) < 0.4, np.nan, age),
            "city": chance.choice(["north", "south <b>"], 900),
            "bought": np.where(age + chance.normal(0, 9, 900) > 54, "yes", "no"),
        }
    )
    home = tmp_path_factory.mktemp("home")
    return protect_alike(
        rows, SCHEMA, epsilon=5, account="shop", method="mst_tabicl", population=900, home=home
    )


def test_a_quality_is_read_as_sentences_and_as_a_frame() -> None:
    found = quality(split(400, 3), "mst_tabicl", 2.0, count=4)
    assert repr(found) == str(found) and "Marginal(" not in repr(found)
    shown = found._repr_html_()
    assert shown.count("<li>") == len([*found.sentences()]) and "MST-TabICL" in shown
    frame = found.to_frame()
    assert list(frame.columns) == ["of", "name", "expected", "low", "high", "constant", "true"]
    counts = frame["of"].value_counts()
    assert counts["single columns"] == len(found.columns) and counts["model"] == 2
    scores = frame[frame["of"] == "model"].set_index("name")
    assert scores.loc["AUC", "expected"] == found.scores[0].estimate
    assert scores.loc["AUC", "constant"] == 0.5 and scores.loc["AUC", "true"] > 0
    assert frame["expected"].dtype == np.float64


def test_a_missing_value_is_shown_as_pandas_does(release: dpicl.Release) -> None:
    shown = release._repr_html_()
    assert "&lt;NA&gt;" in shown and "<td>None</td>" not in shown


def test_a_wide_table_scrolls_in_its_own_box(release: dpicl.Release) -> None:
    """And what is said of the release does not."""
    shown = release._repr_html_()
    box = shown.partition('<div style="overflow-x: auto">')[2].partition("</div>")[0]
    assert box.startswith("<table>") and box.endswith("</table>")
    assert shown.count("<table>") == 1 and "<ul>" not in box


def test_a_session_says_where_its_accounts_are_and_what_is_spent(tmp_path: Path) -> None:
    home = tmp_path / "home"
    session = dpicl.Session(home)
    assert repr(session) == f"Session in {home}\n  nothing charged" and not home.exists()
    frame = pd.DataFrame({"age": [20, 30] * 200, "bought": ["no", "yes"] * 200})
    schema = {
        "columns": {
            "age": {"type": "integer", "bounds": [18, 99]},
            "bought": {"type": "category", "categories": ["no", "yes"]},
        }
    }
    session.protect(frame, schema, epsilon=1, account="shop", budget=3, anyway=True)
    assert repr(session) == f"Session in {home}\n  shop: epsilon 1 of 3 by 1 release"
    (home / "ledger.db").unlink()  # that releases were charged in
    assert "nothing charged" not in repr(session) and "released/" in repr(session)


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda session: dpicl.protect("shop", eps=1), "'eps'; did you mean 'epsilon'?"),
        (lambda session: session.protect("shop", epsilom=1), "'epsilom'; did you mean 'epsilon'?"),
        (lambda session: dpicl.draft("shop", lable="x"), "'lable'; did you mean 'label'?"),
        (lambda session: session.quote("shop", zzz=1), "'zzz'"),
    ],
)
def test_an_argument_of_another_name_is_met_with_the_one_that_was_meant(
    tmp_path: Path, call: Any, meant: str
) -> None:
    with pytest.raises(TypeError) as refused:
        call(dpicl.Session(tmp_path))
    assert str(refused.value).endswith(f"unexpected keyword argument {meant}")


def test_a_predictor_says_what_it_was_fitted_on(release: dpicl.Release) -> None:
    predictor, rows = release.predictor(), release.table(300)
    assert repr(predictor).startswith("Predictor of bought, fitted on released rows only, by age")
    assert "released rows only" in predictor._repr_mimebundle_()["text/html"]
    assert "fitted on nothing yet" in repr(clone(predictor))
    predictor.fit(rows, rows["bought"])
    assert "given to `fit`, as private as these" in repr(predictor)
    assert "released rows only" in repr(release.predictor())


def test_a_plan_prints_the_table_of_the_shell_and_the_call_that_follows() -> None:
    plan = plan_table(schema_contract(SCHEMA), 2000, [1, 5], populations=2, trust="central")
    shown = str(plan)
    assert len(shown) < 5000 and "TablePlan(" not in shown and len(repr(plan)) < 90
    assert plan.sentence in shown and "ε = 1" in shown and "session.protect(rows, schema" in shown
    html = plan._repr_html_()
    assert html.count("<table>") == 2 and "aim_tabicl" in html and "dpicl synth" not in shown
    assert str(PlainTable(("a", "bb"), (("ccc", "d"),))) == "a    bb\nccc  d"
    assert "&lt;b&gt;" in PlainTable(("<b>",), ()).html


class Terminal(io.StringIO):
    """A standard error that a person looks at."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "kind"), [(Terminal(), "xterm"), (Terminal(), "dumb"), (io.StringIO(), "xterm")]
)
def test_a_call_that_takes_a_while_shows_a_bar_where_somebody_looks(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, kind: str
) -> None:
    # a terminal that says it is dumb, as a build server's, cannot draw one
    looked_at = stream.isatty() and kind != "dumb"
    monkeypatch.setenv("TERM", kind)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(bars, "PATIENCE", 0.05)
    with bars.progress("shop: [bold]\x1b[31m fitting", "simulations") as update:
        update(3, 12)
        until = time.monotonic() + 30
        while looked_at and "3/12" not in stream.getvalue() and time.monotonic() < until:
            time.sleep(0.05)
        with bars.progress("a call within"):
            time.sleep(0.1)
    shown = stream.getvalue()
    assert ("3/12" in shown and "simulations" in shown and "[bold]" in shown) is looked_at
    assert "\x1b[31m" not in shown and "within" not in shown and (bool(shown) is looked_at)


def test_what_is_done_soon_shows_nothing_and_neither_does_quiet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    with bars.progress("soon"):
        time.sleep(0.1)
    monkeypatch.setattr(bars, "PATIENCE", 0.01)
    bars.QUIET.set()
    try:
        with bars.progress("quiet"):
            time.sleep(0.2)
    finally:
        bars.QUIET.clear()
    assert stream.getvalue() == ""


def test_simulations_are_counted_to_their_end(
    release: dpicl.Release,
) -> None:
    from dpicl.quality.replicates import quality_of

    done: list[tuple[int, int]] = []
    place = release._point, release.published.drawn
    quality_of(*place, count=4, progress=lambda *far: done.append(far))
    assert done == [(number, 6) for number in range(1, 7)]
