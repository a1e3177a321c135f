"""Names that a shell completes: read from folders and files as they are, at once, with nothing
checked and nothing made.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from typing import Any

from dpicl.engine.settings import Settings
from dpicl.engine.state_home import LEDGER
from dpicl.installed import contributed

_OPENED = """SELECT json_extract(content, '$.name') FROM records WHERE kind = 'opened'
UNION SELECT key FROM records, json_each(content, '$.accounts') WHERE kind = 'adopted'"""


def _declared(part: str) -> dict[str, Any]:
    """A part of pipelines.yaml, whatever is wrong with the others."""
    import yaml

    return dict(yaml.safe_load(Settings.from_environment().pipelines.read_bytes())[part])


def _accounts() -> list[str]:
    """Of a ledger in a file; one on a server is not asked."""
    with closing(
        sqlite3.connect(
            f"{(Settings.from_environment().home / LEDGER).as_uri()}?mode=ro&immutable=1", uri=True
        )
    ) as ledger:
        return [name for (name,) in ledger.execute(_OPENED)]


def _methods() -> set[str]:
    """Of pipelines.yaml, and of other packages."""
    used = {
        name for pipeline in _declared("pipelines").values() for name in pipeline.get("methods", ())
    }
    return used | contributed("dpicl.methods").names


def _models() -> list[str]:
    from dpicl.lm.local.gguf_file import PACKAGED

    return [*_declared("models"), *PACKAGED]


def _completing(
    names: Callable[[], Iterable[str]], *, many: bool = False
) -> Callable[[str], list[str]]:
    """What completes a name, or the last of several with commas between them; nothing where the
    names cannot be read.
    """

    def complete(incomplete: str) -> list[str]:
        before, comma, _ = incomplete.rpartition(",") if many else ("", "", "")
        with suppress(Exception):  # whatever is wrong is said by the command itself
            return sorted(before + comma + name for name in set(names()) - set(before.split(",")))
        return []

    return complete


def _contracts() -> list[str]:
    return [
        *Settings.from_environment().contract_names(),
        *Settings.from_environment().text_names(),
    ]


accounts = _completing(_accounts)
contracts, many_contracts = _completing(_contracts), _completing(_contracts, many=True)
methods, many_methods = _completing(_methods), _completing(_methods, many=True)
models = _completing(_models)
pipelines = _completing(lambda: _declared("pipelines"))
runs = _completing(
    lambda: (
        folder.parent.name for folder in Settings.from_environment().runs.glob("[!.]*/plan.json")
    )
)
