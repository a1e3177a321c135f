"""Every page that a command writes, in a real browser: read at three widths, light and dark, used
by keyboard, and sorted without a network.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import CHROMIUM, Tab, faults, open_tab
from tests.pages import KINDS, written_pages

from .report_folder import built, many_rows, rows, write_run

pytestmark = pytest.mark.browser
HEAD = "document.querySelector('#accuracy thead th:nth-child(2)')"
COLUMN = (
    "[...document.querySelector('#accuracy table').tBodies[0].rows].map(row => "
    "row.cells[1].textContent)"
)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return written_pages(tmp_path_factory.mktemp("pages") / "place", KINDS[:1])


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    if CHROMIUM is None:
        # no Chromium, though DPICL_REQUIRE_BROWSER=1
        assert os.environ.get("DPICL_REQUIRE_BROWSER") != "1"
        pytest.skip("no Chromium here; install one to see the pages")
    with open_tab(tmp_path_factory.mktemp("browser")) as tab:
        yield tab


@pytest.mark.exhaustive
def test_a_report_can_be_read_at_every_width_and_used_by_keyboard(
    pages: dict[str, Path], tab: Tab
) -> None:
    _check(tab, pages[KINDS[0]])


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", KINDS[1:])
def test_so_can_the_other_pages(tmp_path: Path, tab: Tab, kind: str) -> None:
    _check(tab, written_pages(tmp_path / "place", [kind])[kind])


def _check(tab: Tab, page: Path) -> None:
    assert not faults(tab, page)
    # it asks for nothing but itself
    assert tab.fetched == [page.as_uri()]


def test_six_epsilons_fit_a_phone_a_tablet_and_a_laptop(tab: Tab, tmp_path: Path) -> None:
    model = {"name": "bundled", "kind": "bundled", "trained": True, "note": "a teaching model"}
    seconds = [
        {"method": "ldp_tabicl", "dataset": "adult", "seed": 0, "stage": "draw", "seconds": 3}
    ]
    built(
        write_run(
            tmp_path, results=many_rows(), timings=seconds, majority={"adult": 0.6}, model=model
        )
    )
    names = "['adult', 'breast_cancer'].includes(one.textContent)"
    for width, beside in ((360, 1), (820, 2), (1280, 2)):
        tab.open(tmp_path / "report.html", width=width)
        tab.unfold()
        assert not tab.run("layoutFaults()")
        assert tab.run("document.documentElement.scrollWidth") <= width
        # figures are as wide as the page lets them, never wider, and never scrolled
        panels = tab.run(
            "[...document.querySelectorAll('figure svg')].filter(shown).map(one => "
            "[one.getBoundingClientRect().right <= innerWidth, !one.closest('.scroll')])"
        )
        assert panels and all(all(fits) for fits in panels)
        titles = (
            f"[...document.querySelectorAll('figure text')].filter(one => shown(one) && {names})"
        )
        places = tab.run(f"{titles}.slice(0, 2).map(one => one.getBoundingClientRect().top)")
        assert len({round(place) for place in places}) == (1 if beside == 2 else 2)
        # the answer comes first, what it may not be read as after it
        order = tab.run("[...document.querySelector('header').children].map(one => one.className)")
        assert order[:3] == ["", "lead", "meta"] and "banner" in order[3:]


PLANTED = {
    "contrast": "<style>td { color: #999 !important; }</style>",
    "outside the window": "<p style='position: absolute; left: -200px'>out</p>",
    "cut off by its <div>": "<div style='overflow-x: hidden; width: 9rem'><p style='width: 99rem; white-space: nowrap'>a long line, of which nobody sees the end</p></div>",  # noqa: E501
    "wider than its box is not what it says": "<style>.scroll::before { content: none !important; }</style><div class='scroll'><p style='width: 99rem'>wide</p></div>",  # noqa: E501
    "px wide in a window of 360": "<div style='width: 2000px'>wide</div>",
    "letters of 6.0 px": "<p style='font-size: 6px'>small</p>",
    "its text is cut off": "<p style='width: 2rem; overflow: hidden; white-space: nowrap'>a long line</p>",  # noqa: E501
    "are not reached by Tab in order": "<a href='#accuracy' tabindex='3'>first</a>",
    "its focus is not visible": "<style>a:focus { outline: none !important; }</style>",
    "Enter does not close it": "<details onclick='return false'><summary>a fold</summary>held</details>",  # noqa: E501
}


@pytest.mark.quick("contrast")
@pytest.mark.parametrize(
    "fault",
    [
        *list(PLANTED)[:2],
        *(pytest.param(one, marks=pytest.mark.exhaustive) for one in list(PLANTED)[2:]),
    ],
)
def test_each_fault_is_found(tab: Tab, tmp_path: Path, fault: str) -> None:
    page = tmp_path / "report.html"
    html, _ = built(write_run(tmp_path))
    page.write_text(
        html.replace("script-src 'sha256-", "script-src 'unsafe-inline' 'none-").replace(
            "</main>", PLANTED[fault] + "</main>"
        )
    )
    found = faults(tab, page)
    assert any(fault in one for one in found), found


@pytest.mark.exhaustive
def test_a_table_is_sorted_by_its_head_and_keyboard_and_back(
    pages: dict[str, Path], tab: Tab
) -> None:
    tab.open(pages["report on tables"])
    tab.run(f"{HEAD}.querySelector('button').focus()")
    for order, reverse in (("ascending", False), ("descending", True)):
        tab.press("Enter")
        assert tab.run(f"{HEAD}.getAttribute('aria-sort')") == order
        shown = [float(text.partition(" ")[0]) for text in tab.run(COLUMN)]
        assert shown == sorted(shown, reverse=reverse) and len(set(shown)) > 1


@pytest.mark.exhaustive
def test_words_in_a_field_leave_what_has_them_all(pages: dict[str, Path], tab: Tab) -> None:
    tab.open(pages["report on tables"])
    visible = (
        "[...document.querySelectorAll('#answers > details > summary, #answers > "
        "h3')].filter(shown).map(one => one.textContent)"
    )
    before = tab.run(visible)
    tab.run("document.querySelector('#answers input').focus()")
    tab.type("mst k = 2")
    after = tab.run(visible)
    assert 1 < len(after) < len(before)
    assert after[0].startswith("MST-TabICL")
    assert all("k = 2" in one for one in after[1:])
    assert tab.run("document.querySelector('#answers output').textContent").startswith(
        f"{len(after) - 1} of "
    )


@pytest.mark.quick("True")
@pytest.mark.parametrize("scripts", [True, False])
def test_a_number_opens_its_answers_without_a_script_too(
    pages: dict[str, Path], tab: Tab, scripts: bool
) -> None:
    tab.open(pages["report on tables"], scripts=scripts)
    link = tab.run("document.querySelector('#accuracy td a').getAttribute('href')")
    tab.open(pages["report on tables"], scripts=scripts, fragment=link)
    assert tab.run(f"shown(document.querySelector('{link} table'))")
    assert tab.run("document.querySelectorAll('thead button').length > 0") is scripts
    if scripts:
        tab.draw()
    assert not tab.run(f"layoutFaults({str(scripts).lower()})")


def test_a_hostile_name_runs_nothing(tab: Tab, tmp_path: Path) -> None:
    hostile = (
        "<script>document.title = 'run'</script><img src=x onerror=\"document.title = 'run'\">"
    )
    built(write_run(tmp_path, results=rows(hostile), title=hostile, not_protected=[hostile]))
    tab.open(tmp_path / "report.html")
    assert tab.run("document.title") != "run" and len(tab.fetched) == 1
    tab.run(
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"document.title = "
        "1\">')"
    )
    tab.run(
        "Object.assign(document.body.appendChild(document.createElement('script')), {textContent: "
        "'document.title = 1'})"
    )
    # the page's policy allows its own script alone
    assert tab.run("document.title") != "1"
