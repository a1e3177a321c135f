"""Tables of other labels: none, several classes, a number; columns with gaps; and how it reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpicl.contract import Contract, parse_contract
from dpicl.ground.randomness import Draws
from dpicl.ground.types import PrivateTable, QueryTable, SplitTable
from dpicl.methods import Options, grid, tabular, unit_of
from dpicl.quality import Quality, ReleasePoint
from dpicl.quality.replicates import quality_of
from dpicl.report.quality import quality_page
from tests.direct import point

CODES = ("a", "b", "c")


def table_of(label: str | None) -> tuple[Contract, SplitTable]:
    columns = {
        "kind": {"type": "category", "categories": list(CODES), "nullable": True},
        "size": {"type": "integer", "bounds": [0, 9]},
        "height": {"type": "real", "bounds": [0, 2], "nullable": True},
    }
    content: dict[str, Any] = {
        "version": 2,
        "name": "made_up",
        "source": {"file": "none.csv"},
        "columns": columns,
    }
    content |= {"privacy": {"budget": {"benchmark": True}}, "split": {"test_fraction": 0.5}}
    contract = parse_contract(content | ({"label": label} if label else {}), "made_up.yaml")
    assert isinstance(contract, Contract)
    rng = np.random.default_rng(0)
    size = rng.integers(0, 10, 1200)
    kind = np.where(rng.random(1200) < 0.7, size // 4, rng.integers(0, 4, 1200)).astype(np.int16)
    height = np.where(rng.random(1200) < 0.1, np.nan, size / 6 + rng.random(1200) / 4)
    declared = contract.columns["kind"]
    rows = pa.table(
        {
            "kind": pa.DictionaryArray.from_arrays(pa.array(kind), pa.array(declared.categories)),  # type: ignore[union-attr]
            "size": pa.array(size),
            "height": pa.array(height),
        }
    )
    return contract, SplitTable(
        PrivateTable(rows.slice(0, 800)), QueryTable(rows.slice(800)), np.arange(400)
    )


def quality(label: str | None, method: str, options: Any = None) -> Quality:
    contract, split = table_of(label)
    chosen = tabular(method)
    unit = unit_of(
        method,
        "made_up",
        0,
        (4.0,),
        (2,),
        (),
        False,
        Options.model_validate({method: options} if options else {}),
    )
    draws = Draws(0, "made_up", simulated=True)
    ((cell, drawn),) = grid.draw(
        chosen, split.train, contract, grid.points(chosen, unit), draws, {}
    ).items()
    place = ReleasePoint(contract, chosen, point(unit, cell))
    return quality_of(place, drawn, test=split, count=6)


LOCAL = "ldp_tabicl", {"design": "subset", "estimator": "log-linear"}
CENTRAL = "mst_tabicl", None


@pytest.mark.parametrize(
    ("method", "options", "label"),
    [
        *((*CENTRAL, label) for label in (None, "kind")),
        pytest.param(*CENTRAL, "height", marks=pytest.mark.exhaustive),
        (*LOCAL, None),
        pytest.param(*LOCAL, "size", marks=pytest.mark.exhaustive),
    ],
)
def test_every_label_has_a_quality(method: str, options: Any, label: str | None) -> None:
    found = quality(label, method, options)
    assert (
        len(found.columns) == 3
        and len(found.with_label) == (2 if label else 0)
        and found.effective_rows
    )
    assert all(
        0 < one.expected < 0.5 and one.true is not None
        for one in (*found.columns, *found.with_label)
    )
    assert [one.measure for one in found.scores] == (["AUC", "accuracy"] if label else [])
    assert all(one.low <= one.estimate <= one.high for one in found.scores)
    assert (
        found.actual is not None
        and len(found.actual.trained) == (4 if label else 0)
        and set(found.actual.total_variation) == {1, 2, 3}
    )


def test_it_reads_as_lines_and_as_a_page() -> None:
    found = quality("kind", "mst_tabicl")
    lines, page = str(found), quality_page(found)
    assert (
        lines.startswith("made_up, MST-TabICL, epsilon 4\n  as exact as ")
        and "these rows promise" in lines
        and "pMSE" in lines
    )
    for text in (
        "Quality of made_up",
        "Effective rows",
        "size &amp; label",
        "Train on released, test on real",
        f"{found.scores[0].promised:.3f}",
    ):
        assert text in page
    assert "http" not in page.replace("http-equiv", "")
