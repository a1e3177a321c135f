"""A run on Prefect that ends by another program's error says what and where, and no row's value."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dpicl.ground.errors import RunError
from flows import console, runtime


def test_what_kept_the_workers_from_starting_is_said_with_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def broken(_workers: int) -> Iterator[None]:
        try:
            raise OSError("too many open files")
        except OSError as error:
            raise RuntimeError("LocalWorker failed to start.\nmore") from error
        yield

    monkeypatch.setattr(runtime, "runtime", broken)
    with pytest.raises(RunError) as caught:
        console.run_on_prefect(tmp_path / "one", "demo", {}, 1, lambda _: None)
    assert str(caught.value) == (
        "run one: the orchestrator or its workers did not start (RuntimeError: LocalWorker failed "
        "to start, from OSError: too many open files); `dpicl run --resume one` does what is "
        "missing"
    )


def test_what_stops_it_later_is_named_by_its_kind_and_place_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def quiet(_workers: int) -> Iterator[None]:
        yield

    def stopped(step: str) -> None:
        if step == "running":
            raise RuntimeError("the value 4711 of a row")

    monkeypatch.setattr(runtime, "runtime", quiet)
    with pytest.raises(
        RunError, match=r"stopped by RuntimeError at test_causes\.py:\d+; "
    ) as caught:
        console.run_on_prefect(tmp_path / "one", "demo", {}, 1, stopped)
    assert "4711" not in str(caught.value)
