"""The witness: what a user's ledgers have reached and spent, outside their state homes; one small
file for each ledger.

A state home that is put back from a copy, or begun anew, is whole by itself. Against the witness
its chain is too short, or another ledger has spent for the same rows. A file is called by a hash of
its ledger's key, and holds the head, the home, and of each account with a cap what it has spent and
the addresses of its rows. It is written after a commit, under a lock that is held from before the
check: it only moves forward, and a crash leaves it behind, never ahead. Of benchmarks nothing is in
it. A backup that is restored beside the home in use can be read; its ledger takes that one's place
once a command states a cap there.

Trust       holds public values only: names, addresses, costs, a hash under a secret key.
Not covered a witness that is lost or put back together with the home, as of a whole machine;
another user, another host; copies of rows.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dpicl.ground.errors import LedgerRefusedError
from dpicl.ground.files import INODE, locked, make_private_folder, read_json, write_whole
from dpicl.ledger.fold import Fold, spent_from
from dpicl.ledger.keys import Head, keyed_hash

log = logging.getLogger("dpicl.witness")
_UNPLACED = (INODE, "bundled:")
"""Of addresses that say nothing elsewhere: an inode may be another file's by now, and what comes
with dpicl is public.
"""
_told: set[str] = set()


@dataclass(frozen=True)
class WitnessedAccount:
    """An account with a cap, as it was when its ledger was written last: what it had spent, and
    where its rows are.
    """

    ledger: str
    home: str
    name: str
    spent: str
    delta: float
    addresses: Sequence[str]

    @property
    def key(self) -> str:
        """By which a statement names it."""
        return f"{self.ledger} {self.name}"

    @property
    def epsilon(self) -> float:
        """What it had spent; of some kinds of noise it takes a while to tell."""
        return self._epsilon_of(self.spent)

    def has_spent_more_than(self, spent: str | None) -> bool:
        """Whether a total, as the ledger writes it, is less than what this account had spent."""
        return spent != self.spent and self.epsilon > (
            0.0 if spent is None else self._epsilon_of(spent)
        )

    def _epsilon_of(self, spent: str) -> float:
        return spent_from(spent).cost(self.delta).epsilon


@dataclass(frozen=True)
class Seen:
    """What a witness knows of one ledger, the state home in which it was used last, and whether
    that is another one than the reader's.
    """

    head: Head
    accounts: tuple[WitnessedAccount, ...]
    home: str
    is_elsewhere: bool


class Witness:
    """The witness of one ledger, in the folder of all ledgers of a user.

    Args:
        folder: of the user, outside of every state home; None where there is none.
        key: the ledger's.
        home: the state home that the ledger belongs to, for messages.
    """

    def __init__(self, folder: Path | None, key: bytes, home: Path) -> None:
        self._home = str(home)
        self.ledger = keyed_hash(key, "witness")[:32]
        self._folder = None if folder is None or folder.is_relative_to(home) else folder

    @property
    def path(self) -> Path | None:
        """Where it is, or will be; None where it would be of no use."""
        return None if self._folder is None else self._folder / f"{self.ledger}.json"

    @property
    def is_there(self) -> bool:
        """Whether it was ever written, as far as can be seen."""
        return self.path is not None and os.path.exists(self.path)  # noqa: PTH110

    def read(self) -> Seen | None:
        """What it knows; None where there is none so far. Raises LedgerRefusedError: the file is
        not what dpicl wrote.
        """
        return None if self.path is None else self._read(self.path)

    def others(self) -> Iterator[WitnessedAccount]:
        """Accounts of this user's other ledgers. Raises LedgerRefusedError: as `read`."""
        for path in [] if self._folder is None else sorted(self._folder.glob("*.json")):
            if path != self.path and (seen := self._read(path)) is not None:
                yield from seen.accounts

    def _read(self, path: Path) -> Seen | None:
        try:
            content = read_json(path)
            head = Head(int(content["sequence"]), str(content["hash"]))
            home = str(content["home"])
            accounts = tuple(
                WitnessedAccount(path.stem, home, name, **told)
                for name, told in content["accounts"].items()
            )
            for account in accounts:
                spent_from(account.spent)
        except OSError as error:
            if not isinstance(error, FileNotFoundError | NotADirectoryError):
                self._warn(f"{path}: cannot be read ({error.strerror})")
            return None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise LedgerRefusedError(
                f"{path}: is not what dpicl wrote; expected the file as it was, or that you remove "
                "it, after which nothing outside the state home tells what its ledger has spent"
            ) from None
        return Seen(head, accounts, home, os.path.realpath(home) != os.path.realpath(self._home))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nobody else writes a witness of this user meanwhile, where there is a folder that can be
        written.
        """
        with ExitStack() as stack:
            if self._folder is not None:
                with suppress(OSError):  # told where it is written
                    make_private_folder(self._folder)
                    stack.enter_context(locked(self._folder / ".lock"))
            yield

    def advance(self, fold: Fold, *, replace: bool = False, was_spent: bool = False) -> None:
        """Write what a commit has reached, unless it is there already or further, or nothing is
        spent; the lock is held.

        A folder that cannot be written is a warning: the commit stands.

        Args:
            replace: whatever is there, as by a restore.
            was_spent: whether something was spent before: then the witness should have been there.
        """
        if not fold.has_spent:
            return
        if self.path is None:
            self._warn(
                "there is no folder of this user for a witness (XDG_CONFIG_HOME or HOME, outside "
                "of the state home)"
            )
            return
        known = self.read()
        if known is not None and known.head.sequence >= fold.head.sequence and not replace:
            return
        accounts = {
            name: {
                "spent": account.spent,
                "delta": account.row["delta_cap"],
                "addresses": [
                    address
                    for address, payer in sorted(fold.assets.items())
                    if payer == name and not address.startswith(_UNPLACED)
                ],
            }
            for name, account in fold.accounts.items()
            if account.spent
        }
        content = json.dumps({**vars(fold.head), "home": self._home, "accounts": accounts})
        try:
            make_private_folder(self.path.parent)
            write_whole(self.path, content.encode(), replace=True, named_later=True)
        except OSError as error:
            self._warn(f"{self.path.parent}: {error.strerror}")
            return
        if known is not None and known.is_elsewhere and os.path.isdir(known.home):  # noqa: PTH112
            totals = ", ".join(f"{seen.name} epsilon {seen.epsilon:.6g}" for seen in known.accounts)
            _tell(
                f"{known.home}: its ledger is refused from now on, as {self._home}, restored or "
                f"copied from the same ledger, takes its place; it had spent: {totals}"
            )
        if known is None and was_spent:
            _tell(
                f"{self._home}: no witness of its ledger was in {self.path.parent}; it begins "
                f"now, and an older copy is not told from before"
            )

    def _warn(self, reason: str) -> None:
        _tell(
            f"{reason}: no witness of {self._home} is kept outside of it, and a copy of it that "
            f"is put back would not be noticed"
        )


def _tell(sentence: str) -> None:
    """Warn once in a process."""
    if sentence not in _told:
        _told.add(sentence)
        log.warning("%s", sentence)
