"""A4: how many rows a folder or query has decides nothing that can be seen: not whether there is a
release, not the pieces of work, not which checks there may be. Its contract decides, by what it
says of its `population`.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import chain as joined
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
import yaml

from dpicl.contract.load import parse_contract
from dpicl.data.reading import files
from dpicl.data.reading.files import BATCH_ROWS, WHOLE_ROWS, in_batches
from dpicl.ground.errors import PrivacyError
from dpicl.methods import METHODS
from dpicl.release import rows
from dpicl.release import rows as private_rows
from dpicl.runs import chain, draw, prepare
from dpicl.runs.chain import published, rows_ready
from dpicl.runs.execute import steps_of
from dpicl.runs.plan import make_plan
from dpicl.runs.run_folder import read_plan
from tests.harness import Place, new_place, shop, shop_rows

LIMIT, BATCH = 40, 10
METHOD_NAMES = ("gdp_tabicl", "mst_tabicl", "aim_tabicl", "tab_pe", "tab_pate")
LARGE = {"population": WHOLE_ROWS + 1}
Shown = dict[str, Any]


def declared(kind: str, **changes: Any) -> dict[str, Any]:
    """A private table of this kind of source."""
    content = {**shop(private=True), **changes}
    content["privacy"] = {**content["privacy"], "neighbours": "add-or-remove-one"}
    content["groups"] = {2: ["label"]}
    if kind != "file":
        query = {"url_env": "SHOP", "sql": "SELECT age, spent, colour, member, bought FROM shop"}
        del content["source"]["file"]
        content["source"] |= {"query": query} if kind == "query" else {"folder": "shop"}
    return content


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Batches of a few rows, and what was once the limit of what is read whole, which rows cross
    here.
    """
    monkeypatch.setattr(files, "BATCH_ROWS", BATCH)
    return new_place(tmp_path / "place")


def put(place: Place, kind: str, rows: int, **changes: Any) -> None:
    """A contract and so many rows."""
    table = pa_csv.read_csv(pa.BufferReader(shop_rows(rows).encode()))
    data = place.root / "data"
    (place.root / "contracts" / "shop.yaml").write_text(
        yaml.safe_dump(declared(kind, **changes), sort_keys=False)
    )
    (data / "shop_queries.csv").write_text(shop_rows(12, seed=99))
    if kind == "file":
        pa_csv.write_csv(table, data / "shop.csv")
    elif kind == "query":
        with closing(sqlite3.connect(data / "shop.db")) as database:
            table.to_pandas().to_sql("shop", database)
    else:
        (data / "shop").mkdir()
        pieces = 3 if kind == "folder of three files" else 1
        for number in range(pieces):
            start, stop = number * rows // pieces, (number + 1) * rows // pieces
            pq.write_table(
                table.slice(start, stop - start),
                data / "shop" / f"{number}.parquet",
                row_group_size=7,
            )


def shown(place: Place, method: str, caplog: pytest.LogCaptureFixture) -> Shown:
    """All steps up to a release, what they say, and the names of the files that are there to be
    seen then; or the refusal.
    """
    caplog.clear()
    caplog.set_level(logging.INFO, logger="dpicl")
    steps: list[tuple[str, tuple[Any, ...]]] = []
    with place.entered(SHOP=f"sqlite:///{place.root / 'data' / 'shop.db'}"):
        options: dict[str, Any] = {
            "methods": [method],
            "datasets": ["shop"],
            "epsilons": [1],
            "shots": [2],
            "seeds": [0],
            "model": "fake",
        }
        run = make_plan("private", options, "r")
        (unit,) = read_plan(run).units
        refusal = ""
        try:
            for series, name in ((rows_ready, "shop"), (published, unit)):
                for step in joined.from_iterable(steps_of(series, str(run), name)):
                    steps.append((step.stage.name, step.references[1:]))
                    step.stage(*step.references)
        except Exception as error:
            refusal = f"{type(error).__name__}: {error}"
        files = sorted(str(path.relative_to(run)) for path in run.rglob("*"))
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("dpicl")]
    return {"steps": steps, "refusal": refusal, "files": files, "lines": lines}


def at_the_border(
    tmp_path: Path, method: str, kind: str, caplog: pytest.LogCaptureFixture, **changes: Any
) -> list[Shown]:
    """With one row less than the limit, with as many, and with one more."""
    seen = []
    for count in (LIMIT - 1, LIMIT, LIMIT + 1) if kind == "folder" else (LIMIT, LIMIT + 1):
        place = new_place(tmp_path / f"{method}-{kind}-{count}")
        put(place, kind, count, **changes)
        seen.append(shown(place, method, caplog))
    return seen


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BATCH_ROWS", BATCH)
    monkeypatch.setattr(files, "WHOLE_ROWS", LIMIT)


@pytest.mark.quick("gdp_tabicl-folder", "tab_pate-folder", "tab_pe-query")
@pytest.mark.parametrize(
    ("method", "kind"),
    [
        *((method, "folder") for method in METHOD_NAMES),
        ("tab_pe", "query"),
        ("gdp_tabicl", "query"),
    ],
)
@pytest.mark.usefixtures("small_limit")
def test_one_row_more_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, method: str, kind: str
) -> None:
    first, *others = at_the_border(tmp_path, method, kind, caplog)
    assert first["refusal"] == "" and all(other == first for other in others)


@pytest.mark.quick("tab_pate-folder", "tab_pe-file", "tab_pe-query")
@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("tab_pe", "file"),
        ("gdp_tabicl", "folder of three files"),
        ("tab_pate", "folder"),
        ("tab_pe", "query"),
    ],
)
@pytest.mark.usefixtures("small_limit")
def test_nor_where_the_contract_says_that_the_table_is_large(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, method: str, kind: str
) -> None:
    first, *others = at_the_border(tmp_path, method, kind, caplog, **LARGE)
    assert first["refusal"] == "" and all(other == first for other in others)
    assert ("prepare" in {name for name, _ in first["steps"]}) == (kind != "file")


@pytest.mark.quick("1", "71")
@pytest.mark.parametrize("rows", [1, 3, BATCH, 7 * BATCH + 1, 20 * BATCH])
def test_so_many_pieces_whatever_the_rows(
    place: Place, caplog: pytest.LogCaptureFixture, rows: int
) -> None:
    """Also where there are fewer batches than pieces, or more."""
    put(
        place,
        "folder",
        rows,
        checks=[
            {"rule": "both_labels", "severity": "warn"},
            {"rule": "row_count", "severity": "warn"},
        ],
        **LARGE,
    )
    seen = shown(place, "mst_tabicl" if rows == 1 else "gdp_tabicl", caplog)
    assert [name for name, _ in seen["steps"]].count("prepare") == 16
    assert not any(str(rows) in line for line in seen["lines"] if line.startswith("ingest"))


RULES: dict[str, tuple[dict[str, Any], bool]] = {
    "nothing": ({}, False),
    "as many as are read whole": ({"population": WHOLE_ROWS}, False),
    "one more": ({"population": WHOLE_ROWS + 1}, True),
    "a check of a column's values": (
        {**LARGE, "checks": [{"rule": "unique", "column": "age"}]},
        False,
    ),
    "a check of whole rows": ({**LARGE, "checks": [{"rule": "unique"}]}, False),
    "another check": ({**LARGE, "checks": [{"rule": "in_bounds", "severity": "fail"}]}, True),
}


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("kind", ["file", "folder", "query"])
def test_the_contract_says_how_it_is_read(name: str, kind: str) -> None:
    changes, expected = RULES[name]
    assert in_batches(parse_contract(declared(kind, **changes), "shop.yaml")) == (
        expected and kind != "file"
    )


def test_persons_and_digests_of_sorted_rows_are_read_whole() -> None:
    content = declared("folder", **LARGE)
    content["privacy"] |= {
        "unit": "person",
        "neighbours": "replace-one",
        "person": {"id_column": "who", "max_rows": 2},
    }
    assert not in_batches(parse_contract(content, "shop.yaml"))
    stated = {**shop(), **LARGE}
    stated["source"] = {**declared("folder")["source"], "content_sha256": "0" * 64}
    assert not in_batches(parse_contract(stated, "shop.yaml"))


@pytest.mark.parametrize("kind", ["folder", "query"])
@pytest.mark.usefixtures("small_limit")
def test_a_check_of_all_rows_is_made_at_any_size(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    unique = {"checks": [{"rule": "unique", "column": "age"}]}
    for seen in at_the_border(tmp_path, "mst_tabicl", kind, caplog, **unique):
        assert seen["refusal"].startswith("DataError: shop: column 'age': breaks unique"), seen[
            "refusal"
        ]


@pytest.mark.parametrize(
    "rows", [WHOLE_ROWS - 1, WHOLE_ROWS, WHOLE_ROWS + 1, WHOLE_ROWS + BATCH_ROWS]
)
def test_at_the_limit_of_before(tmp_path: Path, rows: int) -> None:
    """With so many rows: as many pieces of work as with a few, which are none."""
    place = new_place(tmp_path / "place")
    put(place, "folder", 1)
    chance, words = (
        np.random.default_rng(0),
        {
            "colour": ["red", "green", "blue"],
            "member": ["no", "yes"],
            "bought": ["no", "yes", "twice"],
        },
    )
    numbers = {"age": chance.integers(0, 120, rows), "spent": chance.integers(0, 90, rows)}
    chosen = {
        name: pa.DictionaryArray.from_arrays(chance.integers(0, len(one), rows), one)
        for name, one in words.items()
    }
    pq.write_table(pa.table({**numbers, **chosen}), place.root / "data" / "shop" / "0.parquet")
    with place.entered():
        run = make_plan(
            "private",
            {
                "methods": ["tab_pe"],
                "datasets": ["shop"],
                "epsilons": [1],
                "shots": [2],
                "model": "fake",
            },
            "r",
        )
        said = prepare.ingest(str(run), "shop")
        assert said == "rows read"
        groups = steps_of(rows_ready, str(run), "shop")
        assert [step.stage.name for group in groups for step in group][1:] == ["validate", "split"]


def by_rows(contract: Any) -> bool:
    """The fault: by the number of rows."""
    from dpicl.home.settings import Settings

    found = files.survey(contract, Settings.current().data)
    return found is not None and found.rows > LIMIT


def refused(batches_of: Callable[[Any, Any], Any], private: Any, method: str) -> Any:
    """The other half of it: a method that counts no batches is refused."""
    if not METHODS[method].takes_batches and private.batches is not None:  # type: ignore[attr-defined]
        raise PrivacyError("counts no table batch by batch; expected a smaller table")
    return batches_of(private, method)


def faulty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_rows, "in_batches", by_rows)
    refusing = partial(refused, rows.counted_batches)
    for module in (rows, draw, chain):
        monkeypatch.setattr(module, "counted_batches", refusing)


@pytest.fixture
def mutant(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    faulty(monkeypatch)
    yield


@pytest.mark.quick("tab_pe-refusal", "gdp_tabicl-steps")
@pytest.mark.parametrize(
    ("method", "what"),
    [
        ("tab_pe", "refusal"),
        ("tab_pate", "refusal"),
        ("gdp_tabicl", "steps"),
        ("mst_tabicl", "lines"),
    ],
)
@pytest.mark.usefixtures("small_limit", "mutant")
def test_the_fault_is_seen(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, method: str, what: str
) -> None:
    before, at, after = at_the_border(tmp_path, method, "folder", caplog)
    assert before == at and at[what] != after[what]
