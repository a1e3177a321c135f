"""Budgets are a user's, not a folder's: whatever the working directory, its path, and what is
cleaned up there.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from dpicl.home.settings import Settings, default_home, make_private
from tests.cli.conftest import Cli
from tests.harness import (
    DPICL,
    REPOSITORY,
    Place,
    complaint,
    install,
    last_written,
    new_place,
    ran,
    shop,
    well,
)

AT_HOME = Path(".local") / "state" / "dpicl"
DRY_RUN = "run private --datasets shop --methods gdp_tabicl --epsilons 0.5 --shots 2 --dry-run"
ODD = "what? is # this % of 20%20 ü 表"


@dataclass(frozen=True)
class User:
    """Somebody with a home of his own, a table, and no variable that says where state is kept."""

    root: Path

    @property
    def home(self) -> Path:
        """Where his budgets are."""
        return self.root / AT_HOME

    def folder(self, name: str) -> Path:
        """A working directory."""
        (self.root / name).mkdir(exist_ok=True)
        return self.root / name

    def environment(self, **extra: str) -> dict[str, str]:
        """Of his shell."""
        bare = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("DPICL_", "PREFECT_", "DASK_", "XDG_"))
        }
        parts = {"CONTRACTS": "contracts", "PIPELINES": "pipelines.yaml", "DATA": "data"}
        named = {f"DPICL_{name}": f"{self.root}/place/{part}" for name, part in parts.items()}
        return {**bare, **named, "HOME": str(self.root), **extra}

    def dpicl(self, folder: str, line: str, **extra: str) -> subprocess.CompletedProcess[str]:
        """The real command line in a folder of his, under the usual mask of modes."""
        return ran(
            [DPICL, *line.split()],
            cwd=self.folder(folder),
            env=self.environment(COLUMNS="300", **extra),
            timeout=300,
            umask=0o022,
        )

    def protect(self, folder: str, epsilon: str = "1") -> subprocess.CompletedProcess[str]:
        """Spend from the table's account."""
        line = f"protect shop --epsilon {epsilon} --shots 2 --out demos-{epsilon}.jsonl"
        return self.dpicl(folder, line)


@pytest.fixture
def user(tmp_path: Path) -> User:
    """With a table of which releases may cost epsilon 1 in all, and are drawn of all rows."""
    place = new_place(tmp_path / "place")
    contract = shop(private=True)
    contract["privacy"] |= {"neighbours": "add-or-remove-one", "sampling_rate": 1}
    contract["privacy"]["budget"] = {"epsilon": 1}
    install(place, contract)
    return User(tmp_path)


@pytest.mark.exhaustive
def test_another_working_directory_spends_from_the_same_account(user: User) -> None:
    done = user.protect("here")
    assert done.returncode == 0, done.stderr
    assert "costs epsilon=0.5, spent 1 of cap 1, left 0" in complaint(user.protect("there", "0.5"))
    told = user.dpicl("there", "budget").stdout
    assert told.splitlines()[-1] == f"ledger: {user.home / 'ledger.db'}"
    here = user.folder("here")
    # a release is no run
    assert not (here / ".dpicl").exists()
    check_modes(user, here)


def check_modes(user: User, *cwd: Path) -> None:
    """State is for its owner only, and so are runs."""
    for folder in (user.home, *(path / ".dpicl" / "runs" for path in cwd)):
        if folder.exists():
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder
    for path in (
        *user.home.glob("*"),
        *(
            path
            for name in ("keys", "released", "private")
            for path in (user.home / name).rglob("*")
        ),
    ):
        if path.is_file():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


@pytest.mark.quick("new-budget")
@pytest.mark.parametrize(
    "line", ["budget", DRY_RUN, "list", "forecast"], ids=lambda line: line.split()[0]
)
@pytest.mark.parametrize("there", [True, False], ids=["made before", "new"])
def test_whichever_command_comes_first_the_state_home_is_for_its_owner(
    user: User, line: str, there: bool
) -> None:
    if there:
        user.home.mkdir(parents=True, mode=0o755)
    well(user.dpicl("here", line))
    if line != "list":  # which reads declarations only
        assert stat.S_IMODE(user.home.stat().st_mode) == 0o700
        check_modes(user)


@pytest.mark.exhaustive
def test_a_path_may_hold_any_letters(user: User) -> None:
    home = user.folder(ODD) / "home"
    done = well(user.dpicl("here", "budget", DPICL_HOME=str(home)))
    assert done.stdout.splitlines()[-1] == f"ledger: {home / 'ledger.db'}"
    assert {path.name for path in home.parent.iterdir()} == {"home"}
    assert not home.parent.with_name(ODD.partition("?")[0]).exists()
    assert {path.name for path in home.glob("ledger.db*")} == {"ledger.db"}


def test_what_is_called_clean_leaves_budgets(user: User) -> None:
    """The repository's own recipe, in a folder with a home, the demo's and runs."""
    clone = user.folder("clone")
    shutil.copy(REPOSITORY / "Makefile", clone)
    for name in (
        ".venv/bin/python",
        ".dpicl/runs/r/report.html",
        ".dpicl/ledger.db",
        ".dpicl/keys/ledger.key",
        ".dpicl/demo/ledger.db",
    ):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_text("")
    assert user.dpicl("elsewhere", "budget").returncode == 0
    state = last_written(user.home)
    well(ran(["make", "clean"], cwd=clone, env=user.environment()))
    assert {path.name for path in clone.iterdir()} == {"Makefile", ".dpicl"}
    assert {path.name for path in (clone / ".dpicl").iterdir()} == {"ledger.db", "keys", "demo"}
    assert last_written(user.home) == state and (user.home / "keys" / "ledger.key").exists()


SAID = {"DPICL_HOME": "/somewhere/home"}


@pytest.mark.parametrize(
    ("said", "home", "runs"),
    [
        ({}, "USER/.local/state/dpicl", "HERE/.dpicl/runs"),
        ({"XDG_STATE_HOME": "/xdg"}, "/xdg/dpicl", "HERE/.dpicl/runs"),
        ({"XDG_STATE_HOME": "relative"}, "USER/.local/state/dpicl", "HERE/.dpicl/runs"),
        (SAID, "/somewhere/home", "/somewhere/home/runs"),
        ({**SAID, "DPICL_RUNS": "runs"}, "/somewhere/home", "HERE/runs"),
    ],
)
def test_where_state_and_runs_are(
    said: Mapping[str, str], home: str, runs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DPICL_HOME", "DPICL_RUNS", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": str(tmp_path), **said}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    found = Settings.from_environment()
    assert (str(found.home), str(found.runs)) == tuple(
        path.replace("USER", str(tmp_path)).replace("HERE", str(tmp_path / "here"))
        for path in (home, runs)
    )


def test_a_folder_that_users_share_is_no_state_home(tmp_path: Path) -> None:
    from dpicl.ground.errors import RunError

    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    for folder in (tmp_path / "shared", Path("/")):
        before = folder.stat().st_mode
        with pytest.raises(RunError, match="others use it too"):
            make_private(folder, "DPICL_HOME")
        assert folder.stat().st_mode == before


def test_a_home_of_somebody_else_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    (tmp_path / "theirs").mkdir(mode=0o755)
    for path in (tmp_path, *tmp_path.parents):
        if not path.stat().st_mode & 0o001:
            pytest.skip("nobody else comes here")
    script = (
        "import os, sys; os.setuid(65534)\nfrom pathlib import Path\nfrom dpicl.home.settings "
        "import make_private\nmake_private(Path(sys.argv[1]), 'DPICL_HOME')"
    )
    done = ran([DPICL.with_name("python"), "-c", script, tmp_path / "theirs"], cwd=REPOSITORY)
    assert "RunError" in done.stderr and "for you alone" in done.stderr, done.stderr


def test_the_guard_of_the_testers_own_state_sees_what_a_test_writes(tmp_path: Path) -> None:
    """The fixture `own_state_stays` of all tests compares the tester's own state home so."""
    own = tmp_path / "dpicl"
    before = last_written(own)
    settings = Settings(own, None, tmp_path, tmp_path, tmp_path / "runs")
    settings.private("shop")
    assert last_written(own) != before
    assert str(default_home()) != os.environ["TESTERS_STATE_HOME"]
    assert "dpicl-tests-" in str(default_home())


@pytest.fixture(scope="session")
def other_clock() -> str:
    """Debian's library that shows a process another time."""
    found = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
    if found is None:
        pytest.skip("needs libfaketime: apt-get install faketime")
    return str(found)


@pytest.mark.exhaustive
def test_what_was_bought_stays_bought_and_what_was_spent_stays_spent(
    place: Place, cli: Cli, other_clock: str
) -> None:
    table = install(place, shop(private=True))

    def protected(epsilon: str, days: str) -> tuple[str, bytes]:
        out = place.root / f"{epsilon}{days}.jsonl"
        wrong = {"LD_PRELOAD": other_clock, "FAKETIME": days, "DONT_FAKE_MONOTONIC": "1"}
        done = well(
            place.dpicl(f"protect {table} --epsilon {epsilon} --shots 2 --out {out}", **wrong)
        )
        return done.stdout, out.read_bytes()

    told, content = protected("1", "+0d")
    assert "charged now" in told
    assert "charged now" in protected("0.5", "-400d")[0]
    told, again = protected("1", "+400d")
    assert "charged before and free now" in told
    assert again == content
    assert "chain intact" in cli("budget")
