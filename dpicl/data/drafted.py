"""A first schema of a data frame, for the holder of the rows to fill in and to look over.

    schema = dpicl.draft(table, label="bought")
    schema                                  # what is left to do, by column
    schema["columns"]["city"]["categories"].append("east")
    schema = schema.reviewed({"age": (18, 100), "spent": (0, 2000)})

Guarantee   none: types, categories and which values are missing are read off the rows, and are
            private. A draft releases nothing and states no bounds; what is in it leaves only by the
            hand of its holder, and what it shows of itself is names of columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from html import escape
from typing import Any

from dpicl.contract.draft import Draft, DraftColumn, assembled
from dpicl.contract.draft_columns import DATES_OTHERWISE, NUMBERS_OTHERWISE
from dpicl.data.reading.look import looked_at, texts_of
from dpicl.data.reading.typed_columns import as_arrow
from dpicl.ground.errors import ParameterError, one_of
from dpicl.ground.typed_calls import typed_call
from dpicl.ground.yaml_file import parse_yaml

_NAME = "table"
_OF_A_FILE = ("version", "name")
_WAYS = {
    DATES_OTHERWISE: (
        'of 25.11.2026 in pandas: frame[NAME] = pd.to_datetime(frame[NAME], format="%d.%m.%Y")'
    ),
    NUMBERS_OTHERWISE: (
        'of 3,5 in pandas: frame[NAME] = pd.to_numeric(frame[NAME].str.replace(",", "."))'
    ),
}
"""Why a column is left out, and what to do about it in Python."""
_TO_CHECK = "read off the rows: replace by what is publicly known"


class DraftSchema(dict[str, Any]):
    """A schema as `dpicl.protect` takes it, but for bounds, and with `draft: True`, by which
    nothing is released.

    Attributes:
        left_out: {column that a schema cannot describe: why}, which rows say too.
    """

    def __init__(self, content: Mapping[str, Any], left_out: Mapping[str, str]) -> None:
        super().__init__(content)
        self.left_out = dict(left_out)

    @property
    def open(self) -> tuple[str, ...]:
        """Columns whose bounds are to be filled in."""
        columns: Mapping[str, Mapping[str, Any]] = self["columns"]
        return tuple(name for name, column in columns.items() if None in column.get("bounds", ()))

    def reviewed(self, bounds: Mapping[str, object] | None = None) -> dict[str, Any]:
        """The schema without `draft`, and so one that releases: say it once types and categories
        are those that are publicly known, whatever the rows hold.

        Args:
            bounds: {column: (lowest, highest)}, of every column that has none yet, and of others
                in place of theirs.

        Raises:
            ParameterError: a column has no bounds, or there is no such column.
        """
        schema = deepcopy(dict(self))
        del schema["draft"]
        numbers = [name for name, column in schema["columns"].items() if "bounds" in column]
        for name, stated in (bounds or {}).items():
            if name not in numbers:
                raise ParameterError("bounds", name, one_of(name, numbers, " (columns of numbers)"))
            if isinstance(stated, str) or not isinstance(stated, Sequence) or len(stated) != 2:
                raise ParameterError("bounds", name, "a pair, (lowest, highest)")
            schema["columns"][name]["bounds"] = list(stated)
        missing = [name for name in numbers if None in schema["columns"][name]["bounds"]]
        if missing:
            raise ParameterError(
                "bounds",
                ", ".join(missing),
                "the lowest and the highest value possible of these columns, as publicly known",
            )
        return schema

    def _tasks(self) -> list[str]:
        listed = [name for name, column in self["columns"].items() if "categories" in column]
        privacy = self.get("privacy", {})
        person = privacy.get("person", {}).get("id_column")
        tasks = {
            "bounds to fill in": self.open,
            f"categories, {_TO_CHECK}": listed,
            f"types, {_TO_CHECK}": [name for name in self["columns"] if name not in listed],
            "missing values, where `nullable` says so": [
                name for name, column in self["columns"].items() if column.get("nullable")
            ],
            "names persons, it seems, of whom `max_rows` rows enter": [person] if person else [],
            "left out (why: `.left_out`)": list(self.left_out),
        }
        return [f"{task}: {', '.join(names)}" for task, names in tasks.items() if names]

    def __repr__(self) -> str:
        head = f"A draft of {len(self['columns'])} columns, which releases nothing until `reviewed`"
        return "\n  ".join([head, *self._tasks()])

    def _repr_html_(self) -> str:
        head, *tasks = repr(self).split("\n  ")
        lines = "".join(f"<li>{escape(task)}</li>" for task in tasks)
        return f"<div><p>{escape(head)}</p><ul>{lines}</ul></div>"


@typed_call
def draft(
    rows: Any,
    *,
    label: str | None = None,
    positive: Sequence[str] = (),
    population: int | None = None,
) -> DraftSchema:
    """A first schema of a data frame: what `dpicl contract new` drafts from the rows of a file,
    with bounds left to fill in. It looks at the rows, so that it is private until its holder has
    looked it over, and releases nothing before.

    Args:
        rows: a data frame of pandas, polars or Arrow.
        label: the column to predict, if one is.
        positive: its values that count as Yes; if there are none, each is a class.
        population: about how many rows there are, as publicly stated; they are not counted.

    Raises:
        DpiclError: there is no such label or value, or no column that a schema can describe.
    """
    where = "the data frame"
    texts, unread = texts_of(as_arrow(rows), where)
    stated = Draft(_NAME, where, (), label, tuple(positive), population=population, ignored=unread)
    looked = looked_at(texts, stated, where, _WAYS)
    found = assembled(looked, where)
    found = replace(found, columns=tuple(map(_without_bounds, found.columns)))
    content = parse_yaml(found.text.encode(), f"{_NAME}.yaml")
    source = {key: value for key, value in content["source"].items() if key != "file"}
    privacy = {key: value for key, value in content["privacy"].items() if key in ("unit", "person")}
    kept = {key: value for key, value in content.items() if key not in _OF_A_FILE}
    parts = {"source": source, "privacy": privacy}
    schema = {key: value for key, value in (kept | parts).items() if value not in ({}, None)}
    return DraftSchema(schema, found.ignored)


def _without_bounds(column: DraftColumn) -> DraftColumn:
    return column if column.is_listed else replace(column, bounds=(None, None))
