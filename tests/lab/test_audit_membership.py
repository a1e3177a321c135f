"""`dpicl audit membership` shows, writes, exits by what it found, and refuses private rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness import talk
from tests.lab.test_audit_command import Capture, run


@pytest.mark.exhaustive
def test_too_few_runs_find_no_mutant_out_and_exit_with_1(tmp_path: Path, capsys: Capture) -> None:
    code, out, err = run(capsys, "membership", "--runs", "24", "--out", str(tmp_path))
    assert code == 1
    assert not talk(err)
    assert "EXCEEDED" not in out
    assert "holds" in out
    assert "NOT CAUGHT" in out
    record = json.loads((tmp_path / "membership.json").read_text())
    assert record["table"] == "made_up" and record["runs"] == 24
    honest = [one for one in record["attacks"] if not one["mutant"]]
    assert {one["nominal"] for one in honest} == {0.5, 1.0, 2.0, 4.0, 8.0} and all(
        one["passed"] for one in honest
    )
    assert all(
        one["at_least"] == max(each["at_least"] for each in one["attacks"])
        for one in record["attacks"]
    )
    assert "<svg" in (tmp_path / "membership.svg").read_text()


def test_a_private_table_is_refused_with_one_sentence_before_a_row_is_read(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "contracts").mkdir()
    lines = [
        "version: 2",
        "name: clinic",
        "source: {file: nowhere.csv}",
        "privacy: {budget: {epsilon: 1}}",
        "columns:",
    ]
    (tmp_path / "contracts" / "clinic.yaml").write_text(
        "\n".join([*lines, "  age: {type: integer, bounds: [0, 9]}", ""]), "utf-8"
    )
    monkeypatch.setenv("DPICL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DPICL_CONTRACTS", str(tmp_path / "contracts"))
    code, out, err = run(capsys, "membership", "--table", "clinic", "--out", str(tmp_path / "out"))
    assert code == 2 and not out and err.count("\n") == 1 and "charged to no budget" in err
    assert not (tmp_path / "out").exists()
