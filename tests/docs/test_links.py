"""Links between pages lead somewhere, and every page is found from the index."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, all_pages

TEXTS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")] + [
    DOCS / page for page in all_pages()
]
_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def links(path: Path) -> list[str]:
    """Relative targets of a page's links and pictures, without their anchors; nothing of code."""
    text = re.sub(r"`[^`\n]*`", "", _BLOCK.sub("", path.read_text("utf-8")))
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text)]
    return [target for target in targets if target and not re.match(r"[a-z]+:", target)]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file(path: Path) -> None:
    assert [target for target in links(path) if not (path.parent / target).exists()] == []


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_test_that_a_page_names_exists(path: Path) -> None:
    named = re.findall(r"`(tests/[A-Za-z0-9_./-]+)`", path.read_text("utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_page_is_linked_from_the_index() -> None:
    linked = {(DOCS / target).resolve() for target in links(DOCS / "README.md")}
    assert [
        page
        for page in all_pages()
        if (DOCS / page).resolve() not in linked and page != "README.md"
    ] == []


def test_a_dead_link_would_be_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("[a](b.md#c) ![d](e.svg) [f](https://g.h) [i](#j) `[k](l)`\n```\n[m](n)\n```\n")
    assert links(page) == ["b.md", "e.svg"]
