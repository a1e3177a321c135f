"""`dpicl state`: the doctor finds what is at fault and changes nothing; what is old goes, what
budgets hang on stays.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import dpicl.engine.state.clean
from dpicl.accounting.ledger import load_key
from dpicl.accounting.ledger.anchor import Anchor, Head
from dpicl.engine.open_ledger import open_ledger
from dpicl.engine.plan import make_plan
from dpicl.engine.receipts import newest
from dpicl.engine.run_folder import LOCK
from dpicl.engine.settings import Settings
from dpicl.engine.state import check
from dpicl.engine.state.clean import clean
from dpicl.files.locks import locked
from dpicl.snapshots import SnapshotPlace
from tests.cli.test_json import printed
from tests.guard import kill_before
from tests.harness import Place, call_main, complaint, content, install, said, shop, shop_rows

Capture = pytest.CaptureFixture[str]
RELEASE = "a" * 64
DAYS = 86_400.0
CANARY = b"a private value"


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """An installation that has released something; tests copy it."""
    from tests.harness import new_place

    place = new_place(tmp_path_factory.mktemp("released") / "place")
    install(place, shop("till", private=True), shop_rows(60))
    with place.entered(), pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        from dpicl.cli import main

        out = str(place.root / "a.jsonl")
        patch.setattr(
            "sys.argv",
            [
                "dpicl",
                "protect",
                "till",
                "--method",
                "gdp_tabicl",
                "--shots",
                "2",
                "--out",
                out,
                "-q",
            ],
        )
        main()
    assert not ended.value.code
    return place


@pytest.fixture
def place(released: Place, tmp_path: Path) -> Iterator[Place]:
    copied = Place(Path(shutil.copytree(released.root, tmp_path / "place")))
    copied.home.chmod(0o700)
    with copied.entered():
        Settings.from_environment().make_runs()
        yield copied


def aged(path: Path, days: float) -> Path:
    """The file or folder as if it had been written so long ago."""
    then = time.time() - days * DAYS
    for one in (*path.rglob("*"), path):
        os.utime(one, (then, then))
    return path


def made(path: Path, *, days: float = 0.0, written: bytes = CANARY) -> Path:
    """A file of the installation."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_bytes(written)
    path.chmod(0o600)
    aged(path, days)
    return path


def run(name: str, *, days: float = 0.0, private: bool = False) -> Path:
    """A run that was planned and has written something, with private rows."""
    folder = make_plan("private", {"datasets": ["breast_cancer"], "model": "fake"}, name)
    made(folder / "units" / "u" / "scored" / "1.npz")
    (folder / LOCK).touch(0o600)
    if private:
        made(Settings.current().private("breast_cancer", name) / "private_table.parquet")
        aged(Settings.current().private("breast_cancer", name), days)
    return aged(folder, days)


def found_by(capsys: Capture) -> list[dict[str, Any]]:
    """What the doctor finds, by the command: faults and notes."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr("sys.argv", ["dpicl", "state", "check", "--json"])
        from dpicl.cli import main

        main()
    out, err = capsys.readouterr()
    assert not err
    found: list[dict[str, Any]] = printed("dpicl state check", out)
    wrong = [one for one in found if one["fault"]]
    assert (ended.value.code or 0) == bool(wrong) and all(
        one["path"] and one["rule"] and one["do"] for one in wrong
    )
    return list(found)


def faults(capsys: Capture) -> list[dict[str, Any]]:
    return [one for one in found_by(capsys) if one["fault"]]


def snapshot(folder: Path) -> dict[str, tuple[bytes, float, int]]:
    return {
        str(path): (
            path.read_bytes() if path.is_file() else b"",
            path.stat().st_mtime,
            path.stat().st_mode,
        )
        for path in folder.rglob("*")
    }


def test_what_is_in_order_is_told_and_stays_as_it_is(place: Place, capsys: Capture) -> None:
    before = snapshot(place.home)
    assert faults(capsys) == []
    told, shown = str(found_by(capsys)), said(capsys, "state", "check")
    assert snapshot(place.home) == before
    assert "records, chain intact" in told and "GB are free" in told
    assert shown.endswith("no faults; nothing was changed\n") and "fault " not in shown


def test_a_new_user_has_no_fault_and_gets_no_home(
    place: Place, capsys: Capture, tmp_path: Path
) -> None:
    with place.entered(DPICL_HOME=str(tmp_path / "new"), DPICL_RUNS=str(tmp_path / "new" / "runs")):
        assert faults(capsys) == [] and not (tmp_path / "new").exists()
        assert (
            "0 runs and 0 leftovers" in said(capsys, "state", "clean")
            and not (tmp_path / "new" / "ledger.db").exists()
        )


# Each rule can fail.


def _sql(place: Place, statement: str) -> None:
    with closing(sqlite3.connect(place.home / "ledger.db")) as connection, connection:
        connection.execute(statement)


def _lose_ledger(place: Place) -> None:
    for path in place.home.glob("ledger.db*"):
        path.unlink()


def _over(place: Place) -> None:
    SnapshotPlace(
        place.home / "private/journals" / RELEASE / "1/votes",
        load_key(place.home / "keys/snapshots.key"),
        lambda: 0.0,
    ).write("x", b"x", 5)


def _published_journal(place: Place) -> None:
    with open_ledger(Settings.current()) as ledger:
        name = ledger.copy().published[0][1]
    made(place.home / "private" / "journals" / name / "1" / "seed")


RULES: dict[str, tuple[Callable[[Place], object], str, str]] = {
    "home": (lambda place: place.home.chmod(0o755), "home", "mode 0755 lets others use it"),
    "runs": (lambda place: (place.home / "runs").chmod(0o750), "runs", "mode 0750"),
    "key": (lambda place: (place.home / "keys/ledger.key").chmod(0o640), "ledger.key", "mode 0640"),
    "ledger's mode": (
        lambda place: (place.home / "ledger.db").chmod(0o644),
        "ledger.db",
        "mode 0644",
    ),
    "release's mode": (
        lambda place: next((place.home / "released/till").iterdir()).chmod(0o644),
        "released/till/",
        "mode 0644",
    ),
    "private file's mode": (
        lambda place: made(place.home / "private/till/x/rows").chmod(0o604),
        "rows",
        "mode 0604",
    ),
    "restore": (
        lambda place: made(place.home / "restoring", written=b"2026-01-01 x"),
        "home",
        "a backup of 2026-01-01 is being restored",
    ),
    "edited": (
        lambda place: _sql(place, "UPDATE records SET content = replace(content, '1', '0')"),
        "ledger.db",
        "the ledger was edited",
    ),
    "another schema": (
        lambda place: _sql(place, "UPDATE programs SET schema = 9999"),
        "ledger.db",
        "schema 9999",
    ),
    "no database": (
        lambda place: (place.home / "ledger.db").write_bytes(b"no database" * 99),
        "ledger.db",
        "not a database",
    ),
    "anchor": (
        lambda place: Anchor(place.home / "ledger.anchor.json").advance(Head(99, "a" * 64)),
        "anchor.json",
        "has seen record 99",
    ),
    "receipts": (
        lambda place: newest(Settings.current()).advance(Head(99, "a" * 64)),
        "newest.json",
        "has seen record 99",
    ),
    "lost": (_lose_ledger, "ledger.db", "releases stand in released/"),
    "no key": (lambda place: (place.home / "keys/ledger.key").unlink(), "ledger.key", "is gone"),
    "short key": (
        lambda place: (place.home / "keys/ledger.key").write_bytes(b"x"),
        "ledger.key",
        "is no secret key",
    ),
    "rows of a killed run": (
        lambda place: run("r", days=2, private=True),
        "breast_cancer/r",
        "private rows that no process works on",
    ),
    "rows of a killed release": (
        lambda place: aged(made(place.home / "private/till/protect-x/lock").parent, 1),
        "protect-x",
        "private rows",
    ),
    "rows of a run elsewhere": (
        lambda place: aged(made(place.home / "private/till/r/rows").parent, 91),
        "till/r",
        "private rows",
    ),
    "half removed": (
        lambda place: made(place.home / "private/till/.gone-1-0/rows"),
        ".gone-1-0",
        "was being removed",
    ),
    "journal": (_published_journal, "journals/", "journal of a release that is published"),
    "old snapshot": (_over, ".snapshot", "lifetime is over"),
    "sealed snapshot": (
        lambda place: made(place.home / "private/votes/r/a.snapshot"),
        ".snapshot",
        "without its key",
    ),
    "room": (lambda place: None, "home", "MB are free"),
    "package": (lambda place: None, "numpy", "was not tried"),
}


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_can_fail(
    place: Place, capsys: Capture, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    break_it, path, sentence = RULES[rule]
    break_it(place)
    if rule == "room":
        monkeypatch.setattr(check, "LEAST_FREE_BYTES", 10**18)
    if rule == "package":
        monkeypatch.setattr(check, "requires", lambda _: ["numpy<1", 'nothing; extra == "x"'])
    before = snapshot(place.home)
    found = faults(capsys)
    assert any(path in one["path"] and sentence in one["rule"] for one in found), found
    assert len(found) == (2 if rule == "room" else 1), found
    assert snapshot(place.home) == before and CANARY.decode() not in str(found)


def test_a_ledger_that_is_linked_to_is_judged_by_its_own_mode(
    place: Place, capsys: Capture, tmp_path: Path
) -> None:
    shutil.move(place.home / "ledger.db", tmp_path / "ledger.db")
    (place.home / "ledger.db").symlink_to(tmp_path / "ledger.db")
    assert faults(capsys) == []
    (tmp_path / "ledger.db").chmod(0o640)
    assert [one["rule"] for one in faults(capsys)] == ["mode 0640 lets others use it"]


def test_who_works_is_told_and_is_no_fault(place: Place, capsys: Capture) -> None:
    folder = run("busy", private=True)
    flow_run = Settings.current().own("locks") / "some-flow-run"
    with (
        locked(folder / LOCK, shared=True),
        locked(flow_run),
        locked(made(place.home / "private/till/protect-y/lock")),
    ):
        assert faults(capsys) == []
        told = str(found_by(capsys))
    assert all(
        sentence in told
        for sentence in (
            "run busy is being worked on",
            "some-flow-run is being",
            "release protect-y is being made",
        )
    )


def test_a_draft_is_told_and_one_beside_a_release_is_left_to_the_user(
    place: Place, capsys: Capture
) -> None:
    draft = made(place.home / "released/till/.x.0123456789ab", days=2)
    made(place.home / ".restoring.0123456789ab", days=2)
    assert (
        faults(capsys) == []
        and str(found_by(capsys)).count("draft of a process that was killed") == 2
    )
    said(capsys, "state", "clean")
    assert draft.exists() and not (place.home / ".restoring.0123456789ab").exists()


def test_a_file_of_the_user_is_no_draft(place: Place, capsys: Capture) -> None:
    mine = [
        made(place.home / name, days=900)
        for name in (".mynotes.20240101", "runs/.backup.abcdefgh/important", ".x.0123456789ab")
    ]
    ours = [
        made(place.home / name, days=900)
        for name in (
            ".ledger.anchor.json.a_b0c1d2",
            ".benchmarks.json.0123456789ab",
            "runs/.dry-run-a_b0c1d2/plan.json",
        )
    ]
    journal = made(place.home / "private" / "journals" / f".{RELEASE}.4711" / "seed", days=900)
    aged(place.home, 900)
    said(capsys, "state", "clean")
    assert all(path.exists() for path in mine) and not any(
        path.exists() for path in (*ours, journal)
    )


# What goes and what stays.


def _valuable(place: Place) -> dict[str, bytes]:
    """What no command removes."""
    return {
        name: one
        for name, one in content(place.home).items()
        if name.partition("/")[0] in ("released", "keys", "models", "cache", "audit")
    }


def test_old_runs_go_with_their_private_rows_and_nothing_else_does(
    place: Place, capsys: Capture
) -> None:
    old, new, busy = (
        run("old", days=91, private=True),
        run("new", days=89),
        run("busy", days=91, private=True),
    )
    made(place.home / "models/tiny/weights", days=900)
    made(place.home / "audit/x.json", days=900)
    no_run = made(place.home / "runs/mine/notes.txt", days=900)
    charged = made(place.home / "private/journals" / RELEASE / "1/seed", days=900)
    aged(place.home / "released", 900)
    before = _valuable(place)
    with locked(busy / LOCK, shared=True):
        asked = said(capsys, "state", "clean", "--dry-run")
        assert (
            old.exists()
            and f"would remove {old}: run, last changed" in asked
            and "not finished: it can no longer be resumed" in asked
        )
        assert (
            "private_table.parquet" not in asked
            and f"{place.home}/private/breast_cancer/old: private rows" in asked
        )
        did = said(capsys, "state", "clean")
        assert did.replace("removed", "would remove") == asked.replace(
            "would be removed", "would remove"
        )
        assert "0 runs and 0 leftovers" in said(capsys, "state", "clean"), (
            "again there is nothing to do"
        )
    assert (
        not old.exists() and new.exists() and busy.exists() and no_run.exists() and charged.exists()
    )
    assert [path.name for path in (place.home / "private/breast_cancer").iterdir()] == ["busy"]
    assert _valuable(place) == before and faults(capsys)[0]["path"].endswith("breast_cancer/busy")
    with open_ledger(Settings.current()) as ledger:
        assert ledger.verify()


def test_what_stands_is_read_again_after_its_run_is_gone(place: Place, capsys: Capture) -> None:
    release_it = ("protect", "till", "--method", "gdp_tabicl", "--shots", "2", "-q", "--out")
    aged(place.home / "runs", 900)
    said(capsys, "state", "clean", "--keep", "1d")
    with open_ledger(Settings.current()) as ledger:
        spent = ledger.spent("till")
    said(capsys, *release_it, str(place.root / "b.jsonl"))
    assert (place.root / "a.jsonl").read_bytes() == (place.root / "b.jsonl").read_bytes()
    with open_ledger(Settings.current()) as ledger:
        assert ledger.spent("till") == spent


@pytest.mark.quick("30d-29-True")
@pytest.mark.parametrize(
    ("keep", "days", "stays"), [("30d", 31, False), ("30d", 29, True), ("never", 9000, True)]
)
def test_how_long_is_said_by_an_option_or_the_environment(
    place: Place, capsys: Capture, keep: str, days: float, stays: bool
) -> None:
    for words, variables in (
        (("--keep", keep), {}),
        ((), {"DPICL_KEEP": keep}),
        (("--keep", keep), {"DPICL_KEEP": "1d"}),
    ):
        folder = run("one", days=days)
        with place.entered(**variables):
            shown = printed("dpicl state clean", said(capsys, "state", "clean", "--json", *words))
        assert folder.exists() == stays
        assert shown["bytes"] == 0 if stays else shown["bytes"] > 1000
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("keep", ["0d", "90", "-1d", "1.5d", "for ever", "999999d"])
def test_an_age_that_is_none_is_refused(place: Place, capsys: Capture, keep: str) -> None:
    assert f"keep='{keep}': expected a number of days" in complaint(
        call_main(["state", "clean", "--keep", keep], capsys)
    )
    with place.entered(DPICL_KEEP=keep):
        assert f"DPICL_KEEP='{keep}'" in complaint(call_main(["state", "clean"], capsys))


def test_leftovers_go_whatever_age_is_kept(place: Place, capsys: Capture) -> None:
    for name in (
        "half removed",
        "journal",
        "old snapshot",
        "rows of a killed run",
        "rows of a killed release",
    ):
        RULES[name][0](place)
    assert len(faults(capsys)) == 5
    shown = printed(
        "dpicl state clean", said(capsys, "state", "clean", "--keep", "never", "--json")
    )
    assert len(shown["removed"]) == 5 and {one["bytes"] for one in shown["removed"]} == {None}, (
        "sizes of private files are told nowhere"
    )
    assert faults(capsys) == [] and (place.home / "runs/r/plan.json").exists(), (
        "the run itself may be resumed"
    )


def test_a_journal_with_slots_stays(place: Place, capsys: Capture) -> None:
    """Whoever has paid for queries may ask the rest of them."""
    _published_journal(place)
    (folder,) = (place.home / "private/journals").iterdir()
    made(folder / "slots" / "000000.json", days=900)
    said(capsys, "state", "clean", "--keep", "1d")
    assert (folder / "slots" / "000000.json").exists()


def test_a_run_that_was_changed_meanwhile_stays(place: Place) -> None:
    folder = run("old", days=91)
    removing = clean(Settings.current(), 90)
    (one,) = dpicl.engine.state.clean.expired(Settings.current(), time.time() - 90 * DAYS)
    made(folder / "units" / "u" / "results.json")
    assert not one.remove() and folder.exists()
    assert list(removing) == []


def test_nothing_goes_behind_a_link(place: Place, capsys: Capture, tmp_path: Path) -> None:
    """A scratch disk, an archive or another program's folder may be linked to; `private` and the
    folder of runs may be links themselves.
    """
    far = tmp_path / "far"
    rows = made(far / "private" / "till" / "r" / "rows", days=900)
    shutil.rmtree(place.home / "private", ignore_errors=True)
    (place.home / "private").symlink_to(far / "private")
    shutil.move(place.home / "runs", far / "runs")
    (place.home / "runs").symlink_to(far / "runs")
    old = run("old", days=900)
    behind = {
        "dask": made(far / "scratch" / "thesis" / "data.csv", days=900),
        "locks": made(far / "marks" / "mark", days=900),
        "private/tables": made(far / "disk" / "other" / "precious.txt", days=900),
        f"private/journals/{RELEASE}/1/votes": made(far / "votes" / "x.snapshot", days=900),
        "runs/linked": made(far / "archive" / "plan.json", days=900),
    }
    for name, file in behind.items():
        shutil.rmtree(place.home / name, ignore_errors=True)
        (place.home / name).parent.mkdir(parents=True, exist_ok=True)
        (place.home / name).symlink_to(
            file.parents[1] if name in ("dask", "private/tables") else file.parent
        )
    found, listed = str(found_by(capsys)), said(capsys, "state", "clean", "--dry-run")
    assert not any(
        place.home.joinpath(name, "").as_posix() + "/" in found + listed for name in behind
    )
    said(capsys, "state", "clean")
    assert all(file.exists() for file in behind.values()) and not rows.exists() and not old.exists()


@pytest.mark.exhaustive
def test_a_run_beside_goes_on(place: Place) -> None:
    """Every run of this installation but the one that works is removed, again and again."""
    options = (
        "--datasets",
        "till",
        "--methods",
        "gdp_tabicl",
        "--epsilons",
        "1",
        "--shots",
        "2",
        "--model",
        "fake",
        "--workers",
        "1",
    )
    started = place.start("run", "private", *options, "--executor", "pool", "--run-id", "beside")
    cleaned = 0
    while started.poll() is None:
        aged(run("old"), 3)
        cleaned += sum(one.is_run for one in clean(Settings.current(), 1))
        time.sleep(0.2)
    assert started.returncode == 0 and cleaned > 5
    assert (place.run("beside") / "report.html").exists() and not place.run("old").exists()


# Killed.


def ending(line: int, settings: Settings) -> int:
    """How a child ends that cleans and is killed before the given line of the module that is
    carried out: as `os.waitstatus_to_exitcode`.

    Nothing of what this process would do at its end is done by the child, which may have been
    forked beside threads.
    """
    child = os.fork()
    if child == 0:
        try:
            kill_before(line, dpicl.engine.state.clean)
            list(clean(settings, 90))
            os._exit(0)
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(3)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("every", [61, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_cleaning_killed_at_every_line_ends_as_one_left_alone(place: Place, every: int) -> None:
    before = _valuable(place)
    for line in range(0, 5000, every):
        run("old", days=91, private=True)
        ended = ending(line, Settings.current())
        left = [
            path
            for path in place.home.rglob("*")
            if path.name in ("plan.json", "private_table.parquet")
        ]
        assert all(
            path.parent.name in ("old", path.parent.name if ".gone-" in path.parent.name else "old")
            for path in left
        )
        list(clean(Settings.current(), 90))
        assert (
            not place.run("old").exists()
            and not list((place.home / "private").glob("breast_cancer/*"))
            and not list((place.home / "runs").glob("*"))
        )
        assert _valuable(place) == before
        if ended == 0:
            assert line > 100
            return
        assert ended == -signal.SIGKILL
    pytest.fail("cleaning never ends")


# Backup and restore, by the command.


def test_a_backup_is_restored_by_the_command_and_says_what_to_do(
    place: Place, capsys: Capture, tmp_path: Path
) -> None:
    file, key = str(tmp_path / "backup"), str(tmp_path / "backup.key")
    written = printed(
        "dpicl state backup FILE", said(capsys, "state", "backup", file, "--key", key, "--json")
    )
    assert (written["releases"], written["key_made"]) == (1, True)
    assert "1 release, up to record" in said(capsys, "state", "backup", f"{file}-2", "--key", key)
    protect = ("protect", "till", "--method", "gdp_tabicl", "--shots", "2", "-q", "--out")
    with place.entered(
        DPICL_HOME=str(tmp_path / "bare"), DPICL_RUNS=str(tmp_path / "bare" / "runs")
    ):
        told = said(capsys, "state", "restore", file, "--key", key)
        assert (
            f"restored from the backup of {written['taken_utc']}, record {written['record']}"
            in told
        )
        assert (
            "every cap is 0 now" in told
            and "`dpicl budget NAME --cap CAP`" in told
            and "Count first" in told
        )
        said(capsys, *protect, str(tmp_path / "b.jsonl"))
        assert (tmp_path / "b.jsonl").read_bytes() == (place.root / "a.jsonl").read_bytes(), (
            "what was published is answered and costs nothing"
        )
        new = (*protect, str(tmp_path / "c.jsonl"), "--epsilon", "2")
        closed = (
            f"`dpicl budget till --cap EPSILON`; closed by the restore of a backup of "
            f"{written['taken_utc']}"
        )
        assert f"a higher cap by {closed}" in complaint(call_main(new, capsys))
        contract = place.root / "contracts" / "till.yaml"
        contract.write_text(contract.read_text().replace("epsilon: 1000", "epsilon: 5000"))
        assert "left 0" in complaint(call_main(new, capsys)), "a contract does not raise it"
        proposed = (
            f"`dpicl budget till --cap 5000`, less what was released since the backup of "
            f"{written['taken_utc']}, changes it"
        )
        assert proposed in said(capsys, "budget")
        said(capsys, "budget", "till", "--cap", "10")
        said(capsys, *new)
        assert faults(capsys) == []
    with place.entered(
        DPICL_HOME=str(tmp_path / "third"), XDG_CONFIG_HOME=str(tmp_path / "third host")
    ):
        restored = printed(
            "dpicl state restore FILE",
            said(capsys, "state", "restore", file, "--key", key, "--json"),
        )
        (account,) = restored["accounts"]
        assert account["epsilon_spent"] > 1
        assert "is a ledger already" in complaint(
            call_main(["state", "restore", file, "--key", key], capsys)
        )


def test_a_release_that_the_ledger_has_lost_is_named(
    place: Place, capsys: Capture, tmp_path: Path
) -> None:
    (artefact,) = (
        path for path in (place.home / "released/till").iterdir() if "." not in path.name
    )
    artefact.unlink()
    written = printed(
        "dpicl state backup FILE",
        said(
            capsys,
            "state",
            "backup",
            str(tmp_path / "backup"),
            "--key",
            str(tmp_path / "key"),
            "--json",
        ),
    )
    assert written["missing"] == [f"till/{artefact.name}"]
