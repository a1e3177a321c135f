"""A backup brings back names and releases, and no budget: what was charged since it was taken
cannot be charged again unseen.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml

import dpicl.installation.restore
from dpicl.ground.errors import BudgetError, DpiclError, LedgerRefusedError, ParameterError
from dpicl.home.accounts import artefact_of, newest, open_ledger, receipt_of, write_cap
from dpicl.home.settings import KEY, RESTORING, Settings
from dpicl.installation.check import findings
from dpicl.installation.restore import BackupManifest, Restored, adopt, back_up, restore
from dpicl.ledger import Account, load_key
from dpicl.ledger.keys import Anchor, Head
from tests.guard import kill_before
from tests.harness import content, exit_code, forked, new_place, shop, until
from tests.ledger.postgres import Server, running_postgres
from tests.ledger.workload import ADD, cost, release, sha256
from tests.tasks.test_adopt import AT, OTHER, SHOP, charged, draw, lose

Backup = tuple[Path, Path]
UNUSED = Account("unused", "row", ADD, epsilon_cap=7.0)


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    place = new_place(tmp_path / "place")
    (place.root / "contracts" / "shop.yaml").write_text(yaml.safe_dump(shop(private=True)))
    with place.entered():
        settings = Settings.from_environment()
        charged(settings)
        with open_ledger(settings) as ledger:
            ledger.ensure_account(UNUSED, ["file:/unused"])
        yield settings


@pytest.fixture
def backup(settings: Settings, tmp_path: Path) -> Backup:
    """A backup of accounts shop (a, b published, c reserved; 3 of 4), other (d; 1 of 2) and unused
    (0 of 7), and its key.
    """
    back_up(settings, tmp_path / "backup", tmp_path / "backup.key")
    return tmp_path / "backup", tmp_path / "backup.key"


@pytest.fixture
def bare(settings: Settings, tmp_path: Path) -> Settings:
    """Another machine."""
    return replace(settings, home=tmp_path / "bare")


def test_a_restored_ledger_verifies_and_says_where_it_comes_from(
    settings: Settings, backup: Backup, bare: Settings
) -> None:
    with open_ledger(settings) as ledger:
        before, end = (
            {name: ledger.spent(name).epsilon for name in ("shop", "other", "unused")},
            ledger.end,
        )
    done = restore(bare, *backup)
    assert (done.manifest.record, done.record) == (end.sequence, end.sequence + 1)
    assert {account.name: (spent, account.epsilon_cap) for account, spent in done.accounts} == {
        name: (spent, 0) for name, spent in before.items()
    }
    with open_ledger(bare) as ledger:
        assert ledger.verify() == done.record
        record = json.loads(ledger.adopted_record()["content"])
        assert record["backup"]["taken_utc"] == done.manifest.taken_utc
        assert record["backup"]["record"] == end.sequence
        assert ledger.published(release("a").release_id) == sha256("a")
    assert artefact_of(bare, release("a")).read_bytes() == b"a"
    for path in bare.home.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_backup_brings_back_who_may_charge_how_much(
    settings: Settings, bare: Settings, tmp_path: Path
) -> None:
    stated = replace(SHOP, shares=(("anne", 1.5),))
    with open_ledger(settings) as ledger:
        ledger.reserve(release("e", cost(0.5)), stated=stated)
        ledger.set_share("shop", "anne", 1.0)
    back_up(settings, tmp_path / "backup", tmp_path / "backup.key")
    restore(bare, tmp_path / "backup", tmp_path / "backup.key")
    with open_ledger(replace(bare, user="anne")) as ledger:
        ledger.set_cap("shop", 8.0)
        with pytest.raises(BudgetError, match="'anne', who has charged 0 of a share of 1;"):
            ledger.reserve(release("f", cost(1.2)), stated=stated)
        ledger.verify()


def test_nothing_is_charged_until_caps_are_stated(backup: Backup, bare: Settings) -> None:
    """Whatever contracts declare: the one that was known, a larger one, or one of rows that the
    backup does not know.
    """
    done = restore(bare, *backup)
    with open_ledger(bare) as ledger:
        for account, place in (
            (SHOP, AT),
            (OTHER, "file:/other"),
            (UNUSED, "file:/unused"),
            (Account("new", "row", ADD, 9.0), "file:/new"),
        ):
            for declared in (account, replace(account, epsilon_cap=1000.0)):
                known = ledger.ensure_account(declared, [place])
                assert known.epsilon_cap == 0
                with pytest.raises(
                    BudgetError,
                    match=f"of cap 0, .*; closed by the restore of a backup of "
                    f"{re.escape(done.manifest.taken_utc)}$",
                ):
                    ledger.reserve(release("x", cost(1e-9), account=account.name), stated=declared)
        # what stands costs nothing
        assert not ledger.reserve(release("a")).is_new
        ledger.set_cap("shop", 4.0)
        ledger.set_cap("new", 1.0)
        assert ledger.reserve(release("x")).is_new
        assert ledger.reserve(release("y", account="new")).is_new
        with pytest.raises(BudgetError, match=r"spent 4 of cap 4.*\(pure sum\)$"):
            ledger.reserve(release("z"))
        ledger.set_cap("new", 0.0)
        # a command has set it since
        assert ledger.dry_run("new", []).cap_reason == ""
        assert ledger.ensure_account(replace(SHOP, epsilon_cap=1000.0), [AT]).epsilon_cap == 4.0
        ledger.verify()


def test_what_was_charged_and_not_published_is_charged_again(
    backup: Backup, bare: Settings
) -> None:
    """It may have been drawn and read after the backup: another draw under the first charge would
    be free.
    """
    restore(bare, *backup)
    with open_ledger(bare) as ledger:
        with pytest.raises(BudgetError):
            ledger.reserve(release("c"))
        assert ledger.spent("shop").epsilon == 3
        assert not receipt_of(bare, "shop", release("c").release_id).exists()
        ledger.set_cap("shop", 4.0)
        assert ledger.reserve(release("c")).is_new and ledger.spent("shop").epsilon == 4


def test_a_host_that_has_seen_more_refuses_the_backup(settings: Settings, backup: Backup) -> None:
    with open_ledger(settings) as ledger:
        draw(ledger, settings, "e")
    with pytest.raises(LedgerRefusedError, match="is a ledger already"):
        restore(settings, *backup)
    path = receipt_of(settings, "shop", release("a").release_id)
    older, _ = path.read_bytes(), path.write_text("[]")
    lose(settings, anchor=False)
    with pytest.raises(
        LedgerRefusedError,
        match=r"receipt: is not the backup's; expected a newer backup, or `dpicl ledger adopt`$",
    ):
        restore(settings, *backup)
    path.write_bytes(older)
    with pytest.raises(
        LedgerRefusedError, match="was released and is not in the backup.*`dpicl ledger adopt`"
    ):
        restore(settings, *backup)
    shutil.rmtree(settings.home / "released")
    for kept in (Anchor(settings.home / "ledger.anchor.json"), newest(settings)):
        kept.path.parent.mkdir(exist_ok=True)
        kept.advance(Head(99, "a" * 64))
        with pytest.raises(
            LedgerRefusedError, match="has seen record 99; .*a backup cannot undo what was charged"
        ):
            restore(settings, *backup)
        kept.path.unlink()
        kept.advance(Head(2, "a" * 64))
        with pytest.raises(LedgerRefusedError, match="record 2 is not the one"):
            restore(settings, *backup)
        kept.path.unlink()
    assert not (settings.home / RESTORING).exists() and not list(settings.home.glob("ledger.db*"))
    assert restore(settings, *backup).record


@pytest.mark.parametrize("log", ["-wal", "-shm", "-journal"])
def test_a_log_that_was_left_beside_a_lost_ledger_is_named(
    settings: Settings, backup: Backup, log: str
) -> None:
    """SQLite would read it as the restored ledger's."""
    lose(settings)
    receipt_of(settings, "shop", release("c").release_id).unlink()
    (left := settings.home / f"ledger.db{log}").write_bytes(b"of the lost one")
    for _ in range(2):
        with pytest.raises(
            LedgerRefusedError,
            match=f"ledger.db{log}: belongs to a ledger that is gone.*put it aside with the ledger",
        ):
            restore(settings, *backup)
    assert not (settings.home / RESTORING).exists()
    left.rename(settings.home.parent / left.name)
    assert restore(settings, *backup).record


def test_a_file_of_another_installation_is_not_written_over(backup: Backup, bare: Settings) -> None:
    load_key(bare.make_home() / KEY)
    before = content(bare.home)
    with pytest.raises(LedgerRefusedError, match="ledger.key: is not the backup's"):
        restore(bare, *backup)
    assert content(bare.home) == before


def test_a_home_in_which_something_else_is_being_restored_is_left_alone(
    backup: Backup, bare: Settings, tmp_path: Path
) -> None:
    (bare.make_home() / RESTORING).write_text("2026-01-01 another attempt")
    with pytest.raises(LedgerRefusedError):
        restore(bare, *backup)
    with pytest.raises(LedgerRefusedError):
        back_up(bare, tmp_path / "second", backup[1])


# The sealed file.


def _flipped(sealed: bytes, place: int) -> bytes:
    return sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :]


HARMS: dict[str, Callable[[bytes], bytes]] = {
    **{
        f"byte {share:.0%}": lambda sealed, share=share: _flipped(
            sealed, int(share * (len(sealed) - 1))
        )
        for share in (0.0001, 0.3, 1)
    },  # type: ignore[misc]
    "cut in half": lambda sealed: sealed[: len(sealed) // 2],
    "empty": lambda sealed: b"",
}


@pytest.mark.parametrize("harm", HARMS)
def test_an_altered_backup_is_refused_by_one_sentence(
    backup: Backup, bare: Settings, tmp_path: Path, harm: str
) -> None:
    file, key = backup
    file.write_bytes(HARMS[harm](file.read_bytes()))
    with pytest.raises(
        ParameterError, match=r"^backup=backup: expected a whole file sealed with this key"
    ) as refused:
        restore(bare, file, key)
    assert "\n" not in str(refused.value) and not content(tmp_path / "bare")


def test_chunks_cannot_be_left_out_or_cut_off(
    settings: Settings, bare: Settings, tmp_path: Path
) -> None:
    artefact_of(settings, release("a")).write_bytes(os.urandom(3 << 20))
    file, key = tmp_path / "large", tmp_path / "large.key"
    back_up(settings, file, key)
    sealed, head, chunk = file.read_bytes(), 40, (1 << 20) + 16
    for harmed in (
        sealed[: head + chunk],
        sealed[: head + 2 * chunk],
        sealed[:head] + sealed[head + chunk :],
        sealed + sealed[head : head + chunk],
    ):
        file.write_bytes(harmed)
        with pytest.raises(ParameterError, match="a byte was changed or is missing"):
            restore(bare, file, key)
    file.write_bytes(sealed)
    assert restore(bare, file, key).record


def test_a_backup_of_a_later_version_says_which(
    settings: Settings, bare: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @dataclass(frozen=True)
    class Later(BackupManifest):
        region: str = "eu"

    monkeypatch.setattr("dpicl.installation.restore.BackupManifest", Later)
    monkeypatch.setattr("dpicl.installation.restore.dpicl.__version__", "9.1.0")
    back_up(settings, tmp_path / "backup", tmp_path / "key")
    monkeypatch.undo()
    with pytest.raises(
        ParameterError, match=r"backup=backup: .*it was written by dpicl 9\.1\.0, and this is dpicl"
    ):
        restore(bare, tmp_path / "backup", tmp_path / "key")


def test_a_place_where_no_backup_can_be_is_named(settings: Settings, tmp_path: Path) -> None:
    before = content(settings.home)
    for file, key in (
        (settings.home / "b9", tmp_path / "key"),
        (tmp_path / "b", settings.home / "key"),
    ):
        with pytest.raises(ParameterError, match="outside the state home"):
            back_up(settings, file, key)
    for file, key in (
        (tmp_path / "nodir" / "b", tmp_path / "key"),
        (tmp_path / "b", tmp_path / "nodir" / "key"),
    ):
        with pytest.raises(
            ParameterError, match="expected a file in a folder that is there; .*/nodir is none"
        ):
            back_up(settings, file, key)
    assert content(settings.home) == before and not (tmp_path / "key").exists()


def test_a_ledger_that_somebody_makes_meanwhile_is_named_with_the_way_out(
    backup: Backup, bare: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def place(*_: object) -> None:
        (bare.home / "ledger.db").write_bytes(b"")

    monkeypatch.setattr(dpicl.installation.restore, "_place", place)
    with pytest.raises(
        LedgerRefusedError,
        match="ledger.db: somebody made a ledger meanwhile; put it aside, .* give the same command "
        "again",
    ):
        restore(bare, *backup)
    monkeypatch.undo()
    (bare.home / "ledger.db").rename(tmp_path / "aside")
    check_whole(restore(bare, *backup), bare)


def test_a_key_is_a_private_file_outside_the_home_and_stays(
    settings: Settings, backup: Backup, bare: Settings, tmp_path: Path
) -> None:
    file, key = backup
    assert stat.S_IMODE(key.stat().st_mode) == stat.S_IMODE(file.stat().st_mode) == 0o600
    before = key.read_bytes()
    assert not back_up(settings, tmp_path / "second", key).key_made and key.read_bytes() == before
    with pytest.raises(ParameterError, match="expected a new file"):
        back_up(settings, file, key)
    with pytest.raises(ParameterError, match="outside the state home"):
        back_up(settings, tmp_path / "third", settings.home / "backup.key")
    wrong = tmp_path / "wrong.key"
    back_up(settings, tmp_path / "third", wrong)
    with pytest.raises(ParameterError, match="or the key is another"):
        restore(bare, file, wrong)
    key.chmod(0o644)
    with pytest.raises(ParameterError, match="0644 lets others read"):
        restore(bare, file, key)
    with pytest.raises(ParameterError, match="the file with the key"):
        restore(bare, file, tmp_path / "none.key")


def test_a_backup_holds_no_private_file_and_no_run(settings: Settings, tmp_path: Path) -> None:
    from dpicl.home.sealed import read_archive, read_key

    for name in (
        "private/shop/run/private_table.arrow",
        "private/journals/x/1/votes/a.snapshot",
        "runs/r/plan.json",
        "released/shop/.x.0123456789ab",
    ):
        (settings.home / name).parent.mkdir(parents=True, exist_ok=True)
        (settings.home / name).write_bytes(b"private")
    back_up(settings, tmp_path / "backup", tmp_path / "key")
    names = dict(read_archive(tmp_path / "backup", read_key(tmp_path / "key")))
    assert {name.partition("/")[0] for name in names} == {
        "backup.json",
        "keys",
        "ledger.db",
        "released",
    }
    assert not [
        name for name, one in names.items() if one == b"private" or release("c").release_id in name
    ]


def test_an_installation_without_a_ledger_has_no_backup(bare: Settings, tmp_path: Path) -> None:
    with pytest.raises(LedgerRefusedError, match="no ledger to back up"):
        back_up(bare, tmp_path / "backup", tmp_path / "key")
    assert not (tmp_path / "bare").exists() and not (tmp_path / "key").exists()


# A ledger on a server, and one that is written to.


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_postgres(durable=False) as server:
        yield server


@pytest.fixture
def shared(settings: Settings, server: Server, tmp_path: Path) -> Settings:
    """A home whose ledger is on the server."""
    witnesses, ledger = tmp_path / "witness", server.emptied()
    return replace(settings, home=tmp_path / "shared", witnesses=witnesses, ledger=ledger)


@pytest.mark.exhaustive
def test_a_home_comes_back_beside_a_ledger_on_a_server(
    server: Server, shared: Settings, bare: Settings, tmp_path: Path
) -> None:
    file, key = tmp_path / "backup", tmp_path / "key"
    charged(shared)
    assert back_up(shared, file, key).manifest.ledger == "server"
    with pytest.raises(ParameterError, match="expected the address of the PostgreSQL"):
        restore(bare, file, key)
    with open_ledger(shared) as ledger:
        draw(ledger, shared, "e")
    shutil.rmtree(shared.home)  # the database goes on, and has what was charged since
    with pytest.raises(LedgerRefusedError):
        open_ledger(shared).__enter__()
    # the command before has made another
    with pytest.raises(LedgerRefusedError, match="ledger.key: is not the backup's"):
        restore(shared, file, key)
    shutil.rmtree(shared.home)
    restore(shared, file, key)
    with open_ledger(shared) as ledger:
        assert ledger.verify()
        assert ledger.spent("shop").epsilon == 4
        assert {one.epsilon_cap for one in ledger.accounts()} == {0}
    assert not [one for one in findings(shared) if one.is_fault]
    shutil.rmtree(shared.home)
    server.emptied()
    # that database is no longer the one
    with pytest.raises(LedgerRefusedError, match="a backup cannot undo"):
        restore(shared, file, key)


@pytest.mark.exhaustive
def test_every_restore_beside_a_ledger_on_a_server_closes_its_budgets(
    shared: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database may have been lost again, and come back from its own dump of a time when caps
    had been stated.
    """
    sealed = tmp_path / "backup", tmp_path / "key"
    charged(shared)
    back_up(shared, *sealed)
    records = []
    for _ in range(2):
        shutil.rmtree(shared.home)
        with monkeypatch.context() as patched:
            patched.setattr(dpicl.installation.restore, "_place", _killed)
            with pytest.raises(KeyboardInterrupt):
                restore(shared, *sealed)
        records.append(restore(shared, *sealed).record)
        with open_ledger(shared) as ledger:
            # once an attempt, however often it is killed
            assert ledger.verify() == records[-1]
            assert {one.epsilon_cap for one in ledger.accounts()} == {0}
            ledger.set_cap("shop", 9.0)
    assert records[1] == records[0] + 2


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_backup_of_a_ledger_in_use_is_of_one_moment(settings: Settings, tmp_path: Path) -> None:
    with open_ledger(settings) as ledger:
        ledger.set_cap("shop", 1000.0)
    ended = threading.Event()

    def work() -> None:
        with open_ledger(settings) as ledger:
            for number in range(1000):
                draw(ledger, settings, f"busy {number}")
                if ended.is_set():
                    return

    def published() -> int:
        with open_ledger(settings) as ledger:
            return len(ledger.copy().published)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        written = [
            back_up(settings, tmp_path / f"backup {number}", tmp_path / "key")
            for number in range(4)
        ]
        until(lambda: published() > written[0].manifest.releases, 60, "a release more")
        written.append(back_up(settings, tmp_path / "backup 4", tmp_path / "key"))
    finally:
        ended.set()
        worker.join()
    assert written[-1].manifest.releases > written[0].manifest.releases
    assert not any(one.missing for one in written)
    for number in range(5):
        home = replace(settings, home=tmp_path / f"home {number}")
        restore(home, tmp_path / f"backup {number}", tmp_path / "key")
        with open_ledger(home) as ledger:
            ledger.verify()
            for account, release_id, sha in ledger.copy().published:
                assert (
                    hashlib.sha256(
                        (home.home / "released" / account / release_id).read_bytes()
                    ).hexdigest()
                    == sha
                )


# Restored and lost again.


def test_receipts_remember_a_restore(backup: Backup, bare: Settings) -> None:
    """Rebuilt from receipts, a restored ledger has the caps that were stated after the restore, and
    no others.
    """
    restore(bare, *backup)
    with open_ledger(bare) as ledger:
        ledger.set_cap("other", 2.0)
        write_cap(ledger, "other", bare)
    lose(bare)
    adopt(bare)
    with open_ledger(bare) as ledger:
        caps = {account.name: account.epsilon_cap for account in ledger.accounts()}
        assert caps == {"shop": 0, "other": 2, "unused": 0}
        assert (
            ledger.ensure_account(Account("new", "row", ADD, 9.0), ["file:/new"]).epsilon_cap == 0
        )
        ledger.verify()


def test_a_restored_ledger_is_backed_up_and_restored_again(
    settings: Settings, backup: Backup, bare: Settings, tmp_path: Path
) -> None:
    restore(bare, *backup)
    with open_ledger(bare) as ledger:
        ledger.set_cap("shop", 4.0)
        draw(ledger, bare, "e")
    back_up(bare, tmp_path / "second", backup[1])
    restore(third := replace(settings, home=tmp_path / "third"), tmp_path / "second", backup[1])
    with open_ledger(third) as ledger:
        ledger.verify()
        assert ledger.published(release("e").release_id) == sha256("e")
        with pytest.raises(BudgetError, match="spent 4 of cap 0"):
            ledger.reserve(release("f"))


# Killed.


def die_at(line: int, settings: Settings, file: Path, key: Path) -> None:
    """Restore, and be killed before the given line of the module that is carried out."""
    kill_before(line, dpicl.installation.restore)
    restore(settings, file, key)


def check_whole(done: Restored, settings: Settings) -> None:
    with open_ledger(settings) as ledger:
        assert ledger.verify() == done.record
        assert {account.name: account.epsilon_cap for account in ledger.accounts()} == {
            "shop": 0,
            "other": 0,
            "unused": 0,
        }
    assert artefact_of(settings, release("b")).read_bytes() == b"b"
    assert {path.name for path in settings.home.glob("[!.]*")} <= {
        "ledger.db",
        "ledger.anchor.json",
        "keys",
        "released",
    }


@pytest.mark.exhaustive
@pytest.mark.parametrize("every", [31, 1])
def test_a_restore_killed_at_every_line_ends_as_one_left_alone(
    settings: Settings, backup: Backup, tmp_path: Path, every: int
) -> None:
    for line in range(0, 2000, every):
        home = replace(settings, home=tmp_path / str(line))
        code = exit_code(forked(die_at, line, home, *backup))
        # an empty home may have been begun, or all is restored
        with suppress(DpiclError), open_ledger(home) as ledger:
            assert {account.epsilon_cap for account in ledger.accounts()} <= {0}
            assert code == 0 or (home.home / "ledger.db").exists()
        if code == 0:
            assert line > 60
            return
        assert code == -signal.SIGKILL
        if (home.home / RESTORING).exists() or not (home.home / "ledger.db").exists():
            check_whole(restore(home, *backup), home)
    pytest.fail("the restore never ends")
