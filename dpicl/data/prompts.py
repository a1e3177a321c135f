"""From released or public values to the sentences of a prompt.

Guarantee   none spent: accepts released rows and groups (post-processing) and queries,
            which are public as far as this system goes. A private table is a type error.
Paper       DP-TabICL section IV-C, tables VIII and IX.

Released rows of bins as demonstrations: in the words of queries, each number drawn inside its bin.

Which released rows demonstrate for which query: post-processing by public rules, at no cost.

Prompts over texts: those that write demonstrations, and those that ask queries.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from dpicl.contract.columns.base import MISSING
from dpicl.contract.models import Contract
from dpicl.contract.parts import Wording, places_of
from dpicl.contract.pipeline import Cell
from dpicl.contract.text import GenerationPrompt, TextContract
from dpicl.data.reading.encode import UNKNOWN
from dpicl.data.values import Meaning, RowForm
from dpicl.ground.errors import ParameterError
from dpicl.ground.randomness import Draws
from dpicl.ground.types import (
    EncodedQueries,
    QueryTable,
    ReleasedGroups,
    ReleasedRows,
)

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
    target = contract.target
    row = " ".join(body.split())
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
        value = values[field]
        rule = wording.words[word]
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


def row_demonstrations(
    bins: np.ndarray,
    shares: np.ndarray,
    form: RowForm,
    contract: Contract,
    totals: Mapping[int, np.ndarray] = MappingProxyType({}),
) -> list[str]:
    """One demonstration per row, answer included.

    Args:
        bins: of shape (rows, columns), the label last; what they stand for is in `form`.
        shares: of what its bin holds, what is below each number, in [0, 1): shape (rows, features).
        totals: by column, numbers that stand there instead, where they are not NaN.
    """
    columns = [
        _values(meaning, bins[:, place], shares[:, place], contract, totals.get(place))
        for place, meaning in enumerate(form.features)
    ]
    return _texts(columns, bins[:, -1].tolist(), contract)


def longest_demonstration(contract: Contract) -> str:
    """The longest text of a row or of averages that the contract allows: public."""
    choices = [_choices(contract, name) for name in contract.features]

    def texts(places: np.ndarray) -> list[str]:
        columns = [
            [some[place] for place in column]
            for some, column in zip(choices, places.T.tolist(), strict=False)
        ]
        return _texts(columns, places[:, -1].tolist(), contract)

    return longest_text([*map(len, choices), contract.target.count], texts)


def _texts(columns: list[list[float | str]], labels: list[int], contract: Contract) -> list[str]:
    rows = zip(*columns, strict=True) if columns else ((),) * len(labels)
    return [
        _central_text(dict(zip(contract.features, row, strict=True)), contract, label)
        for row, label in zip(rows, labels, strict=True)
    ]


def _values(
    meaning: Meaning,
    codes: np.ndarray,
    shares: np.ndarray,
    contract: Contract,
    instead: np.ndarray | None,
) -> list[float | str]:
    if meaning.categories:
        return contract.columns[meaning.column].values(codes)
    column = contract.numbers[meaning.column]
    digits = min(meaning.digits, column.decimals)
    numbers = meaning.placed(codes, shares, digits)
    if instead is not None:
        numbers = np.where(np.isnan(instead), numbers, instead)
    return column.values(numbers)


def _choices(contract: Contract, name: str) -> list[float | str]:
    """Among what a column may hold, of every text that a number leads to one of the longest: at
    ends and cuts, and one last digit beside them.
    """
    column = contract.numbers.get(name)
    if column is None:
        return list(contract.listed[name].categories)
    words = contract.prompts.central.words.values() if contract.prompts else ()
    cuts = [
        *column.bounds,
        *column.edges(contract.cuts_of(name)),
        *(cut for word in words if word.field == name for cut in word.cuts),
    ]
    beside = np.add.outer(cuts, np.array([-1, 0, 1]) * 10.0**-column.decimals)
    return [
        *np.unique(np.clip(beside, *column.bounds)).tolist(),
        *([MISSING] if column.nullable else []),
    ]


SHARED_SETS, POOL = 50, 2048
MOST_SHOTS = 512
Item = TypeVar("Item")
_NESTED = 64
"""So many nested shots are drawn at once; further ones follow them."""
SAME_FOR_ALL = ("icl-prototype", "icl-diverse")
"""Systems whose demonstrations are chosen by a rule that looks at no query."""


def picked_rows(rows: np.ndarray, queries: np.ndarray, cell: Cell, draws: Draws) -> np.ndarray:
    """Positions of the rows that demonstrate: int64 of shape (queries, k); of fewer rows than shots
    some demonstrate more than once.

    Args:
        rows: bins of released rows, shape (rows, columns), the label last.
        queries: bins of the queries; their last column, the truth, is not looked at.
    """
    shots = cell.shots or 0
    row_count = len(rows)
    query_count = len(queries)
    if row_count < shots:
        return (
            picked_rows(np.resize(rows, (shots, rows.shape[1])), queries, cell, draws) % row_count
        )
    if cell.system == "icl-nested":
        every = replace(cell, shots=None)
        first = _draws(row_count, query_count, min(_NESTED, row_count), every, draws)
        if shots <= _NESTED:
            return first[:, :shots]
        return _with_further(first, row_count, shots, every, draws)
    if cell.system == "icl-shared":
        return _draws(row_count, SHARED_SETS, shots, cell, draws)[
            np.arange(query_count) % SHARED_SETS
        ]
    if cell.system in (*SAME_FOR_ALL, "icl-near"):
        # of all rows every draw would be the same
        size = row_count if cell.draw is None else max(shots, row_count // 2)
        pool = _draws(
            row_count, 1, min(POOL, size), replace(cell, shots=None, sampling_rate=None), draws
        )[0]
        if cell.system == "icl-near":  # of equals those that were drawn first
            nearest = [
                np.argsort((rows[pool, :-1] != query).sum(axis=1), kind="stable")[:shots][::-1]
                for query in queries[:, :-1]
            ]
            return pool[np.reshape(np.array(nearest, dtype=np.int64), (query_count, shots))]
        # Of all labels in turn, the more frequent first, and from the start again where there are
        # no more.
        of_labels = [pool[rows[pool, -1] == label] for label in np.unique(rows[pool, -1])]
        diverse = cell.system == "icl-diverse"
        ranked = [
            some[_ranked(rows[some, :-1], shots, diverse=diverse)]
            for some in sorted(of_labels, key=len, reverse=True)
        ]
        turns = in_turn(
            np.concatenate([order[:shots] for order in ranked]).tolist(),
            lambda place: rows[place, -1],
        )
        return np.tile(np.resize(turns, shots), (query_count, 1))
    return _draws(row_count, query_count, shots, cell, draws)


def in_turn(items: Iterable[Item], part_of: Callable[[Item], Hashable]) -> list[Item]:
    """The first item of every part, in the order in which parts first occur, then the second of
    every part that has one, and so on.
    """
    parts: dict[Hashable, list[Item]] = {}
    for item in items:
        parts.setdefault(part_of(item), []).append(item)
    most = max(map(len, parts.values()), default=0)
    return [part[turn] for turn in range(most) for part in parts.values() if turn < len(part)]


def _draws(row_count: int, count: int, shots: int, cell: Cell, draws: Draws) -> np.ndarray:
    rng = draws.public("sample", cell.key).generator()
    return np.array(
        [rng.choice(row_count, shots, replace=False, shuffle=True) for _ in range(count)]
    ).reshape(count, shots)


def _with_further(
    first: np.ndarray, row_count: int, shots: int, cell: Cell, draws: Draws
) -> np.ndarray:
    """First rows for each query, and behind them further ones: the beginning of the same for more
    shots.
    """
    rng = draws.public("sample", f"{cell.key},further").generator()
    picked = np.empty((len(first), shots), dtype=first.dtype)
    for own, begun in zip(picked, first, strict=True):
        further = rng.choice(row_count, min(MOST_SHOTS, row_count), replace=False, shuffle=True)
        own[:] = np.concatenate([begun, further[~np.isin(further, begun)]])[:shots]
    return picked


def _ranked(rows: np.ndarray, count: int, *, diverse: bool) -> np.ndarray:
    """Positions of at most `count` different rows, the most typical first."""
    distinct, first, weights = np.unique(rows, axis=0, return_index=True, return_counts=True)
    # Whole numbers far below 2^24, exact as float32: columns that agree are counted as a product of
    # indicators.
    weights = weights.astype(np.float32)
    indicators = np.hstack(
        [column[:, np.newaxis] == np.unique(column) for column in distinct.T]
    ).astype(np.float32)
    apart = distinct.shape[1] - indicators @ indicators.T
    chosen = [int((weights @ apart).argmin())]
    nearest = apart[:, chosen[0]]
    while len(chosen) < min(count, len(distinct)):
        if diverse:
            chosen.append(int(np.lexsort((weights, nearest))[-1]))
        else:
            gains = weights @ np.maximum(nearest[:, np.newaxis] - apart, 0)
            gains[chosen] = -1
            chosen.append(int(gains.argmax()))
        nearest = np.minimum(nearest, apart[:, chosen[-1]])
    return first[chosen]


CONTENT_FREE = ("N/A", "", "[MASK]")
"""Texts without content; the empty one leaves the blank after the text's word, as in the program of
Zhao et al.
"""
PUBLIC_TEXT = "A text that nobody has shown me."
"""In place of a private one, where a model is probed whether it answers at all."""


def instruction_piece(contract: TextContract) -> str:
    """What a prompt for writing begins with; public."""
    return f"{_generation_words(contract).instruction}\n\n"


def example_piece(contract: TextContract, text: str, label_text: str) -> str:
    """One private text with its label."""
    words = _generation_words(contract)
    return f"{words.label}: {label_text}\n{words.text}: {text}\n\n"


def header_piece(contract: TextContract, label_text: str) -> str:
    """What a prompt for writing ends with; the new text follows, after a blank."""
    words = _generation_words(contract)
    return f"{words.label}: {label_text}\n{words.text}:"


def _generation_words(contract: TextContract) -> GenerationPrompt:
    words = contract.prompts.generation
    if words is None:
        raise ParameterError(
            "prompts.generation",
            "missing",
            f"the words for writing demonstrations: {contract.name} has none",
        )
    return words


def asking_demonstration(contract: TextContract, text: str, label_text: str) -> str:
    """A text with its answer."""
    return f"{asking_query(contract, text)} {label_text}"


def asking_query(contract: TextContract, text: str) -> str:
    """A text whose answer follows, after a blank."""
    words = contract.prompts.answering
    return f"{words.text}: {text}\n{words.answer}:"


def keywords_query(contract: TextContract, text: str, keywords: Sequence[str]) -> str:
    """A text whose answer is to use some words; without any it is `asking_query`."""
    words = contract.prompts.answering
    if not keywords or words.keywords is None:
        return asking_query(contract, text)
    return f"{words.text}: {text}\n{words.keywords}: {', '.join(keywords)}\n{words.answer}:"


def asking_prompt(contract: TextContract, demonstrations: Sequence[str], query: str) -> str:
    """One prompt; no demonstrations give the zero-shot prompt."""
    instruction = contract.prompts.answering.instruction
    return "\n\n".join([*([instruction] if instruction else []), *demonstrations, query])


def continuations(contract: TextContract) -> tuple[str, ...]:
    """What is scored after a prompt: one answer per label, in the contract's order.

    Raises:
        ParameterError: the answers are open.
    """
    if not contract.is_classification:
        raise ParameterError(
            "task", contract.task.kind, "classification, whose answers are a public list"
        )
    return tuple(f" {contract.label_text(label)}" for label in contract.demonstrated)
