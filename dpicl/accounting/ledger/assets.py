"""Whose rows are where: which accounts pay at an address, and how an address comes to an account.

    file:PATH                       a file or folder by its real path
    inode:HOST:FILESYSTEM:INODE     what stood at such a path when it was last looked at
    s3://BUCKET/KEY                 an object or prefix, at whatever endpoint
    pg:SYSTEM:OID                   a database, as its server says; pg-at:HOST:PORT/DATABASE where
                                    it was

A path decides before an inode does: files are replaced every night, and an inode that is free is
given to another. An inode alone decides
nothing: it is refused until somebody says whether the file was moved or is another one. What a
server says decides before its place does, which counts for a database that is not known: one that
was made anew there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote

from dpicl.accounting.ledger.chain import Change
from dpicl.accounting.ledger.fold import Fold
from dpicl.errors import PrivacyError
from dpicl.files.same_file import INODE, LivingPaths, inode_address

FILE, DATABASE, PLACE = "file:", "pg:", "pg-at:"
LATEST = (INODE, PLACE)
"""Addresses that go from one account to the next, as files are replaced and servers change their
places.
"""
MOST_INODES = 32
"""Of an account, which the addresses of replaced files would make longer every night."""
_NESTED = (FILE, "s3://")
"""Addresses of places that may lie in each other."""


@dataclass(frozen=True)
class Payers:
    """Accounts of the rows at some addresses.

    Attributes:
        sure: those that pay, each with the reason where it is not plain.
        doubtful: those that paid for an inode that one of the paths has now, and that none of their
            own paths has; with that path.
        addresses: all addresses that the rows should be bound to.
    """

    sure: Mapping[str, str]
    doubtful: Mapping[str, str]
    addresses: Sequence[str]

    def with_reason(self, name: str) -> str:
        """The name of an account, and why it pays where that is not plain."""
        reason = self.sure.get(name)
        return f"{name!r} ({reason})" if reason else repr(name)


def payers_at(fold: Fold, addresses: Iterable[str]) -> Payers:
    """The accounts that pay for the rows at these addresses, or for places that lie in one of them
    or that one of them lies in.
    """
    known, mine = fold.assets, list(dict.fromkeys(addresses))
    living, sure = LivingPaths(), dict[str, str]()
    is_identified = any(one.startswith(DATABASE) and one in known for one in mine)
    for address in (one for one in mine if not (is_identified and one.startswith(PLACE))):
        for bound, account in known.items():
            if account not in sure and (reason := _reason(address, bound, living)) is not None:
                sure[account] = reason
    inodes = {
        inode: path
        for path in mine
        if path.startswith(FILE) and (inode := inode_address(path.removeprefix(FILE))) is not None
    }
    doubtful = (
        {}
        if sure
        else {
            known[inode]: path.removeprefix(FILE)
            for inode, path in inodes.items()
            if inode in known
        }
    )
    return Payers(sure, doubtful, [*mine, *inodes])


def are_same_rows(mine: Iterable[str], others: Sequence[str]) -> bool:
    """Whether rows at one of some addresses are, or lie in, what one of others leads to."""
    living = LivingPaths()
    return any(_reason(one, other, living) is not None for one in mine for other in others)


def _reason(mine: str, bound: str, living: LivingPaths) -> str | None:
    """Why the account of a bound address pays for mine as well; None if it does not."""
    if mine == bound:
        return (
            "the same database, or a replica or restored clone of it, by what its server says"
            if mine.startswith(DATABASE)
            else ""
        )
    shorter, longer = sorted((mine, bound), key=len)
    if shorter.startswith(_NESTED) and longer.startswith(shorter.rstrip("/") + "/"):
        return ""
    if (
        mine.startswith(FILE)
        and bound.startswith(FILE)
        and living.overlap(mine.removeprefix(FILE), bound.removeprefix(FILE))
    ):
        return f"the same file, or a link to it, is {bound.removeprefix(FILE)}"
    return None


def check_doubt(payers: Payers, own: str) -> None:
    """Raises PrivacyError: a file has the inode of one that another account than `own` paid for,
    and nobody has said what became of that.
    """
    for name, path in payers.doubtful.items():
        if name != own:
            raise PrivacyError(
                f"{path}: has the device and inode of a file that account {name!r} paid for, "
                f"which is at none of its places any more; "
                f"expected `moved_from` (or `account: {name}`) in the contract if it was moved or "
                f"renamed, or "
                f"`dpicl budget {name} --other-file {quote(path)}` if it is another file"
            )


def bind(change: Change, name: str, addresses: Sequence[str]) -> None:
    """Let an account pay for the rows at these addresses from now on; the chain is locked. Some may
    have been another's.
    """
    bound = change.fold.addresses_of(name)
    alive = {
        inode_address(one.removeprefix(FILE))
        for one in (*bound, *addresses)
        if one.startswith(FILE)
    } | set(addresses)
    past = sorted(
        (one for one in bound if one.startswith(INODE) and one not in alive),
        key=lambda one: int(one.rsplit(":", 1)[1]),
    )
    # where inodes are never used again, larger ones are newer
    dropped = past[: max(0, len(past) + len(alive) - MOST_INODES)]
    change.append(
        "bound",
        {"account": name, "addresses": list(addresses)} | ({"dropped": dropped} if dropped else {}),
    )


def other_file(change: Change, name: str, path: str) -> None:
    """Note that the file at a real path is not the one that an account paid for when it had this
    inode; the chain is locked. Raises PrivacyError: the account pays for that file, or never paid
    for one with its inode.
    """
    payers = payers_at(change.fold, [FILE + path])
    if name in payers.sure:
        raise PrivacyError(
            f"{path}: account {payers.with_reason(name)} pays for it; expected a file that is "
            f"none of its own"
        )
    inode = inode_address(path)
    if inode is None or inode not in change.fold.addresses_of(name):
        raise PrivacyError(
            f"{path}: account {name!r} has paid for no file of this device and inode; there is "
            f"nothing to state"
        )
    change.append(
        "bound", {"account": name, "addresses": [], "dropped": [inode], "other_file": path}
    )


def unplaced(fold: Fold) -> list[str]:
    """Names of accounts with a cap that are bound to no address of rows."""
    capped = {name for name, account in fold.accounts.items() if not account.row["benchmark"]}
    return sorted(capped - set(fold.assets.values()))
