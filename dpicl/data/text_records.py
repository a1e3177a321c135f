"""Fields of a file of records, one list per field: JSON (lines, or one list), CSV, Parquet, or
lines of tagged words.

The fields of a record are looked up in it alone; what else it holds is not kept.

From a file's records to labels and texts, or one sentence on what is wrong.

A public set of texts that is always at hand: four libraries' descriptions of their functions.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import compress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dpicl.contract.base import as_written
from dpicl.contract.columns.category import not_listed
from dpicl.contract.text import Classification, FreeText, TextContract, template_pieces
from dpicl.ground.errors import DataError, SourceError
from dpicl.ground.printable import tell_holder, tell_left_out
from dpicl.ground.records import BYTE_ORDER_MARK, most_bytes, read_csv, read_parquet, utf8

JSON_LINES = (".jsonl", ".jsonl.gz")
JSON_LISTS, TAGGED = (".json", ".json.gz"), (".tagged", ".tagged.gz")
SUFFIXES = (*JSON_LINES, ".csv", ".csv.gz", ".parquet", *JSON_LISTS, *TAGGED)
_ESCAPED, _HALF = "surrogateescape", re.compile("[\udc80-\udcff]")
"""How bytes that are not UTF-8 are read, and as what."""
Fields = dict[str, list[Any]]
"""Field -> its value in every record, None where it has none: any JSON value, or text."""


def parse_records(
    data: bytes, fields: Sequence[str], where: str, *, leave_out: bool = False
) -> Fields:
    """The fields of all records in a file's (unpacked) content.

    Args:
        where: the file's name, whose suffix names the format.
        leave_out: whether lines that are no record by themselves are left out.

    Raises:
        DataError: the format is unknown, the content breaks it, or a column is missing.
    """
    if not where.endswith(SUFFIXES):
        raise DataError(
            where, "is of an unknown kind; expected a name that ends in " + ", ".join(SUFFIXES)
        )
    if where.endswith((*JSON_LINES, *TAGGED)):
        return _by_line(
            data, fields, where, _tagged if where.endswith(TAGGED) else _json, leave_out=leave_out
        )
    if where.endswith(JSON_LISTS):
        return _fields_of(_json_list(data, where, leave_out=leave_out), fields)

    def wanted(names: list[str]) -> list[str]:
        odd = [field for field in fields if names.count(field) != 1]
        if odd:
            raise DataError(
                where,
                f"field {odd[0]!r} is not one of the columns; expected a column for every field, "
                f"each once",
            )
        return list(fields)

    table = (
        read_parquet(data, wanted, where)
        if where.endswith(".parquet")
        else read_csv(data, wanted, where, leave_out=leave_out)
    )
    values: Fields = {}
    for field in fields:
        column = table.column(field)
        limit = most_bytes(len(data))
        try:
            # in which one long text may stand for a million records
            if pa.types.is_dictionary(column.type):
                lengths = [
                    pc.sum(pc.binary_length(chunk.dictionary).take(chunk.indices)).as_py() or 0
                    for chunk in column.chunks
                ]
                if sum(lengths) > limit:
                    raise DataError(
                        where,
                        f"field {field!r} holds too many bytes; expected less in a file of its "
                        f"size",
                        detail=f"more than {limit}",
                    )
                column = column.cast(
                    pa.large_string()
                    if pa.types.is_string(column.type.value_type)
                    else pa.large_binary()
                )
            values[field] = list(map(_as_text, column.to_pylist()))
        except (pa.ArrowException, UnicodeDecodeError):
            raise DataError(where, f"field {field!r} holds no text") from None
    return values


def _by_line(
    data: bytes, fields: Sequence[str], where: str, read: Callable[[str], Any], *, leave_out: bool
) -> Fields:
    records, broken = [], []
    if not leave_out:
        utf8(data, where)
    for number, line in enumerate(data.removeprefix(BYTE_ORDER_MARK).split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            record = read(line.decode())
        except UnicodeDecodeError:
            record = None
        if isinstance(record, dict):
            records.append(record)
        else:
            broken.append(number)
    if leave_out:
        tell_left_out(where, left_out=len(broken))
    elif broken:
        what = "words with tags" if read is _tagged else "JSON object"
        expected = (
            "`word:O` or `word:B-SLOT` of every word"
            if read is _tagged
            else "one object in each line"
        )
        raise DataError(
            where,
            f"some lines are no {what}; expected {expected}",
            detail=f"{len(broken)} lines, line {broken[0]} first",
        )
    return _fields_of(records, fields)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _json_list(data: bytes, where: str, *, leave_out: bool) -> list[dict[str, Any]]:
    text = data.decode(errors=_ESCAPED) if leave_out else utf8(data, where)
    members = _json(text.removeprefix("\ufeff"))
    records = (
        [
            record
            for record in members
            if isinstance(record, dict)
            and not _HALF.search(json.dumps(record, ensure_ascii=False))  # of a byte or letter
        ]
        if isinstance(members, list)
        else None
    )
    if records is None or not (leave_out or len(records) == len(members)):
        raise DataError(
            where, "is no list of JSON objects; expected one list, of an object for each record"
        )
    tell_left_out(where, left_out=len(members) - len(records))
    return records


def _as_text(value: Any) -> Any:
    """Bytes that are a text as one; others are no text, which is their record's own fault."""
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return value


def _tagged(line: str) -> dict[str, Any] | None:
    """`a:O comedy:B-Genre film:O <=> <NULL>`: a text, and its slots as lists of phrases; None where
    a word has no tag.
    """
    words = []
    slots = dict[str, list[str]]()
    phrase = ""
    for pair in line.removesuffix("\r").partition(" <=> ")[0].split():
        word, _, tag = pair.rpartition(":")
        kind, _, slot = tag.partition("-")
        if not word or (kind, bool(slot)) not in (("O", False), ("B", True), ("I", True)):
            return None
        words.append(word)
        if kind == "I" and slot == phrase:
            slots[slot][-1] += f" {word}"
        elif slot:
            slots.setdefault(slot, []).append(word)
        phrase = slot
    return {"text": " ".join(words), "slots": slots}


def _fields_of(records: Iterable[dict[str, Any]], fields: Sequence[str]) -> Fields:
    values: Fields = {field: [] for field in fields}
    for record in records:
        for field in fields:
            value: Any = record
            for key in field.split("."):
                value = value.get(key) if isinstance(value, dict) else None
            values[field].append(value)
    return values


_LABEL = ":label"
"""In the place of a field, which none is called: what a record is answered with."""
PERSON = "person"
"""Column of hashed ids, where persons are protected."""
_BLANKS = frozenset({"Cc", "Cf", "Cs", "Zs", "Zl", "Zp"})
"""Unicode categories of control and format characters, lone surrogates and separators."""


def plain_text(text: str) -> str:
    """The text with every run of blanks, line breaks, control and format characters as one blank,
    none at its ends.
    """
    if not text.isprintable():
        text = "".join(
            " " if unicodedata.category(letter) in _BLANKS else letter for letter in text
        )
    return " ".join(text.split())


def parse_texts(data: bytes, contract: TextContract, where: str) -> pa.Table:
    """Columns `label` and `text` of one file's unpacked content, strings; and `person`, a hash,
    where the contract protects persons.

    A label is the contract's, or the phrases of an answer joined by blanks; records without an
    answer are left out, and those without a text where answers are texts of their own. A text is
    one line, however long. There may be none.

    Raises:
        DataError: names file, field, rule and count, never a value; where the contract leaves
            records out that break it by themselves, of what is no record by itself.
    """
    person = contract.person
    fields = (contract.task.field, *contract.text_fields, *([person.id_column] if person else []))
    return labelled_texts(
        parse_records(data, tuple(dict.fromkeys(fields)), where, leave_out=contract.leaves_out),
        contract,
        where,
    )


def labelled_texts(fields: Fields, contract: TextContract, where: str) -> pa.Table:
    """The same from the fields of records.

    Raises:
        DataError: as for `parse_texts`.
    """
    records = _Records({**fields}, where, contract.leaves_out)
    if isinstance(contract.task, Classification):
        field = contract.task.field
        known = contract.task.labels
        renamed = contract.source.labels
        records.values[_LABEL] = [
            renamed.get(label, label) if isinstance(label, str) else label
            for label in map(as_written, fields[field])
        ]
        records.check(_LABEL, lambda label: label is None, f"field {field!r} is missing")
        unknown = f"field {field!r} {not_listed('labels', list(known))}"
        records.check(
            _LABEL, lambda label: not isinstance(label, str) or label not in known, unknown
        )
    else:
        _answer(records, contract.task.field)
    for field in contract.text_fields:
        records.check(field, lambda value: value is None, f"field {field!r} is missing")
        records.check(
            field, lambda value: not isinstance(value, str), f"field {field!r} is not text"
        )
    person = contract.person
    if person is not None:
        records.check(
            person.id_column,
            lambda value: value is None or value == "",
            f"field {person.id_column!r} is missing",
        )
    pieces = template_pieces(contract.text)
    labels = records.values[_LABEL]
    texts = [
        plain_text(
            "".join(
                literal + (records.values[field][place] if field else "")
                for literal, field in pieces
            )
        )
        for place in range(len(labels))
    ]
    columns = {"label": labels, "text": texts}
    if person is not None:
        ids = [
            str(value).encode(errors="surrogatepass") for value in records.values[person.id_column]
        ]
        columns[PERSON] = [hashlib.blake2b(value, digest_size=16).hexdigest() for value in ids]
    table = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
    filled = table.filter(pc.not_equal(table.column("text"), ""))
    empty = table.num_rows - filled.num_rows
    if empty and not (isinstance(contract.task, FreeText) or contract.leaves_out):
        raise DataError(
            where,
            "some texts are empty; expected something in every one",
            detail=f"{empty} of {table.num_rows} texts",
        )
    tell_left_out(
        where, left_out=records.left_out + (0 if isinstance(contract.task, FreeText) else empty)
    )
    return filled


@dataclass
class _Records:
    """Fields of records, of which those go that break a rule by themselves, or all are refused."""

    values: Fields
    where: str
    leave_out: bool
    left_out: int = 0

    def check(self, field: str, broken: Callable[[Any], bool], rule: str) -> None:
        """Records keep a rule of this field. Raises DataError: some do not, and are not to be left
        out.
        """
        is_broken = list(map(broken, self.values[field]))
        if (count := sum(is_broken)) and not self.leave_out:
            raise DataError(self.where, rule, count=count)
        self.left_out += count
        self.keep([not broken for broken in is_broken])

    def keep(self, kept: Sequence[bool]) -> None:
        """These records alone."""
        if not all(kept):
            self.values = {
                name: list(compress(values, kept)) for name, values in self.values.items()
            }


def _answer(records: _Records, field: str) -> None:
    """The answers of records that have one; the others are no records of this task."""
    records.values[_LABEL] = [
        [] if value is None else value if isinstance(value, list) else [value]
        for value in records.values[field]
    ]
    broken = f"field {field!r} is neither text nor a list of texts"
    records.check(_LABEL, lambda words: not all(isinstance(word, str) for word in words), broken)
    records.values[_LABEL] = [plain_text(" ".join(words)) for words in records.values[_LABEL]]
    has_any = bool(records.values[_LABEL])
    records.keep([bool(answer) for answer in records.values[_LABEL]])
    if has_any and not records.values[_LABEL]:
        tell_holder(f"{records.where}: no record has an answer in field {field!r}")


_PLACES = {
    "numpy": ("_core", "fft", "lib", "linalg", "ma", "matrixlib", "polynomial"),
    "pandas": (
        "core/arrays",
        "core/dtypes",
        "core/frame.py",
        "core/generic.py",
        "core/groupby",
        "core/indexes",
        "core/series.py",
    ),
    "scipy": (
        "cluster",
        "fft",
        "interpolate",
        "linalg",
        "ndimage",
        "signal",
        "spatial",
        "special",
        "sparse/linalg",
        "sparse/csgraph",
    ),
    "sklearn": (
        "base.py",
        "calibration.py",
        "cluster",
        "compose",
        "covariance",
        "decomposition",
        "dummy.py",
        "ensemble",
        "feature_extraction",
        "feature_selection",
        "gaussian_process",
        "impute",
        "isotonic.py",
        "linear_model",
        "metrics",
        "model_selection",
        "naive_bayes.py",
        "neighbors",
        "neural_network",
        "pipeline.py",
        "preprocessing",
        "svm",
        "tree",
    ),
}
"""Parts of each library that are rich in public functions, so that no library has many times the
sentences of another.
"""
_OPENED = re.compile(r"(?P<indent> *)(?:def|class) (?P<name>\w+)\s*[(:]")
_START = re.compile(r'\s+[rR]?"""(?P<rest>.*)')
_LENGTHS = range(25, 241)
_NAMES = re.compile(r"numpy|pandas|scipy|scikit|sklearn", re.IGNORECASE)
_TRAIN_SHARE = 0.85


def first_sentences() -> dict[str, Fields]:
    """Part ("train" or "test") -> fields `label` and `text`.

    A sentence stands once, is dropped where two libraries have it or where it names one of them,
    and is in a part by its own hash.

    Raises:
        SourceError: a library's source files are not there.
    """
    sentences = {library: sorted(set(_sentences(library))) for library in _PLACES}
    counts = Counter(text for texts in sentences.values() for text in texts)
    parts: dict[str, Fields] = {part: {"label": [], "text": []} for part in ("train", "test")}
    for library, texts in sentences.items():
        for text in texts:
            if counts[text] == 1:
                share = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64
                fields = parts["train" if share < _TRAIN_SHARE else "test"]
                fields["label"].append(library)
                fields["text"].append(text)
    return parts


def _sentences(library: str) -> Iterator[str]:
    spec = find_spec(library)
    roots = list(spec.submodule_search_locations or ()) if spec else []
    if not roots:
        raise SourceError(
            f"docstrings: the source files of {library} are not there; expected it installed as "
            f"files"
        )
    for place in _PLACES[library]:
        path = Path(roots[0]) / place
        for file in (
            [path]
            if path.suffix
            else sorted(file for file in path.rglob("*.py") if "tests" not in file.parts)
        ):
            for paragraph in (
                _paragraphs(file.read_text("utf-8").splitlines()) if file.is_file() else ()
            ):
                sentence = re.split(r"(?<=[.!?]) (?=[A-Z])", " ".join(paragraph.split()))[0]
                if (
                    len(sentence) in _LENGTHS
                    and sentence[0].isupper()
                    and sentence.endswith(".")
                    and not _NAMES.search(sentence)
                ):
                    yield sentence


def _paragraphs(lines: list[str]) -> Iterator[str]:
    """First paragraphs of the docstrings of public functions, and of classes and their methods."""
    outer = public = False
    for number, line in enumerate(lines):
        opened = _OPENED.match(line)
        if opened:
            public = not opened["name"].startswith("_") and (outer or not opened["indent"])
            outer = outer if opened["indent"] else public
        elif public and (start := _START.match(line)):
            public = False
            if lines[number - 1].rstrip().endswith(":"):
                text = "\n".join([start["rest"], *lines[number + 1 : number + 9]]).replace(
                    "\\\n", "\n"
                )
                yield re.split(r"\n\s*\n", text.split('"""')[0].strip())[0]
