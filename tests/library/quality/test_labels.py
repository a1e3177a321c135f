"""Tables of other labels: none, several classes, a number; columns with gaps; and how it reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpicl.contract import Contract, parse_contract
from dpicl.ground.types import SplitTable
from dpicl.quality import Quality
from dpicl.quality.shown import Shown
from dpicl.report.quality import quality_page, verdict
from tests.library.quality.made_up import SUBSET, coded, parted, quality


def table_of(label: str | None) -> tuple[Contract, SplitTable]:
    content: dict[str, Any] = {
        "name": "made_up",
        "source": {"file": "none.csv"},
        "columns": {
            "kind": {"type": "category", "categories": ["a", "b", "c"], "nullable": True},
            "size": {"type": "integer", "bounds": [0, 9]},
            "height": {"type": "real", "bounds": [0, 2], "nullable": True},
        },
        "privacy": {"budget": {"benchmark": True}},
        "split": {"test_fraction": 0.5},
    }
    contract = parse_contract(content | ({"label": label} if label else {}), "made_up.yaml")
    rng = np.random.default_rng(0)
    size = rng.integers(0, 10, 1200)
    kind = np.where(rng.random(1200) < 0.7, size // 4, rng.integers(0, 4, 1200))
    height = np.where(rng.random(1200) < 0.1, np.nan, size / 6 + rng.random(1200) / 4)
    rows = coded(contract, {"kind": kind, "size": size, "height": height})
    return contract, parted(rows, 800)


def quality_of_label(label: str | None, method: str, options: Any = None) -> Quality:
    contract, split = table_of(label)
    return quality(split, method, 4.0, count=6, options=options, declared=contract)


@pytest.mark.parametrize(
    ("method", "options", "label"),
    [
        ("mst_tabicl", None, None),
        ("mst_tabicl", None, "kind"),
        pytest.param("mst_tabicl", None, "height", marks=pytest.mark.exhaustive),
        ("ldp_tabicl", SUBSET, None),
        pytest.param("ldp_tabicl", SUBSET, "size", marks=pytest.mark.exhaustive),
    ],
)
def test_every_label_has_a_quality(method: str, options: Any, label: str | None) -> None:
    found = quality_of_label(label, method, options)
    assert len(found.columns) == 3 and len(found.with_label) == (2 if label else 0)
    assert found.effective_rows
    for one in (*found.columns, *found.with_label):
        assert 0 < one.expected < 0.5 and one.true is not None
    measures = {None: [], "kind": ["AUC", "accuracy"]}.get(label, ["R2", "MAE"])
    assert [one.measure for one in found.scores] == measures
    assert all(one.low <= one.estimate <= one.high for one in found.scores)
    assert len(found.actual.trained) == (4 if label else 0)
    assert set(found.actual.total_variation) == {1, 2, 3}


def test_it_reads_as_lines_and_as_a_page() -> None:
    found = quality_of_label("kind", "mst_tabicl")
    lines, page = str(found), quality_page(found)
    assert lines.startswith(
        "made_up, MST-TabICL, epsilon 4\n  noise adds less error than drawing about "
    )
    assert "on released rows it would seem" in lines and "pMSE" in lines
    for text in (
        "Quality of made_up",
        "Effective rows",
        "size &amp; kind",
        "Train on released, test on real",
        f"{found.scores[0].promised:.3f}",
    ):
        assert text in page
    assert "http" not in page.replace("http-equiv", "")
    assert page.count("the share of rows that would have to move") == 1
    heads = [
        "<h2>Errors of columns with the label",
        "<h2>A classifier",
        "<h2>Errors of pairs of columns</h2>",
    ]
    assert sorted(heads, key=page.index) == heads
    assert page.partition(heads[2])[2].lstrip().startswith("<p>The same of two columns together")


def test_a_tile_says_what_a_constant_answer_has() -> None:
    """Of as many rows as the page has tiles for."""
    for label, names in (
        ("kind", ("AUC (guessing: 0.50)", "accuracy (the most frequent label: {:.2f})")),
        ("size", ("R2 (the mean: 0.00)", "MAE (the mean: {:.2f})")),
    ):
        known = quality_of_label(label, "mst_tabicl")
        page = quality_page(replace(known, row_count=1000.0, effective_rows=400.0))
        for score, name in zip(known.scores, names, strict=True):
            assert f"<dt>{name.format(score.constant)}</dt>" in page


def test_a_page_begins_with_what_its_numbers_come_to_and_with_a_picture() -> None:
    known = quality_of_label("kind", "mst_tabicl")
    auc = known.scores[0]
    kind = Shown(("kind",), (("a", "b"),), (0.25, 0.75), (0.01, 0.01))
    contract = known.point.contract
    assert contract.label is not None and contract.label.column == "kind"
    guessing = (
        "may be no better than guessing (AUC 0.48 to 0.54, guessing has 0.5): its accuracy is then "
        "that of the most frequent answer, 0.75 of all."
    )
    better = "does better than guessing: AUC 0.70 to 0.80, where guessing has 0.5."
    no_more = (
        f"{better} Its answers may be right no more often than always the most frequent one, which "
        "has 0.75."
    )
    accuracy = replace(known.scores[1], constant=0.75, high=0.9)
    for low, high, least, told in (
        (0.48, 0.54, 0.7, guessing),
        (0.7, 0.8, 0.76, better),
        (0.7, 0.8, 0.7, no_more),
    ):
        scores = (replace(auc, low=low, high=high), replace(accuracy, low=least))
        found = replace(known, scores=scores, row_count=1000.0, effective_rows=400.0)
        assert verdict(found, [kind]) == (
            "Released columns are as exact as those of 40% of the rows without noise. A "
            f"classifier that is fitted on them {told}"
        )
        page = quality_page(found, [kind])
        assert "unknown" not in page
        assert page.index('class="lead"') < page.index("<svg") < page.index("<h2>Errors of single")
    nothing = replace(found, scores=(replace(auc, low=0.0005, high=1.0), accuracy))
    assert verdict(nothing, [kind]).endswith("fitted on them beats guessing is unknown.")
    assert "0.001" not in quality_page(nothing, [kind]).partition("<h2>A classifier")[2][:900]
    assert "AUC of a classifier fitted on released rows: unknown, as the release tells" in str(
        nothing
    )
