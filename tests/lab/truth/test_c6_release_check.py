"""`make release-check` goes on where it was, and its page says what is missing, failed or of
another commit.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.benchmarks.release_check import (
    STORE,
    Result,
    Step,
    Store,
    commit_of,
    sitting,
    steps,
    written_page,
)

ROOT = Path(__file__).parents[3]


def step(
    folder: Path, name: str, code: int = 0, prints: str = "figure speed: 3 x (goal >= 2) ok"
) -> Step:
    """Leaves a mark each time it runs."""
    program = (
        f"import sys; open({str(folder / 'ran')!r}, 'a').write({name!r} + ' '); "
        f"print({prints!r}); sys.exit({code})"
    )
    return Step(name, (sys.executable, "-c", program))


def ran(folder: Path) -> list[str]:
    file = folder / "ran"
    marks = file.read_text().split() if file.exists() else []
    file.unlink(missing_ok=True)
    return marks


def test_what_has_passed_on_this_commit_is_not_run_again_and_what_failed_comes_last(
    tmp_path: Path,
) -> None:
    store, chosen = (
        Store(tmp_path / "store"),
        [step(tmp_path, "a"), step(tmp_path, "b", 1), step(tmp_path, "c")],
    )
    assert not sitting(chosen[:2], store, lambda: "one") and ran(tmp_path) == ["a", "b"]
    assert not sitting(chosen, store, lambda: "one") and ran(tmp_path) == ["c", "b"]
    mended = [chosen[0], step(tmp_path, "b"), chosen[2]]
    assert sitting(mended, store, lambda: "one") and ran(tmp_path) == ["b"]
    assert sitting(mended, store, lambda: "one") and ran(tmp_path) == []


def test_another_commit_runs_everything_again(tmp_path: Path) -> None:
    store, chosen = Store(tmp_path / "store"), [step(tmp_path, "a"), step(tmp_path, "b")]
    assert sitting(chosen, store, lambda: "one") and sitting(chosen, store, lambda: "two")
    assert ran(tmp_path) == ["a", "b", "a", "b"]


def test_a_result_that_is_of_two_commits_is_of_none(tmp_path: Path) -> None:
    store, commits = Store(tmp_path / "store"), iter(("one", "two", "two"))
    assert not sitting([step(tmp_path, "a"), step(tmp_path, "b")], store, lambda: next(commits))
    assert ran(tmp_path) == ["a"] and store.of(step(tmp_path, "a")) is None


@pytest.mark.parametrize(
    ("prints", "figures", "end"),
    [
        ("figure a: 1 (goal 1) ok", (("a", "1", "1", "ok"),), "figure a: 1 (goal 1) ok"),
        (
            "figure a b: 1,000 x (goal >= 5 x) short\nfigure c: 0 (goal 0) ok",
            (("a b", "1,000 x", ">= 5 x", "short"), ("c", "0", "0", "ok")),
            "",
        ),
        ("12 passed, 1 skipped in 3.1s\n\n", (), "12 passed, 1 skipped in 3.1s"),
        ("", (), ""),
        ("a figure: none", (), "a figure: none"),
    ],
)
def test_figures_and_ends_are_kept(
    prints: str, figures: tuple[tuple[str, ...], ...], end: str, tmp_path: Path
) -> None:
    store, one = Store(tmp_path / "store"), step(tmp_path, "bench x", prints=prints)
    sitting([one], store, lambda: "one")
    kept = store.of(one)
    assert kept is not None and kept.figures == figures and (not end or kept.end == end)
    assert (
        kept.commit == "one"
        and re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d", kept.date)
        and "cores" in kept.machine
    )


def result(
    name: str, commit: str, passed: bool = True, figures: tuple[tuple[str, str, str, str], ...] = ()
) -> Result:
    return Result(
        name, passed, commit, "2031-01-02 03:04", "2 cores", 5.0, figures, "the end | of it"
    )


def test_the_page_has_every_figure_with_commit_date_and_machine_and_names_what_is_not_there() -> (
    None
):
    figures = (("holes", "0", "0", "ok"), ("speed", "3 x", ">= 5 x", "short"))
    page = written_page(
        {
            Step("bench machine", ()): result("bench machine", "one", figures=figures),
            Step("audit x", ()): result("audit x", "one", passed=False),
            Step("chaos", ()): result("chaos", "old"),
            Step("check lint", ()): None,
        },
        "one",
    )
    assert "1 of 4 steps have passed on this commit." in page
    assert (
        "Missing: 1\n\n- check lint" in page and "Failed: 1\n\n- audit x: the end \\| of it" in page
    )
    assert "Of another commit: 1\n\n- chaos, old" in page
    assert (
        "| bench machine | speed | 3 x | >= 5 x | short | one | 2031-01-02 03:04 | 2 cores |"
        in page
    )
    assert "| chaos | 5 s | the end \\| of it |  | ok | old |" in page


@pytest.mark.exhaustive
def test_a_killed_sitting_loses_the_running_step_alone(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from lab.benchmarks.release_check import Step, "
        "Store, sitting; "
        f"store, quick = Store(Path({str(tmp_path / 'store')!r})), Step('a', (sys.executable, "
        f"'-c', 'print(1)')); "
        "sitting([quick, Step('b', (sys.executable, '-c', 'import time; time.sleep(60)'))], "
        "store, lambda: 'one')"
    )
    process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, start_new_session=True)
    try:
        until = time.monotonic() + 60
        while not (tmp_path / "store" / "b.log").exists() and time.monotonic() < until:
            time.sleep(0.05)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    store = Store(tmp_path / "store")
    kept = store.of(Step("a", ()))
    assert kept is not None and kept.passed and store.of(Step("b", ())) is None


@pytest.mark.exhaustive  # imports every topic
def test_steps_are_all_checks_tests_audits_chaos_and_parts_and_have_names_of_their_own() -> None:
    every = steps()
    names = [one.name for one in every]
    assert (
        len(set(names))
        == len(names)
        == len({Store(STORE.parent / "none").log(one) for one in every})
    )
    for beginning in (
        "check types",
        "audit end-to-end",
        "audit noisy-count",
        "audit transcripts",
        "chaos",
        "tests/truth",
        "bench machine holes",
        "bench models",
    ):
        assert any(name.startswith(beginning) for name in names), beginning
    tested = {word for one in every if one.name.startswith("tests/") for word in one.command}
    assert tested >= {
        path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")
    }


def test_a_changed_tree_is_no_commit(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=n", "-c", "user.email=e@e", *arguments],
            cwd=tmp_path,
            check=True,
            capture_output=True,
        )

    git("init", "-q")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-qm", "one")
    clean = commit_of(tmp_path)
    (tmp_path / "lab" / "benchmarks" / "speed").mkdir(parents=True)
    (tmp_path / "lab" / "benchmarks" / "speed" / "ratios.csv").write_text("written by a step")
    assert commit_of(tmp_path) == clean and re.fullmatch(r"[0-9a-f]{12}", clean)
    (tmp_path / "other").write_text("new")
    assert commit_of(tmp_path) == f"{clean}-changed"
