"""An upgrade finds earlier releases: their names do not change by accident."""

from __future__ import annotations

import json

import pytest

from dpicl.contract import Contract, parse_contract
from dpicl.contract.load import contract_digest
from tests.library.table_contracts import small_contract
from tests.upgrades.names import STORED, names

MEANING = (
    "{} {} have other names than before ({}), so an upgrade would charge the same releases again. "
    "If that is intended, because what is released has changed, rewrite the file with `python -m "
    "tests.upgrades.names`, raise the method's `draw_version`, and say so under Changed in "
    "CHANGELOG.md. If it is not, add a new key of a contract to its part's `unsaid`, give a "
    "renamed one a `serialization_alias`, and put a new option of a method into its `unsaid` or "
    "into POST_PROCESSING of dpicl/release/names.py."
)


@pytest.mark.parametrize("kind", ["contracts", "releases"])
def test_names_are_those_of_before(kind: str) -> None:
    stored, now = json.loads(STORED.read_text())[kind], names()[kind]
    changed = sorted(name for name in stored if now.get(name) != stored[name])
    assert not changed, MEANING.format(len(changed), kind, ", ".join(changed[:5]))
    new = sorted(now.keys() - stored.keys())
    assert not new, (
        f"{kind} without a stored name: {', '.join(new[:5])}; `python -m tests.upgrades.names` "
        f"adds them"
    )


@pytest.mark.parametrize("way", ["file", "folder"])
def test_rows_that_are_moved_keep_their_releases(way: str) -> None:
    """The place says nothing of what is released: it says which account pays."""

    def digest(**source: object) -> str:
        return contract_digest(small_contract(source={"file": None, **source}))

    before = digest(**{way: "people.parquet"})
    assert (
        digest(**{way: "s3://bucket/deep/people.parquet", "moved_from": "people.parquet"}) == before
    )
    assert digest(**{way: "other/people.parquet", "moved_from": "people.parquet"}) == before
    assert digest(**{way: "s3://bucket/deep/people.parquet"}) != before


def test_what_is_digested_is_not_what_is_read() -> None:
    moved = small_contract(
        source={"file": "s3://bucket/people.parquet", "moved_from": "people.csv"}
    )
    assert isinstance(moved, Contract) and moved.source.file == "s3://bucket/people.parquet"
    content = json.loads(moved.model_dump_json())
    assert content["source"]["file"] == "people.csv" and "moved_from" not in content["source"]
    assert isinstance(parse_contract(content, "people.yaml"), Contract)
