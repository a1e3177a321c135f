"""What a picture of a release shows: its own shares, and how far they may be off."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
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
        assert found.get(name, 0) == pytest.approx(share, abs=0.01)


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
