"""A disk that is full is named with the file that was to be written, in one sentence, and no draft
stays.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dpicl.ground.errors import StageFailed, clean_errors
from dpicl.ground.files import publish, write_csv, write_json, write_text, write_whole
from tests.flows.test_full_disk import small_disk
from tests.harness import install, new_place, shop, shop_rows

MUCH = "x" * 20_000
WRITES: dict[str, Callable[[Path], object]] = {
    "bytes": lambda path: write_whole(path, MUCH.encode()),
    "text": lambda path: write_text(path, MUCH),
    "JSON": lambda path: write_json(path, [MUCH]),
    "a table": lambda path: write_csv(path, ["a"], [{"a": MUCH}]),
    "in pieces": lambda path: publish(path, lambda file: [file.write(b"x") for _ in MUCH]),
    "a private file": lambda path: write_text(path, MUCH, mode=0o600),
    "a folder of its own": lambda path: write_text(path.parent / "below" / path.name, MUCH),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_the_file_is_named_and_nothing_stays(
    tmp_path: Path, write: Callable[[Path], object]
) -> None:
    path = tmp_path / "small" / "file.txt"
    with small_disk(path.parent, "8k"):
        with pytest.raises(
            StageFailed, match=r"^stage: .*/file\.txt: No space left on device \(errno 28\)$"
        ):
            clean_errors("stage", write)(path)
        assert not [left for left in path.parent.rglob("*") if left.is_file()]


@pytest.mark.parametrize(
    "number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO, errno.EACCES]
)
def test_only_a_disk_s_errors_name_a_file(number: int) -> None:
    def fail() -> None:
        raise OSError(number, os.strerror(number), "/private/zq7")

    with pytest.raises(StageFailed) as failed:
        clean_errors("outer", clean_errors("inner", fail))()
    assert str(failed.value).startswith("inner: ") and os.strerror(number) in str(failed.value)
    assert ("zq7" in str(failed.value)) is (number not in (errno.EIO, errno.EACCES))


def test_a_full_out_names_its_file(tmp_path: Path) -> None:
    place = new_place(tmp_path / "place")
    name, out = (
        install(place, shop("till", private=True), shop_rows(60)),
        tmp_path / "out" / "rows.csv",
    )
    with small_disk(out.parent, "4k"):
        (out.parent / "fill").write_bytes(bytes(4096))
        done = place.dpicl("synth", name, "--epsilon", "1", "--out", str(out))
        (sentence,) = done.stderr.splitlines()
        assert (
            done.returncode == 1
            and str(out) in sentence
            and "No space left on device" in sentence
            and "not charged again" in sentence
        )
        assert [left.name for left in out.parent.iterdir()] == ["fill"]
    out.parent.mkdir(exist_ok=True)
    assert place.dpicl("synth", name, "--epsilon", "1", "--out", str(out)).returncode == 0


def test_mutants_are_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is not named, since the system names none."""
    monkeypatch.setattr("dpicl.ground.errors._OF_A_DISK", ())
    with pytest.raises(AssertionError):
        test_the_file_is_named_and_nothing_stays(tmp_path, WRITES["text"])
