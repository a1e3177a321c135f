"""D, F2 to F4: what is known outside the state home: a copy put back, a lost ledger or a home that
goes by the working directory spends nothing twice.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import delete

import dpicl
import dpicl.home.settings
from dpicl.accounting.events import approximate
from dpicl.accounting.guarantee import Guarantee
from dpicl.ground.errors import BudgetError, DpiclError, LedgerRefusedError, ParameterError
from dpicl.home import accounts
from dpicl.home.accounts import ledger_key, open_ledger, witness_of, write_cap
from dpicl.home.sealed import read_archive, read_key
from dpicl.home.settings import Settings
from dpicl.installation.check import findings
from dpicl.installation.restore import adopt, back_up, restore
from dpicl.ledger import Account, chain, witness
from dpicl.ledger.database import records
from dpicl.ledger.keys import Head
from dpicl.ledger.witness import Witness
from tests.harness import complaint, content, install, new_place, shop, shop_rows
from tests.ledger.workload import ADD, cost, release
from tests.tasks.test_adopt import draw

CAP = 2.0


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    """Of a fresh installation, whose user has a table."""
    witness._told.clear()
    with new_place(tmp_path / "place").entered():
        (tmp_path / "people.csv").write_text("a\n1\n")
        yield Settings.from_environment()


def at(settings: Settings, home: Path) -> Settings:
    return replace(settings, home=home, runs=home / "runs")


def people(settings: Settings) -> str:
    return f"file:{settings.home.parents[1] / 'people.csv'}"


def told(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What was logged of witnesses; a server of other tests may log too."""
    return [record for record in caplog.records if record.name == "dpicl.witness"]


def spend(
    settings: Settings, name: str, address: str | None = None, *, account: str = "people"
) -> None:
    """A release of epsilon 1 of 2, as `NamedRelease` makes it."""
    with open_ledger(settings) as ledger:
        ledger.ensure_account(
            Account(account, "row", ADD, epsilon_cap=CAP), [address or people(settings)]
        )
        draw(ledger, settings, name, account=account)


def refusal(settings: Settings, name: str, address: str | None = None) -> str:
    with pytest.raises(LedgerRefusedError) as refused:
        spend(settings, name, address)
    return str(refused.value)


# 1. A copy that is put back, or used beside.


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("since", [1, 2])
def test_a_copied_home_put_back_is_refused(
    settings: Settings, before: int, since: int, tmp_path: Path
) -> None:
    with open_ledger(settings):
        pass
    for number in range(before):
        spend(settings, f"before{number}")
    shutil.copytree(settings.home, tmp_path / "copy")
    for number in range(min(since, int(CAP) - before)):
        spend(settings, f"since{number}")
    shutil.rmtree(settings.home)
    shutil.copytree(tmp_path / "copy", settings.home)
    for _ in range(2):
        sentence = refusal(settings, "again")
        assert "was rolled back" in sentence and str(settings.home) in sentence
        assert "`dpicl state restore`" in sentence and "`dpicl ledger adopt`" in sentence
    assert [one.rule for one in findings(settings) if one.is_fault and "rolled back" in one.rule]


def test_a_copy_of_between_a_charge_and_its_release_is_refused(
    settings: Settings, tmp_path: Path
) -> None:
    """Put back, the same charge would be drawn from anew."""
    with open_ledger(settings) as ledger:
        ledger.ensure_account(Account("people", "row", ADD, epsilon_cap=CAP), [people(settings)])
        ledger.reserve(one := release("a", account="people"))
        shutil.copytree(
            settings.home, tmp_path / "copy", ignore=shutil.ignore_patterns("ledger.db-shm")
        )
        ledger.begin_drawing(one.release_id)
    shutil.rmtree(settings.home)
    shutil.copytree(tmp_path / "copy", settings.home)
    assert "was rolled back" in refusal(settings, "a")


def test_records_that_are_removed_from_the_beginning_do_not_silence_it(settings: Settings) -> None:
    """Only a record under the key says that a ledger began anew, and later."""
    spend(settings, "a")
    with open_ledger(settings) as ledger, ledger._chain.reading() as fold:
        connection = ledger._chain.database
    seen = witness_of(settings, ledger_key(settings)).read()
    assert seen is not None and fold.head == seen.head
    elsewhere = replace(seen, head=Head(2, "of another copy"))
    with connection.writing() as here:
        here.execute(delete(records).where(records.c.sequence <= 2))
        with pytest.raises(LedgerRefusedError, match="was rolled back"):
            chain.check_witness(here, elsewhere, fold)
    connection.close()


def test_a_copy_of_before_a_cap_was_lowered_is_refused(settings: Settings, tmp_path: Path) -> None:
    spend(settings, "a")
    shutil.copytree(settings.home, tmp_path / "copy")
    with open_ledger(settings) as ledger:
        ledger.set_cap("people", 1.0)
    shutil.rmtree(settings.home)
    shutil.copytree(tmp_path / "copy", settings.home)
    assert "was rolled back" in refusal(settings, "b")


def test_of_two_copies_that_are_both_used_one_goes_on(settings: Settings, tmp_path: Path) -> None:
    spend(settings, "a")
    shutil.copytree(settings.home, tmp_path / "copy")
    spend(at(settings, tmp_path / "copy"), "b", people(settings))
    sentence = refusal(settings, "c")
    assert f"expected DPICL_HOME={tmp_path / 'copy'};" in sentence, "which one was used last"
    assert "to go on here, `dpicl ledger adopt` after ledger.db is put aside" in sentence
    with pytest.raises(BudgetError):
        spend(at(settings, tmp_path / "copy"), "c", people(settings))


# 2. A lost ledger, with its key or without.


@pytest.mark.parametrize(
    "left",
    ["keys", "keys private", "keys ledger.anchor.json", "keys released", "private", "released", ""],
)
def test_a_lost_ledger_is_not_begun_anew(settings: Settings, left: str) -> None:
    spend(settings, "a")
    (settings.private("drawn-from") / "a.json").write_text("{}")
    for path in settings.home.iterdir():
        if path.name not in left.split():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for _ in range(2):
        sentence = refusal(settings, "again")
        assert any(
            way in sentence
            for way in ("dpicl state restore", "dpicl ledger adopt", "newer database")
        ), sentence
    if left:
        assert any(one.is_fault for one in findings(settings))


def test_key_and_private_files_tell_of_a_ledger_without_any_witness(settings: Settings) -> None:
    spend(settings, "a")
    (settings.private("drawn-from") / "a.json").write_text("{}")
    for path in settings.home.iterdir():
        if path.name not in ("keys", "private"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.rmtree(settings.witnesses or "")
    assert "drawn-from" in refusal(settings, "again") and not (settings.home / "ledger.db").exists()
    assert any("drawn-from" in one.rule for one in findings(settings) if one.is_fault)


def _link(path: Path) -> Path:
    (other := path.with_name("link.csv")).symlink_to(path)
    return Path(os.path.realpath(other))


def _hard_link(path: Path) -> Path:
    (other := path.with_name("other.csv")).hardlink_to(path)
    return other


@pytest.mark.parametrize(
    "spelled",
    [lambda path: path, lambda path: path.parent, _link, _hard_link],
    ids=["same", "folder", "link", "hard"],
)
def test_the_same_rows_have_no_second_budget_in_a_new_home(
    settings: Settings, spelled: Callable[[Path], Path]
) -> None:
    spend(settings, "a")
    other = f"file:{spelled(Path(people(settings).removeprefix('file:')))}"
    new = at(settings, settings.home.with_name("new"))
    sentence = refusal(new, "b", other)
    assert (
        "epsilon=1 was charged" in sentence
        and str(settings.home) in sentence
        and "dpicl budget people --cap" in sentence
    )
    with open_ledger(new) as ledger:
        assert ledger.spent("people").epsilon == 0
        with pytest.raises(LedgerRefusedError):
            ledger.check_elsewhere("people")


@pytest.mark.parametrize(
    "address", ["pg:7/16384", "s3://host/bucket/key.csv", "frame:patients", "openml:31"]
)
def test_rows_that_are_no_file_are_known_too(settings: Settings, address: str) -> None:
    spend(settings, "a", address)
    shutil.rmtree(settings.home)
    assert "epsilon=1 was charged" in refusal(settings, "b", address)


def test_a_stated_cap_is_the_way_on_and_holds_for_what_was_known(settings: Settings) -> None:
    spend(settings, "a")
    new = at(settings, settings.home.with_name("new"))
    refusal(new, "b", people(settings))
    with open_ledger(new) as ledger:
        ledger.set_cap("people", 1.0)
        write_cap(ledger, "people", new)
        record = json.loads((ledger.cap_record("people") or {})["content"])
    assert list(record["elsewhere"].values()) == [1], "the chain keeps what the person was told"
    spend(new, "b", people(settings))
    with pytest.raises(BudgetError):
        spend(new, "c", people(settings))
    assert str(new.home) in refusal(settings, "d"), "and now the other one asks"
    with open_ledger(settings) as ledger:
        ledger.set_cap("people", 2.0)
    spend(settings, "d")
    with open_ledger(new) as ledger:
        assert ledger.verify()
        ledger.set_cap("people", 2.0)
    spend(new, "e", people(settings))


def test_what_has_no_bound_elsewhere_is_stated_and_held(settings: Settings) -> None:
    """A cost with a delta, of an account that has none any more."""
    loose = Guarantee(0.2, 1e-3, ADD, "row", approximate(0.2, 1e-3))
    with open_ledger(settings) as ledger:
        account = Account("people", "row", ADD, epsilon_cap=CAP, delta_cap=0.1)
        ledger.ensure_account(account, [people(settings)])
        ledger.reserve(replace(release("a", account="people"), guarantee=loose))
        ledger.set_cap("people", CAP, 0.0)
    new = at(settings, settings.home.with_name("new"))
    assert "epsilon=inf was charged" in refusal(new, "b", people(settings))
    with open_ledger(new) as ledger:
        ledger.set_cap("people", 1.0)
    spend(new, "b", people(settings))


def test_once_the_other_ledger_is_charged_again_the_statement_is_asked_for_again(
    settings: Settings,
) -> None:
    spend(settings, "a")
    new = at(settings, settings.home.with_name("new"))
    refusal(new, "b", people(settings))
    with open_ledger(new) as ledger:
        ledger.set_cap("people", 2.0)
    spend(settings, "c")
    assert "epsilon=2 was charged" in refusal(new, "b", people(settings))


def _spend_in(home: Path, start: object, done: object) -> None:
    settings = at(Settings.from_environment(), home)
    start.wait()  # type: ignore[attr-defined]
    with suppress(LedgerRefusedError):
        spend(settings, home.name, "file:/somewhere/people.csv")
        done.put(home.name)  # type: ignore[attr-defined]


def test_of_many_new_homes_that_begin_at_once_one_spends(
    settings: Settings, tmp_path: Path
) -> None:
    context = multiprocessing.get_context("fork")
    start, done = context.Barrier(6), context.Queue()
    processes = [
        context.Process(target=_spend_in, args=(tmp_path / f"home{number}", start, done))
        for number in range(6)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert done.get(timeout=10) and done.empty()


@pytest.mark.parametrize("is_there", [True, False])
def test_a_twin_that_releases_between_two_looks_is_no_other_ledger(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """The ledger is empty, or not there, at the first look; its release stands at the second."""
    if is_there:
        with open_ledger(settings):
            pass
    look = accounts.artefacts

    def look_late(of: Settings) -> Iterator[Path]:
        monkeypatch.setattr(accounts, "artefacts", look)
        spend(settings, "a")
        return look(of)

    monkeypatch.setattr(accounts, "artefacts", look_late)
    spend(settings, "b")
    with open_ledger(settings) as ledger:
        assert ledger.end.sequence and len(list(ledger.entries("people"))) == 2


# 3. Homes that go by the working directory.

RELATIVE = [
    "state",
    "./state",
    "../state",
    ".",
    "~/state",
    "~",
    "$HOME/state",
    ".dpicl",
    "file:///tmp/state",
    "C:state",
    " /state",
    "a/b/c",
]


@pytest.mark.parametrize("stated", RELATIVE)
def test_a_home_that_goes_by_the_working_directory_is_refused(
    stated: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPICL_HOME", stated)
    with pytest.raises(ParameterError, match="DPICL_HOME=.*expected an absolute path.*perhaps /"):
        Settings.from_environment()
    monkeypatch.delenv("DPICL_HOME")
    with pytest.raises(ParameterError, match="home=.*expected an absolute path"):
        dpicl.Session(stated)
    assert not list(tmp_path.iterdir())


def test_the_fix_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.chdir(tmp_path)
    for stated, meant in {
        "~/state": "/home/someone/state",
        "$HOME/x": "/home/someone/x",
        "state": f"{tmp_path}/state",
    }.items():
        monkeypatch.setenv("DPICL_HOME", stated)
        with pytest.raises(ParameterError, match=f"perhaps {meant}$"):
            Settings.from_environment()


def test_a_home_that_sqlite_cannot_open_is_refused_in_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DPICL_HOME", "/tmp/" + "x/" * 1500)
    with pytest.raises(ParameterError, match="at most 400 bytes") as refused:
        Settings.from_environment()
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    "address",
    [
        "sqlite:///ledger.db",
        "sqlite:///./l.db",
        "sqlite+pysqlite:///a/b.db",
        "sqlite:///file:x?uri=true",
    ],
)
def test_a_ledger_that_goes_by_the_working_directory_is_refused(
    settings: Settings, address: str
) -> None:
    with pytest.raises(ParameterError, match="DPICL_LEDGER=.*expected an absolute path"):
        open_ledger(replace(settings, ledger=address)).__enter__()


# What is not refused, and what is told.


def test_two_homes_on_different_rows_and_the_same_release_again(settings: Settings) -> None:
    spend(settings, "a")
    spend(at(settings, settings.home.with_name("new")), "a", "file:/other/people.csv")
    for _ in range(2):
        spend(settings, "a")
    spend(settings, "b")
    assert len(list((settings.witnesses or Path()).glob("*.json"))) == 2


def test_of_benchmarks_nothing_is_written_and_nothing_is_read(
    settings: Settings, tmp_path: Path
) -> None:
    benchmark = Account("public", "row", ADD, benchmark=True)
    for home in ("one", "two"):
        with open_ledger(at(settings, tmp_path / home)) as ledger:
            ledger.ensure_account(benchmark, ["openml:1"])
            ledger.reserve(release("a", account="public"))
    assert settings.witnesses is not None and not settings.witnesses.exists()


def test_what_only_reads_writes_no_witness(settings: Settings) -> None:
    spend(settings, "a")
    shutil.rmtree(folder := settings.witnesses or Path())
    with open_ledger(settings) as ledger:
        # as a plan does
        ledger.ensure_account(Account("others", "row", ADD, epsilon_cap=CAP), ["file:/others"])
        ledger.dry_run("people", [cost(0.5)])
        ledger.verify()
    assert not folder.exists()


def test_it_is_for_its_owner_only_and_holds_what_is_public(settings: Settings) -> None:
    spend(settings, "a")
    folder = settings.witnesses or Path()
    (file,) = folder.glob("*.json")
    assert (
        stat.S_IMODE(folder.stat().st_mode) == 0o700 and stat.S_IMODE(file.stat().st_mode) == 0o600
    )
    told = json.loads(file.read_text())
    assert told.keys() == {"sequence", "hash", "home", "accounts"} and told["home"] == str(
        settings.home
    )
    assert told["accounts"]["people"]["addresses"] == [people(settings)]
    key = (settings.home / "keys" / "ledger.key").read_bytes()
    assert (
        key not in file.read_bytes()
        and key.hex() not in file.read_text()
        and not folder.is_relative_to(settings.home)
    )


def test_one_that_is_absent_is_told_once(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    spend(settings, "a")
    assert not told(caplog), "the first charge of all misses nothing"
    shutil.rmtree(settings.witnesses or "")
    spend(settings, "b")
    (line,) = told(caplog)
    assert line.levelno == logging.WARNING and "no witness of its ledger was in" in line.message
    with open_ledger(settings) as ledger:
        ledger.set_cap("people", 3.0)
    spend(settings, "c")
    assert len(told(caplog)) == 1


def _in_the_home(settings: Settings) -> Settings:
    return replace(settings, witnesses=settings.home / "settings")


def _nowhere(settings: Settings) -> Settings:
    return replace(settings, witnesses=None)


def _below_a_file(settings: Settings) -> Settings:
    (settings.home.parent / "file").write_text("")
    return replace(settings, witnesses=settings.home.parent / "file" / "witness")


def _that_nobody_writes(settings: Settings) -> Settings:
    return replace(settings, witnesses=Path("/proc/self/witness"))


@pytest.mark.parametrize("where", [_in_the_home, _nowhere, _below_a_file, _that_nobody_writes])
def test_without_a_place_for_it_a_charge_is_made_and_it_is_told(
    settings: Settings, where: Callable[[Settings], Settings], caplog: pytest.LogCaptureFixture
) -> None:
    without = where(settings)
    for name in "ab":
        spend(without, name)
    (line,) = told(caplog)
    assert "no witness of" in line.message and "would not be noticed" in line.message
    assert not list(settings.home.rglob("settings"))


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        "[]",
        "null",
        '{"sequence": 1}',
        "\x00" * 40,
        '{"sequence": 1, "hash": "", "home": "", "accounts": []}',
    ],
)
def test_one_that_is_damaged_is_refused_in_a_sentence(settings: Settings, content: str) -> None:
    spend(settings, "a")
    (file,) = (settings.witnesses or Path()).glob("*.json")
    file.write_text(content)
    assert f"{file}: is not what dpicl wrote; expected" in refusal(settings, "b")
    assert str(file) in refusal(at(settings, settings.home.with_name("new")), "b", "file:/other")
    assert any(one.is_fault and one.path == str(file) for one in findings(settings))


def test_a_process_that_is_killed_leaves_it_behind_and_never_ahead(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as killed:
        killed.setattr(Witness, "advance", lambda *_, **__: None)
        spend(settings, "a")
    spend(settings, "b")
    with open_ledger(settings) as ledger:
        seen = witness_of(settings, ledger_key(settings)).read()
        assert seen is not None and seen.head == ledger.end


def test_the_check_of_the_state_names_it_and_a_backup_does_not_carry_it(
    settings: Settings, tmp_path: Path
) -> None:
    spend(settings, "a")
    (file,) = (settings.witnesses or Path()).glob("*.json")
    assert [one.is_fault for one in findings(settings) if one.path == str(file)] == [False]
    back_up(settings, tmp_path / "backup", tmp_path / "key")
    with pytest.raises(
        ParameterError, match="expected a new file; this one is a whole backup of 20"
    ):
        back_up(settings, tmp_path / "backup", tmp_path / "key")
    assert not [
        name
        for name, _ in read_archive(tmp_path / "backup", read_key(tmp_path / "key"))
        if "witness" in name
    ]
    shutil.rmtree(file.parent)
    assert any("no witness outside the state home yet" in one.rule for one in findings(settings))


# The ways back.


def test_a_backup_comes_back_and_says_what_had_been_spent(
    settings: Settings, tmp_path: Path
) -> None:
    spend(settings, "a")
    back_up(settings, tmp_path / "backup", tmp_path / "key")
    spend(settings, "b")
    away = at(settings, tmp_path / "away")
    shutil.copytree(settings.home, away.home)
    shutil.rmtree(settings.home)
    done = restore(settings, tmp_path / "backup", tmp_path / "key")
    assert done.witnessed == [("people", 2.0)]
    with pytest.raises(BudgetError, match="closed by the restore"):
        spend(settings, "c")
    with open_ledger(settings) as ledger:
        ledger.set_cap("people", 2.0)
    spend(settings, "c")
    assert "a copy of it went on" in refusal(away, "d", people(settings)), (
        "the one that was believed lost"
    )


@pytest.mark.parametrize("since", [0, 1])
def test_a_backup_that_is_tried_elsewhere_leaves_the_home_in_use(
    settings: Settings, tmp_path: Path, since: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether or not that one was charged after the backup, and after the restore."""
    spend(settings, "a")
    back_up(settings, tmp_path / "backup", tmp_path / "key")
    for number in range(since):
        spend(settings, f"since{number}")
    before = content(settings.witnesses or Path())
    tried = at(settings, tmp_path / "tried")
    done = restore(tried, tmp_path / "backup", tmp_path / "key")
    assert done.in_use == str(settings.home)
    with open_ledger(tried) as ledger:
        ledger.verify()
        assert ledger.spent("people").epsilon == 1
        with pytest.raises(BudgetError, match="closed by the restore"):
            draw(ledger, tried, "b", account="people")
    assert not [one for one in findings(tried) if one.is_fault and "rolled back" in one.rule]
    assert content(settings.witnesses or Path()) == before and not told(caplog)
    if not since:
        spend(settings, "later")
    with pytest.raises(BudgetError, match="spent 2 of cap 2"):
        spend(settings, "too much")
    with open_ledger(tried) as ledger:
        assert ledger.spent("people").epsilon == 1, "it can still be read"


def test_a_tried_backup_takes_over_by_a_stated_cap_and_both_homes_say_so(
    settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spend(settings, "a")
    back_up(settings, tmp_path / "backup", tmp_path / "key")
    spend(settings, "b")
    tried = at(settings, tmp_path / "tried")
    restore(tried, tmp_path / "backup", tmp_path / "key")
    with open_ledger(tried) as ledger:
        ledger.set_cap("people", 2.0)
    (line,) = told(caplog)
    assert line.message.startswith(
        f"{settings.home}: its ledger is refused from now on, as {tried.home}"
    )
    assert line.message.endswith("it had spent: people epsilon 2")
    sentence = refusal(settings, "c")
    assert f"expected DPICL_HOME={tried.home};" in sentence
    spend(tried, "c", people(settings))
    # the way back that the message names
    for path in settings.home.glob("ledger.db*"):
        path.unlink()
    assert adopt(settings) == (2, [])
    with pytest.raises(BudgetError, match="spent 2 of cap 2"):
        spend(settings, "d")
    assert "a copy of it went on" in refusal(tried, "d")


def test_a_backup_takes_the_place_of_a_home_whose_ledger_is_aside(
    settings: Settings, tmp_path: Path
) -> None:
    spend(settings, "a")
    back_up(settings, tmp_path / "backup", tmp_path / "key")
    (settings.home / "ledger.db").rename(tmp_path / "aside")
    moved = at(settings, tmp_path / "moved")
    assert restore(moved, tmp_path / "backup", tmp_path / "key").in_use is None
    seen = witness_of(moved, ledger_key(moved)).read()
    assert seen is not None and seen.home == str(moved.home)


def test_receipts_of_an_old_copy_bring_back_no_budget(settings: Settings, tmp_path: Path) -> None:
    spend(settings, "a")
    shutil.copytree(settings.home, tmp_path / "copy")
    spend(settings, "b")
    shutil.rmtree(settings.home)
    shutil.copytree(tmp_path / "copy", settings.home)
    for path in settings.home.glob("ledger.db*"):
        path.unlink()
    assert adopt(settings) == (1, ["people"])
    with pytest.raises(BudgetError):
        spend(settings, "c")
    with open_ledger(settings) as ledger:
        ledger.set_cap("people", 2.0)
    spend(settings, "c")


def test_all_receipts_bring_back_all(settings: Settings) -> None:
    spend(settings, "a")
    for path in settings.home.glob("ledger.*"):
        path.unlink()
    assert adopt(settings) == (1, [])
    spend(settings, "b")


@pytest.mark.exhaustive
def test_the_command_line_says_it_in_one_sentence(tmp_path: Path) -> None:
    place = new_place(tmp_path / "place")
    contract = shop(private=True)
    contract["privacy"] = {
        **contract["privacy"],
        "neighbours": "add-or-remove-one",
        "budget": {"epsilon": 1},
    }
    install(place, contract, shop_rows(60))
    words = ("protect", "shop", "--epsilon", "1", "--shots", "2", "--out")
    done = place.dpicl(*words, "a.jsonl")
    assert done.returncode == 0 and "witness" not in done.stderr, done.stderr
    shutil.rmtree(place.home)
    before = content(place.root / "settings")
    sentence = complaint(place.dpicl(*words, "b.jsonl"))
    assert (
        "epsilon=1 was charged for its rows in another ledger of yours" in sentence
        and "dpicl budget shop --cap CAP" in sentence
    )
    assert content(place.root / "settings") == before
    stated = place.dpicl("budget", "shop", "--cap", "1")
    assert "beside epsilon 1 that account shop of" in stated.stdout
    assert place.dpicl(*words, "b.jsonl").returncode == 0
    assert "expected an absolute path" in complaint(place.dpicl("budget", DPICL_HOME="home"))


# Mutants: each brings a fault back, and spends twice in one of the ways above.


def spent_twice(settings: Settings) -> bool:
    """By a copy put back, a lost home, or the working directory."""
    try:
        spend(settings, "a")
        copy = settings.home.with_name("copy")
        shutil.copytree(settings.home, copy)
        spend(settings, "b")
        shutil.rmtree(settings.home)
        shutil.copytree(copy, settings.home)
        with suppress(DpiclError):
            spend(settings, "c")
            return True
        shutil.rmtree(settings.home)
        with suppress(DpiclError):
            spend(settings, "d")
            return True
        os.environ["DPICL_HOME"] = "elsewhere"
        with suppress(DpiclError):
            Settings.from_environment()
            return True
    finally:
        os.environ["DPICL_HOME"] = str(settings.home)
    return False


def _reads_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Witness, "read", lambda _: None)


def _asks_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Witness, "others", lambda _: iter(()))


def _never_advances(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Witness, "advance", lambda *_, **__: None)


def _lies_in_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Witness, "path", property(lambda self: Path(self._home) / "witness.json"))
    monkeypatch.setattr(Witness, "others", lambda _: iter(()))


def _heeds_the_working_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        dpicl.home.settings, "stated_home", lambda _, stated: Path(stated).resolve()
    )


def test_as_it_is_nothing_is_spent_twice(settings: Settings) -> None:
    assert not spent_twice(settings)


@pytest.mark.parametrize(
    "mutant",
    [
        _reads_none,
        _asks_no_others,
        _never_advances,
        _lies_in_the_home,
        _heeds_the_working_directory,
    ],
)
def test_a_mutant_is_caught(
    settings: Settings,
    mutant: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mutant(monkeypatch)
    assert spent_twice(settings)
