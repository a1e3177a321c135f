"""The names that a source has for its columns, against those of a contract.

Messages name columns, which are public, those that only the source has too. But where as many are
unknown as known they are named by position alone: the line break after the header may be lost, and
a row be its end.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from dpicl.contract.models import Contract
from dpicl.errors import DataError

_SEPARATORS = {";": "`;`", "\t": "tabs", "|": "`|`"}


def check_columns(names: Sequence[str], contract: Contract, where: str) -> None:
    """All columns of the contract once, and no others but those it ignores; any order.
    Raises DataError: a column is missing, stands twice, or is unknown.
    """
    wanted, ignored = contract.read_columns, contract.source.ignore
    if not set(names) & set(wanted):
        check_commas(names, where)
    missing = [name for name in wanted if name not in names]
    if missing:
        header = "" if len(missing) < len(wanted) else ", in a first line that names them"
        rule = (
            f"is not among the columns{_more(missing)}; expected all {len(wanted)} of the "
            f"contract{header}"
        )
        raise DataError(where, rule, column=missing[0])
    check_distinct(names, where, known=(*wanted, *ignored))
    extra = [name for name in names if name not in wanted and name not in ignored]
    if not extra:
        return
    rule, listed = (
        f"is not in the contract{_more(extra)}; expected its columns, or",
        json.dumps(extra, ensure_ascii=False),
    )
    place = f"column {names.index(extra[0]) + 1} of {len(names)}"
    # else a line break may be lost, and the header's end a row
    if len(extra) < len(names) - len(extra):
        unnamed = "" if extra[0] else f"{place}, which has no name, "
        raise DataError(where, f"{unnamed}{rule} `source: {{ignore: {listed}}}`", column=extra[0])
    raise DataError(where, f"{place} {rule} `source: {{ignore: [...]}}`", detail=listed)


def check_commas(names: Sequence[str], where: str) -> None:
    """Raises DataError: there is one column, whose name has another mark in it that separates
    columns.
    """
    mark = (
        next((mark for mark in _SEPARATORS if mark in names[0]), None) if len(names) == 1 else None
    )
    if mark is not None:
        raise DataError(
            where,
            f"has one column: is it separated by {_SEPARATORS[mark]}? expected commas between "
            f"columns",
        )


def check_distinct(names: Sequence[str], where: str, known: Sequence[str] = ()) -> None:
    """No column name stands twice; one that is not `known` may be a value. Raises DataError: one
    does.
    """
    counts = Counter(names)
    twice = [name for name in names if counts.pop(name, 1) > 1]
    if twice:
        rule = f"has a name that stands twice in the header{_more(twice)}; expected distinct names"
        place = "" if twice[0] in known else f"column {names.index(twice[0]) + 1} of {len(names)} "
        raise DataError(
            where,
            place + rule,
            column="" if place else twice[0],
            detail=repr(twice[0]) if place else "",
        )


def _more(named: Sequence[object]) -> str:
    return f" (and {len(named) - 1} more)" if len(named) > 1 else ""
