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

from dpicl.ground.errors import ParameterError
from dpicl.methods import tabular
from dpicl.quality.picture import columns_figure
from dpicl.quality.shown import Shown, Worth, shown
from dpicl.quality.worth import ReleasePoint
from tests.library.noise import protect_alike
from tests.library.tabular.test_conditions import SCHEMA, rows


@pytest.fixture(scope="module")
def release(tmp_path_factory: Any) -> Any:
    return protect_alike(
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
    release = protect_alike(
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
    (("0 to 9,999", "10,000 to 29,999", "30,000 to 99,999", "100,000 to 250,000", "none"),),
    (0.2, 0.2, 0.3, 0.2, 0.1),
    (0.02,) * 5,
    (0.0, 10_000.0, 30_000.0, 100_000.0, 250_001.0),
    ("0", "10,000", "30,000", "100,000", "250,000"),
)
COST = Shown(
    ("cost",),
    (("0 to 487", "488 to 3,905", "3,906 to 62,499", "62,500 to 500,000", "none"),),
    (0.1, 0.3, 0.4, 0.1, 0.1),
    (0.02,) * 5,
    (0.0, 488.0, 3_906.0, 62_500.0, 500_001.0),
    ("0", "488", "3,906", "62,500", "500,000"),
)


def test_bars_of_uneven_bins_are_as_wide_as_these_and_their_areas_are_the_shares() -> None:
    """What has no place on the axis is stated in words."""
    (axes,) = columns_figure([INCOME]).axes
    bars = [bar for bar in axes.patches if bar.get_width() > 1]  # type: ignore[attr-defined]
    left = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in bars]  # type: ignore[attr-defined]
    assert left == [(0, 10_000), (10_000, 30_000), (30_000, 100_000), (100_000, 250_001)]
    areas = np.array([bar.get_height() * bar.get_width() for bar in bars])  # type: ignore[attr-defined]
    assert axes.get_ylabel() == "% of rows per 10,000"
    assert areas / 10_000 == pytest.approx([20, 20, 30, 20])
    assert axes.get_title(loc="left").split("\n") == ["income", "none: 10 % ± 2"]
    names = [text.get_text() for text in axes.get_xticklabels()]
    assert names[0] == "0" and names[-1] == "250,000"


def test_bars_are_equally_wide_where_most_rows_would_be_a_sliver_of_the_axis() -> None:
    """Their heights are the shares, and the edges of bins are named, all of them."""
    figure = columns_figure([COST])
    (axes,) = figure.axes
    heights = [bar.get_height() for bar in axes.patches]  # type: ignore[attr-defined]
    assert heights == pytest.approx([10, 30, 40, 10, 10])
    assert len({bar.get_width() for bar in axes.patches}) == 1  # type: ignore[attr-defined]
    assert axes.get_ylabel() == "% of rows" and axes.get_xlabel() == "bins of unequal width"
    ticks = zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
    assert [(place, text.get_text()) for place, text in ticks] == [
        (-0.5, "0"), (0.5, "488"), (1.5, "3.9k"), (2.5, "62k"), (3.5, "500k"), (4.5, "none"),
    ]  # fmt: skip
    assert axes.get_title(loc="left") == "cost"
    FigureCanvasAgg(figure).draw()
    boxes = [text.get_window_extent() for text in axes.get_xticklabels()]
    assert not [pair for pair in combinations(boxes, 2) if pair[0].overlaps(pair[1])]


def test_a_bin_that_could_not_be_seen_on_the_axis_has_a_bar_of_its_own() -> None:
    """Of one value, at which a few rows lie."""
    (axes,) = columns_figure(
        [
            Shown(
                ("spent",),
                (("0", "1 to 99", "100 to 300"),),
                (0.1, 0.5, 0.4),
                (0.0,) * 3,
                (0.0, 1.0, 100.0, 301.0),
                ("0", "1", "100", "300"),
            )
        ]
    ).axes
    assert [bar.get_height() for bar in axes.patches] == pytest.approx([10, 50, 40])  # type: ignore[attr-defined]
    assert axes.get_xlabel() == "bins of unequal width"


@pytest.mark.parametrize(
    ("names", "shown_names"),
    [
        (("-1,000,000", "-2,500", "0.001", "0.25", "12,345,678"), "-1M -2.5k 0.001 0.25 12M"),
        (("1,001", "1,002", "1,003", "1,400", "500,000"), "1,001 1,002 1,003 1,400 500,000"),
        (
            tuple(f"{day}T00:00:00" for day in ("2018-01-01", "2018-01-02", "2018-01-03",
                                                "2018-02-01", "2025-12-31")),
            "2018-01-01 2018-01-02 2018-01-03 2018-02-01 2025-12-31",
        ),
    ],
)  # fmt: skip
def test_names_of_edges_are_as_short_as_they_can_be_told_apart(
    names: tuple[str, ...], shown_names: str
) -> None:
    (axes,) = columns_figure([replace(COST, end_names=names)]).axes
    texts = [text.get_text() for text in axes.get_xticklabels()]
    assert texts == [*shown_names.split(), "none"]


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
    true = (0.25, 0.2, 0.25, 0.15, 0.15)
    for panel, title, count in (
        (INCOME, "income\nnone: 10 %, in truth 15 %", 4),
        (COST, "cost", 5),
    ):
        known = replace(panel, true=true, errors=(0.0,) * 5)
        (axes,) = columns_figure([known]).axes
        assert axes.get_title(loc="left") == title
        (rules,) = [part for part in axes.collections if isinstance(part, LineCollection)][-1:]
        assert len(rules.get_segments()) == count
