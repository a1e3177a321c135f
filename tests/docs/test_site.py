"""The site of `make docs`: built without a warning, complete, and searched from a disk without a
network.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.browser import CHROMIUM
from tests.docs.pages import ROOT, all_pages

NAVIGATION = (ROOT / "tools" / "site" / "mkdocs.yml").read_text("utf-8")


def test_every_page_is_in_the_menu_once() -> None:
    named = re.findall(r"\bdocs/[\w/-]+\.md", NAVIGATION)
    assert sorted(named) == [f"docs/{page}" for page in all_pages()]


@pytest.mark.browser
@pytest.mark.exhaustive
def test_the_site_is_built_fetches_nothing_and_is_searched_from_a_disk() -> None:
    made = subprocess.run(
        ["make", "--no-print-directory", "docs"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    first = Path(made.stdout.splitlines()[-1])
    fetched = re.compile(
        r'<(?:script|img|iframe)[^>]* src="?https?:|<link[^>]*rel="?stylesheet"?[^>]*https?:'
    )
    pages = sorted(first.parent.rglob("*.html"))
    assert len(pages) > len(all_pages())
    assert [page.name for page in pages if fetched.search(page.read_text("utf-8"))] == []
    shown = subprocess.run(
        [
            str(CHROMIUM),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--virtual-time-budget=20000",
            "--dump-dom",
            f"{first.as_uri()}?q=subsample",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout
    assert (
        re.search(r'md-search-result__meta">\d+ matching documents', shown)
        and "mechanisms.html#gdp_tabicl" in shown
    )
