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

import dpicl.installation.clean
from dpicl.ground.files import locked
from dpicl.home.accounts import newest, open_ledger
from dpicl.home.sealed import SnapshotPlace
from dpicl.home.settings import Settings
from dpicl.installation import check
from dpicl.installation.clean import clean
from dpicl.ledger import load_key
from dpicl.ledger.keys import Anchor, Head
from dpicl.runs.plan import make_plan
from dpicl.runs.run_folder import LOCK
from tests.cli.conftest import Cli
from tests.cli.test_json import printed
from tests.guard import kill_before
from tests.harness import Place, content, install, new_place, shop, well

RELEASE = "a" * 64
DAYS = 86_400.0
CANARY = b"a private value"
PROTECT = "protect till --method gdp_tabicl --shots 2 -q --out"


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """An installation that has released something; tests copy it."""
    place = new_place(tmp_path_factory.mktemp("released") / "place")
    install(place, shop("till", private=True, account="till"))
    well(place.dpicl(f"{PROTECT} {place.root / 'a.jsonl'}"))
    return place


@pytest.fixture
def place(released: Place, tmp_path: Path) -> Iterator[Place]:
    copied = Place(Path(shutil.copytree(released.root, tmp_path / "place")))
    copied.home.chmod(0o700)
    with copied.entered():
        Settings.from_environment().make_runs()
        yield copied


@pytest.fixture
def home(place: Place) -> Path:
    return place.home


def aged(path: Path, days: float) -> Path:
    """The file or folder as if it had been written so long ago."""
    then = time.time() - days * DAYS
    for part in (*path.rglob("*"), path):
        os.utime(part, (then, then))
    return path


def made(path: Path, *, days: float = 0.0, written: bytes = CANARY) -> Path:
    """A file of the installation."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_bytes(written)
    path.chmod(0o600)
    return aged(path, days)


def run(name: str, *, days: float = 0.0, private: bool = False) -> Path:
    """A run that was planned and has written something, with private rows."""
    folder = make_plan("private", {"datasets": ["breast_cancer"], "model": "fake"}, name)
    made(folder / "units" / "u" / "scored" / "1.npz")
    (folder / LOCK).touch(0o600)
    if private:
        rows = Settings.current().private("breast_cancer", name)
        made(rows / "private_table.parquet")
        aged(rows, days)
    return aged(folder, days)


def found_by(cli: Cli) -> list[dict[str, Any]]:
    """What the doctor finds, by the command: faults and notes."""
    code, out, err = cli.whole("state check --json")
    found: list[dict[str, Any]] = printed("dpicl state check", out)
    wrong = [finding for finding in found if finding["fault"]]
    assert not err and code == bool(wrong) and all(all(finding.values()) for finding in wrong)
    return found


def faults(cli: Cli) -> list[dict[str, Any]]:
    return [finding for finding in found_by(cli) if finding["fault"]]


def cleaned(cli: Cli, options: str = "") -> Any:
    return printed("dpicl state clean", cli(f"state clean --json {options}"))


def snapshot(folder: Path) -> dict[Path, tuple[bytes, float, int]]:
    return {
        path: (
            path.read_bytes() if path.is_file() else b"",
            path.stat().st_mtime,
            path.stat().st_mode,
        )
        for path in folder.rglob("*")
    }


def test_what_is_in_order_is_told_and_stays_as_it_is(home: Path, cli: Cli) -> None:
    before = snapshot(home)
    assert faults(cli) == []
    told, shown = str(found_by(cli)), cli("state check")
    assert snapshot(home) == before
    assert "records, chain intact" in told and "GB are free" in told
    assert shown.endswith("no faults; nothing was changed\n") and "fault " not in shown


def test_a_new_user_has_no_fault_and_gets_no_home(place: Place, cli: Cli, tmp_path: Path) -> None:
    new = tmp_path / "new"
    with place.entered(DPICL_HOME=str(new), DPICL_RUNS=str(new / "runs")):
        assert faults(cli) == [] and not new.exists()
        assert "0 runs and 0 leftovers" in cli("state clean") and not (new / "ledger.db").exists()


# Each rule can fail.


def _sql(home: Path, statement: str) -> None:
    with closing(sqlite3.connect(home / "ledger.db")) as connection, connection:
        connection.execute(statement)


def _over(home: Path) -> None:
    place = home / "private/journals" / RELEASE / "1/votes"
    key = load_key(home / "keys/snapshots.key")
    SnapshotPlace(place, key, lambda: 0.0).write("x", b"x", 5)


def _published_journal(home: Path) -> Path:
    with open_ledger(Settings.current()) as ledger:
        name = ledger.copy().published[0][1]
    return made(home / "private" / "journals" / name / "1" / "seed").parents[1]


def _mode(name: str, mode: int) -> Callable[[Path], None]:
    return lambda home: (home / name).chmod(mode)


FAR_HEAD = Head(99, "a" * 64)
RULES: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "home": (_mode("", 0o755), "home", "mode 0755 lets others use it"),
    "runs": (_mode("runs", 0o750), "runs", "mode 0750"),
    "key": (_mode("keys/ledger.key", 0o640), "ledger.key", "mode 0640"),
    "ledger's mode": (_mode("ledger.db", 0o644), "ledger.db", "mode 0644"),
    "release's mode": (
        lambda home: next((home / "released/till").iterdir()).chmod(0o644),
        "released/till/",
        "mode 0644",
    ),
    "private file's mode": (
        lambda home: made(home / "private/till/x/rows").chmod(0o604),
        "rows",
        "mode 0604",
    ),
    "restore": (
        lambda home: made(home / "restoring", written=b"2026-01-01 x"),
        "home",
        "a backup of 2026-01-01 is being restored",
    ),
    "edited": (
        lambda home: _sql(home, "UPDATE records SET content = replace(content, '1', '0')"),
        "ledger.db",
        "the ledger was edited",
    ),
    "another schema": (
        lambda home: _sql(home, "UPDATE programs SET schema = 9999"),
        "ledger.db",
        "schema 9999",
    ),
    "no database": (
        lambda home: (home / "ledger.db").write_bytes(b"no database" * 99),
        "ledger.db",
        "not a database",
    ),
    "anchor": (
        lambda home: Anchor(home / "ledger.anchor.json").advance(FAR_HEAD),
        "anchor.json",
        "has seen record 99",
    ),
    "receipts": (
        lambda _: newest(Settings.current()).advance(FAR_HEAD),
        "newest.json",
        "has seen record 99",
    ),
    "lost": (
        lambda home: [path.unlink() for path in home.glob("ledger.db*")],
        "ledger.db",
        "releases stand in released/",
    ),
    "no key": (lambda home: (home / "keys/ledger.key").unlink(), "ledger.key", "is gone"),
    "short key": (
        lambda home: (home / "keys/ledger.key").write_bytes(b"x"),
        "ledger.key",
        "is no secret key",
    ),
    "rows of a killed run": (
        lambda _: run("r", days=2, private=True),
        "breast_cancer/r",
        "private rows that no process works on",
    ),
    "rows of a killed release": (
        lambda home: aged(made(home / "private/till/protect-x/lock").parent, 1),
        "protect-x",
        "private rows",
    ),
    "rows of a run elsewhere": (
        lambda home: aged(made(home / "private/till/r/rows").parent, 91),
        "till/r",
        "private rows",
    ),
    "half removed": (
        lambda home: made(home / "private/till/.gone-1-0/rows"),
        ".gone-1-0",
        "was being removed",
    ),
    "journal": (_published_journal, "journals/", "journal of a release that is published"),
    "old snapshot": (_over, ".snapshot", "lifetime is over"),
    "sealed snapshot": (
        lambda home: made(home / "private/votes/r/a.snapshot"),
        ".snapshot",
        "without its key",
    ),
    "room": (lambda _: None, "home", "MB are free"),
    "package": (lambda _: None, "numpy", "was not tried"),
}
LEFTOVERS = "half removed,journal,old snapshot,rows of a killed run,rows of a killed release"


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_can_fail(
    home: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    break_it, path, sentence = RULES[rule]
    break_it(home)
    if rule == "room":
        monkeypatch.setattr(check, "LEAST_FREE_BYTES", 10**18)
    if rule == "package":
        monkeypatch.setattr(check, "requires", lambda _: ["numpy<1", 'nothing; extra == "x"'])
    before = snapshot(home)
    found = faults(cli)
    assert any(path in finding["path"] and sentence in finding["rule"] for finding in found), found
    assert len(found) == (2 if rule == "room" else 1), found
    assert snapshot(home) == before and CANARY.decode() not in str(found)


def test_a_ledger_that_is_linked_to_is_judged_by_its_own_mode(
    home: Path, cli: Cli, tmp_path: Path
) -> None:
    shutil.move(home / "ledger.db", tmp_path / "ledger.db")
    (home / "ledger.db").symlink_to(tmp_path / "ledger.db")
    assert faults(cli) == []
    (tmp_path / "ledger.db").chmod(0o640)
    assert [finding["rule"] for finding in faults(cli)] == ["mode 0640 lets others use it"]


def test_who_works_is_told_and_is_no_fault(home: Path, cli: Cli) -> None:
    with (
        locked(run("busy", private=True) / LOCK, shared=True),
        locked(Settings.current().own("locks") / "some-flow-run"),
        locked(made(home / "private/till/protect-y/lock")),
    ):
        assert faults(cli) == []
        told = str(found_by(cli))
    assert "run busy is being worked on" in told and "some-flow-run is being" in told
    assert "release protect-y is being made" in told


def test_a_draft_is_told_and_one_beside_a_release_is_left_to_the_user(home: Path, cli: Cli) -> None:
    draft = made(home / "released/till/.x.0123456789ab", days=2)
    gone = made(home / ".restoring.0123456789ab", days=2)
    assert faults(cli) == []
    assert str(found_by(cli)).count("draft of a process that was killed") == 2
    cli("state clean")
    assert draft.exists() and not gone.exists()


def test_a_file_of_the_user_is_no_draft(home: Path, cli: Cli) -> None:
    mine = ".mynotes.20240101", "runs/.backup.abcdefgh/important", ".x.0123456789ab"
    ours = (
        ".ledger.anchor.json.a_b0c1d2",
        ".benchmarks.json.0123456789ab",
        "runs/.dry-run-a_b0c1d2/plan.json",
        f"private/journals/.{RELEASE}.4711/seed",
    )
    for name in (*mine, *ours):
        made(home / name)
    aged(home, 900)
    cli("state clean")
    assert [(home / name).exists() for name in (*mine, *ours)] == [True] * 3 + [False] * 4


# What goes and what stays.


def _valuable(home: Path) -> dict[str, bytes]:
    """What no command removes."""
    kept = "released", "keys", "models", "cache", "audit"
    return {name: file for name, file in content(home).items() if name.startswith(kept)}


def test_old_runs_go_with_their_private_rows_and_nothing_else_does(home: Path, cli: Cli) -> None:
    old, busy = (run(name, days=91, private=True) for name in ("old", "busy"))
    others = ("models/tiny/weights", "audit/x.json", "runs/mine/notes.txt")
    stay = [run("new", days=89), busy, *(made(home / name, days=900) for name in others)]
    stay += [made(home / "private/journals" / RELEASE / "1/seed", days=900)]
    aged(home / "released", 900)
    before = _valuable(home)
    with locked(busy / LOCK, shared=True):
        asked = cli("state clean --dry-run")
        for phrase in (
            f"would remove {old}: run, last changed",
            "not finished: it can no longer be resumed",
            f"{home}/private/breast_cancer/old: private rows",
        ):
            assert phrase in asked
        assert old.exists() and "private_table.parquet" not in asked
        did = cli("state clean").replace("removed", "would remove")
        assert did == asked.replace("would be removed", "would remove")
        # again there is nothing to do
        assert "0 runs and 0 leftovers" in cli("state clean")
    assert not old.exists() and all(path.exists() for path in stay)
    assert [path.name for path in (home / "private/breast_cancer").iterdir()] == ["busy"]
    assert _valuable(home) == before and faults(cli)[0]["path"].endswith("breast_cancer/busy")
    with open_ledger(Settings.current()) as ledger:
        assert ledger.verify()


def test_what_stands_is_read_again_after_its_run_is_gone(place: Place, cli: Cli) -> None:
    aged(place.home / "runs", 900)
    cli("state clean --keep 1d")
    with open_ledger(Settings.current()) as ledger:
        spent = ledger.spent("till")
    cli(f"{PROTECT} {place.root / 'b.jsonl'}")
    assert (place.root / "a.jsonl").read_bytes() == (place.root / "b.jsonl").read_bytes()
    with open_ledger(Settings.current()) as ledger:
        assert ledger.spent("till") == spent


@pytest.mark.quick("30d-29-True")
@pytest.mark.parametrize(
    ("keep", "days", "stays"), [("30d", 31, False), ("30d", 29, True), ("never", 9000, True)]
)
def test_how_long_is_said_by_an_option_or_the_environment(
    place: Place, cli: Cli, keep: str, days: float, stays: bool
) -> None:
    typed = f"--keep {keep}"
    for words, stated in ((typed, {}), ("", {"DPICL_KEEP": keep}), (typed, {"DPICL_KEEP": "1d"})):
        folder = run("one", days=days)
        with place.entered(**stated):
            shown = cleaned(cli, words)
        assert folder.exists() == stays
        assert shown["bytes"] == 0 if stays else shown["bytes"] > 1000
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("keep", ["0d", "90", "-1d", "1.5d", "for ever", "999999d"])
def test_an_age_that_is_none_is_refused(place: Place, cli: Cli, keep: str) -> None:
    sentence = f"keep='{keep}': expected a number of days"
    assert sentence in cli.refused("state clean --keep", keep)
    with place.entered(DPICL_KEEP=keep):
        assert f"DPICL_KEEP='{keep}'" in cli.refused("state clean")


def test_leftovers_go_whatever_age_is_kept(home: Path, cli: Cli) -> None:
    for name in LEFTOVERS.split(","):
        RULES[name][0](home)
    assert len(faults(cli)) == 5
    removed = cleaned(cli, "--keep never")["removed"]
    # sizes of private files stay private
    assert [path["bytes"] for path in removed] == [None] * 5
    # the run may be resumed
    assert faults(cli) == [] and (home / "runs/r/plan.json").exists()


def test_a_journal_with_slots_stays(home: Path, cli: Cli) -> None:
    """Whoever has paid for queries may ask the rest of them."""
    slot = made(_published_journal(home) / "slots" / "000000.json", days=900)
    cli("state clean --keep 1d")
    assert slot.exists()


def test_a_run_that_was_changed_meanwhile_stays(place: Place) -> None:
    folder = run("old", days=91)
    removing = clean(Settings.current(), 90)
    (old,) = dpicl.installation.clean.expired(Settings.current(), time.time() - 90 * DAYS)
    made(folder / "units" / "u" / "results.json")
    assert not old.remove() and folder.exists() and list(removing) == []


def test_nothing_goes_behind_a_link(home: Path, cli: Cli, tmp_path: Path) -> None:
    """A scratch disk, an archive or another program's folder may be linked to; `private` and the
    folder of runs may be links themselves.
    """
    far = tmp_path / "far"
    rows = made(far / "private" / "till" / "r" / "rows", days=900)
    shutil.rmtree(home / "private", ignore_errors=True)
    (home / "private").symlink_to(far / "private")
    shutil.move(home / "runs", far / "runs")
    (home / "runs").symlink_to(far / "runs")
    old = run("old", days=900)
    behind = {
        "dask": (far / "scratch", "thesis/data.csv"),
        "locks": (far / "marks", "mark"),
        "private/tables": (far / "disk", "other/precious.txt"),
        f"private/journals/{RELEASE}/1/votes": (far / "votes", "x.snapshot"),
        "runs/linked": (far / "archive", "plan.json"),
    }
    for name, (folder, file) in behind.items():
        made(folder / file, days=900)
        shutil.rmtree(home / name, ignore_errors=True)
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).symlink_to(folder)
    told = str(found_by(cli)) + cli("state clean --dry-run")
    assert not any(f"{home / name}/" in told for name in behind)
    cli("state clean")
    assert all((folder / file).exists() for folder, file in behind.values())
    assert not rows.exists() and not old.exists()


@pytest.mark.exhaustive
def test_a_run_beside_goes_on(place: Place) -> None:
    """Every run of this installation but the one that works is removed, again and again."""
    grid = "--datasets till --methods gdp_tabicl --epsilons 1 --shots 2 --model fake --workers 1"
    started = place.start(f"run private {grid} --executor pool --run-id beside")
    count = 0
    while started.poll() is None:
        aged(run("old"), 3)
        count += sum(removed.is_run for removed in clean(Settings.current(), 1))
        time.sleep(0.2)
    assert started.returncode == 0 and count > 5
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
            kill_before(line, dpicl.installation.clean)
            list(clean(settings, 90))
            os._exit(0)
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(3)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("every", [61, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_cleaning_killed_at_every_line_ends_as_one_left_alone(home: Path, every: int) -> None:
    before = _valuable(home)
    for line in range(0, 5000, every):
        run("old", days=91, private=True)
        ended = ending(line, Settings.current())
        for path in home.rglob("*"):
            if path.name in ("plan.json", "private_table.parquet"):
                assert path.parent.name == "old" or ".gone-" in path.parent.name
        list(clean(Settings.current(), 90))
        assert not [*(home / "runs").iterdir(), *(home / "private").glob("breast_cancer/*")]
        assert _valuable(home) == before
        if ended == 0:
            assert line > 100
            return
        assert ended == -signal.SIGKILL
    pytest.fail("cleaning never ends")


# Backup and restore, by the command.


def test_a_backup_is_restored_by_the_command_and_says_what_to_do(
    place: Place, cli: Cli, tmp_path: Path
) -> None:
    file, key = tmp_path / "backup", tmp_path / "backup.key"
    written = printed("dpicl state backup FILE", cli(f"state backup {file} --key {key} --json"))
    assert (written["releases"], written["key_made"]) == (1, True)
    assert "1 release, up to record" in cli(f"state backup {file}-2 --key {key}")
    taken, bare = written["taken_utc"], tmp_path / "bare"
    with place.entered(DPICL_HOME=str(bare), DPICL_RUNS=str(bare / "runs")):
        told = cli(f"state restore {file} --key {key}")
        for phrase in (
            f"restored from the backup of {taken}, record {written['record']}",
            "every cap is 0 now",
            "`dpicl budget NAME --cap CAP`",
            "Count first",
        ):
            assert phrase in told
        cli(f"{PROTECT} {tmp_path / 'b.jsonl'}")
        # what was published is answered and costs nothing
        assert (tmp_path / "b.jsonl").read_bytes() == (place.root / "a.jsonl").read_bytes()
        new = f"{PROTECT} {tmp_path / 'c.jsonl'} --epsilon 2"
        raised = "`dpicl budget till --cap EPSILON` or `Session().set_cap`"
        closed = f"{raised}; closed by the restore of a backup of {taken}"
        assert f"a higher cap by {closed}" in cli.refused(new)
        contract = place.root / "contracts" / "till.yaml"
        contract.write_text(contract.read_text().replace("epsilon: 1000", "epsilon: 5000"))
        # a contract does not raise it
        assert "left 0" in cli.refused(new)
        assert (
            f"`dpicl budget till --cap 5000`, less what was released since the backup of {taken}, "
            "changes it"
        ) in cli("budget")
        cli("budget till --cap 10")
        cli(new)
        assert faults(cli) == []
    third = {"DPICL_HOME": str(tmp_path / "third"), "XDG_CONFIG_HOME": str(tmp_path / "third host")}
    with place.entered(**third):
        restore = f"state restore {file} --key {key}"
        (account,) = printed("dpicl state restore FILE", cli(f"{restore} --json"))["accounts"]
        assert account["epsilon_spent"] == 1 and "is a ledger already" in cli.refused(restore)


def test_a_release_that_the_ledger_has_lost_is_named(home: Path, cli: Cli, tmp_path: Path) -> None:
    (artefact,) = (path for path in (home / "released/till").iterdir() if "." not in path.name)
    artefact.unlink()
    line = f"state backup {tmp_path / 'backup'} --key {tmp_path / 'key'} --json"
    written = printed("dpicl state backup FILE", cli(line))
    assert written["missing"] == [f"till/{artefact.name}"]
