"""A world: an installation of its own with one contract and one source, to which the commands of
this process are pointed; and its neighbours.

Two worlds of a pair stand at the same place, one after the other, and share the installation's
secret keys: whatever differs between what they show is due to their rows.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, ClassVar, Literal
from unittest.mock import patch

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import yaml

from dpicl.ground.files import PRIVATE_MODE, publish
from dpicl.ground.installed import contributed
from dpicl.home.settings import Settings
from dpicl.methods import METHODS, audited
from dpicl.methods.gdp_tabicl import GdpTabicl
from dpicl.runs.observed import GROUP

SourceRow = Mapping[str, Any]
SourceKind = Literal["csv", "folder", "batches", "query", "texts"]
KINDS: tuple[SourceKind, ...] = ("csv", "folder", "batches", "query", "texts")
"""Every kind of source; `batches` is a folder whose contract states a `population` that is not read
whole.
"""
MANY = 1 << 20
"""That `population`."""
Measured = Literal["not at all", "public queries", "held-out rows"]
"""What a run's answers are compared with."""
NAME, URL, OUT = "shop", "DPICL_AUDITED_DATABASE", "out"
"""Of the contract and its rows; a variable with the address of a database; the folder of files that
commands are asked for.
"""
CATEGORIES: Mapping[str, Sequence[str]] = {"city": ("north", "south"), "member": ("no", "yes")}
MISSING = "?"
_STORE = {
    "AWS_ACCESS_KEY_ID": "audited",
    "AWS_SECRET_ACCESS_KEY": "audited",
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
}
"""Of objects, where nothing answers."""
FIRST_DAY = date(2031, 1, 1)
"""Of a horizon."""
MOST_ROWS = 2
"""Of a person that may enter a release."""


@dataclass(frozen=True)
class Declaration:
    """What a world's contract says beyond its columns."""

    kind: SourceKind = "csv"
    neighbours: str = "add-or-remove-one"
    person: bool = False
    measured: Measured = "not at all"
    narrow: bool = False
    """Whether there is one column beside the label."""
    mends: bool = False
    """Whether rows that break the contract by themselves are left out, and a number may be
    missing.
    """
    cap: float = 1000.0
    nights: int = 0
    """Of a horizon, in which persons enter with one row a night, with corrections two, and
    `MOST_ROWS` in all; or into which texts come.
    """
    corrections: bool = False
    """Whether rows of a horizon take others back."""
    deliveries: bool = False
    """Whether they come in a file for each night, and say nothing of their day."""

    def contract(self) -> dict[str, Any]:
        """The contract as YAML holds it."""
        content = self._texts() if self.kind == "texts" else self._table()
        content["privacy"] |= {
            "neighbours": self.neighbours,
            "budget": {"epsilon": self.cap, "delta": 0.01},
        }
        if self.person:
            content["privacy"] |= {
                "unit": "person",
                "person": {"id_column": "person", "max_rows": MOST_ROWS},
            }
        if self.nights:
            content["releases"] = {
                "every": "day",
                "horizon": self.nights,
                "first": FIRST_DAY.isoformat(),
            }
        if self.nights and self.kind == "texts":
            content["source"] = {
                **content["source"],
                "deliveries": NAME,
                "queries": {"file": "public.jsonl"},
            }
            del content["source"]["train"], content["ensemble"]
        elif self.nights:
            nightly = 2 if self.corrections else 1  # a correction is two rows of one night
            content["privacy"]["person"] |= {"max_rows": nightly, "max_rows_in_horizon": MOST_ROWS}
            content["source"] |= {
                "arrived": "day",
                **({"sign": "sign"} if self.corrections else {}),
            }
            if self.deliveries:
                content["source"] = {"deliveries": NAME}
        return content

    def _table(self) -> dict[str, Any]:
        places: dict[SourceKind, dict[str, Any]] = {
            "csv": {"file": f"{NAME}.csv"},
            "query": {"query": {"url_env": URL, "sql": f"SELECT * FROM {NAME}"}},
        }
        measured: dict[Measured, dict[str, Any]] = {
            "public queries": {"queries": {"file": "public.csv"}},
            "held-out rows": {"split": {"test_fraction": 0.2, "evaluation_epsilon": 1}},
        }
        # under replace-one the number of rows is public, and none is dropped
        missing = {} if self.neighbours == "replace-one" else {"missing": MISSING}
        halves = {
            name: {"column": name, "parts": [[one], [other]]}
            for name, (one, other) in CATEGORIES.items()
        }
        mended = {"invalid": "leave-out"} if self.mends else {}
        spent = {
            "type": "integer",
            "bounds": [0, 100],
            **({"nullable": True} if self.mends else {}),
        }
        central = "From the {city}." if self.narrow else "From the {city}, spends {spent}."
        return {
            "version": 1,
            "name": NAME,
            "description": "Made-up customers.",
            "source": {
                "title": "t",
                "licence": "l",
                "citation": "c",
                **missing,
                **mended,
                **places.get(self.kind, {"folder": NAME}),
            },
            "privacy": {"sampling_rate": "1"},
            **({"population": MANY} if self.kind == "batches" else {}),
            **measured.get(self.measured, {}),
            "columns": {
                **({} if self.narrow else {"spent": spent}),
                **{
                    name: {"type": "category", "categories": list(values)}
                    for name, values in CATEGORIES.items()
                },
            },
            "label": {**halves["member"], "question": "Are they a member?"},
            "groups": {2: ["label"]},
            "local": [{"name": "city", **halves["city"], "texts": list(CATEGORIES["city"])}],
            "prompts": {"local": {"text": "From the {city}."}, "central": {"text": central}},
        }

    def _texts(self) -> dict[str, Any]:
        mended = {"invalid": "leave-out"} if self.mends else {}
        files = {part: {"file": f"{NAME}/{part}.jsonl"} for part in ("train", "queries")}
        labels = {name: {"text": name.capitalize(), "min_rows": 2} for name in CATEGORIES["city"]}
        return {
            "version": 1,
            "kind": "text",
            "name": NAME,
            "description": "Made-up letters.",
            "source": {"title": "t", "licence": "l", "citation": "c", **mended, **files},
            "privacy": {},
            "text": "{body}",
            "max_characters": 60,
            "task": {"kind": "classification", "field": "city", "labels": labels},
            "query_count": 1,
            "prompts": {
                "generation": {"instruction": "Write a letter.", "label": "Kind", "text": "Letter"},
                "answering": {
                    "instruction": "Where is it from?",
                    "text": "Letter",
                    "answer": "Kind",
                },
            },
            "generation": {
                "subsets": 2,
                "examples": 1,
                "candidates": 4,
                "max_tokens": 2,
                "delta": "1/100",
            },
            "ensemble": {"subsets": 2, "delta": "1/100"},
        }


@dataclass(frozen=True)
class World:
    """An installation below one folder."""

    root: Path

    @property
    def home(self) -> Path:
        """State of the installation."""
        return self.root / "home"

    @property
    def data(self) -> Path:
        """What contracts name."""
        return self.root / "data"

    given: ClassVar[tuple[str, ...]] = ("data", "contracts", "pipelines.yaml", "tmp")
    """What stands here before a command: all else is what it leaves."""

    def put(self, rows: Sequence[SourceRow], kind: SourceKind, columns: Sequence[str] = ()) -> None:
        """Write the source's rows anew; `columns` are its, where there may be none."""
        self.data.mkdir(exist_ok=True)
        (self.data / "public.csv").write_text("spent,city,member\n10,north,no\n20,south,yes\n")
        names, place = tuple(rows[0]) if rows else columns, self.data / NAME
        table = pa.table(
            {} if kind == "texts" else {name: [row[name] for row in rows] for name in names}
        )
        if kind == "csv":
            pa_csv.write_csv(
                table, place.with_suffix(".csv"), pa_csv.WriteOptions(quoting_style="none")
            )
        elif kind == "query":
            path = place.with_suffix(".db")
            with sqlite3.connect(path) as database:
                database.execute(f"DROP TABLE IF EXISTS {NAME}")
                database.execute(f"CREATE TABLE {NAME} ({', '.join(table.column_names)})")
                values = ", ".join("?" * table.num_columns)
                database.executemany(
                    f"INSERT INTO {NAME} VALUES ({values})",
                    [tuple(row.values()) for row in table.to_pylist()],
                )
            database.close()
        elif kind == "texts":
            place.mkdir(exist_ok=True)
            queries = [{"city": "north", "body": "who is there?"}]
            for part, records in (("train", rows), ("queries", queries)):
                (place / f"{part}.jsonl").write_text(
                    "".join(json.dumps(dict(record)) + "\n" for record in records)
                )
        else:
            place.mkdir(exist_ok=True)
            pq.write_table(table, place / "rows.parquet")

    def forget(self) -> None:
        """Remove all that commands have left, the witness too, but the secret keys, so that another
        world may stand here with the same ones.
        """
        left = [
            path
            for path in self.root.iterdir()
            if path.name not in self.given and path != self.home
        ]
        kept = {self.home / "keys", self.home / audited.FOLDER}
        for path in (
            *left,
            *(self.root / "tmp").iterdir(),
            *(self.home.iterdir() if self.home.exists() else ()),
        ):
            if path not in kept:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def address(self, url: str) -> str:
        """A new variable with the address of a database, for as long as the world is entered."""
        name = f"{URL}_{len(os.environ)}"
        os.environ[name] = url
        return name

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Point this process's commands here, with nothing of the caller's own settings."""
        before, folder = dict(os.environ), Path.cwd()
        observers = contributed(GROUP).names  # nobody is told of an audit
        for name in [name for name in before if name.startswith("DPICL_") or name in observers]:
            del os.environ[name]
        places = {
            "HOME": self.home,
            "CONTRACTS": self.root / "contracts",
            "PIPELINES": self.root / "pipelines.yaml",
            "DATA": self.data,
        }
        os.environ.update({f"DPICL_{name}": str(path) for name, path in places.items()})
        # it has settings there too
        os.environ.setdefault("MPLCONFIGDIR", str(Path.home() / ".cache" / "matplotlib"))
        # where the witness is
        os.environ |= dict.fromkeys(("XDG_CONFIG_HOME", "APPDATA"), str(self.root / "settings"))
        os.environ[URL] = f"sqlite:///{self.data / NAME}.db"
        elsewhere = {"TMPDIR": "tmp", "XDG_STATE_HOME": "user"}
        os.environ.update(
            {**_STORE, **{name: str(self.root / folder) for name, folder in elsewhere.items()}}
        )
        (self.root / "tmp").mkdir(exist_ok=True)
        for method in METHODS.values():  # as if transcripts of it had passed: rows are made up
            if not audited.is_ours(method):
                note = audited.note_of(method, self.home / audited.FOLDER)
                publish(note, b"", mode=PRIVATE_MODE, replace=True)
        os.chdir(self.root)
        try:
            with Settings.from_environment().entered(), patch.object(tempfile, "tempdir", None):
                yield
        finally:
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(before)


@contextmanager
def new_world(declaration: Declaration) -> Iterator[World]:
    """A world with the contract, and a pipelines.yaml whose models cost nothing: in memory where
    there is such a place, gone at the end.
    """
    memory = "/dev/shm"  # noqa: S108 - a folder of its own is made there
    with tempfile.TemporaryDirectory(
        prefix="dpicl-audit-", dir=memory if os.access(memory, os.W_OK) else None
    ) as folder:
        world = World(Path(folder))
        texts = world.root / "contracts" / "texts"
        texts.mkdir(parents=True)
        place = texts if declaration.kind == "texts" else texts.parent
        (place / f"{NAME}.yaml").write_text(yaml.safe_dump(declaration.contract(), sort_keys=False))
        grid = {
            "model": "fake",
            "methods": [GdpTabicl.name],
            "datasets": [NAME],
            "epsilons": [1],
            "shots": [1],
        }
        pipelines = {
            "version": 1,
            "models": {"fake": {"kind": "fake"}},
            "pipelines": {"audited": {"title": "audited", **grid}},
        }
        (world.root / "pipelines.yaml").write_text(yaml.safe_dump(pipelines, sort_keys=False))
        yield world


ROWS = 40
NEWCOMER = 1000
"""Id of the person who is added."""
RowsChange = Callable[[list[SourceRow], SourceRow], list[SourceRow]]

ONE_MORE_OR_LESS: Mapping[str, RowsChange] = {
    "appended": lambda rows, new: [*rows, new],
    "inserted first": lambda rows, new: [new, *rows],
    "removed": lambda rows, new: rows[: ROWS // 2] + rows[ROWS // 2 + 1 :],
    "duplicated": lambda rows, new: [*rows, rows[3]],
    "incomplete": lambda rows, new: [*rows, {**new, "city": MISSING}],
}
ANOTHER: Mapping[str, RowsChange] = {
    "replaced": lambda rows, new: [new if place == 7 else row for place, row in enumerate(rows)]
}
PERSON: Mapping[str, RowsChange] = {
    "a person with many rows": lambda rows, new: [new, *rows[:9], new, new, *rows[9:], new],
    "a person less": lambda rows, new: [row for row in rows if row["person"] != 5],
}


def base_rows(declaration: Declaration) -> list[SourceRow]:
    """Rows of many kinds, some of them equal."""
    cities, members = CATEGORIES["city"], CATEGORIES["member"]
    ids = [{"person": i // 3} if declaration.person else {} for i in range(ROWS)]
    if declaration.kind == "texts":
        return [{**ids[i], "city": cities[i % 2], "body": f"letter {i // 2}"} for i in range(ROWS)]
    return [
        {**ids[i], "spent": 3 * i % 20, "city": cities[i % 2], "member": members[i // 2 % 2]}
        for i in range(ROWS)
    ]


def newcomer(declaration: Declaration) -> SourceRow:
    """A row unlike all others."""
    own = (
        {"body": "a letter unlike all others"}
        if declaration.kind == "texts"
        else {"spent": 99, "member": "yes"}
    )
    return {**({"person": NEWCOMER} if declaration.person else {}), "city": "south", **own}


def neighbours(declaration: Declaration) -> dict[str, tuple[list[SourceRow], list[SourceRow]]]:
    """Pairs of sources by how they differ, as the contract's neighbours do."""
    changes = (
        PERSON
        if declaration.person
        else ANOTHER
        if declaration.neighbours == "replace-one"
        else ONE_MORE_OR_LESS
    )
    rows, new = base_rows(declaration), newcomer(declaration)
    suited = {
        name: change
        for name, change in changes.items()
        if declaration.kind != "texts" or name != "incomplete"
    }
    return {name: (rows, change(rows, new)) for name, change in suited.items()}
