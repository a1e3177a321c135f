"""Where things are, from the environment.

DPICL_HOME        state: ledger, keys, releases, private files, models; an absolute path default the
                  platform's state folder of the user
DPICL_RUNS        runs and their reports, which may be deleted      default `runs` in a DPICL_HOME
                  that is set, else ./.dpicl/runs
DPICL_DATA        folder of data files that contracts name          default none
DPICL_CONTRACTS   folder of your contracts; the shipped ones stand behind it  default
                  ./data_contracts
DPICL_PIPELINES   file of your pipelines and models; the shipped ones stand behind it  default
                  ./pipelines.yaml
DPICL_LEDGER      the ledger's database, `postgresql://…` for several hosts default `ledger.db` in
                  DPICL_HOME
DPICL_POWER_WATTS power that running time is turned into energy with  default 100
DPICL_LOG_FORMAT  `json`: a run's log as JSON lines on standard error default text
DPICL_KEEP        how long `dpicl serve` and `dpicl state clean` keep runs, in days, or `never` to
                  remove none default 90d
DPICL_USER        who charges, as an account's page tells it; bookkeeping  default the user of the
                  machine
DPICL_QUERY_SECONDS how long a contract's query may take, rows read   default 3600
HF_ENDPOINT       the hub that published texts are fetched from, or a mirror  default
                  https://huggingface.co

The state home: where a user's budgets are kept, whatever the working directory, readable by its
owner only.
"""

from __future__ import annotations

import getpass
import math
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, TypeVar

import dpicl
from dpicl.ground.errors import (
    DeclarationError,
    LedgerRefusedError,
    ParameterError,
    RunError,
    one_of,
)

if TYPE_CHECKING:
    # contracts take a while to import: only where one is read
    import pyarrow as pa

    from dpicl.contract import Contract, TextContract

CONTRACTS = "data_contracts"
TEXTS = "texts"
"""Folder of the contracts of texts, below that of all contracts."""
PIPELINES = "pipelines.yaml"
PRIVATE = "private"
Kind = TypeVar("Kind", "Contract", "TextContract")
LOG_FORMATS = ("text", "json")
KEEP = "90d"
HUB = "https://huggingface.co"
_REPOSITORY = Path(dpicl.__file__).parent.parent
_PACKAGED = Path(dpicl.__file__).parent / "resources"


def _shipped(name: str) -> Path:
    """A file or folder that comes with dpicl: of the repository, or of the package."""
    return path if (path := _REPOSITORY / name).exists() else _PACKAGED / name


SHIPPED_PIPELINES = _shipped(PIPELINES).resolve()  # as one's own is, to compare


def _yaml_names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.name.endswith(".yaml")]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:  # a shipped contract would stand for one that cannot be seen
        raise DeclarationError(
            folder.name, "", f"cannot be read ({error.strerror})", "a folder of contracts"
        ) from None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # in a container, a number without a name
        return str(os.getuid())


def _command() -> str:
    """Without what was typed after it: that may be private."""
    path = Path(sys.argv[0])
    program = path.parent.name if path.stem == "__main__" else path.stem
    if program != "dpicl":
        return program if program[:1] not in ("", "-") else "python"
    return " ".join(["dpicl", *[word for word in sys.argv[1:] if word[:1] != "-"][:1]])


def _own(variable: str, name: str) -> Path:
    """The user's file or folder: the one that is named, or in the working directory; it may not be
    there.
    """
    return Path(os.environ.get(variable) or name).resolve()


def read_days(name: str, text: str) -> int | None:
    """A number of days as it is written, such as 90d; None for `never`. Raises ParameterError: the
    value of `name` is neither.
    """
    if text == "never":
        return None
    if not re.fullmatch("[1-9][0-9]{0,4}d", text):
        raise ParameterError(
            name, repr(text[:40]), "a number of days, 1d at least, such as 90d; or never"
        )
    return int(text[:-1])


class SourceFolders(TypedDict):
    """As what reads a source takes them: the folder of the files that contracts name, and that of
    downloads.
    """

    data_folder: Path | None
    cache_folder: Path


@dataclass(frozen=True)
class Given:
    """A contract that the program which makes a release states, and private rows that it holds;
    None where the contract says where they are.

    Where the program states no cap, `has_cap` is false, and the contract's is what its release
    costs.
    """

    contract: Contract
    rows: pa.Table | None = field(repr=False)
    has_cap: bool


@dataclass(frozen=True)
class Settings:
    """One installation: its folders, its ledger, and what a run goes by."""

    home: Path
    data: Path | None
    contracts: Path
    """The user's own contracts; it may not be there yet. `contract_files` has the shipped ones
    too.
    """
    pipelines: Path
    """The user's own pipelines.yaml, or the shipped one where there is none."""
    runs: Path
    ledger: str | None = None
    """The address of the ledger's database; None for a file in `home`."""
    power: str = "100"
    logs: str = LOG_FORMATS[0]
    keep: str = KEEP
    hub: str = HUB
    given: Given | None = None
    """Rows of this process, in place of a file of a contract."""
    editions: tuple[tuple[str, str], ...] = ()
    """Published sets of texts and which edition of each is meant; of others the one that is at
    hand.
    """
    named_contracts: bool = False
    """Whether DPICL_CONTRACTS names their folder, so that shipped ones are no substitute for a
    folder that is not there.
    """
    states_pipelines: bool = True
    """Whether a pipelines.yaml is in the working directory or named, be it the shipped one: nothing
    else runs by itself.
    """
    witnesses: Path | None = None
    """The user's folder of what is known of all state homes; None where there is none."""
    user: str = ""
    command: str = ""
    """Who charges, and by which command, as an account's page tells it."""

    @staticmethod
    def current() -> Settings:
        """Those that were entered here, by a session, a command, a task or a worker. Raises
        RunError: none were.
        """
        if (entered := _entered.get()) is None:
            raise RunError(
                "no settings are entered here; expected `Settings.from_environment().entered()` "
                "around what is done"
            )
        return entered

    @staticmethod
    def from_environment() -> Settings:
        """What the environment says, for the beginning of a process or a session.
        Raises ParameterError: the user has no state folder, or names one that goes by the working
        directory.
        """
        data, named, runs = (
            os.environ.get(name) for name in ("DPICL_DATA", "DPICL_HOME", "DPICL_RUNS")
        )
        home = stated_home("DPICL_HOME", named) if named else default_home()
        pipelines = _own("DPICL_PIPELINES", PIPELINES)
        states_pipelines = pipelines.exists() or bool(os.environ.get("DPICL_PIPELINES"))
        return Settings(
            home,
            Path(data).resolve() if data else None,
            _own("DPICL_CONTRACTS", CONTRACTS),
            pipelines if states_pipelines else SHIPPED_PIPELINES,
            Path(runs).resolve()
            if runs
            else (home if named else Path(".dpicl").resolve()) / "runs",
            os.environ.get("DPICL_LEDGER") or None,
            os.environ.get("DPICL_POWER_WATTS") or "100",
            os.environ.get("DPICL_LOG_FORMAT") or LOG_FORMATS[0],
            os.environ.get("DPICL_KEEP") or KEEP,
            os.environ.get("HF_ENDPOINT") or HUB,
            named_contracts=bool(os.environ.get("DPICL_CONTRACTS")),
            states_pipelines=states_pipelines,
            witnesses=witness_folder(),
            user=os.environ.get("DPICL_USER") or _user(),
            command=_command(),
        )

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Inside, stages work with these."""
        token = _entered.set(self)
        try:
            yield
        finally:
            _entered.reset(token)

    @property
    def states_cap(self) -> bool:
        """Whether a contract's cap is stated, and not what its first release costs."""
        return self.given is None or self.given.has_cap

    @property
    def power_watts(self) -> float:
        """Power of the machine, to turn time into energy. Raises ParameterError: DPICL_POWER_WATTS
        is no positive number.
        """
        try:
            watts = float(self.power)
        except ValueError:
            watts = math.nan
        if not 0 < watts < math.inf:
            raise ParameterError(
                "DPICL_POWER_WATTS", repr(self.power[:40]), "a positive number of watts"
            )
        return watts

    @property
    def log_format(self) -> str:
        """How logs are written: `text`, the orchestrator's own way, or `json`. Raises
        ParameterError: DPICL_LOG_FORMAT is another word.
        """
        if self.logs not in LOG_FORMATS:
            raise ParameterError("DPICL_LOG_FORMAT", repr(self.logs[:40]), " or ".join(LOG_FORMATS))
        return self.logs

    @property
    def keep_days(self) -> int | None:
        """How long runs are kept; None where none is removed. Raises ParameterError: DPICL_KEEP is
        no number of days.
        """
        return read_days("DPICL_KEEP", self.keep)

    @property
    def own_pipelines(self) -> bool:
        """Whether the user has a pipelines.yaml, which stands before the shipped one."""
        return self.pipelines != SHIPPED_PIPELINES

    @property
    def cache(self) -> Path:
        """Downloads, checked against their digests."""
        return self.home / "cache"

    @property
    def folders(self) -> SourceFolders:
        """Where the rows of contracts are looked for."""
        return {"data_folder": self.data, "cache_folder": self.cache}

    @property
    def models(self) -> Path:
        """Models made on this machine."""
        return self.own("models")

    def make_home(self) -> Path:
        """The state home, made on first use; for its owner only. Raises RunError: it cannot be made
        so.
        """
        make_private(self.home, "DPICL_HOME")
        return self.home

    def make_runs(self) -> Path:
        """The folder of runs, made as the home: reports are public, but a run holds queries too.
        Raises RunError: it cannot be made so.
        """
        make_private(self.runs, "DPICL_RUNS")
        return self.runs

    def own(self, *parts: str) -> Path:
        """A folder below the state home; it and those above are for their owner only."""
        folder = self.make_home()
        for part in parts:
            folder = folder / part
            folder.mkdir(mode=0o700, exist_ok=True)
            folder.chmod(0o700)
        return folder

    def private(self, *parts: str) -> Path:
        """A folder of private files, made where it is not there."""
        return self.own(PRIVATE, *parts)

    @property
    def private_home(self) -> Path:
        """Where all folders of private files are, which may not be there."""
        return self.home / PRIVATE

    def contract(self, name: str) -> Contract:
        """The contract of a table, by its plain name. Raises ParameterError: there is none;
        DeclarationError: the file breaks a rule.
        """
        from dpicl.contract import Contract

        return self._load(name, self.contract_names, Contract)

    def texts(self, name: str) -> TextContract:
        """The contract of a set of texts, by its plain name. Raises ParameterError: there is none;
        DeclarationError: it breaks a rule.
        """
        from dpicl.contract import TextContract

        return self._load(name, self.text_names, TextContract)

    def declared(self, name: str) -> Contract | TextContract:
        """The contract of a data set of any kind. Raises ParameterError: there is none;
        DeclarationError: the file breaks a rule, or a table and a set of texts have one name.
        """
        from dpicl.contract import Contract

        if self.given is not None and name == self.given.contract.name:
            return self.given.contract
        path = self.contract_files().get(name)
        if path is not None:
            if self.is_of_texts(path):
                return self.texts(name)
            if (path.parent / TEXTS / path.name).exists():
                raise DeclarationError(
                    f"{TEXTS}/{name}.yaml",
                    "name",
                    "is also the name of a table",
                    "a name of its own",
                )
        return self._load(name, lambda: self.contract_names() + self.text_names(), Contract)

    def _load(self, name: str, known: Callable[[], list[str]], kind: type[Kind]) -> Kind:
        from dpicl.contract import TextContract, load_contract

        if (
            self.given is not None
            and name == self.given.contract.name
            and isinstance(self.given.contract, kind)
        ):
            return self.given.contract
        if self.named_contracts and not self.contracts.is_dir():
            raise ParameterError("DPICL_CONTRACTS", self.contracts.name, "a folder that is there")
        if name not in (names := known()):
            own = self.own_names()
            names = sorted(names, key=lambda known: known not in own)  # the user's own first
            raise ParameterError("dataset", repr(name[:60]), one_of(name, names))
        contract = load_contract(self.contract_files()[name])
        if not isinstance(contract, kind):
            rule = "is of texts" if isinstance(contract, TextContract) else "is of a table"
            raise DeclarationError(
                f"{name}.yaml",
                "kind",
                rule,
                f"contracts of texts in the folder {TEXTS}, and no others there",
            )
        if isinstance(contract, TextContract) and contract.source.published is not None:
            return self._edition(contract)
        return contract

    def _edition(self, contract: TextContract) -> TextContract:
        """Of a published set the edition that a run was planned for, else the one that is at hand.
        Raises RunError: there is none such.
        """
        from dpicl.contract.load import edition, edition_names
        from dpicl.data.text_files import edition_at_hand

        chosen = dict(self.editions).get(contract.name)
        if chosen is None:
            chosen = edition_at_hand(contract, **self.folders)
        if chosen not in edition_names(contract):
            raise RunError(
                f"{contract.name}: its contract has no slice {chosen[:60]!r} any more; start a "
                f"new run"
            )
        return edition(contract, chosen)

    def contract_files(self) -> dict[str, Path]:
        """The file of every contract, by its name: of one name the user's own before a shipped one,
        whatever their kinds.
        """
        folders = [
            folder
            for layer in (_shipped(CONTRACTS), self.contracts)
            for folder in (layer / TEXTS, layer)
        ]
        return {
            Path(name).stem: folder / name for folder in folders for name in _yaml_names(folder)
        }

    def own_names(self) -> list[str]:
        """Names of the contracts in the user's own folder."""
        return sorted(
            name
            for name, path in self.contract_files().items()
            if path.is_relative_to(self.contracts)
        )

    def replaces_shipped(self, name: str) -> bool:
        """Whether the user's own contract stands in the place of a shipped one, and says something
        else.
        """
        shipped = replace(self, contracts=_shipped(CONTRACTS)).contract_files().get(name)
        own = self.contract_files().get(name)
        if shipped is None or own is None:
            return False
        try:
            return own.read_bytes() != shipped.read_bytes()
        except OSError:  # which is said where it is used
            return True

    def is_of_texts(self, path: Path) -> bool:
        """Whether a contract's file lies where those of texts do."""
        return path.parent.name == TEXTS and path.parent in (
            self.contracts / TEXTS,
            _shipped(CONTRACTS) / TEXTS,
        )

    def contract_names(self) -> list[str]:
        """Names of all contracts of tables."""
        return sorted(
            name for name, path in self.contract_files().items() if not self.is_of_texts(path)
        )

    def text_names(self) -> list[str]:
        """Names of all contracts of texts."""
        return sorted(
            name for name, path in self.contract_files().items() if self.is_of_texts(path)
        )


_entered: ContextVar[Settings | None] = ContextVar("entered", default=None)
_LONGEST = 400
"""Bytes of a state home's path; a ledger's may have 512."""
LEDGER = "ledger.db"
KEY = Path("keys") / "ledger.key"
ANCHOR = "ledger.anchor.json"
RESTORE_LOCK = ".restore.lock"
RESTORING = "restoring"
"""Is there while a backup is being restored: its time, its name and one of the attempt."""


def default_home() -> Path:
    """The state folder that the platform gives its user, whatever the working directory.

    Raises:
        ParameterError: the user has no folder of his own, or it goes by the working directory.
    """
    if sys.platform == "win32":
        named = "LOCALAPPDATA"
        base = Path(os.environ.get("LOCALAPPDATA", ""))
    elif sys.platform == "darwin":
        named = "HOME"
        base = _of_user("Library", "Application Support")
    else:
        named = "HOME"
        base = Path(os.environ.get("XDG_STATE_HOME", ""))
        if not base.is_absolute():  # the standard: a relative one is not heeded
            base = _of_user(".local", "state")
    if not base.is_absolute():
        raise ParameterError(
            named,
            repr(os.environ.get(named, "")[:60]),
            "the absolute path of a folder, or DPICL_HOME set to one",
        )
    return (base / "dpicl").resolve()


def witness_folder() -> Path | None:
    r"""Where the platform lets this user keep what is known of all state homes; None where it says
    nothing.

    Linux       $XDG_CONFIG_HOME/dpicl/witness, or ~/.config/dpicl/witness
    macOS       ~/Library/Preferences/dpicl/witness
    Windows     %APPDATA%\dpicl\witness
    """
    if sys.platform == "win32":
        base = Path(os.environ.get("APPDATA", ""))
    elif sys.platform == "darwin":
        base = _of_user("Library", "Preferences")
    else:
        base = Path(os.environ.get("XDG_CONFIG_HOME", ""))
        if not base.is_absolute():  # as of a state home
            base = _of_user(".config")
    return (base / "dpicl" / "witness").resolve() if base.is_absolute() else None


def stated_home(name: str, stated: str) -> Path:
    """The state home that a user names. Raises ParameterError: it goes by the working directory,
    each of which would have its own budgets; or is too long.
    """
    if not Path(stated).is_absolute():
        meant = Path(os.path.expandvars(os.path.expanduser(stated))).absolute()  # noqa: PTH111 - never fails
        raise ParameterError(
            name,
            repr(stated[:60]),
            f"an absolute path, or each working directory would have budgets of its own: perhaps "
            f"{meant}",
        )
    if len(os.fsencode(stated)) > _LONGEST:
        raise ParameterError(
            name, stated[:60], f"a path of at most {_LONGEST} bytes, as SQLite opens no longer ones"
        )
    return Path(stated).resolve()


def _of_user(*parts: str) -> Path:
    try:
        return Path.home().joinpath(*parts)
    except RuntimeError:  # no such variable, and no user of this number
        return Path()


def make_private(folder: Path, variable: str) -> None:
    """Make a folder that is for its owner only, or make one so that is there; `variable` names
    another one, for messages. Raises RunError: it cannot be made, is not the user's own, or is one
    that users share.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = stat.S_IMODE(folder.stat().st_mode)
        if mode & stat.S_ISVTX or folder == folder.parent:
            raise RunError(
                f"{_named(variable, folder)}: others use it too; expected a folder of its own, "
                f"set {variable} to one"
            )
        if mode & 0o777 != 0o700:
            folder.chmod(0o700)
    except OSError as error:
        raise RunError(
            f"{_named(variable, folder)}: {error.strerror}; expected a folder of yours that can be "
            f"written and be for you alone (mode 0700), set {variable} to one"
        ) from None


def _named(variable: str, folder: Path) -> str:
    return f"{'state folder' if variable == 'DPICL_HOME' else 'folder of runs'} {folder}"


def check_restored(home: Path) -> None:
    """Refuse to spend while a restore is not finished. The LedgerRefusedError says what to do."""
    if (home / RESTORING).exists():
        taken = (home / RESTORING).read_text("utf-8").partition(" ")[0]
        raise LedgerRefusedError(
            f"{home}: a backup of {taken} is being restored here; expected `dpicl state restore` "
            f"with it, to finish"
        )
