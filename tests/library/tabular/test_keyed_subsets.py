"""Keyed subsets: one record more changes nobody else's place, and places have the law of a Poisson
sample.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpicl.ground.errors import ParameterError
from dpicl.mechanisms.disjoint_subsets import LEFT_OUT
from dpicl.mechanisms.keyed_subsets import (
    _derived,
    _shares,
    identities,
    keyed_subsets,
    record_marks,
)

KEY = bytes(range(32))
ROWS = 60_000
contents = st.lists(
    st.sampled_from([b"", b"a", b"b", b"ab", b"ba"]) | st.binary(max_size=3), max_size=12
)
rates = st.sampled_from([Fraction(1, 10), Fraction(1, 2), Fraction(99, 100), Fraction(1)])


def places(
    records: list[bytes],
    query: int = 0,
    rate: Fraction = Fraction(1, 2),
    count: int = 4,
    key: bytes = KEY,
) -> np.ndarray:
    marks = record_marks(identities(records), key=key)
    return keyed_subsets(marks, key=key, query=query, sampling_rate=rate, subset_count=count)


def placed(records: list[bytes], query: int, rate: Fraction) -> Counter[tuple[int, bytes]]:
    """What each subset holds: equal records are the same to everybody."""
    return Counter(zip(places(records, query, rate).tolist(), records, strict=True))


@cache
def many(
    query: int = 0, rate: Fraction = Fraction(3, 10), count: int = 6, key: bytes = KEY
) -> np.ndarray:
    return places([number.to_bytes(4, "big") for number in range(ROWS)], query, rate, count, key)


def dependent(one: np.ndarray, other: np.ndarray) -> bool:
    table = np.zeros((7, 7))
    np.add.at(table, (one + 1, other + 1), 1)
    return bool(stats.chi2_contingency(table).pvalue < 1e-4)


@given(contents, st.data(), rates, st.integers(0, 99))
def test_an_inserted_record_changes_nobody_s_place(
    records: list[bytes], data: st.DataObject, rate: Fraction, query: int
) -> None:
    record = data.draw(st.sampled_from([b"new", *records]))
    where = data.draw(st.integers(0, len(records)))
    more = records[:where] + [record] + records[where:]
    here, there = (placed(rows, query, rate) for rows in (records, more))
    (added,) = (there - here).elements()
    assert here - there == Counter() and added[1] == record


@given(contents, st.data(), rates)
def test_the_order_of_the_rows_does_not_matter(
    records: list[bytes], data: st.DataObject, rate: Fraction
) -> None:
    shuffled = data.draw(st.permutations(records))
    assert placed(records, 3, rate) == placed(shuffled, 3, rate)


def test_equal_records_are_distinct_and_keep_their_names() -> None:
    assert identities([b"x", b"y", b"x"])[:2] == identities([b"x", b"y"])
    assert len(set(identities([b"x"] * 50 + [b"y"] * 50))) == 100
    assert len(set(places([b"x"] * 50, rate=Fraction(1)).tolist())) == 4


def test_the_same_key_and_query_give_the_same_places_and_others_give_others() -> None:
    same = many()
    assert np.array_equal(same, many())
    for other in (many(query=1), many(key=bytes(32))):
        assert not dependent(same, other) and not np.array_equal(same, other)
    assert dependent(same, same), "a dependence would be noticed"


def test_a_place_is_one_block_of_aes() -> None:
    """By hand, for one record, with exact whole numbers."""
    mark = record_marks(identities([b"record"]), key=KEY)
    encryptor = Cipher(algorithms.AES(_derived(KEY, b"dpicl places")), modes.ECB()).encryptor()
    block = encryptor.update(mark.tobytes() + (7).to_bytes(4, "big"))
    word, value = int.from_bytes(block[:8], "big"), int.from_bytes(block[8:], "big")
    for numerator in (1, 5, 9):
        (place,) = keyed_subsets(
            mark, key=KEY, query=7, sampling_rate=Fraction(numerator, 10), subset_count=1000
        ).tolist()
        assert place == (value * 1000 >> 64 if word < (numerator << 64) // 10 else LEFT_OUT)


@given(
    st.lists(st.integers(0, 2**64 - 1) | st.sampled_from([0, 2**64 - 1, 2**63, 2**32 - 1])),
    st.integers(1, 2**32 - 1),
)
def test_shares_are_exact(words: list[int], count: int) -> None:
    assert _shares(np.array(words, dtype=np.uint64), count).tolist() == [
        word * count >> 64 for word in words
    ]


def test_a_row_takes_part_at_the_rate_and_falls_into_every_subset_alike() -> None:
    for query in (0, 2**32 - 1):
        seen = np.bincount(many(query) + 1, minlength=7)
        for rate, fits in ((0.3, True), (0.31, False)):  # a wrong rate would be noticed
            law = np.array([1 - rate, *[rate / 6] * 6])
            assert (stats.chisquare(seen, law * ROWS).pvalue > 1e-4) == fits


def test_two_records_are_independent() -> None:
    pairs = many().reshape(-1, 2)
    assert not dependent(pairs[:, 0], pairs[:, 1])


def test_over_many_queries_a_record_takes_part_at_the_rate() -> None:
    seen = np.bincount([places([b"one"], query)[0] + 1 for query in range(4000)], minlength=5)
    assert stats.chisquare(seen, np.array([0.5, *[0.125] * 4]) * 4000).pvalue > 1e-4


@pytest.mark.parametrize(
    "wrong",
    [
        {"rate": Fraction(0)},
        {"rate": Fraction(3, 2)},
        {"count": 0},
        {"count": 2**32},
        {"query": -1},
        {"query": 2**32},
    ],
)
def test_numbers_out_of_range_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ParameterError, match="expected"):
        places([b"a"], **wrong)  # type: ignore[arg-type]


def test_a_short_key_is_refused_and_not_shown() -> None:
    with pytest.raises(ParameterError, match="key=6 bytes.*expected 32 bytes") as refused:
        places([b"a"], key=b"secret")
    assert "secret" not in str(refused.value)
