"""No text tells to install dpicl from a package index, which has none: whoever registers the name
there would run code beside private data.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpicl.ground.installed import EXTRA_OF, to_install

ROOT = Path(__file__).resolve().parents[2]
INSTALLS = re.compile(r"\b(?:pip3? install|pipx install|uv add|uv tool install|uvx)\b([^`\n#]*)")
FROM_AN_INDEX = re.compile(r"""(?:^|\s)["']?(?:git\+\S+|dpicl(?:[-_]lab)?(?![\w./-]))""")
PLACES = (
    "*",
    "*/*.py",
    "dpicl/**/*",
    "docs/**/*",
    "lab/**/*",
    "flows/**/*",
    "tasks/**/*",
    "infra/**/*",
)
PLACES += ("tools/**/*", "tests/**/*", "data_contracts/**/*", ".github/**/*")
TEXTS = {".md", ".py", ".toml", ".txt", ".yaml", ".yml", ".sh", ".sbatch", ".ipynb", ""}


def from_an_index(text: str) -> list[str]:
    """Commands of a text that would look for dpicl in an index."""
    return [one[0] for one in INSTALLS.finditer(text) if FROM_AN_INDEX.search(one[1])]


def sentences(text: str) -> Iterator[str]:
    """Texts of a program as they are shown: parts side by side are one, a value is `{}`."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize(
    "text",
    [
        "pip install dpicl",
        "`pip install 'dpicl[local]'`",
        'type `pip install "dpicl-lab"`',
        "pip install --upgrade dpicl==0.1.0",
        "uv add dpicl",
        "pip install numpy dpicl[plot]",
    ],
)
def test_such_a_command_is_noticed(text: str) -> None:
    assert from_an_index(text)


@pytest.mark.parametrize(
    "text",
    [
        "pip install './dpicl[plot]'",
        "pip install ./dpicl ./dpicl/lab",
        'pip install "dist/dpicl-0.1.0-py3-none-any.whl[pipeline]"',
        "pip install --no-deps dist/dpicl_lab-0.1.0-py3-none-any.whl",
        "pip install torch",
    ],
)
def test_a_clone_and_a_file_are_none(text: str) -> None:
    assert not from_an_index(text)


def test_no_file_of_the_repository_tells_to_take_it_from_an_index() -> None:
    paths = {path for place in PLACES for path in ROOT.glob(place)}
    paths = {path for path in paths if path.is_file() and path.suffix in TEXTS}
    assert {ROOT / "README.md", ROOT / "docs/how-to/install.md", ROOT / "Makefile"} <= paths
    wrong = {}
    for path in paths - {Path(__file__).resolve()}:
        name, text = str(path.relative_to(ROOT)), path.read_text("utf-8")
        shown = [*sentences(text), text] if name.endswith(".py") else [text]
        if found := [one for part in shown for one in from_an_index(part)]:
            wrong[name] = found
    assert wrong == {}


@pytest.mark.parametrize("extra", sorted(set(EXTRA_OF.values())))
def test_every_extra_is_installed_from_a_clone_and_torch_without_gigabytes(extra: str) -> None:
    hint = to_install(extra)
    assert (
        f"in the folder that contains the clone of dpicl type `pip install './dpicl[{extra}]'`"
        in hint
    )
    assert ("docs/how-to/install.md" in hint) == (extra in {"local", "tabular"})
    assert "--index-url https://download.pytorch.org/whl/cpu" in (
        ROOT / "docs/how-to/install.md"
    ).read_text("utf-8")
