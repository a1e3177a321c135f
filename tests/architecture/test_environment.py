"""Where the environment is read: at the entries of a process. Stages go by the settings that were
entered.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENTRIES = {
    *("dpicl/session.py", "tasks/stages.py"),
    *("dpicl/home/benchmarks.py", "tasks/expectations.py"),  # programs of their own
}
"""Besides the command line and flows: who may
ask for `Settings.from_environment`.
"""
READERS = {
    "dpicl/home/settings.py": "the settings themselves",
    "dpicl/runs/execute.py": "what workers inherit",
    "dpicl/ground/processes.py": "what workers inherit",
    "dpicl/release/releases.py": "whether the ledger's address leads elsewhere by a variable of libpq",  # noqa: E501
    "dpicl/data/reading/database.py": "a database that a contract names by a variable, and how long it may take",  # noqa: E501
    "dpicl/ground/cache.py": "the platform's cache folder",
    "dpicl/models/local/__init__.py": "how torch's threads wait, before it is imported",
    "dpicl/models/local/gguf_file.py": "what pip inherits",
    "dpicl/ground/objects.py": "a store's own variables",
    "dpicl/models/endpoint/scorer.py": "a server's key, by the name in pipelines.yaml",
    "dpicl/runs/observed.py": "which observers are on",
    "dpicl/observers/openlineage.py": "where events go",
    "dpicl/observers/mlflow.py": "where runs are tracked",
    "dpicl/cli/contract_view.py": "whether a variable is set, for people",
}


def calls(path: Path, owner: str, name: str) -> int:
    """How often a file names `owner.name`."""
    text = path.read_text()
    nodes = ast.walk(ast.parse(text)) if name in text else ()
    return sum(
        isinstance(node, ast.Attribute) and node.attr == name and ast.unparse(node.value) == owner
        for node in nodes
    )


def places(owner: str, name: str, *folders: str) -> set[str]:
    files = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix() for path in files if calls(path, owner, name)}


def test_settings_are_read_from_the_environment_at_entries_only() -> None:
    found = places("Settings", "from_environment", "dpicl", "tasks")
    assert {path for path in found if not path.startswith("dpicl/cli/")} == ENTRIES


def test_nothing_else_reads_the_environment() -> None:
    assert places("os", "environ", "dpicl") | places("os", "getenv", "dpicl") == set(READERS)
