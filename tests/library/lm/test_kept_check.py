"""Claims about what is found of a model once: another opening believes it, and none that reads
other weights or finds a torn file.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from dpicl.models.local.tiny import build_tiny_model
from dpicl.models.local.transformers_backend import TransformersScorer
from dpicl.models.requests import Sampling
from tests.library.lm.gguf_models import TEXTS

torch.set_num_threads(1)  # small batches on a busy machine
CHECKED = "checking on public text how it may be read"
WRITES = "checking on public text how it writes"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "dpicl"


@pytest.fixture(autouse=True)
def heard(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What the package logs reaches the test, whatever form of logs was chosen, or quiet asked for,
    in this process before.
    """
    monkeypatch.setattr(logging.getLogger("dpicl"), "propagate", True)
    models = logging.getLogger("dpicl.models")
    before = models.level
    models.setLevel(logging.INFO)
    yield
    models.setLevel(before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(build_tiny_model(tmp_path / "models", TEXTS), tmp_path / "model"))


def opened(
    folder: Path, caplog: pytest.LogCaptureFixture, **options: object
) -> tuple[TransformersScorer, bool]:
    """The model, and whether it was checked now."""
    caplog.clear()
    model = TransformersScorer(str(folder), device="cpu", **options)  # type: ignore[arg-type]
    return model, CHECKED in caplog.text


def test_a_second_opening_reads_as_the_first_and_checks_nothing(
    folder: Path, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, was_checked = opened(folder, caplog)
    texts = first.generate(TEXTS[:1], Sampling(new_tokens=4))
    assert was_checked and WRITES in caplog.text
    second, is_checked = opened(folder, caplog)
    assert not is_checked
    assert second.generate(TEXTS[:1], Sampling(new_tokens=4)) == texts
    assert WRITES not in caplog.text
    assert (second.mode, second.shares, second.writing) == (first.mode, first.shares, first.writing)
    assert second.shares
    assert second._pass is not None
    assert second._model.config._attn_implementation == first._model.config._attn_implementation
    assert np.array_equal(first.score(TEXTS, (" Yes", " No")), second.score(TEXTS, (" Yes", " No")))


def test_weights_of_the_same_size_and_time_are_checked_again(
    folder: Path, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = folder / "model.safetensors"
    time.sleep(2.1)  # of a file that has just been written no digest is kept
    opened(folder, caplog)
    assert any(
        json.loads(kept.read_text())["state"][2] == file.stat().st_size
        for kept in cache.glob("digests/*.json")
    )
    before, weights = file.stat(), load_file(file)
    save_file(
        {name: weight.flip(0) for name, weight in weights.items()}, file, metadata={"format": "pt"}
    )
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size and opened(folder, caplog)[1]


def test_another_number_format_or_way_is_checked_for_itself(
    folder: Path, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    opened(folder, caplog)
    assert opened(folder, caplog, dtype="bfloat16")[1]
    model, was_checked = opened(folder, caplog, share=False)
    assert was_checked and not model.shares
    model, is_checked = opened(folder, caplog, share=False)
    assert not is_checked and not model.shares and model._pass is None


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"reading": {"mode": {"layout": ""}, "shares": true, "own_pass": true}, "writing": null}',
        "null",
    ],
)
def test_what_is_not_whole_is_not_believed(
    folder: Path, cache: Path, caplog: pytest.LogCaptureFixture, content: str
) -> None:
    first, _ = opened(folder, caplog)
    (kept,) = cache.glob("checks/*.json")
    kept.write_text(content)
    again, was_checked = opened(folder, caplog)
    assert was_checked
    assert again.mode == first.mode
    assert json.loads(kept.read_text())["reading"]["shares"]


def test_where_nothing_can_be_kept_it_is_checked_each_time(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert [opened(folder, caplog)[1] for _ in range(2)] == [True, True]
