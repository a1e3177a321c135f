"""The stored pages of reference are the generated ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpicl.mechanisms import noisy_mean
from dpicl.methods.base import head_of
from tools.reference import GENERATED, PAGES
from tools.words import NOTHING

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", sorted(GENERATED))
def test_the_stored_page_is_the_generated_one(name: str) -> None:
    stored = (PAGES / name).read_text("utf-8")
    generated = GENERATED[name]().rstrip() + "\n"
    assert stored == generated, (
        f"docs/reference/{name} is not what the code says now: `make reference` writes it"
    )


def test_no_other_page_stands_there() -> None:
    assert {path.name for path in PAGES.iterdir()} == set(GENERATED)


@pytest.mark.parametrize("name", sorted(GENERATED))
def test_links_inside_a_page_have_their_heading(name: str) -> None:
    text = (PAGES / name).read_text("utf-8")
    headings = {
        re.sub(r"[^a-z0-9_ -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in re.findall(r"^#+ .*", text, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= headings


@pytest.mark.parametrize("name", sorted(GENERATED))
def test_no_cell_is_empty_and_every_key_is_told(name: str) -> None:
    """A dash may stand for a default that there is not, never for what a key or an option is."""
    rows = [
        re.split(r" (?<!\\)\| ", line[2:-2])
        for line in (PAGES / name).read_text("utf-8").splitlines()
        if line.startswith("| ")
    ]
    assert all(cell.strip() for row in rows for cell in row)
    untold = [row[0] for row in rows if row[-1] == NOTHING]
    assert not untold, f"without a docstring below its field, or a help text: {', '.join(untold)}"


def test_every_key_of_a_shipped_contract_is_on_its_page() -> None:
    page = (PAGES / "contract.md").read_text("utf-8")
    for name in ("breast_cancer", "texts/trec"):
        text = (ROOT / "data_contracts" / f"{name}.yaml").read_text("utf-8")
        for key in re.findall(r"^([a-z_]+):", text, re.MULTILINE):
            assert f"| `{key}` |" in page, key


def test_a_head_is_read_with_its_later_lines_and_without_equations() -> None:
    sentence, fields = head_of(noisy_mean.__doc__ or "")
    assert sentence == "The mean of a bounded column from a noisy sum and a noisy count."
    assert fields["Guarantee"] == "epsilon-DP, delta = 0: half for the count, half for the sum."
    assert fields["Paper"].endswith("its sensitivity is max(|low|, |high|).")
    assert "(1)" not in fields["Paper"]


def test_a_field_of_a_head_goes_on_to_the_next_one_or_to_an_empty_line() -> None:
    """However its lines are indented: what a certificate does not promise is said whole."""
    head = (
        "Counts.\n\nUnit        a row\nNot covered queries, which are\nsent; and\n  time.\n\nMore."
    )
    assert head_of(head) == (
        "Counts.",
        {"Unit": "a row", "Not covered": "queries, which are sent; and time."},
    )
