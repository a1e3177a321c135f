"""More than a hundred inputs that have broken readers of YAML, CSV, gzip, Parquet, paths and
addresses; each has a name.
"""

from __future__ import annotations

import gzip
import io
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from dpicl.ground.yaml_file import MAX_BYTES
from lab.benchmarks.hostile_input.cases import Case
from lab.benchmarks.hostile_input.mutations import csv_bytes, table
from tests.library.examples import tree

_GOOD = yaml.safe_dump(tree(), sort_keys=False).encode()
_MIB = 1 << 20


def nasties() -> list[Case]:
    """All of them, made anew."""
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("contract", _contracts()),
        ("pipelines", _PIPELINES),
        (".csv", _csvs()),
        (".csv.gz", _packed()),
        (".parquet", _parquets()),
        ("source", {f"source {path!r}": path for path in _SOURCES}),
        ("url", {f"url {url!r}": url for url in _URLS}),
        ("name", {f"name {name!r}": name for name in _NAMES}),
        ("place", _PLACES),
    ]
    return [
        Case(f"{kind}: {name}", kind, content)
        for kind, cases in kinds
        for name, content in cases.items()
    ]


def _with(old: str, new: str) -> bytes:
    """The good contract with one piece exchanged."""
    assert old.encode() in _GOOD
    return _GOOD.replace(old.encode(), new.encode("utf-8", "surrogatepass"), 1)


def _contracts() -> dict[str, bytes]:
    bomb = "a0: &a0 [x,x]\n" + "".join(
        f"a{n}: &a{n} [*a{n - 1},*a{n - 1},*a{n - 1}]\n" for n in range(1, 30)
    )
    texts = {
        f"template {text}": _with("Aged {age},", text)
        for text in (
            "{0.__class__}",
            "{age.__class__.__mro__}",
            "{age[0]}",
            "{age!r}",
            "{age:>999999999}",
            "{age:{spent}}",
            "{}",
            "{0}",
            "{{age}",
            "{age",
            "}",
            "{self}",
            "{bought}",
            "{\u202eage}",
            "%(age)s ${age} %n",
            "{{{{{age}}}}}",
        )
    }
    scalars = {
        f"bounds of {text}": _with("- 0\n    - 120", f"- 0\n    - {text}")
        for text in (
            "1e999",
            ".inf",
            ".nan",
            "9" * 400,
            "9" * 5000,
            "0x7fffffffffffffff",
            "1_000",
            "12:30",
            "true",
            "~",
            "'120'",
            "-0",
            "1e-320",
            "[1]",
            "{a: 1}",
        )
    }
    rates = {
        f"rate of {text[:20]}": _with("1/2", text)
        for text in (
            "1/0",
            "0/0",
            "1e-999999999",
            "1e999999999",
            "1/" + "9" * 4000,
            "nan",
            "-1/2",
            "1/2/3",
        )
    }
    return {
        "nothing": b"",
        "one NUL": b"\0",
        "NULs": b"\0" * 1000,
        "a byte order mark": b"\xef\xbb\xbf",
        "UTF-16": _GOOD.decode().encode("utf-16"),
        "UTF-32": _GOOD.decode().encode("utf-32"),
        "UTF-7": _GOOD.decode().encode("utf-7"),
        "EBCDIC": _GOOD.decode().encode("cp037"),
        "every byte": bytes(range(256)),
        "overlong UTF-8": _GOOD + b"\xc0\xaf",
        "surrogate bytes": _GOOD + b"# \xed\xa0\x80",
        "an alias bomb": bomb.encode(),
        "an alias of itself": b"a: &a [*a]\n",
        "a merge bomb": b"<<: &a {<<: *a}\n",
        "merged keys": b"<<: [{a: 1}, {b: 2}]\n",
        "lists in lists": b"[" * MAX_BYTES,
        "mappings in mappings": b"{a: " * 60_000,
        "blocks in blocks": "\n".join(" " * n + "a:" for n in range(500)).encode(),
        "dashes": b"- " * 100_000,
        "question marks": b"? " * 100_000,
        "a long list": b"a: [" + b"a," * 100_000,
        "many keys": b"".join(b"a%d: 1\n" % n for n in range(30_000)),
        "comments": b"#\n" * (MAX_BYTES // 2),
        "blanks": b" " * MAX_BYTES,
        "line ends": b"\n" * MAX_BYTES,
        "64 MiB": b"x" * 64 * _MIB,
        "a long scalar": b"a: '" + b"x" * (MAX_BYTES - 10) + b"'",
        "a folded scalar": b"a: " + b"x\n " * (MAX_BYTES // 3 - 2),
        "a key of 100 KiB": b"x" * 100_000 + b": 1",
        "a tag that runs": b"a: !!python/object/apply:os.system ['true']",
        "a tag of binary": b"a: !!binary zq7",
        "an unknown tag": b"a: !x 1",
        "a tag alone": b"!!int",
        "directives": b"%TAG ! tag:x,2000:\n" * 10_000 + b"---\na: 1",
        "YAML 9": b"%YAML 9.9\n---\na: 1",
        "two documents": _GOOD + b"---\n" + _GOOD,
        "a key twice": _GOOD + b"name: shop\n",
        "a key as number and text": _GOOD + b"1: a\n'1': b\n",
        "a key of null": b"~: 1",
        "a key that is a list": b"? [a]\n: 1",
        "a key of escapes": b'"\\e]0;x\\a\\u202e\\n": 1',
        "a lone surrogate": _with("Made-up customers.", '"\\ud800"'),
        "a key of a lone surrogate": b'"\\ud800": 1\n' + _GOOD,
        "a category of a lone surrogate": _with("- green\n", '- "\\udfff"\n'),
        "direction marks": _with("Made-up", "\u202eMade\u2066"),
        "line separators": _with("Made-up", "a\u2028b\x85c"),
        "a category of a number": _with("- red\n", "- 1.50\n"),
        "a category of nothing": _with("- red\n", "-\n"),
        "a category of 1 KiB": _with("- red\n", "- " + "r" * 1000 + "\n"),
        "300 categories": _with(
            "    - red\n", "    - red\n" + "".join(f"    - c{n}\n" for n in range(300))
        ),
        "a name that is a path": _with("name: shop", "name: ../shop"),
        "a name with a line end": _with("name: shop", 'name: "shop\\n"'),
        "a source above": _with("shop.csv", "../shop.csv"),
        "an absolute source": _with("shop.csv", "/etc/passwd"),
        "a source with NUL": _with("shop.csv", '"a\\0.csv"'),
        "a group of 2^60": _with("groups:\n", "groups:\n  1152921504606846976: [label]\n"),
        "a group of text": _with("groups:\n", "groups:\n  two: [label]\n"),
        "CSV": csv_bytes(),
        "CSV, packed": gzip.compress(csv_bytes()),
        "a record": b'{"age": 7319042217, "note": "zq7"}',
        "records": b'[{"age": 7319042217, "note": "zq7"}]',
        "records by line": b'{"age": 7319042217}\n{"note": "zq7"}\n',
        "a table by tabs": csv_bytes().replace(b",", b"\t"),
        "a table by colons": csv_bytes().replace(b",", b": "),
        "a picture": b"\x89PNG\r\n\x1a\n" + bytes(100),
        **texts,
        **scalars,
        **rates,
    }


_GRID = (
    "version: 1\npipelines: {{p: {{title: t, methods: [gdp_tabicl], datasets: [car], epsilons: "
    "[{}], shots: [{}], seeds: [{}]}}}}"
)
_PIPELINES = {
    **{
        f"epsilon {text[:12]}": _GRID.format(text, 1, 0).encode()
        for text in (
            "0",
            "-1",
            "nan",
            ".nan",
            "-.inf",
            "1e999",
            "9" * 400,
            "9" * 5000,
            "true",
            "[1]",
            "~",
            "0x1",
            "'1_0'",
            "1e-400",
            "'\u0661'",
            '"\\ud800"',
        )
    },
    **{
        f"shots {text}": _GRID.format(1, text, 0).encode()
        for text in ("0", "65", "1.5", "'2'", "true", "9" * 30)
    },
    **{
        f"seed {text}": _GRID.format(1, 1, text).encode()
        for text in ("-1", "2147483648", "0.5", "0, 0", "~")
    },
    "ten thousand seeds": _GRID.format(1, 1, ", ".join(map(str, range(10_000)))).encode(),
    "a model that is a list": b"version: 1\nmodels: {m: [1]}\npipelines: {}",
    "a model of odd keys": b"version: 1\nmodels: {m: {1: 2, kind: tiny}}\npipelines: {}",
    "a model named twice": b"version: 1\nmodels: {m: {kind: tiny, name: x}}\npipelines: {}",
    "a model of control marks": b'version: 1\nmodels: {m: {"\\e[2J\\n": 1, kind: "\\u202e"}}\npipelines: {}',  # noqa: E501
    "a schedule of many stars": b"version: 1\npipelines: {p: {title: t, schedule: {cron: '"
    + b"* " * 100_000
    + b"'}}}",
    "a schedule of blanks": b"version: 1\npipelines: {p: {title: t, schedule: {cron: 'a"
    + b" " * 100_000
    + b"'}}}",
    "a data set above": b"version: 1\npipelines: {p: {title: t, datasets: [../car], epsilons: [1]}}",  # noqa: E501
}


def _csvs() -> dict[str, bytes]:
    good = csv_bytes()
    header, _, rows = good.partition(b"\n")

    def value(text: str, column: bytes = b"0.7319042") -> bytes:
        return good.replace(column, text.encode("utf-8", "surrogatepass"), 1)

    values = {
        f"a number {text[:12]!r}": value(text)
        for text in (
            "zq7",
            "nan",
            "inf",
            "-Infinity",
            "1e999",
            "1e-999",
            "0x1p3",
            "1_000",
            "\u0661",
            "1,5",
            "=1+1",
            "1\0",
            "\u202e1",
            "+1",
            "1e99999999999999999999",
            "9" * 4000,
            "",
        )
    }
    return {
        "nothing": b"",
        "a line end": b"\n",
        "a NUL": b"\0",
        "a header": header,
        "a header twice": header + b"\n" + good,
        "no header": rows,
        "no line break": header + b"," + rows,
        "no line break, no comma": header + rows,
        "a header of values": rows.replace(b"\n", b",", 1),
        "a blank before the header": b" \n" + good,
        "UTF-16": good.decode().encode("utf-16"),
        "UTF-8 with a mark": b"\xef\xbb\xbf" + good,
        "two marks": b"\xef\xbb\xbf\xef\xbb\xbf" + good,
        "Latin-1": good + "1,1,r\u00e9d,zq7,no".encode("latin-1"),
        "semicolons": good.replace(b",", b";"),
        "tabs": good.replace(b",", b"\t"),
        "carriage returns": good.replace(b"\n", b"\r"),
        "an open quote": good + b'1,"zq7',
        "a quote in the header": b'"' + good,
        "quotes": b'"' * 100_000,
        "a million commas": header + b"\n" + b"," * _MIB,
        "a header of a million columns": header + b",a" * 500_000 + b"\n",
        "a field of 2 MiB": good + b"1,1,red," + b"zq7" * _MIB + b",no\n",
        "a header of 2 MiB": b"x" * 2 * _MIB,
        "a category of 100 KiB": good + b"1,1," + b"zq7" * 40_000 + b",zq7,no\n",
        "ragged rows": good + b"zq7\n" * 1000,
        "an extra column": (header + b",more\n" + rows.replace(b"\n", b",zq7\n")),
        "a column twice": good.replace(b"note", b"age"),
        "an unknown category": good.replace(b"red", b"zq7"),
        "escapes": good.replace(b"red", b"\x1b[2Jzq7"),
        "a formula": good.replace(b"red", b"=zq7()"),
        "64 bits": good.replace(b"7319042217", b"9223372036854775808"),
        "a million long numbers": header + b"\n" + b"73190422177319042217,1,red,zq7,no\n" * 200_000,
        "one row": b"\n".join(good.split(b"\n")[:2]),
        "a Parquet file": _file(table()),
        "a gzip file": gzip.compress(good),
        "YAML": _GOOD,
        **values,
    }


def _packed() -> dict[str, bytes]:
    good, bomb = gzip.compress(csv_bytes()), gzip.compress(b"0" * (64 * _MIB), 9)
    return {
        "nothing": b"",
        "not gzip": csv_bytes(),
        "a header alone": good[:10],
        "cut": good[:-9],
        "a wrong sum": good[:-8] + b"\0\0\0\0" + good[-4:],
        "a wrong length": good[:-4] + b"\xff\xff\xff\x7f",
        "rubbish after it": good + b"zq7",
        "twice": good + good,
        "packed twice": gzip.compress(good),
        "a bomb": bomb,
        "a bomb of bombs": gzip.compress(bomb),
        "a bomb of members": bomb * 20,
        "packed nothing": gzip.compress(b""),
        "a name inside": gzip.compress(b"")[:3] + b"\x08" + good[4:10] + b"../../zq7\0" + good[10:],
        "zlib, no gzip": b"x\x9c" + good[10:],
        "bzip2": b"BZh91AY&SY" + good,
        "a zip file": b"PK\x03\x04" + good,
    }


def _file(content: pa.Table, **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(content, file, **options)
    return file.getvalue()


def _column(name: str, values: Any) -> pa.Table:
    content = table()
    return content.set_column(content.column_names.index(name), name, values)


def _parquets() -> dict[str, bytes]:
    good, count = _file(table()), table().num_rows
    many = 4 * _MIB
    repeated = {
        name: pa.DictionaryArray.from_arrays(pa.array([0] * many, pa.int8()), pa.array([value]))
        for name, value in {
            "age": 7319042217,
            "height": 0.7319042,
            "colour": "red",
            "note": "zq7",
            "y": "no",
        }.items()
    }
    long = pa.DictionaryArray.from_arrays(
        pa.array([0] * 50_000, pa.int8()), pa.array(["zq7" * _MIB])
    )
    shared = {
        "age": [1] * 50_000,
        "height": [1.0] * 50_000,
        "colour": long,
        "note": ["zq7"] * 50_000,
        "y": ["no"] * 50_000,
    }
    broken = pa.Array.from_buffers(
        pa.string(),
        count,
        [
            None,
            pa.py_buffer(struct.pack(f"<{count + 1}i", *range(count + 1))),
            pa.py_buffer(b"\xff" * count),
        ],
    )
    return {
        "nothing": b"",
        "magic": b"PAR1",
        "magic twice": b"PAR1PAR1",
        "a footer of 2 GiB": good[:-8] + b"\xff\xff\xff\x7fPAR1",
        "a negative footer": good[:-8] + b"\xff\xff\xff\xffPAR1",
        "a footer of nothing": good[:-8] + b"\0\0\0\0PAR1",
        "cut": good[:-30],
        "no beginning": good[40:],
        "encrypted magic": good[:-4] + b"PARE",
        "CSV": csv_bytes(),
        "zeros": bytes(_MIB),
        "pages of zeros": b"PAR1" + bytes(len(good) // 2) + good[len(good) // 2 + 4 :],
        "a row without end": _file(pa.table(repeated)),
        "one long text for all": _file(pa.table(shared)),
        "zeros, packed": _file(
            _column("note", pa.array(["\0" * _MIB] * count)),
            compression="zstd",
            use_dictionary=False,
        ),
        "no columns": _file(pa.table({})),
        "no rows": _file(table().slice(0, 0)),
        "text that is no UTF-8": _file(_column("colour", broken)),
        "lists": _file(_column("age", pa.array([[7319042217]] * count))),
        "deep lists": _file(_column("age", pa.array([_deep(60)] * count))),
        "structs": _file(_column("age", pa.array([{"zq7": "zq7"}] * count))),
        "a column of nulls": _file(_column("age", pa.nulls(count))),
        "half floats": _file(
            _column("height", pa.array([1.5] * count, pa.float32()).cast(pa.float16()))
        ),
        "not a number": _file(_column("height", pa.array([float("nan")] * count))),
        "infinity": _file(_column("age", pa.array([float("inf")] * count))),
        "binary": _file(_column("colour", pa.array([b"zq7\xff"] * count))),
        "a time zone of nowhere": _file(
            _column("age", pa.array([7319042217] * count, pa.timestamp("ms", "No/Where")))
        ),
        "years beyond dates": _file(_column("age", pa.array([2**62] * count, pa.timestamp("us")))),
        "a name twice": _file(table().rename_columns(["age", "height", "colour", "age", "y"])),
        "another name": _file(table().rename_columns(["age", "height", "colour", "more", "y"])),
        "a thousand columns": _file(pa.table({**{f"zq7{n}": [1] * 3 for n in range(1000)}})),
        "metadata of 1 MiB": _file(table().replace_schema_metadata({"zq7": "zq7" * 300_000})),
        "a schema that lies": _file(
            table().replace_schema_metadata({"ARROW:schema": "zq7", "pandas": "{"})
        ),
    }


def _deep(levels: int) -> Any:
    value: Any = 7319042217
    for _ in range(levels):
        value = [value]
    return value


_SOURCES = [
    "../people.csv",
    "a/../../people.csv",
    "/etc/passwd",
    "people.csv\0",
    "people.csv/",
    "people.csv/.",
    ".",
    "..",
    "a" * 5000,
    "people.txt",
    "people.CSV",
    "people.csv.gz.csv",
    "C:\\people.csv",
    "//host/share.csv",
    "~/people.csv",
    "people.csv\n",
    "\u202epeople.csv",
    "cache/../people.csv",
    "$HOME/people.csv",
    "-.csv",
    "a//b.csv",
]
_URLS = [
    "",
    "x",
    "file:///etc/passwd",
    "ftp://127.0.0.1/x",
    "gopher://127.0.0.1/x",
    "javascript:alert(1)",
    "data:,zq7",
    "http://127.0.0.1/",
    "http://localhost:1/",
    "https://127.0.0.1/",
    "https://[::1]/",
    "https://0/",
    "https://2130706433/",
    "https://0x7f.1/",
    "https://127.1/",
    "https://localhost/",
    "https://LOCALHOST./",
    "https://169.254.169.254/latest/meta-data/",
    "https://[fd00:ec2::254]/",
    "https://[::ffff:169.254.169.254]/",
    "https://100.100.100.200/",
    "https://168.63.129.16/",
    "https://10.0.0.1/",
    "https://192.168.0.1/",
    "https://user:zq7@127.0.0.1/",
    "https://127.0.0.1#@www.openml.org/",
    "https://www.openml.org@127.0.0.1/",
    "https://127.0.0.1\\@localhost/",
    "https://\u2460\u2461\u2466.0.0.1/",
    "https://[::1",
    "https://a..b/",
    "https://" + "x" * 70 + ".invalid/",
    "https://127.0.0.1:99999999/",
    "https://127.0.0.1:-1/",
    "https://%31%32%37.0.0.1/",
    "https:///x",
    "https://\u202egro.lmnepo/",
    "https://127.0.0.1/\r\nX: y",
    "https://127.0.0.1/\0",
    "//127.0.0.1/x",
]
_NAMES = [
    "",
    ".",
    "..",
    "../x",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "a\0b",
    "a\n",
    "\u202ea",
    "x" * 5000,
    "CON",
    "-rf",
    "a b",
    "{0.__class__}",
    "*",
    "\x1b[2J",
    "\ud800",
]


def _pipe(folder: Path) -> Path:
    os.mkfifo(folder / "people.csv")
    return folder / "people.csv"


def _yaml_pipe(folder: Path) -> Path:
    os.mkfifo(folder / "shop.yaml")
    return folder / "shop.yaml"


def _link(target: str, name: str = "people.csv") -> Callable[[Path], Path]:
    def lay_out(folder: Path) -> Path:
        (folder / name).symlink_to(target)
        return folder / name

    return lay_out


def _folder(name: str) -> Callable[[Path], Path]:
    def lay_out(folder: Path) -> Path:
        (folder / name).mkdir()
        return folder / name

    return lay_out


_PLACES: dict[str, Callable[[Path], Path]] = {
    "a pipe": _pipe,
    "a pipe as a contract": _yaml_pipe,
    "a link to a device": _link("/dev/zero"),
    "a device as a contract": _link("/dev/zero", "shop.yaml"),
    "a link to itself": _link("people.csv"),
    "a link to nothing": _link("gone.csv"),
    "a link out of the folder": _link("/etc/passwd"),
    "a link to the process": _link("/proc/self/environ", "shop.yaml"),
    "a folder": _folder("people.csv"),
    "a folder as a contract": _folder("shop.yaml"),
    "a contract with NUL in its name": lambda folder: folder / "a\0.yaml",
    "a contract of a long name": lambda folder: folder / ("x" * 300 + ".yaml"),
    "a contract that is not there": lambda folder: folder / "\x1b[2J\u202e.yaml",
}
