"""Hashes of rows are equation (1), whichever way they are computed."""

from __future__ import annotations

import hashlib
import struct

import numpy as np
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from dpicl.data.reading.split import column_hashes, words_of
from dpicl.ground.types import NO_NUMBER

KEY = hashlib.sha256(b"a key").digest()


def plainly(columns: list[list[int]]) -> list[tuple[int, int]]:
    """Equation (1) a row at a time, of words of 64 bits."""

    def encrypted(*words: int) -> tuple[int, int]:
        encryptor = Cipher(algorithms.AES(KEY), modes.ECB()).encryptor()  # noqa: S305
        return struct.unpack("<QQ", encryptor.update(struct.pack("<QQ", *words)))

    found = []
    for row in zip(*columns, strict=True):
        first = second = 0
        for number, word in enumerate(row, 1):
            of_word = encrypted(number, word % 2**64)
            first, second = first ^ of_word[0], second ^ of_word[1]
        found.append(encrypted(first, second))
    return found


WORDS = {
    "int8": st.integers(-128, 127),
    "int16": st.integers(-3, 12),
    "int64": st.one_of(st.integers(0, 5), st.integers(-(2**63), 2**63 - 1)),
    "uint64": st.integers(0, 2**64 - 1),
}


@given(
    st.data(), st.lists(st.sampled_from(sorted(WORDS)), min_size=1, max_size=4), st.integers(0, 60)
)
def test_hashes_are_those_of_the_equation(data: st.DataObject, kinds: list[str], rows: int) -> None:
    words = [data.draw(st.lists(WORDS[kind], min_size=rows, max_size=rows)) for kind in kinds]
    hashes = column_hashes(list(map(np.array, words, kinds)), key=KEY)
    assert [tuple(row) for row in hashes.tolist()] == plainly(words)


@pytest.mark.parametrize(
    "words",
    [
        [7] * 9000,
        [*range(5000), *range(4000)],
        [NO_NUMBER] * 40,
        [2**63 - 1] * 40,
        [NO_NUMBER, 2**63 - 1] * 20,
    ],
)
def test_words_that_are_looked_up_have_the_hash_that_each_has_alone(words: list[int]) -> None:
    """A row's hash depends on no other row: not on how many there are, nor on what the lowest and
    highest are.
    """
    column = np.array(words)
    together = column_hashes([column], key=KEY)
    for place in (0, len(words) // 2, len(words) - 1):
        assert (column_hashes([column[place : place + 1]], key=KEY)[0] == together[place]).all()


def test_short_types_have_the_words_of_long_ones() -> None:
    values = [-2, 0, 100, 5] * 10
    short, long = (
        words_of(pa.chunked_array([pa.array(values, kind)])) for kind in (pa.int8(), pa.int64())
    )
    assert (column_hashes([short], key=KEY) == column_hashes([long], key=KEY)).all()
