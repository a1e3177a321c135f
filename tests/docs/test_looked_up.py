"""Commands of pages that nobody follows from line to line are typed by other tests, and every block
says its kind.
"""

from __future__ import annotations

import re

import pytest

from tests.docs.looked_up import AS_THEY_STAND, NOT_TYPED, OUTSIDE, README, TYPED
from tests.docs.pages import DOCS, ROOT, Command, all_pages, steps, unnamed_blocks


def begins(line: str) -> str:
    """The longest known beginning of a command; nothing if it is unknown."""
    return max(
        (start for start in [*TYPED, *NOT_TYPED] if line.startswith(start)), key=len, default=""
    )


def lines() -> set[str]:
    return {
        step.line
        for page in OUTSIDE - {README}
        for step in steps(page)
        if isinstance(step, Command)
    }


def test_every_command_is_typed_by_a_test_or_said_why_not() -> None:
    assert sorted(line for line in lines() if not begins(line)) == []


def test_the_lists_name_nothing_else() -> None:
    assert {*TYPED, *NOT_TYPED} - {begins(line) for line in lines()} == set()


@pytest.mark.parametrize("start", TYPED)
def test_the_words_stand_in_that_test(start: str) -> None:
    file, words = TYPED[start]
    assert words in (ROOT / file).read_text("utf-8")


@pytest.mark.parametrize("page", [*all_pages(), *sorted(OUTSIDE), "../SECURITY.md"])
def test_every_block_says_of_what_kind_it_is(page: str) -> None:
    assert unnamed_blocks((DOCS / page).read_text("utf-8")) == 0


@pytest.mark.parametrize("page", [*all_pages(), *sorted(OUTSIDE), "../SECURITY.md"])
def test_a_block_of_commands_is_of_a_kind_that_is_looked_for(page: str) -> None:
    # which are typed in a shell that stays; elsewhere each line is a command
    shells = {"bash"} if page in AS_THEY_STAND else set()
    kinds = set(re.findall(r"^```(\w+)", (DOCS / page).read_text("utf-8"), re.MULTILINE))
    # signatures, which nobody types
    shown = {"py"} if page == "reference/api.md" else set()
    known = {"sh", "console", "text", "yaml", "json", "python", "bibtex", "toml"}
    assert kinds <= known | shells | shown


def test_a_block_without_a_kind_would_be_noticed() -> None:
    assert unnamed_blocks("```sh\na\n```\n\n```\nb\n```\n") == 1
