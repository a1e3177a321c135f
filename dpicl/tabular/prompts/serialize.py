"""From released or public values to the sentences of a prompt.

Guarantee   none spent: accepts released rows and groups (post-processing) and queries,
            which are public as far as this system goes. A private table is a type error.
Paper       DP-TabICL section IV-C, tables VIII and IX.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache

import numpy as np

from dpicl.contract.columns.base import MISSING
from dpicl.contract.derive import Wording, places_of
from dpicl.contract.models import Contract
from dpicl.tabular.reading.encode import UNKNOWN
from dpicl.types import EncodedQueries, QueryTable, ReleasedGroups, ReleasedRows

UNKNOWN_TEXT = "unknown"


def _fill(wording: Wording, fields: Mapping[str, str], part_of: Callable[[str, str], int]) -> str:
    """The text with its fields and words; `part_of(word, field)` picks a word's text."""
    words = {
        name: _put(places_of(word.texts[part_of(name, word.field)]), fields)
        for name, word in wording.words.items()
    }
    return _put(wording.pieces, {**fields, **words})


def _put(pieces: Sequence[tuple[str, str | None]], fields: Mapping[str, str]) -> str:
    return "".join(plain if name is None else plain + fields[name] for plain, name in pieces)


def _with_question(body: str, contract: Contract, label: int | None) -> str:
    target, row = contract.target, " ".join(body.split())
    if target.kind == "none":
        return row
    return f"{row} {target.question} {target.cue}" + (
        "" if label is None else f" {target.answers[label]}"
    )


def _local_text(contract: Contract, bins: tuple[int, ...], label: int | None) -> str:
    attributes = dict(zip([attribute.name for attribute in contract.attributes], bins, strict=True))
    texts = {
        attribute.name: UNKNOWN_TEXT if bins[i] == UNKNOWN else attribute.texts[bins[i]]
        for i, attribute in enumerate(contract.attributes)
    }
    # A word about an unknown bin takes the wording of the first, which texts put most plainly.
    body = _fill(contract.wording[0], texts, lambda _, field: max(attributes[field], 0))
    return _with_question(body, contract, label)


def local_demonstrations(
    rows: ReleasedRows, decode: Callable[[np.ndarray], np.ndarray], contract: Contract
) -> list[str]:
    """One demonstration per released row, answer included; `decode` maps reported answers to bins,
    label last.
    """
    text = cache(lambda bins: _local_text(contract, bins[:-1], bins[-1]))
    return [text(tuple(bins)) for bins in decode(rows.codes).tolist()]


def local_queries(queries: EncodedQueries, contract: Contract) -> list[str]:
    """One query per held-out row, ending in the answer cue."""
    text = cache(lambda bins: _local_text(contract, bins, None))
    return [text(tuple(bins)) for bins in queries.codes[:, :-1].tolist()]


def _central_text(values: Mapping[str, float | str], contract: Contract, label: int | None) -> str:
    wording = contract.wording[1]
    fields = {name: contract.columns[name].worded(value) for name, value in values.items()}

    def part_of(word: str, field: str) -> int:
        value, rule = values[field], wording.words[word]
        if rule.parts:
            return _category_part(rule.parts, str(value))
        if value == MISSING:
            return len(rule.cuts) + 1
        return int(np.searchsorted(rule.cuts, value, side="right"))

    return _with_question(_fill(wording, fields, part_of), contract, label)


@lru_cache(maxsize=4096)
def _category_part(parts: tuple[tuple[str, ...] | str, ...], value: str) -> int:
    named = [index for index, part in enumerate(parts) if part != "rest" and value in part]
    return named[0] if named else parts.index("rest")


def central_demonstrations(groups: ReleasedGroups, contract: Contract) -> list[str]:
    """One demonstration per released group, in the partition's order, answer included."""
    return [_central_text(group.values, contract, group.label) for group in groups.groups]


def central_queries(queries: QueryTable, contract: Contract) -> list[str]:
    """One query per held-out row, ending in the answer cue."""
    columns = [contract.columns[name].values(queries.stored(name)) for name in contract.features]
    rows = zip(*columns, strict=True)
    return [
        _central_text(dict(zip(contract.features, row, strict=True)), contract, None)
        for row in rows
    ]


def longest_text(counts: Sequence[int], texts: Callable[[np.ndarray], list[str]]) -> str:
    """The longest text of a row that contracts allow, one column after another at its longest:
    public.

    Args:
        counts: of codes of every column.
        texts: of rows of codes, shape (rows, columns).
    """
    longest = np.zeros((1, len(counts)), dtype=np.int64)
    for column, count in enumerate(counts):
        rows = np.repeat(longest, count, axis=0)
        rows[:, column] = np.arange(count)
        longest[0, column] = int(np.argmax([len(text) for text in texts(rows)]))
    return texts(longest)[0]
