"""`dpicl audit` shows, writes and exits by what it found."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lab.audit import CASES, OTHERS
from tests.harness import talk

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    from dpicl.cli import main

    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as stopped:
        patch.setattr("sys.argv", ["dpicl", "audit", *arguments])
        main()
    out, err = capsys.readouterr()
    return int(stopped.value.code or 0), str(out), str(err)


def test_an_audit_that_passes_writes_what_it_found(tmp_path: Path, capsys: Capture) -> None:
    code, out, err = run(
        capsys, "randomised-response-2", "--runs", "5000", "--out", str(tmp_path / "out")
    )
    assert code == 0 and not talk(err)
    assert re.search(r"randomised-response-2 +1\.000 +0\.9\d\d +holds", out) and re.search(
        r"less-noise +1\.2\d\d +caught", out
    )
    assert "NOT" not in out
    (record,) = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert 0.9 < record["epsilon_at_least"] <= record["stated_epsilon"] == 1.0
    assert record["passed"] and all(mutant["caught"] for mutant in record["mutants"])
    assert "<svg" in (tmp_path / "out" / "audit.svg").read_text()


def test_a_mutant_that_is_not_caught_exits_with_1_and_the_default_folder_is_used(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPICL_HOME", str(tmp_path))
    code, out, err = run(capsys, "noisy-count", "--runs", "5")
    assert code == 1 and re.search(r"less-noise +0\.000 +NOT CAUGHT", out) and not talk(err)
    assert (tmp_path / "audit" / "audit.json").exists()


def test_without_a_name_every_audit_is_listed(tmp_path: Path, capsys: Capture) -> None:
    code, out, _ = run(capsys, "--out", str(tmp_path / "out"))
    assert code == 0
    assert out.splitlines() == [*OTHERS, *CASES]
    assert OTHERS == ("end-to-end", "membership", "transcripts", "attackers", "suites")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("noisy-cuont",), "a name that bare `dpicl audit` lists; did you mean 'noisy-count'?"),
        (("transcript",), "did you mean 'transcripts'?"),
        (("zzzz",), "expected a name that bare `dpicl audit` lists\n"),
        (("noisy-count", "--all"), "expected a name or --all, not both"),
    ],
)
def test_a_wrong_name_gets_one_whole_sentence(
    tmp_path: Path, capsys: Capture, arguments: tuple[str, ...], says: str
) -> None:
    code, out, err = run(capsys, *arguments, "--out", str(tmp_path / "out"))
    assert code == 2 and not out and err.count("\n") == 1
    assert says in err and "…" not in err
    assert not (tmp_path / "out").exists()
