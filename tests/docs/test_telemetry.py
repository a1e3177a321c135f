"""Who types what a page or a message says about Prefect sends nothing to its makers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flows.environment import DEFAULTS, SERVER
from tests.docs.pages import DOCS, ROOT, all_pages

QUIET = {"PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}
PREFECT = re.compile(
    r"^(?:\S+=\S+ )*(?:prefect |python -m uvicorn .*prefect\.server)", re.MULTILINE
)
BLOCK = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
ENVIRONMENT = ". ~/dpicl.env\n"
"""A file that the page on clusters writes."""


def is_quiet(text: str) -> bool:
    """Whether a command of Prefect's comes after both variables are set in the same terminal."""
    before = text[: found.end()] if (found := PREFECT.search(text)) else ""
    return all(f"{name}={value}" in before for name, value in QUIET.items())


@pytest.mark.parametrize("page", [*all_pages(), "../README.md", "../CONTRIBUTING.md"])
def test_a_command_of_prefects_comes_after_both_variables(page: str) -> None:
    text = (DOCS / page).read_text("utf-8")
    written = re.search(r"^cat > ~/dpicl\.env.*?^END$", text, re.MULTILINE | re.DOTALL)
    sets = written[0] if written else ""
    for block in filter(PREFECT.search, BLOCK.findall(text)):
        assert is_quiet(block.replace(ENVIRONMENT, f"{sets}\n")), block


def test_the_pages_have_such_commands() -> None:
    having = {page for page in all_pages() if PREFECT.search((DOCS / page).read_text("utf-8"))}
    assert {"how-to/schedule.md", "how-to/cluster.md"} <= having


def test_messages_name_both_and_nothing_else_starts_a_server() -> None:
    assert is_quiet(SERVER) and DEFAULTS.items() >= QUIET.items()
    for path in [*(ROOT / "flows").rglob("*.py"), *(ROOT / "dpicl").rglob("*.py")]:
        bare = path.read_text("utf-8").replace(SERVER, "")
        assert "prefect server start" not in bare, path


@pytest.mark.parametrize("file", ["Makefile", "infra/Containerfile", "infra/slurm/run.sbatch"])
def test_recipes_set_both(file: str) -> None:
    text = (ROOT / Path(file)).read_text("utf-8").replace(" = ", "=")
    assert all(f"{name}={value}" in text for name, value in QUIET.items())
