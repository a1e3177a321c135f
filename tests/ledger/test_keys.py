"""Release ids are the same for the same release, differ for any other, and need the key."""

from __future__ import annotations

import math
import multiprocessing
import stat
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpicl.accounting.guarantee import Neighbours
from dpicl.ground.errors import LedgerError, ParameterError
from dpicl.ledger import Described, content_version, keyed_hash, load_key, release_id
from dpicl.ledger.keys import canonical

KEY = bytes(range(32))
RELEASE: dict[str, Any] = {
    "account": "adult",
    "mechanism": "noisy-mean",
    "mechanism_version": 1,
    "parameters": {"epsilon": 1.0, "shots": 4},
    "contract_digest": "c",
    "neighbours": Neighbours.ADD_OR_REMOVE_ONE,
    "period": "once",
}


PARTS = st.lists(st.text() | st.binary() | st.integers())


def named(change: dict[str, Any]) -> str:
    facts = {**RELEASE, **change}
    described = {field.name: facts.pop(field.name) for field in fields(Described)}
    return release_id(KEY, Described(**described), **facts)


def test_the_key_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "secret.key"
    key = load_key(path)
    assert len(key) == 32 and key == load_key(path) and any(key)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [file.name for file in path.parent.iterdir()] == ["secret.key"]


def test_of_many_processes_that_make_a_key_all_get_the_first(tmp_path: Path) -> None:
    with multiprocessing.get_context("forkserver").Pool(8) as pool:
        keys = pool.map(load_key, [tmp_path / "secret.key"] * 32, chunksize=1)
    assert len(set(keys)) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["secret.key"]


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_a_key_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "secret.key"
    load_key(path)
    path.chmod(mode)
    with pytest.raises(
        LedgerError,
        match=f"secret.key: mode {mode:04o} lets others use the secret key; expected 0600",
    ):
        load_key(path)


def test_a_file_of_another_length_is_no_key(tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    path.touch(0o600)
    with pytest.raises(LedgerError, match="0 bytes are no secret key; expected 32"):
        load_key(path)


@given(PARTS, PARTS)
@example(["ab", "c"], ["a", "bc"])
@example(["1"], [1])
@example(["a"], [b"a"])
@example(["a", ""], ["a"])
def test_different_parts_have_different_hashes(one: list[Any], two: list[Any]) -> None:
    assert (keyed_hash(KEY, *one) == keyed_hash(KEY, *two)) == (
        [(type(part), part) for part in one] == [(type(part), part) for part in two]
    )


def test_a_hash_needs_the_key() -> None:
    assert content_version(KEY, b"rows") != content_version(bytes(32), b"rows")
    assert content_version(KEY, b"rows") == keyed_hash(KEY, "content", b"rows")


@pytest.mark.parametrize(
    "change",
    [
        {"account": "bank"},
        {"mechanism": "noisy-count"},
        {"mechanism_version": 2},
        {"parameters": {"epsilon": 1.0}},
        {"parameters": {"epsilon": 2.0, "shots": 4}},
        {"contract_digest": "d"},
        {"neighbours": Neighbours.REPLACE_ONE},
        {"period": "2026-12"},
    ],
)
def test_any_other_release_has_another_id(change: dict[str, Any]) -> None:
    assert named(change) != named({})


@pytest.mark.parametrize("parameters", [{"shots": 4, "epsilon": 1.0}, {"epsilon": 1, "shots": 4.0}])
def test_the_way_parameters_are_written_makes_no_other_release(parameters: dict[str, Any]) -> None:
    assert named({"parameters": parameters}) == named({})


def test_infinity_has_a_name_and_what_is_no_plain_value_is_refused() -> None:
    assert (
        canonical({"b": [math.inf, 0.1, -0.0, True, None], "a": "é"})
        == '{"a":"\\u00e9","b":["inf",0.1,0,true,null]}'
    )
    for bad in (math.nan, -math.inf, object(), {1, 2}):
        with pytest.raises(ParameterError):
            canonical({"a": [bad]})
