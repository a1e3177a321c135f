"""Claims on worlds at the borders: sources that a rule about all rows, a threshold or a guess of
types would tell apart, chained by neighbours.

numbers   no row, one, two; of a batch, and one more; of two batches, and one more (batches are of
          `BATCH` rows here)
labels    one label alone, and with one row of another
values    one out of bounds, one without a value (which turns a data frame's whole numbers into
          fractions), one that breaks the contract by itself
nights    an empty first night of a series, no row in any, one

All that a command lets out is the same in all worlds of a chain, once the draw is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lab.audit.end_to_end.claims import BATCH, Broken, alike
from lab.audit.end_to_end.commands import Command
from lab.audit.end_to_end.series import NIGHTS, History, night_rows, series_alike
from lab.audit.end_to_end.world import (
    MISSING,
    MOST_ROWS,
    NEWCOMER,
    Declaration,
    SourceRow,
    base_rows,
    newcomer,
)

Rows = Sequence[SourceRow]
Tables = Mapping[str, Rows]
FEW = (0, 1, 2)


def numbers(declaration: Declaration) -> Tables:
    """By the number of rows: below, at and above every border that there is; first the usual
    one.
    """
    rows = base_rows(declaration)
    return {
        "usual": rows,
        **{
            f"{count} rows": rows[:count]
            for count in (*FEW, 3, BATCH, BATCH + 1, 2 * BATCH, 2 * BATCH + 1)
        },
    }


def few(declaration: Declaration) -> Tables:
    """The same of the smallest."""
    rows = base_rows(declaration)
    return {"usual": rows, **{f"{count} rows": rows[:count] for count in FEW}}


def labels(declaration: Declaration) -> Tables:
    """One label alone, and one row of the other."""
    rows, new = base_rows(declaration), newcomer(declaration)
    column = "city" if declaration.kind == "texts" else "member"
    same = [{**row, column: rows[0][column]} for row in rows]
    return {
        "usual": rows,
        "one label": same,
        "one row of the other": _joined(declaration, same, new),
    }


def values(declaration: Declaration) -> Tables:
    """One row more (or in another's place) with a value that is not as the others are."""
    rows, new = base_rows(declaration), newcomer(declaration)
    if declaration.kind == "texts":
        odd: dict[str, SourceRow] = {
            "an empty text": {**new, "body": ""},
            "a text too long": {**new, "body": "x" * 200},
        }
        odd |= {"a list for a text": {**new, "body": ["x"]}} if declaration.mends else {}
    else:
        odd = {
            "above": {**new, "spent": 104},
            "below": {**new, "spent": -1},
            "far above": {**new, "spent": 10**12},
        }
        if declaration.mends:
            odd |= {
                "a gap": {**new, "spent": None},
                "no such city": {**new, "city": "xxxxx"},
                "no city": {**new, "city": ""},
            }
            odd |= {"no such label": {**new, "member": "perhaps"}}
            odd |= (
                {"bytes of no text": {**new, "city": b"\xff"}}
                if declaration.kind in ("folder", "batches", "query")
                else {}
            )
        if declaration.neighbours != "replace-one" and not declaration.mends:
            odd |= {"a word for a missing value": {**new, "city": MISSING}}
    return {"usual": rows, **{name: _joined(declaration, rows, one) for name, one in odd.items()}}


def persons(declaration: Declaration) -> Tables:
    """None, one and two; and one with as many rows as may enter, and one more."""
    rows, new = base_rows(declaration), newcomer(declaration)
    some = {f"{count} persons": [row for row in rows if row["person"] < count] for count in FEW}
    many = {
        f"a person of {count} rows": [*rows, *[{**new, "person": NEWCOMER}] * count]
        for count in (MOST_ROWS, MOST_ROWS + 1)
    }
    return {"usual": rows, **some, **many}


def _joined(declaration: Declaration, rows: Rows, new: SourceRow) -> Rows:
    return [*rows[:7], new, *rows[8:]] if declaration.neighbours == "replace-one" else [*rows, new]


def border(declaration: Declaration, command: Command, *kinds: Tables) -> Broken:
    """All worlds of some kinds, which begin with the same usual one."""
    return alike(
        declaration, {name: rows for kind in kinds for name, rows in kind.items()}, command
    )


def of_table(declaration: Declaration, command: Command) -> Broken:
    """By number, label and value: of rows that may come and go all; where their number is public,
    those of as many rows.
    """
    mended = replace(declaration, mends=True)
    counted = () if declaration.neighbours == "replace-one" else (numbers(mended),)
    return border(mended, command, *counted, labels(mended), values(mended))


def of_frame(command: Command) -> Broken:
    """One gap in a column of whole numbers, and no row at all."""
    mended = Declaration(mends=True)
    return border(
        mended,
        command,
        few(mended),
        {
            name: rows
            for name, rows in values(mended).items()
            if name in ("usual", "a gap", "above")
        },
    )


def of_nights(*, deliveries: bool = False, groups: bool = False, whole: bool = False) -> Broken:
    """Histories of a series with nights of few rows; `whole` has more of them."""
    usual: History = [night_rows(night) for night in range(1, NIGHTS + 1)]
    first = usual[0]
    one = first[:1]
    histories: dict[str, History] = {
        "usual": usual,
        "an empty first night": [
            [row for row in rows if row["day"] != one[0]["day"]] for rows in usual
        ],
        "no row": [[]] * NIGHTS,
    }
    if whole:
        of_one_label: History = [[{**row, "member": "no"} for row in rows] for rows in usual]
        histories |= {
            "one row": [one] * NIGHTS,
            "two rows": [first[:2]] * NIGHTS,
            "one label": of_one_label,
        }
        late = [{**row, "member": "yes"} for row in night_rows(NIGHTS)[-1:]]
        histories["the other label in the last night"] = [
            *of_one_label[:-1],
            [*of_one_label[-1][:-1], *late],
        ]
    return series_alike(histories, deliveries=deliveries, groups=groups)
