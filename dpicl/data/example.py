"""Made-up customers of a shop, and what is publicly known of them: to try things with.

    table, schema = dpicl.example()

Guarantee   none needed: nobody stands behind these rows, which are the same on every machine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import stream
from dpicl.ground.typed_calls import typed_call

_CITIES = {"north": 0.5, "south": 0.3, "west": 0.2}
_OPENED, _CLOSED = "2020-01-01", "2025-12-31"
_SCHEMA: Mapping[str, Any] = {
    "columns": {
        "age": {"type": "integer", "bounds": [18, 100]},
        "city": {"type": "category", "categories": list(_CITIES)},
        "joined": {"type": "date", "bounds": [_OPENED, _CLOSED]},
        "member": {"type": "category", "categories": ["no", "yes"]},
        "visits": {"type": "integer", "bounds": [0, 40]},
        "spent": {"type": "real", "bounds": [0, 2000]},
        "bought": {"type": "category", "categories": ["no", "yes"]},
    },
    "label": {"column": "bought", "question": "Will this customer buy again?"},
}


class Example(NamedTuple):
    """A table and its schema, as `dpicl.protect` takes them.

    Attributes:
        table: one row for each customer.
        schema: what the shop could say of its columns without a look at the rows.
    """

    table: pd.DataFrame
    schema: dict[str, Any]

    def write(self, folder: PathLike[str] | str = ".") -> None:
        """The same as files, as the command line takes them: `customers.csv`,
        `customers.schema.json` (a Table Schema), and `new.csv`, two further customers without the
        label: one who did not buy again, and one who did. Files of these names are replaced.
        """
        place = Path(folder)
        self.table.to_csv(place / "customers.csv", index=False)
        fields = [_field(name, column) for name, column in self.schema["columns"].items()]
        content = json.dumps({"fields": fields}, indent=1)
        (place / "customers.schema.json").write_text(content + "\n", encoding="utf-8")
        new = example(2, seed=115).table.drop(columns="bought")
        new.to_csv(place / "new.csv", index=False)


@typed_call
def example(rows: int = 2000, *, seed: int = 0) -> Example:
    """Made-up customers of a shop: age, city, when they joined, whether they are members, visits,
    what they spent, and whether they bought again, which the other columns say something about.

    Args:
        rows: of the table, at least 1.
        seed: of the table; another one makes other customers of the same shop.

    Raises:
        ParameterError: there are fewer rows.
    """
    if rows < 1:
        raise ParameterError("rows", rows, "a number of rows >= 1")
    chance = stream(seed, "example", "customers", "").generator()
    age = chance.normal(45, 16, rows).clip(18, 100).round().astype(int)
    city = chance.choice(list(_CITIES), rows, p=list(_CITIES.values()))
    days = chance.integers(0, (pd.Timestamp(_CLOSED) - pd.Timestamp(_OPENED)).days, rows)
    member = chance.random(rows) < np.where(age > 50, 0.6, 0.3)
    visits = chance.poisson(np.where(member, 6, 2)).clip(0, 40)
    spent = (visits * chance.lognormal(3, 0.8, rows)).clip(0, 2000).round(2)
    odds = np.exp(-2.2 + 0.9 * member + 0.012 * spent + 0.7 * (city == "north") - (age < 30))
    columns: dict[str, Any] = {
        "age": age,
        "city": city,
        "joined": pd.Timestamp(_OPENED) + pd.to_timedelta(days, unit="D"),
        "member": np.where(member, "yes", "no"),
        "visits": visits,
        "spent": spent,
        "bought": np.where(chance.random(rows) < odds / (1 + odds), "yes", "no"),
    }
    # a schema of one's own to change
    return Example(pd.DataFrame(columns), json.loads(json.dumps(_SCHEMA)))


def _field(name: str, column: Mapping[str, Any]) -> dict[str, Any]:
    """A column as Table Schema has it."""
    if "categories" in column:
        return {"name": name, "type": "string", "constraints": {"enum": column["categories"]}}
    low, high = column["bounds"]
    kind = "number" if column["type"] == "real" else column["type"]
    return {"name": name, "type": kind, "constraints": {"minimum": low, "maximum": high}}
