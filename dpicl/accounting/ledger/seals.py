"""Seals: a tree of digests over all entries, whose root every record of the chain commits to.

Before a release's row is trusted (that it is charged, not published, not begun, or not there at all) it is compared
with the root, in a time that does not grow with the entries: a row put back as it was earlier is noticed as well.

    leaf   digest of the rows whose release ids begin with the same three digits
    node   digest of up to sixteen nodes below it
    root   prefix ""
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select

from dpicl.accounting.ledger.keys import canonical
from dpicl.accounting.ledger.models import BATCH, drawings, entries, seals
from dpicl.errors import LedgerRefusedError

_DIGITS = "0123456789abcdef"
_DEPTH = 3
_AFTER = "g"
"""Comes after every digit."""
# A statement that stands is built and compiled once: a charge asks most of these twice.
ROOT = select(seals.c.digest).where(seals.c.prefix == "")
_CHARGED, _BEGUN = (
    select(what).where(column >= bindparam("leaf"), column < bindparam("after"))
    for what, column in ((entries, entries.c.release_id), (drawings.c.release_id, drawings.c.release_id))
)
_ALL_CHARGED, _ALL_BEGUN = select(entries).order_by(entries.c.release_id), select(drawings.c.release_id).order_by(drawings.c.release_id)
_BESIDE = select(seals).where(seals.c.prefix.in_(bindparam("beside", expanding=True)))
_OLD = delete(seals).where(seals.c.prefix.in_(bindparam("old", expanding=True)))


def check(connection: Connection, *release_ids: str) -> None:
    """Compare releases' rows, or that there are none, with the root; the caller has compared that with the chain.
    Raises LedgerRefusedError: they were edited.
    """
    root = connection.execute(ROOT).scalar() or ""
    for release_id in release_ids:
        if _path(connection, release_id[:_DEPTH])[""] != root:
            raise LedgerRefusedError(f"the ledger was edited: release {release_id}, or one stored beside it, is not what the chain says")


def seal(connection: Connection, *release_ids: str) -> None:
    """Bring the tree up to date after these releases' rows have changed; they were compared before."""
    for leaf in dict.fromkeys(release_id[:_DEPTH] for release_id in release_ids):
        nodes = _path(connection, leaf)
        connection.execute(_OLD, {"old": list(nodes)})
        _write(connection, nodes)


def seal_all(connection: Connection) -> None:
    """Make the tree anew from all rows, which the caller has compared with the chain."""
    connection.execute(delete(seals))
    _write(connection, expected(connection))


def expected(connection: Connection) -> dict[str, str]:
    """All digests by prefix, from the rows that are there."""
    charged, begun = (connection.execute(rows.execution_options(yield_per=BATCH)) for rows in (_ALL_CHARGED, _ALL_BEGUN))
    told = merge(((row.release_id, dict(row._mapping)) for row in charged), ((name, name) for name in begun.scalars()), key=itemgetter(0))
    nodes = {leaf: _leaf(row for _, row in rows) for leaf, rows in groupby(told, lambda pair: pair[0][:_DEPTH])}
    for depth in range(_DEPTH - 1, -1, -1):
        children: dict[str, dict[str, str]] = defaultdict(dict)
        for prefix, digest in nodes.items():
            if len(prefix) == depth + 1:
                children[prefix[:depth]][prefix] = digest
        nodes |= {parent: _node(below) for parent, below in children.items()}
    return nodes


def stored(connection: Connection) -> dict[str, str]:
    """All digests by prefix, as they are stored."""
    return {row.prefix: row.digest for row in connection.execute(select(seals))}


def _write(connection: Connection, nodes: Mapping[str, str]) -> None:
    if rows := [{"prefix": prefix, "digest": digest} for prefix, digest in nodes.items() if digest]:
        connection.execute(insert(seals), rows)


def _path(connection: Connection, leaf: str) -> dict[str, str]:
    """The digests from a leaf, as its rows are now, up to the root."""
    charged, begun = (connection.execute(rows, {"leaf": leaf, "after": leaf + _AFTER}) for rows in (_CHARGED, _BEGUN))
    nodes = {leaf: _leaf([*(dict(row._mapping) for row in charged), *begun.scalars()])}
    beside = [leaf[:depth] + digit for depth in range(_DEPTH) for digit in _DIGITS]
    siblings = {row.prefix: row.digest for row in connection.execute(_BESIDE, {"beside": beside})}
    for depth in range(_DEPTH - 1, -1, -1):
        below = {prefix: known for prefix, known in siblings.items() if len(prefix) == depth + 1}
        nodes[leaf[:depth]] = _node(below | {leaf[: depth + 1]: nodes[leaf[: depth + 1]]})
    return nodes


def _leaf(rows: Iterable[Any]) -> str:
    return _digest(sorted(map(canonical, rows)))


def _node(below: Mapping[str, str]) -> str:
    return _digest([[prefix, digest] for prefix, digest in sorted(below.items()) if digest])


def _digest(content: list[Any]) -> str:
    return hashlib.sha256(canonical(content).encode()).hexdigest() if content else ""
