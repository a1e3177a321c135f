"""Seals: a tree of digests over all entries, whose root every record of the chain commits to.

Before a release's row is trusted (that it is charged, not published, not begun, or not there at
all) it is compared with the root, in a time that does not grow with the entries: a row put back as
it was earlier is noticed as well.

    leaf   digest of the rows whose release ids begin with the same digits, three or more
    node   digest of up to sixteen nodes below it
    root   prefix ""

A leaf of more than `_LARGEST` rows, entries and beginnings, is parted by further digits when one of
them next changes. A prefix is a leaf if nothing is stored below it: as a node's digest is none of
rows, taking nodes away, or adding them, changes the root. Ids are 64 hexadecimal digits: another
one might lie in no leaf's range, and is refused.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select

from dpicl.accounting.ledger.keys import canonical
from dpicl.accounting.ledger.models import BATCH, drawings, entries, seals
from dpicl.errors import LedgerRefusedError

_DIGITS = "0123456789abcdef"
_SHALLOWEST, _DEEPEST = 3, 6
_LARGEST = 64
_ID = re.compile(f"[{_DIGITS}]{{64}}")
_AFTER = "g"
"""Comes after every digit."""
Row = tuple[str, Any]
"""A release's id, and its entry, or the id again: it has begun."""
Parting = Callable[[str, list[Row]], bool]
"""Whether these rows, whose ids begin with this prefix, are parted by their next digit."""
# A statement that stands is built and compiled once: a charge asks most of these twice.
ROOT = select(seals.c.digest).where(seals.c.prefix == "")
_CHARGED, _BEGUN = (
    select(what).where(column >= bindparam("leaf"), column < bindparam("after"))
    for what, column in (
        (entries, entries.c.release_id),
        (drawings.c.release_id, drawings.c.release_id),
    )
)
_ALL_CHARGED, _ALL_BEGUN = (
    select(entries).order_by(entries.c.release_id),
    select(drawings.c.release_id).order_by(drawings.c.release_id),
)
_BESIDE = select(seals).where(seals.c.prefix.in_(bindparam("beside", expanding=True)))
_OLD = delete(seals).where(seals.c.prefix.in_(bindparam("old", expanding=True)))


def check(connection: Connection, *release_ids: str) -> None:
    """Compare releases' rows, or that there are none, with the root; the caller has compared that
    with the chain. Raises LedgerRefusedError: they were edited, or one has a name that no release
    has.
    """
    root = connection.execute(ROOT).scalar() or ""
    for release_id in release_ids:
        if _path(connection, release_id, _never)[""] != root:
            raise LedgerRefusedError(
                f"the ledger was edited: release {release_id}, or one stored beside it, is not "
                f"what the chain says"
            )


def seal(connection: Connection, *release_ids: str) -> None:
    """Bring the tree up to date after these releases' rows have changed; they were compared
    before.
    """
    for release_id in release_ids:
        nodes = _path(connection, release_id, _too_large)
        connection.execute(_OLD, {"old": list(nodes)})
        _write(connection, nodes)


def seal_all(connection: Connection) -> None:
    """Make the tree anew from all rows, which the caller has compared with the chain."""
    connection.execute(delete(seals))
    _write(connection, _tree(connection, _too_large))


def expected(connection: Connection, prefixes: Collection[str]) -> dict[str, str]:
    """All digests of a tree of this shape by prefix, from the rows that are there."""
    parted = {prefix[:-1] for prefix in prefixes if prefix}
    return _tree(connection, lambda prefix, rows: prefix in parted)


def stored(connection: Connection) -> dict[str, str]:
    """All digests by prefix, as they are stored."""
    return {row.prefix: row.digest for row in connection.execute(select(seals))}


def _write(connection: Connection, nodes: Mapping[str, str]) -> None:
    if rows := [{"prefix": prefix, "digest": digest} for prefix, digest in nodes.items() if digest]:
        connection.execute(insert(seals), rows)


def _never(prefix: str, rows: list[Row]) -> bool:
    return False


def _too_large(prefix: str, rows: list[Row]) -> bool:
    return len(rows) > _LARGEST and len(prefix) < _DEEPEST


def _tree(connection: Connection, is_parted: Parting) -> dict[str, str]:
    charged, begun = (
        connection.execute(rows.execution_options(yield_per=BATCH))
        for rows in (_ALL_CHARGED, _ALL_BEGUN)
    )
    told = merge(
        ((row.release_id, dict(row._mapping)) for row in charged),
        ((name, name) for name in begun.scalars()),
        key=itemgetter(0),
    )
    nodes: dict[str, str] = {}
    for prefix, rows in groupby(told, lambda row: row[0][:_SHALLOWEST]):
        nodes |= _below(prefix, list(rows), is_parted)
    for depth in range(_SHALLOWEST, 0, -1):
        below = _by_parent(
            {prefix: digest for prefix, digest in nodes.items() if len(prefix) == depth}
        )
        nodes |= {parent: _node(children) for parent, children in below.items()}
    return nodes


def _below(prefix: str, rows: list[Row], is_parted: Parting) -> dict[str, str]:
    """The digests of a prefix and of what is below it, of its rows by their ids."""
    if not is_parted(prefix, rows):
        return {prefix: _leaf(row for _, row in rows)}
    depth, nodes = len(prefix) + 1, dict[str, str]()
    for part, own in groupby(rows, lambda row: row[0][:depth]):
        nodes |= _below(part, list(own), is_parted)
    return nodes | {
        prefix: _node({part: digest for part, digest in nodes.items() if len(part) == depth})
    }


def _path(connection: Connection, release_id: str, is_parted: Parting) -> dict[str, str]:
    """The digests from a release's leaf, as its rows are now, up to the root."""
    if not _ID.fullmatch(release_id):
        raise LedgerRefusedError(
            f"release {release_id[:80]!r}: expected 64 hexadecimal digits, as every release is "
            f"named; the ledger was edited"
        )
    beside = [release_id[:depth] + digit for depth in range(_DEEPEST) for digit in _DIGITS]
    children = _by_parent(
        {row.prefix: row.digest for row in connection.execute(_BESIDE, {"beside": beside})}
    )
    leaf = next(
        prefix
        for depth in range(_SHALLOWEST, _DEEPEST + 1)
        if (prefix := release_id[:depth]) not in children
    )
    charged, begun = (
        connection.execute(rows, {"leaf": leaf, "after": leaf + _AFTER})
        for rows in (_CHARGED, _BEGUN)
    )
    rows = [
        *((row.release_id, dict(row._mapping)) for row in charged),
        *((name, name) for name in begun.scalars()),
    ]
    nodes = _below(leaf, sorted(rows, key=itemgetter(0)), is_parted)
    for depth in range(len(leaf) - 1, -1, -1):
        below = leaf[: depth + 1]
        nodes[leaf[:depth]] = _node(children[leaf[:depth]] | {below: nodes[below]})
    return nodes


def _by_parent(nodes: Mapping[str, str]) -> defaultdict[str, dict[str, str]]:
    children: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for prefix, digest in nodes.items():
        children[prefix[:-1]][prefix] = digest
    return children


def _leaf(rows: Iterable[Any]) -> str:
    return _digest(sorted(map(canonical, rows)))


def _node(below: Mapping[str, str]) -> str:
    return _digest([[prefix, digest] for prefix, digest in sorted(below.items()) if digest])


def _digest(content: list[Any]) -> str:
    return hashlib.sha256(canonical(content).encode()).hexdigest() if content else ""
