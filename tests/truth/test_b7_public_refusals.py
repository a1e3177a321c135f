"""A refusal of data says what is public, whole: column, rule, expected form and fix; what rows tell
is in `details()` alone.
"""

from __future__ import annotations

import copy
import gzip
import io
import json
import logging
import pickle
import re
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr
from multiprocessing import Pipe
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import dpicl
from dpicl.contract.columns.integer import BEYOND, NOT_WHOLE
from dpicl.contract.columns.real import NOT_FINITE
from dpicl.ground import errors
from dpicl.ground.errors import DataError, DpiclError, RunError, clean_errors
from dpicl.home.settings import Settings
from dpicl.runs import execute
from dpicl.runs.execute import _raise
from dpicl.runs.stage import set_up, stage_log
from tests.truth.small import typed_in

pytestmark = pytest.mark.usefixtures("home")

ROWS, BROKEN = 3917, 2379
"""Most tables have so many rows, of which so many break a rule. Neither number, nor their
difference, is one that anything public has: a year, a time's milliseconds.
"""
PRIVATE = re.compile(rf"(?<!\d)({ROWS}|{BROKEN}|{ROWS - BROKEN}|{BROKEN + 1}|{ROWS + 1})(?!\d)|zq7")
COLUMNS: dict[str, dict[str, Any]] = {
    "age": {"type": "integer", "bounds": [18, 99]},
    "spent": {"type": "real", "bounds": [0, 1e6]},
    "day": {"type": "date", "bounds": ["2015-01-01", "2026-12-31"]},
    "at": {"type": "datetime", "bounds": ["2015-01-01", "2026-12-31"]},
    "town": {"type": "category", "categories": ["north", "south", "west"]},
    "y": {"type": "category", "categories": ["no", "yes"]},
}
HOW: dict[str, Any] = {"epsilon": 1, "budget": 5, "anyway": True}


def frame(**changed: Any) -> pd.DataFrame:
    """Sound rows as texts, but for the columns that are changed in the first of them."""
    sound = {
        "age": "40",
        "spent": "1.5",
        "day": "2020-02-29",
        "at": "2020-02-29T12:00:00",
        "town": "north",
        "y": "no",
    }
    rows = pd.DataFrame({name: [value] * ROWS for name, value in sound.items()})
    rows["y"] = np.where(np.arange(ROWS) % 2, "no", "yes")
    for name, value in changed.items():
        rows.loc[: BROKEN - 1, name] = value
    return rows


def schema(**changed: Any) -> dict[str, Any]:
    return {
        "columns": {
            **{name: {**column, "invalid": "refuse"} for name, column in COLUMNS.items()},
            **changed,
        },
        "label": "y",
    }


def csv(rows: pd.DataFrame) -> bytes:
    return rows.to_csv(index=False).encode()


def parquet(**columns: Any) -> bytes:
    file = io.BytesIO()
    table = {name: pa.array(values) for name, values in frame().to_dict("list").items()}
    pq.write_table(pa.table({**table, **columns}), file)
    return file.getvalue()


NULLABLE = "or `nullable: true`"
FILES: dict[str, tuple[str, bytes, str, str]] = {
    "an empty number": (
        "rows.csv",
        csv(frame(age="")),
        f"column 'age': is empty; expected a value in every row, {NULLABLE}",
        f"{BROKEN} values",
    ),
    "an empty category": (
        "rows.csv",
        csv(frame(town="")),
        f"column 'town': is empty; expected a value in every row, {NULLABLE}",
        f"{BROKEN} values",
    ),
    "a fraction": (
        "rows.csv",
        csv(frame(age="1.5")),
        f"column 'age': {NOT_WHOLE}",
        f"{BROKEN} values",
    ),
    "beyond 64 bits": (
        "rows.csv",
        csv(frame(age="9" * 30)),
        f"column 'age': {BEYOND}",
        f"{BROKEN} values",
    ),
    "no number": (
        "rows.csv",
        csv(frame(spent="zq7")),
        f"column 'spent': {NOT_FINITE}",
        f"{BROKEN} values",
    ),
    "a day as in the US": (
        "rows.csv",
        csv(frame(day="02/29/2024")),
        "column 'day': is no date such as 2026-11-25",
        f"{BROKEN} values",
    ),
    "a time without a day": (
        "rows.csv",
        csv(frame(at="12:30")),
        "column 'at': is no datetime such as 2026-11-25T12:30:00",
        f"{BROKEN} values",
    ),
    "an unknown category": (
        "rows.csv",
        csv(frame(town="zq7")),
        "column 'town': is not one of the 3 categories; expected one of north, south, west",
        f"{BROKEN} values",
    ),
    "a long text": (
        "rows.csv",
        csv(frame().assign(town=["x" * 70_000] * 2 + ["north"] * (ROWS - 2))),
        "column 'town': has more than 65536 bytes",
        "2 values",
    ),
    "Latin-1": (
        "rows.csv",
        csv(frame()) + "40,1,,,Köln,no\n".encode("latin-1"),
        "is not UTF-8; expected text in UTF-8",
        f"from line {ROWS + 2} on",
    ),
    "UTF-16": (
        "rows.csv",
        csv(frame()).decode().encode("utf-16"),
        "is not UTF-8; expected text in UTF-8",
        "from line 1 on",
    ),
    "ragged": (
        "rows.csv",
        csv(frame()) + b"1,2\n" * BROKEN,
        "some rows are ragged; expected 6 fields in each",
        f"{BROKEN} of {ROWS + BROKEN} rows",
    ),
    "semicolons": (
        "rows.csv",
        csv(frame()).replace(b",", b";"),
        'has one column: is it separated by `;`? state `source: {delimiter: ";"}`',
        "",
    ),
    "tabs": (
        "rows.csv",
        csv(frame()).replace(b",", b"\t"),
        'has one column: is it separated by tabs? state `source: {delimiter: "\\t"}`',
        "",
    ),
    "a column too many": (
        "rows.csv",
        csv(frame().assign(shoe="zq7")),
        (
            "column 'shoe': is not in the contract; expected its columns, or `source: {ignore: "
            '["shoe"]}`'
        ),
        "",
    ),
    "the index of a frame": (
        "rows.csv",
        frame().to_csv().encode(),
        (
            "column 1 of 7, which has no name, is not in the contract; expected its columns, or "
            '`source: {ignore: [""]}`'
        ),
        "",
    ),
    "columns too many": (
        "rows.parquet",
        parquet(**{"a b": ["zq7"] * ROWS, "Größe: 2": [1] * ROWS}),
        (
            "column 'a b': is not in the contract (and 1 more); expected its columns, or `source: "
            '{ignore: ["a b", "Größe: 2"]}`'
        ),
        "",
    ),
    "a column too few": (
        "rows.csv",
        csv(frame().drop(columns="town")),
        "column 'town': is not among the columns; expected all 6 of the",
        "",
    ),
    "no header": (
        "rows.csv",
        csv(frame()).split(b"\n", 1)[1],
        (
            "column 'age': is not among the columns (and 5 more); expected all 6 of the contract, "
            "in "
            "a first line that names them"
        ),
        "",
    ),
    "a header in a row": (
        "rows.csv",
        csv(frame()).replace(b"\n", b",zq7,2,3,4,5,6\n", 1),
        (
            "column 7 of 12 is not in the contract (and 5 more); expected its columns, or `source: "
            "{ignore: [...]}`"
        ),
        '"zq7"',
    ),
    "a name twice": (
        "rows.csv",
        csv(frame()).replace(b"spent", b"age", 1),
        "column 'spent': is not among the columns",
        "",
    ),
    "a known name twice": (
        "rows.csv",
        csv(frame().assign(more=1)).replace(b"more", b"day", 1),
        "column 'day': has a name that stands twice in the header; expected distinct names",
        "",
    ),
    "an unknown name twice": (
        "rows.csv",
        csv(frame()).replace(b"\n", b",zq7,zq7\n", 1),
        "column 7 of 8 has a name that stands twice in the header; expected distinct names",
        "'zq7'",
    ),
    "nothing": ("rows.csv", b"", "is an empty file; expected rows", ""),
    "a bomb": (
        "rows.csv.gz",
        gzip.compress(b"0" * (20 << 20)),
        "unpacks to too much; expected at most 100 times its size",
        "more than",
    ),
    "nulls": (
        "rows.parquet",
        parquet(age=[None] * BROKEN + [40] * (ROWS - BROKEN)),
        f"column 'age': is empty; expected a value in every row, {NULLABLE}",
        f"{BROKEN}",
    ),
    "infinity": (
        "rows.parquet",
        parquet(spent=[float("inf")] * BROKEN + [1.0] * (ROWS - BROKEN)),
        NOT_FINITE,
        f"{BROKEN} values",
    ),
}


def everywhere(error: DpiclError) -> str:
    """All that shows an error which nobody asked for details."""
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own words
    shown = [
        str(error),
        repr(error),
        repr(error.args),
        repr(vars(error)),
        f"{error!s:>9}",
        "".join(traceback.format_exception(error)),
    ]
    shown += [
        str(again),
        repr(vars(again)),
        again.details(),
        str(copy.copy(error)),
        pickle.dumps(error).decode("latin-1"),
    ]
    shown += [
        str(getattr(error, name)())
        for name in ("_repr_html_", "_repr_markdown_", "_repr_pretty_")
        if hasattr(error, name)
    ]
    return "\n".join(shown)


def refusal(tmp_path: Path, name: str, data: bytes, **changed: Any) -> DpiclError:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DpiclError) as refused:
        dpicl.protect(tmp_path / name, schema(**changed), **HOW)
    return refused.value


@pytest.mark.parametrize(("name", "data", "public", "private"), FILES.values(), ids=FILES)
def test_the_rule_is_whole_and_what_rows_tell_is_apart(
    tmp_path: Path, name: str, data: bytes, public: str, private: str
) -> None:
    error = refusal(tmp_path, name, data)
    assert isinstance(error, DataError) and f": {public}" in str(error) and "…" not in str(error)
    assert PRIVATE.findall(everywhere(error)) == []
    assert error.details().startswith(str(error)) and private in error.details()
    assert (error.details() != str(error)) is bool(private)


def test_a_frame_is_refused_in_the_same_words(tmp_path: Path) -> None:
    for rows, public in (
        (
            frame(town="zq7"),
            "column 'town': is not one of the 3 categories; expected one of north, south, west",
        ),
        (frame(day="2024-02-30"), "column 'day': is no date such as 2026-11-25"),
        (frame().assign(extra="zq7"), '`source: {ignore: ["extra"]}`'),
        (
            frame().rename(columns={"age": "Age"}),
            "column 'age': is not among the columns; expected all 6",
        ),
    ):
        with pytest.raises(DataError) as refused:
            dpicl.protect(rows, schema(), account="rows", **HOW)
        assert public in str(refused.value) and PRIVATE.findall(everywhere(refused.value)) == []


def test_the_fix_that_is_said_is_one(tmp_path: Path) -> None:
    error = refusal(tmp_path, "rows.csv", csv(frame().assign(**{"a: b": 1, "c]": 2})))
    (fix,) = re.findall(r"`(source: .*)`", str(error))
    assert dpicl.protect(tmp_path / "rows.csv", {**schema(), **yaml.safe_load(fix)}, **HOW)
    error = refusal(tmp_path, "gaps.csv", csv(frame(age="")))
    assert NULLABLE in str(error)
    assert dpicl.protect(
        tmp_path / "gaps.csv", schema(age={**COLUMNS["age"], "nullable": True}), **HOW
    )


TEXTS: dict[str, tuple[bytes, str, str]] = {
    "empty": (
        b'{"label": "a", "text": ""}\n' * BROKEN,
        "some texts are empty; expected something in every one",
        f"{BROKEN} of {BROKEN} texts",
    ),
    "no JSON": (
        b'{"label": "a", "text": "t"}\n' * BROKEN + b"{\n",
        "some lines are no JSON object; expected one object in each line",
        f"line {BROKEN + 1}",
    ),
    "an unknown label": (
        b'{"label": "zq7", "text": "t"}\n' * BROKEN,
        "field 'label' is not one of the 2 labels; expected one of a, b",
        f"{BROKEN} values",
    ),
    "no text": (
        b'{"label": "a", "text": 7}\n' * BROKEN,
        "field 'text' is not text",
        f"{BROKEN} values",
    ),
}


@pytest.mark.parametrize(("data", "public", "private"), TEXTS.values(), ids=TEXTS)
def test_texts_are_refused_in_the_same_way(data: bytes, public: str, private: str) -> None:
    from dpicl.data.text_records import parse_texts
    from tests.library.text_contracts import text_contract

    def change(content: dict[str, Any]) -> None:
        content.update(
            text="{text}",
            task={
                "kind": "classification",
                "field": "label",
                "labels": {x: {"text": x, "min_rows": 4} for x in "ab"},
            },
        )

    with pytest.raises(DataError) as refused:
        parse_texts(data, text_contract(change), "mail.jsonl")
    assert (
        public in str(refused.value)
        and private in refused.value.details()
        and PRIVATE.findall(everywhere(refused.value)) == []
    )


def fail() -> None:
    raise DataError(
        "rows.csv",
        "is no date such as 2026-11-25",
        column="day",
        count=BROKEN,
        detail=f"{ROWS} rows",
    )


def test_logs_say_no_more(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("DPICL_LOG_FORMAT", "json")
    with (
        redirect_stderr(io.StringIO()) as err,
        Settings.from_environment().entered(),
        pytest.raises(DataError) as refused,
        stage_log("s", ()),
    ):
        clean_errors("s", fail)()
    set_up("text")
    assert "is no date such as 2026-11-25" in json.loads(err.getvalue().splitlines()[-1])["message"]
    logging.getLogger("dpicl").exception("%s", refused.value, exc_info=refused.value)
    assert (
        PRIVATE.findall(err.getvalue() + caplog.text) == []
        and f"{BROKEN} values" in refused.value.details()
    )
    assert (
        refused.value.__context__ is None
        and [frame.name for frame in traceback.extract_tb(refused.value.__traceback__)][-1]
        == "clean"
    )


def test_a_worker_tells_the_owner_the_details_beside_the_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Failing:
        run = staticmethod(clean_errors("s", fail))

    monkeypatch.setattr(execute, "stage_named", lambda name: Failing.run)
    monkeypatch.setattr(execute, "parent_process", lambda: None)
    ours, theirs = Pipe()
    settings = Settings.from_environment()
    monkeypatch.setattr(execute, "_end_with_owner", lambda: None)
    Thread(target=execute._work, args=(theirs, settings, {}, Path.cwd()), daemon=True).start()
    ours.send(("s", ()))
    worker = execute._Worker.__new__(execute._Worker)
    worker.pipe = ours
    error = worker.ended()
    assert (
        isinstance(error, DataError)
        and f"{BROKEN} values, {ROWS} rows" in error.details()
        and PRIVATE.findall(everywhere(error)) == []
    )
    with pytest.raises(RunError) as several:
        _raise(Path("r"), {"one": error, "two": RunError("x")})
    assert (
        "first one: rows.csv: column 'day'" in str(several.value)
        and f"{BROKEN} values" in several.value.details()
    )
    assert PRIVATE.findall(everywhere(several.value)) == []


COMMANDS = {
    "protect": "shop --epsilon 1 --anyway --out demos.jsonl",
    "run": "private-table --datasets shop --methods aim_tabicl --epsilons 1 --shots 2 "
    "--model bundled",
}


@pytest.mark.quick("protect")
@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_line_tells_counts_to_nobody_but_a_person(tmp_path: Path, command: str) -> None:
    """Standard error of a schedule is a log or a mail."""
    contract = {
        "name": "shop",
        "source": {"file": "shop.csv"},
        "privacy": {"budget": {"epsilon": 5}},
        **schema(),
    }
    (tmp_path / "contracts").mkdir()
    (tmp_path / "contracts" / "shop.yaml").write_text(yaml.safe_dump(contract))
    (tmp_path / "shop.csv").write_bytes(csv(frame(day="02/29/2024")))
    done = typed_in(tmp_path, command, *COMMANDS[command].split())
    assert done.returncode == 2 and PRIVATE.findall(done.stderr) == [], done.stderr
    assert "column 'day': is no date such as 2026-11-25" in done.stderr.splitlines()[-1]
    kept = [
        path
        for path in (tmp_path / "home").rglob("*")
        if path.is_file() and "private" not in path.parts
    ]
    assert not [path for path in kept if f"{BROKEN} values".encode() in path.read_bytes()]


@pytest.mark.parametrize("is_terminal", [False, True])
def test_who_sits_at_a_terminal_is_told_how_many(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    error = DataError("rows.csv", "is no date", column="day", count=BROKEN, detail=f"of {ROWS}")
    with redirect_stderr(io.StringIO()) as told:
        monkeypatch.setattr(told, "isatty", lambda: is_terminal)
        assert len(PRIVATE.findall(error.told())) == 2 * is_terminal


def test_an_option_is_named_as_it_was_typed(tmp_path: Path) -> None:
    for command, option in (
        ("protect", "--account"),
        ("synth", "--account"),
        ("budget", "--seed"),
        ("plan", "--datset"),
    ):
        done = typed_in(tmp_path, command, "x", option, "y")
        assert done.returncode == 2 and f"No such option: {option}" in done.stderr


def test_bounds_say_what_holds() -> None:
    for bounds in ([0, 2**62], [-(2**53) - 2, 0], [5, 5]):
        with pytest.raises(DpiclError, match=r"both from -2\^53 to 2\^53"):
            dpicl.protect(
                frame(), schema(age={"type": "integer", "bounds": bounds}), account="rows", **HOW
            )


def _scrubbed(
    self: DataError,
    where: str,
    rule: str,
    *,
    column: str = "",
    count: int | None = None,
    detail: str = "",
) -> None:
    del count, detail
    self.where, self.rule, self.column = where, rule, column
    DpiclError.__init__(
        self, f"{where}: {f'column {column!r}: ' if column else ''}{re.sub(r'[0-9]+', '…', rule)}"
    )


def _counting(
    self: DataError,
    where: str,
    rule: str,
    *,
    column: str = "",
    count: int | None = None,
    detail: str = "",
) -> None:
    self.where, self.rule, self.column = where, rule, column
    DpiclError.__init__(
        self,
        f"{where}: {f'column {column!r}: ' if column else ''}{rule} ({count} values, {detail})",
    )


def _attribute(
    self: DataError,
    where: str,
    rule: str,
    *,
    column: str = "",
    count: int | None = None,
    detail: str = "",
) -> None:
    ORIGINAL(self, where, rule, column=column, count=count, detail=detail)
    vars(self)["count"] = count


ORIGINAL = DataError.__init__


@pytest.mark.parametrize("mutant", [_scrubbed, _counting, _attribute])
def test_mutants_are_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutant: Callable[..., None]
) -> None:
    """The scrubber of digits, a count in the sentence, a count beside it that whoever shows
    attributes shows.
    """
    monkeypatch.setattr(errors.DataError, "__init__", mutant)
    with pytest.raises(AssertionError):
        test_the_rule_is_whole_and_what_rows_tell_is_apart(tmp_path, *FILES["a day as in the US"])
