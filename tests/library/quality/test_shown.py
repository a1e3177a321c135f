"""What a picture of a release shows: its own shares, and how far they may be off."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.text import Text
from pydantic import TypeAdapter

import dpicl
from dpicl.ground.errors import ParameterError
from dpicl.methods import tabular
from dpicl.quality.picture import columns_figure
from dpicl.quality.shown import Shown, Worth, shown
from dpicl.quality.worth import ReleasePoint
from tests.library.tabular.test_conditions import SCHEMA, rows


@pytest.fixture(scope="module")
def release(tmp_path_factory: Any) -> Any:
    return dpicl.protect(
        rows(), SCHEMA, epsilon=1, account="shown", budget=1, home=tmp_path_factory.mktemp("home")
    )


def panels_of(release: Any, columns: Any = None, pairs: int = 2) -> list[Shown]:
    point = ReleasePoint(release.contract, tabular(release.method), release.published.planned.point)
    return shown(point, release.published.drawn, columns, pairs, 6)


def test_shares_are_those_of_released_rows_and_errors_are_small_beside_them(release: Any) -> None:
    panels = panels_of(release)
    table = release.table(200_000)
    assert [panel.columns for panel in panels[:6]] == [(name,) for name in SCHEMA["columns"]]
    for panel in panels:
        assert sum(panel.shares) == pytest.approx(1, abs=1e-6)
        assert 0 < np.mean(panel.errors) < 0.05
        assert panel.table(panel.shares).shape == tuple(map(len, panel.bins))
    (city,) = (panel for panel in panels if panel.columns == ("city",))
    found = table.city.fillna("none").value_counts(normalize=True)
    for name, share in zip(city.bins[0], city.shares, strict=True):
        # of 16,384 rows
        assert found.get(name, 0) == pytest.approx(share, abs=0.02)


def test_the_pairs_that_depend_most_on_each_other_come_first(release: Any) -> None:
    (pair,) = (panel for panel in panels_of(release, pairs=1) if len(panel.columns) == 2)
    assert set(pair.columns) == {"city", "bought"}


def test_errors_are_where_nine_in_ten_true_shares_are(tmp_path_factory: Any) -> None:
    """Of two columns, whose noise is large."""
    frame = rows(2000)
    release = dpicl.protect(
        frame, SCHEMA, epsilon=0.3, account="bars", budget=1, home=tmp_path_factory.mktemp("bars"),
        anyway=True,
    )  # fmt: skip
    inside = total = 0
    point = ReleasePoint(release.contract, tabular(release.method), release.published.planned.point)
    for panel in shown(point, release.published.drawn, ["stars", "city"], 0, 20):
        real = frame[panel.columns[0]].fillna("none").astype(str).value_counts(normalize=True)
        for name, share, error in zip(panel.bins[0], panel.shares, panel.errors, strict=True):
            inside += abs(real.get(name, 0.0) - share) <= error
            total += 1
    assert total == 7 and inside >= 3


def test_a_figure_has_a_panel_for_each_and_a_wrong_name_is_one_sentence(release: Any) -> None:
    figure = release.plot(["city", "stars"], pairs=1, simulations=4)
    titles = [axes.get_title(loc="left") for axes in figure.axes if axes.get_title(loc="left")]
    assert [title.partition("\n")[0] for title in titles] == ["city", "stars", "city and stars"]
    with pytest.raises(ParameterError, match="columns=town: expected one of age, spent"):
        release.plot(["town"])


def test_names_in_a_figure_are_whole_and_none_covers_another() -> None:
    """Of a dozen bins with long names, and pairs of columns with long names."""
    years = tuple(f"{1942 + 5 * five}-10-02 to {1947 + 5 * five}-10-01" for five in range(12))
    tens = tuple(f"{10 * ten} to {10 * ten + 10}" for ten in range(12))
    long = ("a_rather_long_name_of_it", "another_rather_long_name")
    panels = [
        Shown(("born",), (years,), (1 / 12,) * 12, (0.01,) * 12),
        Shown(long, (tens, years), (1 / 144,) * 144, (0.01,) * 144),
        Shown(("city", "born"), (("north", "south"), years), (1 / 24,) * 24, (0.01,) * 24),
    ]
    figure = columns_figure(panels)
    FigureCanvasAgg(figure).draw()
    names = {text.get_text() for axes in figure.axes for text in axes.get_xticklabels()}
    assert names >= {*years, *tens, "north", "south"}
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert [title.replace("\n", " ") for title in titles] == [
        "born",
        f"{' and '.join(long)} 0 to 0.69 %, ± 1",
        "city and born 0 to 4.2 %, ± 1",
    ]
    shown_texts = (text for text in figure.findobj(Text) if text.get_visible() and text.get_text())
    boxes = [text.get_window_extent() for text in shown_texts]
    assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 for box in boxes)
    assert not [pair for pair in combinations(boxes, 2) if pair[0].overlaps(pair[1])]


def test_what_a_report_stores_is_read_back(release: Any) -> None:
    worth = Worth(({"a": "1"},), ("a sentence",), tuple(panels_of(release, ["stars"], 0)))
    stored = json.dumps(asdict(worth))
    assert TypeAdapter(Worth).validate_json(stored) == worth


INCOME = Shown(
    ("income",),
    (("0", "1 to 9,999", "10,000 to 29,999", "30,000 to 250,000", "none"),),
    (0.3, 0.2, 0.2, 0.2, 0.1),
    (0.02,) * 5,
    (0.0, 1.0, 10_000.0, 30_000.0, 250_001.0),
    ("0", "1", "10,000", "30,000", "250,000"),
)


def test_bars_of_uneven_bins_are_as_wide_as_these_and_their_areas_are_the_shares() -> None:
    """What has no place on the axis, and what would be a spike on it, is stated in words."""
    (axes,) = columns_figure([INCOME]).axes
    bars = [bar for bar in axes.patches if bar.get_width() > 1]  # type: ignore[attr-defined]
    left = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in bars]  # type: ignore[attr-defined]
    assert left == [(1, 10_000), (10_000, 30_000), (30_000, 250_001)]
    areas = np.array([bar.get_height() * bar.get_width() for bar in bars])  # type: ignore[attr-defined]
    assert axes.get_ylabel() == "% of rows per 10,000"
    assert areas / 10_000 == pytest.approx([20, 20, 20])
    assert axes.get_title(loc="left").split("\n") == ["income", "0: 30 % ± 2", "none: 10 % ± 2"]
    names = [text.get_text() for text in axes.get_xticklabels()]
    assert names[0] == "0" and names[-1] == "250,000"


def test_even_bins_and_categories_have_bars_beside_each_other(release: Any) -> None:
    even = Shown(("age",), (("18 to 27", "28 to 37"),), (0.4, 0.6), (0.1, 0.1), (18.0, 28.0, 38.0))
    for panel in (even, replace(INCOME, ends=(), end_names=())):
        (axes,) = columns_figure([panel]).axes
        heights = [bar.get_height() for bar in axes.patches]  # type: ignore[attr-defined]
        assert heights == pytest.approx([100 * share for share in panel.shares])
        assert axes.get_ylabel() == "% of rows"


def test_ends_of_bins_are_those_of_the_column_and_only_of_numbers(release: Any) -> None:
    for panel in panels_of(release):
        is_number = len(panel.columns) == 1 and panel.columns[0] in ("age", "spent")
        assert bool(panel.ends) >= is_number
        if is_number:
            low, high = SCHEMA["columns"][panel.columns[0]]["bounds"]
            assert panel.ends[0] == low and panel.ends[-1] in (high, high + 1)
            assert len(panel.end_names) == len(panel.ends)


def test_true_shares_are_drawn_and_stated_beside_released_ones() -> None:
    known = replace(INCOME, true=(0.35, 0.2, 0.2, 0.15, 0.1), errors=(0.0,) * 5)
    (axes,) = columns_figure([known]).axes
    assert "0: 30 %, in truth 35 %" in axes.get_title(loc="left")
    (rules,) = [part for part in axes.collections if isinstance(part, LineCollection)][-1:]
    assert len(rules.get_segments()) == 3
