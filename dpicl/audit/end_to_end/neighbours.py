"""Neighbouring sources: the same rows with one more, one less or one other, wherever it stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dpicl.audit.end_to_end.world import CATEGORIES, MISSING, Declaration, Row

ROWS = 40
NEWCOMER = 1000
"""Id of the person who joins."""
Change = Callable[[list[Row], Row], list[Row]]

ONE_MORE_OR_LESS: Mapping[str, Change] = {
    "appended": lambda rows, new: [*rows, new],
    "inserted first": lambda rows, new: [new, *rows],
    "removed": lambda rows, new: rows[: ROWS // 2] + rows[ROWS // 2 + 1 :],
    "duplicated": lambda rows, new: [*rows, rows[3]],
    "incomplete": lambda rows, new: [*rows, {**new, "city": MISSING}],
}
ANOTHER: Mapping[str, Change] = {"replaced": lambda rows, new: [new if place == 7 else row for place, row in enumerate(rows)]}
PERSON: Mapping[str, Change] = {
    "a person with many rows": lambda rows, new: [new, *rows[:9], new, new, *rows[9:], new],
    "a person less": lambda rows, new: [row for row in rows if row["person"] != 5],
}


def base_rows(declaration: Declaration) -> list[Row]:
    """Rows of many kinds, some of them equal."""
    cities, members = CATEGORIES["city"], CATEGORIES["member"]
    ids = [{"person": number // 3} if declaration.person else {} for number in range(ROWS)]
    if declaration.kind == "texts":
        return [{**ids[number], "city": cities[number % 2], "body": f"letter {number // 2}"} for number in range(ROWS)]
    return [
        {**ids[number], "spent": 3 * number % 20, "city": cities[number % 2], "member": members[number // 2 % 2]} for number in range(ROWS)
    ]


def newcomer(declaration: Declaration) -> Row:
    """A row that nobody else has."""
    who: dict[str, Any] = {"person": NEWCOMER} if declaration.person else {}
    own = (
        {"city": "south", "body": "a letter of nobody else"}
        if declaration.kind == "texts"
        else {"spent": 99, "city": "south", "member": "yes"}
    )
    return {**who, **own}


def neighbours(declaration: Declaration) -> dict[str, tuple[list[Row], list[Row]]]:
    """Pairs of sources by how they differ, as the contract's neighbours do."""
    changes = PERSON if declaration.person else ANOTHER if declaration.neighbours == "replace-one" else ONE_MORE_OR_LESS
    rows, new = base_rows(declaration), newcomer(declaration)
    suited = {name: change for name, change in changes.items() if declaration.kind != "texts" or name != "incomplete"}
    return {name: (rows, change(rows, new)) for name, change in suited.items()}
