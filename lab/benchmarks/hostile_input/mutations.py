"""Files changed at random: the shipped declarations, and tables with planted values. The same
number, the same case.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import re
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from lab.benchmarks.hostile_input.cases import Case

_ROOT = Path(__file__).parents[3]
_ROWS = 30
_BYTES = b"\t\n\r :-[]{}&*!|>'\"#%@`,?\\\x00\x1b\xff\xfe01az=~"
_TOKENS = [
    "{0.__class__}",
    "{age.__init__.__globals__}",
    "{age!r:>999999999}",
    "{}",
    "{{",
    "%s%n",
    "${x}",
    "nan",
    ".inf",
    "-.inf",
    "1e999",
    "9" * 400,
    "-" + "9" * 30,
    "0x1f",
    "010",
    "1_000",
    "12:30",
    "yes",
    "~",
    "null",
    "true",
    "2020-01-01",
    "&a [*a]",
    "*a",
    "!!python/name:os.system",
    "<<: {a: 1}",
    "\u202e",
    "\u2066",
    "\x85",
    "\ufeff",
    "\x1b[2J",
    "../../etc/passwd",
    "/etc/passwd",
    "\0",
    "C:\\x",
    "=cmd|'x'!A0",
    "[" * 60,
    "{" * 60,
    "- " * 60,
    "? ",
    "--- ",
    "...",
    "%YAML 9.9",
    '"\\ud800"',
    '"\\x00"',
    "'",
    '"',
    "|",
    ">",
    "x" * 5000,
    "rest",
    "label",
    "9223372036854775808",
    "-0",
    "1e-320",
    "\u0661",
    "",
]
_ODD: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2.5,
    10**30,
    10**400,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "rest",
    "label",
    "age",
    "{age}",
    "{",
    [],
    [1],
    ["label"],
    [["no"], "rest"],
    [[]],
    {},
    {"a": 1},
    [{}],
    "x" * 3000,
    "\u202e",
    "\x00",
    "1/0",
    "0/1",
    "1e-999999999",
    "__class__",
]
_TYPES: list[Callable[[int], pa.Array]] = [
    lambda n: pa.array([7319042217 + i for i in range(n)], pa.int64()),
    lambda n: pa.array([7319042217 + i for i in range(n)], pa.uint64()),
    lambda n: pa.array([0.7319042 + i for i in range(n)], pa.float32()),
    lambda n: pa.array(np.full(n, 0.73, np.float16)),
    lambda n: pa.array([float("nan"), float("inf")] * n)[:n],
    lambda n: pa.array([None] * n),
    lambda n: pa.array([True] * n),
    lambda n: pa.array(range(n)).cast(pa.decimal128(30, 5)),
    lambda n: pa.array(range(n)).cast(pa.decimal256(70, 5)),
    lambda n: pa.array([7319042217] * n, pa.timestamp("ns", "Europe/Paris")),
    lambda n: pa.array([7319042217] * n, pa.timestamp("ms", "No/Where")),
    lambda n: pa.array([7319042217 * 10**9] * n, pa.timestamp("us")),
    lambda n: pa.array([timedelta(seconds=73190)] * n, pa.duration("s")),
    lambda n: pa.array([73190] * n, pa.time32("s")),
    lambda n: pa.array([7319042] * n, pa.date32()),
    lambda n: pa.array([["zq7"]] * n),
    lambda n: pa.array([{"zq7": "zq7"}] * n),
    lambda n: pa.array([[("zq7", 1)]] * n, pa.map_(pa.string(), pa.int64())),
    lambda n: pa.array([b"zq7\xff"] * n),
    lambda n: pa.array([b"zq7\xff"] * n, pa.large_binary()),
    lambda n: pa.array([b"zq7\xff"] * n, pa.binary(4)),
    lambda n: pa.array(["zq7"] * n, pa.large_string()),
    lambda n: pa.array(["zq7"] * n, pa.string_view()),
    lambda n: pa.array(["zq7"] * n).dictionary_encode(),
    lambda n: pa.array([None, "red"] * n)[:n].dictionary_encode(),
    lambda n: pa.DictionaryArray.from_arrays(pa.array([0] * n, pa.int8()), pa.array([7319042.5])),
]


def mutated(number: int) -> Case:
    """The case of a number: four in ten a contract, two a pipelines file, four a table."""
    dice = random.Random(number)
    kind = (
        "contract",
        "contract",
        "contract",
        "contract",
        "pipelines",
        "pipelines",
        ".csv",
        ".csv.gz",
        ".parquet",
        ".parquet",
    )[number % 10]
    make = {
        "contract": _contract,
        "pipelines": _pipelines,
        ".csv": _csv,
        ".csv.gz": _packed,
        ".parquet": _parquet,
    }[kind]
    return Case(f"{kind} {number}", kind, make(dice))


def _contract(dice: random.Random) -> bytes:
    text = dice.choice(_shipped())
    return _tree(text, dice) if dice.random() < 0.4 else _text(text.encode(), dice)


def _pipelines(dice: random.Random) -> bytes:
    text = (_ROOT / "pipelines.yaml").read_text()
    return _tree(text, dice) if dice.random() < 0.4 else _text(text.encode(), dice)


@cache
def _shipped() -> tuple[str, ...]:
    """The contracts under one name, since a file is called after its contract; comments left out to
    spare time.
    """
    texts = [
        re.sub(r"(?m)^\s*#.*\n", "", path.read_text())
        for path in sorted((_ROOT / "data_contracts").glob("*.yaml"))
    ]
    return tuple(re.sub(r"(?m)^name: .*$", "name: shop", text) for text in texts)


def _tree(text: str, dice: random.Random) -> bytes:
    """Values, keys and subtrees nudged, replaced, deleted, copied, renamed or nested; written as
    JSON, which is YAML.
    """
    content = _parsed(text)
    for _ in range(dice.choice([1, 1, 2, 3])):
        places = _places(content)
        holder, key = dice.choice(places)
        deed = dice.randrange(6)
        if deed < 2:
            holder[key] = dice.choice(_ODD)
        elif deed == 2:
            del holder[key]
        elif deed == 3:
            other, place = dice.choice(places)
            holder[key] = json.loads(json.dumps(other.get(place) if isinstance(other, dict) else 1))
        elif deed == 4:
            holder[key] = _nested(holder[key], dice.choice([1, 5, 18, 50]))
        elif isinstance(holder, dict):
            holder[
                dice.choice(
                    ["age", "texts", "cuts", "parts", "zz", "a.b", "\u202e", "x" * 500, "{}"]
                )
            ] = holder.pop(key)
        else:
            holder[key] = -holder[key] if isinstance(holder[key], int | float) else [holder[key]]
    return json.dumps(content, ensure_ascii=dice.random() < 0.5).encode("utf-8", "surrogatepass")


@cache
def _parsed_once(text: str) -> str:
    return json.dumps(yaml.safe_load(text))


def _parsed(text: str) -> Any:
    return json.loads(_parsed_once(text))


def _places(content: Any) -> list[tuple[Any, Any]]:
    children = (
        list(content.items())
        if isinstance(content, dict)
        else list(enumerate(content))
        if isinstance(content, list)
        else []
    )
    return [(content, key) for key, _ in children] + [
        place for _, child in children for place in _places(child)
    ]


def _nested(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value]
    return value


def _text(raw: bytes, dice: random.Random) -> bytes:
    """Bytes flipped, cut and put in, lines doubled, swapped and dropped, another encoding."""
    for _ in range(dice.choice([1, 1, 2, 4])):
        deed, place = dice.randrange(9), dice.randrange(len(raw) + 1)
        lines = raw.split(b"\n")
        line, other = dice.randrange(len(lines)), dice.randrange(len(lines))
        if deed < 3:
            raw = raw[:place] + bytes([dice.choice(_BYTES)]) + raw[place + dice.randrange(2) :]
        elif deed == 3:
            raw = (
                raw[:place]
                if dice.random() < 0.3
                else raw[:place] + raw[place + dice.randrange(40) :]
            )
        elif deed in (4, 5):
            raw = raw[:place] + dice.choice(_TOKENS).encode() + raw[place:]
        elif deed == 6:
            raw = b"\n".join([*lines[:line], lines[line], *lines[line:]])
        elif deed == 7:
            lines[line], lines[other] = lines[other], lines[line]
            raw = b"\n".join(lines)
        else:
            cut = re.search(rb": .*", lines[line])
            lines[line] = (
                lines[line][: cut.start()] + b": " + dice.choice(_TOKENS).encode()
                if cut
                else lines[line]
            )
            raw = b"\n".join(lines)
    return _encoded(raw, dice)


def _encoded(raw: bytes, dice: random.Random) -> bytes:
    if dice.random() < 0.95:
        return raw
    return raw.decode("utf-8", "replace").encode(
        dice.choice(["utf-16", "utf-32", "utf-8-sig", "utf-7", "cp037"]), "replace"
    )


def table() -> pa.Table:
    """Rows that fit the contract of `hostile_cases.people`, with a planted value in three of five
    columns.
    """
    numbers = range(_ROWS)
    return pa.table(
        {
            "age": [7319042217 + number for number in numbers],
            "height": [0.7319042 + number / 10**9 for number in numbers],
            "colour": [("red", "green", "blue")[number % 3] for number in numbers],
            "note": [f"zq7secret{number}" for number in numbers],
            "y": [("no", "yes")[number % 2] for number in numbers],
        }
    )


@cache
def csv_bytes() -> bytes:
    """The rows as CSV."""
    rows = [
        list(table().column_names),
        *([str(value) for value in row.values()] for row in table().to_pylist()),
    ]
    return "\n".join(",".join(row) for row in rows).encode() + b"\n"


def _csv(dice: random.Random) -> bytes:
    if dice.random() < 0.2:
        break_ = csv_bytes().index(b"\n")
        return (
            csv_bytes()[:break_]
            + dice.choice([b",", b"", b" ", b";", b"\r", b'"', b"\t"])
            + csv_bytes()[break_ + 1 :]
        )
    return _text(csv_bytes(), dice)


def _packed(dice: random.Random) -> bytes:
    if dice.random() < 0.5:
        return gzip.compress(_csv(dice), mtime=0)
    return _flipped(gzip.compress(csv_bytes(), mtime=0), dice)


def _parquet(dice: random.Random) -> bytes:
    content = table()
    for _ in range(dice.randrange(2)):
        name = dice.choice(content.column_names)
        content = content.set_column(
            content.column_names.index(name), name, dice.choice(_TYPES)(_ROWS)
        )
    if dice.random() < 0.1:
        content = content.rename_columns(
            [dice.choice([name, "age", "zq7", "\u202e"]) for name in content.column_names]
        )
    file = io.BytesIO()
    options = {
        "compression": dice.choice(["none", "snappy", "zstd", "gzip"]),
        "use_dictionary": dice.random() < 0.5,
    }
    pq.write_table(
        content,
        file,
        row_group_size=dice.choice([7, 100]),
        store_schema=dice.random() < 0.5,
        **options,
    )
    return _flipped(file.getvalue(), dice) if dice.random() < 0.8 else file.getvalue()


def _flipped(raw: bytes, dice: random.Random) -> bytes:
    """Bytes of a binary file changed, in its last part above all: there Parquet keeps what it says
    of itself.
    """
    changed = bytearray(raw)
    for _ in range(dice.randint(1, 6)):
        start = len(changed) * 2 // 3 if dice.random() < 0.6 else 0
        changed[dice.randrange(start, len(changed))] = dice.choice(
            [0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)]
        )
    return (
        bytes(changed[: dice.randrange(len(changed))]) if dice.random() < 0.15 else bytes(changed)
    )
